"""What a study's services spent: its budget, and what its records and journals hold of it."""

from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.engine.service.budget import Account, Budget, Prices, budget_line, fits, read_spending, spent_line
from parley.errors import UsageError
from parley.play.journal import journaled
from parley.play.parquet import values
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study


def budget_of(study: Study, journals: bool = True) -> Budget | None:
    """Return what pays the requests of this process to a study's services; None if the study has no budget.

    Without `journals`, no reply appears in a journal.
    """
    if study.content.budget is None:
        return None
    path = paths.spent(study.name)
    return Budget(study.name, path, study.content.budget, _prices(study), lambda: spent_before(study), journals)


def spending_line(study: Study, goes_on: bool = False) -> str | None:
    """Return what a study spent of its budget, in words; None if it has none. Changes nothing.

    What is spent while a run `goes_on` is told by its process every few seconds; else it is counted from records and
    journals, which have all of it. Raises RecordError or JournalError for a file that cannot be read.
    """
    if (limits := study.content.budget) is None:
        return None
    path = paths.spent(study.name)
    found = read_spending(path)
    if not (goes_on and path.exists()):
        found.spent = spent_before(study)
    return f"budget: {budget_line(limits, found.spent, _prices(study))}"


def refused_line(study: Study) -> str | None:
    """Return in words that the budget has no room for the request that was refused last; None if it has."""
    if (limits := study.content.budget) is None:
        return None
    # What was refused may have been asked by a configuration that the study no longer has.
    used = {model for condition in study.conditions for model in condition.models}
    found, prices = read_spending(paths.spent(study.name)), _prices(study)
    request = found.refused
    if request is None or request[0] not in used or fits(limits, found.spent, [request], prices):
        return None
    return spent_line(study.name, limits, found.spent, request, prices)


def _prices(study: Study) -> Prices:
    return {name: entry.price for name, entry in study.models.items()}


def spent_before(study: Study) -> Account:
    """Return what services used by a study's records, its journals and the file of its budget.

    Former configurations count, too. Raises RecordError or JournalError for a file that cannot be read.
    """
    account = read_spending(paths.spent(study.name)).unrecorded
    records, journals = paths.simulations(study.name), paths.journals(study.name)
    for path in sorted(records.rglob("*.parquet")):
        for model, tokens in _of_record(path):
            account.add(model, tokens)
    for path in sorted(journals.rglob("*.jsonl")):
        record = (records / path.relative_to(journals)).with_suffix(".parquet")
        if not record.exists():  # else the process died right after it wrote the record
            for model, tokens in _of_journal(study, path, record):
                account.add(model, tokens)
    return account


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
