"""A misspelled value is answered with the one that was meant; `study/test_study_errors.py` has those of studies."""

import pytest

from parley.text import choose, meant

pytestmark = pytest.mark.promise("A misspelled value is answered with the one that was meant.")


def test_the_closest_name_is_meant_and_the_remedy_names_what_there_is() -> None:
    known = ["llm", "majority", "stubborn"]
    for written in "majorty", "MAJORITY", "Majority ", ["majority"]:
        assert meant(written, known) == "majority", written
    for written in "qwen", "", 3, "x" * 100_000:
        assert meant(written, known) is None
    assert choose("a", []) == "there is none"
    assert choose("rings", ["ring", "star"]) == "did you mean 'ring'? choose one of: ring, star"
    assert len(choose("a", ["name"] * 1000)) < 400
