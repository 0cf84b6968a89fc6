"""What the consensus game shows: the measure of agreement, and the figures (Figures 2 to 4 of the paper)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.games.consensus.parameters import ConsensusParameters, ConsensusRound, Value
from parley.games.evidence import (
    OUTCOME_RATES,
    OUTCOMES_BY_BYZANTINE,
    Achievable,
    Evidence,
    FigureSpec,
    GameColumns,
    Mark,
    Measure,
    Quantity,
    State,
    TableSpec,
    Timeline,
    TimelineCell,
)
from parley.games.network import FACTS
from parley.games.parameters import BYZANTINE, Group
from parley.text import by_number


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


FIGURES = (
    OUTCOME_RATES,
    FigureSpec(
        name="paper_figure_2",
        kind="rates",
        title="Consensus without Byzantine agents",
        caption="Rate of valid consensus by number of agents, model and prompt: Figure 2 of the paper. Its text does "
        "not say whether it shows other outcomes; those are in the figure outcome_rates.",
        x="n",
        needs=("n", "prompt"),
        of=("valid_consensus",),
    ),
    OUTCOMES_BY_BYZANTINE,
    FigureSpec(
        name="paper_figure_3",
        kind="stacked",
        title="Valid and invalid consensus with Byzantine agents",
        caption="Share of simulations that end in valid and in invalid consensus by number of Byzantine agents: "
        "Figure 3 of the paper. The error bars, of valid consensus, are ours. No bar: no consensus at all.",
        x="b",
        needs=("b",),
        of=("valid_consensus", "invalid_consensus"),
    ),
    FigureSpec(
        name="valid_by_adversary",
        kind="map",
        title="Valid consensus by adversary",
        caption="Rate of valid consensus by what plays the Byzantine agents and by their number (b); without honest "
        "agents there is none.",
        x="b",
        needs=("b", "byzantine"),
    ),
    FigureSpec(
        name="valid_by_topology",
        kind="map",
        title="Valid consensus by topology",
        caption="Rate of valid consensus by topology.",
        x="topology",
        needs=("topology",),
    ),
    FigureSpec(
        name="agreement_by_round",
        kind="curves",
        title="Agreement by round",
        caption="Share of the honest agents that hold their most frequent value after each round: mean over "
        "simulations. What an agent says needs as many rounds as the network's diameter to reach everybody.",
        x="topology",
        needs=("topology",),
        of=("agreement",),
    ),
    FigureSpec(
        name="achievable",
        kind="achievable",
        title="Of what was achievable, how much was reached",
        caption="Games that stop in agreement, on a valid value, and whose honest values end within the honest first "
        "ones, beside the best known protocol with the same values, network, deadline and adversaries.",
        x="b",
    ),
    FigureSpec(
        name="trajectories",
        kind="trajectories",
        title="Proposals over rounds",
        caption="Values of single simulations over rounds: honest agents in color, Byzantine ones gray and thin, a "
        "row of panels per prompt. The band is the honest initial range, the vertical line the stop (Figure 4 of "
        "the paper, which shows honest agents alone).",
        x="prompt",
    ),
)
# What every game has, so that groups can be compared that never agree. `rounds` is at most the deadline.
QUANTITIES = (
    Quantity(
        "final_honest_share", "largest share of honest agents with one value, at the end", share=True, of_one=True
    ),
    Quantity("final_honest_spread", "largest less smallest value of honest agents, at the end"),
    Quantity("value_changes", "changes of value by honest agents"),
    Quantity("rounds", "rounds played", "rounds"),
)

AGREEMENT, VALIDITY, HULL, ROUNDS = "agreement", "validity", "hull", "rounds"
ACHIEVABLE = (
    Achievable(AGREEMENT, "games in agreement", "agreement lost"),
    Achievable(VALIDITY, "games in valid agreement", "validity lost"),
    Achievable(HULL, "games that end within the honest first values", "hull left"),
    Achievable(ROUNDS, "rounds played", "rounds lost", more=False, share=False, unit="rounds"),
)

LEADING, APART, SILENT = "leading", "apart", "silent"
STATES = (
    State(LEADING, "holds the honest agents' most frequent value", "#56B4E9"),
    State(APART, "holds another value", "#E69F00"),
    State(SILENT, "proposes nothing", "#FFFFFF"),
)


class ConsensusEvidence(Evidence[ConsensusParameters]):
    """Agreement by round, and the values of single simulations."""

    columns = GameColumns.read(Path(__file__).with_name("columns.yaml"), _rows, FACTS)

    figures = FIGURES
    measures = (Measure("agreement", "agreement of honest agents", carried=True),)
    quantities = QUANTITIES
    tables = (TableSpec("regret", "parley.games.consensus.achievable:Regret", ACHIEVABLE),)

    def shows(self, figure: FigureSpec, parameters: ConsensusParameters, groups: Sequence[Group]) -> bool:
        """Return whether a figure has the condition: Figure 2 of the paper has b = 0 alone, Figure 3 b > 0."""
        attacked = any(group.role == BYZANTINE and group.count for group in groups)
        wanted = {"paper_figure_2": False, "paper_figure_3": True}.get(figure.name, attacked)
        return attacked == wanted

    def of_agents(
        self, metrics: Mapping[str, Any], trace: Sequence[ConsensusRound]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return for each honest agent whether it ends with their most frequent value: 1 or 0, 1/k of k values."""
        held = {name: trace[-1]["values"][name] for name in metrics["initial_values"]}
        ranked = Counter(held.values()).most_common()
        leading = [value for value, count in ranked if count == ranked[0][1]]
        return {name: {"final_honest_share": (value in leading) / len(leading)} for name, value in held.items()}

    def timeline(self, outcome: Mapping[str, Any], trace: Sequence[ConsensusRound]) -> Timeline:
        """Return values and votes by round from 0: what honest agents hold, and what Byzantine ones told."""
        initial: Mapping[str, int] = outcome["metrics"]["initial_values"]
        everyone = {name for entry in trace for name in entry["proposals"]} | set(initial)
        names = sorted(everyone, key=lambda name: (name not in initial, by_number(name)))
        cells = {(name, 0): _cell(value, initial.values(), value) for name, value in initial.items()}
        marks = []
        for entry in trace:
            number, held = entry["round"], [entry["values"][name] for name in initial]
            for name, sent in entry["proposals"].items():
                cell = _cell(entry["values"][name] if name in initial else sent, held, sent)
                # What a Byzantine agent proposed in the round that stops a game is not always applied (swarms).
                drawn = entry["values"][name] if name in initial or sent is not None else None
                cells[name, number] = replace(cell, value=drawn)
            marks += [Mark(name, number, "votes to stop") for name, vote in entry["votes"].items() if vote == "stop"]
            marks += [Mark(name, number, "tells some agents another value") for name in entry.get("sent", {})]
        return Timeline(
            agents={name: name for name in names},
            framed=frozenset(everyone - set(initial)),
            framed_label="Byzantine agent",
            cells=cells,
            states=STATES,
            marks=marks,
            results={e["round"]: f"{e['stop_votes']}{': stop' if e['stopped'] else ''}" for e in trace},
            results_label="votes to stop",
            unheard={
                (name, entry["round"]): [_unheard(entry, name, peer) for peer in peers]
                for entry in trace
                for name, peers in entry.get("filtered", {}).items()
            },
        )

    def series(
        self, outcome: Mapping[str, Any], trace: Sequence[ConsensusRound]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the agreement by round: the share of the honest agents that hold their most frequent value."""
        shares = [(entry["round"], entry["honest_share"]) for entry in trace]
        return {"agreement": [(number, share) for number, share in shares if share is not None]}


def _shown(value: Value | None) -> str:
    """Return a value as a cell has room for it: with two decimals at most."""
    return "–" if value is None else f"{round(value, 2):.10g}"


def _unheard(entry: ConsensusRound, name: str, peer: str) -> str:
    """Return what a peer told an agent in a round."""
    return f"{peer}: {_shown(entry.get('sent', {}).get(peer, {}).get(name, entry['proposals'][peer]))}"


def _cell(value: Value | None, held: Iterable[Value | None], sent: Value | None) -> TimelineCell:
    """Return the cell of an agent with this value, where honest agents have those `held`, after what it `sent`."""
    counts = Counter(each for each in held if each is not None)
    leads = counts[value] > 1 and counts[value] == max(counts.values()) if value is not None else False
    state = SILENT if sent is None else LEADING if leads else APART
    return TimelineCell(state, _shown(value), value)
