"""The command line: one thin command per stage of the workflow, and those that people want."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from parley import __version__, paths
from parley.errors import ParleyError
from parley.text import one_line, table

_STUDY = click.argument("study")
_MODELS = click.option(
    "--models", type=click.Path(path_type=Path), help="Model entries; default: models.yaml beside the study."
)


def main() -> None:
    """Run the command line; errors are one line on stderr and an exit status of 1 or 2."""
    try:
        commands(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except ParleyError as error:
        click.echo(f"parley: {one_line(str(error))}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if os.environ.get("PARLEY_DEBUG"):
            raise
        kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        click.echo(f"parley: {kind}{one_line(str(error), 300)} (PARLEY_DEBUG=1 shows where)", err=True)
        sys.exit(1)


def _load(study: str, models: Path | None) -> Any:
    from parley.study import load_study

    return load_study(paths.study_file(study), models)


def _say(text: str) -> None:
    click.echo(one_line(text))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="parley")
def commands() -> None:
    """Parley measures whether groups of LLM agents can agree, and what breaks their agreement.

    STUDY is the name of a file under config/ (demo, paper) or the path of a YAML file.

    \b
    A whole study:       snakemake --config study=demo
    One game, watched:   parley play demo --model majority
    """


@commands.command()
@_STUDY
@_MODELS
@click.option("--paths", "only_paths", is_flag=True, help="Print the paths of all records, one a line.")
def expand(study: str, models: Path | None, only_paths: bool) -> None:
    """Check a study and list its conditions.

    \b
    Example:  parley expand paper
    """
    loaded = _load(study, models)
    simulations = list(loaded.simulations())
    if only_paths:
        for simulation in simulations:
            click.echo(str(simulation.record(loaded.name)))
        return
    for condition in loaded.conditions:
        seeds = condition.seeds
        written = len(seeds) if isinstance(seeds, range) else list(seeds)
        threat = "" if condition.threat_model == "none" else f"  threat_model={condition.threat_model}"
        click.echo(f"{condition.path}/spec={condition.spec}{threat}  seeds={written}")
    shards = len(set(loaded.shards().values()))
    click.echo(f"{len(simulations)} simulations in {len(loaded.conditions)} conditions, {shards} shards")


@commands.command("fetch-model")
@click.argument("model")
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    default=paths.CONFIG / "models.yaml",
    show_default=True,
    help="Model entries.",
)
def fetch_model(model: str, models: Path) -> None:
    """Prepare a model: download, or dequantize a GGUF file, once.

    \b
    Example:  parley fetch-model smollm2-135m
    """
    from parley.engine.models import model_entry
    from parley.engine.weights import fetch

    marker = fetch(model, model_entry(model, models), models)
    click.echo(f"{model}: ready, {marker}")


@commands.command()
@click.argument("model")
@click.option("--endpoint", required=True, type=click.Path(path_type=Path), help="Endpoint file to write.")
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    default=paths.CONFIG / "models.yaml",
    show_default=True,
    help="Model entries.",
)
@click.option("--exit-with-parent", is_flag=True, help="Stop when the process that started this one ends.")
@click.option(
    "--beside",
    metavar="MODEL+MODEL",
    default="",
    help="All models that are served by this job, this one included: each takes GPUs of its own, in this order.",
)
def serve(model: str, endpoint: Path, models: Path, exit_with_parent: bool, beside: str) -> None:
    """Serve a model on a Unix socket until stopped (Ctrl-C, SIGTERM).

    \b
    Example:  parley serve smollm2-135m --endpoint /tmp/engine.json
    """
    from parley.engine import server
    from parley.engine.models import model_entry
    from parley.engine.weights import fetch, model_folder

    entry = model_entry(model, models)
    marker = fetch(model, entry, models)
    first_gpu = 0
    for other in beside.split("+") if beside else []:
        if other == model:
            break
        first_gpu += model_entry(other, models).gpus_served
    folder = model_folder(model, entry, models)
    server.serve(model, entry, folder, marker, endpoint, exit_with_parent, first_gpu if "+" in beside else None)


_TIMEOUT = click.option(
    "--engine-timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    envvar="PARLEY_ENGINE_TIMEOUT",
    show_envvar=True,
    help="Seconds to wait until the engine is ready.",
)


@commands.command()
@_STUDY
@click.argument("record", type=click.Path(path_type=Path))
@click.argument("endpoints", nargs=-1, metavar="[ENDPOINT]...", type=click.Path(path_type=Path))
@_TIMEOUT
@_MODELS
def simulate(
    study: str, record: Path, endpoints: tuple[Path, ...], engine_timeout: float, models: Path | None
) -> None:
    """Play one simulation of a study into its RECORD (a path that `parley expand --paths` prints).

    ENDPOINT is the endpoint file of an engine, one for each model that plays. A simulation that died goes on from its
    journal; one that is finished is left alone.

    \b
    Example:  parley simulate demo "$(parley expand demo --paths | grep majority | head -1)"
    """
    from parley.simulate import simulate as run

    run(_load(study, models), record, endpoints, engine_timeout, _say)


@commands.command("simulate-shard")
@_STUDY
@click.argument("number", type=click.IntRange(min=0))
@_MODELS
def simulate_shard(study: str, number: int, models: Path | None) -> None:
    """Play the scripted simulations of one shard, one after the other in this process.

    Those that are finished are left alone. The workflow uses it where a study has more than 1,000 of them.

    \b
    Example:  parley simulate-shard theory 0
    """
    from parley.simulate import simulate_shard as run

    run(_load(study, models), number, _say)


@commands.command()
@_STUDY
@_MODELS
def summarize(study: str, models: Path | None) -> None:
    """Make the tables of a study from its records, and print that of its conditions.

    \b
    Example:  parley summarize demo
    """
    from parley.files import mark_done
    from parley.tables import axes, print_conditions
    from parley.tables import summarize as run

    loaded = _load(study, models)
    table = run(loaded, _say)
    mark_done(loaded.name, "tables", loaded.plan)
    click.echo(print_conditions(table, axes(loaded), loaded.game))
    for name, note in loaded.notes().items():
        click.echo(f"{name}: {note}")


@commands.command()
@_STUDY
@_MODELS
def figures(study: str, models: Path | None) -> None:
    """Draw the figures of a study from its tables and records.

    \b
    Example:  parley figures demo
    """
    from parley.figures import figures as run
    from parley.files import mark_done, require_done

    loaded = _load(study, models)
    require_done(loaded.name, "tables", loaded.plan, "summarize")
    for path in run(loaded):
        click.echo(str(path))
    mark_done(loaded.name, "figures", loaded.plan)


@commands.command()
@_STUDY
@_MODELS
def report(study: str, models: Path | None) -> None:
    """Write the report of a study: one HTML file with its tables and figures.

    \b
    Example:  parley report demo
    """
    from parley.files import mark_done, require_done
    from parley.report import report as run

    loaded = _load(study, models)
    require_done(loaded.name, "figures", loaded.plan, "figures")
    path = run(loaded)
    mark_done(loaded.name, "report", loaded.plan)
    click.echo(str(path))


@commands.command()
@_STUDY
@_MODELS
@click.option("--model", help="What plays the honest agents: a model entry or a scripted policy of the study.")
@click.option("--n", type=int, help="Number of agents.")
@click.option("--b", type=int, help="Number of Byzantine agents.")
@click.option("--prompt", help="Prompt variant.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--where", multiple=True, metavar="AXIS=VALUE", help="The value of any axis, as in a record's path.")
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A running engine, one for each model; default: start them.",
)
@click.option("--reasoning", is_flag=True, help="Show the texts too, private notes included.")
@_TIMEOUT
def play(
    study: str,
    models: Path | None,
    seed: int,
    where: tuple[str, ...],
    endpoints: tuple[Path, ...],
    reasoning: bool,
    engine_timeout: float,
    **axes: Any,
) -> None:
    """Play one game of a study's first condition that fits, live in the terminal; nothing is recorded.

    \b
    Examples:  parley play demo --model majority --b 1
               parley play demo --model smollm2-135m --prompt none_exist --reasoning
               parley play adversaries --where byzantine=equivocate --seed 3
    """
    from parley.play import play as run

    chosen = {axis: value for axis, value in axes.items() if value is not None}
    chosen |= {axis: value for axis, _, value in (text.partition("=") for text in where)}
    run(_load(study, models), chosen, seed, endpoints, engine_timeout, reasoning, click.echo)


@commands.command()
@_STUDY
@_MODELS
def status(study: str, models: Path | None) -> None:
    """Show how far a study is: finished, in progress, to do; tokens per second and time left.

    \b
    Example:  parley status paper
    """
    from parley.status import status as run

    for line in run(_load(study, models)):
        click.echo(line)


@commands.command()
@_STUDY
@_MODELS
@click.option("--yes", is_flag=True, help="Delete them; without it they are only listed.")
def prune(study: str, models: Path | None, yes: bool) -> None:
    """List, or delete, the records of former configurations of a study.

    \b
    Example:  parley prune demo --yes
    """
    from parley.prune import former
    from parley.prune import prune as run

    loaded = _load(study, models)
    if yes:
        click.echo(f"{run(loaded)} files deleted")
        return
    files = former(loaded)
    for path in files:
        click.echo(str(path))
    click.echo(f"{len(files)} files are not of the study as it is now" + ("; --yes deletes them" if files else ""))


@commands.command()
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path))
def replay(records: tuple[Path, ...]) -> None:
    """Play records again without an engine and compare the content digests; exits 1 on a difference.

    \b
    Example:  parley replay results/demo/simulations/*/*/*/*/*/*.parquet
    """
    from parley.replay import replay as run

    rows: list[tuple[str, str, str]] = []
    try:
        for path in records:
            result = run(path)
            rows.append((result.difference or "identical", result.summary.digest[:12], str(path)))
    finally:  # what was found before a record that cannot be read
        _print_table(("replay", "digest", "record"), rows)
    different = sum(row[0] != "identical" for row in rows)
    if different:
        raise ParleyError(f"{different} of {len(records)} records did not replay identically")


@commands.command()
@click.argument("records", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Endpoint file of a running engine, one for each model; default: start them.",
)
@click.option(
    "--models",
    type=click.Path(path_type=Path),
    default=paths.CONFIG / "models.yaml",
    show_default=True,
    help="Model entries, for an engine that is started or a service.",
)
@click.option(
    "--batch", default=16, show_default=True, type=click.IntRange(2, 1024), help="Requests in flight at once."
)
@click.option(
    "--sample", type=click.IntRange(min=1), help="Ask so many attempts of each record and model; default: all."
)
@_TIMEOUT
def verify(
    records: tuple[Path, ...],
    engines: tuple[Path, ...],
    models: Path,
    batch: int,
    sample: int | None,
    engine_timeout: float,
) -> None:
    """Ask the model again for the replies of records, and compare; exits 1 on a difference.

    Each recorded attempt of a model is asked with its seed in four passes: one request at a time and `--batch` at
    once, each with a cold prefix cache (a request finds nothing in it) and a warm one (it finds its own prompt). The
    column `cached` is the share of the prompt tokens that came from the cache. `--sample` always takes the same
    attempts: those with the smallest SHA-256 of the simulation's id, round, phase, agent and attempt.

    \b
    Example:  parley verify results/demo/simulations/model=smollm2-135m/n=4/*/*/*/seed=0.parquet --sample 20
    """
    from parley.verify import HEADER, Verified, difference_lines, row
    from parley.verify import verify as run

    def progress(text: str) -> None:
        click.echo(one_line(text), err=True)

    done: list[Verified] = []
    try:
        for result in run(records, engines, models, batch, sample, engine_timeout, progress):
            done.append(result)
    finally:  # what was found before an engine died
        _print_table(HEADER, [row(result) for result in done])
        for result in done:
            for line in difference_lines(result):
                click.echo(line)
    different = sum(result.different > 0 for result in done)
    if different:
        raise ParleyError(f"{different} of {len(done)} passes gave other replies than the records")


@commands.command()
@click.argument("record", type=click.Path(path_type=Path))
@click.option("--study", type=click.Path(path_type=Path), help="Write the study file instead of printing it.")
def show(record: Path, study: Path | None) -> None:
    """Print what a record says of its simulation, provenance in full, and the study file that plays it again.

    With --study it is written, and where a model played, models.yaml beside it; nothing is overwritten.

    \b
    Example:  parley show results/demo/simulations/model=majority/n=4/b=0/prompt=may_exist/*/seed=3.parquet
    """
    from parley.record import read_summary
    from parley.show import study_files, study_text, summary_text, write_study

    summary = read_summary(record)
    click.echo(summary_text(record, summary), nl=False)
    if study is not None:
        for path in write_study(study_files(record, summary), study):
            click.echo(f"wrote {one_line(str(path))}", err=True)
        return
    try:
        text = study_text(study_files(record, summary))
    except ParleyError as error:
        text = f"# No study file: {one_line(str(error))}\n"
    click.echo(f"---\n{text}", nl=False)


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str | int | float]]) -> None:
    if rows:
        for line in table(header, rows):
            click.echo(line)


@commands.command()
@click.option("--game", default="consensus", show_default=True, help="Game.")
@click.option("--role", default="honest", show_default=True, help="Role of the agent.")
@click.option("--awareness", "prompt", default="may_exist", show_default=True, help="Prompt variant.")
@click.option(
    "--phase", default="propose", show_default=True, help="Phase of the round; `turn` in the swarms protocol."
)
@click.option("--part", type=click.Choice(["system", "user"]), default="system", show_default=True)
@click.option("--template", is_flag=True, help="Print the template, unrendered.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Add what the policy llm_strategies tells a Byzantine agent; may be repeated.",
)
@click.option("--agent-id", default="agent_1", show_default=True)
@click.option("--round", "round_number", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--max-rounds", default=50, show_default=True, type=click.IntRange(min=1))
@click.option("--value-min", default=0, show_default=True)
@click.option("--value-max", default=50, show_default=True)
@click.option("--initial-value", type=int, default=17, show_default=True)
@click.option(
    "--current-value",
    type=int,
    help="Value that the agent holds; default: the initial one, none for a Byzantine agent.",
)
@click.option(
    "--neighbors", metavar="NAME,NAME", help="Add what an agent with these neighbors is told of its network."
)
def prompts(
    game: str,
    role: str,
    prompt: str,
    phase: str,
    part: str,
    template: bool,
    strategies: tuple[str, ...],
    **values: Any,
) -> None:
    """Print a prompt as an agent would receive it, filled with sample values.

    \b
    Examples:  parley prompts --role honest --awareness none_exist --phase vote --part user --round 3
               parley prompts --role byzantine --strategy stall
    """
    from parley.catalog import told_to
    from parley.games import game_class
    from parley.games.kinds import with_instructions

    chosen = game_class(game)
    text = (
        chosen.prompt_template(prompt, role, phase, part)
        if template
        else chosen.sample_prompt(prompt, role, phase, part, values)
    )
    click.echo(with_instructions(text, told_to(chosen, role, part, strategies)) if strategies else text)


@commands.command()
@click.option("--game", default="consensus", show_default=True, help="Game.")
def policies(game: str) -> None:
    """List what may play the agents of a game: policies, their parameters and defaults.

    \b
    Example:  parley policies --game consensus
    """
    from parley.catalog import policy_lines
    from parley.games import game_class

    for line in policy_lines(game_class(game)):
        click.echo(line)


if __name__ == "__main__":
    main()
