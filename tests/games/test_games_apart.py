"""Three games, one tool: what they share knows none of them, and none of them knows another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import parley
from parley.games.base import Game
from parley.games.registry import GAMES

SOURCE = Path(parley.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
REGISTER = SOURCE / "games" / "__init__.py"


def game_of(path: Path) -> str | None:
    """Return whose module it is, by its name; None for those that all share."""
    if path.parent != SOURCE / "games":
        return None
    return next((name for name in GAMES if path.stem == name or path.stem.startswith(f"{name}_")), None)


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of games that are imported, by their last name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (
            name.split(".")[2] for name in names if name.startswith("parley.games.registry.") and name.count(".") > 1
        )


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in the code, such as keys; those that are its documentation are longer than a name."""
    yield from (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def test_every_game_has_modules_of_its_own() -> None:
    owned = {game_of(path) for path in MODULES}
    assert owned == {None, *GAMES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_game_is_imported_by_itself_and_the_register_alone(path: Path) -> None:
    if path == REGISTER:
        return
    own = game_of(path)
    found = {game_of(SOURCE / "games" / f"{name}.py") for name in imported(ast.parse(path.read_text("utf-8")))}
    assert found <= {None, own}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_shared_module_asks_which_game_is_played(path: Path) -> None:
    if game_of(path):
        return
    assert not {*texts(ast.parse(path.read_text("utf-8")))} & {*GAMES}


@pytest.mark.parametrize("game", GAMES.values(), ids=lambda game: game.name)
def test_a_game_tells_what_its_figures_of_single_games_ask_for(game: type[Game]) -> None:
    for kind, tells in (("trajectories", "trajectory"), ("timeline", "timeline"), ("sweep", "sweep")):
        if any(spec.kind == kind for spec in game.figures):
            assert getattr(game, tells).__func__ is not getattr(Game, tells).__func__
