"""Three games, one tool: what they share knows none of them, and none of them knows another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import parley
from parley.games.base import Game
from parley.games.evidence import Evidence
from parley.games.registry import GAMES

SOURCE = Path(parley.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
REGISTER = SOURCE / "games" / "registry.py"


def game_of(path: Path) -> str | None:
    """Return whose module it is, by its folder; None for those that all share."""
    inside = path.relative_to(SOURCE).parts
    return inside[1] if inside[0] == "games" and inside[1] in GAMES else None


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in the code, such as keys; those that are its documentation are longer than a name."""
    yield from (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def test_every_game_has_modules_of_its_own() -> None:
    owned = {game_of(path) for path in MODULES}
    assert owned == {None, *GAMES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_shared_module_asks_which_game_is_played(path: Path) -> None:
    if game_of(path):
        return
    assert not {*texts(ast.parse(path.read_text("utf-8")))} & {*GAMES}


@pytest.mark.parametrize("game", GAMES.values(), ids=lambda game: game.name)
def test_a_game_tells_what_its_figures_of_single_games_ask_for(game: type[Game]) -> None:
    for kind, tells in (
        ("trajectories", "trajectory"),
        ("timeline", "timeline"),
        ("network", "timeline"),
        ("sweep", "sweep"),
    ):
        if any(spec.kind == kind for spec in game.evidence.figures):
            assert getattr(type(game.evidence), tells) is not getattr(Evidence, tells)
