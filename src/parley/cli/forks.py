"""The command for a recorded game that is changed in one place and let go on."""

from pathlib import Path

import click

from parley.cli.common import ENDPOINTS, MODELS_FILE, PATH, TIMEOUT


@click.command()
@click.argument("record", type=PATH)
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
@click.option("--reasoning", is_flag=True, help="Print the texts too, private notes included.")
@MODELS_FILE
@ENDPOINTS
@TIMEOUT
def fork(
    record: Path,
    at: str,
    changes: tuple[str, ...],
    repeats: int,
    reasoning: bool,
    models: Path,
    endpoints: tuple[Path, ...],
    engine_timeout: float,
) -> None:
    """Play a recorded game again up to a point, change it there, let it go on, and compare both ends.

    What was said before the point is taken from the record: nobody is asked for it again. What follows is asked with
    new sampling seeds. The first fork is shown from its change on. Nothing is recorded; `fork:` in a study does that.

    \b
    none                                       the same game again: the noise
    'silence: AGENT'                           it says nothing from there on; a role is all of its agents
    'silence_once: AGENT'                      the same for one phase; what others say in it stays
    'say: {seat: AGENT, value: 7}'             other fields of its reply there; or text: the whole reply
    'swap: {seat: byzantine, to: majority}'    who plays from there on: a policy, a model, or a role (honest)

    \b
    Examples:  parley fork seed=3.parquet --at 2 --change 'silence: byzantine'
               parley fork seed=3.parquet --at 2:vote --change 'say: {seat: agent_1, decision: stop}' --repeats 1
    """
    from parley.play.forks import forks_line
    from parley.play.live import show_forks, study_of_record

    study = study_of_record(record, [at], changes, repeats, models)
    click.echo(forks_line(study))
    show_forks(study, endpoints, engine_timeout, reasoning, click.echo)


COMMANDS = (fork,)
