"""A misspelled value is answered with the one that was meant, wherever a user writes one."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from parley import paths
from parley.cli import commands
from parley.errors import UsageError
from parley.study import load_study
from parley.text import choose, meant
from support.studies import GRID, MODELS, StudyFactory

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


CASES: list[tuple[dict[str, Any], str]] = [
    ({"game": "consensys"}, "'consensus'"),
    ({"grids": [GRID | {"model": "tinny"}]}, "'tiny'"),
    ({"grids": [GRID | {"model": "majorty"}]}, "'majority'"),
    ({"grids": [GRID | {"prompt": "may_exists"}]}, "'may_exist'"),
    ({"grids": [GRID | {"vary": {"topologie": ["ring"]}}]}, "'topology'"),
    ({"parameters": {"topology": {"kind": "erdos_reny"}}}, "'erdos_renyi'"),
    ({"grids": [GRID | {"model": "tiny", "byzantine": {"name": "llm_strategies", "strategies": "stal"}}]}, "'stall'"),
    ({"grids": [{"groups": [{"role": "honst", "count": 2}], "prompt": "may_exist"}]}, "'honest'"),
]


def test_a_misspelled_value_of_a_study_or_a_model_entry(folder: Path) -> None:
    small = Path("small.yaml")
    for changes, close in CASES:
        small.write_text(yaml.safe_dump({"game": "consensus", "grids": [GRID]} | changes))
        with pytest.raises(UsageError, match=f"did you mean {close}\\?"):
            load_study(small)
    models = MODELS["models"]["tiny"] | {"dtype": "bfloat"}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"tiny": models}}))
    small.write_text(yaml.safe_dump({"game": "consensus", "grids": [GRID]}))
    with pytest.raises(UsageError, match=r"dtype: 'bfloat': .* did you mean 'bfloat16'\?"):
        load_study(small)


def test_a_misspelled_argument(study_factory: StudyFactory) -> None:
    study_factory()
    paths.CONFIG.mkdir()
    Path("config/small.yaml").write_text(Path("small.yaml").read_text())
    for line, close in [
        ("expand smal", "'small'"),
        ("play small.yaml --model majorty", "model=majority"),
        ("prompts small.yaml --where prompt=may_exists", "prompt=may_exist"),
        ("prompts consensus --phase vot", "'vote'"),
        ("serve tinny --endpoint x --models models.yaml", "'tiny'"),
    ]:
        error = CliRunner().invoke(commands, line.split(), standalone_mode=False).exception
        assert isinstance(error, UsageError), line
        assert f"did you mean {close}?" in str(error), line
