"""What a game must keep to, checked for games of the user's own: what it says of itself, and what it does in play.

Whatever breaks it is one line that says where: the game, the round, the phase and the agent, the user's file and line.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from parley.errors import GameError, ParleyError
from parley.games.base import Game, GameParameters, Group, Outcome
from parley.games.evidence import Evidence, FigureSpec, Indicator, Measure, OutcomeClass, Quantity, State
from parley.identity import canonical_json
from parley.policies import Ask, Reply, Sampling
from parley.policies.kinds import LLM, PolicyKind
from parley.policies.own_code import raised_at
from parley.text import one_line
from parley.text.suggest import choose
from parley.text.yamlfile import Slug, is_slug, shown

_OF_FIGURES = {"curves": "measures", "indicators": "indicators", "quantities": "quantities", "sweep": "quantities"}
_DRAWN_BY = {"trajectories": "trajectory", "timeline": "timeline", "network": "timeline", "sweep": "sweep"}
_HATCH = r"/\|-+xXoO.*"  # what matplotlib draws hatches of
_HATCHES = frozenset(_HATCH)


def told(error: BaseException, name: str) -> str:
    """Return what an error of the user's code says, and the file and line of it that raised or called what did."""
    said = _first(error) if isinstance(error, ValidationError) else one_line(str(error), 200)
    return f"{type(error).__name__}{said and f': {said}'}{raised_at(error, name)}"


# What a game says of itself


class _DeclaredPrompts(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    variants: Annotated[dict[Slug, dict[str, InstanceOf[Path] | InstanceOf[str]]], Field(min_length=1)]
    phases: tuple[Slug, ...]
    asked_in: dict[Slug, tuple[Slug | None, dict[str, Any]]]


class _DeclaredEvidence(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    figures: tuple[InstanceOf[FigureSpec], ...]
    measures: tuple[InstanceOf[Measure], ...]
    indicators: tuple[InstanceOf[Indicator], ...]
    quantities: tuple[InstanceOf[Quantity], ...]


class _Declared(BaseModel):
    """What every game says of itself, as attributes of its class and of two objects that it has."""

    model_config = ConfigDict(from_attributes=True)

    protocol_version: Annotated[int, Field(ge=1)]
    roles: Annotated[tuple[Slug, ...], Field(min_length=2)]
    outcomes: Annotated[tuple[InstanceOf[OutcomeClass], ...], Field(min_length=1)]
    Parameters: type[GameParameters]
    policies: dict[str, InstanceOf[PolicyKind]]
    prompts: _DeclaredPrompts
    evidence: _DeclaredEvidence


def check_declared(name: str, game: type[Game]) -> None:
    """Raise GameError for the first thing that a class says of itself, or leaves out, by which it is no game."""
    for what in ("prompts", "evidence"):
        if isinstance(found := getattr(game, what), type):
            raise GameError(f"{name}: {what}: {shown(found)}: is a class; write {found.__name__}()")
    try:
        declared = _Declared.model_validate(game)
    except ValidationError as error:
        raise GameError(f"{name}: {_first(error)}") from None
    try:
        declared.Parameters()
    except ValidationError as error:
        raise GameError(f"{name}: Parameters: {_first(error)}; give it a default") from None
    for problem in _misfits(game, declared):
        raise GameError(f"{name}: {problem}")


def _first(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    message = str(problem["msg"]).removeprefix("Value error, ")
    where = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"{where}: missing; add it"
    said = f"{shown(problem['input'])}: {one_line(message[:1].lower() + message[1:], 200)}"
    return f"{where}: {said}" if where else said


def _misfits(game: type[Game], declared: _Declared) -> Iterator[str]:
    """Yield what does not fit together in what a game says of itself."""
    evidence = declared.evidence
    named = {"outcomes": declared.outcomes, **{what: getattr(evidence, what) for what in type(evidence).model_fields}}
    names = {what: [each.name for each in found] for what, found in named.items()}
    for what, found in names.items():
        for each in found:
            if not is_slug(each) or found.count(each) > 1:
                yield f"{what}: {shown(each)}: give each a name of its own, of letters, digits, '.', '_' and '-'"
    yield from (f"outcomes: {problem}" for problem in wrong_states(declared.outcomes))
    if LLM.name not in declared.policies:
        yield "policies: lacks llm; add parley.policies.kinds.LLM"
    for key, kind in declared.policies.items():
        if key != kind.name:
            yield f"policies: {shown(key)}: its policy is called {shown(kind.name)}; name it alike"
    for prompt, templates in declared.prompts.variants.items():
        for template, text in templates.items():
            if not template.startswith(tuple(f"{role}_" for role in declared.roles)):
                yield f"prompts: {prompt}: {shown(template)}: begin its name with the role that reads it and _"
            if isinstance(text, Path) and not text.is_file():
                yield f"prompts: {prompt}: {template}: {text}: no such file"
    if any(declared.prompts.variants.values()) and not declared.prompts.phases:
        yield "prompts: phases: (): name the phases that the templates are for, such as phases = ('choose',)"
    for figure in evidence.figures:
        listed = _OF_FIGURES.get(figure.kind, "")
        known = [*figure.of] if figure.blocks else names.get(listed, [*figure.of])
        for each in figure.of:
            if each not in known:
                yield f"figures: {figure.name}: {shown(each)}: none of its {listed}; {choose(each, known)}"
        hook = _DRAWN_BY.get(figure.kind, "")
        if hook and getattr(type(game.evidence), hook) is getattr(Evidence, hook):
            yield f"figures: {figure.name}: is drawn from {hook}() of its evidence; write it"
        if figure.kind == "scatter" and game.evidence.regressed is None:
            yield f"figures: {figure.name}: is drawn from the two metrics in regressed of its evidence; name them"


def wrong_states(states: Sequence[State]) -> Iterator[str]:
    """Yield which colors and hatches matplotlib does not know."""
    from matplotlib.colors import is_color_like  # slow to import; shipped games need no check

    for state in states:
        if not isinstance(state.color, str) or not is_color_like(state.color):
            yield f"{shown(state.name)}: color: {shown(state.color)}: write one as matplotlib does, such as '#0072B2'"
        if not isinstance(state.hatch, str) or not _HATCHES.issuperset(state.hatch):
            yield f"{shown(state.name)}: hatch: {shown(state.hatch)}: write some of {_HATCH}, or '' for none"


# What a game does in play


def checked_play(game: Game) -> Generator[list[Ask], list[Reply], Outcome]:
    """Play like `Game.play`; raises GameError for what no game may ask or return, and for what its code raises."""
    where, asked, replies = "before its first question", _Asked(game), None
    try:
        inner = game.play()
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        raise GameError(f"{game.name}: play(): {told(error, game.name)}") from error
    if not isinstance(inner, Generator):
        raise GameError(f"{game.name}: play() is no generator; it must yield the asks of each phase")
    while True:
        try:
            asks = next(inner) if replies is None else inner.send(replies)
        except StopIteration as end:
            if not replies:
                raise GameError(f"{game.name}: {where}: ends; yield the asks of a phase") from None
            for problem in _wrong_outcome(game, end.value):
                raise GameError(f"{game.name}: outcome {where}: {problem}") from None
            return end.value  # type: ignore[no-any-return]
        except ParleyError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise GameError(f"{game.name}: {where}: {told(error, game.name)}") from error
        asked.check(asks, where)
        where = f"after round {asks[0].round}, {asks[0].phase}"
        replies = yield asks


class _Asked:
    """What a game has asked so far."""

    def __init__(self, game: Game) -> None:
        self._name = game.name
        self._seats = {seat.name: seat for seat in game.seats}
        self._formats = {seat.name: game.parameters.format_for(seat) for seat in game.seats}
        self._longest = game.parameters.longest
        self._round = 0
        self._seen: set[tuple[int, str, str]] = set()

    def check(self, asks: Any, where: str) -> None:
        """Raise GameError if these are not the asks of one phase."""
        if not isinstance(asks, list) or not asks:
            problem = f"yields {shown(asks)}; yield a list of the asks of one phase, one at least"
            raise GameError(f"{self._name}: {where}: {problem}")
        for ask in asks:
            if not isinstance(ask, Ask):
                raise GameError(f"{self._name}: {where}: yields {shown(ask)} among its asks; yield Asks alone")
            for problem in self._wrong(ask, asks[0]):
                here = f"round {shown(ask.round)}, {shown(ask.phase)}, {shown(ask.agent)}".replace("'", "")
                raise GameError(f"{self._name}: {here}: {problem}")
            self._seen.add((ask.round, ask.phase, ask.agent))
        self._round = asks[0].round

    def _wrong(self, ask: Ask, first: Ask) -> Iterator[str]:
        seat = self._seats.get(ask.agent) if isinstance(ask.agent, str) else None
        if seat is None:
            yield f"asks an unknown agent; {choose(ask.agent, self._seats)}"
        elif type(ask.round) is not int or ask.round < 0 or not isinstance(ask.phase, str) or not is_slug(ask.phase):
            yield "a round is a number from 0 on, and a phase a name of letters, digits, '.', '_' and '-'"
        elif (ask.round, ask.phase) != (first.round, first.phase):
            yield f"is yielded with round {first.round}, {first.phase}; yield the asks of each phase by themselves"
        elif (ask.round, ask.phase, ask.agent) in self._seen:
            yield "asks the agent twice in this phase; ask once, or call it another phase"
        elif ask.round < self._round or (self._longest is not None and ask.round > self._longest):
            most = "" if self._longest is None else f", and at most Parameters.longest = {self._longest}"
            yield f"comes after round {self._round}: rounds count up{most}"
        elif ask.role != seat.role:
            yield f"has the role {shown(ask.role)}, and the agent is {seat.role}; take it from the seat"
        elif not isinstance(ask.system, str) or not isinstance(ask.user, str):
            yield "its prompts must be texts"
        elif not (isinstance(ask.reply_model, type) and issubclass(ask.reply_model, BaseModel)):
            yield f"reply_model: {shown(ask.reply_model)}: must be a pydantic model"
        elif not isinstance(ask.sampling, Sampling):
            yield f"sampling: {shown(ask.sampling)}: must be a parley.policies.Sampling"
        elif ask.reply_format != self._formats[ask.agent]:
            yield (
                f"asks in {shown(ask.reply_format)}, and the study for {shown(self._formats[ask.agent])}; ask in "
                "parameters.format_for(seat), or refuse other formats in check()"
            )


def _wrong_outcome(game: Game, outcome: Any) -> Iterator[str]:
    """Yield what no outcome of a game can be."""
    if not isinstance(outcome, Outcome):
        yield f"returns {shown(outcome)}; return an Outcome"
        return
    known = [each.name for each in game.outcomes]
    if outcome.name not in known:
        yield f"{shown(outcome.name)} is none of its outcomes; {choose(outcome.name, known)}"
    elif game.class_of(outcome.name, outcome.detail) not in game.possible_outcomes(game.parameters, _groups(game)):
        yield f"{shown(outcome.name)} is none of its possible_outcomes() with these agents and parameters"
    if type(outcome.rounds) is not int or outcome.rounds < 0 or not isinstance(outcome.finished_early, bool):
        yield "rounds must be a number from 0 on, and finished_early true or false"
    if not all(text is None or isinstance(text, str) for text in (outcome.detail, outcome.diagnosis)):
        yield "detail and diagnosis must be texts or None"
    if not isinstance(outcome.metrics, Mapping):
        yield f"metrics: {shown(outcome.metrics)}: must be a dict"
        return
    if not isinstance(outcome.trace, Sequence) or not all(isinstance(entry, Mapping) for entry in outcome.trace):
        yield "trace must be a tuple or a list, with a dict for each round"
        return
    yield from (f"metrics: {problem}" for key, value in outcome.metrics.items() if (problem := _no_json({key: value})))
    yield from (
        f"trace, entry {place}: {problem}" for place, entry in enumerate(outcome.trace) if (problem := _no_json(entry))
    )
    yield from (
        f"metrics: {problem}" for problem in _wrong_metrics(game, {"rounds": outcome.rounds, **outcome.metrics})
    )
    for name, points in game.evidence.series(outcome.as_json(), outcome.trace).items():
        yield from (
            f"measure {name}, round {x}: {shown(y)}: must be from 0 to 1" for x, y in points if not 0 <= y <= 1
        )


def _no_json(value: Any) -> str:
    """Return why a value is no JSON: what it says as an error, or that it comes back as another value."""
    try:
        canonical_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        return f"{shown(value)} is no JSON: {one_line(str(error), 100)}"
    return ""


def _wrong_metrics(game: Game, metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield which metrics are not what the game's indicators and quantities say they are."""
    metrics = {**metrics, **game.evidence.derived(metrics)}
    for indicator in game.evidence.indicators:
        if not isinstance(metrics.get(indicator.name, 0), bool | None):
            yield f"{indicator.name}: an indicator must be there, and be true, false or None"
    for quantity in game.evidence.quantities:
        value = metrics.get(quantity.name, "missing")
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{quantity.name}: {shown(value)}: a quantity must be there, and be a number or None"
            continue
        most = 1 if quantity.share else metrics.get(quantity.most) if quantity.most else None
        if quantity.bounded and (not isinstance(most, int | float) or most <= 0 or not 0 <= value <= most):
            yield f"{quantity.name}: {shown(value)}: must be from 0 to {quantity.most or 1} ({shown(most)})"
    for name in game.evidence.paired_by:
        if name not in metrics:
            yield f"{name}: simulations are paired by it; add it"
    for name in game.evidence.regressed or ():
        if isinstance(value := metrics.get(name, ""), bool) or not isinstance(value, int | float | None):
            yield f"{name}: {shown(value)}: what is regressed must be there, and be a number or None"


def _groups(game: Game) -> list[Group]:
    """Return the groups that sit in a game."""
    found: dict[int, Group] = {}
    for seat in game.seats:
        count = found[seat.group].count if seat.group in found else 0
        found[seat.group] = Group(seat.role, count + 1, seat.policy)
    return list(found.values())
