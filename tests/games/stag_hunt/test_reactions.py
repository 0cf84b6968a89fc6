"""The tables `reactions` and `behaviors`: what agents do after a betrayal, beside what they do anyway."""

from typing import Any

import pytest

from parley.analysis.summarize import played_games
from parley.analysis.tables import read_table
from parley.games.stag_hunt.betrayal import reaction_metrics
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.games.stag_hunt.reactions import (
    _same_agents,
    reacted,
    reaction_rows,
    reaction_samples,
    sources_of,
    without_adversary,
)
from parley.play.record import read_trace
from parley.play.record_store import read_records
from parley.statistics.stats import holm, unpaired_difference, wilson_of_mean
from parley.study import Study
from support.playing import hunt
from support.studies import OWN_POLICIES, StudyFactory, bring, summarized

SEEDS = 24
THRESHOLD = StagHuntParameters().archetype_threshold


def played(study_factory: StudyFactory, *grids: dict[str, Any], rounds: int, from_round: int, **content: Any) -> Study:
    alike = {"prompt": "plain", "byzantine": {"name": "betray", "from_round": from_round}}
    grids = tuple({k: v for k, v in alike.items() if "groups" not in g or k == "prompt"} | g for g in grids)
    return summarized(study_factory(*grids, game="stag_hunt", parameters={"rounds": rounds}, **content))


def test_what_players_do_from_a_round_on_by_hand() -> None:
    calm = hunt("hhh", "sss", "hss", "sss", "shs", "sss").outcome.trace
    found = reaction_metrics(calm, {"agent_2": 2, "agent_3": 3}, 2, THRESHOLD)
    assert (found["detected"], found["detection_round"], found["rounds_until_retreat"]) == (True, 4, 2)
    assert (found["kept_hunting"], found["cooperation_persistent"]) == (0.5, 0.5)  # 2 of 3 stags, and all of 2
    assert (found["disruption_round"], found["recovered"], found["recovery_round"]) == (2, True, 3)
    assert found["switched_for_good"] == found["preemptive"] == 0
    assert found["returned"] is True  # agent_2, in round 5
    alone = reaction_metrics(calm, {"agent_1": 2}, 3, THRESHOLD)
    assert (alone["retreated"], alone["disruption_round"], alone["recovery_round"]) == (None, 4, 5)
    assert reaction_metrics(calm, {"agent_1": 5}, 5, THRESHOLD)["detected"] is None


def test_who_switches_for_good_and_who_never_hunted() -> None:
    # agent_1 switches, agent_2 never hunted, agent_3 comes back, agent_4 fails once.
    trace = hunt("hhhhb", "shsss", "shssh", "hhhhs", "hhs-s").outcome.trace
    found = reaction_metrics(trace, {f"agent_{k}": 2 for k in (1, 2, 3, 4)}, 2, THRESHOLD)
    assert (found["switched_for_good"], found["preemptive"], found["hare_for_good"]) == (0.25, 0.25, 0.5)
    assert found["returned"] is True  # agent_3
    grim = reaction_metrics(trace, {"agent_1": 2}, 2, THRESHOLD)
    assert (grim["retreated"], grim["returned"]) == (True, False)
    late = reaction_metrics(trace, {"agent_4": 2, "agent_2": 2}, 2, THRESHOLD)
    assert late["returned"] is None  # agent_4 does nothing more, agent_2 had nothing to retreat from
    silent = hunt("hb", "-s", "-h", "hs").outcome.trace
    assert reaction_metrics(silent, {"agent_1": 2}, 2, THRESHOLD)["preemptive"] == 0


@pytest.mark.promise(
    "A reaction to a betrayal is only what a sham betrayal does not show: blind players detect nothing."
)
@pytest.mark.slow
def test_blind_players_detect_nothing_and_those_who_look_do(study_factory: StudyFactory) -> None:
    bring(OWN_POLICIES)
    models = ["own_policies:Random", "own_policies:Rarely", "always_stag", "grim_trigger"]
    played(study_factory, {"model": models, "n": 4, "b": [0, 1]}, rounds=6, from_round=3, seeds=SEEDS)
    table = read_table("small", "reactions").set_index(["model", "what"]).sort_index()
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
        assert row["p_holm"] < 1e-5
    assert table.loc[("grim_trigger", "switched_for_good"), "difference"] == 1
    assert table.loc[("grim_trigger", "switched_for_good"), "low"] > 0.7  # a share, in all pairs alike
    expected = table.groupby("what")["p"].transform(lambda p: holm(p.to_numpy())).dropna()
    assert list(table["p_holm"].dropna()) == pytest.approx(list(expected), rel=1e-9)  # both are rounded


@pytest.mark.slow
def test_a_condition_without_counterpart_says_so(study_factory: StudyFactory) -> None:
    grids = [
        {"model": "grim_trigger", "n": 4, "b": 1},
        {"model": "tit_for_tat", "n": 4, "b": 1},
        {"model": "tit_for_tat", "n": 3, "b": 0},  # as many that are no adversary
    ]
    played(study_factory, *grids, rounds=6, from_round=3, seeds=3)
    table = read_table("small", "reactions").set_index(["model", "what"]).sort_index()
    assert set(table.loc["tit_for_tat", "without"].str.contains("n=3")) == {True}
    row = table.loc[("grim_trigger", "detected")]
    assert (row["without"], row["simulations"], row["value"], row["pairs"]) == ("none", 3, 1, 0)
    assert row[["value_with", "value_without", "difference", "low", "high", "p"]].isna().all()
    found = table.loc[("tit_for_tat", "detected")]
    assert (found["pairs"], found["difference"]) == (3, 1)


def test_agents_are_matched_by_name_and_else_by_what_plays_them() -> None:
    own = {"agent_1": "a", "agent_3": "b"}
    assert _same_agents(own, {"agent_1": "a", "agent_2": "b", "agent_3": "b"}) == {n: n for n in own}
    assert _same_agents(own, {"agent_1": "b", "agent_2": "a"}) == {"agent_1": "agent_2", "agent_3": "agent_1"}
    assert _same_agents(own, {"agent_1": "a", "agent_2": "c"}) == {"agent_1": "agent_1", "agent_3": "agent_2"}


PLAIN: dict[str, Any] = {"model": None, "n": None, "prompt": "plain"}


def test_where_an_adversary_sits_and_what_plays_it_does_not_matter(study_factory: StudyFactory) -> None:
    honest = {"role": "honest", "count": 1, "policy": "grim_trigger"}
    hard = {"role": "byzantine", "count": 1, "policy": ["betray", "always_hare"]}
    vary = {"topology": ["star"], "disclosure": ["explicit"]}
    study = study_factory(
        {**PLAIN, "groups": [honest] * 4, "vary": {**vary, "seat": ["any"]}},
        {**PLAIN, "groups": [*[honest] * 4, hard], "vary": {**vary, "seat": ["hub", "spoke"]}},
        {**PLAIN, "groups": [*[honest] * 3, hard], "vary": {**vary, "seat": ["hub"]}},
        game="stag_hunt",
        seeds=1,
        parameters={"replaces_honest": True},
    )
    calm, found = study.conditions[0], [c for c in study.conditions if c.axes["b"]]
    assert len(found) == 6
    for condition in found:
        expected = calm if condition.axes["n"] == 4 else None
        assert without_adversary(condition, study.conditions) is expected, condition.axes


@pytest.mark.slow
def test_shares_and_payoffs_by_player_with_games_as_units(study_factory: StudyFactory) -> None:
    grim, stag = ({"role": "honest", "count": 2, "policy": name} for name in ("grim_trigger", "always_stag"))
    stag["count"] = 1
    betrayer = {"role": "byzantine", "count": 1, "policy": {"name": "betray", "from_round": 2}}
    groups = [[grim, stag, betrayer], [{**grim, "count": 1}, stag, betrayer], [grim, stag]]
    played(study_factory, *({**PLAIN, "groups": each} for each in groups), rounds=4, from_round=2, seeds=3)
    table = read_table("small", "behaviors")
    assert set(table["b"]) == {1}  # nothing of games without an adversary
    table = table.set_index(["n", "player", "behavior"]).sort_index()
    # Round 1 pays 10, round 2 nothing; after it grim_trigger hunts the hare for 3, always_stag gets nothing.
    mixed = table.loc[4]
    assert list(mixed.index.get_level_values("player").unique()) == ["all", "always_stag", "grim_trigger"]
    assert set(mixed["simulations"]) == {3}
    grims, stags, both = (mixed.loc[(who, "hare_for_good")] for who in ("grim_trigger", "always_stag", "all"))
    assert grims[["share", "majority", "shown", "payoff", "cost"]].tolist() == [1, True, 3, 4, -1]
    assert stags[["share", "majority", "shown"]].tolist() == [0, False, 0]
    assert stags[["payoff", "cost_low"]].isna().all()
    assert both["share"] == pytest.approx(2 / 3)
    assert (both["low"], both["high"]) == pytest.approx(tuple(map(float, wilson_of_mean(2 / 3, 3))))
    assert mixed.loc[("always_stag", "stag_again"), ["share", "payoff", "cost"]].tolist() == [1, 2.5, 0.5]
    assert mixed.loc[("all", "any"), "payoff"] == pytest.approx((4 + 4 + 2.5) / 3)
    assert mixed.loc[("all", "preemptive"), "share"] == 0
    half = table.loc[(3, "all", "hare_for_good")]
    assert (half["share"], half["majority"]) == (0.5, False)  # a half is no majority


@pytest.mark.slow
def test_without_shared_seeds_all_games_without_an_adversary_are_compared(study_factory: StudyFactory) -> None:
    """As in games that were imported: 6 seeds with an adversary, 6 without, of players who look at nothing."""
    bring(OWN_POLICIES)
    grid = {"model": "own_policies:Rarely", "n": 3, "b": [0, 1]}
    study = played(study_factory, grid, rounds=4, from_round=2, seeds=12)
    games = played_games(read_records(study))
    own = {g.simulation.seed: g for g in games if g.simulation.condition.axes["b"] and g.simulation.seed < 6}
    calm = {g.simulation.seed: g for g in games if not g.simulation.condition.axes["b"] and g.simulation.seed >= 6}
    values: dict[tuple[str, str], Any] = {}
    for game, sources in sources_of(own, calm):
        values |= reacted(game, sources, read_trace(game.simulation.record(study.name)))
    samples = reaction_samples(own, calm, values, {})
    rows: dict[str, Any] = {row["what"]: row for row in reaction_rows(samples).to_dict("records")}
    row, numbers = rows["retreated"], rows["rounds_until_retreat"]
    assert (row["kind"], row["pairs"], row["test"], row["value"]) == ("indicator", 0, "chi-squared", row["value_with"])
    assert row["difference"] == pytest.approx(row["value_with"] - row["value_without"])
    n, without = row["simulations"], row["simulations_without"]
    limits = unpaired_difference(row["value_without"] * without, without, row["value"] * n, n)
    assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, limits)))
    assert row["p"] > 0.01  # nobody who looks at nothing can tell
    assert (numbers["kind"], numbers["test"]) == ("quantity", "Welch")
