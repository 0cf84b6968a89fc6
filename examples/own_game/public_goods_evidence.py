"""What the public goods game shows. It is no part of the identity: when a figure changes, no game is played again."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.games import evidence as e


class PublicGoodsEvidence(e.Evidence[Any]):
    """Contributions by round, earnings, and single games."""

    measures = (e.Measure("contribution", "contribution of honest agents (share of their points)"),)
    quantities = (
        e.Quantity("earned", "earnings of an honest agent per round", "points", most="most_earned"),
        e.Quantity("silent", "contributions missing: no usable reply", contrasted=False),
    )
    figures = (
        e.FigureSpec("contributions", "curves", "Contributions", "Mean contribution.", of=("contribution",)),
        e.FigureSpec("earnings", "quantities", "Earnings", "Mean earnings of an honest agent.", x="b", of=("earned",)),
        e.OUTCOMES_BY_BYZANTINE,
    )

    def timeline(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> e.Timeline:
        """Return a game as a table of contributions, the Byzantine agents last."""
        byzantine = frozenset(outcome["metrics"]["byzantine"])
        names = sorted(trace[0]["contributions"], key=lambda name: (name in byzantine, len(name), name))
        return e.Timeline(
            agents={name: name for name in names},
            framed=byzantine,
            framed_label="Byzantine agent",
            cells={
                (name, entry["round"]): e.TimelineCell("gives" if value else "keeps", str(value))
                for entry in trace
                for name, value in entry["contributions"].items()
            },
            states=(e.State("gives", "gives", "#56B4E9"), e.State("keeps", "gives nothing", "#FFFFFF")),
            marks=(),
            results={entry["round"]: str(sum(entry["contributions"].values())) for entry in trace},
            results_label="pot",
        )
