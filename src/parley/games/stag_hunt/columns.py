"""What the columns of the stag hunt mean: its metrics, and what each player did in each round."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parley.columns import JSON, Column
from parley.games.evidence import GameColumns
from parley.games.network.graph import FACTS

_METRICS = (
    Column("hunters_needed", "int64", "players who must hunt the stag for the hunt to succeed", "players"),
    Column("byzantine_players", "string", "names of the Byzantine players", JSON),
    Column("payoffs", "string", "points of all rounds, by player", JSON),
    Column("stag_share", "double", "share of stag actions among those of honest players, missing ones included"),
    Column("honest_payoff", "double", "mean payoff of an honest player per round", "points"),
    Column("loss", "double", "what `honest_payoff` lacks to `full_payoff`", "points"),
    Column("full_payoff", "int64", "payoff per round of a player when the hunt succeeds", "points"),
    Column("successes", "int64", "rounds in which the hunt succeeded", "rounds"),
    Column(
        "excluded_rounds",
        "int64",
        "rounds that count for nothing, for a reply that no question made usable; published rules only",
        "rounds",
    ),
    Column("last_round_cooperative", "bool", "whether all honest players hunt the stag in the last round, and get it"),
    Column("first_failure_round", "int64", "first round in which the hunt failed"),
    Column("idle", "int64", "actions missing: no usable reply"),
    Column("no_words", "int64", "words missing: no usable reply, or nothing that is one word"),
    Column("not_words", "int64", "those among `no_words` whose text was not one word"),
    Column(
        "disruption_round", "int64", "first failed hunt from the first betrayal on; without Byzantine players, of all"
    ),
    Column(
        "recovered", "bool", "whether a hunt succeeded after `disruption_round`; missing if no round came after it"
    ),
    Column("recovery_round", "int64", "first round after `disruption_round` in which a hunt succeeded"),
    Column("first_betrayal_round", "int64", "first round in which a Byzantine player hunted the hare"),
    Column("betrayed_players", "int64", "honest players who saw a betrayal before the last round", "players"),
    Column("detected", "bool", "whether a betrayed player changed its word or action; missing if nobody was betrayed"),
    Column("detection_round", "int64", "first round in which one did"),
    Column("rounds_until_detection", "int64", "from the first betrayal to `detection_round`", "rounds"),
    Column(
        "rounds_until_retreat", "int64", "from the first betrayal until a stag hunter turned to the hare", "rounds"
    ),
    Column("retreated", "bool", "whether one did; missing if no betrayed player had hunted the stag"),
    Column("kept_hunting", "double", "share of betrayed players that keep hunting the stag"),
    Column("defection_prone", "double", "share of betrayed players of this archetype"),
    Column("cooperation_persistent", "double", "share of betrayed players of this archetype"),
    Column("unclassified", "double", "share of betrayed players of neither archetype"),
    Column(
        "hare_for_good", "double", "share of betrayed players that hunt the hare in all later rounds; not in records"
    ),
    Column("group_cooperation", "double", "share of rounds in which the hunt succeeded; not in records"),
    Column("archetypes_by_threshold", "string", "share of each archetype, by threshold", JSON),
    Column("after_betrayal", "string", "what each betrayed player did after it, by player", JSON),
    *FACTS,
)

_TURNS = (
    Column("action", "string", "stag hunt: `Hunt Stag` or `Hunt Hare`; missing without a usable reply"),
    Column("points", "int64", "stag hunt: payoff of the round", "points"),
)


def _rows(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for entry in trace:
        for agent, action in entry["actions"].items():
            yield {
                "round": entry["round"],
                "agent": agent,
                "silent": action is None,
                "message": entry["words"].get(agent),
                "action": action,
                "points": entry["points"][agent],
            }


COLUMNS = GameColumns(_METRICS, _TURNS, _rows)
