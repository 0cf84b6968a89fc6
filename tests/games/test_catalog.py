"""docs/reference/adversaries.md has every policy of the consensus game."""

import re
from pathlib import Path

import pytest

from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.policies import STRATEGIES

pytestmark = pytest.mark.promise("The page of policies has every one with its parameters and defaults.")

KINDS = ConsensusGame.policies
PAGE = Path("docs/reference/adversaries.md").read_text(encoding="utf-8")


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
