"""Deliberation through the whole pipeline: studies, identity, records, replay, one simulation's study file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.figures.make import figures
from parley.games.deliberation.game import DeliberationGame
from parley.ledger.build import build, check_against_records
from parley.play.record import read_record, read_summary, read_trace
from parley.play.replay import replay
from parley.play.show import rebuilt, study_files
from parley.play.simulate import simulate
from parley.report.page import report
from parley.study import Study, load_study
from parley.workflow.hooks import require_material
from support import REPOSITORY
from support.studies import StudyFactory

SOLVERS = {
    "model": {"name": "solver", "accuracy": 0.6},
    "n": 4,
    "b": [0, 1],
    "byzantine": "stubborn",
    "prompt": "improve",
}


def questions(folder: Path, numbers: range) -> Path:
    """Write a small file of problems in the form of GSM8K, and return it."""
    lines = [
        {"question": f"What is {i} + 1?", "answer": f"It is <<{i}+1={i + 1}>>{i + 1}.\n#### {i + 1}"} for i in numbers
    ]
    file = folder / "problems.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def gsm8k(file: Path, **more: Any) -> dict[str, Any]:
    return {"problems": {"kind": "gsm8k", "path": str(file), **more}}


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    return study_factory(SOLVERS, game="deliberation", seeds=3, parameters={"turns": 1})


def play_all(study: Study) -> list[Path]:
    records = [simulation.record(study.name) for simulation in study.simulations()]
    for record in records:
        simulate(study, record, [], 5.0)
    return records


def test_conditions_share_their_problems_by_seed_and_records_tell_curves_and_transcripts(study: Study) -> None:
    found: dict[int, set[str]] = {}
    records = play_all(study)
    for record in records:
        summary = read_summary(record)
        found.setdefault(summary.simulation["seed"], set()).add(summary.outcome["metrics"]["problem"])
    assert [len(problems) for problems in found.values()] == [1, 1, 1]
    assert len(set.union(*found.values())) == 3
    outcome, trace = read_summary(records[-1]).outcome, read_trace(records[-1])
    series = DeliberationGame.evidence.series(outcome, trace)
    assert [turn for turn, _ in series["accuracy"]] == [0]  # all agreed at once: nothing was played after it
    [session] = DeliberationGame.evidence.transcript(outcome, trace)
    assert (len(session.agents), len(session.utterances)) == (4, outcome["metrics"]["utterances"])


def test_a_record_replays_without_the_file_of_its_problems(tmp_path: Path, study_factory: StudyFactory) -> None:
    file = questions(tmp_path, range(20))
    records = play_all(study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file)))
    file.unlink()
    for record in records:
        assert replay(record).difference is None
        summary, _ = read_record(record)
        assert rebuilt(record, summary).id == summary.simulation["id"]
        assert summary.simulation["material"]["question"].startswith("What is ")
        assert str(tmp_path) not in json.dumps(summary.simulation)
        problems = study_files(record, summary).study["parameters"]["problems"]
        assert problems["kind"] == "gsm8k"
        assert "path" not in problems


def test_the_identity_follows_the_problems_and_not_their_file(tmp_path: Path, study_factory: StudyFactory) -> None:
    def ids(file: Path, **more: Any) -> list[str]:
        study = study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file, **more))
        return [simulation.id for simulation in study.simulations()]

    first = ids(questions(tmp_path, range(20)))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    copied = questions(elsewhere, range(20))
    assert ids(copied) == first
    assert ids(copied, order=1) != first
    assert ids(questions(elsewhere, range(21))) != first
    with pytest.raises(UsageError, match=r"nowhere\.jsonl"):
        ids(tmp_path / "nowhere.jsonl")


def test_a_time_limit_is_replayed_with_the_recorded_times(study_factory: StudyFactory) -> None:
    study = study_factory(SOLVERS, game="deliberation", seeds=2, parameters={"time_limit": 1})
    assert {replay(record).difference for record in play_all(study)} == {None}


@pytest.mark.slow
def test_what_a_study_shows_is_computed_from_its_records(study_factory: StudyFactory) -> None:
    grids = [SOLVERS, {**SOLVERS, "b": 0, "vary": {"problems": ["policies"]}}]
    parameters = {"turns": 1, "stop_when_unanimous": False}
    study = study_factory(*grids, game="deliberation", seeds=6, parameters=parameters)
    play_all(study)
    summarize(study)
    blocks = build(study)
    figures(study)
    simulations, rounds, rates = (read_table(study.name, name) for name in ("simulations", "rounds", "rates"))
    arithmetic = [simulation for simulation in study.simulations() if simulation.condition.axes["b"] == 1]
    traces = [read_trace(simulation.record(study.name)) for simulation in arithmetic]
    mine = (rounds["b"] == 1) & (rounds["measure"] == "accuracy") & (rounds["round"] == 1)
    shares = [trace[1]["measures"]["accuracy"] for trace in traces]
    assert rounds[mine]["mean"].item() == pytest.approx(sum(shares) / len(shares))
    assert rounds[mine]["simulations"].item() == 6
    known = rates[(rates["problems"] == "policies") & (rates["indicator"] == "consensus_correct")]
    assert known["simulations"].tolist() == [0]
    compared = set(read_table(study.name, "contrasts")["what"])
    assert {"correct_consensus", "single_correct", "unreadable"} <= compared
    assert not {"utterances", "deliberations"} & compared  # they only keep count
    agreed = blocks[blocks["agreed"]]
    assert agreed["block_bytes"].min() > blocks[~blocks["agreed"]]["block_bytes"].max()
    assert (agreed["utterances"] == agreed["agents"] * 2).all()
    assert blocks["agreed"].tolist() == simulations["finished_early"].tolist()
    drawn = {spec.name for spec in study.figures}
    assert {"accuracy_by_turn", "deliberation_gain", "confidence_by_turn", "block_size", "times"} <= drawn
    gain = paths.figure(study.name, "deliberation_gain", ".svg").read_text()
    assert "problems=policies" not in gain  # nothing is right or wrong there
    sizes = paths.figure(study.name, "block_size", ".svg").read_text()
    told = {int(count) for text in re.findall(r">\(([\d/–]+)\)<", sizes) for count in re.findall(r"\d+", text)}
    assert told - {0} == set(agreed.groupby(["problems", "b"]).size())


def test_problems_are_an_axis_and_only_figures_that_can_show_something_are_drawn(study_factory: StudyFactory) -> None:
    sources = ["arithmetic", "wason", {"kind": "arithmetic", "steps": 5}]
    study = study_factory({**SOLVERS, "vary": {"problems": sources, "turns": [1, 2]}}, game="deliberation", seeds=1)
    assert len(study.conditions) == 12
    assert len({condition.axes["problems"] for condition in study.conditions}) == 3

    def drawn(problems: str) -> set[str]:
        study = study_factory(SOLVERS, game="deliberation", parameters={"problems": problems})
        return {spec.name for spec in study.figures}

    assert drawn("arithmetic") - drawn("policies") == {"accuracy_by_turn", "deliberation_gain"}
    assert drawn("policies") - drawn("wason") == {"confidence_by_turn"}


@pytest.mark.slow
def test_a_finished_study_needs_no_data_where_it_names_them_by_their_hash(
    tmp_path: Path, study_factory: StudyFactory
) -> None:
    file = questions(tmp_path, range(20))
    first = study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file))
    sha256 = first.conditions[0].parameters.model_dump()["problems"]["sha256"]
    study = study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file, sha256=sha256))
    play_all(study)
    file.unlink()
    study = study_factory(SOLVERS, game="deliberation", seeds=2, parameters=gsm8k(file, sha256=sha256))
    summarize(study)
    build(study)
    figures(study)
    report(study)
    assert check_against_records(study).blocks == 4
    more = study_factory(SOLVERS, game="deliberation", seeds=3, parameters=gsm8k(file, sha256=sha256))
    missing = [str(simulation.record(more.name)) for simulation in more.simulations() if simulation.seed == 2]
    require_material(more, set())
    with pytest.raises(UsageError, match=r"problems\.jsonl: no such file or folder"):
        require_material(more, missing)


def test_conditions_about_other_problems_are_no_pairs(study_factory: StudyFactory) -> None:
    grid = {**SOLVERS, "b": 0, "vary": {"problems": ["arithmetic", "wason"], "turns": [1, 2]}}
    study = study_factory(grid, game="deliberation", seeds=4)
    play_all(study)
    summarize(study)
    table = read_table(study.name, "contrasts")
    rates = table[table["kind"] == "indicator"]
    assert set(rates[rates["axis"] == "turns"]["test"]) == {"McNemar"}
    assert set(rates[rates["axis"] == "problems"]["test"]) == {"chi-squared"}
    assert (rates[rates["axis"] == "problems"]["pairs"] == 0).all()


def test_the_paper_s_study_has_its_agents_turns_and_problems() -> None:
    """Its data are the user's: named by their hash, it can be planned without them."""
    study = load_study(REPOSITORY / "config" / "deliberation.yaml")
    axes = {name: {condition.axes[name] for condition in study.conditions} for name in ("n", "turns", "problems", "b")}
    assert (axes["n"], axes["turns"], axes["b"]) == ({3, 4, 5}, {2, 3}, {0, 1})
    assert axes["problems"] == {"arithmetic", "gsm8k-test", "delidata"}
    with pytest.raises(UsageError, match=r"data/\w+: no such file or folder"):
        require_material(study, {str(simulation.record(study.name)) for simulation in study.simulations()})
