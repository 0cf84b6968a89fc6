"""What a card asks (`axes.yaml`, `studies/`), and what `card.json` says: both are checked by the models here."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from parley.errors import UsageError
from parley.files import read_regular
from parley.text import one_line
from parley.text.yamlfile import FileModel, Listed, Slug, load_yaml, validated

FOLDER = Path(str(files("parley.card")))
Finite = Annotated[float, Field(allow_inf_nan=False)]
Chance = Annotated[float, Field(ge=0, le=1)]


class Axis(FileModel):
    """One axis of the card: a share or rate, the difference of two, or a number of votes."""

    name: Slug
    label: str
    question: str
    means: str  # a sentence with {value}
    study: str = ""  # without one: all
    measure: str
    of_many: bool = False  # a share of many replies of a game: where all are alike, nobody knows how it would vary
    where: dict[str, Listed[Any]] = Field(default={})
    against: dict[str, Listed[Any]] = Field(default={})  # of a difference: the other side
    unit: str = ""
    scale: Annotated[list[float], Field(min_length=2, max_length=2)] = Field(default=[0, 1])
    smallest: float  # difference between two cards that matters
    ends: Annotated[list[str], Field(min_length=2, max_length=2)]  # references: of chance, and the best that is known
    ends_say: str = ""  # what a reader has to know of them
    control: dict[str, float] = Field(default={})  # references whose value theory knows

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return (-1.0, 1.0) if self.against else (self.scale[0], self.scale[1])

    def place(self, value: float) -> float:
        """Return where a value stands on the axis, from 0 to 100."""
        least, most = self.limits
        return round(100 * (value - least) / (most - least), 2)


class Definition(FileModel):
    """The content of axes.yaml."""

    card: int
    quick: int
    references: dict[Slug, dict[str, Any]]  # policies by study, as a grid has them
    adversary: str
    axes: list[Axis]


@cache
def definition() -> Definition:
    """Return what this version of the card asks."""
    return validated(Definition, load_yaml(FOLDER / "axes.yaml"), "axes.yaml")


class Result(FileModel):
    """One axis of one model's card; its limits are of 95%."""

    axis: Slug = Field(description="The axis; docs/how-to/card.md says what each asks.")
    value: Finite | None = Field(description="Its number: null where `reason` says why there is none.")
    low: Finite | None = Field(description="95% limit.")
    high: Finite | None = Field(description="95% limit.")
    reason: str = Field(default="", max_length=300, description="Why there is no number.")
    note: str = Field(default="", max_length=300, description="What else to know of the number.")
    games: int = Field(ge=0, description="Games of the model.")
    by_seed: dict[int, Finite] = Field(description="The number by seed, for cards that are compared.")
    smallest: Finite = Field(description="The smallest difference between two cards that matters.")
    power: Chance | None = Field(
        description="Chance to find that difference between two such cards: independent, corrected for all axes."
    )
    noise: Finite | None = Field(
        description="Two cards of one model differ by less than this in 95% of cases, by seeds and sampling alone."
    )
    chance: Finite | None = Field(description="What the reference at the low end reached on the same seeds.")
    best: Finite | None = Field(description="What the reference at the high end reached.")
    failed: list[str] = Field(default=[], description="Controls that did not reach what theory says.")


class Card(FileModel):
    """The content of card.json."""

    card: int = Field(description="Version of the card. Cards of different versions are not compared.")
    parley: str = Field(description="Version of Parley.")
    name: Slug = Field(description="The model, as its entry is called, or the scripted reference.")
    model: dict[str, Any] = Field(description="What it is: the hash of its bytes, or its name at a service.")
    answered: list[str] = Field(description="What answered.")
    quick: bool = Field(description="Whether few seeds were played.")
    date: str = Field(description="When the last of its games began (UTC).")
    records: str = Field(description="SHA-256 over the content digests of all records.")
    missing: int = Field(
        default=0, ge=0, description="Games of the model that are not played, or whose records cannot be used."
    )
    axes: list[Result]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.card != definition().card:  # which is not compared, and not shown
            return self
        named = [each.axis for each in self.axes]
        if len({*named} & {axis.name for axis in definition().axes}) != len(named):
            raise ValueError("axes: one stands there twice, or is none of this card")
        for axis, result in self.listed():
            least, most = axis.limits
            ends = [each for each in (least, result.low, result.value, result.high, most) if each is not None]
            # Of votes the parts of a number, by seed, may lie beyond what the whole can be.
            parts = [] if axis.unit else result.by_seed.values()
            if ends != sorted(ends) or not all(least <= part <= most for part in parts):
                raise ValueError(
                    f"{axis.name}: low, value, high or by_seed leave {least:g} to {most:g}, or do not rise"
                )
        return self

    def listed(self) -> Iterator[tuple[Axis, Result]]:
        """Yield each axis that this version asks, with its result."""
        axes = {axis.name: axis for axis in definition().axes}
        yield from ((axes[each.axis], each) for each in self.axes)

    @property
    def failed(self) -> list[str]:
        """The axes of which a control failed."""
        return [each.axis for each in self.axes if each.failed]


def read_card(path: Path) -> Card:
    """Return a card; raises UsageError if there is none, or it is none."""
    try:
        content = json.loads(read_regular(path))
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: no card: {one_line(str(said), 100)}; name a card.json") from None
    return validated(Card, content, str(path))


def card_text(card: Card) -> str:
    """Return a card as it stands in its file."""
    return json.dumps(card.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
