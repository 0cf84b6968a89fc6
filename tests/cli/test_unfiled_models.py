"""Models that a command names, and no file."""

from pathlib import Path

import pytest
import yaml

from parley.study import load_study
from support.answering import SERVED, StandInService
from support.commands import Parley, one_line_error
from support.studies import StudyFactory


@pytest.mark.promise("A model that a command names as openai:NAME, URL:NAME, ... is that of the entry it prints.")
def test_a_model_without_an_entry_plays_as_with_the_one_that_is_printed(
    parley: Parley, study_factory: StudyFactory, server: StandInService
) -> None:
    study_factory({"n": [3, 4]})
    named = f"{server.url}:{SERVED}"
    first = parley("play", "small.yaml", "--n", 3, "--model", named)
    _, entry = first.err.split("\n", 1)
    assert first.status == 0
    assert "put its entry" in parley("new", "mine", "--model", named).err.splitlines()[-1]
    Path("models.yaml").write_text(entry)
    again = parley("play", "small.yaml", "--n", 3, "--model", named)
    assert (again.out, again.err) == (first.out, "")
    assert parley("new", "mine", "--model", named).status == 0
    [name] = yaml.safe_load(entry)["models"]
    assert load_study(Path("mine.yaml")).conditions[0].models == (name,)
    Path("models.yaml").write_text(entry + "    max_model_len: 512\n")
    assert f"models.yaml: models.{name}" in one_line_error(parley("play", "small.yaml", "--model", named), 2)


@pytest.mark.parametrize(
    "model", ["opnai:gpt-4o", "http://127.0.0.1:1:x", "hf:owner/none", "hf:owner/x@main", "openai:"]
)
def test_what_names_no_model_is_one_line(parley: Parley, study_factory: StudyFactory, model: str) -> None:
    study_factory()
    one_line_error(parley("play", "small.yaml", "--model", model), 2)
