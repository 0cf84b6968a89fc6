"""The commands for recorded games that are changed in one place and let go on."""

from collections import defaultdict
from pathlib import Path

import click

from parley.cli.common import ENDPOINTS, JSON, MODELS_FILE, PATH, TIMEOUT, refuse_folder, tell
from parley.text import counted, table

_RECORD = click.argument("record", type=PATH)


@click.command()
@_RECORD
@click.option("--at", required=True, metavar="ROUND[:PHASE]", help="Where it is changed: before what is asked there.")
@click.option(
    "--change",
    "changes",
    multiple=True,
    required=True,
    metavar="CHANGE",
    help="none, silence, silence_once, say or swap, as in a study; may be repeated.",
)
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1, 100), help="Forks of each change.")
@click.option("--same-seeds", is_flag=True, help="Sample with the seeds of the record, not with new ones; once.")
@click.option("--reasoning", is_flag=True, help="Print the texts too, private notes included.")
@MODELS_FILE
@ENDPOINTS
@TIMEOUT
def fork(
    record: Path,
    at: str,
    changes: tuple[str, ...],
    repeats: int,
    same_seeds: bool,
    reasoning: bool,
    models: Path,
    endpoints: tuple[Path, ...],
    engine_timeout: float,
) -> None:
    """Play a recorded game again up to a point, change it there, let it go on, and compare both ends.

    What was said before the point is taken from the record: nobody is asked for it again. What follows is asked with
    new sampling seeds. The first fork is shown as it is played. Nothing is recorded; `fork:` in a study does that.

    \b
    none                                       the same game again: the noise
    'silence: AGENT'                           it says nothing from there on; a role is all of its agents
    'silence_once: AGENT'                      the same for one phase; what others say in it stays
    'say: {seat: AGENT, value: 7}'             other fields of its reply there; or text: the whole reply
    'swap: {seat: byzantine, to: majority}'    who plays from there on: a policy, a model, or a role (honest)

    \b
    Examples:  parley fork seed=3.parquet --at 2 --change 'silence: byzantine'
               parley fork seed=3.parquet --at 2:vote --change 'say: {seat: agent_1, decision: stop}' --repeats 1
               parley fork seed=3.parquet --at 1 --change none --same-seeds
    """
    from parley.play.forks import forks_line
    from parley.play.live_fork import ForkTranscript, end_lines, play_forks, recorded_play, study_of_record

    refuse_folder(record)
    study = study_of_record(record, [at], changes, 1 if same_seeds else repeats, models, anew=not same_seeds)
    click.echo(forks_line(study))
    shown = ForkTranscript(click.echo, reasoning, study.game.read_texts)
    played = list(play_forks(study, endpoints, engine_timeout, [shown]))
    for line in end_lines(study.game, recorded_play(study), played):
        click.echo(line)


@click.command()
@_RECORD
@click.option("--at", "at", multiple=True, metavar="ROUND[:PHASE]", help="Messages of these alone; default: of all.")
@click.option("--repeats", default=5, show_default=True, type=click.IntRange(1, 100), help="Forks of each message.")
@click.option("--plan", is_flag=True, help="Print what it takes, and play nothing.")
@MODELS_FILE
@ENDPOINTS
@TIMEOUT
@JSON
def scan(
    record: Path,
    at: tuple[str, ...],
    repeats: int,
    plan: bool,
    models: Path,
    endpoints: tuple[Path, ...],
    engine_timeout: float,
    as_json: bool,
) -> None:
    """Tell of each message of a recorded game how much its outcome depends on it.

    Each message in turn is left out, what else was said in its phase stays, and the game goes on from there. The
    influence of a message is how much less often such forks end as the recorded game did than forks in which nothing
    is left out: 0 if the outcome does not depend on it. With few repeats it is rough: beside it stand its 95%
    interval, and p corrected over all messages (Holm). With five repeats no p of 19 messages is below 0.05.

    \b
    Examples:  parley scan seed=3.parquet --plan
               parley scan seed=3.parquet --at 1 --repeats 20
    """
    from parley.analysis.forks import UNCHANGED, influence_samples
    from parley.play.forks import forks_line
    from parley.play.live_fork import ends_alike, play_forks, recorded_play, study_of_record
    from parley.statistics.differences import compare
    from parley.study.study_file import EACH

    refuse_folder(record)
    study = study_of_record(record, at or [EACH], ["silence: each", "none"], repeats, models, needs_weights=not plan)
    if not as_json or plan:
        click.echo(forks_line(study))
    if plan:
        return
    recorded = recorded_play(study)
    alike: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for simulation, play in play_forks(study, endpoints, engine_timeout):
        axes = simulation.condition.axes
        alike[str(axes["at"]), str(axes["change"])].append(ends_alike(study.game, recorded, play))
    samples = []
    for (point, change), changed in alike.items():
        number, _, phase = point.partition("-")
        about = {"round": int(number), "phase": phase, "agent": change.partition("-")[2]}
        if change not in UNCHANGED:
            samples.append(influence_samples(about, changed, alike.get((point, "keep"), []), family="scan"))
    names = ["round", "phase", "agent", "influence", "low", "high", "p_holm"]
    rows = compare(samples).rename(columns={"difference": "influence"}).reindex(columns=names).to_dict("records")
    rows.sort(key=lambda row: -abs(row["influence"]))  # stable: the game's order among equals
    some = [row for row in rows if row["influence"]]
    header = ("round", "phase", "agent", "influence", "95% interval", "p corrected")
    cells = []
    for row in some:
        numbers = (f"{row['influence']:+.2f}", f"{row['low']:.2f} to {row['high']:.2f}", f"{row['p_holm']:.2g}")
        cells.append([row["round"], row["phase"], row["agent"], *numbers])
    none = f"{counted(len(rows) - len(some), 'message')} without influence"
    tell(as_json, rows, [*(table(header, cells) if some else ()), none])


COMMANDS = (fork, scan)
