"""HiddenBench: its file, its protocol, and its rates, recomputed in plain Python from the records."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.parameters import Group
from parley.games.problems.sources import HiddenBench
from parley.play.record import read_summary, read_trace
from parley.play.replay import replay
from parley.policies.reply_text import parse_reply
from parley.study import Study
from support.commands import Parley
from support.playing import drive, scripted_policies
from support.studies import StudyFactory, play_all

PUBLISHED = Path(__file__).parents[4] / "shared/data/hiddenbench/benchmark_all_clean.json"
CHOICES = ["the ferry", "the bus", "the night train"]


def task(number: int, hidden: int = 4, **changed: Any) -> dict[str, Any]:
    """Return a made-up task in the form of HiddenBench."""
    return {
        "id": number,
        "name": f"trip_{number}",
        "description": f"A group plans trip {number}.\nHow should it travel?",
        "shared_information": [f"Trip {number} begins on a Monday.", "The bus is cheap."],
        "hidden_information": [f"Hidden fact {place} of trip {number}." for place in range(hidden)],
        "possible_answers": CHOICES,
        "correct_answer": CHOICES[number % 3],
    } | changed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a file of 25 tasks for four agents and two for three."""
    path = tmp_path / "bench.json"
    path.write_text(json.dumps([task(number, 4 if number < 25 else 3) for number in range(27)]), encoding="utf-8")
    return path


def study_of(study_factory: StudyFactory, model: Any, file: Path, seeds: int = 8, **given: Any) -> Study:
    grid = {"model": model, "n": 4, "prompt": "improve", "vary": {"facts": ["dealt", "all"]}}
    problems = {"kind": "hidden_bench", "path": str(file), "agents": 4}
    parameters = {"problems": problems, "turns": 1, "talk": 15, "order": "in_turn", "stop_when_unanimous": False}
    return study_factory(grid, game="deliberation", parameters=parameters | given, seeds=seeds)


def test_its_file(file: Path) -> None:
    source = HiddenBench(path=str(file), agents=4)
    assert (source.size, HiddenBench(path=str(file), agents=3).size, HiddenBench(path=str(file)).size) == (25, 2, 27)
    problem = source.problem(0)
    number = int(problem.id.removeprefix("hidden_bench-"))
    assert problem.options["ABC".index(str(problem.answer))] == CHOICES[number % 3]
    copy = file.with_name("copy.json")
    copy.write_bytes(file.read_bytes())
    assert HiddenBench(path=str(copy), agents=4).model_dump() == source.model_dump()
    with pytest.raises(UsageError, match="0 problems; add some"):
        HiddenBench(path=str(file), agents=9).check()
    for agents, named in ((None, 3), (None, 4), (4, 3), (4, 4)):
        parameters = DeliberationParameters(problems=HiddenBench(path=str(file), agents=agents))
        with nullcontext() if agents == named else pytest.raises(UsageError, match=f"write agents: {named}"):
            DeliberationGame.check(parameters, [Group("honest", named)])
    file.write_text(json.dumps([task(0, correct_answer="by air")]), encoding="utf-8")
    with pytest.raises(UsageError, match=r"bench.json: task 1: .*answer"):
        HiddenBench(path=str(file)).check()
    file.write_text('{"id": 1}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"bench.json: not HiddenBench's list of tasks"):
        HiddenBench(path=str(file)).check()


@pytest.mark.skipif(not PUBLISHED.exists(), reason="HiddenBench is not here")
def test_the_published_file() -> None:
    assert [HiddenBench(path=str(PUBLISHED), agents=agents).size for agents in (4, 3)] == [58, 7]


def test_who_is_told_what_and_when(study_factory: StudyFactory, file: Path, parley: Parley) -> None:
    study = study_of(study_factory, "pooler", file)
    simulation = next(iter(study.simulations()))
    game = simulation.game()
    policies = scripted_policies(simulation, game)
    batches, _ = drive(game, lambda ask: parse_reply(policies[ask.agent].text(ask, 0), "stop", ask.reply_model))
    assert [len(batch) for batch in batches] == [4, *[1] * 4, *[4] * 14, 4]  # in turn in the first round only
    assert [batch[0].phase for batch in batches] == ["initial", *["talk"] * 18, "reflect"]
    assert [batch[0].round for batch in batches] == [0, *[1] * 4, *range(2, 17)]
    first = batches[0]
    orders = set()
    for ask in first:
        facts = [line for line in ask.user.split("\n") if line.startswith("- ")]
        assert sum("Hidden fact" in fact for fact in facts) == 1
        assert len(facts) == 3
        orders.add(tuple("Hidden" in fact or fact for fact in facts))
    assert len(orders) > 1
    assert "nobody has spoken yet" in batches[1][0].user
    said = batches[2][0].user.partition("=== WHAT WAS SAID ===")[2]
    assert said.count("Hidden fact") == said.count("agent_1: ") == 1
    assert re.search(r"^Round 1, talk\n  agent_1   honest     \S", parley("play", str(study.file)).out, re.M)


def test_a_group_is_right_before_and_after_as_its_records_say(study_factory: StudyFactory, file: Path) -> None:
    """32 games: agents that pool facts, and agents that follow the majority."""
    solver = {"name": "solver", "accuracy": 0.3, "conformity": 1}
    for model, order in (("pooler", "in_turn"), (solver, "at_once")):  # in turn the first speaker would be followed
        study = study_of(study_factory, model, file, order=order)
        right: dict[str, list[tuple[float, float]]] = {"dealt": [], "all": []}
        for simulation, record in zip(study.simulations(), play_all(study), strict=True):
            assert replay(record).identical
            answer = read_summary(record).outcome["metrics"]["right_answer"]
            before, after = (list(turn["answers"].values()) for turn in read_trace(record))
            rates = before.count(answer) / 4, after.count(answer) / 4
            right[str(simulation.condition.axes["facts"])].append(rates)
            if model == "pooler":
                assert rates == ((1, 1) if simulation.condition.axes["facts"] == "all" else (0, 1))
            elif before.count(answer) == 0:
                assert rates[1] == 0
            elif max(map(before.count, {*before} - {answer}), default=0) > 2:
                assert rates[1] == 0, "the majority stays wrong"
        summarize(study)
        assert not len(read_table(study.name, "conformity"))  # they heard no answers
        assert "conformity" not in [figure.name for figure in study.figures]
        assert read_table(study.name, "measures")["corrected_after_hearing"].isna().all()
        table = read_table(study.name, "measures").groupby("facts")[["first_accuracy", "last_accuracy"]].mean()
        for facts, pairs in right.items():
            means = [sum(rates) / len(pairs) for rates in zip(*pairs, strict=True)]
            assert [*table.loc[facts]] == pytest.approx(means)
