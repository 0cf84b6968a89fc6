"""Where it is known what scripted hunters do: every simulation must come out so (docs/explanation/theory.md)."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from parley.play.runner import Play, play
from parley.study import Study
from support.hunting import letters
from support.playing import scripted_policies
from support.studies import StudyFactory

NETWORKS = ["complete", "ring", "path", "star", {"kind": "erdos_renyi", "p": 0.4}]
ROUNDS = 8


def hunts(study: Study) -> Iterator[tuple[Mapping[str, Any], Play]]:
    """Play all simulations; yield the axes of each, and how it went."""
    for simulation in study.simulations():
        game = simulation.game()
        yield simulation.condition.axes, play(simulation.id, game, scripted_policies(simulation, game))


def hunters(make: StudyFactory, model: Any, byzantine: Any = "betray", **given: Any) -> Study:
    grid = {"model": model, "n": 4, "b": 1, "byzantine": byzantine, "prompt": "plain", **given}
    return make(grid, game="stag_hunt", seeds=4, parameters={"rounds": ROUNDS, "disclosure": "silent"})


def honest_rounds(played: Play) -> list[set[str]]:
    """Return what honest players did, round by round."""
    byzantine = {*played.outcome.metrics["byzantine_players"]}
    return [{a for name, a in entry["actions"].items() if name not in byzantine} for entry in played.outcome.trace]


def test_one_betrayer_spoils_every_hunt_of_all_and_none_of_three_of_four(study_factory: StudyFactory) -> None:
    study = hunters(study_factory, ["always_stag", "follow_words"], vary={"needed": ["all", 3]})
    for axes, played in hunts(study):
        of = played.outcome.metrics
        ended = ("exploited", 0, 10) if axes["needed"] == "all" else ("cooperation", 10, 0)
        assert (played.outcome.name, of["honest_payoff"], of["loss"]) == ended
        # They do not even notice, and that is what makes them persistent.
        assert (of["detected"], of["kept_hunting"], of["cooperation_persistent"]) == (False, 1, 1)


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


def test_where_all_see_all_trust_never_comes_back_whoever_must_hunt(study_factory: StudyFactory) -> None:
    """Each goes on seeing the others' hares: with three of four enough a hunt could succeed, and none is tried."""
    betrayer = {"name": "betray", "probability": 0.3}
    models, vary = ["grim_trigger", "tit_for_tat"], {"needed": ["all", 3]}
    betrayed = 0
    for axes, played in hunts(hunters(study_factory, models, betrayer, vary=vary, seeds=8)):
        first = played.outcome.metrics["first_betrayal_round"] or ROUNDS
        done = honest_rounds(played)
        assert set().union(*done[:first]) == {"Hunt Stag"}
        if first < ROUNDS:
            betrayed += 1
            assert set().union(*done[first:]) == {"Hunt Hare"}
            of = played.outcome.metrics
            assert (of["rounds_until_detection"], of["rounds_until_retreat"], of["defection_prone"]) == (1, 1, 1)
            won = (
                first - 1 + (axes["needed"] == "3")
            )  # three honest hunters are enough in the round of the betrayal too
            assert of["honest_payoff"] == pytest.approx((10 * won + 3 * (ROUNDS - first)) / ROUNDS)
    assert betrayed > 20


def test_players_that_answer_to_success_come_back(study_factory: StudyFactory) -> None:
    """The positive control: a betrayal costs win-stay, lose-shift a hunt and one round of hares, where all are needed.

    Where three of four are enough it costs them nothing: they lose no hunt that they could answer to.
    """
    betrayer = {"name": "betray", "probability": 0.3}
    failed = recovered = 0
    for axes, played in hunts(
        hunters(study_factory, "win_stay_lose_shift", betrayer, vary={"needed": ["all", 3]}, seeds=20)
    ):
        won, of = [entry["success"] for entry in played.outcome.trace], played.outcome.metrics
        if axes["needed"] == "3":
            assert (of["honest_payoff"], of["stag_share"], of["recovered"]) == (10, 1, None)
            continue
        for succeeded, (before, after) in zip(won, pairwise(honest_rounds(played)), strict=False):
            assert after == {"Hunt Hare" if before == {"Hunt Stag"} and not succeeded else "Hunt Stag"}
        if not all(won[:-1]):
            failed += 1
            recovered += bool(of["recovered"])
            assert of["recovered"] == any(won[won.index(False) :])
    assert failed > 12
    assert recovered > 0.8 * failed


def test_words_change_nothing_for_those_who_do_not_listen(study_factory: StudyFactory) -> None:
    models = ["always_stag", "always_hare", "grim_trigger", "tit_for_tat"]
    found: dict[tuple[Any, ...], list[str]] = {}
    study = hunters(study_factory, models, {"name": "betray", "from_round": 3}, vary={"cheap_talk": [True, False]})
    for axes, played in hunts(study):
        found.setdefault((axes["model"], axes["cheap_talk"]), []).extend(letters(played))
    for model in models:
        assert found[model, "true"] == found[model, "false"]


def test_archetypes_of_a_mixed_group_are_those_of_its_players(study_factory: StudyFactory) -> None:
    groups = [
        {"role": "honest", "count": 2, "policy": "grim_trigger"},
        {"role": "honest", "count": 1, "policy": "always_stag"},
        {"role": "byzantine", "count": 1, "policy": "betray"},
    ]
    grid = {"groups": groups, "prompt": "plain", "model": None, "n": None}
    study = study_factory(grid, game="stag_hunt", seeds=3, parameters={"rounds": 4})
    for _, played in hunts(study):
        of = played.outcome.metrics
        shares = (of["defection_prone"], of["cooperation_persistent"], of["unclassified"])
        assert shares == pytest.approx((2 / 3, 1 / 3, 0))
