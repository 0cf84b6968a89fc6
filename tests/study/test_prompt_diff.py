"""What an agent is sent in two conditions of a study: contrasts differ in what they are about, and in nothing else."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from parley.errors import UsageError
from parley.study import Study
from parley.study.prompt_sent import PARTS, prompt_diff
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Contrasted prompts differ in what they are about, and in nothing else.")

PLAYERS = ["tiny", "grim_trigger"]
HUNT: dict[str, Any] = {"model": PLAYERS, "n": 4, "b": [0, 1], "byzantine": "betray", "prompt": "plain"}
RING = {"topology": ["ring"], "disclosure": ["silent", "explicit"]}


def changed(lines: list[str]) -> dict[tuple[int, str, str], list[str]]:
    """Return the lines that differ of each text that differs."""
    found: dict[tuple[int, str, str], list[str]] = {}
    for line in lines[1:]:
        if place := re.fullmatch(r"round (\d+), (\w+), (\w+):", line):
            found[int(place[1]), place[2], place[3]] = []
        elif line.startswith("    "):
            found[list(found)[-1]].append(line.removeprefix("    "))
    return found


def compare(
    study: Study, where: Mapping[str, Any], against: Mapping[str, Any], role: str = "honest", seed: int = 0
) -> list[str]:
    return [line.plain for line in prompt_diff(study, where, against, role, seed, 2)]


def hunts(make: StudyFactory, vary: Mapping[str, Any], **parameters: Any) -> Study:
    return make({**HUNT, "vary": vary}, game="stag_hunt", parameters={"rounds": 2, **parameters})


def test_silent_against_explicit_differ_in_the_disclosure_alone(study_factory: StudyFactory) -> None:
    study = hunts(study_factory, RING)
    for model, b in (("tiny", 1), ("grim_trigger", 0)):
        found = compare(study, {"disclosure": "silent", "model": model, "b": b}, {"disclosure": "explicit"})
        one, other, _ = found[0].split("\n")
        assert f"model={model}/n=4/b={b}" in one
        assert one[4:].replace("disclosure=silent", "disclosure=explicit") == other[4:]
        assert sum(line.startswith("round") for line in found) == 2 * 2 * len(PARTS)
        differs = changed(found)
        assert set(differs) == {(number, phase, "system") for number in (1, 2) for phase in ("signal", "act")}
        for lines in differs.values():
            assert [line[:10] for line in lines if line[:2] != "{+"] == ["1. Players", "3. Payoffs"]


def test_what_is_the_same_is_called_so(study_factory: StudyFactory) -> None:
    study = hunts(study_factory, {"cheap_talk": [True]})
    found = compare(study, {"model": "tiny", "b": 0}, {"model": "grim_trigger"})
    assert found[1:4] == [f"round 1, signal, {part}: identical" for part in PARTS]
    assert changed(found) == {}
    # A Byzantine player among them changes no prompt until it is seen.
    differs = changed(compare(study, {"b": 0, "model": "tiny"}, {"b": 1}))
    assert set(differs) == {(2, "signal", "user"), (2, "act", "user")}
    for lines in differs.values():
        [line] = lines
        assert re.findall(r"\[-(.+?)-\]|\{\+(.+?)\+\}", line) == [("Stag", ""), ("", "Hare")]


def test_what_cannot_be_compared_is_refused(study_factory: StudyFactory) -> None:
    study = hunts(study_factory, RING)
    with pytest.raises(UsageError, match="no agent has the role byzantine in both"):
        compare(study, {"b": 0}, {"b": 1}, role="byzantine")
    with pytest.raises(UsageError, match="--where and --against choose the same"):
        compare(study_factory(), {}, {})
