"""What a study's questions compare: the pairs of conditions that answer them.

A question pools the pairs of all conditions that differ in what it compares: within each combination of the other axes
(a stratum) simulations are paired by seed. An axis is pooled over only if the question says so. Where two outcomes are
compared, a condition makes such a pair with itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.evidence import ARM_AXIS, Quantity
from parley.study.condition import BYZANTINE_AXIS, Condition, axis_names, check_axis
from parley.study.questions import Question, where_text
from parley.text import counted, one_line
from parley.text.yamlfile import check_known

Kind = Literal["outcome", "indicator", "quantity", "time"]
Strata = tuple[tuple[Condition, Condition], ...]

BOTH = " -> "  # between the names of two sides
_AGENTS = {"n": "agent", "b": "Byzantine agent"}


def rates_of(game: type[Game]) -> dict[str, str]:
    """Return what has a rate in simulations of `game`, by name, each with its kind: `outcome` or `indicator`."""
    indicators = {each.name: "indicator" for each in game.evidence.indicators if each.contrasted}
    return {**{each.name: "outcome" for each in game.outcomes}, **indicators}


def labels_of(game: type[Game]) -> dict[str, str]:
    """Return the labels of all that can be compared, by name."""
    evidence, labels = game.evidence, {each.name: each.label for each in game.outcomes}
    labels |= {each.name: each.label for each in (*evidence.indicators, *evidence.about("equal_cost"))}
    return labels | {each.name: each.label for each in (*evidence.quantities, *evidence.asked)}


def value_text(axis: str, value: str) -> str:
    """Return a value of an axis that is compared, in words: `4 Byzantine agents`."""
    if axis in _AGENTS and value.isdecimal():
        return counted(int(value), _AGENTS[axis])
    return value if axis == "model" else f"{axis}={value}"


@dataclass(frozen=True)
class Comparison:
    """What a question compares: the pairs of conditions (first, second), and what is looked at in each of them.

    `axis` is what they differ in, `values` are its two, of a trend the ends. Both are empty where two outcomes of the
    same simulations are compared. `share`: what is looked at is in [0, 1].
    """

    question: Question
    kinds: tuple[Kind, Kind]
    share: bool
    axis: str
    values: tuple[str, str]
    strata: Strata
    between: tuple[tuple[Condition, ...], ...] = ()  # of a trend: all conditions of each stratum, from first to second

    @property
    def kind(self) -> Kind:
        """What is looked at; of an outcome and an indicator, an indicator."""
        first, second = self.kinds
        return first if first == second else "indicator"

    @property
    def outcomes(self) -> tuple[str, str]:
        """The names of what is looked at, on either side."""
        return self.question.looked_at

    @property
    def what(self) -> str:
        """The name of what is compared; of two outcomes both."""
        return BOTH.join(dict.fromkeys(self.outcomes))

    @property
    def text(self) -> str:
        """What is compared, in a few words: `prompt may_exist -> none_exist`."""
        return f"{self.axis} {BOTH.join(self.values)}" if self.axis else self.what

    @property
    def conditions(self) -> list[Condition]:
        """All conditions whose simulations answer it, each once."""
        return list({each.name: each for group in self.between or self.strata for each in group}.values())

    @property
    def prompts(self) -> list[tuple[str, str]]:
        """The two prompts of the conditions of the first stratum, if they differ."""
        first, second = self.strata[0]
        return [(first.prompt, second.prompt)] if first.prompt != second.prompt else []

    @property
    def averaged(self) -> bool:
        """Whether the unit is a recorded game of which there are several forks: its value is their mean."""
        return any(condition.fork is not None and condition.repeat is not None for condition in self.conditions)

    @property
    def of_numbers(self) -> bool:
        """Whether pairs differ by numbers, and not by yes and no."""
        return self.kind in ("quantity", "time") or bool(self.between) or self.averaged

    @property
    def never(self) -> int:
        """The round that counts for a game that does not end as asked: the one after the shortest deadline."""
        return 1 + min(each.parameters.longest or 0 for each in self.conditions)

    @property
    def signed(self) -> bool:
        """Whether what is looked at may be below 0: what a game lost, against the best known protocol."""
        return {*self.outcomes} <= {each.name for each in self.conditions[0].game.evidence.lost}

    @property
    def least(self) -> float:
        """The least that a share or rate can be on both sides: of one of the honest agents, where they are as many."""
        if self.signed:
            return -1.0
        conditions = self.conditions
        quantities = {each.name: each for each in conditions[0].game.evidence.quantities}
        if not all(name in quantities and quantities[name].of_one for name in self.outcomes):
            return 0.0
        return 1 / max(int(each.axes["n"]) - int(each.axes["b"]) for each in conditions)

    @property
    def label(self) -> str:
        """The question's name, and what it compares."""
        return f"{self.question.name}: {self.text}"

    @property
    def seeds(self) -> list[int]:
        """How many seeds the two conditions of each stratum share."""
        return [len(set(first.seeds) & set(second.seeds)) for first, second in self.strata]


def question_text(question: Question, comparisons: Sequence[Comparison]) -> str:
    """Return a question in words: its own, or `Do games end in “valid consensus” as often with ... as with ...?`."""
    if question.text:
        return question.text
    first, *others = comparisons
    labels = labels_of(first.conditions[0].game)
    one, other = (f"“{labels.get(name, name)}”" for name in first.outcomes)
    ends = [value_text(first.axis, value) for value in first.values]
    against = f"with {ends[1]} as with {ends[0]}" if not others else f"whatever {question.axis} is"
    if question.outcomes is not None:
        said = f"Is {other} as {'high' if first.kind == 'quantity' else 'frequent'} as {one} in the same games"
    elif question.trend:
        said = f"Does {one} change with {question.trend}, from {first.values[0]} to {first.values[1]}"
    elif first.kind == "quantity":
        said = f"Is {one} as high {against}"
    elif first.kind == "time":
        said = f"Do games end in {one} as soon {against}"
    else:
        said = f"{f'Do games end in {one}' if first.kind == 'outcome' else f'Does {one} hold'} as often {against}"
    where = f", where {where_text(question.where)}" if question.where else ""
    over = f" Over all values of {', '.join(question.over)}." if question.over else ""
    return one_line(f"{said}{where}?{over}")


def compared(question: Question, conditions: Sequence[Condition], where: str) -> Iterator[Comparison]:
    """Yield what a question compares; raises UsageError, naming `where`, if the conditions do not answer it."""
    axis, axes = question.axis, list(conditions[0].axes)
    kinds, share = _kinds(question, conditions[0].game, where, with_arms=ARM_AXIS in axes)
    named = {"trend" if question.trend else "compare": [axis] if axis else [], "over": question.over}
    for key, names in (named | {"where": question.where}).items():
        for name in names:
            check_axis(f"{where}.{key}", name, axes, conditions[0].game)
    if axis in question.over or (axis in question.where and not question.trend):
        key = "over" if axis in question.over else "where"
        raise UsageError(f"{where}.{key}: {axis} is what is compared; remove it, or give the two under values")
    there = [condition for condition in conditions if _is_meant(condition, question)]
    if not there:
        raise UsageError(f"{where}.where: no condition has {where_text(question.where)}; `parley expand` lists them")
    pairs = _pairs_of_values(question, there, where) if axis else [("", "")]
    if question.expected is not None and len(pairs) > 1:
        raise UsageError(f"{where}.expected: {len(pairs)} comparisons; give the two values that it is about")
    for values in pairs:
        strata, by_honest = _strata(question, there, values, where) if axis else ([(c, c) for c in there], False)
        _check_pooled(question, strata, by_honest, where)
        answering = _checked(question, kinds, strata, where)
        between = tuple(_line(axis, pair, there, by_honest) for pair in answering) if question.trend else ()
        yield Comparison(question, kinds, share, axis, values, answering, between)


def _kinds(question: Question, game: type[Game], where: str, with_arms: bool) -> tuple[tuple[Kind, Kind], bool]:
    """Return what kind of thing is looked at on either side, and whether it is in [0, 1]."""
    contrasted = (quantity for quantity in game.evidence.quantities if quantity.contrasted)
    of_arms = game.evidence.about("equal_cost") if with_arms else ()
    quantities = {quantity.name: quantity for quantity in (*contrasted, *game.evidence.asked, *of_arms)}
    known: dict[str, Kind] = dict.fromkeys(quantities, "quantity")
    known |= dict.fromkeys((i.name for i in game.evidence.indicators), "indicator")
    known |= dict.fromkeys((o.name for o in game.outcomes), "outcome")
    if question.of_time:
        known = dict.fromkeys((o.name for o in game.outcomes), "time")
    first, second = question.looked_at
    key = "outcome" if question.outcomes is None else "outcomes"
    for name in (first, second):
        check_known(f"{where}.{key}", name, known, f"outcome, indicator or quantity of {game.name}")
    units = [_unit(name, quantities) for name in (first, second)]
    if units[0] != units[1]:
        raise UsageError(f"{where}.{key}: {first} is {units[0]}, {second} is {units[1]}; compare two of one unit")
    kinds = (known[first], known[second])
    share = not question.of_time and (kinds[0] != "quantity" or quantities[first].share)
    if share and question.smallest > 1:
        raise UsageError(f"{where}.smallest: {question.smallest:g}: a difference of rates is at most 1")
    if kinds[0] in ("quantity", "time") and question.expected is not None:
        raise UsageError(f"{where}.expected: only for rates; {first} is a {kinds[0]}, remove it")
    return kinds, share


def _unit(name: str, quantities: Mapping[str, Quantity]) -> str:
    """Return in words in which unit something is; a plain count has a unit of its own."""
    if (quantity := quantities.get(name)) is None:
        return "a rate"
    return "a mean of shares" if quantity.share else f"a mean of {quantity.unit or name}"


def _is_meant(condition: Condition, question: Question) -> bool:
    """Whether a condition is not ruled out; along b, those without Byzantine agents belong to any adversary."""
    undisturbed = question.axis == "b" and condition.axes["b"] == 0
    where = {axis: found for axis, found in question.where.items() if not (undisturbed and axis == BYZANTINE_AXIS)}
    return condition.has(where)


def _pairs_of_values(question: Question, there: Sequence[Condition], where: str) -> list[tuple[str, str]]:
    """Return the two values that a question names; without any, the first with each other one; of a trend the ends."""
    axis, values = question.axis, _values(there, question.axis)
    if question.trend:
        try:
            values.sort(key=float)
        except ValueError:
            raise UsageError(f"{where}.trend: {axis} has values that are no numbers; use compare") from None
        if len(values) < 3:
            raise UsageError(f"{where}.trend: {axis} has {len(values)} values; a trend needs three, compare takes two")
        return [(values[0], values[-1])]
    if question.values is None:
        if len(values) < 2:
            raise UsageError(f"{where}.compare: {axis} has one value only ({values[0]}); compare another axis")
        return [(values[0], other) for other in values[1:]]
    chosen = []
    for value in question.values:
        names = axis_names(there[0].game, axis, str(value))
        name = next((name for name in values if name in names), str(value))
        check_known(f"{where}.values", name, values, f"{axis} of these conditions")
        chosen.append(name)
    return [(chosen[0], chosen[1])]


def _strata(
    question: Question, there: Sequence[Condition], values: tuple[str, str], where: str
) -> tuple[Sequence[tuple[Condition, Condition]], bool]:
    """Return the pairs of conditions that are alike but for the axis, and whether n grows with b between them.

    Then they have equally many honest agents; first of all, pairs of the same n are looked for.
    """
    axis = question.axis
    for by_honest in (False, True) if axis == "b" else (False,):
        if pairs := list(_matched(axis, there, values, by_honest)):
            for side in (0, 1):  # simulations would count several times
                names = Counter(pair[side].name for pair in pairs)
                if twice := next((name for name, count in names.items() if count > 1), None):
                    others = _values([pair[1 - side] for pair in pairs if pair[side].name == twice], BYZANTINE_AXIS)
                    said = f"{twice} would be paired with several conditions"
                    raise UsageError(f"{where}.where: {said}; choose one of {BYZANTINE_AXIS}: {', '.join(others)}")
            return pairs, by_honest
    said = f"no two conditions differ in {axis} alone ({', '.join(values)})"
    raise UsageError(f"{where}: {said}; give two that do under values")


def _matched(
    axis: str, there: Sequence[Condition], values: tuple[str, str], by_honest: bool
) -> Iterator[tuple[Condition, Condition]]:
    """Yield the pairs that are alike but for the axis; along b, without Byzantine agents, to any adversary."""
    seconds = defaultdict[Any, list[Condition]](list)
    for condition in there:
        if str(condition.axes[axis]) == values[1]:
            seconds[_place(condition, axis, by_honest)].append(condition)
    for one in there:
        if str(one.axes[axis]) == values[0]:
            for other in seconds[_place(one, axis, by_honest)]:
                same_adversary = one.axes.get(BYZANTINE_AXIS) == other.axes.get(BYZANTINE_AXIS)
                if axis != "b" or 0 in (one.axes["b"], other.axes["b"]) or same_adversary:
                    yield one, other


def _line(
    axis: str, ends: tuple[Condition, Condition], there: Sequence[Condition], by_honest: bool
) -> tuple[Condition, ...]:
    """Return the conditions of a trend from its first to its second end."""
    first, second = ends
    low, high = float(first.axes[axis]), float(second.axes[axis])
    key = _key(second, axis, by_honest)
    between = (c for c in there if low < float(c.axes[axis]) < high and _key(c, axis, by_honest) == key)
    return (first, *sorted(between, key=lambda condition: float(condition.axes[axis])), second)


def _check_pooled(
    question: Question, strata: Sequence[tuple[Condition, Condition]], by_honest: bool, where: str
) -> None:
    """Raise UsageError if pairs differ in an axis that is not pooled over."""
    # Of each pair the one with Byzantine agents: what plays them is told there.
    more = [max(pair, key=lambda each: int(each.axes["b"])) for pair in strata]
    keys = [_key(each, question.axis, by_honest) for each in more]
    for name in keys[0]:
        values = list(dict.fromkeys(str(key[name]) for key in keys))
        if len(values) > 1 and name not in question.over:
            what = f"{name} - b" if name == "n" and by_honest else name
            said = f"{what} differs between its conditions ({', '.join(values[:6])})"
            raise UsageError(f"{where}: {said}; name {name} in over to pool them, or choose one with where")


def _checked(
    question: Question, kinds: tuple[Kind, Kind], pairs: Sequence[tuple[Condition, Condition]], where: str
) -> Strata:
    """Return the pairs that can have what is looked at; raises UsageError for none, or none that share a seed."""
    outcomes = question.looked_at
    for side, (kind, outcome) in enumerate(zip(kinds, outcomes, strict=True)):
        if kind in ("outcome", "time"):
            pairs = [pair for pair in pairs if outcome in pair[side].possible_outcomes]
    if not pairs:
        said = " and ".join(dict.fromkeys(outcomes))
        raise UsageError(f"{where}.outcome: no two of its conditions can have {said}; choose another")
    unfit = (c.fork or question.trend or c.parameters.longest is None for pair in pairs for c in pair)
    if question.of_time and any(unfit):
        raise UsageError(f"{where}.outcome: time_to needs `longest`, no trend, no fork; compare the outcome")
    if not any(set(one.seeds) & set(other.seeds) for one, other in pairs):
        raise UsageError(f"{where}: its conditions have no seed in common, so there are no pairs; give them the same")
    return tuple(pairs)


def _values(conditions: Sequence[Condition], axis: str) -> list[str]:
    return list(dict.fromkeys(str(condition.axes[axis]) for condition in conditions))


def _place(condition: Condition, axis: str, by_honest: bool) -> tuple[Any, ...]:
    key = _key(condition, axis, by_honest)
    return tuple(value for name, value in key.items() if axis != "b" or name != BYZANTINE_AXIS)


def _key(condition: Condition, axis: str, by_honest: bool) -> dict[str, Any]:
    key: dict[str, Any] = {name: value for name, value in condition.axes.items() if name != axis}
    return key | {"n": key["n"] - condition.axes["b"]} if by_honest else key
