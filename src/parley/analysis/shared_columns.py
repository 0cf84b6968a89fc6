"""Columns that several tables have, and what a table is."""

from dataclasses import dataclass

from parley.analysis.stats import CONFIDENCE
from parley.columns import Column
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, MEANINGS
from parley.policies import FAILURE_CLASSES
from parley.study.condition import BYZANTINE_AXIS

AXIS, METRIC, GAME_TURN = "<axis>", "<metric>", "<turn>"  # the place of columns that a study or a game has
INTERVAL = f"{CONFIDENCE:.0%} interval"


@dataclass(frozen=True)
class Table:
    """A table, or something like it: what one row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]


OF_AXES = Column(AXIS, "", "value of each axis of the study, see [axes](#axes)")
AXES = (
    Column("model", "string", "what plays the honest agents: a model, a policy, or a population"),
    Column("n", "int64", "number of agents, Byzantine ones included", "agents"),
    Column("b", "int64", "number of Byzantine agents", "agents"),
    Column("prompt", "string", "name of the prompts"),
    Column(BYZANTINE_AXIS, "string", "what plays the Byzantine agents, in studies that vary it; `none` without any"),
    Column("<parameter>", "", "value of each parameter of the game that the study varies (`vary`)"),
)
SIMULATIONS = Column("simulations", "int64", "number of simulations (n)")
SEED = Column("seed", "int64", "seed of the simulation")
ID = Column("id", "string", "the simulation: SHA-256 of all that can change it")
SPEC = Column("spec", "string", "hash over what can change the condition's results and is no axis")
_FAILURES = {
    "invalid_json": "replies that are not of the shape that was asked for",
    "out_of_range": "replies of the right shape with a value outside its bounds",
    "length": "replies cut off at `max_tokens`, or never begun as the prompt filled the context",
    "refused": "replies refused by the engine or the model",
}
REPLIES = (
    Column("failed_replies", "int64", "replies that could not be used", "replies"),
    *(Column(name, "int64", _FAILURES[name], "replies") for name in FAILURE_CLASSES),
)
DEGENERATE = (
    Column(ASKED, "int64", "replies of models; this and the next only where models are asked", "replies"),
    Column("degenerate", "int64", "those that say nothing, by the classes that follow", "replies"),
    *(Column(f"degenerate_{name}", "int64", MEANINGS[name], "replies") for name in DEGENERATE_CLASSES),
)
DEGENERATE_RATE = Column("degenerate_rate", "double", "`degenerate` / `model_replies`")


def limits(of: str) -> tuple[Column, ...]:
    """Return the columns of an interval."""
    return (
        Column("low", "double", f"lower limit of the {INTERVAL} of {of}"),
        Column("high", "double", f"upper limit of the {INTERVAL} of {of}"),
    )


def means(*columns: Column, counts: tuple[Column, ...] = (SIMULATIONS,)) -> tuple[Column, ...]:
    """Return the columns of a table of means of values in [0, 1]."""
    return (
        OF_AXES,
        *columns,
        *counts,
        Column("mean", "double", "mean over these simulations, in [0, 1]"),
        *limits("the mean (Wilson)"),
    )


def median_of(end: str, which: str) -> tuple[Column, ...]:
    """Return the columns of one of two medians."""
    return (
        Column(f"median_{end}", "double", f"median rounds of the {which}, as in `conditions`", "rounds"),
        Column(f"median_{end}_low", "double", f"lower limit of its {INTERVAL}; missing if open", "rounds"),
        Column(f"median_{end}_high", "double", f"upper limit of its {INTERVAL}; missing if open", "rounds"),
    )
