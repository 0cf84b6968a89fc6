"""The commands for people: watch, read and check what was played; measure a model."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from parley import paths
from parley.cli import common
from parley.errors import ParleyError, RecordError, UsageError
from parley.text import one_line, table

if TYPE_CHECKING:
    from parley.study import Study


@click.command()
@common.study_loaded()
@common.PLAYED_BY
@click.option("--n", type=click.IntRange(min=1), help="Number of agents.")
@click.option("--b", type=click.IntRange(min=0), help="Number of Byzantine agents.")
@click.option("--prompt", help="Prompt variant.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@common.WHERE
@common.ENDPOINTS
@click.option("--reasoning", is_flag=True, help="Print the texts too, private notes included.")
@common.TIMEOUT
def play(
    study: "Study",
    seed: int,
    where: tuple[str, ...],
    endpoints: tuple[Path, ...],
    reasoning: bool,
    engine_timeout: float,
    **axes: Any,
) -> None:
    """Play one game of a study's first condition that fits, live in the terminal; the study gets no record of it.

    A terminal shows a matrix of agents by rounds: equal replies in one color, and at the end what the game says of
    each agent. In a pipe, with NO_COLOR or where there is little room, each reply is a line.

    \b
    Examples:  parley play demo --n 12 --b 3
               parley play demo --model smollm2-135m --b 1 --reasoning
               parley play adversaries --where byzantine=equivocate --seed 3
    """
    from parley.play.live import play as play_live

    if axes["model"] is not None:
        study = common.with_model(study, axes, study.game.roles[0])
    values = {axis: value for axis, value in axes.items() if value is not None}
    for axis, value in common.axis_values(where).items():
        if values.setdefault(axis, value) != value:
            raise UsageError(f"--where {axis}={value}: --{axis} says {values[axis]}; give one of them")
    play_live(study, values, seed, endpoints, engine_timeout, reasoning, click.echo, sys.stdout)


@click.command()
@common.study_loaded(needs_weights=False)
@click.option("--watch", is_flag=True, help="Keep showing it until all is done; Ctrl-C ends it.")
def status(study: "Study", watch: bool) -> None:
    """Show how far a study is: finished, in progress, to do; replies and tokens per second, time left, problems.

    It looks at files alone, so it tells of a run in another terminal or on a cluster, too. With --watch in a pipe it
    prints a line every 30 seconds.

    \b
    Examples:  parley status paper
               parley status paper --watch
    """
    from parley.progress import display

    if watch:
        display.watch(study)
        return
    for line in display.status(study):
        click.echo(line)


@click.command()
@click.argument("records", nargs=-1, required=True, type=common.PATH)
def replay(records: tuple[Path, ...]) -> None:
    """Play records again without an engine and compare the content digests; exits 1 on a difference.

    A record that cannot be read is named, and the others are played. A game's own code is found beside the study file,
    too, where the records are results of that study here.

    \b
    Example:  parley replay results/demo/simulations/*/*/*/*/*/*.parquet
    """
    from parley.play.replay import replay as play_again
    from parley.policies.own_code import look_beside

    for path in records:
        if study_file := paths.study_of_record(path):
            look_beside(study_file.parent)
    rows: list[dict[str, str]] = []
    damaged: list[RecordError] = []
    for path in records:
        try:
            result = play_again(path)
            verdict, digest = result.difference or "identical", result.summary.digest[:12]
            rows.append({"replay": verdict, "digest": digest, "record": str(path)})
        except RecordError as problem:
            damaged.append(problem)
    _print_table(rows)
    if len(records) == 1 and damaged:
        raise damaged[0]
    for error in damaged:
        click.echo(f"parley: {one_line(str(error))}", err=True)
    different = sum(row["replay"] != "identical" for row in rows) + len(damaged)
    if different:
        raise ParleyError(f"{different} of {len(records)} records did not replay identically")


@click.command()
@click.argument("records", nargs=-1, required=True, type=common.PATH)
@common.ENDPOINTS
@common.MODELS_FILE
@click.option(
    "--batch",
    default=16,
    show_default=True,
    type=click.IntRange(2, 1024),
    help="Requests in flight at once.",
)
@click.option(
    "--sample", type=click.IntRange(min=1), help="Ask this many attempts of each record and model; default: all."
)
@common.TIMEOUT
def verify(
    records: tuple[Path, ...],
    endpoints: tuple[Path, ...],
    models: Path,
    batch: int,
    sample: int | None,
    engine_timeout: float,
) -> None:
    """Ask the model again for the replies of records, and compare; exits 1 on a difference.

    Each recorded attempt of a model is asked with its seed in four passes: one request at a time and `--batch` at
    once, each with a cold prefix cache (a request finds nothing in it) and a warm one (it finds its own prompt). The
    attempts of all records share the batches: name the records of a whole shard to have the load that it had. The
    column `cached` is the share of the prompt tokens that came from the cache. `--sample` always takes the same
    attempts: those with the smallest SHA-256 of the simulation's id, round, phase, agent and attempt.

    \b
    Example:  parley verify results/demo/simulations/model=smollm2-135m/n=4/*/*/*/seed=0.parquet --sample 20
    """
    from parley.play.verify import Verified, difference_lines
    from parley.play.verify import verify as verify_records

    common.log_to_stderr()  # what it finds is on stdout
    done: list[Verified] = []
    try:
        for result in verify_records(records, endpoints, models, batch, sample, engine_timeout):
            done.append(result)
    finally:  # what was found before an engine died
        _print_table([result.row for result in done])
        for line in (line for result in done for line in difference_lines(result)):
            click.echo(line)
    different = sum(bool(result.different) for result in done)
    if different:
        raise ParleyError(f"{different} of {len(done)} passes gave other replies than the records")


@click.command()
@click.argument("record", type=common.PATH)
@click.option("--replies", is_flag=True, help="Print every reply instead, from start to end, with all texts.")
def show(record: Path, replies: bool) -> None:
    """Print what a record says of its simulation, provenance in full.

    With --replies the game itself is there to be read; a terminal also gets its matrix.

    \b
    Example:  parley show results/demo/simulations/model=majority/n=4/b=0/prompt=may_exist/*/seed=3.parquet
    """
    from parley.play.live import show_replies, summary_text
    from parley.play.record import read_summary

    if replies:
        show_replies(record, click.echo, sys.stdout)
    else:
        click.echo(summary_text(record, read_summary(record)), nl=False)


@click.command()
@common.STUDY
@click.option("--most", type=click.IntRange(min=1), help="Show at most this many simulations, those of lowest seeds.")
@common.MODELS
@common.PROCESSES
@common.PLAN
def view(study: str, most: int | None, models: Path | None, plan: str | None, processes: int) -> None:
    """Write pages in which each simulation of a study can be read: who was asked what, and what came back.

    They open in a browser from their folder, and need nothing else: no server, no network.

    \b
    Examples:  parley view demo
               parley view paper --most 1000
    """
    from parley.api.studies import load_to_read
    from parley.files import forget_done, mark_done
    from parley.report.explorer.selection import MOST, select
    from parley.report.explorer.site import write_view

    file = str(common.settle(study))
    # A person may look at what this machine cannot play, for lack of weights.
    loaded = common.load(file, models, plan) if plan else load_to_read(file, paths.root(), models)
    shown = select(loaded, most or MOST)
    with common.at_work(loaded.name, "view"):
        page = write_view(shown, processes)
    if most or shown.unfinished:  # the next run makes what it would have made
        forget_done(loaded.name, "view")
    else:
        mark_done(loaded.name, "view", loaded.plan)
    click.echo(str(page))


def _print_table(rows: Sequence[Mapping[str, str | int | float]]) -> None:
    for line in table([*rows[0]], [[*row.values()] for row in rows]) if rows else ():
        click.echo(line)


COMMANDS = (play, status, view, replay, verify, show)
