"""What a group lost against the best known protocol in its seats."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.games.consensus.achievable import best_known
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ConsensusParameters
from parley.games.network import draw_network
from parley.policies.kinds import Rule, ScriptedPolicy
from parley.statistics.stats import p_below, wilson_interval
from parley.study import Study
from parley.study.condition import Simulation
from support.answering import record_with_model
from support.playing import RULES
from support.studies import StudyFactory, summarized

ADVERSARIES = ["random", "oscillate", "mimic_then_defect", "silent", "equivocate"]


def played(make: StudyFactory, rule_of: Callable[[Simulation], Rule], *grids: dict[str, Any], **content: Any) -> Study:
    """Return a study whose model plays by rules, with its tables."""
    parameters = {"max_rounds": 6, **content.pop("parameters", {})}
    study = make(*({"model": "tiny", **grid} for grid in grids), **{"parameters": parameters, "seeds": 6, **content})
    for simulation in study.simulations():
        record_with_model(simulation, policy=ScriptedPolicy(rule_of(simulation)))
    summarize(study)
    return study


def best_of(simulation: Simulation) -> Rule:
    game = simulation.game()
    assert isinstance(game, ConsensusGame)
    best = best_known(game.parameters, len(game.agents), len(game.agents) - len(game.honest), game.network)
    assert best is not None
    assert best[0].rule is not None
    return best[0].rule


@pytest.mark.promise("Who plays the protocol that it is held against loses nothing, in any game (placebo).")
def test_a_protocol_loses_nothing_against_itself(study_factory: StudyFactory) -> None:
    grids = [{"n": 5, "b": b, "byzantine": ADVERSARIES if b else None} for b in (0, 1, 2)]
    vary = {"vary": {"topology": ["complete", "ring"]}}
    parameters = {"equivocation": True, "reasoning_chars": 4000, "justification_chars": 4000}
    study = played(study_factory, best_of, *({**grid, **vary} for grid in grids), parameters=parameters)
    regret = read_table(study.name, "regret")
    assert len(regret) == len(list(study.simulations()))
    lost = [name for name in map(str, regret.columns) if name.endswith("_lost")]
    assert len(lost) == 4
    assert (regret[lost] == 0).all(axis=None)
    assert set(regret["best_agreement"]) == {0, 1}
    assert (read_table(study.name, "achievable")["lost"] == 0).all()


@pytest.mark.promise("Who can never agree loses all that the protocol reaches (positive control).")
def test_who_never_agrees_loses_all(study_factory: StudyFactory) -> None:
    study = played(study_factory, lambda _: RULES["stubborn"], {"b": [0, 1], "byzantine": "stubborn"})
    regret = read_table(study.name, "regret")
    assert (regret["agreement_lost"] == regret["best_agreement"]).all()
    alone = regret[regret["b"] == 0]
    assert (alone["agreement_lost"] == 1).all()
    assert (alone["rounds_lost"] == 4).all()  # of six: the smallest value is everybody's in the second
    rows = read_table(study.name, "achievable").set_index(["b", "measure"]).loc[0]
    for measure in ("agreement", "validity", "hull", "rounds"):
        for column, side in (("reached", "reached"), ("achievable", "best")):
            assert rows.loc[measure, column] == pytest.approx(alone[f"{side}_{measure}"].mean())
        assert rows.loc[measure, "lost"] == pytest.approx(alone[f"{measure}_lost"].mean())
    # All six could be had: the limits of none of six, from the other side.
    limits = [1 - rows.loc["agreement", end] for end in ("high", "low")]
    assert limits == pytest.approx(wilson_interval(0, 6))


def test_rules_are_held_against_nothing(study_factory: StudyFactory) -> None:
    study = summarized(study_factory({}, parameters={"max_rounds": 6}, seeds=6))
    assert len(read_table(study.name, "regret")) == len(read_table(study.name, "achievable")) == 0
    assert "achievable" not in [spec.name for spec in study.figures]


@pytest.mark.promise("A study may ask a question about what was lost.")
def test_a_question_about_what_was_lost(study_factory: StudyFactory) -> None:
    question = {"name": "lost", "outcome": "agreement_lost", "compare": "prompt", "smallest": 0.1}
    rules = {"may_exist": RULES["minimum"], "none_exist": RULES["stubborn"]}
    grid = {"prompt": [*rules]}
    study = played(study_factory, lambda each: rules[each.condition.prompt], grid, questions=[question])
    with pytest.raises(UsageError, match="only games of models lose it"):
        study_factory({**grid, "model": "minimum"}, questions=[question], name="other")
    [row] = read_table(study.name, "questions").to_dict("records")
    assert (row["value_from"], row["value_to"]) == (0, 1)
    # All pairs lose: yes and no, so McNemar's test answers, also at any time.
    assert (row["test"], row["answer"]) == ("McNemar", "differs")
    assert row["p_holm"] < 0.05
    assert row["anytime_p"] < 1


@pytest.mark.promise("What theory promises the best known protocol keeps, in every seat and against every adversary.")
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"equivocation": True},
        {"validity": "hull", "stop_threshold": 0.5},
        {"values": "real", "agree_within": 2.0, "validity": "hull", "equivocation": True},
    ],
)
def test_promises_are_kept(study_factory: StudyFactory, parameters: dict[str, Any]) -> None:
    every, two_faced = [*ADVERSARIES, "opposite", "drag", "keep_apart"], {"equivocate", "keep_apart"}
    adversaries = [name for name in every if parameters.get("equivocation") or name not in two_faced]
    study = played(
        study_factory,
        lambda _: RULES["majority"],
        *({"n": n, "b": b, "byzantine": adversaries} for n, b in ((4, 1), (5, 1), (5, 2), (7, 2))),
        {"n": [2, 5], "b": 0, "byzantine": None},
        parameters={"max_rounds": 12, **parameters},
        seeds=1,
    )
    regret = read_table(study.name, "regret")
    assert len(regret) == len(list(study.simulations()))
    for row in regret.to_dict("records"):
        for measure in filter(None, row["promised"].split(", ")):
            assert row[f"best_{measure}"] == 1, row
    assert {"flood_min"} < set(regret["protocol"].str.split("-").str[0])
    assert (regret["promised"] != "").any()
    assert not regret.loc[(regret["n"] == 5) & (regret["b"] == 2), "promised"].str.contains("validity").any() or (
        parameters.get("validity") == "hull"
    )


RING = {"topology": "ring"}
MSR = {"values": "real", "validity": "hull", "equivocation": True, "max_rounds": 200}


@pytest.mark.parametrize(
    ("roles", "parameters", "promises"),
    [
        ("hhhb", {"max_rounds": 1, "validity": "hull"}, {"hull"}),  # what all hear they can say in round 2 only
        ("hhhb", {"max_rounds": 2, "validity": "hull"}, {"agreement", "validity", "hull"}),
        ("hhb", {"stop_threshold": "1/3"}, {"hull"}),  # one vote ends the game, in round 1
        ("hhb", {"stop_threshold": "2/5"}, {"agreement", "hull"}),
        ("hbb", {"stop_threshold": "1/3"}, set()),
        ("hhhb", {"stop_threshold": "4/5"}, {"hull"}),  # three of four votes are not enough
        ("hhhhb", RING, {"hull"}),
        ("hhhbb", {**RING, "equivocation": True, "values": "real"}, {"hull"}),
        ("bbb", {**RING, "stop_threshold": "1/2"}, set()),  # nobody is left to be in any hull
        ("b", {}, set()),
        ("h", {"max_rounds": 1}, {"agreement", "validity", "hull"}),
        ("hhhb", {**MSR, "agree_within": 1e-9}, {"agreement", "validity", "hull"}),
    ],
)
def test_no_more_is_promised_than_seats_allow(roles: str, parameters: dict[str, Any], promises: set[str]) -> None:
    given = ConsensusParameters(**parameters)
    network = draw_network(given.topology, len(roles), np.random.default_rng(0))
    best = best_known(given, len(roles), roles.count("b"), network)
    assert best is not None
    assert best[1] == promises


@pytest.mark.promise("What was lost is not called alike more often than the level says (null).")
def test_no_false_equivalence_of_what_was_lost() -> None:
    random, claimed, times, smallest = np.random.default_rng(2), 0, 400, 0.3
    for _ in range(times):
        # Few games lose all more: the mean differs by just as much as matters, t would miss the tail.
        differences = (random.random(12) < smallest).astype(float)
        claimed += max(float(p_below(sign * differences, smallest, 2.0)) for sign in (-1.0, 1.0)) < 0.025
    assert claimed / times <= 0.025
