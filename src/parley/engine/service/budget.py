"""What a study spends of its budget, counted by all its processes over its whole life, in tokens and in money.

What requests in flight can use at most is set aside before they are sent: so many processes at once do not spend more
than there is. A process that dies in between leaves what it had set aside; that counts as spent, since the service may
have charged it. What a batch set aside belongs to no process, and counts as spent until somebody has its replies.
"""

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

from parley.engine.service.dialect import BudgetLimits, Price
from parley.engine.service.limits import SharedDatabase, named_errors
from parley.errors import BudgetError
from parley.policies import Tokens
from parley.text import limited_logger, waiting

_POLL_SECONDS = 0.2
_TELL_SECONDS = 30.0
_CENT = 1e-9  # sums of money are not exact
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
    model TEXT, priced INTEGER, prompt INTEGER, completion INTEGER, cached INTEGER, cost REAL,
    PRIMARY KEY (model, priced)
);
CREATE TABLE IF NOT EXISTS reserved (
    name TEXT PRIMARY KEY, owner TEXT, model TEXT, prompt INTEGER, completion INTEGER
);
CREATE TABLE IF NOT EXISTS refused (one INTEGER PRIMARY KEY, model TEXT, prompt INTEGER, completion INTEGER);
"""
_ADD = """
INSERT INTO spent (model, priced, prompt, completion, cached, cost) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
    prompt = prompt + excluded.prompt, completion = completion + excluded.completion,
    cached = cached + excluded.cached, cost = cost + excluded.cost"""
_SETTLE = "DELETE FROM reserved WHERE name = ? RETURNING model, prompt, completion"
_log = limited_logger(__name__)

Prices = Mapping[str, Price | None]
Request = tuple[str, Tokens]


@dataclass
class Account:
    """What was spent, by model and whether it had a price then: tokens, and the money of those that had one."""

    amounts: dict[tuple[str, bool], tuple[Tokens, float]] = field(default_factory=dict)

    def add(self, model: str, tokens: Tokens, price: Price | None) -> None:
        """Count more."""
        self.add_amount(model, price is not None, tokens, 0.0 if price is None else price.of(tokens))

    def add_amount(self, model: str, priced: bool, tokens: Tokens, cost: float) -> None:
        """Count more, whose cost is known."""
        before, paid = self.amounts.get((model, priced), (Tokens(), 0.0))
        self.amounts[model, priced] = (before + tokens, paid + cost)

    def __add__(self, other: "Account") -> "Account":
        both = Account(dict(self.amounts))
        for key, amount in other.amounts.items():
            both.add_amount(*key, *amount)
        return both

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(tokens.total for tokens, _ in self.amounts.values())

    def cost(self, prices: Prices) -> float:
        """Return the money: what was used without a price is charged by today's, if there is one."""
        return sum(
            price.of(tokens) if not priced and (price := prices.get(model)) is not None else cost
            for (model, priced), (tokens, cost) in self.amounts.items()
        )

    def unpriced(self, prices: Prices) -> list[str]:
        """Return the models of which some tokens have no price."""
        return sorted(
            model
            for (model, priced), (tokens, _) in self.amounts.items()
            if not priced and tokens.total and prices.get(model) is None
        )


@dataclass
class Bill:
    """What a request used: None while nobody knows, and then it counts at most."""

    used: Tokens | None = None


class Budget(SharedDatabase):
    """Pays the requests of one process from what a study may spend; a context manager.

    Without limits it only counts. Raises JournalError if its database cannot be used.
    """

    def __init__(
        self,
        whose: str,
        path: Path,
        limits: BudgetLimits | None,
        prices: Prices,
        before: Callable[[], Account] = Account,
        elsewhere: Account | None = None,
    ) -> None:
        """`whose` budget it is for messages; `before` returns what was spent before anybody counted.

        `elsewhere` is what other databases counted.
        """
        super().__init__(path, _SCHEMA)
        self._whose = whose
        self._limits = limits
        self._prices = prices
        self._before = before
        self._elsewhere = elsewhere or Account()

    def __enter__(self) -> "Budget":
        super().__enter__()
        try:
            # Records take long to read: meanwhile another process may count them, and go on.
            with self.transaction() as database:
                is_new = _is_new(database)
            before = self._before() if is_new else Account()
            with self.transaction() as database:
                if _is_new(database):
                    _write(database, before)
                self._charge_lost_requests(database)
        except BaseException:
            self.__exit__()
            raise
        return self

    def require(self, model: str, most: Tokens) -> None:
        """Raise BudgetError if the budget has no room for a request that can use `most`, whatever is in flight."""
        with self.transaction() as database:
            spent = self._spent(database)
            if self._limits is None or fits(self._limits, spent, [(model, most)], self._prices):
                return
            row = (model, most.prompt, most.completion)
            database.execute("INSERT OR REPLACE INTO refused VALUES (1, ?, ?, ?)", row)
        raise BudgetError(spent_line(self._whose, self._limits, spent, (model, most), self._prices))

    def add(self, account: Account) -> None:
        """Count what another database counted, which is given up."""
        with self.transaction() as database:
            _write(database, account)

    @asynccontextmanager
    async def paying(self, model: str, most: Tokens) -> AsyncIterator[Bill]:
        """Set aside what a request can use while it is in flight, then count what it used.

        Waits for others in flight that may leave enough. Raises BudgetError if the budget has no room for it.
        """
        name, bill, began = uuid.uuid4().hex, Bill(), time.monotonic()
        while not self.set_aside([(name, model, most)]):
            self.require(model, most)
            if time.monotonic() - began >= _TELL_SECONDS:
                seldom = waiting("waiting for requests in flight", _TELL_SECONDS, self, serious=False)
                _log.info("waiting for requests in flight: they may leave enough of the budget", extra=seldom)
            await asyncio.sleep(_POLL_SECONDS)
        try:
            yield bill
        finally:
            self.settle(name, bill.used)

    def set_aside(self, requests: Sequence[tuple[str, str, Tokens]], in_batch: bool = False) -> int:
        """Set aside what requests (name, model, most) can use, the first of them that there is room for.

        Returns how many these are, beside those in flight. What goes `in_batch` outlives this process.
        """
        with self.transaction() as database:
            spent = self._spent(database)
            in_flight: dict[str, Tokens] = {}
            for model, most in _reserved(database, "owner IS NOT NULL"):
                in_flight[model] = in_flight.get(model, Tokens()) + most
            for number, (name, model, most) in enumerate(requests):
                in_flight[model] = in_flight.get(model, Tokens()) + most
                if self._limits is not None and not fits(self._limits, spent, in_flight.items(), self._prices):
                    self._charge_lost_requests(database)
                    return number
                row = (name, None if in_batch else self.owner, model, most.prompt, most.completion)
                database.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?)", row)
            return len(requests)

    def settle(self, name: str, used: Tokens | None) -> None:
        """Count what a request used that something was set aside for, the first time alone; None counts at most."""
        with self.transaction() as database:
            for model, *most in database.execute(_SETTLE, (name,)).fetchall():
                self._count(database, model, Tokens(*most) if used is None else used)

    def _count(self, database: sqlite3.Connection, model: str, used: Tokens) -> None:
        account = Account()
        if used.total:
            account.add(model, used, self._prices.get(model))
        _write(database, account)

    def _spent(self, database: sqlite3.Connection) -> Account:
        return _account(database, self._prices) + self._elsewhere

    def _charge_lost_requests(self, database: sqlite3.Connection) -> None:
        """Count what dead processes had set aside as spent: nobody knows what their requests used."""
        for owner in self.dead_owners("reserved"):
            for model, most in _reserved(database, "owner = ?", owner):
                self._count(database, model, most)
            database.execute("DELETE FROM reserved WHERE owner = ?", (owner,))


def part_of(limits: BudgetLimits, spent: Account, prices: Prices, parts: int) -> BudgetLimits:
    """Return one of so many equal parts of what is left of a budget, which may be nothing."""
    tokens = None if limits.tokens is None else max(limits.tokens - spent.tokens, 0) // parts
    cost = None if limits.cost is None else max(limits.cost - spent.cost(prices), 0.0) / parts
    return BudgetLimits.model_construct(tokens=tokens, cost=cost)


def fits(limits: BudgetLimits, spent: Account, more: Iterable[Request], prices: Prices) -> bool:
    """Whether a budget has room for more requests, which use all that they can."""
    more = list(more)
    if limits.tokens is not None and spent.tokens + sum(most.total for _, most in more) > limits.tokens:
        return False
    return limits.cost is None or spent.cost(prices) + _most_cost(more, prices) <= limits.cost + _CENT


def _most_cost(requests: Iterable[Request], prices: Prices) -> float:
    return sum(price.most(most) for model, most in requests if (price := prices.get(model)) is not None)


def spent_line(whose: str, limits: BudgetLimits, spent: Account, request: Request, prices: Prices) -> str:
    """Return in words that a budget has no room for a request."""
    needs = []
    if limits.tokens is not None:
        needs.append(f"use {request[1].total:,} tokens")
    if limits.cost is not None:
        needs.append(f"cost {_most_cost([request], prices):.4g}")
    return (
        f"the budget of {whose} is spent: {budget_line(limits, spent, prices)}, and the next request may "
        f"{' and '.join(needs)}; raise `budget` in the study file, and the same command goes on from the journals"
    )


def budget_line(limits: BudgetLimits, spent: Account, prices: Prices) -> str:
    """Return what was spent of what, in words."""
    amounts = []
    if limits.tokens is not None:
        amounts.append(f"{spent.tokens:,} of {limits.tokens:,} tokens")
    if limits.cost is not None:
        unpriced = spent.unpriced(prices)
        without = f" (without {', '.join(unpriced)}, which has no price any more)" if unpriced else ""
        amounts.append(f"{spent.cost(prices):.4f} of {limits.cost:g} in money{without}")
    return " and ".join(amounts) + " spent"


def read_databases(paths: Iterable[Path], prices: Prices, in_flight: bool) -> tuple[Account, list[Request]]:
    """Return the sum of what databases counted, and the request that each refused last. Changes nothing.

    Requests `in_flight` count at most. Raises JournalError for a file that cannot be read.
    """
    account, refused = Account(), []
    for path in paths:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with named_errors(path), closing(sqlite3.connect(uri, uri=True)) as database:
            account += _account(database, prices, in_flight)
            rows = database.execute("SELECT model, prompt, completion FROM refused")
            refused += [(model, Tokens(*most)) for model, *most in rows]
    return account, refused


def _is_new(database: sqlite3.Connection) -> bool:
    return database.execute("SELECT 1 FROM spent").fetchone() is None


def _account(database: sqlite3.Connection, prices: Prices, in_flight: bool = False) -> Account:
    """Return what was spent, with what batches can use at most until their replies are there; or all `in_flight`."""
    rows = database.execute("SELECT model, priced, prompt, completion, cached, cost FROM spent")
    account = Account({(model, bool(priced)): (Tokens(*tokens), cost) for model, priced, *tokens, cost in rows})
    for model, most in _reserved(database, "TRUE" if in_flight else "owner IS NULL"):
        account.add(model, most, prices.get(model))
    return account


def _reserved(database: sqlite3.Connection, where: str, *values: str) -> list[Request]:
    rows = database.execute(f"SELECT model, prompt, completion FROM reserved WHERE {where}", values)
    return [(model, Tokens(*most)) for model, *most in rows]


def _write(database: sqlite3.Connection, account: Account) -> None:
    for (model, priced), (tokens, cost) in account.amounts.items():
        database.execute(_ADD, (model, priced, tokens.prompt, tokens.completion, tokens.cached, cost))
