"""A misspelled value is answered with the one that was meant, wherever a user writes one."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parley import paths
from parley.cli import commands
from parley.errors import UsageError
from parley.text import choose, meant
from support.studies import MODELS, StudyFactory

pytestmark = pytest.mark.promise("A misspelled value is answered with the one that was meant.")


def test_the_closest_name_is_meant_and_the_remedy_names_what_there_is() -> None:
    known = ["llm", "majority", "stubborn"]
    for written in "majorty", "MAJORITY", "Majority ", ["majority"]:
        assert meant(written, known) == "majority", written
    for written in "qwen", "", 3, "x" * 100_000:
        assert meant(written, known) is None
    assert choose("a", []) == "there is none"
    assert choose("rings", ["ring", "star"]) == "did you mean 'ring'? choose one of: ring, star"
    told = choose("my_own", ["ring"], ["my-own"])
    assert told == "did you mean 'my-own'? choose one of: ring, or of those installed: my-own"
    assert len(choose("a", ["name"] * 1000)) < 400


def test_a_misspelled_value_of_a_study_or_a_model_entry(study_factory: StudyFactory) -> None:
    strategies = {"name": "llm_strategies", "strategies": "stal"}
    tiny = MODELS["models"]["tiny"]
    rows: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"model": "tinny"}, {}, "'tiny'"),
        ({"model": "tiny", "byzantine": strategies}, {}, "'stall'"),
        ({}, {"game": "consensys"}, "'consensus'"),
        ({}, {"parameters": {"topology": {"kind": "erdos_reny"}}}, "'erdos_renyi'"),
        ({"model": "tiny"}, {"models": {"tiny": tiny | {"dtype": "bfloat"}}}, "'bfloat16'"),
    ]
    for grid, content, close in rows:
        with pytest.raises(UsageError, match=f"did you mean {close}\\?"):
            study_factory(grid, **content)


def test_a_misspelled_argument(study_factory: StudyFactory) -> None:
    study_factory()
    paths.CONFIG.mkdir()
    Path("config/small.yaml").write_text(Path("small.yaml").read_text())
    for line, close in [
        ("expand smal", "'small'"),
        ("play small.yaml --model majorty", "'majority'"),
        ("prompts small.yaml --where prompt=may_exists", "'may_exist'"),
        ("prompts consensus --phase vot", "'vote'"),
        ("serve tinny --endpoint x --models models.yaml", "'tiny'"),
    ]:
        error = CliRunner().invoke(commands, line.split(), standalone_mode=False).exception
        assert isinstance(error, UsageError), line
        assert f"did you mean {close}?" in str(error), line
