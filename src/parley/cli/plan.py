"""The command `plan`: what a study can find, before it runs."""

from pathlib import Path

import click

from parley.cli.options import MODELS, STUDY, load, say


@click.command()
@STUDY
@MODELS
@click.option(
    "--from", "other", metavar="STUDY", help="Another study whose records tell rates, tokens and times, too."
)
@click.option(
    "--base",
    type=click.FloatRange(0, 1),
    metavar="RATE",
    help="Rate that is assumed of the first condition of each question; the other differs by the smallest difference.",
)
@click.option("--freeze", is_flag=True, help="Write the preregistration beside the study file instead.")
@click.option("--force", is_flag=True, help="With --freeze: write it anew, what a person wrote in it is lost.")
def plan(study: str, models: Path | None, other: str | None, base: float | None, freeze: bool, force: bool) -> None:
    """Show what the questions of a study can find, how many seeds that takes, and what it costs.

    Nothing needs to be played. Rates are those that a question expects, or the records' of a pilot; tokens, hours and
    money are of records alone. The table and a figure go to results/STUDY/plan. --freeze writes the preregistration
    STUDY.frozen.md, which a person completes, and to which each report compares the study.

    \b
    Examples:  parley plan paper
               parley plan paper --from first-look
               parley plan paper --freeze
    """
    from parley.cli.plan_text import lines
    from parley.errors import UsageError
    from parley.study.companions import companions
    from parley.study.frozen import frozen_state, write_frozen

    loaded = load(study, models, needs_weights=False)
    if force and not freeze:
        raise UsageError("--force: only with --freeze")
    if freeze:
        click.echo(str(write_frozen(loaded, force)))
        return
    beside = [f"{each.label}: {each.text}" for each in companions(loaded)]
    for line in lines(loaded, load(other, models, needs_weights=False) if other else None, base):
        click.echo(line)
    for line in beside:
        say(line)
    say(f"preregistration: {frozen_state(loaded)}")


COMMANDS = (plan,)
