"""Which populations the paper's threat model allows, from the game to the tables and the report."""

from typing import Any

import pytest

from parley.analysis.conditions import print_conditions
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.figures.make import figures
from parley.games.base import Group
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.play.record import write_record
from parley.play.runner import play
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from parley.report.page import report
from support.playing import scripted_policies

GAME = ConsensusParameters()
OWN = ChosenPolicy(PolicyKind("mine:Policy", "", fingerprint="0" * 64), PolicyParameters())


def by(name: str, **given: Any) -> ChosenPolicy:
    kind = ConsensusGame.policies[name]
    return ChosenPolicy(kind, kind.Parameters(**given))


def model(honest: int, *byzantine: tuple[int, ChosenPolicy], parameters: Any = GAME) -> str:
    groups = [Group("byzantine", count, policy) for count, policy in byzantine]
    return ConsensusGame.threat_model(parameters, [Group("honest", honest, OWN), *groups])


def test_without_byzantine_agents_there_is_no_threat() -> None:
    assert model(4) == model(4, (0, by("equivocate"))) == "none"


@pytest.mark.parametrize(("honest", "b", "allowed"), [(2, 1, True), (3, 2, False), (6, 3, True), (7, 4, False)])
def test_the_paper_allows_up_to_a_third(honest: int, b: int, allowed: bool) -> None:
    assert model(honest, (b, by("random"))) == ("paper" if allowed else "beyond: B > N/3")
    assert model(honest, (1, by("random")), (b - 1, by("silent"))) == ("paper" if allowed else "beyond: B > N/3")


def test_of_parleys_policies_only_equivocation_is_beyond_the_paper() -> None:
    for name, kind in ConsensusGame.policies.items():
        given = {"crash": {"round": 1}, "llm_strategies": {"strategies": "inject"}}.get(name, {})
        expected = "beyond: equivocates" if name == "equivocate" else "paper"
        assert model(6, (1, ChosenPolicy(kind, kind.Parameters(**given)))) == expected


def test_all_reasons_are_named_once() -> None:
    both = (1, by("equivocate")), (3, by("equivocate", split="halves"))
    assert model(3, *both) == "beyond: equivocates; B > N/3"


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    assert model(6, (1, OWN)) == model(6, (1, by("silent")), (1, OWN)) == "unknown: own policy"
    assert model(1, (1, OWN)) == "beyond: B > N/3"


def test_a_topology_that_is_not_complete_is_beyond_the_paper() -> None:
    for topology, expected in (("complete", "paper"), ("ring", "beyond: topology ring")):
        assert (
            model(6, (1, by("silent")), parameters=ConsensusParameters.model_validate({"topology": topology}))
            == expected
        )
    assert model(6, parameters=ConsensusParameters.model_validate({"topology": "ring"})) == "none"


def test_the_threat_model_is_a_column_of_the_tables_and_of_the_report(study_factory: Any) -> None:
    study = study_factory(
        {"honest": 2, "b": [0, 1, 2], "byzantine": ["silent", {"name": "crash", "round": 2}]},
        seeds=2,
        parameters={"max_rounds": 2},
    )
    expected = ["none", "paper", "paper", "beyond: B > N/3", "beyond: B > N/3"]
    assert [condition.threat_model for condition in study.conditions] == expected
    for simulation in study.simulations():
        game = simulation.game()
        played = play(simulation.id, game, scripted_policies(simulation, game))
        write_record(simulation.record(study.name), simulation, played, {})
    conditions = summarize(study)
    assert list(conditions["threat_model"]) == expected
    assert list(read_table("small", "conditions")["threat_model"]) == expected
    assert list(read_table("small", "simulations")["threat_model"]) == expected * 2
    axes = list(study.conditions[0].axes)
    assert list(conditions.columns[: len(axes) + 1]) == [*axes, "threat_model"]
    printed = print_conditions(conditions, axes, study.game).splitlines()[1:]  # the first says what is alike
    assert "threat model" in printed[0]
    assert printed[4].count("beyond: B > N/3") == 1
    assert "threat model" not in print_conditions(conditions[:1], axes, study.game)
    figures(study)
    page = report(study).read_text()
    table = page.split("threat model</th>")[1].split("</table>")[0]
    assert table.count('<td data-label="threat model">beyond: B &gt; N/3</td>') == 2
    assert table.count('<td data-label="threat model">paper</td>') == 2


def test_another_protocol_is_beyond_the_paper(study_factory: Any) -> None:
    study = study_factory({"n": 4, "b": [0, 1]}, parameters={"protocol": "swarms"})
    assert [condition.threat_model for condition in study.conditions] == ["none", "beyond: protocol swarms"]
