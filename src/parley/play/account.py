"""What a study spent, by model: tokens, and money where a model has a price; counted, or found in records."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from parley import paths
from parley.engine.service.terms import Price
from parley.errors import UsageError
from parley.play.journal import journaled
from parley.play.parquet import values
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study

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


def prices_of(study: Study) -> Prices:
    """Return the price of each model of a study; None for one without."""
    return {name: entry.price for name, entry in study.models.items()}


def spent_before(study: Study) -> Account:
    """Return what the records and journals of a study hold, those of former configurations included.

    Requests whose replies were lost are in none. Raises RecordError or JournalError for a file that cannot be read.
    """
    account = Account()
    prices = prices_of(study)
    records, journals = paths.simulations(study.name), paths.journals(study.name)
    counted: set[Path] = set()
    for root in (records, journals):  # a finished record may be under both names, or under one
        for path in sorted(root.rglob("*.parquet")):
            simulation = path.relative_to(root).with_suffix("")
            if simulation not in counted:
                counted.add(simulation)
                for model, tokens in _of_record(path):
                    account.add(model, tokens, prices.get(model))
    for path in sorted(journals.rglob("*.jsonl")):
        simulation = path.relative_to(journals).with_suffix("")
        if simulation not in counted:
            for model, tokens in _of_journal(study, path, records / simulation.with_suffix(".parquet")):
                account.add(model, tokens, prices.get(model))
    return account


_COLUMNS = ("player", "prompt_tokens", "completion_tokens", "cached_tokens")


def _of_record(path: Path) -> Iterator[tuple[str, Tokens]]:
    summary, rows = read_attempts(path, _COLUMNS)
    models = {g["player"]: g["model_name"] for g in summary.simulation["groups"] if {"player", "model_name"} <= set(g)}
    for player, prompt, completion, cached in zip(*(values(rows.column(name)) for name in _COLUMNS), strict=True):
        tokens = Tokens(prompt or 0, completion or 0, cached or 0)
        if tokens.total:
            yield models.get(player, player), tokens


def _of_journal(study: Study, path: Path, record: Path) -> Iterator[tuple[str, Tokens]]:
    try:
        simulation = study.find(record)
        players = simulation.players(simulation.game())
        played = {name: player.model or player.label for name, player in players.items()}
    except UsageError:  # of a former configuration: its path says what played
        played = {}
    axis = next((part.partition("=")[2] for part in path.parts if part.startswith("model=")), "unknown")
    for entry in journaled(path):
        tokens = Tokens(entry.prompt_tokens or 0, entry.completion_tokens or 0, entry.cached_tokens or 0)
        if tokens.total:
            yield played.get(entry.agent, axis), tokens
