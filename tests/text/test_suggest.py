"""A misspelled value is answered with the one that was meant; `study/test_study_errors.py` has those of studies."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from parley import paths
from parley.cli import commands
from parley.errors import UsageError
from parley.text import choose, meant
from support.studies import StudyFactory

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


def test_a_misspelled_argument(study_factory: StudyFactory) -> None:
    study_factory()
    paths.CONFIG.mkdir()
    Path("config/small.yaml").write_text(Path("small.yaml").read_text())
    for line, close in [
        ("expand smal", "'small'"),
        ("play small.yaml --model majorty", "'majority'"),
        ("prompts small.yaml --where prompt=may_exists", "'may_exist'"),
        ("prompts small.yaml --phase vot", "'vote'"),
        ("serve tinny --endpoint x --models models.yaml", "'tiny'"),
    ]:
        error = CliRunner().invoke(commands, line.split(), standalone_mode=False).exception
        assert isinstance(error, UsageError), line
        assert f"did you mean {close}?" in str(error), line
