"""What is shown of the stag hunt: its measures, indicators, quantities and figures."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.games.evidence import (
    DEEDS,
    OUTCOMES_BY_BYZANTINE,
    Evidence,
    FigureSpec,
    GameColumns,
    Indicator,
    Mark,
    Measure,
    Quantity,
    State,
    TableSpec,
    Timeline,
    TimelineCell,
)
from parley.games.network import FACTS
from parley.games.parameters import BYZANTINE, Group, share_of
from parley.games.stag_hunt.betrayal import (
    PERSISTENT,
    PRONE,
    UNCLASSIFIED,
    hare_for_good,
)
from parley.games.stag_hunt.parameters import HARE, STAG, HuntRound, StagHuntParameters, counted
from parley.text import by_number


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


IDLE = "idle"
NO_WORD = "–"  # under cheap talk, from a player whose text was not one word

ACTIONS = (
    State(STAG, "hunts the stag", "#56B4E9"),
    State(HARE, "hunts the hare", "#E69F00"),
    State(IDLE, "idle: no usable reply", "#FFFFFF"),
)

MEASURES = (
    Measure("cooperation", "stag hunters (share of honest players)"),
    Measure("success", "successful hunts (share of simulations)"),
    Measure("payoff", "honest mean payoff (share of the stag's)"),
    Measure("promises", "cooperative words (share of honest players)"),
)

INDICATORS = (
    Indicator(
        "last_round_cooperative", "all honest players hunt the stag in the last round, and get it", contrasted=False
    ),
    Indicator("detected", "a player that saw a betrayal changes word or action"),
    Indicator("retreated", "a stag hunter that saw a betrayal hunts the hare"),
    Indicator("recovered", "a hunt succeeds again after the first failure since the betrayal"),
)

QUANTITIES = (
    Quantity("group_cooperation", "share of rounds in which the hunt succeeds", contrasted=False, share=True),
    Quantity("stag_share", "share of stag actions of honest players", share=True),
    Quantity("honest_payoff", "payoff of an honest player per round", "points", most="full_payoff"),
    # What the payoff lacks, so that it differs as the payoff does.
    Quantity(
        "loss",
        "loss of an honest player per round against full cooperation",
        "points",
        contrasted=False,
        most="full_payoff",
    ),
    # The first is the adversary's own doing; the others are of those alone that detect or retreat, so that conditions
    # in which few do would be compared by their quickest.
    Quantity("first_betrayal_round", "round of the first betrayal", contrasted=False),
    Quantity("rounds_until_detection", "rounds until detection, where there is one", contrasted=False),
    Quantity("rounds_until_retreat", "rounds until a retreat, where there is one", contrasted=False),
    Quantity("kept_hunting", "share of betrayed players that keep hunting the stag", share=True),
    Quantity("defection_prone", "share of betrayed players: defection-prone", share=True),
    Quantity("cooperation_persistent", "share of betrayed players: cooperation-persistent", share=True),
    Quantity("unclassified", "share of betrayed players: unclassified", share=True),
    # The paper's rule; of the archetypes only our own are contrasted.
    Quantity("hare_for_good", "share of betrayed players: hare in all later rounds", contrasted=False, share=True),
    Quantity("idle", "actions missing: no usable reply", contrasted=False),
    Quantity("no_words", "words missing: no usable reply, or nothing that is one word", contrasted=False),
    Quantity("excluded_rounds", "rounds excluded for a reply that could not be used", contrasted=False),
)

_REACTIONS = {"detected", "rounds_until_detection", "retreated", "rounds_until_retreat", "kept_hunting", "recovered"}
_REACTIONS |= {PRONE, PERSISTENT, UNCLASSIFIED, "hare_for_good"}
REACTIONS = (
    *(each for each in (*INDICATORS, *QUANTITIES) if each.name in _REACTIONS),
    Indicator("returned", "a betrayed player that turned to the hare hunts the stag again"),
    Quantity("switched_for_good", "share of betrayed players that switch to the hare for good", share=True),
    Quantity("preemptive", "share of betrayed players that had never hunted the stag", share=True),
)

BEHAVIORS = (
    # The paper's classes: defection-prone is the first, with those that hunted no stag before; all else persists.
    Indicator("hare_for_good", "hunts the hare in all rounds after the betrayal"),
    Indicator("switched_for_good", "the same, and had hunted the stag"),
    Indicator("preemptive", "had never hunted the stag, up to the betrayal"),
    Indicator("stag_again", "hunts the stag in a round after the betrayal"),
)


FIGURES = (
    FigureSpec(
        name="cooperation_by_round",
        kind="curves",
        title="Cooperation by round",
        caption="Mean share of honest players that hunt the stag, and share of hunts that succeed, by round.",
        of=("cooperation", "success"),
    ),
    FigureSpec(
        name="cooperation_and_recovery",
        kind="indicators",
        title="Cooperation, detection and recovery",
        caption="Share of simulations that end in full cooperation; in which a player that saw a betrayal changes "
        "word or action; in which one that hunted the stag turns to the hare; and in which a hunt succeeds again "
        "after the first failure since the betrayal (without Byzantine players: since the start).",
        x="b",
        of=("last_round_cooperative", "detected", "retreated", "recovered"),
    ),
    FigureSpec(
        name="payoffs",
        kind="quantities",
        title="Payoff and loss",
        caption="Mean payoff of an honest player per round, and its loss against full cooperation.",
        x="b",
        of=("honest_payoff", "loss"),
    ),
    FigureSpec(
        name="archetypes",
        kind="quantities",
        title="Archetypes after betrayal",
        caption="Mean share of betrayed honest players that are cooperation-persistent, defection-prone or neither, "
        "by the share of stag actions after the first betrayal they saw and the study's archetype_threshold.",
        x="model",
        of=("cooperation_persistent", "defection_prone", "unclassified"),
    ),
    FigureSpec(
        name="defection_by_group_size",
        kind="map",
        title="Permanent defection by player and group size",
        caption="Mean share of betrayed players that hunt the hare in all later rounds, by who plays them and by "
        "number of players: the heat map of the paper.",
        x="n",
        needs=("n",),
        of=("hare_for_good",),
    ),
    OUTCOMES_BY_BYZANTINE,
)

# What they show needs somebody who was betrayed, and played on.
_OF_BETRAYED = ("archetypes", "defection_by_group_size")


TABLES = (
    TableSpec("measures", "parley.games.stag_hunt.reactions:HuntDeeds", DEEDS),
    TableSpec("reactions", "parley.games.stag_hunt.reactions:Reactions", REACTIONS),
    TableSpec("behaviors", "parley.games.stag_hunt.reactions:Behaviors", BEHAVIORS),
)


class StagHuntEvidence(Evidence[StagHuntParameters]):
    """What the stag hunt shows; the measures are in the trace."""

    columns = GameColumns.read(Path(__file__).with_name("columns.yaml"), _rows, FACTS)

    figures = FIGURES
    measures = MEASURES
    indicators = INDICATORS
    quantities = QUANTITIES
    tables = TABLES

    def shows(self, figure: FigureSpec, parameters: StagHuntParameters, groups: Sequence[Group]) -> bool:
        """Return whether anybody can be betrayed and play on, which figures of betrayed players need."""
        betrayers = any(group.role == BYZANTINE and group.count for group in groups)
        return figure.name not in _OF_BETRAYED or (betrayers and parameters.rounds > 1)

    def derived(self, metrics: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the share of betrayed players that turned to the hare for good, and of rounds with success."""
        turned = [_hare_for_good(after) for after in metrics.get("after_betrayal", {}).values()]
        rounds = metrics["rounds"] - metrics.get("excluded_rounds", 0)
        return {
            "hare_for_good": share_of(turned),
            "group_cooperation": metrics["successes"] / rounds if rounds else None,
        }

    def of_agents(self, metrics: Mapping[str, Any], trace: Sequence[HuntRound]) -> Mapping[str, Mapping[str, float]]:
        """Return each player's share of stags; of betrayed ones also their archetype by both rules, as 1 and 0."""
        rounds = counted(trace)
        shares = {
            name: {"stag_share": sum(each["actions"][name] == STAG for each in rounds) / len(rounds)}
            for name in (rounds[0]["actions"] if rounds else ())
        }
        for name, after in metrics["after_betrayal"].items():
            shares.setdefault(name, {}).update(
                kept_hunting=float(after["kept"]),
                hare_for_good=float(_hare_for_good(after)),
                **{kind: float(after["archetype"] == kind) for kind in (PERSISTENT, PRONE, UNCLASSIFIED)},
            )
        return shares

    def timeline(self, outcome: Mapping[str, Any], trace: Sequence[HuntRound]) -> Timeline:
        """Return a game as a table of words and actions: honest players first, then the Byzantine ones, by number."""
        metrics = outcome["metrics"]
        byzantine = frozenset(metrics["byzantine_players"])
        names = sorted(trace[0]["actions"], key=lambda name: (name in byzantine, by_number(name)))
        first = metrics["first_betrayal_round"]
        betrayals = [
            Mark(name, first, "first betrayal")
            for entry in trace
            for name in names
            if entry["round"] == first and name in byzantine and entry["actions"][name] == HARE
        ]
        changes = [
            Mark(name, after["changed"], "first other word or action of a player that saw one")
            for name, after in metrics["after_betrayal"].items()
            if after["changed"] is not None
        ]
        # All stag hunters of a round get the same.
        paid = {
            entry["round"]: [entry["points"][name] for name, action in entry["actions"].items() if action == STAG]
            for entry in trace
        }
        return Timeline(
            agents={name: name for name in names},
            framed=byzantine,
            framed_label="Byzantine player",
            cells={
                (name, entry["round"]): TimelineCell(
                    entry["actions"][name] or IDLE, (entry["words"][name] or NO_WORD) if entry["words"] else ""
                )
                for entry in trace
                for name in names
            },
            states=ACTIONS,
            marks=(*betrayals, *changes),
            results={number: str(points[0]) if points else NO_WORD for number, points in paid.items()},
            results_label="stag pays",
        )


def _hare_for_good(after: Mapping[str, Any]) -> bool:
    return hare_for_good(after["stags"], after["hares"], after["idle"])
