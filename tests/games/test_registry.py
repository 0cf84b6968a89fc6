"""What import-linter (`make lint`) cannot say of the games: nothing that all share asks for one by name."""

import ast
from pathlib import Path

import pytest

import parley
from parley.games.registry import GAMES

SOURCE = Path(parley.__file__).parent


@pytest.mark.slow
def test_no_shared_module_asks_which_game_is_played() -> None:
    asking = []
    for file in SOURCE.rglob("*.py"):
        if any(file.is_relative_to(SOURCE / "games" / name) for name in GAMES):
            continue
        nodes = ast.walk(ast.parse(file.read_text("utf-8")))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        asking += [f"{file.relative_to(SOURCE)}: {name}" for name in GAMES if name in texts]
    assert not asking
    assert all((SOURCE / "games" / name).is_dir() for name in GAMES)
