"""`parley new`: a study, or a game or policy of one's own, in files that work as they are."""

import importlib.util
import keyword
import re
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from shlex import quote
from string import Template
from typing import TYPE_CHECKING, Any

import click

from parley import paths
from parley.cli.options import GAME_NAMES, MODEL_NAMES, say
from parley.errors import ParleyError, UsageError
from parley.files import write_new
from parley.text import one_line

if TYPE_CHECKING:
    from parley.games.base import Game

_TEMPLATES = Path(__file__).with_name("templates")


@click.command()
@click.argument("name", required=False)
@click.option("--game", shell_complete=GAME_NAMES, help="Game of the study. Without NAME: write a game of this name.")
@click.option("--policy", help="Without NAME: write a policy of this name, for the consensus game.")
@click.option("--model", shell_complete=MODEL_NAMES, help="What plays: models or policies, as in a,b.")
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
        say(f"wrote: {file}")
    say(f"play it: parley play {quote(str(path.with_name(module)))}.yaml")


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
    write_new({file: _study_text(file, game, answers, models)})
    try:
        load_study(file, needs_weights=False)
    except ParleyError:
        file.unlink()
        with suppress(OSError):  # it is in use
            file.parent.rmdir()
        raise
    say(f"wrote: {file}")
    say(f"play it: parley run {paths.study_command(file)}")


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
        about = re.split(r"[.:;](?= |$)", field.description or "")[0]
        parameters.append(f"#   {name}: {_flow(default)} # {about}")
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


COMMANDS = (new,)
