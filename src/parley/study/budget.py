"""The budget of a study: how many tokens, or how much money, its models may use over its whole life."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from parley.engine.models import ModelEntry
from parley.errors import UsageError


class Budget(BaseModel):
    """What a study may spend; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: Annotated[int, Field(strict=True, ge=1, le=10**15)] | None = Field(
        default=None, description="Tokens of prompts and replies."
    )
    cost: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        default=None, description="Money, by the `price` of the models' entries and in its currency."
    )

    @model_validator(mode="after")
    def _says_something(self) -> "Budget":
        if self.tokens is None and self.cost is None:
            raise ValueError("give tokens, or cost, or both")
        return self


def check_prices(
    budget: Budget | None, used: Iterable[str], models: Mapping[str, ModelEntry], where: str, models_file: Path
) -> None:
    """Raise UsageError if money is limited and a model that is used has no price."""
    if budget is None or budget.cost is None:
        return
    for name in sorted(set(used)):
        if models[name].price is None:
            raise UsageError(
                f"{where}: budget.cost: {budget.cost:g}: {name} has no price; add price: {{prompt: ..., "
                f"completion: ...}} to models.{name} in {models_file}, or give budget.tokens alone"
            )
