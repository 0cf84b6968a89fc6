"""What a study spent before anybody counted, from its records and journals; those of former configurations count."""

from collections.abc import Iterator
from pathlib import Path

from parley import paths
from parley.errors import RecordError, UsageError
from parley.play.account import Account, Prices
from parley.play.journal import journaled
from parley.play.record import peek_summary, read_columns
from parley.policies import Tokens
from parley.study import Study


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
    try:
        rows = zip(*read_columns(path, _COLUMNS), strict=True)
    except (OSError, ValueError, KeyError) as error:
        raise RecordError(f"{path}: not a record that can be read ({type(error).__name__}); delete it") from None
    models = _models_by_player(path)
    for player, prompt, completion, cached in rows:
        tokens = Tokens(prompt or 0, completion or 0, cached or 0)
        if tokens.total:
            yield models.get(player, player), tokens


def _models_by_player(path: Path) -> dict[str, str]:
    """Return which model each player of a record asked; nothing for a record of a former version."""
    try:
        groups = peek_summary(path).simulation["groups"]
        return {group["player"]: group["model_name"] for group in groups if "model_name" in group}
    except (RecordError, LookupError, TypeError):
        return {}


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
