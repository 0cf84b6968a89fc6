"""The stag hunt through the whole pipeline: studies, identity, records, replay, the shipped studies."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.games.stag_hunt.game import StagHuntGame
from parley.play.record import read_record, read_summary, read_trace
from parley.play.replay import replay
from parley.play.show import rebuilt
from parley.play.simulate import simulate
from parley.study import Study, load_study
from support import REPOSITORY, hunting
from support.studies import StudyFactory

CONFIG = REPOSITORY / "config"
NETWORKS = ("complete", "ring", "path", "star")
HUNTERS = {**hunting.HUNTERS, "n": 4, "vary": {"needed": ["all", 3], "topology": ["complete", "ring"]}}


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory(HUNTERS, game="stag_hunt", seeds=2, parameters={"rounds": 4, "disclosure": "silent"})


def play_all(study: Study) -> list[Path]:
    records = [simulation.record(study.name) for simulation in study.simulations()]
    for record in records:
        simulate(study, record, [], 5.0)
    return records


@pytest.mark.slow
def test_records_replay_and_tables_have_all_metrics(study: Study) -> None:
    for record in play_all(study):
        assert replay(record).difference is None
        summary, _ = read_record(record)
        assert rebuilt(record, summary).id == summary.simulation["id"]
        series = StagHuntGame.evidence.series(summary.outcome, read_trace(record))
        assert [number for number, _ in series["cooperation"]] == [1, 2, 3, 4]
    summarize(study)
    rows = read_table(study.name, "simulations")
    for described in (*StagHuntGame.evidence.indicators, *StagHuntGame.evidence.quantities):
        assert described.name in rows or described.name == "excluded_rounds"  # of the published rules alone
    attacked = rows[(rows["b"] == 1) & (rows["model"] == "grim_trigger") & (rows["topology"] == "complete")]
    assert set(attacked["rounds_until_detection"]) == {1}
    assert set(attacked["defection_prone"]) == {1.0}
    assert set(rows[(rows["b"] == 1) & (rows["model"] == "always_stag")]["detected"]) == {False}
    assert set(rows["needed"]) == {"all", "3"}
    assert set(rows["hunters_needed"]) == {4, 3}
    assert set(rows["threat_model"]) == {"none", "paper"}
    assert paths.table(study.name, "conditions", ".csv").exists()


def test_a_needed_number_makes_stag_hunters_succeed_without_the_betrayer(study: Study) -> None:
    outcomes = Counter()
    for record in play_all(study):
        outcome = read_summary(record).outcome
        if "/model=always_stag/n=4/b=1/" in str(record):
            outcomes["needed=3" in str(record), outcome["name"]] += 1
    assert outcomes == {(False, "exploited"): 4, (True, "cooperation"): 4}


def test_a_study_that_hides_players_without_saying_how_is_refused(study_factory: StudyFactory) -> None:
    with pytest.raises(UsageError, match="set disclosure: silent or explicit"):
        study_factory(HUNTERS, game="stag_hunt")


@pytest.mark.parametrize(
    ("grid", "rounds", "shown"),
    [({}, 2, True), ({"b": 0}, 2, False), ({"b": 1}, 1, False), ({"b": 1}, 2, True)],
)
def test_figures_of_betrayed_players_are_made_where_somebody_can_be_betrayed(
    study_factory: StudyFactory, grid: dict[str, Any], rounds: int, shown: bool
) -> None:
    late = {"byzantine": {"name": "betray"}, "vary": None}
    study = study_factory(HUNTERS | late | grid, game="stag_hunt", parameters={"rounds": rounds})
    made = {spec.name for spec in study.figures}
    assert ({"archetypes", "archetypes_by_threshold"} <= made) == shown
    assert made >= {"payoffs", "timeline", "cooperation_and_recovery", "cooperation_by_round"}


def test_a_group_of_betrayers_counts_as_such(study_factory: StudyFactory) -> None:
    honest = {"role": "honest", "count": 3, "policy": "tit_for_tat"}
    nobody = {"model": None, "n": None, "b": None, "byzantine": None, "vary": None, "prompt": "plain"}

    def made(*groups: dict[str, Any]) -> set[str]:
        study = study_factory({**nobody, "groups": [honest, *groups]}, game="stag_hunt")
        return {spec.name for spec in study.figures}

    assert "archetypes" not in made()
    assert "archetypes" in made({"role": "byzantine", "count": [0, 1], "policy": "betray"})


def test_the_paper_s_study_has_six_models_and_720_simulations() -> None:
    study = load_study(CONFIG / "stag-hunt.yaml")
    simulations = list(study.simulations())
    assert len(simulations) == 720
    counts = Counter(simulation.condition.axes["model"] for simulation in simulations)
    assert list(counts.values()) == [120] * 6
    assert {simulation.condition.axes["n"] for simulation in simulations} == {4}
    found = Counter(
        tuple(str(condition.axes[axis]) for axis in ("b", "cheap_talk", "topology", "disclosure"))
        for condition in study.conditions
    )
    assert len(found) == 12
    assert found["0", "true", "complete", "explicit"] == 6  # the control
    assert {condition.threat_model for condition in study.conditions} == {"none", "paper"}


def test_the_placeholders_for_hosted_models_reach_nobody() -> None:
    study = load_study(CONFIG / "stag-hunt.yaml")
    sources: list[Any] = [entry.source for condition in study.conditions for entry in condition.entries.values()]
    assert {source.url for source in sources} == {"https://models.invalid/v1"}
    assert len({source.served for source in sources}) == 6


def test_adversaries_as_an_axis_are_told_apart_in_the_tables(study_factory: StudyFactory) -> None:
    adversaries = [{"name": "betray", "from_round": 2}, {"name": "betray", "from_round": 3}]
    grid = {**HUNTERS, "model": "grim_trigger", "b": 1, "byzantine": adversaries, "vary": {}}
    study = study_factory(grid, game="stag_hunt", seeds=2, parameters={"rounds": 4})
    play_all(study)
    summarize(study)
    table = read_table(study.name, "simulations")
    assert set(table["byzantine"]) == {condition.axes["byzantine"] for condition in study.conditions}
    assert len(set(table["byzantine"])) == 2
    assert table["byzantine_players"].str.startswith("[").all()
    assert len(read_table(study.name, "conditions")) == 2


def test_the_ablation_crosses_betrayal_with_unanimity_cheap_talk_and_disclosure() -> None:
    study = load_study(CONFIG / "stag-hunt-ablation.yaml")
    axes = ("model", "b", "needed", "cheap_talk", "topology", "disclosure")
    found = Counter(tuple(str(condition.axes[axis]) for axis in axes) for condition in study.conditions)
    assert set(found.values()) == {1}
    assert len({key[0] for key in found}) == 2
    # Models and b; needed by cheap talk, or needed by network and disclosure.
    assert len(found) == 2 * 2 * (3 * 2 + 2 * 4 * 2)
    assert {key[2] for key in found if key[5] == "none"} == {"all", "4", "3"}  # 4 of 4 in the words of 3: the control
    told = {key[4:] for key in found if key[1:4] == ("1", "3", "true")}
    assert told == {("complete", "none"), *((t, d) for t in NETWORKS for d in ("silent", "explicit"))}


def test_the_demo_has_all_contrasts_of_the_real_model() -> None:
    study = load_study(CONFIG / "stag-hunt-demo.yaml")
    axes = ("b", "cheap_talk", "topology", "disclosure")
    real = [condition for condition in study.conditions if condition.models]
    assert {tuple(str(condition.axes[axis]) for axis in axes) for condition in real} == {
        ("0", "true", "complete", "none"),
        ("1", "true", "complete", "none"),
        ("0", "false", "complete", "none"),
        ("0", "true", "ring", "silent"),
        ("0", "true", "ring", "explicit"),
    }
