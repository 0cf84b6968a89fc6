"""What a record holds of a played game: a row per attempt, and what describes the simulation as JSON values."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, ConfigDict, Field, ValidationError, create_model

from parley.columns import Column, find, schema
from parley.games.base import Game
from parley.games.prompts import OwnPrompt, text_of
from parley.identity import canonical_json
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, count_degenerate
from parley.play.journal import ENTRY_FIELDS, Entry, last_sent
from parley.play.parquet import packed_array
from parley.play.runner import Play, count_answered
from parley.policies import FAILURE_CLASSES
from parley.study.condition import Condition, Player, PlayerGroup, Simulation
from parley.text import one_line
from parley.text.yamlfile import Slug

_NAME = pa.dictionary(pa.int16(), pa.string())  # stored once each
_FEW = pa.dictionary(pa.int8(), pa.string())
COLUMNS = (
    Column("id", _FEW, "the simulation: SHA-256 of all that can change it", required=True),
    Column("simulation_seed", pa.int64(), "seed of the simulation", required=True),
    Column("round", pa.int32(), "round, from 1 (deliberation: 0)", required=True),
    Column("phase", _FEW, "phase of the round, such as `propose` and `vote`", required=True),
    Column("agent", _NAME, "name of the agent", required=True),
    Column("role", _FEW, "`honest` or `byzantine`", required=True),
    Column("player", _NAME, "model or policy", required=True),
    Column("attempt", pa.int8(), "number of the attempt, from 0", required=True),
    Column("request_seed", pa.int64(), "sampling seed of the reply", required=True),
    Column(
        "temperature",
        pa.float32(),
        "as in the study; a dialect without one uses the model's own",
        required=True,
    ),
    Column(
        "max_tokens",
        pa.int32(),
        "longest reply allowed, reasoning of a dialect not included",
        "tokens",
        required=True,
    ),
    Column("ask", pa.string(), "SHA-256 of the game's question: messages and sampling", required=True),
    Column("system", pa.string(), "system message, as last sent", required=True),
    Column("user", pa.string(), "user message, as last sent", required=True),
    Column("text", pa.string(), "reply as it came, not cleaned", required=True),
    Column("finish_reason", _FEW, "why the reply ended: `stop`, `length`, ...", required=True),
    Column("failure", _FEW, "why the reply could not be used, by class"),
    Column("failure_detail", pa.string(), "the same in more words"),
    Column("prompt_tokens", pa.int32(), "length of the question; missing if nobody counted", "tokens"),
    Column(
        "completion_tokens",
        pa.int32(),
        "length of the reply, with its reasoning",
        "tokens",
    ),
    Column("cached_tokens", pa.int32(), "`prompt_tokens` that the engine had cached", "tokens"),
    Column("started", pa.timestamp("ms", tz="UTC"), "when it was asked", "UTC", required=True),
    Column("seconds", pa.float32(), "time from the question to the reply", "s", required=True),
    Column("served_model", pa.string(), "what answered, by its own word"),
    Column("system_fingerprint", pa.string(), "version of the service, by its own word"),
    Column(
        "reasoning",
        pa.string(),
        "what the model wrote before its reply; no agent sees it",
    ),
    Column(
        "reasoning_tokens",
        pa.int32(),
        "those of `completion_tokens` that were reasoning",
        "tokens",
    ),
    Column(
        "given",
        _FEW,
        "of forks: `parent` (as in the recorded game) or `change` (by the change); missing if asked for",
    ),
    Column(
        "sent",
        pa.string(),
        "all requests behind the reply, as JSON: messages, sampling, what came back; missing where `system` and "
        "`user` are all that was sent",
    ),
)
SCHEMA = schema(COLUMNS)


def describe(simulation: Simulation) -> dict[str, Any]:
    """Return what a simulation is, as plain JSON values: enough to play it again."""
    return {
        "id": simulation.id,
        "seed": simulation.seed,
        **describe_condition(simulation.condition),
        **({} if simulation.material is None else {"material": simulation.material}),
        **_describe_fork(simulation),
    }


def _describe_fork(simulation: Simulation) -> dict[str, Any]:
    """Return of which recorded game a simulation is a fork, where it was changed, how, and as what it began."""
    fork, parent = simulation.condition.fork, simulation.parent
    if fork is None or parent is None:
        return {}
    described = {
        "parent": {"id": parent.id, "digest": parent.digest},
        "round": fork.point.round,
        "phase": fork.point.phase,
        "change": dict(fork.change),
        "seats": dict(parent.seats),
        "before": describe(simulation.before),
    }
    return {"fork": described}


def describe_condition(condition: Condition) -> dict[str, Any]:
    """Return what all simulations of a condition have in common, as plain JSON values."""
    return {
        "game": condition.game.name,
        "protocol_version": condition.game.protocol_version,
        **({"game_code_sha256": condition.game.code_sha256} if condition.game.code_sha256 else {}),
        "axes": dict(condition.axes),
        **({"repeat": condition.repeat} if condition.repeat else {}),
        "spec": condition.spec,
        "parameters": condition.parameters.model_dump(mode="json"),
        "groups": list(map(_describe_group, condition.groups)),
        **_describe_prompt(condition.prompt, condition.prompt_digests),
    }


def _describe_group(group: PlayerGroup) -> dict[str, Any]:
    player = group.player
    name = {} if player.model is None else {"model_name": player.model}
    return {"role": group.role, "count": group.count, "player": player.label, **name, **player.identity()}


def _describe_prompt(prompt: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """Return a prompt with the texts that are sent, where the study brought them: a replay needs no other file."""
    own = prompt.templates if isinstance(prompt, OwnPrompt) else {}
    templates = {"templates": {name: text_of(own[name]) for name in digests if name in own}} if own else {}
    return {"prompt": prompt, "prompt_digests": digests, **templates}


def telemetry(play: Play, players: Mapping[str, Player]) -> dict[str, Any]:
    """Return calls, tokens, failures and times of a played game: what is outside of its digest."""
    failures = Counter(x.reply.failure for x in play.exchanges if x.failed)
    entries = [x.entry for x in play.exchanges]
    of_models = [x for x in play.exchanges if players[x.ask.agent].entry is not None]
    return {
        "calls": len(entries),
        "failed_replies": sum(failures.values()),
        **{name: failures.get(name, 0) for name in FAILURE_CLASSES},
        "prompt_tokens": sum(e.prompt_tokens or 0 for e in entries),
        "completion_tokens": sum(e.completion_tokens or 0 for e in entries),
        "cached_tokens": sum(e.cached_tokens or 0 for e in entries),
        "request_seconds": round(sum(e.seconds for e in entries), 3),
        **times(entries),
        **(
            {"degenerate": count_degenerate(of_models), "answered": count_answered(of_models, players)}
            if of_models
            else {}
        ),
    }


def attempt_rows(simulation: Simulation, play: Play, players: Mapping[str, Player]) -> pa.Table:
    """Return a row per attempt; `players` is what plays each agent, by its name."""
    entries, asks = [x.entry for x in play.exchanges], [last_sent(x.ask, x.entry) for x in play.exchanges]
    cells: dict[str, list[Any]] = {name: [getattr(entry, name) for entry in entries] for name in ENTRY_FIELDS}
    cells |= {
        "id": [simulation.id] * len(entries),
        "simulation_seed": [simulation.seed] * len(entries),
        "role": [x.ask.role for x in play.exchanges],
        "player": [players[x.ask.agent].label for x in play.exchanges],
        "request_seed": cells["seed"],
        "temperature": [sent.sampling.temperature for sent in asks],
        "max_tokens": [sent.sampling.max_tokens for sent in asks],
        "system": [sent.system for sent in asks],
        "user": [sent.user for sent in asks],
        "failure": [x.reply.failure for x in play.exchanges],
        "failure_detail": [x.reply.detail for x in play.exchanges],
        "started": [round(entry.started * 1000) for entry in entries],
    }
    columns = [packed_array(cells[field.name], field.type) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def times(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return `phase_seconds`, by phase, and `wall_seconds` of the attempts of one simulation; in s, rounded to ms.

    `phase_seconds` adds, over the rounds, the time of the agent that took longest, all its attempts together: what
    prompting takes when nothing else is waited for. `wall_seconds` adds, over rounds and phases, the time from the
    first question to the last reply; where a simulation went on after a death, that holds the pause, too.
    """
    agents: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    spans: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for entry in entries:
        key = (entry.phase, entry.round)
        agents[key][entry.agent] += entry.milliseconds
        spans[key].append((entry.started, entry.started + entry.milliseconds / 1000))
    phases: dict[str, int] = defaultdict(int)
    for (phase, _), taken in agents.items():
        phases[phase] += max(taken.values())
    # A clock that was set back in between could make it negative.
    wall = sum(max(0.0, max(end for _, end in span) - min(start for start, _ in span)) for span in spans.values())
    return {
        "phase_seconds": {phase: round(taken / 1000, 3) for phase, taken in phases.items()},
        "wall_seconds": round(wall, 3),
    }


# The schema of a record's metadata, checked before use: what only people read may be anything


_Count = Annotated[int, Field(ge=0, lt=2**53)]  # beyond that no table holds it exactly
_Answer = Annotated[tuple[str | None, str | None, _Count], Field(strict=False)]  # in JSON, it is a list
_Seconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]
_CAME_LATER = ("prompt_too_long", "thought_only", "thought_cut_off", "tool_call", "no_tool_call", "white_space")


def _part(**keys: Any) -> Any:
    """Return the model of a mapping with these keys, each of a type, or of a type and a default if it came later.

    Keys of a later version may be there.
    """
    fields = {name: key if isinstance(key, tuple) else (key, ...) for name, key in keys.items()}
    model: Any = create_model  # whose fields mypy does not follow
    return model("Part", __config__=ConfigDict(strict=True, extra="allow"), **fields)


_GROUP = _part(role=str, player=str)
_ENGINE = _part(
    engine=(str, ""),
    versions=(dict[str, Any], {}),
    deterministic=(dict[str, Any] | None, None),
    arguments=(Annotated[Any, AfterValidator(canonical_json)], None),  # tables tell engines apart by it
)
_METADATA = _part(
    simulation=_part(id=str, seed=int, groups=list[_GROUP]),  # type: ignore[valid-type]
    outcome=_part(
        name=str,
        detail=str | None,
        diagnosis=str | None,
        rounds=_Count,
        finished_early=bool,
        metrics=dict[Slug, Any],
    ),
    telemetry=_part(
        **dict.fromkeys(("calls", "failed_replies"), _Count),
        **{name: (_Count, 0) if name in _CAME_LATER else _Count for name in FAILURE_CLASSES},
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), _Count),
        request_seconds=_Seconds,
        wall_seconds=(_Seconds, 0),
        phase_seconds=(dict[Slug, _Seconds], {}),
        degenerate=(_part(**{ASKED: _Count}, **dict.fromkeys(DEGENERATE_CLASSES, (_Count, 0))) | None, None),
        answered=(dict[str, list[_Answer]], {}),
    ),
    digest=str,
    provenance=_part(
        git=(dict[str, Any] | None, None),
        started=(str, ""),
        ended=(str, ""),
        imported=(_part(format=str, source=str, license=str, file=str, sha256=str) | None, None),
        engines=(dict[str, _ENGINE], {}),  # type: ignore[valid-type]
    ),
    rows=_part(bytes_sha256=str),
)


def metadata_problem(meta: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the metadata of a record, in a few words; None for nothing."""
    try:
        _METADATA.model_validate(meta)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 150)
    return None


_NUMBER = (int, float)
_TYPES = {  # of metrics, as JSON
    **dict.fromkeys(("int64", "double", "number"), _NUMBER),
    "bool": (bool,),
    "string": (str, list, dict),
}
# What reading an outcome or a trace raises that no game makes, whatever its checksums say.
IMPOSSIBLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def outcome_problem(condition: Condition, outcome: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an outcome that no game of a condition has, in a few words; None for nothing."""
    game, rounds, longest = condition.game, outcome["rounds"], condition.parameters.longest
    try:
        ending = game.class_of(outcome["name"], outcome["detail"])
        game.evidence.derived({"rounds": rounds, **outcome["metrics"]})
    except IMPOSSIBLE as error:
        return one_line(repr(error), 150)
    if ending not in {known.name for known in game.outcomes}:
        return f"its outcome is {one_line(repr(ending), 60)}"
    if longest is not None and rounds > longest:
        return f"{rounds:,} rounds, and {longest:,} are the most"
    for name, value in outcome["metrics"].items():
        types, least, most = _metric(game, name)
        is_wrong = bool(types) and value is not None and type(value) not in types
        if is_wrong or (types == _NUMBER and value is not None and (value < least or value > most)):
            return f"{name} is {one_line(repr(value), 60)}"
    return None


@lru_cache(maxsize=1000)
def _metric(game: type[Game], name: str) -> tuple[tuple[type, ...], int, int]:
    """Return of which types a metric of a game may be, any if there are none, and its least and greatest number."""
    column = find(game.evidence.metrics, name, {})
    is_share = any(quantity.share and quantity.name == name for quantity in game.evidence.quantities)
    return _TYPES.get(column.kind, ()) if column else (), *((0, 1) if is_share else (-(2**53), 2**53))
