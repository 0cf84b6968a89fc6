"""What a study spent: where it is counted, and what its records and journals hold of it."""

from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.engine.service.budget import (
    Account,
    Budget,
    Prices,
    budget_line,
    fits,
    part_of,
    read_databases,
    spent_line,
)
from parley.engine.service.limits import parts
from parley.errors import UsageError
from parley.play.journal import journaled
from parley.play.parquet import values
from parley.play.record import read_attempts
from parley.policies import Tokens
from parley.study import Study
from parley.study.condition import Simulation


def budget_of(study: Study, simulation: Simulation | None = None) -> Budget | None:
    """Return what pays the requests of a study; None if it has no budget, and never had one.

    In a run that is divided among jobs the job of a simulation has its part, and counts for itself.
    """
    if study.content.budget is None and not paths.spent(study.name).exists():
        return None
    share, name, prices = parts(), study.name, _prices(study)
    if share.jobs == 1 or simulation is None:
        whole = paths.spent(name)
        return Budget(name, whole, study.content.budget, prices, lambda: spent_before(study), _elsewhere(study, whole))
    engine, shard = study.shards()[simulation.record(name)]
    part = paths.spent(name, share.run, engine, shard)
    limits = study.content.budget and part_of(study.content.budget, _elsewhere(study, part), prices, share.jobs)
    return Budget(f"{name}, of which this job has one of {share.jobs} parts,", part, limits, prices)


def gather_spending(study: Study) -> None:
    """Count in one place what a study spent, also what the jobs of former runs did, whose processes are gone.

    Raises RecordError or JournalError for a file that cannot be read.
    """
    counted = paths.spent(study.name).exists()  # else all is in the records and journals
    jobs = [path for path in _databases(study) if path != paths.spent(study.name)]
    budget = budget_of(study)
    if budget is None:
        return
    with budget:
        for path in jobs:
            if counted:
                budget.add(read_databases([path], _prices(study), in_flight=True)[0])
            path.unlink()


def spending_line(study: Study) -> str | None:
    """Return what a study spent of its budget, in words; None if it has none. Changes nothing.

    Raises RecordError or JournalError for a file that cannot be read.
    """
    if (limits := study.content.budget) is None:
        return None
    account, _ = read_databases(_databases(study), _prices(study), in_flight=False)
    return f"budget: {budget_line(limits, account if account.amounts else spent_before(study), _prices(study))}"


def refused_line(study: Study) -> str | None:
    """Return in words that the budget has no room for a request that was refused; None if it has."""
    if (limits := study.content.budget) is None:
        return None
    # What was refused may have been asked by a configuration that the study no longer has.
    used = {model for condition in study.conditions for model in condition.models}
    account, refused = read_databases(_databases(study), _prices(study), in_flight=False)
    for request in refused:
        if request[0] in used and account.amounts and not fits(limits, account, [request], _prices(study)):
            return spent_line(study.name, limits, account, request, _prices(study))
    return None


def _elsewhere(study: Study, own: Path) -> Account:
    """Return what other databases counted than a process's own, those of the jobs of its run left aside."""
    others = [path for path in _databases(study) if path != own and path.parent.name != (parts().run or None)]
    return read_databases(others, _prices(study), in_flight=True)[0]


def _databases(study: Study) -> list[Path]:
    return sorted(paths.spending(study.name).rglob("*.sqlite"))


def _prices(study: Study) -> Prices:
    return {name: entry.price for name, entry in study.models.items()}


def spent_before(study: Study) -> Account:
    """Return what the records and journals of a study hold, those of former configurations included.

    Requests whose replies were lost are in none. Raises RecordError or JournalError for a file that cannot be read.
    """
    account = Account()
    prices = _prices(study)
    records, journals = paths.simulations(study.name), paths.journals(study.name)
    for path in sorted(records.rglob("*.parquet")):
        for model, tokens in _of_record(path):
            account.add(model, tokens, prices.get(model))
    for path in sorted(journals.rglob("*.jsonl")):
        record = (records / path.relative_to(journals)).with_suffix(".parquet")
        if not record.exists():  # else the process died right after it wrote the record
            for model, tokens in _of_journal(study, path, record):
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
        players = simulation.players
        played = {name: player.model or player.label for name, player in players.items()}
    except UsageError:  # of a former configuration: its path says what played
        played = {}
    axis = next((part.partition("=")[2] for part in path.parts if part.startswith("model=")), "unknown")
    for entry in journaled(path):
        tokens = Tokens(entry.prompt_tokens or 0, entry.completion_tokens or 0, entry.cached_tokens or 0)
        if tokens.total:
            yield played.get(entry.agent, axis), tokens
