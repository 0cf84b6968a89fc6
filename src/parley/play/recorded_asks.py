"""What the models of a record were asked, and the engine that answered: from a replay of the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.engine.grammar import LATEST, GrammarVersion, grammar_name, grammar_version
from parley.engine.service.dialect import JSON_SCHEMA, Dialect
from parley.errors import RecordError, UsageError
from parley.identity import digest
from parley.play.record import read_record
from parley.play.replay import play_recorded, rebuild_game
from parley.play.runner import Exchange
from parley.text import one_line

MAX_AT_ONCE = 1024


@dataclass(frozen=True)
class Recorded:
    """What a record says of one model: the attempts that it answered, and the engine that served it."""

    path: Path
    model: str
    of_service: bool
    chat_template_kwargs: dict[str, Any]
    grammar: GrammarVersion
    dialect: Dialect  # what it says of the question; not which name a limit has
    engine: Mapping[str, str]  # `engine_facts` of its provenance; empty if the record has none
    at_once: int | None  # how many requests its engine may have had in flight; None if the record does not say
    attempts: tuple[Exchange, ...]


def read_recorded(path: Path, sample: int | None = None) -> list[Recorded]:
    """Replay a record and return what its models were asked, model by model.

    Raises RecordError if it does not replay, UsageError if no model answered in it.
    """
    summary, entries = read_record(path)
    game = rebuild_game(path, summary)
    try:
        played = play_recorded(summary, game, entries)
    except RecordError as error:
        raise RecordError(f"{path}: does not replay, so what was asked is unknown: {error}") from None
    try:
        groups = [dict(group) for group in summary.simulation["groups"]]
        grammars = {group["model_name"]: _grammar(path, group) for group in groups if "model" in group}
        # Code of the user's own that asks a model may ask it something else than the game does.
        names = {
            seat.name: group["model_name"]
            for seat in game.seats
            if "model" in (group := groups[seat.group]) and not seat.policy.kind.is_plugin
        }
        models = {group["model_name"]: dict(group["model"]) for group in groups if "model" in group}
        found = []
        for name in sorted(set(names.values())):
            engine = summary.provenance.get("engines", {}).get(name, {})
            attempts = [x for x in played.exchanges if names.get(x.ask.agent) == name]
            asked = sampled(summary.simulation["id"], attempts, sample)
            arguments = dict(models[name]["chat_template_kwargs"])
            of_service = set(models[name]["source"]) == {"served"}
            at_once = engine.get("requests_at_once")
            at_once = at_once if isinstance(at_once, int) and 2 <= at_once <= MAX_AT_ONCE else None
            dialect = Dialect.model_validate(models[name].get("dialect", {}))
            facts = engine_facts(engine)
            found.append(
                Recorded(path, str(name), of_service, arguments, grammars[name], dialect, facts, at_once, asked)
            )
    except (LookupError, TypeError, ValueError, AttributeError):
        raise RecordError(f"{path}: does not say what played it; move it away") from None
    if not found:
        raise UsageError(f"{path}: no language model answered it by itself; there is nothing to ask again")
    return found


def _grammar(path: Path, group: Mapping[str, Any]) -> GrammarVersion:
    """Return the version of the grammar that a group's replies were held to, the latest for a service's.

    Raises RecordError if no request of now is held to it. Records older than the key are of JSON without white space,
    which servers of ours no longer ask for.
    """
    of_service = set(group["model"]["source"]) == {"served"}
    before = group.get("grammar", JSON_SCHEMA if of_service else "xgrammar, JSON schema, no white space")
    if of_service and before == grammar_name(True, group["model"].get("dialect", {}).get("structured", JSON_SCHEMA)):
        return LATEST
    version = None if of_service else grammar_version(before)
    if version is None:
        raise RecordError(
            f"{path}: its replies were held to another grammar ({one_line(str(before), 80)}) than any of now; "
            "verify it with the release that made it"
        )
    return version


def sampled(simulation_id: str, attempts: Sequence[Exchange], count: int | None) -> tuple[Exchange, ...]:
    """Return the `count` attempts whose SHA-256 of simulation and key is smallest, in their order; all for None.

    So a smaller sample is part of a larger one, and the same attempts are asked again every time.
    """
    if count is None:
        return tuple(attempts)
    chosen = {x.entry.key for x in sorted(attempts, key=lambda x: digest([simulation_id, *x.entry.key]))[:count]}
    return tuple(x for x in attempts if x.entry.key in chosen)


def engine_differences(recorded: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return in words how the facts of two engines differ; "" if they do not."""
    if not recorded:
        return "the record does not say what answered it"
    return "; ".join(
        one_line(f"{name} {recorded.get(name, 'not set')}, now {now.get(name, 'not set')}", 200)
        for name in dict.fromkeys([*recorded, *now])
        if recorded.get(name) != now.get(name)
    )


def engine_facts(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Return what in an engine's provenance may change replies, as names and values."""
    facts = {name: provenance.get(name) for name in ("engine", "served", "device", "compute_capability", "cuda")}
    for name in ("versions", "weights_sha256"):
        facts |= {f"{name} of {key}": value for key, value in dict(provenance.get(name) or {}).items()}
    facts["deterministic by"] = dict(provenance.get("deterministic") or {}).get("by")
    option = ""
    for argument in map(str, provenance.get("arguments") or []):
        if argument.startswith("--"):
            option = argument
            facts[option] = "set"
        else:
            facts[option] = argument
    return {name: str(value) for name, value in facts.items() if value is not None}
