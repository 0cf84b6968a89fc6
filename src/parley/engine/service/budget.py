"""What the services of a study may spend, in tokens and in money, over the study's whole life.

One process at a time spends it. What was answered before stands in records and journals, where that process counts it
when it starts; from then on it counts in memory. What requests in flight can use at most is set aside before they are
sent, and a request whose reply was lost counts as that, since the service may have charged it.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from parley.engine.service.dialect import BudgetLimits, Price
from parley.errors import BudgetError, JournalError
from parley.files import open_to_append, try_lock
from parley.policies import Tokens
from parley.text import limited_logger, waiting

_POLL_SECONDS = 0.2
_TELL_SECONDS = 30.0
_LOCK_PATIENCE = 30.0  # seconds that a killed process is given to end
_CENT = 1e-9  # sums of money are not exact
_log = limited_logger(__name__)

Prices = Mapping[str, Price | None]
_Request = tuple[str, Tokens]  # its model, and what it can use at most


class Account(dict[str, Tokens]):
    """Tokens by model."""

    def add(self, model: str, tokens: Tokens) -> None:
        """Count more."""
        self[model] = self.get(model, Tokens()) + tokens

    @property
    def total(self) -> int:
        """All tokens."""
        return sum(tokens.total for tokens in self.values())

    def cost(self, prices: Prices) -> float:
        """Return the money; a model without a price costs nothing."""
        return sum(price.of(tokens) for model, tokens in self.items() if (price := prices.get(model)))


@dataclass(eq=False)
class Bill:
    """What a request used: None while nobody knows, and then it counts at most."""

    used: Tokens | None = None


class Budget:
    """Pays the requests of this process, and of no other meanwhile, from what a study may spend; a context manager."""

    def __init__(
        self, study: str, lock: Path, limits: BudgetLimits, prices: Prices, before: Callable[[], Account]
    ) -> None:
        """`before` returns what was spent so far, once nobody else spends: then this process has the `lock`."""
        self._study, self._lock, self._limits, self._prices = study, lock, limits, prices
        self._before = before
        self._in_flight: dict[Bill, _Request] = {}

    def __enter__(self) -> "Budget":
        """Raise JournalError if another process spends this budget, or if a file cannot be used."""
        with ExitStack() as opened:
            fd = open_to_append(self._lock)
            opened.callback(os.close, fd)
            if not try_lock(fd, self._lock):
                _log.info("another process spends the budget of %s: waiting for its end", self._study)
            if not try_lock(fd, self._lock, _LOCK_PATIENCE):
                raise JournalError(
                    f"{self._lock}: another process spends the budget of {self._study}; wait for it or stop it"
                )
            self._spent = self._before()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def require(self, model: str, most: Tokens) -> None:
        """Raise BudgetError if the budget has no room for a request that can use `most`, whatever is in flight."""
        if self._has_room_for([(model, most)]):
            return
        needs = []
        if self._limits.tokens is not None:
            needs.append(f"use {most.total:,} tokens")
        if self._limits.cost is not None:
            needs.append(f"cost {self._most_cost([(model, most)]):.4g}")
        raise BudgetError(
            f"the budget of {self._study} is spent: {budget_line(self._limits, self._spent, self._prices)}, and the "
            f"next request may {' and '.join(needs)}; raise `budget` in the study file, and the same command goes on "
            "from the journals"
        )

    @asynccontextmanager
    async def paying(self, model: str, most: Tokens) -> AsyncIterator[Bill]:
        """Set aside what a request can use while it is in flight, then count what it used.

        Waits for others in flight that may leave enough. Raises BudgetError if the budget has no room for it.
        """
        bill, said = Bill(), "waiting for requests in flight"
        came = time.monotonic()
        while not self._has_room_for([*self._in_flight.values(), (model, most)]):
            self.require(model, most)
            seldom = waiting(said, _TELL_SECONDS, self, came, serious=False)
            _log.info("%s: they may leave enough of the budget", said, extra=seldom)
            await asyncio.sleep(_POLL_SECONDS)
        self._in_flight[bill] = (model, most)
        try:
            yield bill
        finally:
            del self._in_flight[bill]
            used = most if bill.used is None else bill.used
            self._spent.add(model, used)

    def _has_room_for(self, requests: Sequence[_Request]) -> bool:
        """Whether there is room for more requests, which use all that they can."""
        limits, spent = self._limits, self._spent
        if limits.tokens is not None and spent.total + sum(most.total for _, most in requests) > limits.tokens:
            return False
        return limits.cost is None or spent.cost(self._prices) + self._most_cost(requests) <= limits.cost + _CENT

    def _most_cost(self, requests: Sequence[_Request]) -> float:
        return sum(price.most(most) for model, most in requests if (price := self._prices.get(model)) is not None)


def budget_line(limits: BudgetLimits, spent: Account, prices: Prices) -> str:
    """Return what was spent of what, in words."""
    amounts = []
    if limits.tokens is not None:
        amounts.append(f"{spent.total:,} of {limits.tokens:,} tokens")
    if limits.cost is not None:
        unpriced = sorted(model for model in spent if prices.get(model) is None)
        without = f" (without {', '.join(unpriced)}, which has no price any more)" if unpriced else ""
        amounts.append(f"{spent.cost(prices):.4f} of {limits.cost:g} in money{without}")
    return " and ".join(amounts) + " spent"
