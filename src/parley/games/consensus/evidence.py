"""What the consensus game shows: the measure of agreement, and the figures (after Figures 2 to 4 of the paper)."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.games.consensus.columns import COLUMNS
from parley.games.consensus.parameters import ConsensusParameters
from parley.games.consensus.state import Round
from parley.games.evidence import ENDINGS, Evidence, FigureSpec, Measure, Trajectory
from parley.text import by_number

FIGURES = (
    FigureSpec(
        name="outcome_rates",
        kind="rates",
        title="Outcomes by group size",
        caption="Share of simulations per outcome by number of agents, model and prompt, with Wilson "
        "intervals (after Figure 2 of the paper).",
        x="n",
    ),
    FigureSpec(
        name="outcomes_by_byzantine",
        kind="stacked",
        title="Outcomes by number of Byzantine agents",
        caption="Outcomes by number of Byzantine agents, stacked to 100%; the bars are Wilson intervals of "
        "valid consensus (after Figure 3 of the paper).",
        x="b",
    ),
    FigureSpec(
        name="valid_by_adversary",
        kind="map",
        title="Valid consensus by adversary",
        caption="Rate of valid consensus by what plays the Byzantine agents and by their number (b), with "
        "Wilson intervals; without honest agents there is none.",
        x="b",
        needs=("b", "byzantine"),
    ),
    FigureSpec(
        name="valid_by_topology",
        kind="map",
        title="Valid consensus by topology",
        caption="Rate of valid consensus by topology, with Wilson intervals.",
        x="topology",
        needs=("topology",),
    ),
    FigureSpec(
        name="agreement_by_round",
        kind="curves",
        title="Agreement by round",
        caption="Share of the honest agents that hold their most frequent value after each round: mean over "
        "simulations, with Wilson intervals. What an agent says needs as many rounds as the network's "
        "diameter to reach everybody.",
        x="topology",
        needs=("topology",),
        of=("agreement",),
    ),
    ENDINGS,
    FigureSpec(
        name="trajectories",
        kind="trajectories",
        title="Proposals over rounds",
        caption="Values of single simulations over rounds: honest agents in color, Byzantine ones gray and "
        "dashed. The band is the honest initial range, the vertical line the stop (after Figure 4 of the paper).",
    ),
)


class ConsensusEvidence(Evidence[ConsensusParameters, Round]):
    """Agreement by round, and the values of single simulations."""

    columns = COLUMNS

    figures = FIGURES
    measures = (Measure("agreement", "agreement of honest agents"),)

    def trajectory(self, outcome: Mapping[str, Any], trace: Sequence[Round]) -> Trajectory:
        """Return each agent's value by round (round 0: the initial ones), for the paper's Figure 4."""
        initial: Mapping[str, int] = outcome["metrics"]["initial_values"]
        series: dict[str, list[tuple[int, float]]] = {name: [(0, v)] for name, v in initial.items()}
        for entry in trace:
            for name, value in entry["values"].items():
                # What a Byzantine agent proposed in the round that stops a game is not always applied (swarms).
                if value is not None and (name in initial or entry["proposals"][name] is not None):
                    series.setdefault(name, []).append((entry["round"], value))
        return Trajectory(
            series=dict(sorted(series.items(), key=lambda item: by_number(item[0]))),
            highlighted=frozenset(initial),
            labels=("honest agents", "Byzantine agents"),
            band=(min(initial.values()), max(initial.values())) if initial else None,
            stopped=outcome["rounds"] if outcome["finished_early"] else None,
        )

    def series(self, outcome: Mapping[str, Any], trace: Sequence[Round]) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the agreement by round: the share of the honest agents that hold their most frequent value."""
        shares = [(entry["round"], entry["honest_share"]) for entry in trace]
        return {"agreement": [(number, share) for number, share in shares if share is not None]}
