"""Questions: what a study is to answer, declared before it runs; and the pairs of conditions that answer them.

A question pools the pairs of all conditions that differ in what it compares: within each combination of the other axes
(a stratum) simulations are paired by seed. An axis is pooled over only if the question says so.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from parley.errors import UsageError
from parley.games.base import Game
from parley.study.axes import axes_text, axis_names
from parley.study.condition import BYZANTINE_AXIS, Condition
from parley.text import one_line
from parley.text.suggest import choose
from parley.text.yamlfile import Slug, shown

_Value = str | int | float | bool | dict[str, Any]
_Rate = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _two_different(values: list[_Value] | None) -> list[_Value] | None:
    if values is not None and str(values[0]) == str(values[1]):
        raise ValueError("the two must differ")
    return values


_Values = Annotated[list[_Value], BeforeValidator(_as_list, json_schema_input_type=list[_Value] | _Value)]


class Question(BaseModel):
    """One question of a study: does an outcome differ between the values of an axis?"""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Slug = Field(description="Name of the question in tables, figures and the report.")
    outcome: str = Field(
        max_length=200, description="What is compared: an outcome, an indicator or a contrasted quantity of the game."
    )
    compare: str = Field(max_length=200, description="Axis whose values are compared.")
    values: Annotated[list[_Value], Field(min_length=2, max_length=2), AfterValidator(_two_different)] | None = Field(
        default=None,
        description="The two values, as the study writes them; the difference is the second minus the first. By "
        "default each value is compared with the first.",
    )
    over: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=list[str] | str)] = Field(
        default=[],
        description="Axes that may differ between the pairs that are pooled. All others must be constant.",
    )
    where: dict[str, Annotated[_Values, Field(min_length=1)]] = Field(
        default={}, description="Only conditions with these values of axes: one, or a list."
    )
    smallest: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = Field(
        description="Smallest difference that matters: of rates and shares in [0, 1], of others in their unit."
    )
    expected: Annotated[list[_Rate], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="Rates that are expected under the two `values`, for `parley plan`; by default from records, else "
        "the smallest difference about 0.5.",
    )


Kind = Literal["outcome", "indicator", "quantity"]


@dataclass(frozen=True)
class Comparison:
    """Two values of an axis, and the pairs of conditions (first, second) in which a question compares them."""

    question: Question
    kind: Kind
    values: tuple[str, str]
    strata: tuple[tuple[Condition, Condition], ...]

    @property
    def label(self) -> str:
        """The question's name, and what it compares."""
        return f"{self.question.name}: {self.question.compare} {self.values[0]} -> {self.values[1]}"

    def seeds(self, at_most: bool = False) -> list[int]:
        """Return how many seeds the two conditions of each stratum share; `at_most`: once all have grown."""
        name = "most_seeds" if at_most else "seeds"
        return [len(set(getattr(first, name)) & set(getattr(second, name))) for first, second in self.strata]


def compared(question: Question, conditions: Sequence[Condition], where: str) -> Iterator[Comparison]:
    """Yield what a question compares; raises UsageError, naming `where`, if the conditions do not answer it."""
    game, axes = conditions[0].game, list(conditions[0].axes)
    kind = _kind(question, game, where)
    for key, names in (("compare", [question.compare]), ("over", question.over), ("where", question.where)):
        if unknown := next((name for name in names if name not in axes), None):
            raise UsageError(f"{where}.{key}: {shown(unknown)}: not an axis of this study; {choose(unknown, axes)}")
    if question.compare in (*question.over, *question.where):
        key = "over" if question.compare in question.over else "where"
        remedy = "remove it" if key == "over" else "give the two under values"
        raise UsageError(f"{where}.{key}: {question.compare} is what is compared; {remedy}")
    there = [condition for condition in conditions if _is_meant(condition, question)]
    if not there:
        said = axes_text({axis: "|".join(map(str, values)) for axis, values in question.where.items()})
        raise UsageError(f"{where}.where: no condition has {said}; `parley expand` lists them")
    pairs = _pairs_of_values(question, there, where)
    if question.expected is not None and len(pairs) > 1:
        raise UsageError(f"{where}.expected: {len(pairs)} comparisons; give the two values that it is about")
    for first, second in pairs:
        yield Comparison(question, kind, (first, second), _strata(question, kind, there, (first, second), where))


def _kind(question: Question, game: type[Game], where: str) -> Kind:
    quantities = {q.name: q for q in game.evidence.quantities if q.contrasted}
    known: dict[str, Kind] = dict.fromkeys(quantities, "quantity")
    known |= dict.fromkeys((i.name for i in game.evidence.indicators), "indicator")
    known |= dict.fromkeys((o.name for o in game.outcomes), "outcome")
    if question.outcome not in known:
        remedy = choose(question.outcome, known)
        raise UsageError(f"{where}.outcome: {shown(question.outcome)}: the game {game.name} has no such; {remedy}")
    kind = known[question.outcome]
    share = kind != "quantity" or quantities[question.outcome].share
    if share and question.smallest > 1:
        raise UsageError(f"{where}.smallest: {question.smallest:g}: a difference of rates is at most 1")
    if kind == "quantity" and question.expected is not None:
        raise UsageError(f"{where}.expected: only for rates; {question.outcome} is a quantity, remove it")
    return kind


def _is_meant(condition: Condition, question: Question) -> bool:
    """Whether a condition is not ruled out; along b, those without Byzantine agents belong to any adversary."""
    for axis, values in question.where.items():
        names = set[str]().union(*(axis_names(condition.game, axis, str(value)) for value in values))
        undisturbed = question.compare == "b" and axis == BYZANTINE_AXIS and condition.axes["b"] == 0
        if not undisturbed and str(condition.axes[axis]) not in names:
            return False
    return True


def _pairs_of_values(question: Question, there: Sequence[Condition], where: str) -> list[tuple[str, str]]:
    found = list(dict.fromkeys(str(condition.axes[question.compare]) for condition in there))
    if question.values is None:
        if len(found) < 2:
            raise UsageError(
                f"{where}.compare: {question.compare} has one value only ({found[0]}); compare another axis"
            )
        return [(found[0], other) for other in found[1:]]
    chosen = []
    for value in question.values:
        names = axis_names(there[0].game, question.compare, str(value))
        name = next((name for name in found if name in names), None)
        if name is None:
            raise UsageError(f"{where}.values: {shown(value)}: no condition has it; {choose(value, found)}")
        chosen.append(name)
    return [(chosen[0], chosen[1])]


def _strata(
    question: Question, kind: Kind, there: Sequence[Condition], values: tuple[str, str], where: str
) -> tuple[tuple[Condition, Condition], ...]:
    """Return the pairs of conditions that differ in what is compared alone, or in what goes with it.

    Along b these may be of the same size, or of the same number of other agents where n grows with b.
    """
    axis = question.compare
    sizes = [False, True] if axis == "b" else [False]
    for by_honest in sizes:
        found = list(_matched(there, axis, values, by_honest))
        if found:
            break
    else:
        others = combinations(dict.fromkeys(str(condition.axes[axis]) for condition in there), 2)
        fit = next((two for two in others if any(_matched(there, axis, two, False))), None)
        remedy = f"choose two that do: values: [{', '.join(fit)}]" if fit else "`parley expand` lists them"
        raise UsageError(f"{where}: no two conditions differ in {axis} alone ({', '.join(values)}); {remedy}")
    _check_once(found, where)
    _check_over(question, found, by_honest, where)
    if kind == "outcome":
        found = [pair for pair in found if all(question.outcome in each.possible_outcomes for each in pair)]
        if not found:
            raise UsageError(f"{where}.outcome: no two of its conditions can have {question.outcome}; choose another")
    if not any(set(one.seeds) & set(other.seeds) for one, other in found):
        raise UsageError(f"{where}: its conditions have no seed in common, so there are no pairs; give them the same")
    return tuple(found)


def _matched(
    there: Sequence[Condition], axis: str, values: tuple[str, str], by_honest: bool
) -> Iterator[tuple[Condition, Condition]]:
    """Yield the pairs that are alike but for `axis`; without Byzantine agents, whatever plays those of the other."""
    seconds: dict[tuple[Any, ...], list[Condition]] = {}
    for condition in there:
        if str(condition.axes[axis]) == values[1]:
            seconds.setdefault(_place(condition, axis, by_honest), []).append(condition)
    for one in there:
        if str(one.axes[axis]) == values[0]:
            for other in seconds.get(_place(one, axis, by_honest), []):
                if axis != "b" or 0 in (one.axes["b"], other.axes["b"]) or _same_adversary(one, other):
                    yield one, other


def _place(condition: Condition, axis: str, by_honest: bool) -> tuple[Any, ...]:
    key = _key(condition, axis, by_honest)
    return tuple(value for name, value in key.items() if axis != "b" or name != BYZANTINE_AXIS)


def _same_adversary(one: Condition, other: Condition) -> bool:
    return one.axes.get(BYZANTINE_AXIS) == other.axes.get(BYZANTINE_AXIS)


def _key(condition: Condition, axis: str, by_honest: bool) -> dict[str, Any]:
    key: dict[str, Any] = {name: value for name, value in condition.axes.items() if name != axis}
    return key | {"n": key["n"] - condition.axes["b"]} if by_honest else key


def _check_once(found: Sequence[tuple[Condition, Condition]], where: str) -> None:
    """Raise UsageError if a condition is in several pairs: its simulations would count several times."""
    for side in (0, 1):
        paths = Counter(pair[side].path for pair in found)
        if twice := next((path for path, count in paths.items() if count > 1), None):
            others = dict.fromkeys(
                str(pair[1 - side].axes[BYZANTINE_AXIS]) for pair in found if pair[side].path == twice
            )
            raise UsageError(
                f"{where}.where: {twice} would be paired with several conditions; choose one of "
                f"{BYZANTINE_AXIS}: {', '.join(others)}"
            )


def _check_over(question: Question, found: Sequence[tuple[Condition, Condition]], by_honest: bool, where: str) -> None:
    """Raise UsageError if an axis differs between the pairs and the question does not pool over it."""
    # Of each pair the one with Byzantine agents: what plays them is told there.
    keys = [_key(max(pair, key=lambda each: int(each.axes["b"])), question.compare, by_honest) for pair in found]
    for name in keys[0]:
        values = list(dict.fromkeys(str(key[name]) for key in keys))
        if len(values) > 1 and name not in question.over:
            what = f"{name} - b" if name == "n" and by_honest else name
            raise UsageError(
                f"{where}: {what} differs between its conditions ({', '.join(values[:6])}); "
                f"name {name} in over to pool them, or choose one with where"
            )


def question_text(question: Question) -> str:
    """Return a question in words, in one line."""
    said = f"{question.outcome} by {question.compare}"
    if question.values is not None:
        said += f" ({question.values[0]} -> {question.values[1]})"
    if question.over:
        said += f", pooled over {', '.join(question.over)}"
    if question.where:
        said += f", where {axes_text(_plain(question.where))}"
    return one_line(f"{said}; smallest difference that matters: {question.smallest:g}")


def _plain(where: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    return {axis: " or ".join(map(str, values)) for axis, values in where.items()}
