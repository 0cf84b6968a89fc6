"""Effective votes and conformity: known truths, and every value by other code from the table of turns."""

from collections import Counter, defaultdict
from functools import partial
from statistics import mean
from typing import Any

import numpy as np
import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.figures.make import draw
from parley.figures.style import own_style
from parley.games.deliberation import votes
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.votes import effective_votes, independent_right, lost_by_dependence, pseudo_values
from parley.play.simulate import simulate_shard
from parley.report.answers import is_number
from parley.report.overview import votes_sentences
from parley.statistics.stats import mean_interval
from parley.study import Study
from parley.study.condition import SCRIPTED
from support.studies import StudyFactory

N, SEEDS = 5, 100


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    """Agents who solve alone, and those who join whoever leads."""
    models = [{"name": "solver", "accuracy": 0.5, "conformity": share} for share in (0.0, 1.0)]
    question = {"name": "worth", "outcome": "effective_votes", "compare": "model", "smallest": 1}
    study = study_factory(
        {"model": models, "n": N, "prompt": "improve"},
        game="deliberation",
        parameters={"turns": 2, "stop_when_unanimous": False},
        seeds=SEEDS,
        questions=[question],
    )
    simulate_shard(study, SCRIPTED, 0)
    summarize(study)
    return study


def rows(study: Study, name: str, **where: Any) -> list[dict[Any, Any]]:
    table = read_table(study.name, name)
    for axis, value in where.items():
        table = table[table[axis].astype(str) == str(value)]
    return table.to_dict("records")


@pytest.mark.promise(
    "Independent agents are worth as many votes as they are, those who copy each other one (control)."
)
def test_independent_agents_are_worth_their_number_and_copies_one(study: Study) -> None:
    alone, joining = sorted({row["model"] for row in rows(study, "votes")})
    for model in (alone, joining):
        [first] = rows(study, "votes", model=model, answers="first")
        assert first["low"] < N < first["high"]
        assert first["lost_low"] < 0 < first["lost_high"]
        assert first["independent"] == pytest.approx(independent_right(np.array([first["skill"] * N]), N))
    [after] = rows(study, "votes", model=joining, answers="last")
    assert after["high"] < 2
    [question] = rows(study, "questions")
    assert question["answer"] == "differs"
    assert is_number(question, DeliberationGame)
    assert question["value_to"] == pytest.approx(after["effective"])
    [kept] = rows(study, "conformity", model=alone, faced="any")
    assert kept["gave_way"] == 0
    assert all(row["gave_way"] == 1 for row in rows(study, "conformity", model=joining) if row["faced"] in ("3", "4"))
    told = votes_sentences(*(read_table(study.name, name) for name in ("votes", "conformity")), list(study.axes))
    assert "5 agents are worth" in told[0]
    assert told[-1].startswith(f"With model={joining}: ")
    drawn = {spec.name: spec for spec in study.game.evidence.figures if spec.kind in ("votes", "faced")}
    with own_style():
        pages = {name: draw(study, spec, partial(read_table, study.name)) for name, spec in drawn.items()}
    nobody_right = read_table(study.name, "conformity").assign(misled=np.nan)
    assert draw(study, drawn["conformity"], lambda name: nobody_right)
    assert [len(page.axes) for page in pages["conformity"]] == [2]  # a panel for each model
    assert [len(page.axes) for page in pages["effective_votes"]] == [1]


@pytest.mark.promise("Intervals of effective votes hold the truth in nine of ten made-up studies, and more.")
def test_intervals_of_effective_votes_hold_what_they_should() -> None:
    rng = np.random.default_rng(1)
    for together in (0.0, 0.1, 0.6):
        truth, held = 4 / (1 + 3 * together), []
        for _ in range(200):
            skill = rng.beta(0.6 * (1 / together - 1), 0.4 * (1 / together - 1), 40) if together else 0.6
            found = mean_interval(pseudo_values(effective_votes, rng.binomial(4, skill, 40).astype(float), 4))
            held.append(found.low <= truth <= found.high)
        assert mean(held) > 0.9, together


@pytest.mark.promise(
    "Independent voters are said to lose or to gain right majorities in at most one of twenty (null)."
)
def test_independent_voters_lose_nothing() -> None:
    rng, claims = np.random.default_rng(2), []
    for skill, voters, games in ((0.6, 5, 40), (0.8, 9, 80), (0.9, 5, 200), (0.7, 3, 80)):
        for _ in range(150):
            right = rng.binomial(voters, skill, games).astype(float)
            found = mean_interval(pseudo_values(lost_by_dependence, right, voters))
            claims.append(found.low > 0 or found.high < 0)
    assert mean(claims) < 0.05


def test_votes_by_hand() -> None:
    copies = np.array([4.0, 0] * 12)
    assert effective_votes(copies, 4) == 1
    assert mean_interval(pseudo_values(effective_votes, copies, 4)).high == 1
    assert np.isnan(pseudo_values(effective_votes, copies[1:], 4)).all()  # too few of which some are right
    assert np.isinf(effective_votes(np.array([2.0, 2, 2]), 4))
    assert independent_right(np.array([3.0, 0.0]), 3) == 0.5
    assert independent_right(np.array([2.0]), 4) == pytest.approx(5 / 16)  # half of the votes are no majority
    assert lost_by_dependence(np.array([3.0, 0.0, 3.0]), 3) == pytest.approx((2 / 3) ** 2 * (3 - 4 / 3) - 2 / 3)


def test_who_is_silent_gives_nothing_up_and_in_turn_hears_only_who_spoke_before() -> None:
    before: Any = {"answers": {"a": "1", "b": "2", "c": "2"}}
    heard = {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}
    after: Any = {"answers": {"a": None, "b": "2", "c": "3"}, "heard": heard, "in_turn": True}
    # Nothing of a; b hears that c held 2, not what it says then; c gives up what all still hold that it hears.
    assert [*votes._given_again([before, after], "abc", "2")] == [(0, False, True, False), (0, True, True, True)]


@pytest.mark.promise("Every value of `votes` and `conformity` is what other code makes of the table of turns.")
def test_other_code_finds_the_same(study: Study) -> None:
    turns = read_table(study.name, "turns")
    for model, of_model in turns.groupby("model"):
        games = {
            seed: {
                turn: dict(zip(each["agent"], zip(each["answer"], each["correct"], strict=True), strict=True))
                for turn, each in game.groupby("turn")
            }
            for seed, game in of_model.groupby("seed")
        }
        for answers, turn in (("first", 0), ("last", 2)):
            right = [[held for _, held in game[turn].values()] for game in games.values()]
            skill = mean(mean(each) for each in right)
            [row] = rows(study, "votes", model=model, answers=answers)
            assert row["skill"] == pytest.approx(skill)
            assert row["majority"] == pytest.approx(mean(sum(each) >= 3 for each in right))
            # The analysis of variance, as sums of squares.
            between = sum(N * (mean(each) - skill) ** 2 for each in right) / (SEEDS - 1)
            within = sum((held - mean(each)) ** 2 for each in right for held in each) / (SEEDS * (N - 1))
            together = (between - within) / (between + (N - 1) * within)
            counts = np.array([float(sum(each)) for each in right])
            assert effective_votes(counts, N) == pytest.approx(N / (1 + (N - 1) * together))
        given: dict[str, list[tuple[bool, bool, bool]]] = defaultdict(list)
        for game in games.values():
            for turn in (1, 2):
                for agent, (new, is_right) in game[turn].items():
                    old, was_right = game[turn - 1][agent]
                    against = Counter(
                        held for peer, (held, _) in game[turn - 1].items() if peer != agent and held != old
                    )
                    most = max(against.values(), default=0)
                    gave_way = (against[new] == most) if most else new != old
                    given[str(most)].append((gave_way, was_right, gave_way and not is_right))
        given["any"] = [each for faced, several in given.items() if faced != "0" for each in several]
        found = {row["faced"]: row for row in rows(study, "conformity", model=model)}
        assert {faced for faced, several in given.items() if several} == {*found} - (
            {"any"} if not given["any"] else set()
        )
        for faced, several in given.items():
            if not several:
                continue
            assert found[faced]["answers"] == len(several)
            assert found[faced]["gave_way"] == pytest.approx(mean(gave_way for gave_way, *_ in several))
            misled = [wrong for _, was_right, wrong in several if was_right]
            assert found[faced]["right"] == len(misled)
            assert not misled or found[faced]["misled"] == pytest.approx(mean(misled))
