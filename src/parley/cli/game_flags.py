"""A game from flags alone: `parley play consensus --honest 8 --b 2 --model majority`, without a study file."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from parley.cli.options import axis_values
from parley.errors import UsageError

if TYPE_CHECKING:
    from parley.games.base import Game
    from parley.study import Study

ONLY_OF_A_GAME = ("honest", "byzantine", "rounds", "values", "set_to")


def study_of_flags(game: str, models: Path | None, flags: Mapping[str, Any]) -> "Study":
    """Return a study of one condition, as flags say it; raises UsageError for what the game does not know."""
    from parley.games.registry import game_class
    from parley.study.study import study_of

    rules, b = game_class(game), flags["b"] or 0
    if flags["model"] is None:
        scripted = ", ".join(name for name, kind in rules.policies.items() if not kind.asks_model and not kind.roles)
        raise UsageError(f"--model: say who plays: an entry of models.yaml, or a scripted policy ({scripted})")
    if flags["n"] is not None and flags["honest"] is not None and flags["n"] != flags["honest"] + b:
        raise UsageError(f"--n {flags['n']}: --honest {flags['honest']} and --b {b} make another; leave one out")
    content: dict[str, Any] = {
        "model": flags["model"],
        "n": flags["n"] or (4 if flags["honest"] is None else flags["honest"] + b),
        "b": b,
        "prompt": flags["prompt"] or next(iter(rules.prompts)),
    }
    if flags["byzantine"] is not None:
        if not b:
            raise UsageError("--byzantine: there is no Byzantine agent; say how many with --b")
        content["byzantine"] = flags["byzantine"]
    study = {
        "game": game,
        "title": f"A game of {game.replace('_', ' ')}",
        "seeds": 1,
        "parameters": _parameters(rules, flags["rounds"], flags["values"], flags["set_to"]),
        "grids": [content],
    }
    return study_of(game, study, models)


def _parameters(
    rules: "type[Game[Any]]", rounds: int | None, values: str | None, given: Sequence[str]
) -> dict[str, Any]:
    known = rules.Parameters.model_fields
    found = {name: yaml.safe_load(text) for name, text in axis_values(given, "--set").items()}
    if rounds is not None:
        name = next((name for name in ("max_rounds", "rounds", "turns") if name in known), "")
        if not name:
            raise UsageError(f"--rounds: {rules.name} has no number of rounds; leave it out")
        _take(found, "--rounds", **{name: rounds})
    if values is not None:
        ends = re.fullmatch(r"(-?[0-9]{1,9})-(-?[0-9]{1,9})", values)
        if "value_min" not in known or ends is None:
            raise UsageError(f"--values {values}: for the game consensus, and written as 0-50 or -5-5; else use --set")
        _take(found, "--values", value_min=int(ends[1]), value_max=int(ends[2]))
    return found


def _take(found: dict[str, Any], flag: str, **said: int) -> None:
    """Add what a flag says to what --set said; raises UsageError if that is something else."""
    for name, value in said.items():
        if found.setdefault(name, value) != value:
            raise UsageError(f"{flag}: --set {name}={found[name]} says something else; give one of them")
