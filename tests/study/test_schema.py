"""The JSON schemas in config/schemas say what the models say, and accept the studies that are shipped."""

import pytest
import yaml
from jsonschema import Draft202012Validator

from parley import paths
from parley.study.schema import schemas, text
from support import REPOSITORY


@pytest.mark.parametrize("name", ["study", "models"])
def test_the_schema_files_are_up_to_date(name: str) -> None:
    stored = (REPOSITORY / paths.schema(name)).read_text(encoding="utf-8")
    assert stored == text(schemas()[name]), "run: python -m parley.study.schema"


@pytest.mark.parametrize("file", ["demo", "paper", "models"])
def test_the_shipped_files_fit_their_schema(file: str) -> None:
    content = yaml.safe_load((REPOSITORY / "config" / f"{file}.yaml").read_text(encoding="utf-8"))
    schema = schemas()["models" if file == "models" else "study"]
    assert list(Draft202012Validator(schema).iter_errors(content)) == []


def test_an_unknown_parameter_does_not_fit() -> None:
    content = {"game": "consensus", "parameters": {"max_round": 3}, "grids": [{"model": ["m"], "prompt": ["p"]}]}
    errors = list(Draft202012Validator(schemas()["study"]).iter_errors(content))
    assert len(errors) == 1
    assert list(errors[0].absolute_path) == ["parameters"]
