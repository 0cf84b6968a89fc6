"""Language models with a strategy: what they are told, and their identity. docs/playthroughs shows whole prompts."""

import importlib.resources
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.consensus import strategies
from parley.games.consensus.prompts import FOLDER
from parley.games.consensus.strategies import LLM_STRATEGIES, STRATEGIES, Strategies
from parley.games.prompts import text_of
from parley.play.record import read_summary, write_record
from parley.play.show import study_files
from parley.policies.kinds import ChosenPolicy
from support.playthrough import by_hand
from support.studies import StudyFactory

SOME: dict[str, Any] = {"name": "llm_strategies", "strategies": "stall", "model": "tiny"}


def told(chosen: Any, **given: Any) -> ChosenPolicy:
    return ChosenPolicy(LLM_STRATEGIES, Strategies(strategies=chosen, **given))


def test_each_text_is_short_plain_and_part_of_the_installed_package() -> None:
    patterns = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["parley"]
    package = Path(str(importlib.resources.files("parley")))
    covered = {path for pattern in patterns for path in package.glob(pattern)}
    assert {FOLDER / "strategies" / f"{name}.txt" for name in STRATEGIES} <= covered
    assert {path.stem for path in (FOLDER / "strategies").iterdir()} == set(STRATEGIES)
    for name in STRATEGIES:
        text = text_of(strategies.TEXTS[name])
        assert 5 <= len(text.splitlines()) <= 12
        assert all(len(line) <= 119 and line.isprintable() and line.isascii() for line in text.splitlines())
        assert "When you vote" in text
        assert set(re.findall(r"\{[^}]*\}?", text)) <= {"{target}", "{after}"}
        assert "===" not in text.replace('"==="', "")  # no heading besides the one that is put before it


def test_placeholders_are_filled_from_the_parameters() -> None:
    assert "Your anchor is the value 41." in told("anchor", value=41).instructions
    assert "one value of your choice" in told("anchor").instructions
    assert "Up to round 7 be" in told("impersonate", after=7).instructions
    assert "After round 3 defect" in told("impersonate").instructions
    assert told(list(reversed(STRATEGIES))).instructions == told(list(STRATEGIES)).instructions
    assert not [name for name in STRATEGIES if "{" in told(name).instructions]


def test_the_label_and_the_identity_follow_strategies_and_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {
        told("stall").label: "llm_strategies-stall",
        told("split").label: "llm_strategies-split",
        told(["inject", "stall"]).label: "llm_strategies-stall+inject",
        told("anchor").label: "llm_strategies-anchor",
        told("anchor", value=41).label: "llm_strategies-anchor-value-41",
        told("impersonate").label: "llm_strategies-impersonate",
        told(["impersonate"], after=5).label: "llm_strategies-impersonate-after-5",
    }
    assert all(got == expected for got, expected in labels.items())
    policies = [told("stall"), told("split"), told(["stall", "split"]), told("anchor"), told("anchor", value=3)]
    policies += [told("impersonate"), told("impersonate", after=4)]
    assert len({json.dumps(policy.identity(), sort_keys=True) for policy in policies}) == len(policies)
    assert told(["split", "stall"]).identity() == told(("stall", "split")).identity()
    before = told("stall").identity()
    monkeypatch.setitem(strategies.TEXTS, "stall", "another text")
    assert told("stall").identity() != before


MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"strategies": "lie"}, ("strategies[0]: 'lie'", "'stall', 'split', 'anchor', 'impersonate'")),
    ({"strategies": []}, ("strategies: []", "name a strategy")),
    ({"strategies": 3}, ("strategies: 3", "name a strategy")),
    ({"strategies": ["stall", "stall"]}, ("repeated",)),
    ({"value": 7}, ("value", "add anchor")),
    ({"after": 7}, ("after", "add impersonate")),
    ({"strategies": "impersonate", "after": 0}, ("after: 0", "1")),
    ({"strategies": "anchor", "value": 77}, ("value: 77", "0 to 50")),
    *(({"strategies": "anchor", "value": wrong}, (f"value: {wrong!r}", "integer")) for wrong in ("3", 3.0, True)),
    ({"tactics": "stall"}, ("tactics", "strategies, value, after")),
    ({"model": None}, ("needs a language model", "model")),
]


def test_a_study_with_wrong_strategies_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    for change, parts in MISTAKES:
        with pytest.raises(UsageError) as refused:
            study_factory({"honest": 3, "b": 1, "byzantine": {**SOME, **change}})
        text = str(refused.value)
        assert re.match(r"small\.yaml: grids\[0\](\.byzantine|: byzantine)?: llm_strategies: ", text), text
        assert "\n" not in text
        assert all(part in text for part in parts), (text, parts)
    with pytest.raises(UsageError, match="llm_strategies: only for byzantine agents"):
        study_factory({"model": SOME})
    study = study_factory({"model": "tiny", "honest": 3, "b": 1, "byzantine": {**SOME, "model": None}})
    assert study.conditions[0].models == ("tiny",)  # that of the honest agents


def test_a_record_shows_the_study_that_plays_it_again(study_factory: StudyFactory) -> None:
    written = {**SOME, "strategies": ["impersonate", "anchor"], "value": 9, "after": 2}
    study = study_factory({"honest": 2, "b": 1, "byzantine": [written]}, parameters={"max_rounds": 1, "retries": 0})
    [simulation] = study.simulations()
    path = simulation.record(study.name)
    write_record(path, simulation, by_hand(simulation.game()), {})
    again = study_files(path, read_summary(path)).study["grids"][0]
    assert again["byzantine"] == [{**written, "strategies": ["anchor", "impersonate"]}]
