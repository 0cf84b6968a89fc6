"""Questions: what a study is to answer, declared before it runs. `comparisons.py` finds what they compare."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from parley.study.condition import axes_text
from parley.text.yamlfile import ByForm, FileModel, Listed, OrOne, Slug

_Value = str | int | float | bool | dict[str, Any]
_Rate = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


def _two_different(values: list[_Value] | None) -> list[_Value] | None:
    if values is not None and str(values[0]) == str(values[1]):
        raise ValueError("the two must differ")
    return values


_Outcome = Annotated[str, Field(max_length=200)]


class TimeTo(FileModel):
    """How soon games end with an outcome, and not how often."""

    time_to: _Outcome = Field(description="It; without it a game counts as one round after its last. Unit: rounds.")


class Question(FileModel):
    """One question of a study: does an outcome differ between values of an axis, along it, or do two outcomes?"""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [key]} for key in ("compare", "outcomes", "trend")]}
    )

    name: Slug = Field(description="Name of the question in tables, figures and the report.")
    text: Annotated[str, Field(max_length=300)] = Field(
        default="", description="The question as a sentence, for the report; by default made from the other keys."
    )
    outcome: Annotated[_Outcome | TimeTo, ByForm()] | None = Field(
        default=None,
        description="What is compared: an outcome, an indicator or a contrasted quantity of the game; or how soon "
        "it ends with an outcome.",
    )
    outcomes: Annotated[list[_Outcome], Field(min_length=2, max_length=2), AfterValidator(_two_different)] | None = (
        Field(
            default=None,
            description="Two of these, of the same simulations, instead of `outcome` and `compare`; the difference is "
            "the second minus the first.",
        )
    )
    compare: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="Axis whose values are compared."
    )
    trend: Annotated[str, Field(max_length=200)] | None = Field(
        default=None,
        description="Axis of numbers, instead of `compare`: does the outcome rise or fall along it? All its values "
        "count, by the line of each seed; the difference is that between the ends of the line.",
    )
    values: Annotated[list[_Value], Field(min_length=2, max_length=2), AfterValidator(_two_different)] | None = Field(
        default=None,
        description="The two values, as the study writes them; the difference is the second minus the first. By "
        "default each value is compared with the first.",
    )
    over: Annotated[list[str], OrOne()] = Field(
        default=[],
        description="Axes that may differ between the pairs that are pooled. All others must be constant.",
    )
    where: dict[str, Listed[_Value]] = Field(
        default={}, description="Only conditions with these values of axes: one, or a list."
    )
    smallest: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = Field(
        description="Smallest difference that matters: of rates and shares in [0, 1], of others in their unit."
    )
    expected: Annotated[list[_Rate], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="Rates that are expected of the two, for `parley plan`; by default from records, else "
        "the smallest difference about 0.5.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> "Question":
        if self.outcomes is not None:
            for key in ("outcome", "compare", "trend", "values"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key}: outcomes are compared within the same simulations; remove one of both")
            return self
        if self.trend is not None:
            for key in ("compare", "values", "expected"):
                if getattr(self, key) is not None:
                    raise ValueError(f"{key}: a trend is over all values of its axis; remove it")
        elif self.compare is None:
            raise ValueError("compare: missing; give an axis, or a trend or two outcomes instead")
        if self.outcome is None:
            raise ValueError("outcome: missing; add it")
        return self

    @property
    def looked_at(self) -> tuple[str, str]:
        """The names of what is compared: of the first side and of the second."""
        if self.outcomes is not None:
            return self.outcomes[0], self.outcomes[1]
        outcome = self.outcome.time_to if isinstance(self.outcome, TimeTo) else self.outcome or ""
        return outcome, outcome

    @property
    def of_time(self) -> bool:
        """Whether it asks how soon games end in a way."""
        return isinstance(self.outcome, TimeTo)

    @property
    def axis(self) -> str:
        """The axis whose values are compared, or along which a trend is; "" for outcomes."""
        return self.trend or self.compare or ""


def where_text(where: Mapping[str, Sequence[Any]]) -> str:
    """Return the values of axes that are chosen, for people: `n=4 or 6, prompt=plain`."""
    return axes_text({axis: " or ".join(map(str, _in_order(values))) for axis, values in where.items()})


def _in_order(values: Sequence[Any]) -> Sequence[Any]:
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values
