"""What a group that talks decides beside what the same tokens buy, from groups of which the truth is known."""

import json
from functools import partial
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.deliberation.talking import equal_cost_table, what_counts
from parley.games.deliberation.turns import chance_right
from parley.policies import Ask, Completion
from parley.policies.kinds import ScriptedPolicy
from parley.report.overview import talking_sentences
from parley.study import Study
from support.answering import record_with_model
from support.studies import MODELS, StudyFactory, summarized

ARMS: list[Any] = ["independent", "self_correction", "placebo"]


def talking(make: StudyFactory, model: Any, seeds: int, n: int = 3, compare_with: Any = ARMS, **more: Any) -> Study:
    parameters = {"turns": 2, "stop_when_unanimous": False, **more.pop("parameters", {})}
    grid = {"model": model, "n": n, "prompt": "improve"}
    return make(grid, game="deliberation", parameters=parameters, seeds=seeds, compare_with=compare_with, **more)


def played(study: Study) -> dict[str, dict[str, Any]]:
    """Play a study of scripted agents, and return the rows of its table by arm."""
    summarized(study)
    return {str(row["arm"]): dict(row) for row in read_table(study.name, "equal_cost").to_dict("records")}


def of_two_choices() -> dict[str, Any]:
    """Write ninety problems of two choices, and return what a study says of them."""
    rows = [{"question": f"Is {i} odd?", "answer": ("no", "yes")[i % 2], "choices": ["yes", "no"]} for i in range(90)]
    Path("two.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"problems": {"kind": "jsonl", "path": "two.jsonl", "answers": "choice"}}


def sentence(study: Study) -> str:
    [text] = talking_sentences(read_table(study.name, "equal_cost"), study.axes)
    return text


def solver(accuracy: float, conformity: float = 0.0, recognize: float = 0.0) -> dict[str, Any]:
    return {"name": "solver", "accuracy": accuracy, "conformity": conformity, "recognize": recognize}


@pytest.mark.promise("Independent answers at equal cost are right as often as the jury theorem says (closed form).")
def test_the_jury_theorem_at_equal_cost(study_factory: StudyFactory) -> None:
    study = talking(study_factory, solver(0.7), 60, compare_with=["independent"], parameters=of_two_choices())
    rows = played(study)
    assert rows["independent"]["answers"] == 9  # as many as a talk of three in two turns has
    assert rows["independent"]["unit"] == "requests"  # rules report no tokens
    assert np.isnan(rows["independent"]["tokens"])
    expected = {n: sum(comb(n, k) * 0.7**k * 0.3 ** (n - k) for k in range(n // 2 + 1, n + 1)) for n in (3, 9)}
    assert rows["independent"]["low"] < expected[9] < rows["independent"]["high"]
    assert rows["first_answers"]["low"] < expected[3] < rows["first_answers"]["high"]
    assert "9 requests a game" in sentence(study)


@pytest.mark.promise(
    "A tied plurality counts as its chance of being right: even numbers of votes look no worse (null)."
)
def test_talking_gains_nothing_by_ties_where_nobody_changes_an_answer(study_factory: StudyFactory) -> None:
    for n in range(1, 8):
        chances = [chance_right(votes, "yes") for votes in product(("yes", "no"), repeat=n)]
        assert np.mean(chances) == 0.5
    arm = {"independent": 3}
    rows = played(talking(study_factory, solver(0.5), 90, n=2, compare_with=arm, parameters=of_two_choices()))
    for arm in ("talk", "independent", "first_answers"):
        assert rows[arm]["low"] < 0.5 < rows[arm]["high"]
    assert rows["independent"]["difference_low"] < 0 < rows["independent"]["difference_high"]


@pytest.mark.promise(
    "Agents that recognize the right answer gain by talking, and neither by self-correction nor by a placebo."
)
def test_a_gain_is_of_talking_alone(study_factory: StudyFactory) -> None:
    study = talking(study_factory, solver(0.35, recognize=1.0), 30)
    rows = played(study)
    for arm in ("first_answers", "self_correction", "placebo"):
        assert rows[arm]["difference_high"] < 0
        assert rows[arm]["p_holm"] < 0.02
    simulations = read_table(study.name, "simulations").set_index("arm")
    first, last = (simulations[f"{name}_majority_correct_honest"] for name in ("first", "last"))
    for arm in ("self_correction", "placebo"):
        assert (first[arm] == last[arm]).all()
    assert (~first["talk"] & last["talk"]).any()
    assert rows["self_correction"]["cost_ratio"] == 1
    assert rows["placebo"]["cost_ratio"] == pytest.approx(4 / 3)  # the other problem is asked, too
    assert not sentence(study).startswith(("Was talking worth it? No", "Was talking worth it? These games"))


@pytest.mark.promise("A placebo shows nothing for agents that copy what they hear, or listen to nobody.")
@pytest.mark.parametrize("conformity", [0.0, 1.0])
def test_a_placebo_shows_nothing(conformity: float, study_factory: StudyFactory) -> None:
    study = talking(study_factory, solver(0.5, conformity=conformity), 15, compare_with=["placebo"])
    rows = played(study)
    placebo = read_table(study.name, "simulations").query("arm == 'placebo'")
    assert (placebo["first_majority_correct_honest"] == placebo["last_majority_correct_honest"]).all()
    assert rows["placebo"]["low"] < rows["first_answers"]["high"]
    rounds = read_table(study.name, "rounds").query("arm == 'placebo' and measure == 'accuracy'")
    assert rounds["mean"].nunique() == 1


# As many answers as talking paid for


def paid(study: Study, arm: str, seed: int, costs: list[float], rights: str) -> list[dict[str, Any]]:
    """Return the rows of a game whose agents cost so many tokens each; rights has y or n for 1, 2, ... answers."""
    [condition] = [each for each in study.conditions if each.axes["arm"] == arm]
    rows: list[dict[str, Any]] = [
        {"answers": number, "right": number > 0 and rights[number - 1] == "y", "requests": 2 * number, "arm": arm}
        | {"prompt_tokens": sum(costs[:number]) - 10 * number, "completion_tokens": 10 * number}
        | {"cached_tokens": 5 * number, "condition": condition.name, "seed": seed, "id": f"{arm}-{seed}"}
        for number in range(len(costs) + 1)
    ]
    if arm == "independent":
        return rows
    return [{**rows[-1], "answers": np.nan}, {**rows[1], "answers": np.nan, "arm": "first_answers"}]


@pytest.mark.promise(
    "Of independent answers the first ones count, as many as cost no more than talking, game by game."
)
def test_as_many_answers_as_talking_paid_for(study_factory: StudyFactory) -> None:
    models = {"tiny": {**MODELS["models"]["tiny"], "price": {"prompt": 1e6, "completion": 2e6, "cached": 0}}}
    study = talking(study_factory, "tiny", 5, models=models, compare_with=["independent"])
    games = []
    talk = [100.0, 100.0, 100.0]
    for seed, (costs, rights) in enumerate(
        [
            ([100.0] * 5, "nnynn"),  # exactly three
            ([110.0] * 5, "nynnn"),  # two, and not a token more
            ([50.0] * 6, "nnnnny"),  # all six cost the same
            ([40.0] * 4, "nnny"),  # all four cost less: too few
            ([310.0, 1.0], "yy"),  # not one: no decision
        ]
    ):
        games += paid(study, "talk", seed, talk, "nny" if seed == 0 else "nnn")
        games += paid(study, "independent", seed, costs, rights)
    games += [*paid(study, "talk", 8, talk, "nny"), *paid(study, "independent", 9, talk, "yyy")]  # of one alone
    counts = what_counts(games, study)
    assert list(counts.query("arm == 'independent'")["right"]) == [True, True, True, True, False]
    table = equal_cost_table(counts, study)
    rows = {row["arm"]: row for row in table.to_dict("records")}
    row = rows["independent"]
    assert (row["simulations"], row["answers"], row["short"]) == (5, (3 + 2 + 6 + 4 + 0) / 5, 1 / 5)
    assert row["tokens"] == (300 + 220 + 300 + 160 + 0) / 5
    assert row["cost_ratio"] == pytest.approx(980 / 1500)
    assert row["money"] == pytest.approx((980 - 15 * 5 + 15 * 10) / 5)
    assert (row["right"], row["difference"]) == (0.8, pytest.approx(0.6))
    assert (rows["talk"]["simulations"], rows["talk"]["tokens"], rows["talk"]["unit"]) == (6, 300, "tokens")
    assert rows["first_answers"]["cost_ratio"] == pytest.approx(1 / 3)
    text = talking_sentences(table, study.axes)[0]
    assert "in 20% of the games all of them cost less than talking" in text
    assert "These games cannot tell" in text
    assert "300 tokens and 315 in money a game" in text


class Counted:
    """A rule whose replies say that they used a token for four characters."""

    def __init__(self, rule: ScriptedPolicy) -> None:
        self._rule = rule

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        text = self._rule.text(ask, seed)
        return Completion(text, "stop", len(ask.system + ask.user) // 4, len(text) // 4)


@pytest.mark.promise("What talking cost is told from recorded tokens, from the study to the report's sentence.")
def test_recorded_tokens_say_what_talking_cost(study_factory: StudyFactory) -> None:
    asked = [{"name": "worth", "outcome": "right_at_equal_cost", "compare": "arm", "values": ["independent", "talk"]}]
    asked[0] |= {"smallest": 0.2}
    parameters = {"reply_format": "json"}
    study = talking(study_factory, "tiny", 12, models=MODELS["models"], parameters=parameters, questions=asked)
    kind = study.game.policies["solver"]
    assert kind.rule is not None
    given = kind.Parameters.model_validate({"accuracy": 0.4, "conformity": 0.0, "recognize": 1.0})
    rule = ScriptedPolicy(partial(kind.rule, given=given))
    for simulation in study.simulations():
        record_with_model(simulation, simulation.record(study.name), policy=Counted(rule))
    summarize(study)
    rows = {str(row["arm"]): row for row in read_table(study.name, "equal_cost").to_dict("records")}
    simulations = read_table(study.name, "simulations").set_index(["arm", "seed"])
    used = simulations["prompt_tokens"] + simulations["completion_tokens"]
    for arm in ("talk", "self_correction"):
        assert rows[arm]["tokens"] == pytest.approx(used[arm].mean(), abs=0.001)
    assert used["self_correction"].mean() < used["talk"].mean()
    taken = rows["independent"]
    assert 9 < taken["answers"] < 27  # who talks reads more than who answers alone
    assert 0.9 < taken["cost_ratio"] <= 1
    assert f"{taken['answers']:.3g} answers a game" in sentence(study)
    [question] = read_table(study.name, "questions").to_dict("records")
    assert (question["pairs"], question["value_from"]) == (12, pytest.approx(taken["right"]))
    assert question["difference"] == pytest.approx(-taken["difference"])
