"""`parley policies`, `parley prompts --strategy`, and that docs/reference/adversaries.md has the same policies."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from parley.cli.program import commands
from parley.games.catalog import parameter_lines, policy_lines, threat_text
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.strategies import HEADING, STRATEGIES
from parley.games.registry import GAMES
from parley.policies.kinds import ChosenPolicy
from support.commands import Parley, one_line_error

KINDS = ConsensusGame.policies
PAGE = Path("docs/reference/adversaries.md").read_text(encoding="utf-8")


def run(*arguments: str) -> str:
    ran = CliRunner().invoke(commands, list(arguments), catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.stdout


# parley policies


def test_every_policy_and_every_parameter_is_listed() -> None:
    paragraphs = re.split(r"\n(?=\S)", run("policies", "--game", "consensus").rstrip())
    assert [paragraph.split("  ")[0] for paragraph in paragraphs] == [*KINDS, "module:attribute"]
    for paragraph, kind in zip(paragraphs[:-1], KINDS.values(), strict=True):
        assert kind.summary in paragraph
        assert all(field.description for field in kind.Parameters.model_fields.values())
        assert re.findall(r"(?m)^    - (\w+): ", paragraph) == list(kind.Parameters.model_fields)
        assert ("byzantine agents" in paragraph) == (kind.roles == ("byzantine",))
        assert ("asks a model" in paragraph) == kind.asks_model
        assert threat_text(ConsensusGame, kind) in paragraph


def test_installed_policies_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[parley.policies]\nmy_agent = theirs.agents:Agent\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run("policies").endswith("\n    my_agent: installed, theirs.agents:Agent\n")


def test_types_bounds_and_defaults_of_parameters_are_told() -> None:
    def starts(name: str) -> dict[str, str]:
        return {line.split(":")[0]: line for line in parameter_lines(KINDS[name])}

    assert starts("crash")["round"].startswith("round: integer from 1 to 10000, required. ")
    assert starts("stubborn")["vote"].startswith("vote: honest | stop | continue, default honest. ")
    assert "optional" in starts("stubborn")["value"]
    assert starts("llm_strategies")["strategies"].startswith("strategies: one or a list of stall | split | ")
    [chance] = [line for line in parameter_lines(GAMES["stag_hunt"].policies["betray"]) if line.startswith("prob")]
    assert chance.startswith("probability: number above 0 to 1, default 1.0. ")
    assert starts("llm_strategies")["after"].startswith("after: integer from 1 to 10000, default 3. ")


def test_policies_say_what_they_need_and_what_is_beyond_the_paper() -> None:
    [line] = [line for line in policy_lines(ConsensusGame) if line.startswith("equivocate")]
    assert "needs equivocation: true" in line
    assert line.endswith("; a Byzantine agent so played is beyond the paper's threat model: equivocates)")


VERDICTS = {"paper": "within the paper's", "beyond": "beyond the paper's", "unknown": "unknown to the paper's"}
# What the kinds that need something are given, and the game with it.
NEEDED = {"crash": {"round": 1}, "llm_strategies": {"strategies": "stall"}}


def test_the_listing_agrees_with_the_threat_model_of_a_study(study_factory: Any) -> None:
    for name, game in GAMES.items():
        honest = next(kind for kind in game.policies.values() if kind.rule is not None and not kind.roles)
        listed = {line.split("  ")[0]: line for line in policy_lines(game) if "(" in line and not line.startswith(" ")}
        assert {*listed} == {*game.policies, "module:attribute"}
        for kind in game.policies.values():
            told = {"name": kind.name, **NEEDED.get(kind.name, {}), **({"model": "tiny"} if kind.asks_model else {})}
            grid = {"model": honest.name, "n": 4, "b": 1, "byzantine": told, "prompt": next(iter(game.prompts))}
            parameters = {kind.needs: True} if kind.needs else {}
            [condition] = study_factory(grid, game=name, parameters=parameters).conditions
            verdict, _, reason = condition.threat_model.partition(": ")
            said = (
                f"; a Byzantine agent so played is {VERDICTS[verdict]} threat model{': ' if reason else ''}{reason})"
            )
            assert listed[kind.name].endswith(said)
        assert listed["module:attribute"].endswith(
            "; a Byzantine agent so played is unknown to the paper's threat model)"
        )


def test_nothing_is_said_of_policies_that_no_byzantine_agent_may_have() -> None:
    class Peaceful(ConsensusGame):
        @classmethod
        def threat_model(cls, parameters: Any, groups: Any) -> str:
            return "none"

    assert threat_text(ConsensusGame, replace(KINDS["majority"], roles=("honest",))) == ""
    assert threat_text(Peaceful, KINDS["majority"]) == ""
    assert "majority  (any agents, scripted)" in list(policy_lines(Peaceful))


# parley prompts --strategy


def test_strategies_are_shown_below_the_papers_prompt_and_only_where_they_are_told(parley: Parley) -> None:
    kind = KINDS["llm_strategies"]
    policy = ChosenPolicy(kind, kind.Parameters.model_validate({"strategies": ["stall", "split"]}))
    for phase in ("propose", "vote"):
        asked = ("prompts", "--role", "byzantine", "--phase", phase)
        plain, shown = run(*asked), run(*asked, "--strategy", "split", "--strategy", "stall")
        assert shown == f"{plain}{policy.instructions}\n"
        assert HEADING not in plain
    for given, named in (
        ([], "--strategy: it is told to byzantine agents in their system prompts"),
        (["--role", "byzantine", "--part", "user"], "--strategy: it is told to byzantine agents in their system"),
        (["--role", "byzantine", "--strategy", "lie"], "--strategy: strategies[1]: 'lie'"),
        (["--role", "byzantine", "--game", "stag_hunt"], "--strategy: the game stag_hunt has no strategies"),
    ):
        assert named in one_line_error(parley("prompts", "--strategy", "stall", *given), 2)


# docs/reference/adversaries.md


def rows(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table after a heading, by the name in their first cell."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "| " in line]
    return {row[0].strip("`| "): row for row in cells[1:]}


def test_the_page_has_a_row_for_every_policy_with_its_parameters_and_defaults() -> None:
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
        assert table[name][6].strip("| ") == (f"beyond: {kind.beyond}" if kind.beyond else "within")


def test_the_page_has_a_row_for_every_strategy() -> None:
    assert list(rows("Strategies of language models")) == list(STRATEGIES)


def test_the_study_in_the_page_is_one(study_factory: Any) -> None:
    text = PAGE.split("```yaml\n")[1].split("```")[0]
    grids = yaml.safe_load(text.replace("qwen3-8b", "tiny"))["grids"]
    assert {condition.threat_model for condition in study_factory(*grids).conditions} == {"paper"}
