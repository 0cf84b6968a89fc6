"""A model that is a service, in every command: what they do with it, and that nothing says where it is or its key."""

from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine.endpoint import Endpoint
from parley.figures import make as make_figures
from parley.play.record import read_summary
from parley.study import Study
from parley.study.recorded import rebuilt
from support.answering import KEY, SERVED, VARIABLE, StandInService
from support.commands import Parley, one_line_error
from support.studies import StudyFactory, everything, records_of

pytestmark = pytest.mark.promise("Every command works with a service as a model, and nothing says where it is.")


def make(study_factory: StudyFactory, url: str, **grid: Any) -> Study:
    models = {"tiny": {"source": {"url": url, "served": SERVED, "key_variable": VARIABLE}}}
    return study_factory({"model": "tiny", **grid}, models=models, parameters={"max_rounds": 2}, seeds=2)


@pytest.fixture
def study(study_factory: StudyFactory, server: StandInService) -> Study:
    return make(study_factory, server.url)


@pytest.mark.slow
def test_all_that_was_played_is_used_without_the_key_and_nothing_says_where_the_service_is(
    study: Study, server: StandInService, parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ""
    for record in records_of(study):
        ran = parley("simulate", "small.yaml", record)
        assert ran.status == 0
        said += ran.out + ran.err

    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(make_figures, "FORMATS", (".svg",))  # a third of the time
    asked = len(server.heads)
    for command in ("expand", "status", "summarize", "figures", "report"):
        assert parley(command, "small.yaml").status == 0
    assert parley("replay", *records_of(study)).status == 0
    for record in records_of(study):
        assert parley("simulate", "small.yaml", record).status == 0  # finished before
    assert len(server.heads) == asked

    made = read_summary(records_of(study)[0])
    engine = {"engine": "service", "served": SERVED, "versions": {"vllm": "0.32.0"}}
    assert made.provenance["engines"] == {"tiny": engine}
    assert made.simulation["groups"][0]["model"]["source"] == {"served": SERVED}
    for name, content in {**dict(everything(study)), "what the commands said": said}.items():
        for word in (KEY, VARIABLE, "127.0.0.1", f":{server.server_address[1]}"):
            assert word not in content, f"{word} in {name}"
    assert f"service of {SERVED}, vllm 0.32.0 (2 simulations)" in paths.report("small").read_text()

    for path in records_of(study):
        path.rename(path.with_suffix(".old"))
    for command in (["simulate", "small.yaml", records_of(study)[0]], ["play", "small.yaml"]):
        assert f"set the environment variable {VARIABLE}" in one_line_error(parley(*command), 2)
    assert not list(Path("results").glob("*/journals/**/*.jsonl"))
    assert len(server.heads) == asked


def test_a_record_of_a_service_says_what_it_is_and_is_not_verified_and_another_place_changes_no_path(
    study: Study, parley: Parley, study_factory: StudyFactory
) -> None:
    [record, _] = records_of(study)
    parley("simulate", "small.yaml", record)
    assert rebuilt(record, read_summary(record).simulation).id == next(study.simulations()).id
    assert records_of(make(study_factory, "https://elsewhere.example/v1")) == records_of(study)
    refused = one_line_error(parley("verify", record, "--models", "models.yaml"), 2)
    assert "no request to a server of Parley's own is in it" in refused


def test_no_engine_of_its_own_is_needed_or_taken(study: Study, server: StandInService, parley: Parley) -> None:
    ran = parley("play", "small.yaml", "--model", "tiny")
    assert ran.status == 0, ran.err
    assert "Outcome:" in ran.out
    assert server.bodies
    Endpoint(model="tiny", socket="/nowhere", pid=1).write(Path("e.json"))
    for command in (["simulate", "small.yaml", records_of(study)[0]], ["play", "small.yaml", "--endpoint"]):
        assert "which is a service here" in one_line_error(parley(*command, "e.json"), 2)
    for command in (["fetch-model", "tiny"], ["serve", "tiny", "--endpoint", "e.json"]):
        ran = parley(*command, "--models", "models.yaml")
        assert "tiny: a service that somebody else runs" in one_line_error(ran, 2)
