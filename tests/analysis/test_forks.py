"""Forks of games whose answer is known, from the study to the number."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from benchmarks import coverage
from parley.analysis.forks import SURE, influence_samples, surely, without_effect
from parley.analysis.made_by import played
from parley.analysis.planning import planned
from parley.analysis.registration import registrations
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.cli.plan_text import Plan
from parley.figures.make import draw, figures
from parley.figures.style import own_style
from parley.games.evidence import INFLUENCE
from parley.games.stag_hunt.parameters import HARE
from parley.play.record import provenance, write_record
from parley.play.runner import play
from parley.play.simulate import simulate_shard
from parley.policies.kinds import Rule, ScriptedPolicy
from parley.report.explorer.index import index_content, part_rows
from parley.report.explorer.selection import select
from parley.report.page import report
from parley.statistics.differences import SHARE, SamplePair, compare
from parley.statistics.stats import sign_flip
from parley.study import Study, load_study
from parley.study.condition import SCRIPTED
from parley.study.frozen import write_frozen
from support.playing import scripted
from support.studies import StudyFactory, study_of

pytestmark = pytest.mark.promise("Forks of games whose answer is known give it, from the study to the table.")


def forked(game: str = "consensus", **fork: Any) -> dict[str, pd.DataFrame]:
    """Play the forks of the study `small`, and return their tables."""
    study = study_of(name="forks", game=game, fork={"of": "small", **fork})
    simulate_shard(study, SCRIPTED, 0)
    summarize(study)
    return {name: read_table("forks", name) for name in ("forks", "influences")}


def effect(table: pd.DataFrame, at: str, change: str, what: str) -> pd.Series:
    [row] = [row for _, row in table.iterrows() if (row["at"], row["change"], row["what"]) == (at, change, what)]
    return row


@pytest.fixture
def oscillating(study_factory: StudyFactory) -> Study:
    """Six agents, of which one Byzantine pulls the majority from its value."""
    study = study_factory({"n": 6, "b": 1, "byzantine": "oscillate"}, seeds=8, parameters={"max_rounds": 10})
    simulate_shard(study, SCRIPTED, 0)
    summarize(study)
    return study


def test_a_silenced_adversary_turns_invalid_into_valid(oscillating: Study) -> None:
    ended = read_table("small", "simulations")["outcome"]
    changes = ["none", {"silence": "byzantine"}, {"swap": {"seat": "byzantine", "to": "honest"}}]
    forks = forked(at=[1], change=changes, repeats=2)["forks"]
    for change in ("silence-byzantine", "swap-byzantine-honest"):
        row = effect(forks, "1", change, "valid_consensus")
        assert (row["parents"], row["base"], row["value_from"], row["value_to"]) == (8, "none", 0, 1)
        # Of eight differences all are 1: two of 256 ways to flip their signs are as far from 0.
        assert row["p"] == pytest.approx(2 / 256)
    assert effect(forks, "1", "none", "invalid_consensus")["value_to"] == (ended == "invalid_consensus").mean() > 0.5
    # Whatever the law of games: of Clopper and Pearson's limit of 8 of 8, 63%, the others might all differ by -1.
    assert row["low"] == pytest.approx(2 * 0.025 ** (1 / 8) - 1, abs=1e-5)
    # Two changes are tested.
    assert effect(forks, "1", "silence-byzantine", "valid_consensus")["p_holm"] == pytest.approx(4 / 256)


def test_a_figure_and_the_report_show_what_changes_the_end(oscillating: Study) -> None:
    tables = forked(at=[1], change=["none", {"silence": "byzantine"}], repeats=2)
    study = load_study(Path("forks.yaml"))
    with own_style():
        [page] = draw(study, INFLUENCE, tables.__getitem__)
    mean = tables["influences"].query("change == 'silence-byzantine'")["influence"].mean()
    assert page.axes[0].texts[0].get_text() == f"{100 * mean:+.0f}"
    assert mean > 0.5
    assert tables["influences"]["no_return"].isna().all()  # two forks that end alike show nothing
    figures(study)
    first = report(study).read_text().partition('id="forks"')[2].split("</tr>")[1]
    assert "ends as recorded" in first
    assert f"{-100 * mean:+.0f}" in first


def test_unchanged_forks_of_deterministic_agents_differ_in_nothing(oscillating: Study) -> None:
    found = forked(at="each", change="none", repeats=14, seeds=[0, 1])
    assert (found["forks"][["difference", "noise", "differs"]].fillna(0) == 0).all(axis=None)
    assert (found["influences"]["same"] == 1).all()
    # So the end is decided from the first round on.
    assert (found["influences"]["no_return"] == 1).all()


def test_a_change_without_unchanged_forks_has_rates_and_no_effect(study_factory: StudyFactory) -> None:
    # The same rule in its place changes nothing. A recorded game ends as recorded, its forks need not: no effect.
    study = study_factory({"model": "random", "n": 3}, seeds=16, parameters={"max_rounds": 4, "value_max": 1})
    simulate_shard(study, SCRIPTED, 0)
    nothing = {"swap": {"seat": "all", "to": "random"}}
    found = forked(at=[1], change=[nothing], repeats=3)
    row = effect(found["forks"], "1", "swap-all-random", "as_parent")
    assert (row["parents"], row["repeats"]) == (16, 3)
    assert 0.2 < row["value_to"] < 0.8
    unknown = found["forks"][["base", "value_from", "difference", "low", "high", "p", "p_holm", "noise"]]
    assert unknown.isin(["", np.nan]).all(axis=None)
    assert found["influences"][["influence", "low", "p", "p_holm", "no_return"]].isna().all(axis=None)
    study = load_study(Path("forks.yaml"))
    assert any("swap-all-random: add `none`" in line for line in Plan(study, None).lines())
    figures(study)
    assert "not played" in report(study).read_text().partition('id="forks"')[2]
    found = forked(at=[1], change=["none", nothing], repeats=3)
    row = effect(found["forks"], "1", "swap-all-random", "as_parent")
    assert (row["base"], row["parents"]) == ("none", 16)
    assert row["p"] > 0.05
    assert not without_effect(load_study(Path("forks.yaml")))


def test_what_one_agent_says_instead_is_compared_with_games_in_which_all_else_of_the_phase_is_kept(
    study_factory: StudyFactory,
) -> None:
    study = study_factory({"model": "random", "n": 3}, seeds=4, parameters={"max_rounds": 3, "value_max": 1})
    simulate_shard(study, SCRIPTED, 0)
    changes = ["none", {"say": {"seat": "agent_1", "value": 1}}, {"silence": "agent_1"}]
    forks = forked(at=["1:propose"], change=changes, repeats=2)["forks"]
    bases = forks.groupby("change")["base"].unique().map(list).to_dict()
    assert bases == {"none": ["none"], "keep": ["keep"], "say-agent_1-1": ["keep"], "silence-agent_1": ["none"]}


def test_limits_of_what_a_change_does_hold_where_it_turns_a_few_games() -> None:
    for case, truth, values in coverage.repeated(8, 120, np.random.default_rng(1)):
        if "98%" in case:
            pairs = [SamplePair({}, np.zeros(8), row, SHARE, flips_signs=True) for row in values]
            limits = compare(pairs)[["low", "high"]].to_numpy()
            assert ((limits[:, 0] <= truth) & (truth <= limits[:, 1])).mean() > 0.93, case  # t: 55 to 85%


def test_of_all_messages_of_a_game_without_influence_any_has_some_in_at_most_one_of_twenty() -> None:
    random, some = np.random.default_rng(1), []
    for _ in range(200):
        ends = random.binomial(1, 0.5, (24, 2, 10))
        table = compare([influence_samples({}, changed, unchanged, family="scan") for changed, unchanged in ends])
        some.append([(table[name] < 0.05).any() for name in ("p", "p_holm")])
    assert np.mean(some, axis=0)[0] > 0.5
    assert np.mean(some, axis=0)[1] < 0.05


def test_too_early_a_point_of_no_return_is_seldom_told() -> None:
    for number in (1, 5, 13, 14, 30, 59, 200):
        same = np.arange(number + 1)
        told = surely(same, number)
        assert binom.pmf(same, number, SURE)[told].sum() < 0.05
        assert told.any() == (number >= 14)


def test_questions_and_plans_take_the_mean_of_the_forks_of_a_game(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 5, "b": 1, "byzantine": "random"}, seeds=24, parameters={"max_rounds": 10})
    simulate_shard(study, SCRIPTED, 0)
    questions = [
        {"name": "loud", "outcome": "valid_consensus", "compare": "change", "smallest": 0.2},
        {"name": "longer", "outcome": "rounds", "compare": "change", "smallest": 1},
    ]
    fork = {"of": "small", "at": [2], "change": ["none", {"silence": "byzantine"}], "repeats": 4}
    study = study_of(name="forks", fork=fork, questions=questions)
    # Rounds are no rate: without a pilot nothing is known of their spread.
    assert [plan.assumed is None for plan in planned(study, [])] == [False, True]
    write_frozen(study)
    simulate_shard(study, SCRIPTED, 0)
    summarize(study)
    row, _ = read_table("forks", "questions").to_dict("records")
    of_table = effect(read_table("forks", "forks"), "2", "silence-byzantine", "valid_consensus")
    assert 0 < row["value_from"] < row["value_to"] < 1
    for name in ("value_from", "value_to", "difference"):
        assert row[name] == pytest.approx(of_table[name])
    assert (row["pairs"], row["test"]) == (24, "sign flip")
    # More repeats are other answers: what was frozen says how many.
    assert row["confirmatory"]
    more = study_of(name="forks", fork=fork | {"repeats": 5}, questions=questions)
    told = list(registrations(read_table("forks", "simulations"), more))
    assert [each.registered for each in told] == ["its repeats CHANGED since it was frozen: exploratory"] * 2

    plan, _ = planned(study, played(study))
    assert plan.basis == "spread of 24 pairs; as with the pilot's repeats"


def betraying_once(view: Any, rng: np.random.Generator) -> Mapping[str, Any]:
    """Promise the stag always, and hunt the hare in the second round."""
    if view.phase == "signal":
        return {"reasoning": "", "word": "stag"}
    return {"reasoning": "", "action": HARE if view.round == 2 else "Hunt Stag"}


def recorded(study: Study, byzantine: Rule) -> None:
    """Record the games of a study in which a rule answers for the Byzantine agents."""
    for simulation in study.simulations():
        game = simulation.game()
        answers = {
            seat.name: ScriptedPolicy(byzantine)
            if seat.role == "byzantine"
            else scripted(simulation.players[seat.name])
            for seat in game.seats
        }
        finished = play(simulation.id, game, answers)
        write_record(simulation.record(study.name), simulation, finished, provenance(datetime.now(UTC), {}))


def test_one_betrayal_is_the_cause_and_no_other_message(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "b": 1, "byzantine": "always_stag", "prompt": "plain"}
    study = study_factory(grid, game="stag_hunt", seeds=1, parameters={"rounds": 4})
    recorded(study, betraying_once)
    [simulation] = study.simulations()
    [betrayer] = [seat.name for seat in simulation.seats if seat.role == "byzantine"]
    found = forked("stag_hunt", at="each", change=["none", {"silence": "each"}], repeats=2)["influences"]
    caused = found[found["influence"] != 0]
    assert caused[["round", "phase", "agent", "influence"]].to_numpy().tolist() == [[2, "act", betrayer, 1]]
    assert len(found[found["change"].str.startswith("silence_once")]) == 4 * 2 * 4
    assert caused["p_holm"].tolist() == [1]  # two of 2 against none of 2, over 32 messages
    # The explorer shows the recorded game beside its forks.
    shown = select(load_study(Path("forks.yaml")), 10_000)
    rows = index_content(shown, [part_rows(part) for part in shown.parts])["simulations"]
    game = rows["id"].index(simulation.id)
    assert {rows["parent"][place] for place in range(len(rows["id"])) if place != game} == {game}


def test_what_was_betrayed_cannot_be_saved_from_the_next_round_on(study_factory: StudyFactory) -> None:
    grid = {"model": "grim_trigger", "n": 4, "b": 1, "byzantine": "always_stag", "prompt": "plain"}
    recorded(study_factory(grid, game="stag_hunt", seeds=1, parameters={"rounds": 4}), betraying_once)
    assert (forked("stag_hunt", at="each", change="none", repeats=14)["influences"]["no_return"] == 3).all()


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], np.nan),
        ([0, 0], 1),
        ([1], 1),
        ([1, 1, 1, 1], 2 / 16),
        ([1, 1, -1, 0], 1),
        ([3, 1, 1], 2 / 8),
        ([0.2, 0.4, -0.2, -0.4], 1),
    ],
)
def test_flipped_signs_by_hand(differences: list[float], p: float) -> None:
    assert sign_flip(differences) == pytest.approx(p, nan_ok=True)
