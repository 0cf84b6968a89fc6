"""Pauses: games of a model whose replies nobody can use stop after some twenty, since more would measure nothing.

The processes of a study count together: each adds a letter for each reply to a file of the model, and leaves another
that all look for before they ask. The next run removes both, and looks again.
"""

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from parley import paths
from parley.errors import PausedError
from parley.files import open_to_append, read_regular, remove, remove_empty_below, write_atomically
from parley.play.degenerate import REMEDIES
from parley.play.runner import Exchange, Watcher
from parley.policies import FAILURE_CLASSES, Ask
from parley.study import Study
from parley.study.condition import Player
from parley.text import one_line

GO_ON = "PARLEY_GO_ON"
_FIRST = 20  # replies of a model before it is judged, by all that it gave; then after each 20 more
_LETTERS: Mapping[str | None, str] = {
    name: chr(ord("a") + place) for place, name in enumerate((None, *FAILURE_CLASSES))
}


def clear_pauses(study: Study) -> None:
    """Forget which models of a study are paused: a new run looks again, and of a finished one nothing is left."""
    for path in _pauses(study):
        remove(path)
        remove(path.with_suffix(".count"))
    remove_empty_below(paths.paused(study.name, "").parent)


def paused_lines(study: Study) -> list[str]:
    """Return why models of a study are paused, a line for each."""
    return [line for path in _pauses(study) if (line := _why(path)) is not None]


def _pauses(study: Study) -> list[Path]:
    models = {model for condition in study.whole.conditions for model in condition.models}
    return [paths.paused(study.name, model) for model in sorted(models)]


def _why(path: Path) -> str | None:
    with suppress(OSError):  # what is no file of ours is written anew after the next replies
        return read_regular(path, follow=False).decode(errors="replace")
    return None


class PauseWatcher(Watcher):
    """Counts the replies of models in a game, and ends it before it asks more of a model that is paused."""

    def __init__(self, study: Study, players: Mapping[str, Player]) -> None:
        self._most = study.content.most_unusable
        self._command = f"parley run {paths.study_command(study.file)}"
        models = {name: player.model for name, player in players.items() if player.model is not None}
        if self._most is None or os.environ.get(GO_ON):
            models = {}
        self._files = {name: paths.paused(study.name, model).absolute() for name, model in models.items()}

    def requesting(self, ask: Ask) -> None:
        """Raise PausedError if a paused model would be asked."""
        path = self._files.get(ask.agent)
        if path is not None and (why := _why(path)) is not None:
            raise PausedError(why)

    def answered(self, exchange: Exchange) -> None:
        """Count an attempt."""
        path = self._files.get(exchange.ask.agent)
        if path is None or exchange.entry.given or path.exists():
            return
        with open(open_to_append(path.with_suffix(".count"), 0o666), "ab+") as file:
            file.write(_LETTERS[exchange.reply.failure].encode())
            file.flush()
            asked = file.tell()  # each process knows which reply its own was
            if asked % _FIRST:
                return
            file.seek(0)
            letters = Counter(file.read(min(asked, 10_000_000)).decode(errors="replace"))
        unusable = {name: letters[_LETTERS[name]] for name in FAILURE_CLASSES}
        if sum(unusable.values()) < (self._most or 0) * asked:
            return
        most = max(FAILURE_CLASSES, key=unusable.__getitem__)
        begins = one_line(exchange.entry.text or exchange.entry.reasoning or "", 80)
        line = (
            f"{path.stem}: paused: {sum(unusable.values())} of its first {asked} replies cannot be used, "
            f"{unusable[most]} of them {most}, the last one begins {begins!r}; change {REMEDIES[most]}, and run the "
            f"same command again; {self._command} --go-on plays on all the same"
        )
        write_atomically(path, lambda file: file.write(line.encode()))
