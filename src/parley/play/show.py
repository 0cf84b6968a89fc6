"""`parley show`: a record for people, and its replies.

What is printed is YAML, whose strings are escaped: a record may come from anyone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from parley.errors import RecordError
from parley.play.live import Transcript
from parley.play.live_screen import can_draw, print_final
from parley.play.matrix import WatchedGame
from parley.play.matrix_text import outcome_line
from parley.play.record import Summary, provenance_warnings, read_record
from parley.play.replay import play_recorded, rebuild_game
from parley.text import one_line
from parley.text.yamlfile import yaml_text


def summary_text(path: Path, summary: Summary) -> str:
    """Return what a record says of its simulation as a whole, provenance in full, as YAML."""
    of_engines = provenance_warnings(summary.provenance)
    return yaml_text(
        {
            "record": str(path),
            "simulation": summary.simulation,
            "outcome": summary.outcome,
            "telemetry": summary.telemetry,
            "digest": summary.digest,
            **({"warnings": of_engines} if of_engines else {}),
            "provenance": summary.provenance,
        }
    )


def show_replies(path: Path, show: Callable[[str], None], terminal: TextIO) -> None:
    """Show the replies of a record in full, a line for each and one for each text, then how the game ended.

    A `terminal` that can show it gets the matrix at the end. Where this version cannot play the game again, such as an
    imported one without its prompts, replies come as they were written. Raises RecordError if it cannot be read.
    """
    summary, entries = read_record(path)
    try:
        watched = WatchedGame(rebuild_game(path, summary))
        played = play_recorded(summary, watched.game, entries, [watched])
    except RecordError as error:
        show(f"# As they were written; {one_line(str(error))}")
        for entry in entries:
            where = f"round {entry.round}, {one_line(entry.phase)}, {one_line(entry.agent)}"
            show(f"{where}: {one_line(entry.text)}")
        return
    Transcript(show, True, watched.game.read_texts, longest=None).phase_over(played.exchanges)
    if can_draw(terminal):
        print_final(watched, [one_line(str(path))], terminal)
    else:
        show(outcome_line(type(watched.game), played.outcome))
