"""Where it is known what scripted hunters do: every simulation must come out so (docs/explanation/theory.md)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from parley.play.runner import Play
from parley.study import Study
from support.playing import play_of
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Scripted hunters end as theory says, in every simulation.")

NETWORKS = ["complete", "ring", "path", "star", {"kind": "erdos_renyi", "p": 0.4}]
ROUNDS = 8


def hunts(study: Study) -> Iterator[tuple[Mapping[str, Any], Play]]:
    """Play all simulations; yield the axes of each, and how it went."""
    for simulation in study.simulations():
        yield simulation.condition.axes, play_of(simulation)


def hunters(make: StudyFactory, model: Any, byzantine: Any = "betray", **given: Any) -> Study:
    grid = {"model": model, "n": 4, "b": 1, "byzantine": byzantine, "prompt": "plain", **given}
    return make(grid, game="stag_hunt", seeds=4, parameters={"rounds": ROUNDS, "disclosure": "silent"})


def test_one_betrayer_spoils_every_hunt_of_all_and_none_of_three_of_four(study_factory: StudyFactory) -> None:
    study = hunters(study_factory, ["always_stag", "follow_words"], vary={"needed": ["all", 3]})
    for axes, played in hunts(study):
        of = played.outcome.metrics
        ended = ("exploited", 0, 10) if axes["needed"] == "all" else ("cooperation", 10, 0)
        assert (played.outcome.name, of["honest_payoff"], of["loss"]) == ended
        # They do not even notice, and that is what makes them persistent.
        assert (of["detected"], of["kept_hunting"], of["cooperation_persistent"]) == (False, 1, 1)


@pytest.mark.slow
def test_distrust_spreads_one_link_a_round(study_factory: StudyFactory) -> None:
    """A grim player at distance d from the betrayer hunts the hare from d rounds after the first betrayal on."""
    betrays = 3
    betrayer = {"name": "betray", "from_round": betrays}
    study = hunters(study_factory, "grim_trigger", betrayer, n=7, vary={"topology": NETWORKS})
    for axes, played in hunts(study):
        first = played.outcome.trace[0]
        everyone = list(first["actions"])
        peers = first.get("neighbors") or dict.fromkeys(everyone, everyone)
        distrusting = {*played.outcome.metrics["byzantine_players"]}
        for entry in played.outcome.trace:
            hares = {name for name, action in entry["actions"].items() if action == "Hunt Hare"}
            if entry["round"] < betrays:
                assert not hares
                continue
            assert hares == distrusting, (axes, entry["round"])
            distrusting |= {peer for name in distrusting for peer in peers[name]}
