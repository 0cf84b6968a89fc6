"""A misspelled value is answered with the one that was meant, wherever a user writes one."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from parley import paths
from parley.cli.program import commands
from parley.errors import UsageError
from parley.study import load_study
from parley.text.suggest import choose, meant
from support.studies import GRID, MODELS, StudyFactory


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("majorty", "majority"),
        ("MAJORITY", "majority"),
        ("Majority ", "majority"),
        ("qwen", None),
        ("", None),
        (["majority"], "majority"),
        (3, None),
        ("x" * 100_000, None),
    ],
)
def test_the_closest_name_is_meant(written: object, expected: str | None) -> None:
    assert meant(written, ["llm", "majority", "stubborn"]) == expected


def test_the_remedy_names_what_there_is() -> None:
    assert choose("a", []) == "there is none"
    assert choose("rings", ["ring", "star"]) == "did you mean 'ring'? choose one of: ring, star"
    assert choose("my_own", ["ring"], ["my-own"]) == (
        "did you mean 'my-own'? choose one of: ring, or of those installed: my-own"
    )
    assert len(choose("a", ["name"] * 1000)) < 400


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "game": ({"game": "consensys"}, "'consensus'"),
    "model": ({"grids": [GRID | {"model": "tinny"}]}, "'tiny'"),
    "policy": ({"grids": [GRID | {"model": "majorty"}]}, "'majority'"),
    "byzantine": ({"grids": [GRID | {"byzantine": "stuborn"}]}, "'stubborn'"),
    "policy with parameters": ({"grids": [GRID | {"byzantine": {"name": "equivocat"}}]}, "'equivocate'"),
    "prompt": ({"grids": [GRID | {"prompt": "may_exists"}]}, "'may_exist'"),
    "axis": ({"grids": [GRID | {"vary": {"topologie": ["ring"]}}]}, "'topology'"),
    "topology": ({"parameters": {"topology": "rnig"}}, "'ring'"),
    "topology with parameters": ({"parameters": {"topology": {"kind": "erdos_reny"}}}, "'erdos_renyi'"),
    "reply_format": ({"parameters": {"reply_format": "JSON"}}, "'json'"),
    "protocol": ({"parameters": {"protocol": "swarm"}}, "'swarms'"),
    "strategy": (
        {"grids": [GRID | {"model": "tiny", "byzantine": {"name": "llm_strategies", "strategies": "stal"}}]},
        "'stall'",
    ),
    "role": ({"grids": [{"groups": [{"role": "honst", "count": 2}], "prompt": "may_exist"}]}, "'honest'"),
    "problems": (
        {
            "game": "deliberation",
            "parameters": {"problems": "arithmetics"},
            "grids": [{"model": "solver", "n": 3, "prompt": "zero_shot"}],
        },
        "'arithmetic'",
    ),
}


@pytest.mark.parametrize(("changes", "close"), CASES.values(), ids=CASES)
def test_a_misspelled_value_of_a_study(folder: Path, changes: dict[str, Any], close: str) -> None:
    Path("small.yaml").write_text(yaml.safe_dump({"game": "consensus", "grids": [GRID]} | changes))
    with pytest.raises(UsageError, match=f"did you mean {close}\\?"):
        load_study(Path("small.yaml"))


def test_a_misspelled_value_of_a_model_entry(folder: Path) -> None:
    models = MODELS["models"]["tiny"] | {"dtype": "bfloat"}
    Path("models.yaml").write_text(yaml.safe_dump({"models": {"tiny": models}}))
    Path("small.yaml").write_text(yaml.safe_dump({"game": "consensus", "grids": [GRID]}))
    with pytest.raises(UsageError, match=r"dtype: 'bfloat': .* did you mean 'bfloat16'\?"):
        load_study(Path("small.yaml"))


@pytest.mark.parametrize(
    ("arguments", "close"),
    [
        (["expand", "smal.yaml"], "'small'"),
        (["expand", "smal"], "'small'"),
        (["play", "small.yaml", "--model", "majorty"], "model=majority"),
        (["play", "small.yaml", "--where", "promt=may_exist"], "'prompt'"),
        (["prompts", "--study", "small.yaml", "--where", "prompt=may_exists"], "prompt=may_exist"),
        (["prompts", "--game", "consensos"], "'consensus'"),
        (["prompts", "--awareness", "may_exists"], "'may_exist'"),
        (["prompts", "--phase", "vot"], "'vote'"),
        (["policies", "--game", "stag-hunt"], "'stag_hunt'"),
        (["serve", "tinny", "--endpoint", "x", "--models", "models.yaml"], "'tiny'"),
        (["calibrate", "tiny", "--games", "deliberation_cott"], "'deliberation_cot'"),
    ],
)
def test_a_misspelled_argument(study_factory: StudyFactory, arguments: list[str], close: str) -> None:
    study_factory()
    paths.CONFIG.mkdir()
    Path("config/small.yaml").write_text(Path("small.yaml").read_text())
    error = CliRunner().invoke(commands, arguments, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert f"did you mean {close}?" in str(error)
