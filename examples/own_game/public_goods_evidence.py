"""What the public goods game shows. It is no part of the identity: to change a figure, nothing is played again."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.games.evidence import (
    FigureSpec,
    Measure,
    OutcomeClass,
    Quantity,
    State,
    Timeline,
    TimelineCell,
)
from parley.text import by_number

OUTCOMES = (
    OutcomeClass("cooperation", "all honest agents contribute everything in the last round", "#0072B2", ""),
    OutcomeClass("some_cooperation", "honest agents contribute something", "#56B4E9", "\\\\"),
    OutcomeClass("free_riding", "no honest agent contributes anything", "#D9D9D9", ".."),
)
MEASURES = (
    Measure("contribution", "contribution (share of the endowment)"),
    Measure("free_riders", "free riders (share of honest agents)"),
)
QUANTITIES = (
    Quantity("contribution", "contribution of an honest agent, as a share of its endowment", share=True),
    Quantity("earned", "earnings of an honest agent per round", "points", most="most_earned"),
    Quantity("silent", "contributions missing: no usable reply", contrasted=False),
)
FIGURES = (
    FigureSpec(
        name="contributions_by_round",
        kind="curves",
        title="Contributions by round",
        caption="Mean contribution of honest agents and share of free riders among them, by round, with Wilson "
        "intervals over simulations.",
        of=("contribution", "free_riders"),
    ),
    FigureSpec(
        name="earnings",
        kind="quantities",
        title="Contributions and earnings",
        caption="Mean contribution and earnings of an honest agent per round, with Wilson intervals.",
        x="b",
        of=("contribution", "earned"),
    ),
    FigureSpec(
        name="outcomes",
        kind="stacked",
        title="Outcomes by number of Byzantine agents",
        caption="Outcomes, stacked to 100%; the bars are Wilson intervals of the first one.",
        x="b",
    ),
    FigureSpec(
        name="timeline",
        kind="timeline",
        title="Single games",
        caption="What each agent contributed in each round of a few games, and the size of the pot.",
    ),
)
STATES = (
    State("all", "contributes everything", "#0072B2", ""),
    State("some", "contributes something", "#56B4E9", "\\\\"),
    State("nothing", "contributes nothing", "#FFFFFF", ".."),
    State("silent", "no usable reply", "#E69F00", "xxx"),
)


def timeline(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Timeline:
    """Return a game as a table: the honest agents first, then the Byzantine ones."""
    byzantine, endowment = outcome["metrics"]["byzantine"], outcome["metrics"]["endowment"]
    names = sorted(trace[0]["contributions"], key=lambda name: (name in byzantine, by_number(name)))
    given = {(name, entry["round"]): entry["contributions"][name] for entry in trace for name in names}
    return Timeline(
        agents={name: name for name in names},
        framed=frozenset(byzantine),
        framed_label="Byzantine agent",
        cells={
            place: TimelineCell(_state(value, endowment), "" if value is None else str(value))
            for place, value in given.items()
        },
        states=STATES,
        marks=(),
        results={entry["round"]: str(sum(value or 0 for value in entry["contributions"].values())) for entry in trace},
        results_label="pot",
    )


def _state(value: int | None, endowment: int) -> str:
    return {None: "silent", 0: "nothing", endowment: "all"}.get(value, "some")
