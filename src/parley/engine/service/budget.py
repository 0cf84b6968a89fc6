"""What a study spends of its budget, counted by all its processes over its whole life, in tokens and in money.

What requests in flight can use at most is set aside before they are sent: so many processes at once do not spend more
than there is. A process that dies in between leaves what it had set aside; that counts as spent, since the service may
have charged it.
"""

import asyncio
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from parley.engine.service.limits_config import BudgetLimits, Price
from parley.engine.service.shared_database import SharedDatabase, gone
from parley.errors import BudgetError, JournalError
from parley.policies import Tokens
from parley.text.logs import limited_logger, waiting

_POLL_SECONDS = 0.2
_REAP_SECONDS = 2.0
_TELL_SECONDS = 30.0
_CENT = 1e-9  # sums of money are not exact
_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
    model TEXT, priced INTEGER, prompt INTEGER, completion INTEGER, cached INTEGER, cost REAL, requests INTEGER,
    lost INTEGER, PRIMARY KEY (model, priced)
);
CREATE TABLE IF NOT EXISTS reserved (
    name TEXT PRIMARY KEY, owner TEXT, model TEXT, prompt INTEGER, completion INTEGER
);
CREATE TABLE IF NOT EXISTS refused (one INTEGER PRIMARY KEY, model TEXT, prompt INTEGER, completion INTEGER);
"""
_ADD = """
INSERT INTO spent VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    prompt = prompt + excluded.prompt, completion = completion + excluded.completion,
    cached = cached + excluded.cached, cost = cost + excluded.cost,
    requests = requests + excluded.requests, lost = lost + excluded.lost"""
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


class Budget:
    """Pays the requests of one process from what a study may spend; an async context manager.

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
        self._whose = whose
        self._limits = limits
        self._prices = prices
        self._before = before
        self._elsewhere = elsewhere or Account()
        self._database = SharedDatabase(path, _SCHEMA)
        self._reaped = float("-inf")

    async def __aenter__(self) -> "Budget":
        await self._database.__aenter__()
        try:
            await self._database.change(self._begin)
        except BaseException:
            await self._database.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._database.__aexit__()

    async def require(self, model: str, most: Tokens) -> None:
        """Raise BudgetError if the budget has no room for a request that can use `most`."""
        if self._limits is not None:
            refusal = await self._database.change(partial(self._refusal, request=(model, most)))
            if refusal is not None:
                raise refusal

    async def add(self, account: Account) -> None:
        """Count what another database counted, which is given up."""
        await self._database.change(partial(_write, account=account))

    @asynccontextmanager
    async def paying(self, model: str, most: Tokens) -> AsyncIterator[Bill]:
        """Set aside what a request can use while it is in flight, then count what it used.

        Waits for others in flight that may leave enough. Raises BudgetError if the budget has no room for it.
        """
        name, bill = uuid.uuid4().hex, Bill(Tokens())
        try:
            await self._reserve(name, (model, most))
            bill.used = None
            yield bill
        finally:
            lost = bill.used is None
            used = most if bill.used is None else bill.used
            await self._database.change(partial(self._settle, name=name, request=(model, used), lost=lost))

    async def _reserve(self, name: str, request: Request) -> None:
        began = time.monotonic()
        while not (found := await self._database.change(partial(self._set_aside, name=name, request=request))):
            if time.monotonic() - began >= _TELL_SECONDS:
                seldom = waiting("waiting for requests in flight", _TELL_SECONDS, self, serious=False)
                _log.info("waiting for requests in flight: they may leave enough of the budget", extra=seldom)
            await asyncio.sleep(_POLL_SECONDS)
        if isinstance(found, BudgetError):
            raise found

    # Within a transaction

    def _begin(self, database: sqlite3.Connection) -> None:
        if database.execute("SELECT 1 FROM spent").fetchone() is None:
            _write(database, self._before())
        self._charge_lost_requests(database)

    def _refusal(self, database: sqlite3.Connection, request: Request) -> BudgetError | None:
        """Return why a request has no room if those in flight leave all, and remember it; None if it has."""
        spent = self._spent(database)
        if self._limits is None or self._fits(spent, [request]):
            return None
        model, most = request
        database.execute("INSERT OR REPLACE INTO refused VALUES (1, ?, ?, ?)", (model, most.prompt, most.completion))
        return BudgetError(spent_line(self._whose, self._limits, spent, request, self._prices))

    def _set_aside(self, database: sqlite3.Connection, name: str, request: Request) -> bool | BudgetError:
        """Whether there was room for a request beside those in flight; the error if there can be none."""
        if (refusal := self._refusal(database, request)) is not None:
            return refusal
        if self._fits(self._spent(database), [request, *_reserved(database)]):
            model, most = request
            row = (name, self._database.owner, model, most.prompt, most.completion)
            database.execute("INSERT INTO reserved VALUES (?, ?, ?, ?, ?)", row)
            return True
        if time.monotonic() - self._reaped >= _REAP_SECONDS:
            self._charge_lost_requests(database)
        return False

    def _settle(self, database: sqlite3.Connection, name: str, request: Request, lost: bool) -> None:
        set_aside = database.execute("DELETE FROM reserved WHERE name = ?", (name,)).rowcount
        if set_aside and request[1].total:
            _count(database, *request, self._prices.get(request[0]), lost)

    def _charge_lost_requests(self, database: sqlite3.Connection) -> None:
        """Count what dead processes had set aside as spent: nobody knows what their requests used."""
        self._reaped = time.monotonic()
        owners = [owner for [owner] in database.execute("SELECT DISTINCT owner FROM reserved")]
        for owner in gone(owners):
            for model, most in _reserved(database, owner):
                _count(database, model, most, self._prices.get(model), lost=True)
            database.execute("DELETE FROM reserved WHERE owner = ?", (owner,))

    def _spent(self, database: sqlite3.Connection) -> Account:
        return _account(database) + self._elsewhere

    def _fits(self, spent: Account, more: Iterable[Request]) -> bool:
        return self._limits is None or fits(self._limits, spent, more, self._prices)


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


def read_database(path: Path, prices: Prices, in_flight: bool) -> tuple[Account | None, Request | None]:
    """Return what a database counted, None if nothing yet, and the request that it refused last. Changes nothing.

    Requests `in_flight` count at most. Raises JournalError for a file that cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            spent = _account(database)
            for model, most in _reserved(database) if in_flight else []:
                spent.add(model, most, prices.get(model))
            refused = database.execute("SELECT model, prompt, completion FROM refused").fetchone()
    except sqlite3.Error as error:
        raise JournalError(
            f"{path}: damaged ({error}); delete it: what was spent is then counted again from records and journals"
        ) from None
    return spent if spent.amounts else None, refused and (refused[0], Tokens(*refused[1:]))


def _account(database: sqlite3.Connection) -> Account:
    rows = database.execute("SELECT model, priced, prompt, completion, cached, cost FROM spent")
    return Account({(model, bool(priced)): (Tokens(*tokens), cost) for model, priced, *tokens, cost in rows})


def _reserved(database: sqlite3.Connection, owner: str | None = None) -> list[Request]:
    rows = database.execute("SELECT model, prompt, completion FROM reserved WHERE owner = ?1 OR ?1 IS NULL", (owner,))
    return [(model, Tokens(*most)) for model, *most in rows]


def _count(database: sqlite3.Connection, model: str, tokens: Tokens, price: Price | None, lost: bool) -> None:
    one = Account()
    one.add(model, tokens, price)
    _write(database, one, requests=1, lost=int(lost))


def _write(database: sqlite3.Connection, account: Account, requests: int = 0, lost: int = 0) -> None:
    for (model, priced), (tokens, cost) in account.amounts.items():
        amounts = (tokens.prompt, tokens.completion, tokens.cached, cost, requests, lost)
        database.execute(_ADD, (model, priced, *amounts))
