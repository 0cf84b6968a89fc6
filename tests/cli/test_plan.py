"""`parley plan`: its table, its files, and one line for what is wrong."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from parley import paths
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("`parley plan` writes its table, and takes a pilot's records.")

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 25}


@pytest.mark.slow
def test_questions_are_planned_and_the_table_goes_with_the_last(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory(GRID, questions=[{**ASKED, "expected": [0.591, 0.754]}])
    ran = parley("plan", "small.yaml")
    assert ran.status == 0
    row = ran.out.splitlines()[1]
    assert row.startswith("prompt    prompt may_exist -> none_exist  2 x 25  59.1% -> 75.4%")
    assert "pairs independent: no pilot" in ran.out
    made = paths.plan("small")
    assert pd.read_csv(made)["question"].tolist() == ["prompt"]
    first = made.read_bytes()
    parley("plan", "small.yaml")
    assert made.read_bytes() == first
    study_factory(GRID)
    assert parley("plan", "small.yaml").out.startswith("no question is declared\n")
    assert not made.exists()


def test_two_outcomes_are_planned_and_frozen(parley: Parley, study_factory: StudyFactory) -> None:
    within = {"name": "within", "outcomes": ["premature_stop", "valid_consensus"], "over": ["n", "prompt"]}
    study_factory(GRID, questions=[within | {"smallest": 0.2}])
    path, when = parley("plan", "small.yaml", "--freeze").out.splitlines()
    assert path == "small.frozen.md"
    assert when.startswith("frozen before the first of 100 games: ")
    lines = parley("plan", "small.yaml").out.splitlines()
    assert lines[1].startswith("within    premature_stop -> valid_consensus")
    assert lines[-1].endswith("the study is as it was frozen")
    frozen = Path("small.frozen.md").read_text()
    asked = "Is “valid consensus” as frequent as “premature stop” in the same games? Over all values of n, prompt."
    assert f"1. **within**: {asked}" in frozen
    assert "--force" in one_line_error(parley("plan", "small.yaml", "--freeze"), 2)
    assert parley("plan", "small.yaml", "--freeze", "--force").status == 0
    study_factory(GRID, questions=[within | {"smallest": 0.1}])
    assert parley("plan", "small.yaml").out.splitlines()[-1].endswith("1 question changed: within")


@pytest.mark.slow
def test_records_of_the_study_and_of_another_are_a_pilot(parley: Parley, study_factory: StudyFactory) -> None:
    grids = {"other": GRID, "larger": {"n": 8, "seeds": 2}}
    for name, grid in grids.items():
        simulate_shard(study_factory(grid, name=name), SCRIPTED, 0)
    study_factory(GRID, name="unplayed")
    study_factory(GRID, questions=[ASKED])
    for name, told in (
        ("other", "rate of 50 pairs; correlation of 50 pairs"),
        ("unplayed", "pairs independent: no pilot"),
        ("larger", "pairs independent: no pilot"),
    ):
        assert told in parley("plan", "small.yaml", "--from", f"{name}.yaml").out


def test_what_only_looks_needs_no_weights(parley: Parley, study_factory: StudyFactory) -> None:
    packaged = {"source": {"package": "parley-no-such-package", "gguf": "x.gguf"}}
    study_factory({"n": [4, 6], "b": 0})  # writes the file, which is given a model that is not here
    file = Path("small.yaml")
    file.write_text(file.read_text().replace("majority", "absent"))
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"absent": packaged}}))
    for command in (["plan"], ["status"], ["prompts", "--phase", "vote"]):
        assert parley(*command, "small.yaml").status == 0, command
    for command in (["expand"], ["play"]):
        assert "parley-no-such-package" in one_line_error(parley(*command, "small.yaml"), 2)


@pytest.mark.promise("A plan says from which n and round on prompts may not fit a model's context, with the key.")
def test_prompts_that_may_not_fit_a_context_are_named(parley: Parley, study_factory: StudyFactory) -> None:
    def planned(n: list[int], length: int, **keys: Any) -> str:
        """Return from which n and round on the prompts are too long, as the plan says it."""
        entry = {"source": {"url": "http://127.0.0.1:1/v1", "served": "tiny"}, **keys}
        grid = {"model": "tiny", "n": n, "prompt": "may_exist"}
        lengths = {"max_rounds": 4, "justification_chars": length, "reasoning_chars": 600}
        study_factory(grid, models={"tiny": entry}, parameters=lengths)
        return re.findall(r"from (.* in round \d+)|$", parley("plan", "small.yaml").out)[0]

    assert planned([4, 40], 600) == ""  # nobody says what the context of a service is
    assert planned([4, 6, 40], 600, max_model_len=4096) == "n = 40 on in round 1"
    assert "max_model_len" in parley("plan", "small.yaml").out
    assert planned([4, 6], 600, max_model_len=4096) == planned([4, 40], 10, max_model_len=8192) == ""
    thinking = {"max_model_len": 4096, "dialect": {"reasoning_tokens": 4000}}
    assert planned([4, 6], 600, **thinking) == "n = 4 on in round 1"
