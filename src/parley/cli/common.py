"""What several commands share: their arguments and options, and how they load a study and speak."""

import gc
import logging
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from parley import paths
from parley.errors import UsageError
from parley.text import log_line, logged_to, one_line, own_log

PATH = click.Path(path_type=Path)
STUDY = click.argument("study")
MODELS = click.option("--models", type=PATH, help="Model entries; default: models.yaml beside the study.")
MODELS_FILE = click.option(
    "--models",
    type=PATH,
    default=lambda: paths.models_file(Path("study.yaml")),
    show_default="models.yaml here or in config/, else Parley's own",
    help="Model entries.",
)
WHERE = click.option(
    "--where",
    multiple=True,
    metavar="AXIS=VALUE",
    help="The value of any axis, as in a record's path or in the study; may be repeated.",
)
PLAYED_BY = click.option(
    "--model",
    help="What plays the honest agents: a model entry, or a scripted policy; or a model without an entry, as in "
    "openai:NAME, ollama:NAME, http://127.0.0.1:8080/v1:NAME, hf:OWNER/NAME@COMMIT and gguf:PATH.",
)
ENDPOINTS = click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    type=PATH,
    help="A running engine, one for each model; default: start them.",
)
TIMEOUT = click.option(
    "--engine-timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    envvar="PARLEY_ENGINE_TIMEOUT",
    show_envvar=True,
    help="Seconds to wait until the engine is ready.",
)
PROCESSES = click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, help="Work in so many processes."
)
PLAN = click.option(
    "--plan",
    metavar="HASH",
    help="Refuse a study that changed since its run was planned; jobs of Snakemake are given the plan.",
)


def settle(study: str) -> Path:
    """Return the file of a study; from here to the end of the command, paths lie in the folder of its results.

    Raises UsageError if those of another study of the same command lie elsewhere.
    """
    with paths.rooted(Path()):  # as the user's shell has it
        file = paths.study_file(study)
    context, home = click.get_current_context(), paths.home(file)
    if (first := context.meta.setdefault("parley.home", home)) != home:
        raise UsageError(f"{file}: its results lie in {home}, others in {first}; move the studies into one folder")
    context.with_resource(paths.at_home(home))
    return file if home == Path() else file.absolute()


def load(study: str, models: Path | None, plan: str | None = None, needs_weights: bool = True) -> Any:
    """Return a study, by its name or its path; raises UsageError if it is not one.

    What only looks at a study or its results needs no weights. With the `plan` of a run, raises ParleyError if the
    study changed since.
    """
    gc.disable()  # what is imported stays: looking for garbage among it took a tenth of the time
    from parley.study import load_study
    from parley.study.load import require_plan

    gc.enable()
    loaded = load_study(settle(study), models, needs_weights=needs_weights)
    require_plan(loaded, plan)
    return loaded


def unfiled_model(text: str, models_file: Path) -> tuple[str, Any] | None:
    """Return name and entry of a model that --model names as `openai:NAME`, `hf:OWNER/NAME`, ...; None for others.

    The entry is printed on stderr, unless `models_file` has it. Raises UsageError if that has another of this name.
    """
    from parley.engine.models import known_models, named_model

    if (made := named_model(text)) is None:
        return None
    name, entry, as_file = made
    filed = known_models(models_file).get(name)
    if filed is None:
        click.echo(f"# its entry, for models.yaml:\n{as_file}", err=True)
    elif filed.identity() != entry.identity():
        raise UsageError(f"{models_file}: models.{name}: is not what --model {one_line(text)} stands for; rename it")
    return name, filed or entry


def with_model(study: Any, axes: dict[str, Any], role: str) -> Any:
    """Return a study in which what `axes` name as model plays a role: the same one if it does so in a condition."""
    from parley.study.load import played_by

    name, entry = unfiled_model(axes["model"], study.models_file) or (axes["model"], study.models.get(axes["model"]))
    axes.pop("model")
    is_axis = role == study.game.roles[0]  # which says who plays this role, and no other
    axes |= {"model": name} if is_axis else {}
    has_it = is_axis and name in {condition.axes["model"] for condition in study.conditions}
    return study if entry is None or has_it else played_by(study, name, entry, role)


_Command = Callable[..., None]


def study_loaded(plan: bool = False, needs_weights: bool = True) -> Callable[[_Command], _Command]:
    """Give a command the study that its argument STUDY and its option --models name, in place of the two.

    With `plan`, a stage of the workflow, which has the option --plan, too.
    """

    def decorate(command: _Command) -> _Command:
        @STUDY
        @MODELS
        @wraps(command)
        def with_study(study: str, models: Path | None, plan: str | None = None, **options: Any) -> None:
            command(load(study, models, plan, needs_weights), **options)

        return PLAN(with_study) if plan else with_study

    return decorate


def at_work(study: str, stage: str) -> Any:
    """Return a context in which this process says of itself that it works at a stage of a study."""
    from parley.progress.events import working

    return working(paths.processes(paths.results(study)), stage)


def axis_values(texts: Sequence[str], option: str = "--where") -> dict[str, str]:
    """Return the values of axes that `option` gave; raises UsageError for what is none, or repeated."""
    values: dict[str, str] = {}
    for text in texts:
        axis, _, value = text.partition("=")
        if not (axis and value):
            raise UsageError(f"{option} {text}: write AXIS=VALUE, such as n=4")
        if values.setdefault(axis, value) != value:
            raise UsageError(f"{option} {text}: {axis} is {values[axis]} already; give one value")
    return values


def refuse(where: str, *names: str) -> None:
    """Raise UsageError for the first of these parameters that the user gave: it has no use `where`."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is not ParameterSource.DEFAULT:
            raise UsageError(f"{option.opts[0]}: not used {where}; leave it out")


class LogLines(logging.Handler):
    """Prints what the library says: warnings on stderr, how far it is on stdout."""

    def __init__(self) -> None:
        super().__init__()
        self.only_stderr = False  # where what is on stdout is a result
        self.prefix = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message, unless it belongs into the log of a simulation."""
        if own_log.get() is None:
            on_stderr = self.only_stderr or record.levelno >= logging.WARNING
            click.echo(f"{self.prefix}{log_line(record)}", err=on_stderr)


def print_log(context: click.Context) -> None:
    """Print what the library says while a command runs."""
    context.obj = LogLines()
    context.with_resource(logged_to(context.obj))


def log_to_stderr(prefix: str = "") -> None:
    """Print what the library says on stderr, in the command that runs."""
    lines = click.get_current_context().find_object(LogLines)
    if lines is not None:
        lines.only_stderr, lines.prefix = True, prefix


def say(text: str) -> None:
    """Print one line, whatever is in `text`."""
    click.echo(one_line(text))
