"""What a record describes: its game, prompts and policies, and the simulation that it is of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parley.engine.models import recorded_entry
from parley.errors import RecordError, UsageError
from parley.games.base import Game, Point
from parley.games.own_game import changed_source
from parley.games.registry import game_class
from parley.policies.kinds import ChosenPolicy, PolicyKind, find_kind
from parley.policies.own_code import PluginParameters
from parley.study.condition import BASE_AXES, Condition, Fork, Parent, Player, PlayerGroup, Simulation
from parley.text import one_line


def rebuilt(path: Path, described: Any, version: object = "unknown") -> Simulation:
    """Return the simulation that a record describes, made by a `version`; raises RecordError if its id is another now.

    `described` is what the record says of its simulation.
    """
    try:
        simulation = recorded_simulation(path, described)
        same = simulation.id == described["id"]
    except (UsageError, ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path}: describes no simulation that can be played: {one_line(str(error), 150)}") from None
    if not same:
        raise RecordError(
            f"{path}: its game or prompts changed since, so this version of Parley plays another simulation; use "
            f"the version that made it ({one_line(str(version), 40)})"
        )
    return simulation


def recorded_simulation(path: Path, described: Any) -> Simulation:
    """Return the simulation that a record describes, whatever its id; raises what a bad description does."""
    game = recorded_game(path, described)
    own = recorded_prompts(game, described)
    seed = int(described["seed"])
    condition = Condition(
        game=game,
        axes={**{axis: described["axes"][axis] for axis in BASE_AXES}, **described["axes"]},
        parameters=game.Parameters.model_validate(described["parameters"]),
        groups=tuple(PlayerGroup(g["role"], g["count"], _player_of(game, g, own)) for g in described["groups"]),
        prompt=own[described["prompt"]],
        seeds=(seed,),
        repeat=described.get("repeat"),
        fork=_fork_of(path, described["fork"], seed) if "fork" in described else None,
    )
    return Simulation(condition, seed, described.get("material"))


def _fork_of(path: Path, described: Any, seed: int) -> Fork:
    before, parent = described["before"], described["parent"]
    point, anew = Point(described["round"], described["phase"]), described["anew"]
    parents = {seed: Parent(path, parent["id"], parent["digest"], None, described["seats"])}
    return Fork(recorded_simulation(path, before).condition, point, described["change"], parents, anew)


def _player_of(game: type[Game], group: Mapping[str, Any], prompts: Mapping[Any, Any]) -> Player:
    policy, prompt = recorded_policy(game, group), prompts[group.get("prompt")]
    if "model" not in group:
        return Player(policy, prompt=prompt)
    return Player(policy, group["model_name"], recorded_entry(group["model"], group.get("grammar")), prompt)


class _Named(dict[Any, Any]):
    """Prompts by name; a name without one is the prompt itself."""

    def __missing__(self, name: Any) -> Any:
        return name


def recorded_prompts(game: type[Game], simulation: Mapping[str, Any]) -> Mapping[Any, Any]:
    """Return, by name, the prompts that a study brought, with their templates as far as a record has them.

    Any other name, and None, is itself. Raises UsageError, or AttributeError, TypeError or ValueError, for templates
    that the game cannot fill in.
    """
    unsent = next(iter(game.prompts.variants.values()))
    found = recorded_templates(simulation)
    return _Named({name: game.prompts.own(name, {**unsent, **templates}) for name, templates in found.items()})


def recorded_templates(simulation: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the templates that a record has, by the names of the prompts that a study brought."""
    found: dict[str, dict[str, str]] = {}
    for described in (simulation, *simulation["groups"]):
        if "templates" in described:
            found.setdefault(described["prompt"], {}).update(described["templates"])
    return found


def recorded_game(path: Path, simulation: Mapping[str, Any]) -> type[Game]:
    """Return the game that a record describes; of a game of the user's own the source must be the recorded one.

    Raises RecordError if it is another one, or gone; UsageError for an unknown game.
    """
    if problem := changed_source(simulation):
        raise RecordError(f"{path}: {problem}")
    return game_class(simulation["game"])


def recorded_policy(game: type[Game], group: Mapping[str, Any]) -> ChosenPolicy:
    """Return the policy of a group as a record describes it; code of the user's own is neither needed nor run.

    Raises LookupError or pydantic's ValidationError if it describes none that this version knows.
    """
    parameters = group.get("parameters", {})
    if "code_sha256" in group:
        kind = PolicyKind(group["policy"], "", Parameters=PluginParameters, fingerprint=group["code_sha256"])
    else:
        kind = find_kind(game.policies, group["policy"])
    return ChosenPolicy(kind, kind.Parameters.model_validate(parameters))
