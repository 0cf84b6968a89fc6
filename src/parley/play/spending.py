"""What a study spends of its budget, counted by all its processes over its whole life.

A line per reply in a file that is only appended to; each has the sum so far, so that the last whole one says it all.
What requests in flight can use at most is set aside before they are sent: so many processes at once do not spend more
than there is. A process that dies in between leaves what it had set aside; that counts as spent, since the service may
have charged it.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parley import paths
from parley.engine.service.shared import SharedState, peek
from parley.engine.service.terms import Bill, Price
from parley.errors import BudgetError, JournalError
from parley.files import checked_line, parse_line, write_atomically
from parley.play.account import Account, Prices, account_of, prices_of, spent_before
from parley.policies import Tokens
from parley.study import Study
from parley.study.study_file import Budget
from parley.text.logs import limited_logger, waiting

_TAIL_BYTES = 1 << 16  # enough for the last line
_MAX_BYTES = 1 << 22  # beyond, only the last line is kept
_POLL_SECONDS = 0.2
_BURY_SECONDS = 2.0
_log = limited_logger(__name__)
_TELL_SECONDS = 30.0
_CENT = 1e-9  # sums of money are not exact


class _Log:
    """The file of what was spent. Its methods are called under the lock of the shared state."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def account(self) -> Account | None:
        """Return the sum; None if nothing was counted yet."""
        last = self._last()
        return None if last is None else account_of(last["sum"])

    def begin(self, account: Account) -> None:
        """Make the file, with what was spent before."""
        write_atomically(self._path, lambda file: file.write(checked_line({"before": True, "sum": account.as_json()})))

    def append(self, account: Account, model: str, tokens: Tokens, price: Price | None, lost: bool) -> None:
        """Count the tokens of one reply in `account`, and write the line."""
        account.add(model, tokens, price)
        line = checked_line(
            {
                "at": round(time.time(), 1),
                "model": model,
                **asdict(tokens),
                "cost": None if price is None else price.of(tokens),
                **({"lost": True} if lost else {}),
                "sum": account.as_json(),
            }
        )
        if self._path.stat().st_size > _MAX_BYTES:
            write_atomically(self._path, lambda file: file.write(line))
            return
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            end = os.fstat(fd).st_size
            if end and os.pread(fd, 1, end - 1) != b"\n":  # a process died in a line
                kept = self._path.read_bytes().rfind(b"\n") + 1
                os.ftruncate(fd, kept)
            os.write(fd, line)
        finally:
            os.close(fd)

    def _last(self) -> dict[str, Any] | None:
        """Return the last whole line; raises JournalError if there are only others."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                for start in (max(size - _TAIL_BYTES, 0), 0):
                    file.seek(start)
                    for line in reversed(file.read().splitlines(keepends=True)):
                        data = parse_line(line)
                        if data is not None and "sum" in data:
                            return data
        except FileNotFoundError:
            return None
        raise JournalError(
            f"{self._path}: damaged; delete it: what was spent is then counted again from records and journals"
        )


class Purse:
    """Pays the requests of one process from the budget of a study; an async context manager.

    Without a budget it only counts. Raises JournalError if what the processes share cannot be used.
    """

    def __init__(
        self,
        study: str,
        budget: Budget | None,
        prices: Prices,
        before: Callable[[], Account],
    ) -> None:
        """`before` returns what was spent before anybody counted."""
        self._study = study
        self._budget = budget
        self._prices = prices
        self._before = before
        self._shared = SharedState(paths.spending(study))
        self._log = _Log(paths.spent(study))
        self._stack = AsyncExitStack()
        self._buried = float("-inf")

    async def __aenter__(self) -> "Purse":
        await self._stack.enter_async_context(self._shared)
        try:
            async with self._shared.changing() as state:
                if self._log.account() is None:
                    self._log.begin(self._before())
                self._charge_the_dead(state, self._sum())
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def require(self, model: str, most: Tokens) -> None:
        """Raise BudgetError if the budget has no room for a request that can use `most`."""
        if self._budget is not None:
            async with self._shared.changing() as state:
                account = self._sum()
                room = self._has_room(account, [(model, most)], state)
            if not room:
                raise self._spent(account, model, most)

    @asynccontextmanager
    async def paying(self, model: str, most: Tokens) -> AsyncIterator[Bill]:
        """Set aside what a request can use while it is in flight, then count what it used.

        Waits for others in flight that may leave enough. Raises BudgetError if the budget has no room for it.
        """
        await self._set_aside(model, most)
        bill = Bill()
        try:
            yield bill
        finally:
            async with self._shared.changing() as state:
                used = most if bill.used is None else bill.used
                if used.total:
                    self._log.append(self._sum(), model, used, self._prices.get(model), lost=bill.used is None)
                own = state.setdefault("aside", {}).setdefault(self._shared.owner, {})
                prompt, completion = own.get(model, (most.prompt, most.completion))
                own[model] = [prompt - most.prompt, completion - most.completion]

    async def _set_aside(self, model: str, most: Tokens) -> None:
        began = time.monotonic()
        while True:
            async with self._shared.changing() as state:
                account = self._sum()
                room = self._has_room(account, [(model, most)], state)
                aside = state.setdefault("aside", {})
                if self._fits(account, [(model, most), *_listed(aside)]):
                    prompt, completion = aside.setdefault(self._shared.owner, {}).get(model, (0, 0))
                    aside[self._shared.owner][model] = [prompt + most.prompt, completion + most.completion]
                    return
                now = time.monotonic()
                if room and now - self._buried >= _BURY_SECONDS:
                    self._charge_the_dead(state, account)
            if not room:
                raise self._spent(account, model, most)
            if now - began >= _TELL_SECONDS:
                seldom = waiting("waiting for requests in flight", _TELL_SECONDS, self, serious=False)
                _log.info("waiting for requests in flight: they may leave enough of the budget", extra=seldom)
            await asyncio.sleep(_POLL_SECONDS)

    def _sum(self) -> Account:
        account = self._log.account()
        if account is None:  # somebody deleted it
            account = self._before()
            self._log.begin(account)
        return account

    def _charge_the_dead(self, state: dict[str, Any], account: Account) -> None:
        self._buried = time.monotonic()
        aside = state.setdefault("aside", {})
        for owner in self._shared.bury(aside):
            for model, tokens in _listed({owner: aside.pop(owner)}):
                if tokens.total:
                    self._log.append(account, model, tokens, self._prices.get(model), lost=True)

    def _has_room(self, account: Account, request: list[tuple[str, Tokens]], state: dict[str, Any]) -> bool:
        """Whether the budget has room for a request if those in flight leave all; remembers one that has none."""
        fits = self._fits(account, request)
        if not fits:
            state["refused"] = [[model, tokens.prompt, tokens.completion] for model, tokens in request]
        return fits

    def _fits(self, account: Account, more: list[tuple[str, Tokens]]) -> bool:
        return self._budget is None or _fits(self._budget, account, more, self._prices)

    def _spent(self, account: Account, model: str, most: Tokens) -> BudgetError:
        assert self._budget is not None
        return BudgetError(_spent_line(self._study, self._budget, account, [(model, most)], self._prices))


def _fits(budget: Budget, account: Account, more: list[tuple[str, Tokens]], prices: Prices) -> bool:
    tokens = account.tokens + sum(tokens.total for _, tokens in more)
    if budget.tokens is not None and tokens > budget.tokens:
        return False
    return budget.cost is None or account.cost(prices) + _most_cost(more, prices) <= budget.cost + _CENT


def _most_cost(more: list[tuple[str, Tokens]], prices: Prices) -> float:
    return sum(price.most(tokens) for model, tokens in more if (price := prices.get(model)) is not None)


def _spent_line(
    study: str, budget: Budget, account: Account, request: list[tuple[str, Tokens]], prices: Prices
) -> str:
    needs = []
    if budget.tokens is not None:
        needs.append(f"use {sum(tokens.total for _, tokens in request):,} tokens")
    if budget.cost is not None:
        needs.append(f"cost {_most_cost(request, prices):.4g}")
    return (
        f"the budget of {study} is spent: {budget_line(budget, account, prices)}, and the next request may "
        f"{' and '.join(needs)}; raise `budget` in the study file, and the same command goes on from the journals"
    )


def _listed(aside: Mapping[str, Mapping[str, list[int]]]) -> list[tuple[str, Tokens]]:
    return [(model, Tokens(*numbers)) for models in aside.values() for model, numbers in models.items()]


def purse_of(study: Study) -> Purse | None:
    """Return what pays the requests of a study; None if it has no budget, and never had one."""
    if study.budget is None and not paths.spent(study.name).exists():
        return None
    return Purse(study.name, study.budget, prices_of(study), lambda: spent_before(study))


def spending_line(study: Study) -> str | None:
    """Return what a study spent of its budget, in words; None if it has none. Changes nothing.

    Raises RecordError or JournalError for a file that cannot be read.
    """
    if study.budget is None:
        return None
    account = _Log(paths.spent(study.name)).account() or spent_before(study)
    return f"budget: {budget_line(study.budget, account, prices_of(study))}"


def spent_line(study: Study) -> str | None:
    """Return in words that the budget has no room for the request that was refused last; None if it has."""
    if study.budget is None:
        return None
    # What was refused may have been asked by a configuration that the study no longer has.
    used = {model for condition in study.conditions for model in condition.models}
    listed = peek(paths.spending(study.name)).get("refused", [])
    refused = [(model, Tokens(*tokens)) for model, *tokens in listed if model in used]
    account = _Log(paths.spent(study.name)).account()
    if not refused or account is None or _fits(study.budget, account, refused, prices_of(study)):
        return None
    return _spent_line(study.name, study.budget, account, refused, prices_of(study))


def budget_line(budget: Budget, account: Account, prices: Prices) -> str:
    """Return what was spent of what, in words."""
    parts = []
    if budget.tokens is not None:
        parts.append(f"{account.tokens:,} of {budget.tokens:,} tokens")
    if budget.cost is not None:
        unpriced = account.unpriced(prices)
        without = f" (without {', '.join(unpriced)}, which has no price any more)" if unpriced else ""
        parts.append(f"{account.cost(prices):.4f} of {budget.cost:g} in money{without}")
    return " and ".join(parts) + " spent"
