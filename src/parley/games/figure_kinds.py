"""The kinds of figures: one entry for each, which says how it is drawn, from which tables, and how to read it.

A new kind is an entry here and a function in `parley.figures`. What asks for a kind is a `FigureSpec` of a game.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class FigureKind:
    """How a kind of figure is made, and what it asks of a game.

    `draw` is "module:function" in `parley.figures`, called with the study, the spec and the `tables`. `of` is the list
    of the evidence whose names `FigureSpec.of` may have. One of `single` simulations shows a few, from their records
    by the game's `timeline`.
    """

    draw: str
    tables: tuple[str, ...]
    reading: str
    of: str = ""
    single: bool = False


KINDS: Mapping[str, FigureKind] = {
    "rates": FigureKind(
        "points:rates",
        ("conditions",),
        "One panel per outcome. A point is the share of a condition's simulations that ended so, the bar its "
        "interval: points whose bars overlap may still differ, see the contrasts.",
        of="outcomes",
    ),
    "stacked": FigureKind(
        "stacked:stacked",
        ("conditions",),
        "Each bar is all simulations of a condition, split by how they ended. The error bar is the interval of the "
        "first outcome, at the bottom.",
        of="outcomes",
    ),
    # Of the first outcome's rate, or of the mean of the one share in `of`, by who plays: a column per value of x, a
    # row per combination of the other axes.
    "map": FigureKind(
        "map:maps",
        ("conditions",),
        "Each cell is a condition: compare along a row, then along a column.",
        of="quantities",
    ),
    "curves": FigureKind(
        "curves:curves",
        ("rounds",),
        "A line is the mean over simulations by round, the bars its intervals. Look at where lines part, and at how "
        "many games are left there.",
        of="measures",
    ),
    "indicators": FigureKind(
        "points:indicators",
        ("rates",),
        "A point is the share of simulations in which the statement holds, the bar its interval.",
        of="indicators",
    ),
    # Of simulations, or with `blocks` of the ledger's blocks that have utterances; a line per value of `lines`.
    "quantities": FigureKind(
        "points:quantities",
        ("quantities",),
        "A point is the mean over the simulations of a condition, the bar its interval.",
        of="quantities",
    ),
    "achievable": FigureKind(
        "points:achievable",
        ("achievable",),
        "Two points stand side by side: what the agents reached, and what the best known protocol reached in the same "
        "seats. The gap is what was lost; where the protocol fails too, nobody is known to do better.",
    ),
    # Independent votes that first and last answers are worth.
    "votes": FigureKind(
        "points:votes",
        ("votes",),
        "Two points stand side by side: what first answers are worth, and what last ones are. Talking that makes "
        "agents alike moves the second towards 1.",
    ),
    "faced": FigureKind(
        "curves:faced",
        ("conformity",),
        "A line is a share by the number faced. Where it leaps, agents follow a majority of that size.",
    ),
    # Of the changes of recorded games at the points `x`.
    "influence": FigureKind(
        "map:influence_map",
        ("influences",),
        "Each cell is a change at a point, over the recorded games that lasted so long: 0 says that they end "
        "alike with it and without it.",
    ),
    "trajectories": FigureKind(
        "trajectories:trajectories",
        ("simulations",),
        "A line is an agent, a panel a single simulation: examples, not evidence.",
        single=True,
    ),
}
