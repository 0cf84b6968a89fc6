"""A game that offers every kind of evidence, made of the consensus game, and studies of it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from parley.analysis.summarize import summarize
from parley.games.base import Outcome
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import FigureSpec, Indicator, Measure, Quantity
from parley.play.record import write_record
from parley.play.runner import play
from parley.study import Study
from support.playing import scripted_policies


class MeasuredEvidence(ConsensusEvidence):
    """Measures, indicators, quantities, a comparison, and figures of each."""

    measures = (
        Measure("agreed", "share that agrees"),
        Measure("stopping", "share that votes to stop"),
        Measure("unheard", "what nobody has"),
    )
    indicators = (
        Indicator("unanimous", "all agree"),
        Indicator("early", "stopped early"),
        Indicator("unanswered", "what has no answer"),
    )
    quantities = (
        Quantity("value_changes", "changes of value"),
        Quantity("size", "size of what was said", "kB"),
        Quantity("unmeasured", "what has no number", "s"),
        Quantity("final_honest_share", "share that agrees in the end", share=True),
    )
    comparisons = (("unanimous", "early"),)
    figures = (
        FigureSpec("by_round", "curves", "By round", "Means by round.", of=("agreed", "stopping")),
        FigureSpec("in_the_end", "indicators", "In the end", "Rates.", x="n", of=("unanimous", "early", "unanswered")),
        FigureSpec("sizes", "quantities", "Sizes", "Means.", x="n", of=("size", "value_changes", "seconds")),
    )

    def series(
        self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the share that agrees and the share that votes to stop, by round."""
        agents = {entry["round"]: len(entry["votes"]) for entry in trace}
        return {
            "agreed": [(entry["round"], entry["honest_share"]) for entry in trace],
            "stopping": [(entry["round"], entry["stop_votes"] / agents[entry["round"]]) for entry in trace],
            "undeclared": [(1, 0.5)],
        }


class MeasuredGame(ConsensusGame):
    """The consensus game with a metric for each of them."""

    evidence = MeasuredEvidence()

    def outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        """Return the outcome with a metric for each indicator and quantity."""
        found = super().outcome(rounds, stopped=stopped)
        share = found.metrics["final_honest_share"]
        more = {
            "unanimous": None if share is None else share == 1,
            "early": stopped,
            "unanswered": None,
            "size": len(self.agents) * rounds / 4,
            "unmeasured": None,
        }
        return dataclasses.replace(found, metrics={**found.metrics, **more})


def measured(study: Study, evidence: MeasuredEvidence = MeasuredGame.evidence) -> Study:
    """Return the study of the measured game, which shows this in the place of its own."""
    game = type("ShownGame", (MeasuredGame,), {"evidence": evidence})
    conditions = tuple(dataclasses.replace(condition, game=game) for condition in study.conditions)
    return dataclasses.replace(study, game=game, conditions=conditions)


def played(study: Study) -> Study:
    """Play all simulations of a scripted study and make its tables."""
    for simulation in study.simulations():
        game = simulation.game()
        finished = play(simulation.id, game, scripted_policies(simulation, game))
        write_record(simulation.record(study.name), simulation, finished, {})
    summarize(study)
    return study
