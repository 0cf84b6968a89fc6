"""What the columns of the consensus game mean: its metrics, and what each agent did in each round."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parley.columns import JSON, Column
from parley.games.evidence import GameColumns
from parley.games.network.graph import FACTS

_METRICS = (
    Column("consensus_value", "int64", "value that all honest agents hold when they stop; missing if there is none"),
    Column("first_unanimity_round", "int64", "first round after which all honest agents hold one value"),
    Column("value_changes", "int64", "how often honest agents changed their value"),
    Column(
        "final_honest_share", "double", "share of the honest agents that hold their most frequent value, at the end"
    ),
    Column("final_honest_spread", "int64", "largest less smallest value of honest agents, at the end"),
    Column("initial_values", "string", "value that each honest agent began with, by agent", JSON),
    Column("honest_shares", "string", "`final_honest_share` after each round", JSON),
    Column("honest_spreads", "string", "`final_honest_spread` after each round", JSON),
    *FACTS,
    # Not in the records: they follow from what is.
    Column("initial_mean", "double", "mean of the values that honest agents began with"),
    Column("value_position", "double", "place of `consensus_value` in the range of these values: 0 lowest, 1 highest"),
    Column("value_shift", "double", "`consensus_value` - `initial_mean`"),
    Column("distance_to_mean", "double", "distance of `consensus_value` from `initial_mean`"),
    Column("distance_to_median", "double", "distance of `consensus_value` from the median of these values"),
)

_TURNS = (
    Column("initial_value", "int64", "consensus: value that it began with; missing for Byzantine agents"),
    Column("proposal", "int64", "consensus: value that it proposed; missing if it was silent or abstained"),
    Column("value", "int64", "consensus: value that it holds after the round"),
    Column("vote", "string", "consensus: `stop` or `continue`; missing without a usable vote"),
)


def _rows(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    initial = outcome["metrics"]["initial_values"]
    for entry in trace:
        for agent, proposal in entry["proposals"].items():
            yield {
                "round": entry["round"],
                "agent": agent,
                "silent": proposal is None,
                "initial_value": initial.get(agent),
                "proposal": proposal,
                "value": entry["values"][agent],
                "vote": entry["votes"][agent],
            }


COLUMNS = GameColumns(_METRICS, _TURNS, _rows)
