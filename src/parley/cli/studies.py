"""The commands for a study as a whole: a new one, its plan, what is left over; games from and for elsewhere."""

import importlib.util
import keyword
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from itertools import chain
from pathlib import Path
from shlex import quote
from string import Template
from typing import TYPE_CHECKING, Any

import click

from parley import paths
from parley.cli import common
from parley.errors import ParleyError, UsageError
from parley.files import write_new
from parley.text import one_line

if TYPE_CHECKING:
    from parley.games.base import Game
    from parley.study import Study


_TEMPLATES = Path(__file__).with_name("templates")


@click.command()
@click.argument("name", required=False)
@click.option("--game", help="Game of the study. Without NAME: write a game of this name.")
@click.option("--policy", help="Without NAME: write a policy of this name, for the consensus game.")
@click.option("--model", help="What plays: models or policies, as in a,b.")
@click.option("--n", help="Numbers of agents, as in 4,8.")
@click.option("--b", help="How many of them are Byzantine, as in 0,1.")
@click.option("--prompt", help="Prompts of the game, as in a,b.")
@click.option("--seeds", help="Games of each condition.")
def new(name: str | None, game: str | None, policy: str | None, **options: Any) -> None:
    """Write a study to begin with, with a comment on each key; or a game or policy of your own.

    It is config/NAME.yaml, or NAME.yaml in a folder that has no config; a NAME that ends in .yaml is the path of the
    file. A terminal asks for what no option says; elsewhere it is what the question offers. Without NAME, a Python
    module is written, and a study that plays it. Nothing is overwritten.

    \b
    Examples:  parley new my-study
               parley new my-study --game stag_hunt --n 4,6 --b 0,1 --seeds 20
               parley new --policy low      low.py and low.yaml
               parley new --game guess      guess.py and guess.yaml
    """
    if name is not None and policy is None:
        file = paths.study_file(name)
        if "/" in name and not name.endswith((".yaml", ".yml")):
            raise UsageError(f"{one_line(name, 60)!r}: a name has no folder; for a path, end it in .yaml")
        in_own_folder = file.parent == paths.root() / paths.CONFIG and not file.parent.is_dir()
        _write_study(paths.root() / file.name if in_own_folder else file, game, options)
        return
    if name is not None or (game is None) == (policy is None):
        raise UsageError("new: name one thing to write: parley new NAME, or --game NAME, or --policy NAME")
    if unused := next((option for option, value in options.items() if value is not None), None):
        raise UsageError(f"--{unused}: is of a study; name that, too: parley new NAME --{unused} ...")
    _write_code(*(("policy", policy) if game is None else ("game", game)))


def _write_code(kind: str, name: Any) -> None:
    """Write a module with a game or a policy, and a study that plays it, where `name`, which may be a path, says."""
    path = Path(name)
    module = path.name.removesuffix(".py")
    if not re.fullmatch(r"[A-Za-z_]\w*", module, re.ASCII) or keyword.iskeyword(module):
        raise UsageError(f"--{kind} {one_line(name, 60)}: becomes a Python module; use letters, digits and '_'")
    if importlib.util.find_spec(module) is not None:
        raise UsageError(f"--{kind} {module}: there is a Python module of this name already; choose another name")
    names = {"name": module, "Name": "".join(part.capitalize() for part in module.split("_"))}
    files = {path.with_name(module + suffix): _filled(f"{kind}{suffix}", **names) for suffix in (".py", ".yaml")}
    for file in write_new(files):
        common.say(f"wrote: {file}")
    common.say(f"play it: parley play {quote(str(path.with_name(module)))}.yaml")


def _write_study(file: Path, name: str | None, options: dict[str, Any]) -> None:
    from parley.engine.models import load_models
    from parley.games.registry import GAMES, game_class
    from parley.study import load_study
    from parley.study.load import check_alone, check_name

    check_name(file)
    check_alone(file)
    if file.exists():  # said before anything is asked
        raise UsageError(f"{file}: exists already, and nothing is overwritten; choose another name")
    game = game_class(name or _asked(f"Game, of {', '.join(GAMES)}", next(iter(GAMES))))
    beside = paths.models_file(file)
    models = list(load_models(beside)) if beside.exists() else []
    players = [*(kind.name for kind in game.policies.values() if kind.rule is not None), *models]
    questions = {
        "model": (f"What plays, of {', '.join(players)}", next(iter(players), "llm")),
        "n": ("Numbers of agents", "4"),
        "b": ("How many of them are Byzantine", "0"),
        "prompt": (f"Prompts, of {', '.join(game.prompts)}", next(iter(game.prompts))),
        "seeds": ("Games of each condition", "10"),
    }
    answers = {o: _asked(*question) if options[o] is None else options[o] for o, question in questions.items()}
    answers["model"] = ",".join(_filed(each.strip(), beside, models) for each in answers["model"].split(","))
    write_new({file: _study_text(file, game, answers, models)})
    try:
        load_study(file, needs_weights=False)
    except ParleyError:
        file.unlink()
        with suppress(OSError):  # it is in use
            file.parent.rmdir()
        raise
    common.say(f"wrote: {file}")
    common.say(f"play it: parley run {paths.study_command(file)}")


def _filed(model: str, models_file: Path, models: Collection[str]) -> str:
    """Return what a study calls a model; raises UsageError for one without an entry, which is printed."""
    name, _ = common.unfiled_model(model, models_file) or (model, None)
    if name != model and name not in models:
        raise UsageError(
            f"--model {one_line(model)}: put its entry, which is above, into {models_file}, and try again"
        )
    return name


def _asked(question: str, default: str) -> str:
    """Return what a person answers, several things with commas between them; the default where nobody can be asked."""
    return str(click.prompt(question, default)) if sys.stdin.isatty() else default


def _study_text(file: Path, game: "type[Game]", answers: dict[str, str], models: Collection[str]) -> str:
    from pydantic_core import to_jsonable_python

    adversary = (kind.name for kind in game.policies.values() if kind.rule and kind.roles == (game.roles[-1],))
    asks_model = {name.strip() for name in answers["model"].split(",")}.issubset(models)
    parameters = []
    for name, field in game.Parameters.model_fields.items():
        default = to_jsonable_python(field.get_default(call_default_factory=True), fallback=str)
        # Its first clause, which ends at no point inside of brackets.
        about = re.match(r"(?:\([^()]*\)|[.:;](?! |$)|[^.:;])*", field.description or "")
        parameters.append(f"#   {name}: {_flow(default)} # {about[0] if about else ''}")
    return _filled(
        "study.yaml",
        **answers,
        study=paths.study_argument(file),
        title=_flow(file.stem),
        game=game.name,
        byzantine="same" if asks_model else next(adversary, "same"),
        parameters="\n".join(parameters),
        outcome=game.outcomes[0].name,
    )


def _flow(value: Any) -> str:
    import yaml  # slow to import

    return yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").strip()


def _filled(template: str, **names: str) -> str:
    return Template((_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")).substitute(names)


@click.command()
@common.study_loaded()
@click.option("--yes", is_flag=True, help="Take them away; without it they are only listed.")
def prune(study: "Study", yes: bool) -> None:
    """List, or take away, the records and journals of former configurations of a study.

    They go to results/STUDY/.pruned, and stay there until you delete them. Only a record or a
    journal of Parley that lies where its own identity says is taken, and none that is being played. Of two study files
    of one name, which share a folder of results, only the one under config/ is taken.

    \b
    Example:  parley prune demo --yes
    """
    from parley.play import stale_records

    files = stale_records.prune(study) if yes else stale_records.prunable(study)
    if yes:
        click.echo(f"{len(files)} files taken away" + (f", to {paths.pruned(study.name)}" if files else ""))
        return
    for path in files:
        common.say(str(path))
    click.echo(f"{len(files)} files are not of the study as it is now" + ("; --yes takes them away" if files else ""))


@click.command("import")
@click.argument("form", metavar="FORMAT", type=click.Choice(("byzantine-cheap-talk", "byzantine-consensus")))
@click.argument("path", type=common.PATH)
@click.option("--name", required=True, help="Name of the study that is made; nothing is overwritten.")
def import_games(form: str, path: Path, name: str) -> None:
    """Make a study and records of games that somebody else's code played, so that tables and figures show them.

    FORMAT is byzantine-cheap-talk or byzantine-consensus, by whose code played them. The rules play each game from
    its replies, and payoffs must follow from its actions. What is damaged is listed, counted by kind, and left out.
    Nothing is asked of any model.

    \b
    Examples:  parley import byzantine-cheap-talk ../byzantine-cheap-talk/results --name published-games
               parley import byzantine-consensus ../byzantine_consensus_game/results --name their-games
    """
    from parley.imports.import_games import import_games as write_imports

    for line in write_imports(form, path, name).lines():
        common.say(line)


@click.command()
@common.STUDY
@click.option(
    "--format",
    "form",
    required=True,
    type=click.Choice(("inspect", "folder")),
    help="inspect: logs of inspect_ai. folder: the whole study in one folder that stands by itself.",
)
@click.option("--output", type=common.PATH, help="Folder; default: results/STUDY/exports/FORMAT.")
@click.option("--license", "license_note", default="", help="License of the results: an SPDX identifier or a URL.")
@common.MODELS
def export(study: str, form: Any, output: Path | None, license_note: str, models: Path | None) -> None:
    """Write the results of a study for elsewhere, into a folder that must not exist.

    Logs of inspect_ai leave out a damaged record, and name it. --license is for the README.md of a folder, which
    `parley run` has to have finished.

    \b
    Examples:  parley export demo --format inspect
               parley export demo --format folder --license CC-BY-4.0 --output demo-data
    """
    from parley.api.studies import load_to_read
    from parley.export import export as write_export

    common.log_to_stderr("parley: ")  # what is on stdout is the folder
    file = str(common.settle(study))
    click.echo(str(write_export(load_to_read(file, paths.root(), models), form, output, license_note)))


@click.command()
@common.study_loaded(needs_weights=False)
@click.option(
    "--from",
    "other",
    metavar="STUDY",
    help="Another study whose records tell rates, tokens and times, too.",
)
@click.option("--freeze", is_flag=True, help="Write the preregistration beside the study file instead.")
@click.option("--force", is_flag=True, help="With --freeze: write it anew, what a person wrote in it is lost.")
def plan(study: "Study", other: str | None, freeze: bool, force: bool) -> None:
    """Show what the questions of a study can find, how many seeds that takes, and what it costs.

    Nothing needs to be played. Rates are those that a question expects, or the records' of a pilot; tokens, hours and
    money are those of records, else tokens and money are estimated. The table goes to results/STUDY/plan.
    --freeze writes the preregistration STUDY.frozen.md, which a person completes, and to which each report compares
    the study.

    \b
    Examples:  parley plan paper
               parley plan paper --from first-look
               parley plan paper --freeze
    """
    from parley.cli.plan_text import Plan
    from parley.study.frozen import frozen_state, frozen_when, write_frozen

    if freeze:
        click.echo(str(write_frozen(study, force)))
        click.echo(frozen_when(study))
        return
    common.refuse("without --freeze", "force")
    made = Plan(study, common.load(other, study.models_file, needs_weights=False) if other else None)
    files = made.write()
    for line in chain(made.lines(), files, made.registered()):
        click.echo(line)
    common.say(f"preregistration: {frozen_state(study)}")


COMMANDS = (new, plan, prune, import_games, export)
