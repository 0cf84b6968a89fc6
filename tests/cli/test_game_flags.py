"""`parley play GAME`: a game from flags alone."""

from pathlib import Path

import pytest
import yaml

from parley.study import load_study
from support.answering import SERVED, StandInService
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "`parley play GAME` plays any game from flags alone, and names a flag that does not fit."
)

SEVENS = "--set max_rounds=2 --set value_min=7 --set value_max=7"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"consensus --n 5 --b 2 --model majority --byzantine silent {SEVENS}", "honest     7"),
        ("deliberation --n 3 --model solver --set turns=1", "Outcome: "),
        ("stag_hunt --n 3 --model always_hare --set rounds=2 --set topology=complete", "after 2 rounds"),
        ("consensus --n 1 --model majority --set value_min=-7 --set value_max=-7", "honest     -7"),
    ],
)
def test_a_game_is_played_as_flags_say(parley: Parley, command: str, shown: str) -> None:
    ran = parley("play", "--plain", *command.split())
    assert ran.status == 0
    assert shown in ran.out


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("consensus", "--model"),
        ("consensus --model majority --set max_round=3", "max_round"),
        ("consensus --model majority --byzantine random", "--byzantine"),
        ("consensus --model majority --n 3 --where b=2", "--where"),
        ("demo --byzantine random", "--byzantine"),
    ],
)
def test_a_flag_that_does_not_fit_is_named(parley: Parley, command: str, named: str) -> None:
    error = one_line_error(parley("play", *command.split()), 2)
    assert named in error
    assert "/tmp" not in error


@pytest.mark.promise("A model that a command names as openai:NAME, URL:NAME, ... is that of the entry it prints.")
def test_a_model_without_an_entry_plays_as_with_the_one_that_is_printed(
    parley: Parley, study_factory: StudyFactory, server: StandInService
) -> None:
    study_factory({"n": [3, 4]})
    named = f"{server.url}:{SERVED}"
    first = parley("play", "small.yaml", "--n", 3, "--model", named)
    _, entry = first.err.split("\n", 1)
    assert first.status == 0
    assert parley("play", "consensus", "--n", 3, "--model", named).out == first.out
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
def test_what_names_no_model_is_one_line(parley: Parley, folder: Path, model: str) -> None:
    assert "--model" in one_line_error(parley("play", "consensus", "--model", model), 2)
