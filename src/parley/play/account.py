"""What a study spent, by model: tokens, and money where a model has a price."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from parley.engine.service.terms import Price
from parley.policies import Tokens

Prices = Mapping[str, Price | None]


@dataclass
class ModelSpending:
    """What one model used; `unpriced` is the part of it that came while it had no price, `cost` that of the rest."""

    used: Tokens = field(default_factory=Tokens)
    unpriced: Tokens = field(default_factory=Tokens)
    cost: float = 0.0

    def add(self, tokens: Tokens, price: Price | None) -> None:
        """Count more."""
        self.used += tokens
        if price is None:
            self.unpriced += tokens
        else:
            self.cost += price.of(tokens)


@dataclass
class Account:
    """What a study spent, by model."""

    models: dict[str, ModelSpending] = field(default_factory=dict)

    def add(self, model: str, tokens: Tokens, price: Price | None) -> None:
        """Count more."""
        self.models.setdefault(model, ModelSpending()).add(tokens, price)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(spending.used.total for spending in self.models.values())

    def cost(self, prices: Prices) -> float:
        """Return the money: what was used without a price is charged by today's, if there is one."""
        total = 0.0
        for name, spending in self.models.items():
            price = prices.get(name)
            total += spending.cost + (price.of(spending.unpriced) if price is not None else 0.0)
        return total

    def unpriced(self, prices: Prices) -> list[str]:
        """Return the models of which some tokens have no price."""
        return sorted(n for n, s in self.models.items() if s.unpriced.total and prices.get(n) is None)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {name: asdict(spending) for name, spending in self.models.items()}


def account_of(data: Mapping[str, Any]) -> Account:
    """Return the account that `as_json` gave; raises LookupError or TypeError for anything else."""
    return Account(
        {
            name: ModelSpending(Tokens(**spending["used"]), Tokens(**spending["unpriced"]), spending["cost"])
            for name, spending in data.items()
        }
    )
