"""What a study says of its margins: the rates of a paper to stand beside its own, and the model over all axes."""

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from parley.errors import UsageError
from parley.games.base import Game
from parley.text.suggest import choose
from parley.text.yamlfile import Slug


class PaperRate(BaseModel):
    """A rate that a paper gives, to be shown beside the study's own; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: Slug = Field(description="An outcome of the game, or an indicator.")
    where: dict[str, Any] = Field(
        default_factory=dict, description="Values of axes: the rate is over all conditions that have them."
    )
    rate: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(description="The rate in the paper.")
    source: str = Field(default="", max_length=200, description="Where the paper says so.")


class Effects(BaseModel):
    """The model over all axes of a study; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: Slug | None = Field(
        default=None, description="The outcome of the game, or the indicator, that is modeled; default the first."
    )
    interactions: tuple[tuple[str, str], ...] = Field(
        default=(), description="Pairs of axes: the effect of each may depend on the other's value."
    )


def rates_of(game: type[Game]) -> dict[str, str]:
    """Return what has a rate in simulations of `game`, by name, each with its kind: `outcome` or `indicator`."""
    indicators = {each.name: "indicator" for each in game.evidence.indicators if each.contrasted}
    return {**{each.name: "outcome" for each in game.outcomes}, **indicators}


def labels_of_rates(game: type[Game]) -> dict[str, str]:
    """Return the labels of outcomes and indicators, by name."""
    outcomes = {each.name: each.label for each in game.outcomes}
    equal = [game.evidence.at_equal_cost] if game.evidence.at_equal_cost else []
    return outcomes | {each.name: each.label for each in (*game.evidence.indicators, *equal)}


def check_rates(paper: Iterable[PaperRate], effects: Effects, game: type[Game], axes: list[str], where: str) -> None:
    """Raise UsageError for what is no outcome or indicator, and for interactions of what is no axis."""
    known = list(rates_of(game))
    named = [(f"paper[{index}].what", each.what) for index, each in enumerate(paper)]
    named += [("effects.outcome", effects.outcome)] if effects.outcome else []
    for key, name in named:
        if name not in known:
            raise UsageError(f"{where}: {key}: {name!r}: no outcome or indicator; {choose(name, known)}")
    for index, pair in enumerate(effects.interactions):
        key = f"{where}: effects.interactions[{index}]"
        for axis in pair:
            if axis not in axes:
                raise UsageError(f"{key}: {axis!r}: not an axis of this study; {choose(axis, axes)}")
        if pair[0] == pair[1]:
            raise UsageError(f"{key}: {pair[0]!r} twice; name two axes")
