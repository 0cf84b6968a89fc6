"""The table `reactions`: what agents do after a betrayal, beside what they do anyway."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.reactions import _same_agents, without_adversary
from parley.analysis.stats import holm
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.stag_hunt.betrayal import reaction_metrics
from parley.games.stag_hunt.evidence import StagHuntEvidence
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.play.simulate import simulate
from parley.study import Study
from support.hunting import hunt
from support.studies import StudyFactory

BETRAY = {"name": "betray", "from_round": 3}
SEEDS = 30


def played(study_factory: StudyFactory, *grids: dict[str, Any], seeds: int = SEEDS, **parameters: Any) -> Study:
    study = study_factory(
        *({"prompt": "plain", "byzantine": BETRAY} | grid for grid in grids),
        seeds=seeds,
        game="stag_hunt",
        parameters={"rounds": 6, **parameters},
    )
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    return study


def reactions() -> pd.DataFrame:
    table = read_table("small", "reactions")
    return table.set_index(["model", "what"]).sort_index()


def test_what_players_do_from_a_round_on_by_hand() -> None:
    calm = hunt("hhh", "sss", "hss", "sss", "shs", "sss").outcome.trace
    found = reaction_metrics(calm, {"agent_2": 2, "agent_3": 3}, 2, StagHuntParameters().archetype_threshold)
    assert (found["detected"], found["detection_round"], found["rounds_until_retreat"]) == (True, 4, 2)
    assert (found["kept_hunting"], found["cooperation_persistent"]) == (0.5, 0.5)  # 2 of 3 stags, and all of 2
    assert (found["disruption_round"], found["recovered"], found["recovery_round"]) == (2, True, 3)
    assert found["switched_for_good"] == found["preemptive"] == 0
    assert found["returned"] is True  # agent_2, in round 5
    alone = reaction_metrics(calm, {"agent_1": 2}, 3, StagHuntParameters().archetype_threshold)
    assert (alone["retreated"], alone["disruption_round"], alone["recovery_round"]) == (None, 4, 5)
    assert reaction_metrics(calm, {"agent_1": 5}, 5, StagHuntParameters().archetype_threshold)["detected"] is None


def test_who_switches_for_good_and_who_never_hunted() -> None:
    # agent_1 switches, agent_2 never hunted, agent_3 comes back, agent_4 fails once.
    trace = hunt("hhhhb", "shsss", "shssh", "hhhhs", "hhs-s").outcome.trace
    seen = {f"agent_{k}": 2 for k in (1, 2, 3, 4)}
    found = reaction_metrics(trace, seen, 2, StagHuntParameters().archetype_threshold)
    assert (found["switched_for_good"], found["preemptive"], found["hare_for_good"]) == (0.25, 0.25, 0.5)
    assert found["returned"] is True  # agent_3
    grim = reaction_metrics(trace, {"agent_1": 2}, 2, StagHuntParameters().archetype_threshold)
    assert (grim["retreated"], grim["returned"]) == (True, False)
    late = reaction_metrics(trace, {"agent_4": 2, "agent_2": 2}, 2, StagHuntParameters().archetype_threshold)
    assert late["returned"] is None  # agent_4 does nothing more, agent_2 had nothing to retreat from
    silent = hunt("hb", "-s", "-h", "hs").outcome.trace
    assert reaction_metrics(silent, {"agent_1": 2}, 2, StagHuntParameters().archetype_threshold)["preemptive"] == 0


def test_of_the_own_game_they_are_its_metrics() -> None:
    game = hunt("hhb", "sss", "ssh", "sss", "shs", "hhs", "sss")
    own = {"agent_1": "agent_1", "agent_2": "agent_2"}
    again = StagHuntEvidence().reacted(StagHuntParameters(), game.of, own, list(game.outcome.trace))
    same = {name: value for name, value in again.items() if name in game.of}
    assert len(same) == len(again) - 4  # the paper's classes and who comes back are no metrics
    assert same == {name: game.of[name] for name in same}


def test_blind_players_detect_nothing_and_those_who_look_do(study_factory: StudyFactory) -> None:
    models = ["support.blind:Random", "support.blind:Rarely", "always_stag", "grim_trigger"]
    played(study_factory, {"model": models, "n": 4, "b": [0, 1]})
    table = reactions()
    assert set(table["without"]) == {"b=0"}
    for blind in ("Random", "Rarely", "always_stag"):
        of = table.loc[blind]
        assert set(of.loc["detected", ["simulations", "pairs"]]) == {SEEDS}
        # Nobody who looks at nothing can tell the two games apart.
        judged = of.drop(index="recovered")  # that a hunt succeeds is the adversary's doing, too
        assert not (judged["p"] < 0.001).any()
    # The paper's measure alone says that who chooses at random detects every betrayal.
    assert table.loc[("Random", "detected"), "value"] == 1
    assert 0.2 < table.loc[("Rarely", "detected"), "value"] < 0.95
    assert table.loc[("Random", "detected"), "difference"] == pytest.approx(0, abs=0.05)
    for what in ("detected", "retreated"):
        row = table.loc[("grim_trigger", what)]
        assert (row["value_with"], row["value_without"], row["difference"]) == (1, 0, 1)
        assert (row["only_with"], row["only_without"]) == (SEEDS, 0)
        assert row["low"] > 0.7
        assert row["p_holm"] < 1e-6
    assert table.loc[("grim_trigger", "switched_for_good"), "difference"] == 1
    assert table.loc[("grim_trigger", "switched_for_good"), "low"] > 0.7  # a share, in all pairs alike
    families = table.groupby("what")["p"]
    expected = families.transform(lambda p: holm(p.to_numpy())).dropna()
    assert list(table["p_holm"].dropna()) == pytest.approx(list(expected), rel=1e-9)  # both are rounded


def test_the_cells_by_other_means(study_factory: StudyFactory) -> None:
    """From the table of simulations and that of turns: rounds, names and actions, and nothing of the module's own."""
    played(study_factory, {"model": "support.blind:Rarely", "n": 3, "b": [0, 1]}, seeds=30)
    simulations, turns = read_table("small", "simulations"), read_table("small", "turns")
    acts = turns[turns["action"].notna()].set_index(["b", "seed", "agent", "round"])["action"].to_dict()
    retreats: dict[int, list[bool | None]] = {0: [], 1: []}
    for row in simulations[simulations["b"] == 1].to_dict("records"):
        seen = {name: told["seen"] for name, told in json.loads(row["after_betrayal"]).items()}
        assert set(seen.values()) == {3}
        for b, found in retreats.items():
            hunters = [name for name in seen if acts[b, row["seed"], name, 3] == "Hunt Stag"]
            turned = [any(acts[b, row["seed"], name, r] == "Hunt Hare" for r in (4, 5, 6)) for name in hunters]
            found.append(any(turned) if hunters else None)
    pairs = [(x, y) for x, y in zip(retreats[0], retreats[1], strict=True) if x is not None and y is not None]
    row = reactions().loc[("Rarely", "retreated")]
    assert row["pairs"] == len(pairs)
    assert (row["only_without"], row["only_with"]) == (pairs.count((True, False)), pairs.count((False, True)))
    assert row["value_with"] == pytest.approx(np.mean([y for _, y in pairs]))
    assert row["value_without"] == pytest.approx(np.mean([x for x, _ in pairs]))
    assert row["value"] == pytest.approx(np.mean([y for y in retreats[1] if y is not None]))
    changed = row["only_with"] - row["only_without"], row["only_with"] + row["only_without"]
    assert row["p"] == pytest.approx(math.erfc(abs(changed[0]) / math.sqrt(2 * changed[1])) if changed[1] else 1)


def test_a_condition_without_counterpart_says_so(study_factory: StudyFactory) -> None:
    played(
        study_factory,
        {"model": "grim_trigger", "n": 4, "b": 1},
        {"model": "tit_for_tat", "n": 4, "b": 1},
        {"model": "tit_for_tat", "n": 3, "b": 0},  # as many that are no adversary
        seeds=3,
    )
    table = reactions()
    assert set(table.loc["tit_for_tat", "without"].str.contains("n=3")) == {True}
    row = table.loc[("grim_trigger", "detected")]
    assert (row["without"], row["simulations"], row["value"], row["pairs"]) == ("none", 3, 1, 0)
    assert all(pd.isna(row[name]) for name in ("value_with", "value_without", "difference", "low", "high", "p"))
    found = table.loc[("tit_for_tat", "detected")]
    assert (found["pairs"], found["difference"]) == (3, 1)


def test_games_without_such_measures_have_no_rows(study_factory: StudyFactory, tmp_path: Path) -> None:
    study = study_factory({"model": "majority", "n": 4, "b": 1}, seeds=1)
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    assert read_table("small", "reactions").empty


def test_agents_are_matched_by_name_and_else_by_what_plays_them() -> None:
    own = {"agent_1": "a", "agent_3": "b"}
    assert _same_agents(own, {"agent_1": "a", "agent_2": "b", "agent_3": "b"}) == {n: n for n in own}
    assert _same_agents(own, {"agent_1": "b", "agent_2": "a"}) == {"agent_1": "agent_2", "agent_3": "agent_1"}
    assert _same_agents(own, {"agent_1": "a", "agent_2": "c"}) == {"agent_1": "agent_1", "agent_3": "agent_2"}


def test_where_an_adversary_sits_and_what_plays_it_does_not_matter(study_factory: StudyFactory) -> None:
    honest = {"role": "honest", "count": 1, "policy": "grim_trigger"}
    hard = {"role": "byzantine", "count": 1, "policy": ["betray", "always_hare"]}
    vary = {"topology": ["star"], "disclosure": ["explicit"]}
    plain: dict[str, Any] = {"model": None, "n": None, "prompt": "plain"}
    study = study_factory(
        {**plain, "groups": [honest] * 4, "vary": {**vary, "seat": ["any"]}},
        {**plain, "groups": [*[honest] * 4, hard], "vary": {**vary, "seat": ["hub", "spoke"]}},
        {**plain, "groups": [*[honest] * 3, hard], "vary": {**vary, "seat": ["hub"]}},
        game="stag_hunt",
        seeds=1,
        parameters={"replaces_honest": True},
    )
    found = {
        (c.axes["n"], c.axes["seat"], c.axes["byzantine"]): without_adversary(c, study.conditions)
        for c in study.conditions
        if c.axes["b"]
    }
    calm = study.conditions[0]
    assert len(found) == 6
    assert all((each is calm) == (key[0] == 4) for key, each in found.items())
    assert {each for key, each in found.items() if key[0] == 3} == {None}
