"""`parley policies`, and that docs/reference/adversaries.md has the same policies."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parley.cli import commands
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.policies import STRATEGIES
from parley.games.registry import GAMES, policy_lines, threat_text

pytestmark = pytest.mark.promise(
    "`parley policies` lists every policy and parameter, and agrees with the threat model."
)

KINDS = ConsensusGame.policies
PAGE = Path("docs/reference/adversaries.md").read_text(encoding="utf-8")


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(commands, list(arguments), catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.stdout


def test_every_policy_and_every_parameter_is_listed() -> None:
    paragraphs = re.split(r"\n(?=\S)", run("policies", "consensus").rstrip())
    assert [paragraph.split("  ")[0] for paragraph in paragraphs] == [*KINDS, "module:attribute"]
    for paragraph, kind in zip(paragraphs[:-1], KINDS.values(), strict=True):
        assert kind.summary in paragraph
        assert all(field.description for field in kind.Parameters.model_fields.values())
        assert re.findall(r"(?m)^    - (\w+): ", paragraph) == list(kind.Parameters.model_fields)
        assert ("byzantine agents" in paragraph) == (kind.roles == ("byzantine",))
        assert ("asks a model" in paragraph) == kind.asks_model
        assert threat_text(ConsensusGame, kind) in paragraph


VERDICTS = {"paper": "within the paper's", "beyond": "beyond the paper's", "unknown": "unknown to the paper's"}
# What the kinds that need something are given, and the game with it.
NEEDED = {"crash": {"round": 1}, "late_signer": {"round": 1}, "llm_strategies": {"strategies": "stall"}}
LONG = {"reasoning_chars": 4000, "justification_chars": 4000}
NEEDED_GAME: dict[str, dict[str, Any]] = {
    "msr": {"values": "real"},
    "w_msr": {"values": "real"},
    "ben_or": {"value_max": 1},
    "dolev_strong": LONG,
    "late_signer": LONG,
}


def test_the_listing_agrees_with_the_threat_model_of_a_study(study_factory: Any) -> None:
    for name, game in GAMES.items():
        honest = next(kind for kind in game.policies.values() if kind.rule is not None and not kind.roles)
        listed = {line.split("  ")[0]: line for line in policy_lines(game) if "(" in line and not line.startswith(" ")}
        assert {*listed} == {*game.policies, "module:attribute"}
        for kind in game.policies.values():
            told = {"name": kind.name, **NEEDED.get(kind.name, {}), **({"model": "tiny"} if kind.asks_model else {})}
            grid = {"model": honest.name, "n": 4, "b": 1, "byzantine": told, "prompt": next(iter(game.prompts))}
            parameters = {**({kind.needs: True} if kind.needs else {}), **NEEDED_GAME.get(kind.name, {})}
            [condition] = study_factory(grid, game=name, parameters=parameters).conditions
            verdict, _, reason = condition.threat_model.partition(": ")
            said = (
                f"; a Byzantine agent so played is {VERDICTS[verdict]} threat model{': ' if reason else ''}{reason})"
            )
            assert listed[kind.name].endswith(said)
        assert listed["module:attribute"].endswith(
            "; a Byzantine agent so played is unknown to the paper's threat model)"
        )


# docs/reference/adversaries.md


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table after a heading, by the name in their first cell."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "| " in line]
    return {row[0].strip("`| "): row for row in cells[1:]}


def test_the_page_has_a_row_for_every_policy_with_its_parameters_and_defaults() -> None:
    assert list(rows("Strategies of language models")) == list(STRATEGIES)
    table = rows("The policies")
    assert set(table) == set(KINDS)
    for name, kind in KINDS.items():
        given = table[name][1]
        assert set(re.findall(r"`(\w+)` \(", given)) == set(kind.Parameters.model_fields)
        for parameter, field in kind.Parameters.model_fields.items():
            told = given.split(f"`{parameter}` (")[1].split(")")[0]
            if field.is_required():
                assert told == "required"
            elif field.default is not None:
                assert told.strip("`") == str(field.default)
        assert table[name][2] == ("Byzantine" if kind.roles else "any")
    beyond = [name for name, kind in KINDS.items() if kind.beyond]
    assert f"All but `{'`, `'.join(beyond)}` are within the paper's threat model." in PAGE
    assert all(f"`{kind.beyond}`" in PAGE for kind in KINDS.values() if kind.beyond)
