"""What a game says of its evidence: how it ends, what is counted and measured, and which figures show it.

Tables and figures know no game: they follow these descriptions.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass as checked_dataclass

from parley.columns import Column, read_columns
from parley.games.figure_kinds import KINDS
from parley.games.parameters import Group, P
from parley.text import choose
from parley.text.yamlfile import Slug

if TYPE_CHECKING:  # half a second, which games do not need to be played
    import pandas as pd


ARM_AXIS = "arm"  # the last, in studies that compare with arms
TALK, NO_ARM = "talk", "none"  # its values for what arms are compared with, and for conditions without arms
FIRST, INDEPENDENT = "first_answers", "independent"  # arms of the table `equal_cost`; of the first none are played
ANY, NONE = "any", "none"  # in tables that games bring: whichever, and no condition to compare with


# What a game declares checks itself where it is made, so that what is wrong is told before anything is played.
def _color(written: str) -> str:
    if not re.fullmatch(r"#[0-9A-Fa-f]{6}", written):
        raise ValueError("write a color as in '#0072B2'")
    return written


def _known_kind(name: str) -> str:
    if name not in KINDS:
        raise ValueError(f"no kind of figure; {choose(name, KINDS)}")
    return name


@checked_dataclass(frozen=True)
class State:
    """Something that is told apart by its color."""

    name: str
    label: str
    color: Annotated[str, AfterValidator(_color)]


@checked_dataclass(frozen=True)
class OutcomeClass(State):
    """One way in which a game can end, and how figures show it."""

    name: Slug
    hatch: str


@checked_dataclass(frozen=True)
class Measure:
    """A number in [0, 1] that a simulation has for each of its rounds, such as a share of its honest agents.

    Of one that is `carried`, as values that agents hold are, finished games count with their last value.
    """

    name: Slug
    label: str
    carried: bool = False


@checked_dataclass(frozen=True)
class Indicator:
    """A yes or no of a whole simulation, or None; what says the same as an outcome class is not `contrasted`."""

    name: Slug
    label: str
    contrasted: bool = True


@checked_dataclass(frozen=True)
class Achievable:
    """What a game reaches, to be held against what the best known protocol reaches: `more` of it is better, or less.

    A `share` is in [0, 1]: 1 where a single game has it. `lost` says in words what the difference is.
    """

    name: Slug
    label: str
    lost: str
    more: bool = True
    share: bool = True
    unit: str = ""


@checked_dataclass(frozen=True)
class Quantity:
    """A number of a whole simulation: a metric, None where there is none; `unit` is "" for a plain count.

    A `share` is in [0, 1] in every simulation, in [-1, 1] if `signed`; `of_one`: it is that of at least one of the
    honest agents. `most` names the metric that is the greatest value of the number, where the least is 0: it is above
    0, and all simulations of a condition share it. The means of both have Wilson intervals, those of other numbers t
    intervals, which end at 0 unless they are `signed`. What only keeps count is not `contrasted`.
    """

    name: Slug
    label: str
    unit: str = ""
    contrasted: bool = True
    share: bool = False
    of_one: bool = False
    most: str = ""
    signed: bool = False

    @property
    def bounded(self) -> bool:
        """Whether the number has a least and a greatest possible value, so that its means have Wilson intervals."""
        return self.share or bool(self.most)


@checked_dataclass(frozen=True)
class FigureSpec:
    """One figure of a game's studies; `KINDS` says what its fields mean to each kind.

    It is drawn for studies in which all axes of `needs` vary among the conditions that it shows (`Evidence.shows`).
    """

    name: Slug
    kind: Annotated[str, AfterValidator(_known_kind)]
    title: str
    caption: str
    x: str = ""
    needs: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    blocks: bool = False
    lines: str = ""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the figure is drawn from, in the order in which it gets them."""
        if self.blocks:
            return ("ledger",)
        if self.kind == "map" and self.of:
            return ("quantities", "players")
        return KINDS[self.kind].tables


@dataclass(frozen=True)
class TimelineCell:
    """What one agent did in one round: the name of a state, and what it said, which may be a model's own text."""

    state: str
    text: str = ""
    value: float | None = None  # that the figure `trajectories` draws


@dataclass(frozen=True)
class Mark:
    """Something to point at: what an agent did in a round; marks with one label look alike."""

    agent: str
    round: int
    label: str


@dataclass(frozen=True)
class Timeline:
    """A simulation as a table: a row per agent, a column per round from 1 on; round 0 is what an agent began with.

    `framed` are agents that stand out, `results` short texts under the columns; their labels say what they are.
    `unheard` is what was said in a round that an agent did not hear, by agent and round.
    """

    agents: Mapping[str, str]
    framed: frozenset[str]
    framed_label: str
    cells: Mapping[tuple[str, int], TimelineCell]
    states: Sequence[State]
    marks: Sequence[Mark]
    results: Mapping[int, str]
    results_label: str
    unheard: Mapping[tuple[str, int], Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Utterance:
    """What one agent said in one round; `content` is plain JSON: strings, integers, lists, mappings, None."""

    round: int
    agent: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Session:
    """Agents who spoke about one subject until they agreed or gave up; rounds count on to the next session.

    `subject` and `parameters` say what it was about and by which rules, `verdict` what came of it: plain JSON.
    """

    subject: Mapping[str, Any]
    agents: tuple[str, ...]
    parameters: Mapping[str, Any]
    utterances: tuple[Utterance, ...]
    agreed: bool
    verdict: Mapping[str, Any]


Trace = Sequence[Any]  # rounds, as a record has them: JSON, with keys that a game may type (TypedDict)


class TableMaker(ABC):
    """Makes tables of a `study` from its `games`, each of whose traces is read once.

    What a game is: its `simulation`, the `summary` of its record, and who plays its `honest` agents and all `players`
    (`parley.analysis.simulations.PlayedGame`).
    """

    def __init__(self, study: Any, games: Sequence[Any]) -> None:
        self.study, self.games = study, games

    @abstractmethod
    def rows(self, game: Any, trace: Any) -> Sequence[Any]:
        """Return what one game adds, in the process that reads it."""

    @abstractmethod
    def tables(self, rows: Sequence[Any]) -> Mapping[str, "pd.DataFrame"]:
        """Return tables by name from the rows of all games; of their columns those stay that are declared."""

    def asked(self, rows: Sequence[Any]) -> "pd.DataFrame | None":
        """Return numbers by the `id` of a game, its index, about which questions may ask besides; None for none."""
        return None


@dataclass(frozen=True)
class TableSpec:
    """A table that a game brings: its name, the TableMaker as "module:class", and the measures that it is about.

    A maker may make others beside it. Measures are what the table has rows of (Indicator, Quantity, Achievable).
    """

    name: str
    maker: str
    measures: tuple[Any, ...] = ()


# What comes of promises (`parley.games.promises`): of honest agents' turns, of promises, and of broken ones.
_DEEDS = {
    "promises_made": "turns with a promise",
    "said_nothing": "turns without a word",
    "promises_kept": "promises kept",
    "broken_win_win": "promises broken, which pays the agent and all together",
    "broken_selfish": "promises broken, which pays the agent alone",
    "broken_altruistic": "promises broken, which costs the agent alone",
    "broken_sabotaging": "promises broken, which costs all together",
    "plans_read": "broken promises whose private text tells a plan",
    "broken_as_planned": "of these, broken as planned",
}
DEEDS = tuple(Quantity(name, f"{label} (share)", contrasted=False, share=True) for name, label in _DEEDS.items())

Rows = Callable[[Mapping[str, Any], Trace], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True)
class GameColumns:
    """What a game's columns mean: its `metrics`, of `turns`, a row per agent and round, and of the table `measures`.

    `rows` makes the rows of one simulation from the outcome and the trace of a record: mappings with `round`, `agent`
    and what the game has in `turns`; what is left out is missing.
    """

    metrics: tuple[Column, ...] = ()
    turns: tuple[Column, ...] = ()
    rows: Rows = lambda outcome, trace: ()
    measured: tuple[Column, ...] = ()

    @classmethod
    def read(cls, path: Path, rows: Rows, facts: Sequence[Column] = ()) -> "GameColumns":
        """Return the columns of a YAML file, with those of the network (`facts`)."""
        sections = read_columns(path)
        return cls((*sections["metrics"], *facts), sections["turns"], rows, sections.get("measured", ()))


OUTCOME_RATES = FigureSpec(
    name="outcome_rates",
    kind="rates",
    title="Outcomes by group size",
    caption="Share of simulations per outcome by number of agents, model and prompt.",
    x="n",
)
OUTCOMES_BY_BYZANTINE = FigureSpec(
    name="outcomes_by_byzantine",
    kind="stacked",
    title="Outcomes",
    caption="How simulations ended, stacked to 100%.",
    x="b",
)
INFLUENCE = FigureSpec(
    name="influence",
    kind="influence",
    title="What changes the end",
    caption="How much less often a recorded game ends as it did where it is played again from a point with a change, "
    "than without one.",
    x="at",
)


class Evidence(Generic[P]):
    """What a game shows of its simulations: what is counted and measured, and which figures show it.

    All of it has a default. Outcomes, metrics and the rounds of a trace are those of `Outcome`, as a record has them.
    """

    figures: tuple[FigureSpec, ...] = (OUTCOME_RATES, OUTCOMES_BY_BYZANTINE)
    measures: tuple[Measure, ...] = ()  # by round, from the trace: see `series`
    indicators: tuple[Indicator, ...] = ()  # metrics that are true, false or None
    quantities: tuple[Quantity, ...] = ()  # metrics that are numbers or None
    columns: GameColumns = GameColumns()  # what its metrics mean, and what each agent did by round
    paired_by: tuple[str, ...] = ()  # metrics that simulations of a pair share, besides their seed
    tables: tuple[TableSpec, ...] = ()  # that this game brings
    round_name: str = "round"  # what figures call the rounds of `series`
    keeps_ledger: bool = False  # its `sessions` are signed and chained

    def about(self, table: str) -> tuple[Any, ...]:
        """Return the measures of a table that the game brings; none of one that it does not bring."""
        return next((each.measures for each in self.tables if each.name == table), ())

    @property
    def lost(self) -> tuple[Quantity, ...]:
        """What a game lost of each measure of `regret`, about which questions may ask."""
        return tuple(
            Quantity(f"{of.name}_lost", of.lost, of.unit, contrasted=False, share=of.share, signed=True)
            for of in self.about("regret")
        )

    @property
    def asked(self) -> tuple[Quantity, ...]:
        """What no record has, and questions may ask about."""
        return (*self.lost, *self.about("votes"), *self.about("measures"))

    @property
    def metrics(self) -> tuple[Column, ...]:
        """The columns of all metrics that the game declares."""
        indicators = (Column(i.name, "bool", i.label) for i in self.indicators)
        quantities = (Column(q.name, "double", q.label, q.unit) for q in self.quantities)
        return (*self.columns.metrics, *indicators, *quantities)

    def shows(self, figure: FigureSpec, parameters: P, groups: Sequence[Group]) -> bool:
        """Return whether a figure can show anything of a condition; it is asked before anything is played."""
        return True

    def derived(self, metrics: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return metrics that follow from those of a record and its `rounds`, and are in none."""
        return {}

    def series(self, outcome: Mapping[str, Any], trace: Trace) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the (round, value) points of each measure, by name; by default those under `measures`."""
        return {
            measure.name: [
                (entry["round"], float(entry["measures"][measure.name]))
                for entry in trace
                if entry["measures"][measure.name] is not None
            ]
            for measure in self.measures
        }

    def last_round(self, outcome: Mapping[str, Any], trace: Trace) -> int:
        """Return the last round that was played, as `series` counts them; asked where a measure is `carried`."""
        return int(trace[-1]["round"]) if trace else 0

    def timeline(self, outcome: Mapping[str, Any], trace: Trace) -> Timeline:
        """Return what each agent said and did; without one the explorer shows the replies."""
        raise NotImplementedError(f"{type(self).__name__}.timeline")

    def sessions(self, outcome: Mapping[str, Any], trace: Trace) -> Sequence[Session]:
        """Return what was said, in order, for the ledger; a game that keeps none is not asked."""
        raise NotImplementedError(f"{type(self).__name__}.sessions")

    def of_agents(self, metrics: Mapping[str, Any], trace: Trace) -> Mapping[str, Mapping[str, float]]:
        """Return, by agent, its values of quantities and measures that are means over agents, each in [0, 1]."""
        return {}
