"""What stands in a study file: the pydantic models of its keys."""

import re
from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from parley.engine.service.dialect import BudgetLimits
from parley.study.own_prompts import PromptSource
from parley.study.questions import Question
from parley.text.yamlfile import ByForm, FileModel, Listed, Slug, StrictModel, is_slug
from parley.trust import names_own_code

SAME = "same"  # Byzantine agents are played by what plays the honest ones


_Count = Annotated[int, Field(strict=True, ge=0, le=10_000)]
_Positive = Annotated[int, Field(strict=True, ge=1, le=10_000)]


def _each_once(numbers: list[int]) -> list[int]:
    [(number, times)] = Counter(numbers).most_common(1)
    if times > 1:
        raise ValueError(f"seed {number} is repeated; list it once")
    return numbers


def _asked_once(questions: list[Question]) -> list[Question]:
    names = [question.name for question in questions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice!r} is repeated; give each question a name of its own")
    return questions


_SeedNumber = Annotated[int, Field(strict=True, ge=0, le=999_999_999)]  # as many digits as _SEED_FILE takes
_SeedList = Annotated[
    list[_SeedNumber],
    Field(min_length=1, max_length=10_000, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_each_once),
]


# How many (seeds 0, 1, ...), or which.
_Seeds = Annotated[_Positive | _SeedList, ByForm()]


def _check_name(name: str) -> str:
    if not is_slug(name) and not names_own_code(name):
        raise ValueError("use up to 64 letters, digits, '.', '_' or '-', or module:attribute for code of your own")
    return name


class PolicyChoice(BaseModel):
    """A policy with parameters: its name, and the parameters beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        description="A policy of the game, or your own: an installed entry point or module:attribute. Its parameters "
        "stand beside it."
    )

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything but the name, as it stands in the file."""
        return dict(self.model_extra or {})


class PlayerChoice(PolicyChoice):
    """A policy with parameters, and the model that it asks, if it asks one."""

    model: Slug | None = Field(default=None, description="An entry of models.yaml, for policies that ask one.")


_Name = Annotated[str, AfterValidator(_check_name)]
# A name, or a mapping with parameters.
WrittenPolicy = Annotated[_Name | PolicyChoice, ByForm()]
WrittenPlayer = Annotated[_Name | PlayerChoice, ByForm()]
_OneOrMorePlayers = Annotated[WrittenPlayer | Annotated[list[WrittenPlayer], Field(min_length=1)], ByForm()]


class GroupEntry(FileModel):
    """Agents that are played alike; a list makes an axis."""

    role: Listed[Slug] = Field(description="Role of the agents.")
    count: Listed[_Count] = Field(description="Number of the agents.")
    model: Listed[Slug] | None = Field(
        default=None, description="Entries of models.yaml, for policies that ask a model."
    )
    policy: Listed[WrittenPolicy] = Field(
        default=["llm"],
        description="What answers: a policy of the game, or your own: an installed entry point or module:attribute.",
    )
    prompt: Listed[Slug] | None = Field(
        default=None, description="Prompts of the agents, as in `prompt` of the grid, which they have by default."
    )


class Grid(FileModel):
    """A block of conditions: every combination of the listed values."""

    groups: Annotated[list[GroupEntry], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="The population, group by group; instead of model, n, honest, b and byzantine."
    )
    model: Listed[WrittenPlayer] | None = Field(
        default=None, description="What plays the honest agents: entries of models.yaml, or policies of the game."
    )
    n: Listed[_Positive] | None = Field(default=None, description="Number of all agents, Byzantine ones included.")
    honest: Listed[_Count] | None = Field(
        default=None, description="Number of honest agents; instead of n, which is then honest + b."
    )
    b: Listed[_Count] | None = Field(default=None, description="Number of Byzantine agents; default 0.")
    byzantine: _OneOrMorePlayers | None = Field(
        default=None,
        description="What plays the Byzantine agents: an entry of models.yaml, a policy, or `same` (default). A list "
        "makes an axis of it.",
    )
    prompt: Listed[Slug] = Field(description="Prompt variants of the game, or names of `prompts`.")
    vary: dict[str, Listed[Any]] = Field(
        default_factory=dict, description="Game parameters that are axes too: a list of values for each."
    )
    seeds: _Seeds | None = Field(default=None, description="Seeds of these conditions; else the study's.")


# An arm, or of independent answers how many they are.
_Numbered = Annotated[dict[Literal["independent"], _Positive], Field(min_length=1)]
_Arm = Annotated[Literal["independent", "self_correction", "placebo"] | _Numbered, ByForm()]

LEDGER_FORMAT = 2  # of a block: chains of another are made anew from the records


class LedgerSettings(StrictModel):
    """How the ledger of a study is made; not part of any identity."""

    block_limit: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        exclude_if=lambda limit: limit is None,
        description="Bytes of a block. How many blocks have more is said when the ledger is made.",
    )


class Drawn(FileModel):
    """Simulations of some conditions."""

    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="A value for some of the axes; all conditions that have them are drawn."
    )
    seeds: Annotated[list[Annotated[int, Field(strict=True, ge=0)]], Field(min_length=1)] | None = Field(
        default=None, description="Which simulations of each of them; default: the one with the lowest seed."
    )


class SaidInstead(BaseModel):
    """What an agent says in place of its reply: fields of the reply, or all of its `text`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    seat: Slug = Field(description="An agent, such as agent_2, or a role: each of its agents.")
    text: str | None = Field(default=None, description="The whole reply; without it, fields of the reply beside it.")

    @model_validator(mode="after")
    def _says_something(self) -> "SaidInstead":
        if self.text is None and not self.model_extra:
            raise ValueError("says nothing else; add text, or fields of the reply, such as value: 7")
        return self


class Swapped(FileModel):
    """Who plays a seat from a point on."""

    seat: Slug = Field(description="An agent, a role (all of its agents), or `all`.")
    to: WrittenPlayer = Field(
        description="A scripted policy, an entry of models.yaml, or a role: then the seat has that role, and what "
        "plays it."
    )


class Change(FileModel):
    """One change of a recorded game; without any key, none: the same game again with other sampling seeds."""

    silence: Slug | None = Field(
        default=None, description="This agent, or all of this role, says nothing from there on; `each`: see `at`."
    )
    silence_once: Slug | None = Field(
        default=None, description="The same for one phase; what others say in it stays as it was recorded."
    )
    say: SaidInstead | None = Field(
        default=None, description="What is said at the point in place of a reply; what others say in it stays."
    )
    keep: Literal[True] | None = Field(
        default=None,
        description="Nothing: the phase at the point stays as it was recorded, and what follows is asked for. What "
        "silence_once and say are compared with; where `none` is listed they have it beside them.",
    )
    swap: Swapped | None = Field(default=None, description="Who plays a seat from there on.")

    @model_validator(mode="after")
    def _is_one(self) -> "Change":
        if len(self.model_fields_set) > 1:
            raise ValueError("is one change; make a list of several")
        if self.model_fields_set and getattr(self, self.kind) is None:
            raise ValueError(f"{self.kind}: is empty; say who or what, or write none for no change")
        return self

    @property
    def kind(self) -> str:
        """The name of its key; `none` without any."""
        return next(iter(self.model_fields_set), "none")

    @property
    def seat(self) -> str:
        """The agent or role that it is about; "" for all."""
        changed = getattr(self, self.kind, "")
        return changed if self.kind.startswith("silence") else getattr(changed, "seat", "")

    @property
    def of_messages(self) -> bool:
        """Whether it is about messages of one phase, of which the others stay as they were."""
        return self.kind in ("silence_once", "say", "keep")


EACH, ALL = "each", "all"


def _as_point(value: Any) -> Any:
    ends = re.fullmatch(r"(0|[1-9][0-9]{0,4})[-:]([A-Za-z0-9_.-]{1,60})", value) if isinstance(value, str) else None
    if type(value) is not int and value != EACH and ends is None:
        raise ValueError("must be a round (2), a phase of one (2:vote), or `each`")
    return value if ends is None else f"{ends[1]}-{ends[2]}"


_At = Annotated[int | str, BeforeValidator(_as_point)]
WrittenChange = Annotated[
    Change, BeforeValidator(lambda value: {} if value == "none" else value, json_schema_input_type=Change | str)
]


class ForkKeys(FileModel):
    """Recorded games that are played again up to a point, changed there, and let go on."""

    of: str = Field(
        min_length=1,
        description="Their records: the name of another study, or a folder of records (or one record), as seen from "
        "this file or from the folder of results/.",
    )
    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Values of axes (or of spec) that the games have; default: all."
    )
    seeds: _SeedList | None = Field(default=None, description="Seeds of the games; default: all.")
    at: Listed[_At] = Field(
        default=[EACH],
        description="Rounds before whose first question the change begins, or phases of them (2:vote); `each` is "
        "every round. Games that end before it have no fork there.",
    )
    change: Listed[WrittenChange] = Field(
        description="What is changed: none, silence, silence_once, say or swap. `silence: each` silences each "
        "message of these rounds once, one in each fork."
    )
    repeats: Annotated[int, Field(strict=True, ge=1, le=100)] = Field(
        default=5, description="How often each change is played, each time with other sampling seeds."
    )


_Number = Annotated[float, Field(allow_inf_nan=False)]
_NUMBERS = ("rate", "count", "mean", "most")  # the forms of a paper's number


class PaperNumber(FileModel):
    """A number that a paper gives, to be shown beside the study's own; not part of any identity."""

    what: Slug = Field(
        description="An outcome, indicator or quantity; a measure of a `round`, a behavior of a `player`."
    )
    where: dict[str, Any] = Field(
        default_factory=dict, description="Values of axes: the number is over all conditions that have them."
    )
    round: Annotated[int, Field(strict=True, ge=0)] | None = Field(default=None, description="Of a measure: when.")
    player: _Name | None = Field(default=None, description="Of a behavior: whose, as tables call it.")
    rate: Annotated[_Number, Field(ge=0, le=1)] | None = Field(default=None, description="A rate or share.")
    count: _Count | None = Field(default=None, description="In place of `rate`: in how many games, of `of`.")
    mean: _Number | None = Field(default=None, description="In place of `rate`: a mean.")
    most: _Number | None = Field(default=None, description="In place of `rate`: what no game exceeds.")
    of: _Positive | None = Field(default=None, description="Of how many games it is, which gives it an interval.")
    margin: Annotated[_Number, Field(gt=0)] | None = Field(default=None, description="Half of its 95% interval.")
    source: str = Field(default="", max_length=200, description="Where the paper says so.")

    @property
    def form(self) -> str:
        """Which of its forms the number has: `rate`, `count`, `mean` or `most`."""
        return next(name for name in _NUMBERS if getattr(self, name) is not None)

    @property
    def value(self) -> float:
        """The number; of a count, the rate."""
        return float(getattr(self, self.form)) / ((self.of or 1) if self.form == "count" else 1)

    @property
    def part(self) -> str | None:
        """What it is of, if not of whole games: `round` or `player`."""
        return "round" if self.round is not None else "player" if self.player is not None else None

    @property
    def is_mean(self) -> bool:
        """Whether it is a rate or mean of whole games."""
        return self.part is None and self.form != "most"

    @model_validator(mode="after")
    def _one_number(self) -> "PaperNumber":
        given = [name for name in _NUMBERS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{(given or ['rate'])[-1]}: give one of {', '.join(_NUMBERS)}")
        if self.count is not None and self.count > (self.of or -1):
            raise ValueError("count: say of how many games it is, no fewer than it, as in {count: 13, of: 25}")
        return self


class StudyFile(FileModel):
    """The content of a study file."""

    game: Annotated[str, AfterValidator(_check_name)] = Field(
        description="The game that is played, or your own: module:attribute or an installed entry point."
    )
    title: str = Field(default="", max_length=200, description="One line for figures and the report.")
    seeds: _Seeds = Field(
        default=1,
        description="Simulations per condition, with the seeds 0 to seeds - 1; or a list of seed numbers.",
    )
    repeats: Annotated[int, Field(strict=True, ge=1, le=20)] = Field(
        default=1,
        description="How often each seed is played, each time with other sampling seeds. Tables and figures show the "
        "first; the others tell how much a condition differs from itself (the table `noise`).",
    )
    shard_size: _Positive = Field(default=32, description="Simulations that share one engine; on a cluster, one job.")
    parameters: dict[str, Any] = Field(default_factory=dict, description="Fixed parameters of the game.")
    prompts: dict[Slug, PromptSource] = Field(
        default_factory=dict,
        max_length=100,
        description="Prompts of your own, by name: a change of one of the game's, or a folder of templates beside "
        "this file. Their texts are part of the identity.",
    )
    grids: Annotated[list[Grid], Field(min_length=1)] = Field(
        default=[], description="Blocks of conditions; without any, a study has a `fork`."
    )
    fork: ForkKeys | None = Field(
        default=None, description="Recorded games that are changed in one place, in place of `grids`."
    )
    questions: Annotated[list[Question], AfterValidator(_asked_once)] = Field(
        default=[],
        max_length=100,
        description="What the study is to answer: comparisons whose p are corrected together, and for which "
        "`parley plan` says how many seeds they take. Not part of the identity.",
    )
    compare_with: Listed[_Arm] | None = Field(
        default=None,
        description="What each condition whose agents talk is held against on the same seeds, as an axis `arm`: "
        "`independent` answers (`{independent: 24}` says how many; tables take as many as cost no more than talking), "
        "`self_correction` (hearing only oneself), `placebo` (hearing of another problem).",
    )
    budget: BudgetLimits | None = Field(
        default=None, description="What its services may spend; not part of the identity."
    )
    most_unusable: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=0.95,
        description="From which share of unusable replies a model's games pause, looked at after each 20 of its "
        "replies; null is never. Which reply_format a model can use: config/formats.yaml. Not part of the identity.",
    )
    figures: dict[str, Annotated[list[Drawn], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Which simulations figures of single ones show, by the name of the figure "
        "(trajectories); not part of the identity.",
    )
    ledger: LedgerSettings = Field(
        default=LedgerSettings(),
        description="How its ledger is made, if its game keeps one; not part of the identity.",
    )
    paper: list[PaperNumber] = Field(
        default_factory=list, max_length=200, description="Numbers of a paper, shown beside the study's own."
    )
