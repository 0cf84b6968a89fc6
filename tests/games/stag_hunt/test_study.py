"""The stag hunt through the whole pipeline: studies, identity, records, replay, the shipped studies."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.games.stag_hunt.game import StagHuntGame
from parley.play.record import read_record, read_summary, read_trace
from parley.play.replay import replay
from parley.play.show import rebuilt
from parley.play.simulate import simulate
from parley.study import Study, load_study
from parley.study.condition import Condition
from support import REPOSITORY, hunting
from support.studies import StudyFactory

CONFIG = REPOSITORY / "config"
PAPER = CONFIG / "stag-hunt-paper.yaml"
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


def axes_of(study: Study, *names: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(str(condition.axes[name]) for name in names) for condition in study.conditions)


@pytest.mark.slow
def test_records_replay_and_tables_have_all_metrics(study: Study) -> None:
    outcomes = Counter()
    for record in play_all(study):
        assert replay(record).difference is None
        summary, _ = read_record(record)
        assert rebuilt(record, summary).id == summary.simulation["id"]
        series = StagHuntGame.evidence.series(summary.outcome, read_trace(record))
        assert [number for number, _ in series["cooperation"]] == [1, 2, 3, 4]
        if "/model=always_stag/n=4/b=1/" in str(record):
            outcomes["needed=3" in str(record), summary.outcome["name"]] += 1
    assert outcomes == {(False, "exploited"): 4, (True, "cooperation"): 4}
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


def test_adversaries_as_an_axis_are_told_apart_in_the_tables(study_factory: StudyFactory) -> None:
    adversaries = [{"name": "betray", "from_round": 2}, {"name": "betray", "from_round": 3}]
    grid = {**HUNTERS, "model": "grim_trigger", "b": 1, "byzantine": adversaries, "vary": {}}
    study = study_factory(grid, game="stag_hunt", seeds=2, parameters={"rounds": 4})
    play_all(study)
    summarize(study)
    table = read_table(study.name, "simulations")
    assert set(table["byzantine"]) == {condition.axes["byzantine"] for condition in study.conditions}
    assert len(set(table["byzantine"])) == len(read_table(study.name, "conditions")) == 2
    assert table["byzantine_players"].str.startswith("[").all()


def test_figures_of_betrayed_players_are_made_where_somebody_can_be_betrayed(study_factory: StudyFactory) -> None:
    def made(*grids: dict[str, Any], rounds: int = 2) -> set[str]:
        study = study_factory(*grids, game="stag_hunt", parameters={"rounds": rounds})
        return {spec.name for spec in study.figures}

    grid = {**HUNTERS, "byzantine": {"name": "betray"}, "vary": None}
    honest = {"role": "honest", "count": 3, "policy": "tit_for_tat"}
    betrayers = {"role": "byzantine", "count": [0, 1], "policy": "betray"}
    nobody = {"model": None, "n": None, "b": None, "byzantine": None, "vary": None, "prompt": "plain"}
    of_betrayed = {"archetypes", "archetypes_by_threshold"}
    for found in (made(grid), made({**grid, "b": 1}), made({**nobody, "groups": [honest, betrayers]})):
        assert found >= {*of_betrayed, "payoffs", "timeline", "cooperation_and_recovery", "cooperation_by_round"}
    for found in (made({**grid, "b": 0}), made({**grid, "b": 1}, rounds=1), made({**nobody, "groups": [honest]})):
        assert not of_betrayed & found


# Shipped studies


def test_our_study_has_six_models_720_simulations_and_placeholders_that_reach_nobody() -> None:
    study = load_study(CONFIG / "stag-hunt.yaml")
    counts = Counter(simulation.condition.axes["model"] for simulation in study.simulations())
    assert list(counts.values()) == [120] * 6
    assert axes_of(study, "n") == {("4",): len(study.conditions)}
    found = axes_of(study, "b", "cheap_talk", "topology", "disclosure")
    assert (len(found), found["0", "true", "complete", "explicit"]) == (12, 6)  # the control
    assert {condition.threat_model for condition in study.conditions} == {"none", "paper"}
    sources: list[Any] = [entry.source for condition in study.conditions for entry in condition.entries.values()]
    assert {source.url for source in sources} == {"https://models.invalid/v1"}
    assert len({source.served for source in sources}) == 6


def test_the_ablation_crosses_betrayal_with_unanimity_cheap_talk_and_disclosure() -> None:
    study = load_study(CONFIG / "stag-hunt-ablation.yaml")
    found = axes_of(study, "model", "b", "needed", "cheap_talk", "topology", "disclosure")
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
    plain = [("0", "true"), ("1", "true"), ("0", "false")]
    assert {tuple(str(condition.axes[axis]) for axis in axes) for condition in real} == {
        *((b, talk, "complete", "none") for b, talk in plain),
        *(("0", "true", "ring", disclosure) for disclosure in ("silent", "explicit")),
    }


# The published experiment: its cohorts, as scripts/config.py of the published code has them, and its conditions

SIX = ("mixtral-8x22b", "qwen2.5-72b", "llama-3.3-70b", "deepseek-v3", "gpt-4o", "claude-sonnet-4.6")
COHORTS = [tuple(SIX[place] for place in places) for places in ((0, 1, 2, 3), (0, 1, 4, 5), (0, 1, 4, 3))]
TOLD = ("explicit", "silent")
# b, what plays the Byzantine player, topology, disclosure, seat
CONDITIONS = {
    (0, "none", "complete", "none", "any"),
    (1, "betray", "complete", "none", "any"),
    (2, "betray", "complete", "none", "any"),
    (1, "betray-probability-0.5", "complete", "none", "any"),
    *((0, "none", topology, told, "any") for topology in ("complete", "ring", "star") for told in TOLD),
    *((1, "betray", "star", "explicit", seat) for seat in ("hub", "spoke")),
}
RULES = ("grim_trigger", "always_stag", "follow_words", "tit_for_tat", "win_stay_lose_shift", "always_hare")


def test_it_has_the_papers_conditions_for_each_cohort_and_group_size() -> None:
    study = load_study(PAPER, needs_weights=False)

    def of(condition: Condition) -> tuple[Any, ...]:
        return tuple(condition.axes[axis] for axis in ("b", "byzantine", "topology", "disclosure", "seat"))

    def models(condition: Condition) -> tuple[str | None, ...]:
        return tuple(group.player.model for group in condition.groups if group.role == "honest")

    for cohort in COHORTS:
        here = [condition for condition in study.conditions if models(condition) == cohort]
        assert {of(condition) for condition in here} == CONDITIONS
        assert (len(here), {condition.axes["n"] for condition in here}) == (12, {4})
    for n in (2, 3, 5, 6):
        [sized] = [condition for condition in study.conditions if condition.axes["n"] == n]
        assert (models(sized), of(sized)) == (SIX[:n], (1, "betray", "complete", "none", "any"))
    assert len(study.conditions) == 40
    assert {len(condition.seeds) for condition in study.conditions} == {20}


@pytest.mark.slow
def test_scripted_cohorts_play_it_replay_and_are_summarized(folder: Path) -> None:
    text = PAPER.read_text()
    for model, policy in zip(SIX, RULES, strict=True):
        text = text.replace(f"model: {model}}}", f"policy: {policy}}}")
    Path("scripted.yaml").write_text(yaml.safe_dump({**yaml.safe_load(text), "seeds": 3}))
    study = load_study(Path("scripted.yaml"))
    records = play_all(study)
    assert len(records) == 120
    for simulation, record in zip(study.simulations(), records, strict=True):
        assert replay(record).difference is None
        summary, trace, axes = read_summary(record), read_trace(record), simulation.condition.axes
        assert rebuilt(record, summary).id == simulation.id
        byzantine = summary.outcome["metrics"]["byzantine_players"]
        assert (len(trace), len(byzantine)) == (5, axes["b"])
        if axes["byzantine"] == "betray":
            assert {entry["actions"][name] for entry in trace for name in byzantine} == {"Hunt Hare"}
            assert not summary.outcome["metrics"]["successes"]
        if axes["topology"] == "star":
            hubs = [name for name, peers in trace[0]["neighbors"].items() if len(peers) == 3]
            assert (hubs == byzantine) == (axes["seat"] == "hub")
    summarize(study)
    assert set(read_table(study.name, "simulations")["excluded_rounds"]) == {0}
    players = read_table(study.name, "players")
    assert {"grim_trigger", "always_stag", "tit_for_tat"} <= set(players["player"])
    prone = players[(players["player"] == "grim_trigger") & (players["quantity"] == "defection_prone")]
    assert set(prone[prone["byzantine"] == "betray"]["mean"]) == {1.0}
    kept = players[(players["player"] == "always_stag") & (players["quantity"] == "kept_hunting")]
    assert set(kept["mean"]) == {1.0}
