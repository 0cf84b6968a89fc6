"""Work in several processes at once: they are forked, so they have what this one has in its memory."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_work: list[tuple[Callable[[Any], Any], Sequence[Any]]] = []  # in a process of the pool


def forked_map(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    """Yield `work` of each item, in order, done by so many processes; results and errors are pickled, no items."""
    processes = min(processes, len(items))
    if processes < 2:
        yield from map(work, items)
        return
    # Forked, so that none imports its libraries again. Nothing else of Parley's works in this process meanwhile.
    begin = (_work.append, ((work, items),))
    with ProcessPoolExecutor(processes, get_context("fork"), *begin) as pool:
        yield from pool.map(_work_on, range(len(items)))


def _work_on(number: int) -> Any:
    work, items = _work[0]
    return work(items[number])
