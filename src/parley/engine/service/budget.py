"""What the services of a study may spend, in tokens and in money, over the study's whole life.

One process at a time spends it. What was answered before stands in records and journals, where that process counts it
when it starts. What requests in flight can use at most is set aside before they are sent: so no more is spent than
there is. A file of its own holds what no journal does: requests whose replies were lost, and those in flight, which
count as spent if the process dies, since the service may have charged them.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, RootModel, ValidationError

from parley.engine.service.dialect import BudgetLimits, Price
from parley.errors import BudgetError, JournalError
from parley.files import checked_line, failed, open_regular, open_to_append, parse_line, try_lock
from parley.policies import Tokens
from parley.text import limited_logger, waiting

_POLL_SECONDS = 0.2
_TELL_SECONDS = 30.0
_WRITE_SECONDS = 5.0  # how often what was spent is written for those who look
_LOCK_PATIENCE = 30.0  # seconds that a killed process is given to end
_LAST_BYTES = 100_000  # of its file, which have its last line
_CENT = 1e-9  # sums of money are not exact
_log = limited_logger(__name__)

Prices = Mapping[str, Price | None]
Request = tuple[str, Tokens]  # its model, and what it can use at most


class Account(RootModel[dict[str, Tokens]]):
    """Tokens by model."""

    root: dict[str, Tokens] = {}

    def add(self, model: str, tokens: Tokens) -> None:
        """Count more."""
        self.root[model] = self.root.get(model, Tokens()) + tokens

    @property
    def total(self) -> int:
        """All tokens."""
        return sum(tokens.total for tokens in self.root.values())

    def cost(self, prices: Prices) -> float:
        """Return the money; a model without a price costs nothing."""
        return sum(price.of(tokens) for model, tokens in self.root.items() if (price := prices.get(model)))


@dataclass(eq=False)
class Bill:
    """What a request used: None while nobody knows, and then it counts at most."""

    used: Tokens | None = None


class Spending(BaseModel):
    """What the file of a budget says: what was `spent` when it was written, and of that what is in no journal."""

    spent: Account = Account()
    unrecorded: Account = Account()
    refused: Request | None = None  # the request that there was no room for


class Budget:
    """Pays the requests of this process, and of no other meanwhile, from what a study may spend; a context manager."""

    def __init__(
        self,
        study: str,
        path: Path,
        limits: BudgetLimits,
        prices: Prices,
        before: Callable[[], Account],
        journals: bool = True,
    ) -> None:
        """`before` returns what was spent so far; without `journals`, replies appear in none."""
        self._study, self._path, self._limits, self._prices = study, path, limits, prices
        self._before, self._journals = before, journals
        self._in_flight: dict[Bill, Request] = {}

    def __enter__(self) -> "Budget":
        """Raise JournalError if its file cannot be used, or if another process spends this budget."""
        with ExitStack() as opened:
            self._fd = open_to_append(self._path)
            opened.callback(os.close, self._fd)
            if not try_lock(self._fd, self._path, _LOCK_PATIENCE):
                raise JournalError(
                    f"{self._path}: another process spends the budget of {self._study}; wait for it or stop it"
                )
            unrecorded = read_spending(self._path).unrecorded
            self._spending = Spending(spent=self._before(), unrecorded=unrecorded)
            self._write()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._opened:
            self._write()

    def require(self, model: str, most: Tokens) -> None:
        """Raise BudgetError if the budget has no room for a request that can use `most`, whatever is in flight."""
        spent = self._spending.spent
        if not fits(self._limits, spent, [(model, most)], self._prices):
            self._spending.refused = (model, most)
            self._write()
            raise BudgetError(spent_line(self._study, self._limits, spent, (model, most), self._prices))

    @asynccontextmanager
    async def paying(self, model: str, most: Tokens) -> AsyncIterator[Bill]:
        """Set aside what a request can use while it is in flight, then count what it used.

        Waits for others in flight that may leave enough. Raises BudgetError if the budget has no room for it.
        """
        bill, spent, said = Bill(), self._spending.spent, "waiting for requests in flight"
        came = time.monotonic()
        while not fits(self._limits, spent, [*self._in_flight.values(), (model, most)], self._prices):
            self.require(model, most)
            seldom = waiting(said, _TELL_SECONDS, self, came, serious=False)
            _log.info("%s: they may leave enough of the budget", said, extra=seldom)
            await asyncio.sleep(_POLL_SECONDS)
        self._in_flight[bill] = (model, most)
        try:
            self._write()
            yield bill
        finally:
            self._settle(bill)

    def _settle(self, bill: Bill) -> None:
        model, most = self._in_flight.pop(bill)
        used = most if bill.used is None else bill.used
        self._spending.spent.add(model, used)
        is_unrecorded = bill.used is None or not self._journals
        if is_unrecorded:
            self._spending.unrecorded.add(model, used)
        if is_unrecorded or time.monotonic() - self._written >= _WRITE_SECONDS:
            self._write()

    def _write(self) -> None:
        spending = self._spending.model_copy(deep=True)
        for request in self._in_flight.values():
            spending.unrecorded.add(*request)
        self._written = time.monotonic()
        try:
            os.write(self._fd, checked_line(spending.model_dump()))
        except OSError as error:
            raise failed(self._path, "written", error) from error


def read_spending(path: Path) -> Spending:
    """Return what the file of a budget says, nothing without one; raises JournalError for one that is damaged."""
    try:
        with open_regular(path, follow=False) as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _LAST_BYTES, 0))
            lines = file.read().splitlines(keepends=True)
    except FileNotFoundError:
        return Spending()
    except OSError as error:
        raise failed(path, "read", error) from error
    content = next(filter(None, map(parse_line, reversed(lines))), None)  # the last may have been cut off by a death
    try:
        return Spending() if not lines else Spending.model_validate(content)
    except ValidationError:
        raise JournalError(
            f"{path}: is damaged; delete it, and what records and journals hold is counted again"
        ) from None


def fits(limits: BudgetLimits, spent: Account, more: Iterable[Request], prices: Prices) -> bool:
    """Whether a budget has room for more requests, which use all that they can."""
    more = list(more)
    if limits.tokens is not None and spent.total + sum(most.total for _, most in more) > limits.tokens:
        return False
    return limits.cost is None or spent.cost(prices) + _most_cost(more, prices) <= limits.cost + _CENT


def _most_cost(requests: Iterable[Request], prices: Prices) -> float:
    return sum(price.most(most) for model, most in requests if (price := prices.get(model)) is not None)


def spent_line(study: str, limits: BudgetLimits, spent: Account, request: Request, prices: Prices) -> str:
    """Return in words that the budget of a study has no room for a request."""
    needs = []
    if limits.tokens is not None:
        needs.append(f"use {request[1].total:,} tokens")
    if limits.cost is not None:
        needs.append(f"cost {_most_cost([request], prices):.4g}")
    return (
        f"the budget of {study} is spent: {budget_line(limits, spent, prices)}, and the next request may "
        f"{' and '.join(needs)}; raise `budget` in the study file, and the same command goes on from the journals"
    )


def budget_line(limits: BudgetLimits, spent: Account, prices: Prices) -> str:
    """Return what was spent of what, in words."""
    amounts = []
    if limits.tokens is not None:
        amounts.append(f"{spent.total:,} of {limits.tokens:,} tokens")
    if limits.cost is not None:
        unpriced = sorted(model for model in spent.root if prices.get(model) is None)
        without = f" (without {', '.join(unpriced)}, which has no price any more)" if unpriced else ""
        amounts.append(f"{spent.cost(prices):.4f} of {limits.cost:g} in money{without}")
    return " and ".join(amounts) + " spent"
