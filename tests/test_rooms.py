"""The house: each room imports only from those before it, a game from no other game, and no module from itself."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import parley
from parley.games.registry import GAMES

SOURCE = Path(parley.__file__).parent
GROUND = "ground"  # the modules beside the rooms
ROOMS = [
    GROUND,
    "text",
    "policies",
    "engine",
    "games",
    "study",
    "play",
    "imports",
    "analysis",
    "calibration",
    "figures",
    "report",
    "ledger",
    "export",
    "progress",
    "workflow",
    "api",
    "cli",
]


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Without the package itself, which hands on the API when it is asked for, and the version to everybody.
MODULES = {
    name_of(path): path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE or path.stem != "__init__"
}


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else GROUND


def game_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "games" and parts[2] in GAMES else None


@cache
def imports(module: str) -> frozenset[str]:
    """Return which of Parley's modules a module imports, anywhere in it."""
    return frozenset(_imports(module)) - {module}


def _imports(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in names)


def test_every_folder_is_a_room_and_says_what_belongs_there() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS) - {GROUND}
    for room in folders:
        assert ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_only_from_those_before_it(module: str) -> None:
    place = ROOMS.index(room_of(module))
    wrong = [f"{module} imports {other}" for other in imports(module) if ROOMS.index(room_of(other)) > place]
    assert not wrong


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) == "games"])
def test_a_game_is_imported_by_itself_and_the_registry_alone(module: str) -> None:
    if module != "parley.games.registry":
        assert {game_of(other) for other in imports(module)} <= {None, game_of(module)}


def test_no_imports_go_in_a_circle() -> None:
    graph = nx.DiGraph((module, other) for module in MODULES for other in imports(module))
    assert not [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1]
