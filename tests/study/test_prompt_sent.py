"""What an agent is sent in a condition of a study is what the game asks it when it is played."""

from typing import Any

import pytest

from parley.errors import UsageError
from parley.play.record import read_record
from parley.play.simulate import simulate
from parley.policies import Ask
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.prompt_sent import PromptQuery, asked, prompt_sent
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A printed prompt is what the record of the game says.")

HONEST = PromptQuery("honest")
SOLVER = {"model": {"name": "solver", "accuracy": 1.0}, "b": 1, "byzantine": "stubborn", "prompt": "skeptical"}
STAG = {"model": "grim_trigger", "b": 1, "byzantine": "betray", "prompt": "plain"}


def sent(study: Study, query: PromptQuery = HONEST, seed: int = 0) -> Ask:
    return prompt_sent(study, {}, query, seed).ask


@pytest.mark.parametrize(
    ("game", "grid", "parameters"),
    [
        ("consensus", {"b": 1, "byzantine": "silent"}, {"protocol": "paper", "max_rounds": 4}),
        ("consensus", {"b": 1, "byzantine": "silent"}, {"protocol": "swarms", "max_rounds": 4}),
        ("deliberation", SOLVER, {}),
        ("stag_hunt", STAG, {"rounds": 3}),
    ],
)
def test_scripted_agents_without_chance_are_sent_what_their_record_says(
    study_factory: StudyFactory, game: str, grid: dict[str, Any], parameters: dict[str, Any]
) -> None:
    study = study_factory({"n": 4, **grid}, game=game, parameters=parameters)
    [simulation] = study.simulations()
    simulate(study, simulation.record("small"), [], 0.0)
    _, entries = read_record(simulation.record("small"))
    assert {entry.agent for entry in entries} == {f"agent_{number}" for number in range(1, 5)}
    for entry in entries:
        found = sent(study, PromptQuery(None, entry.agent, entry.round, entry.phase))
        assert (found.agent, found.round, found.phase) == (entry.agent, entry.round, entry.phase)
        assert found.digest == entry.ask  # system prompt, user prompt and sampling


def test_the_first_agent_of_the_role_is_taken_unless_one_is_named(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 6, "b": 2, "byzantine": "random"}, parameters={"protocol": "swarms"})
    for role in ("honest", "byzantine"):
        for seed in range(3):
            seats = Simulation(study.conditions[0], seed).game().seats
            first = next(seat.name for seat in seats if seat.role == role)
            assert {sent(study, PromptQuery(role, round=n), seed=seed).agent for n in (1, 2)} == {first}
    assert sent(study, PromptQuery(None, "agent_4")).agent == "agent_4"


def test_an_agent_outside_the_panel_is_not_taken(study_factory: StudyFactory) -> None:
    parameters = {"panel_size": 2, "stop_when_unanimous": True}
    grid = {"model": "tiny", "n": 5, "b": 1, "byzantine": "stubborn", "prompt": "improve"}
    study = study_factory(grid, game="deliberation", parameters=parameters)
    for seed in range(4):
        panel = {ask.agent for ask in asked(Simulation(study.conditions[0], seed).game(), seed)}
        assert len(panel) == 2
        assert sent(study, seed=seed).agent in panel
        outside = next(f"agent_{i}" for i in range(1, 6) if f"agent_{i}" not in panel)
        with pytest.raises(UsageError, match=f"agent {outside}.; choose another agent"):
            sent(study, PromptQuery(None, outside), seed=seed)
