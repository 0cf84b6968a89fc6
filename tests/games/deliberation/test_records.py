"""What agents are told of their peers' past answers: what it says, and whether agents weigh it."""

from collections.abc import Mapping
from itertools import pairwise
from statistics import mean
from typing import Any

import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.play.record import read_trace
from parley.play.simulate import simulate_shard
from parley.statistics.stats import wilson_of_mean
from parley.study import Study
from parley.study.condition import SCRIPTED
from support.playing import play_of
from support.studies import StudyFactory

SEEDS = 100
ASKED = ["followed_unreliable", "followed_reliable"]


def played(study_factory: StudyFactory, model: str | Mapping[str, Any], n: int = 3, **parameters: Any) -> Study:
    """Play and summarize a study that asks whether a reliable agent is followed more."""
    study = study_factory(
        {"model": model, "n": n, "prompt": "improve"},
        game="deliberation",
        parameters={"turns": 2, "stop_when_unanimous": False, "peer_record": "drawn", **parameters},
        seeds=SEEDS,
        questions=[{"name": "trust", "outcomes": ASKED, "smallest": 0.2}],
    )
    simulate_shard(study, SCRIPTED, 0)
    summarize(study)
    return study


@pytest.mark.promise("Who follows the best record does so always, who looks at none as often as any other (controls).")
def test_trust_in_a_record_is_full_or_none_where_it_is_known(study_factory: StudyFactory) -> None:
    followers = played(study_factory, {"name": "follower", "accuracy": 0.4})
    [full] = read_table(followers.name, "questions").to_dict("records")
    assert (full["difference"], full["answer"]) == (1, "differs")
    told = read_table(followers.name, "quantities").set_index("quantity").loc["followed_reliable"]
    assert [told["low"], told["mean"]] == pytest.approx([float(wilson_of_mean(1, told["simulations"])[0]), 1])
    for model in ("urn", {"name": "solver", "accuracy": 0.5, "conformity": 1.0}):
        study = played(study_factory, {"name": model, "accuracy": 0.4} if model == "urn" else model, n=4)
        [none] = read_table(study.name, "questions").to_dict("records")
        assert none["low"] < 0 < none["high"]
        assert none["high"] - none["low"] < 0.4
        found = read_table(study.name, "measures").set_index("seed")[ASKED]
        for simulation in study.simulations():
            for name, share in by_other_code(read_trace(simulation.record(study.name))).items():
                assert found.loc[simulation.seed, name] == pytest.approx(share, nan_ok=True)


def by_other_code(trace: list[dict[str, Any]]) -> dict[str, float]:
    """Count from a record what those with 9 of 10 and those with 1 of 10 said, and who took it over."""
    said, taken = trace[0]["records"], {1: list[bool](), 9: list[bool]()}
    for before, after in pairwise(trace):
        for agent, own in before["answers"].items():
            offers = {
                score: {before["answers"][p] for p in after["heard"][agent] if said[p] == score} for score in taken
            }
            for score, other in ((1, 9), (9, 1)):
                against = offers[score] - offers[other] - {own}
                if against and offers[other]:
                    taken[score].append(after["answers"][agent] in against)
    return {name: mean(each) if each else float("nan") for name, each in zip(ASKED, taken.values(), strict=True)}


@pytest.mark.promise("A record that agents are told of each other is true, or drawn by the seed for half of them.")
@pytest.mark.parametrize("kind", ["none", "real", "drawn"])
def test_agents_are_told_of_each_other_what_the_record_says(study_factory: StudyFactory, kind: str) -> None:
    groups = [{"role": "honest", "count": 2, "policy": {"name": "solver", "accuracy": share}} for share in (0.0, 1.0)]
    study = study_factory(
        {"groups": groups, "prompt": "improve", "model": None, "n": None},
        game="deliberation",
        parameters={"peer_record": kind, "earlier": 5, "turns": 1, "stop_when_unanimous": False},
        seeds=12,
    )
    halves = set()
    for simulation in study.simulations():
        game = play_of(simulation)
        asks = [exchange.ask for exchange in game.exchanges]
        skill = {
            name: player.policy.parameters.model_dump()["accuracy"] for name, player in simulation.players.items()
        }
        records = game.outcome.trace[0].get("records", {})
        if kind == "real":
            assert records == {name: 5 * accuracy for name, accuracy in skill.items()}
            assert len({ask.view.problem.question for ask in asks}) == 6
        if kind == "drawn":
            assert sorted(records.values()) == [0, 0, 5, 5]
            halves.add(tuple(records[name] for name in sorted(records)))
        for ask in asks:
            told = {peer: right for peer, right in records.items() if ask.phase == "reflect" and peer != ask.agent}
            assert ask.view.records == told
            assert ask.user.count(" earlier problems): ") == len(told)
            assert all(
                f"  {peer} (right on {right} of 5 earlier problems): " in ask.user for peer, right in told.items()
            )
    assert len(halves) > 2 or kind != "drawn"
