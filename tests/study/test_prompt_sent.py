"""What an agent is sent in a condition of a study is what the game asks it when it is played."""

from typing import Any

import pytest

from parley.play.record import read_record
from parley.play.simulate import simulate
from parley.policies import Ask
from parley.study import Study
from parley.study.prompt_sent import PromptQuery, prompt_sent
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
