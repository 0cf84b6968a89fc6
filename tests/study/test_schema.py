"""The JSON schemas in config/schemas accept what files may say."""

import json
from typing import Any

import jsonschema
import pytest
import yaml

from support import REPOSITORY

pytestmark = pytest.mark.promise("The JSON schemas accept shipped files, and no misspelled key.")

BETWEEN = {"name": "size", "outcome": "unanimous", "compare": "n", "smallest": 0.2}
WITHIN = {"name": "turn", "outcomes": ["premature_stop", "unanimous"], "smallest": 0.2}
GRIDS = [{"model": "majority", "n": [4, 6], "prompt": "may_exist"}]


def places_of_errors(content: Any, name: str = "study") -> list[list[str | int]]:
    schema = json.loads((REPOSITORY / "config" / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    return [list(error.absolute_path) for error in validator.iter_errors(json.loads(json.dumps(content)))]


def test_files_that_are_read_fit_the_schema_and_misspelled_keys_do_not() -> None:
    for file in ("demo", "paper", "models"):
        content = yaml.safe_load((REPOSITORY / "config" / f"{file}.yaml").read_text(encoding="utf-8"))
        assert places_of_errors(content, "models" if file == "models" else "study") == []
    study = {"game": "consensus", "grids": GRIDS}
    assert places_of_errors(study | {"parameters": {"max_round": 3}}) == [["parameters"]]
    for question in (WITHIN, BETWEEN):
        assert places_of_errors(study | {"questions": [question]}) == []
    assert places_of_errors(study | {"questions": [{**BETWEEN, "compar": "n"}]})
