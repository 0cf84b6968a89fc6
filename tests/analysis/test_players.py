"""The table of shares by what plays the agents, in populations that mix players."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis.stats import wilson_interval, wilson_of_mean
from parley.analysis.tables import read_table
from parley.games.stag_hunt.game import StagHuntGame
from parley.play.record import read_summary
from parley.study import Study
from support.hunting import hunt
from support.measured import MeasuredEvidence, measured, played
from support.studies import StudyFactory

COLUMNS = ["quantity", "player", "simulations", "mean", "low", "high"]
ALONE = {"model": None, "n": None, "prompt": "plain"}


def group(count: int, policy: str, role: str = "honest", **given: Any) -> dict[str, Any]:
    return {"role": role, "count": count, "policy": {"name": policy, **given} if given else policy}


def mixed(study_factory: StudyFactory, *groups: dict[str, Any], rounds: int = 4, seeds: int = 3) -> Study:
    grid = {**ALONE, "groups": list(groups)}
    return played(study_factory(grid, game="stag_hunt", seeds=seeds, parameters={"rounds": rounds}))


def test_shares_of_agents_are_those_of_the_whole_simulation_taken_apart() -> None:
    # agent_2 betrays in round 1. Then agent_1 hunts three stags, agent_3 none, agent_4 one, agent_5 does nothing.
    of = hunt("hbhhh", "shsss", "sshs-", "sshh-", "sshh-").of
    found = StagHuntGame.evidence.of_agents(of)
    assert {agent: [kind for kind, share in shares.items() if share] for agent, shares in found.items()} == {
        "agent_1": ["kept_hunting", "cooperation_persistent"],
        "agent_3": ["hare_for_good", "defection_prone"],
        "agent_4": ["unclassified"],
        "agent_5": ["unclassified"],
    }
    for name in ("kept_hunting", "cooperation_persistent", "defection_prone", "unclassified"):
        assert of[name] == sum(shares[name] for shares in found.values()) / 4
    assert StagHuntGame.evidence.of_agents(hunt("hh", "ss").of) == {}


def test_each_player_of_a_population_has_its_own_shares(study_factory: StudyFactory) -> None:
    betrayer = group(1, "betray", "byzantine", from_round=2)
    study = mixed(study_factory, group(2, "grim_trigger"), group(1, "always_stag"), group(1, "grim_trigger"), betrayer)
    table = read_table("small", "players")
    assert list(table.columns) == [*study.conditions[0].axes, *COLUMNS]
    assert len({*table["model"]}) == 1
    found = {(row["quantity"], row["player"]): row for row in table.to_dict("records")}
    assert {key: row["mean"] for key, row in found.items()} == {
        (quantity, player): float((player == "always_stag") == loyal)
        for quantity, loyal in (
            *(("kept_hunting", True), ("cooperation_persistent", True)),
            *(("defection_prone", False), ("hare_for_good", False)),
        )
        for player in ("always_stag", "grim_trigger")
    } | {("unclassified", player): 0.0 for player in ("always_stag", "grim_trigger")}
    row = found["defection_prone", "grim_trigger"]
    assert row["simulations"] == 3  # not agents
    assert (row["low"], row["high"]) == pytest.approx(wilson_interval(3, 3))
    whole = read_table("small", "quantities").set_index("quantity")["mean"]
    assert whole["defection_prone"] == pytest.approx(3 / 4)


class ParityEvidence(MeasuredEvidence):
    """The share of an agent is 1 where its initial value is odd; those that start at 15 or more have none."""

    def of_agents(self, metrics: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
        initial = metrics["initial_values"]
        return {agent: {"final_honest_share": float(value % 2)} for agent, value in initial.items() if value < 15}


def test_shares_are_means_over_simulations_of_those_among_the_agents_of_a_player(study_factory: StudyFactory) -> None:
    grid = {**ALONE, "prompt": "may_exist", "groups": [group(3, "majority"), group(2, "random")]}
    study = played(measured(study_factory(grid, seeds=8), ParityEvidence()))
    shares: dict[str, list[float]] = {"majority": [], "random": []}
    for simulation in study.simulations():
        initial = read_summary(simulation.record("small")).outcome["metrics"]["initial_values"]
        seats = simulation.game().seats
        for place, player in enumerate(shares):
            values = [initial[seat.name] for seat in seats if seat.group == place and initial[seat.name] < 15]
            if values:
                shares[player].append(sum(value % 2 for value in values) / len(values))
    assert 0 < len(shares["random"]) < 8  # some simulation has no such agent
    assert {share for found in shares.values() for share in found} - {0.0, 1.0}
    table = read_table("small", "players")
    assert list(table["player"]) == ["majority", "random"]
    for row in table.to_dict("records"):
        found = shares[row["player"]]
        assert (row["quantity"], row["simulations"]) == ("final_honest_share", len(found))
        assert row["mean"] == pytest.approx(sum(found) / len(found))
        assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, wilson_of_mean(row["mean"], len(found)))))


def test_a_game_that_has_no_such_shares_has_an_empty_table(study_factory: StudyFactory) -> None:
    played(study_factory(seeds=2))
    for suffix, read in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        table = read(paths.table("small", "players", suffix))
        assert list(table.columns) == ["model", "n", "b", "prompt", *COLUMNS]
        assert len(table) == 0
