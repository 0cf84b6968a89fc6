"""Language models as adversaries with a strategy: what they are told besides the paper's Byzantine prompts.

The texts are Parley's own, not the paper's. They follow the paper's system prompts (Figures 5 and 8), which stay word
for word, under one heading.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from parley.games.consensus.policies import GameValue, outside_range
from parley.games.consensus.prompts import FOLDER
from parley.games.parameters import BYZANTINE
from parley.games.prompts import Template, fill, text_of
from parley.policies.kinds import PolicyKind, PolicyParameters

Strategy = Literal["stall", "split", "anchor", "impersonate", "inject"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
TEXTS: dict[Strategy, Template] = {name: FOLDER / "strategies" / f"{name}.txt" for name in STRATEGIES}

HEADING = "=== YOUR STRATEGY ==="
_AFTER = 3


def _as_tuple(value: Any) -> Any:
    if not isinstance(value, str | list | tuple) or not value:
        raise ValueError("name a strategy, or list several")
    return (value,) if isinstance(value, str) else tuple(value)


def _in_order(strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
    """Return strategies in one order, so that the same ones are the same policy however they are listed."""
    if len(set(strategies)) < len(strategies):
        raise ValueError("a strategy is repeated; list it once")
    return tuple(sorted(strategies, key=STRATEGIES.index))


class Strategies(PolicyParameters):
    """Which strategies, and what some of them need."""

    strategies: Annotated[tuple[Strategy, ...], BeforeValidator(_as_tuple), AfterValidator(_in_order)] = Field(
        description="What it is told to do; the order makes no difference."
    )
    value: GameValue = Field(default=None, description="For `anchor`: the value; default: one that the model chooses.")
    after: int = Field(
        default=_AFTER, ge=1, le=10_000, description="For `impersonate`: the last round before it defects."
    )

    @model_validator(mode="after")
    def _used(self) -> "Strategies":
        if self.value is not None and "anchor" not in self.strategies:
            raise ValueError("value is for the strategy anchor alone; remove it, or add anchor")
        if self.after != _AFTER and "impersonate" not in self.strategies:
            raise ValueError("after is for the strategy impersonate alone; remove it, or add impersonate")
        return self


def strategy_instructions(given: Strategies) -> str:
    """Return what follows the paper's Byzantine system prompts: the heading, and the text of each strategy."""
    words = {
        "target": "one value of your choice that no other agent has proposed"
        if given.value is None
        else f"the value {given.value}",
        "after": given.after,
    }
    return "\n".join([HEADING, *(fill(text_of(TEXTS[name]), words) for name in given.strategies)])


LLM_STRATEGIES = PolicyKind(
    name="llm_strategies",
    summary="A language model with the game's prompts, and the strategies that it is told to follow.",
    roles=(BYZANTINE,),
    Parameters=Strategies,
    instructions=strategy_instructions,
    misfit=outside_range,
)
