"""The table `behaviors`: what betrayed agents do, by who plays them, and what it pays."""

from collections.abc import Callable

import pandas as pd
import pytest

from parley.analysis.reactions import compared
from parley.analysis.stats import unpaired_difference, wilson_of_mean
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.evidence import Indicator, Quantity
from parley.play.simulate import simulate
from parley.play.usable import read_records
from parley.study import Study
from support.studies import StudyFactory

BETRAY = {"name": "betray", "from_round": 2}
MIXED = [
    {"role": "honest", "count": 2, "policy": "grim_trigger"},
    {"role": "honest", "count": 1, "policy": "always_stag"},
    {"role": "byzantine", "count": 1, "policy": BETRAY},
]


def played(study: Study) -> Study:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 1.0)
    summarize(study)
    return study


@pytest.fixture
def mixed(study_factory: StudyFactory) -> pd.DataFrame:
    played(
        study_factory(
            {"groups": MIXED, "prompt": "plain", "model": None, "n": None},
            seeds=4,
            game="stag_hunt",
            parameters={"rounds": 4},
        )
    )
    return read_table("small", "behaviors").set_index(["player", "behavior"])


def test_shares_and_payoffs_by_player_with_games_as_units(mixed: pd.DataFrame) -> None:
    # Round 1 pays 10, round 2 nothing; after it grim_trigger hunts the hare for 3, always_stag gets nothing.
    assert list(mixed.index.get_level_values("player").unique()) == ["all", "always_stag", "grim_trigger"]
    assert set(mixed["simulations"]) == {4}
    grim, stag, both = (mixed.loc[(who, "hare_for_good")] for who in ("grim_trigger", "always_stag", "all"))
    assert (grim["share"], grim["majority"], grim["shown"]) == (1, True, 4)
    assert (grim["payoff"], grim["cost"]) == (4, -1)
    assert (stag["share"], stag["majority"], stag["shown"]) == (0, False, 0)
    assert pd.isna(stag["payoff"])
    assert pd.isna(stag["cost_low"])
    assert both["share"] == pytest.approx(2 / 3)
    assert (both["low"], both["high"]) == pytest.approx(wilson_of_mean(2 / 3, 4))
    assert (mixed.loc[("always_stag", "stag_again"), ["share", "payoff", "cost"]] == [1, 2.5, 0.5]).all()
    assert mixed.loc[("all", "any"), "payoff"] == pytest.approx((4 + 4 + 2.5) / 3)
    assert mixed.loc[("all", "preemptive"), "share"] == 0


def test_a_half_is_no_majority(study_factory: StudyFactory) -> None:
    groups = [MIXED[0] | {"count": 1}, *MIXED[1:]]
    played(
        study_factory(
            {"groups": groups, "prompt": "plain", "model": None, "n": None},
            seeds=2,
            game="stag_hunt",
            parameters={"rounds": 4},
        )
    )
    row = read_table("small", "behaviors").set_index(["player", "behavior"]).loc[("all", "hare_for_good")]
    assert (row["share"], row["majority"]) == (0.5, False)


def test_games_without_an_adversary_or_such_measures_have_no_rows(study_factory: StudyFactory) -> None:
    played(study_factory({"model": "grim_trigger", "n": 3, "b": 0, "prompt": "plain"}, seeds=2, game="stag_hunt"))
    assert not len(read_table("small", "behaviors"))


# Reactions without shared seeds, as in games that were imported


@pytest.fixture
def unpaired(study_factory: StudyFactory) -> Callable[[list[Indicator | Quantity]], list[list[object]]]:
    """Compare the first 6 seeds with an adversary with the last 6 of players who look at nothing."""
    grid = {"model": "support.blind:Rarely", "n": 3, "b": [0, 1], "byzantine": BETRAY, "prompt": "plain"}
    study = played(study_factory(grid, seeds=12, game="stag_hunt", parameters={"rounds": 4}))
    records = read_records(study)
    both = list(zip(records.simulations, records.summaries, strict=True))
    own = {s.seed: (s, told) for s, told in both if s.condition.axes["b"] and s.seed < 6}
    calm = {s.seed: (s, told) for s, told in both if not s.condition.axes["b"] and s.seed >= 6}
    return lambda measures: compared(measures, own, calm, study.name)


def test_without_shared_seeds_all_games_without_an_adversary_are_compared(unpaired: Callable[..., list]) -> None:  # type: ignore[type-arg]
    acts = read_table("small", "turns")
    acts = acts[acts["action"].notna()].set_index(["b", "seed", "agent", "round"])["action"].to_dict()
    honest = read_table("small", "turns").query("b == 1 and not is_byzantine")[["seed", "agent"]].drop_duplicates()
    sham = []
    for seed in range(6, 12):  # each with the mean over the six games whose players it stands for
        found = []
        for other in range(6):
            names = [name for s, name in zip(honest["seed"], honest["agent"], strict=True) if s == other]
            hunters = [name for name in names if acts[0, seed, name, 2] == "Hunt Stag"]
            if hunters:
                found.append(any(acts[0, seed, n, r] == "Hunt Hare" for n in hunters for r in (3, 4)))
        if found:
            sham.append(sum(found) / len(found))
    [row] = unpaired([Indicator("retreated", "")])
    kind, what, n, value, pairs, without, value_with, value_without, *_, difference, low, high, test, p = row
    assert (kind, what, pairs, without, test) == ("indicator", "retreated", 0, len(sham), "chi-squared")
    assert value_without == pytest.approx(sum(sham) / len(sham))
    assert value == value_with
    assert difference == pytest.approx(value_with - value_without)
    limits = unpaired_difference(sum(sham), len(sham), value * n, n)
    assert (low, high) == pytest.approx(tuple(map(float, limits)))
    assert p > 0.01  # nobody who looks at nothing can tell


def test_numbers_without_shared_seeds_have_welchs_test(unpaired: Callable[..., list]) -> None:  # type: ignore[type-arg]
    [row] = unpaired([Quantity("rounds_until_retreat", "")])
    assert row[0] == "quantity"
    assert row[-2] == "Welch"
