"""Games of the user's own: how they are loaded, and what is checked of them, before and in play.

What is wrong is one line that names the game, the round, the phase and the agent, or the user's file and line.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import fields
from functools import cache, wraps
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from parley.columns import described
from parley.errors import GameError, UsageError
from parley.games.base import Game, Outcome
from parley.games.evidence import Evidence
from parley.games.figure_kinds import KINDS
from parley.games.prompts import Prompts, content_of
from parley.identity import canonical_json
from parley.policies import Ask, Reply, own_code
from parley.policies.kinds import LLM, policy_table
from parley.text import choose, one_line
from parley.text.yamlfile import is_slug, shown


@cache
def taken() -> frozenset[str]:
    """Return the columns of the table of simulations: a metric of a game that is called so would be lost there."""
    columns = described()["tables"]["simulations"]["columns"]
    return frozenset(("model", "n", "b", "prompt", *(name for name in columns if "<" not in name)))


# How one is loaded


def load_game(name: str, folder: Path) -> type[Game]:
    """Return the game `module:attribute` of a study in `folder`, with the SHA-256 of its source; it is imported.

    Raises UsageError if there is no such module or attribute, GameError if what is there is no game.
    """
    content_of.cache_clear()  # its templates are files that may have changed, too
    return _loaded(own_code.source_of(name, folder, whole_package=True))


def game_with(name: str, sha256: str) -> type[Game]:
    """Return the game `module:attribute` whose source a record has; another one is not run, and is a UsageError."""
    source = own_code.source_with(name, sha256, whole_package=True)
    if source is None:
        raise UsageError(
            f"the source of {name} changed since it was recorded (SHA-256 {sha256[:12]} then); put the former one "
            "into the folder of the study, or into this one"
        )
    return _loaded(source)


@cache
def _loaded(source: own_code.Source) -> type[Game]:
    name = source.name
    with own_code.explained(name, "cannot be imported: ", GameError):
        game_class = own_code.import_own(source)
    if not isinstance(game_class, type) or not issubclass(game_class, Game) or game_class is Game:
        raise GameError(f"{name}: {game_class!r:.60} is no game; name a class derived from {Game.__module__}.Game")
    if lacking := sorted(game_class.__abstractmethods__):
        raise GameError(f"{name}: is no game: it lacks {', '.join(lacking)}; write {'them' if lacking[1:] else 'it'}")
    with own_code.explained(name, "Parameters: give each a default: ", GameError):
        game_class.Parameters()
    for problem in _declared_problems(game_class):
        raise GameError(f"{name}: {problem}")
    own: dict[str, Any] = {
        hook: classmethod(_guarded(name, hook, getattr(game_class, hook).__func__))
        for hook, method in vars(Game).items()
        if isinstance(method, classmethod) and not hook.startswith("_")
    }
    own |= {
        "name": name,
        "code_sha256": source.sha256,
        "policies": policy_table(LLM, *game_class.policies.values()),
        "set_up": _guarded(name, "set_up", game_class.set_up),
        "__module__": game_class.__module__,
        "__doc__": game_class.__doc__,
    }
    game: type[Game] = type(game_class)(game_class.__name__, (game_class,), own)  # type: ignore[misc]
    return game


def _guarded(name: str, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the user's that raises GameError, with where it was, for whatever it raises."""

    @wraps(function)
    def guarded(*arguments: Any, **keywords: Any) -> Any:
        with own_code.explained(name, f"{what}: ", GameError):
            return function(*arguments, **keywords)

    return guarded


# What it says of itself


def _declared_problems(game: type[Game]) -> Iterator[str]:
    """Yield what is wrong with a class that would be found only after its games were played.

    What is wrong with a single outcome, measure or figure is told where it is made: these check themselves.
    """
    evidence = game.evidence
    for what, kind in (("prompts", Prompts), ("evidence", Evidence)):
        if not isinstance(declared := getattr(game, what), kind):
            yield f"{what}: {shown(declared)}: must be an object of a class derived from {kind.__name__}"
            return
    listed = {what: getattr(evidence, what) for what in ("measures", "indicators", "quantities", "figures")}
    listed["outcomes"] = getattr(game, "outcomes", ())
    if not listed["outcomes"]:
        yield "outcomes: missing; say how it can end"
    names = {what: [each.name for each in declared] for what, declared in listed.items()}
    for what, known in names.items():
        yield from (f"{what}: {shown(each)}: give each a name of its own" for each in known if known.count(each) > 1)
    for figure in evidence.figures:
        drawn = KINDS[figure.kind]
        known = [*figure.of] if figure.blocks or not drawn.of else names[drawn.of]
        for each in set(figure.of).difference(known):
            yield f"figures: {figure.name}: {shown(each)}: none of its {drawn.of}; {choose(each, known)}"
        if drawn.single and type(evidence).timeline is Evidence.timeline:
            yield f"figures: {figure.name}: is drawn from timeline of its evidence; write it"


# What it does in play


def checked_play(game: Game) -> Generator[list[Ask], list[Reply], Outcome]:
    """Play like `Game.play`; raises GameError for what no game may ask or return, and for what its code raises."""
    where, last, replies, seen = "before its first question", 0, None, set[tuple[int, str, str]]()
    inner = _guarded(game.name, "play()", game.play)()
    if not isinstance(inner, Generator):
        raise GameError(f"{game.name}: play() is no generator; it must yield the asks of each phase")
    while True:
        with own_code.explained(game.name, f"{where}: ", GameError):
            try:
                asks = next(inner) if replies is None else inner.send(replies)
            except StopIteration as end:
                problems = (
                    _outcome_problems(game, end.value) if seen else ["it asks nothing; yield the asks of a phase"]
                )
                for problem in problems:
                    raise GameError(f"{game.name}: outcome {where}: {problem}") from None
                return end.value  # type: ignore[no-any-return]
        if not isinstance(asks, list) or not asks or not all(isinstance(ask, Ask) for ask in asks):
            problem = f"yields {shown(asks)}; yield a list of the Asks of one phase, one at least"
            raise GameError(f"{game.name}: {where}: {problem}")
        for ask in asks:
            for problem in _ask_problems(game, ask, asks[0], last, seen):
                here = f"round {shown(ask.round)}, {shown(ask.phase)}, {shown(ask.agent)}".replace("'", "")
                raise GameError(f"{game.name}: {here}: {problem}")
            seen.add((ask.round, ask.phase, ask.agent))
        last = asks[0].round
        where = f"after round {last}, {asks[0].phase}"
        replies = yield asks


_adapter = cache(TypeAdapter)


def _type_problems(kind: type, given: Any) -> Iterator[str]:
    """Yield the first field of a dataclass that has not the type that it says."""
    try:
        _adapter(kind).validate_python({each.name: getattr(given, each.name) for each in fields(kind)})
    except ValidationError as error:
        yield own_code.first_problem(error)


def _ask_problems(game: Game, ask: Ask, first: Ask, last: int, seen: set[tuple[int, str, str]]) -> Iterator[str]:
    """Yield what is wrong with an ask of a phase whose `first` is this one, after the round `last`."""
    seat = {seat.name: seat for seat in game.seats}.get(str(ask.agent))
    if seat is None:
        yield f"asks an unknown agent; {choose(ask.agent, [seat.name for seat in game.seats])}"
        return
    yield from _type_problems(Ask, ask)
    if (ask.round, ask.phase) != (first.round, first.phase) or not is_slug(ask.phase):
        yield "the asks of a phase have one round, and one phase of letters, digits, '.', '_' and '-'"
    if (ask.round, ask.phase, ask.agent) in seen:
        yield "asks the agent twice in this phase; ask once, or call it another phase"
    if not last <= ask.round <= (game.parameters.longest or ask.round):
        yield f"comes after round {last}: rounds count up, from 0 to Parameters.longest"
    asked, wanted = f"{ask.role} in {ask.reply_format}", f"{seat.role} in {game.parameters.format_for(seat)}"
    if asked != wanted:
        yield f"asks {asked}, and the study wants {wanted}; take them from seat.role and parameters.format_for(seat)"


def _outcome_problems(game: Game, outcome: Any) -> Iterator[str]:
    if not isinstance(outcome, Outcome):
        yield f"returns {shown(outcome)}; return an Outcome"
        return
    yield from _type_problems(Outcome, outcome)
    evidence, known = game.evidence, [each.name for each in game.outcomes]
    if outcome.name not in known:
        yield f"{shown(outcome.name)} is none of its outcomes; {choose(outcome.name, known)}"
    for each in [*({name: value} for name, value in outcome.metrics.items()), *outcome.trace]:
        try:
            canonical_json(each)
        except (TypeError, ValueError, RecursionError) as error:
            yield f"{shown(each)} is no JSON: {one_line(str(error), 100)}"
    metrics = {"rounds": outcome.rounds, **outcome.metrics}
    derived = evidence.derived(metrics)
    for name in sorted(taken().intersection((*outcome.metrics, *derived))):
        yield f"metrics: {name}: is a column of Parley's; take another name than {', '.join(sorted(taken()))}"
    metrics |= derived
    yield from (f"metrics: {shown(name)}: must be letters, digits and '_'" for name in metrics if not is_slug(name))
    for indicator in evidence.indicators:
        if not isinstance(metrics.get(indicator.name, 0), bool | None):
            yield f"metrics: {indicator.name}: an indicator must be there, and be true, false or None"
    for quantity in evidence.quantities:
        value, most = metrics.get(quantity.name, ""), 1 if quantity.share else metrics.get(quantity.most)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            yield f"metrics: {quantity.name}: {shown(value)}: a quantity must be there, and be a number or None"
        elif quantity.bounded and value is not None and not (most and 0 <= value <= most):
            yield f"metrics: {quantity.name}: {shown(value)}: must be from 0 to {quantity.most or 1} ({shown(most)})"
    yield from (f"metrics: {n}: simulations are paired by it; add it" for n in evidence.paired_by if n not in metrics)
    for name, points in evidence.series(outcome.as_json(), outcome.trace).items():
        yield from (f"measure {name}, round {x}: {y}: must be from 0 to 1" for x, y in points if not 0 <= y <= 1)
