"""A model that is a service, in every command: what they do with it, and that nothing says where it is or its key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine.endpoint import Endpoint
from parley.errors import UsageError
from parley.play.record import read_summary
from parley.study import Study
from support.answering import SERVED, StandInService, completion, service
from support.commands import Parley, one_line_error
from support.leaks import everything
from support.studies import StudyFactory

KEY, VARIABLE = "sk-7f3a9c51d2e8", "TINY_API_KEY"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInService]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)
    with service() as found:
        yield found


def make(study_factory: StudyFactory, url: str, **grid: Any) -> Study:
    models = {"tiny": {"source": {"url": url, "served": SERVED, "key_variable": VARIABLE}}}
    return study_factory({"model": "tiny", **grid}, models=models, parameters={"max_rounds": 2}, seeds=2)


@pytest.fixture
def study(study_factory: StudyFactory, server: StandInService) -> Study:
    return make(study_factory, server.url)


def records(study: Study) -> list[Path]:
    return [simulation.record("small") for simulation in study.simulations()]


def test_a_study_of_a_service_is_played_shown_and_replayed_and_nothing_says_where_it_is(
    study: Study,
    server: StandInService,
    parley: Parley,
) -> None:
    said = ""
    for record in records(study):
        ran = parley("simulate", "small.yaml", record)
        assert ran.status == 0
        said += ran.out + ran.err
    for command in ("summarize", "figures", "report"):
        assert parley(command, "small.yaml").status == 0
    assert parley("replay", *records(study)).status == 0
    made = read_summary(records(study)[0])
    assert made.provenance["engines"] == {
        "tiny": {"engine": "service", "served": SERVED, "versions": {"vllm": "0.32.0"}}
    }
    assert made.simulation["groups"][0]["model"]["source"] == {"served": SERVED}
    found = {**dict(everything(study)), "what the commands said": said}
    for name, content in found.items():
        for word in (KEY, VARIABLE, "127.0.0.1", f":{server.server_address[1]}"):
            assert word not in content, f"{word} in {name}"
    assert f"service of {SERVED}, vllm 0.32.0 (2 simulations)" in paths.report("small").read_text()


def test_a_shown_study_of_a_service_is_the_same_simulation_and_asks_for_the_url(
    study: Study,
    server: StandInService,
    parley: Parley,
    study_factory: StudyFactory,
) -> None:
    [record, _] = records(study)
    parley("simulate", "small.yaml", record)
    Path("again").mkdir()
    shown = parley("show", record, "--study", "again/small.yaml")
    assert shown.status == 0, shown.err
    written = Path("again/models.yaml").read_text()
    assert "put its URL there, and its key_variable" in written
    assert "service.invalid" in written
    listed = parley("expand", "again/small.yaml", "--paths").out
    assert listed.split() == [str(record)]
    # The user's own entry, which says where the service is, has what the record needs.
    assert parley("show", record, "--study", "same.yaml").status == 0


def test_another_place_changes_no_path(study: Study, study_factory: StudyFactory) -> None:
    assert records(make(study_factory, "https://elsewhere.example/v1")) == records(study)


def test_verify_asks_the_service_again(study: Study, server: StandInService, parley: Parley) -> None:
    [record, _] = records(study)
    parley("simulate", "small.yaml", record)
    ran = parley("verify", record, "--models", "models.yaml", "--batch", 2, "--sample", 2)
    assert ran.status == 0, ran.err
    assert "warning" not in ran.err
    assert len([body for body in server.bodies if "cache_salt" in body]) == 2 * (1 + 2) * 2
    server.answer = lambda _: completion("{}")
    assert parley("verify", record, "--models", "models.yaml", "--batch", 2, "--sample", 2).status == 1

    server.pages["/version"] = (404, {})
    assert "does not say that it is vLLM" in one_line_error(parley("verify", record, "--models", "models.yaml"), 1)
    Endpoint(model="tiny", socket="/nowhere", pid=1).write(Path("e.json"))
    refused = one_line_error(parley("verify", record, "--engine", "e.json"), 2)
    assert "a service answered it, which needs no --engine" in refused


def test_play_needs_no_engine_of_its_own(study: Study, server: StandInService, parley: Parley) -> None:
    ran = parley("play", "small.yaml", "--model", "tiny")
    assert ran.status == 0, ran.err
    assert "Outcome:" in ran.out
    assert server.bodies


def test_an_endpoint_for_a_service_is_refused(study: Study, parley: Parley) -> None:
    Endpoint(model="tiny", socket="/nowhere", pid=1).write(Path("e.json"))
    for command in (["simulate", "small.yaml", records(study)[0]], ["play", "small.yaml", "--endpoint"]):
        assert "tiny is a service" in one_line_error(parley(*command, "e.json"), 2)


def test_a_missing_key_stops_what_asks_and_nothing_else(
    study: Study,
    server: StandInService,
    parley: Parley,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for record in records(study):
        parley("simulate", "small.yaml", record)
    monkeypatch.delenv(VARIABLE)
    asked = len(server.heads)
    for command in ("expand", "status", "summarize", "figures", "report"):
        assert parley(command, "small.yaml").status == 0
    for record in records(study):
        assert parley("simulate", "small.yaml", record).status == 0  # finished before
    again = [path.rename(path.with_suffix(".old")) for path in records(study)]
    for command in (
        ["simulate", "small.yaml", records(study)[0]],
        ["play", "small.yaml"],
        ["verify", again[0], "--models", "models.yaml"],
    ):
        assert f"set the environment variable {VARIABLE}" in one_line_error(parley(*command), 2)
    assert not list(Path("results").rglob("*.jsonl"))
    assert len(server.heads) == asked


@pytest.mark.parametrize("command", [["fetch-model", "tiny"], ["serve", "tiny", "--endpoint", "e.json"]])
def test_there_is_nothing_to_fetch_or_to_serve(study: Study, parley: Parley, command: list[str]) -> None:
    ran = parley(*command, "--models", "models.yaml")
    assert "tiny: a service that somebody else runs" in one_line_error(ran, 2)


def test_a_password_in_a_url_is_not_shown(study_factory: StudyFactory, parley: Parley) -> None:
    for url in ("http://alice:s3cret@node17/v1", "http://alice:s3/cr@et@node17/v1"):
        with pytest.raises(UsageError):
            make(study_factory, url)
        said = one_line_error(parley("expand", "small.yaml"), 2)
        assert "must be http://HOST:PORT/v1" in said
        assert "models.tiny.source.url" in said
        assert "s3" not in said
