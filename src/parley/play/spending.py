"""What a study's services spent: its budget, and what its records and journals hold of it."""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from parley import paths
from parley.engine.service.budget import Account, Budget, Prices, budget_line
from parley.errors import UsageError
from parley.play.journal import journaled
from parley.play.parquet import values
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study


def budget_of(study: Study) -> Budget | None:
    """Return what pays the requests of this process to a study's services; None if the study has no budget."""
    if study.content.budget is None:
        return None
    lock = paths.budget_lock(study.name)
    return Budget(study.name, lock, study.content.budget, _prices(study), partial(count_spent, study))


def spending_line(study: Study) -> str | None:
    """Return what a study spent of its budget, in words; None if it has none. Raises as `count_spent`."""
    if (limits := study.content.budget) is None:
        return None
    return f"budget: {budget_line(limits, count_spent(study), _prices(study))}"


def _prices(study: Study) -> Prices:
    return {name: entry.price for name, entry in study.models.items()}


def count_spent(study: Study) -> Account:
    """Return what services used by a study's records and journals; those of former configurations count, too.

    Changes nothing. Raises RecordError or JournalError for a file that cannot be read.
    """
    records, journals = paths.simulations(study.name), paths.journals(study.name)
    by_record: dict[Path, list[tuple[str, Tokens]]] = {}
    # Journals first: that of a game which ends meanwhile goes when its record is there, which then counts.
    for path in sorted(journals.rglob("*.jsonl")):
        record = (records / path.relative_to(journals)).with_suffix(".parquet")
        by_record[record] = list(_of_journal(study, path, record)) if path.exists() else []
    for path in sorted(records.rglob("*.parquet")):
        by_record[path] = list(_of_record(path))
    total = Account()
    for model, tokens in chain.from_iterable(by_record.values()):
        total.add(model, tokens)
    return total


_COLUMNS = ("player", "prompt_tokens", "completion_tokens", "cached_tokens")


def _of_record(path: Path) -> Iterator[tuple[str, Tokens]]:
    summary, rows = read_attempts(path, _COLUMNS)
    services = {
        group["player"]: group["model_name"]
        for group in summary.simulation["groups"]
        if "player" in group and "served" in group.get("model", {}).get("source", {})
    }
    for player, prompt, completion, cached in zip(*(values(rows.column(name)) for name in _COLUMNS), strict=True):
        tokens = Tokens(prompt or 0, completion or 0, cached or 0)
        if tokens.total and player in services:
            yield services[player], tokens


def _of_journal(study: Study, path: Path, record: Path) -> Iterator[tuple[str, Tokens]]:
    try:
        played = {name: player.model or player.label for name, player in study.find(record).players.items()}
    except UsageError:  # of a former configuration: its path says what played
        played = {}
    axis = next((part.partition("=")[2] for part in path.parts if part.startswith("model=")), "unknown")
    for entry in journaled(path):
        model = played.get(entry.agent, axis)
        tokens = Tokens(entry.prompt_tokens or 0, entry.completion_tokens or 0, entry.cached_tokens or 0)
        if tokens.total and (model not in study.models or study.models[model].is_service):
            yield model, tokens
