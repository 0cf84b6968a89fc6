"""A model of which no reply can be used, as a service that speaks as real ones do."""

from pathlib import Path

import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import EngineError, PausedError, RecordError
from parley.play.degenerate import REMEDIES
from parley.play.pausing import GO_ON, clear_pauses, paused_lines
from parley.play.record_store import played_part
from parley.play.simulate import simulate_shard
from parley.policies import FAILURE_CLASSES
from parley.study import Study, load_study
from support.answering import StandInService, as_recorded, completion
from support.studies import play_all
from support.workflows import write_served

FENCED = "```json\n{}\n```"


def study_of(server: StandInService, **keys: object) -> Study:
    return write_served(server, **{"seeds": 4, "parameters": {"max_rounds": 2, "retries": 1}, **keys})


def stopped(study: Study) -> str:
    with pytest.raises(EngineError) as caught:
        simulate_shard(study, "services", 0)
    return str(caught.value)


@pytest.mark.promise("A model of which hardly any reply can be used pauses after some twenty, with the key to change.")
def test_a_model_of_which_no_reply_can_be_used_pauses_before_it_costs_more(
    server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(REMEDIES) == set(FAILURE_CLASSES)
    server.answer = lambda body: completion(FENCED)
    study = study_of(server)
    said = stopped(study)
    for words in (
        "paused",
        "cannot be used",
        "invalid_json",
        "```json {} ```",
        "code_fence: true",
        "--go-on",
    ):
        assert words in said, said
    asked = len(server.bodies)
    assert 20 <= asked <= 20 + 2 * 3  # what two games had in flight
    server.answer = as_recorded
    assert "paused" in stopped(study)  # by another process of this run
    [line] = paused_lines(study)
    assert line in said
    with pytest.raises(RecordError, match="paused: 20 of its first 20"):
        played_part(study)
    assert len(server.bodies) == asked
    server.answer = lambda body: completion(FENCED)
    clear_pauses(study)  # as the next run does
    assert "paused" in stopped(study)
    server.answer = as_recorded
    monkeypatch.setenv(GO_ON, "1")
    simulate_shard(study, "services", 0)
    assert all(s.record("small").exists() for s in study.simulations() if s.condition.models)
    assert paths.paused("small", "").parent.exists()
    play_all(study)
    summarize(study)
    assert not paths.paused("small", "").parent.exists()  # of a finished study nothing is left


def test_a_study_can_forbid_it_and_few_bad_replies_pause_nothing(server: StandInService) -> None:
    server.answer = lambda body: completion(FENCED)
    study = study_of(server, most_unusable=None)
    simulate_shard(study, "services", 0)
    left = [True] * 15
    server.answer = lambda body: completion(FENCED) if left and left.pop() else as_recorded(body)
    again = study_of(server, seeds=[7, 8, 9])
    simulate_shard(again, "services", 0)
    assert not paths.paused("small", "theirs").exists()
    assert issubclass(PausedError, EngineError)


def test_what_a_fork_leaves_out_or_has_of_its_parent_pauses_nothing(server: StandInService) -> None:
    simulate_shard(study_of(server), "services", 0)
    fork = {"of": "small", "where": {"model": "theirs"}, "at": 2, "change": {"silence": "honest"}}
    Path("forks.yaml").write_text(yaml.safe_dump({"game": "consensus", "fork": fork, "most_unusable": 0.4}))
    forks = load_study(Path("forks.yaml"))
    simulate_shard(forks, "services", 0)
    assert not paused_lines(forks)


@pytest.mark.promise("Processes of a study count the replies of a model together, each reply once.")
def test_processes_count_together(server: StandInService) -> None:
    server.answer = lambda body: completion(FENCED)
    study = study_of(server)
    count = paths.paused("small", "theirs").with_suffix(".count")
    count.parent.mkdir(parents=True)
    count.write_text("b" * 15)  # of another process
    assert "20 of its first 20" in stopped(study)
    assert len(server.bodies) < 15
