"""Topologies in studies: axes, paths, mistakes, records and tables."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.show import study_files, write_study
from parley.play.simulate import simulate
from parley.study import load_study
from support.studies import StudyFactory

RANDOM = {"kind": "erdos_renyi", "p": 0.3}
LISTED = {"kind": "edges", "edges": [[1, 2], [2, 3]]}


def test_topologies_are_an_axis_with_readable_paths(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 8, "vary": {"topology": ["complete", "ring", RANDOM, LISTED]}})
    assert [condition.path.rpartition("/")[2] for condition in study.conditions] == [
        "topology=complete",
        "topology=ring",
        "topology=erdos_renyi-p-0.3",
        "topology=edges-59595f",
    ]
    # A list of links is named by the beginning of its hash only, so the spec tells the rest.
    assert len({condition.spec for condition in study.conditions}) == 2
    assert len({condition.identity for condition in study.conditions}) == 4


def test_a_fixed_topology_is_part_of_the_spec(study_factory: StudyFactory) -> None:
    specs = [
        study_factory({"n": 8}, parameters={"topology": topology}).conditions[0].spec
        for topology in ("complete", "ring", RANDOM, {"kind": "erdos_renyi", "p": 0.4})
    ]
    assert len(set(specs)) == 4
    [spelled] = study_factory({"n": 8}, parameters={"topology": {"kind": "ring"}}).conditions
    assert spelled.spec == specs[1]


def test_disclosure_is_an_axis_whose_values_are_written_as_in_yaml(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"disclose_topology": [False, True]}})
    assert [condition.axes["disclose_topology"] for condition in study.conditions] == ["false", "true"]
    silent, told = (condition.spec for condition in study.conditions)
    assert silent != told  # the text that they are told is part of it


@pytest.mark.parametrize(
    ("grid", "parameters", "message"),
    [
        ({"n": [8, 2]}, {"topology": "ring"}, "small.yaml: grids[0]: topology: ring, 2 agents: a ring needs 3; "),
        ({"n": 8, "vary": {"topology": ["ring", {"kind": "edges", "edges": [[1, 9]]}]}}, {}, "8 agents: a link names"),
        ({"honest": 6, "b": [0, 1], "vary": {"topology": ["grid"]}}, {}, "grid, 7 agents: they make a single row"),
        ({"vary": {"topology": ["circle"]}}, {}, "small.yaml: grids[0].vary: topology: 'circle': unknown topology"),
        ({}, {"topology": {"kind": "ring", "k": 2}}, "small.yaml: parameters: topology.k: unknown key; "),
        ({"vary": {"topology": ["ring", {"kind": "ring"}]}}, {}, "topology=ring: duplicate condition"),
    ],
)
def test_a_mistake_is_refused_in_one_line_when_the_study_is_loaded(
    study_factory: StudyFactory, grid: dict[str, Any], parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        study_factory(grid, parameters=parameters)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_study_on_networks_is_played_replayed_shown_and_tabled(study_factory: StudyFactory) -> None:
    vary = {"topology": ["complete", "path", {"kind": "watts_strogatz", "k": 4, "p": 0.5}, LISTED]}
    study = study_factory(
        {"n": 6, "b": 1, "byzantine": "random", "vary": vary}, parameters={"max_rounds": 3, "disclose_topology": True}
    )
    records = [simulation.record(study.name) for simulation in study.simulations()]
    for record in records:
        simulate(study, record, [], 1.0)
    assert all(found.difference is None for found in map(replay, records))
    summarize(study)
    table = read_table(study.name, "simulations").set_index("topology")
    assert table.loc["complete", ["diameter", "connectivity", "edges", "components"]].tolist() == [1, 5, 15, 1]
    assert table.loc["path", ["diameter", "connectivity", "edges", "components"]].tolist() == [5, 1, 5, 1]
    assert table.loc["complete", ["honest_diameter", "honest_connectivity", "honest_edges"]].tolist() == [1, 4, 10]
    assert table["diameter"].isna().tolist() == [False, False, False, True]
    for number, (record, simulation) in enumerate(zip(records, study.simulations(), strict=True)):
        again = Path(f"again{number}.yaml")
        write_study(study_files(record, read_summary(record)), again)
        assert yaml.safe_load(again.read_text())["grids"][0]["vary"]["topology"]
        [rebuilt] = load_study(again).simulations()
        assert rebuilt.id == simulation.id
        assert rebuilt.condition.path == simulation.condition.path
