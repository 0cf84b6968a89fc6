"""Whether a question was frozen before the games that answer it, from times written out by hand, and as it is said."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.registration import Told, registered_lines, registrations, with_registration
from parley.analysis.simulations import IMPORTED
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import UsageError
from parley.play.record_store import read_records
from parley.play.simulate import simulate_shard
from parley.study import Study
from parley.study.condition import SCRIPTED, Simulation
from parley.study.frozen import read_frozen, write_frozen
from support.commands import Parley
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "A question is called confirmatory only if it was frozen, as it is, before the first of its games."
)

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
GRID: dict[str, Any] = {"prompt": ["may_exist", "none_exist"], "seeds": 12}
BEFORE, AFTER = -60, 60  # seconds from the freeze


@pytest.fixture
def study(study_factory: StudyFactory) -> Study:
    study = study_factory(GRID, questions=[ASKED])
    write_frozen(study)
    return study


def games(study: Study, *early: int, engine: str = "scripted", by: int = BEFORE) -> pd.DataFrame:
    """Return a table of simulations that began after the freeze, but those of the `early` seeds."""
    freeze = datetime.fromisoformat(read_frozen(study).time)
    return pd.DataFrame(
        {
            "spec": simulation.condition.spec,
            "seed": simulation.seed,
            "started": (freeze + timedelta(seconds=by if simulation.seed in early else AFTER)).isoformat(),
            "engine": engine,
        }
        for simulation in study.simulations()
    )


def told(study: Study, rows: pd.DataFrame) -> str:
    [line] = registered_lines(rows, study)
    return line.removeprefix("prompt: ")


def test_what_was_frozen_before_the_first_game_is_confirmatory_and_nothing_else_is(study: Study) -> None:
    assert list(registrations(games(study), study)) == [Told("frozen before the first of 24 games", True, True)]
    assert told(study, games(study)) == "confirmatory, frozen before the first of 24 games"
    assert told(study, games(study).iloc[:0]) == "frozen, and no game is played"
    assert told(study, games(study, *range(12))) == "frozen after 24 of 24 games: exploratory"
    assert told(study, games(study, 0, 1, 2)) == "frozen after 6 of 24 games: exploratory"
    rows = games(study)
    Path("small.frozen.md").unlink()
    assert told(study, rows) == "not frozen: exploratory"


def test_a_game_that_was_there_or_begun_at_the_freeze_came_before_it_whatever_its_clock_says(
    study: Study, study_factory: StudyFactory
) -> None:
    conditions = study.conditions
    places = [Simulation(conditions[0], 0).record("small"), Simulation(conditions[1], 3).record("small")]
    journal = Path(str(places[1]).replace("simulations", "journals")).with_suffix(".jsonl")  # died, and goes on later
    for place in (places[0], journal):
        place.parent.mkdir(parents=True)
        place.touch()
    changed = study_factory(GRID, questions=[{**ASKED, "smallest": 0.1}])
    write_frozen(changed, force=True)
    assert told(changed, games(changed)) == "frozen 2 times, last after 2 of 24 games: exploratory"


def test_any_repeat_of_a_fork_that_was_there_at_the_freeze_came_before_it(study_factory: StudyFactory) -> None:
    simulate_shard(study_factory({"n": 4}, seeds=4, parameters={"max_rounds": 4}), SCRIPTED, 0)
    asked = {**ASKED, "compare": "change"}
    fork = {"of": "small", "at": [2], "change": ["none", {"silence": "honest"}], "repeats": 3}
    forks = study_factory(name="forks", fork=fork, questions=[asked])
    again = [simulation for simulation in forks.simulations() if simulation.condition.repeat]
    for simulation in again:  # all but the first repeat
        place = simulation.record("forks")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    write_frozen(forks)
    [said] = registrations(games(forks.shown), forks)
    assert said.registered == "frozen after 8 of 8 games: exploratory"


def test_seeds_that_came_or_went_since_are_named(study: Study, study_factory: StudyFactory) -> None:
    more = study_factory(GRID | {"seeds": 14}, questions=[ASKED])
    first = "frozen before the first of 28 games"
    assert told(more, games(more)) == f"{first}; seeds added since: 12, 13: exploratory but for the anytime p"
    fewer = study_factory(GRID | {"seeds": [0, 1, 2, 3, 4, 5, 6, 7, 9, 11]}, questions=[ASKED])
    said = told(fewer, games(fewer))
    assert said == "frozen before the first of 20 games; seeds left out since: 8, 10: exploratory"
    # What is not played yet is neither.
    part = replace(study_factory(GRID | {"seeds": 10}, questions=[ASKED]), part_of=study)
    assert "stopped at 20 of 24 games: seeds 10, 11 are missing" in told(part, games(part))


def test_seeds_that_are_missing_before_others_were_chosen(study: Study) -> None:
    rows = games(study)
    said = told(study, rows[rows["seed"] != 5])
    assert said.endswith("stopped at 22 of 24 games: seeds 5 are missing, and they are not the last: exploratory")


def test_a_page_that_was_edited_or_cannot_be_read_is_among_the_earlier_ones(study: Study) -> None:
    file = Path("small.frozen.md")
    text = file.read_text()
    year = f'"time": "{datetime.fromisoformat(read_frozen(study).time).year}'
    for old, new, time in ((year, '"time": "1999', "1999"), ("json parley-frozen", "json other", "None")):
        file.write_text(text.replace(old, new))
        write_frozen(study, force=True)
        [before] = read_frozen(study).earlier
        assert before["edited"] is True
        assert str(before["time"]).startswith(time)


def test_playing_seeds_again_to_measure_noise_changes_nothing(study_factory: StudyFactory) -> None:
    grid = GRID | {"model": "random"}
    for frozen, now in ((1, 2), (2, 1), (2, 3)):
        study = study_factory(grid, questions=[ASKED], repeats=frozen)
        Path("small.frozen.md").unlink(missing_ok=True)
        write_frozen(study)
        again = study_factory(grid, questions=[ASKED], repeats=now)
        rows = games(again.shown)
        assert told(again, rows) == "confirmatory, frozen before the first of 24 games"


def test_a_question_or_a_condition_that_changed_since_is_exploratory(study_factory: StudyFactory) -> None:
    grid = GRID | {"n": [3, 4], "seeds": 4}
    asked = {**ASKED, "over": ["n"]}
    study = study_factory(grid, questions=[asked])
    write_frozen(study)
    rows = games(study)
    cases: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
        ({}, {"questions": [{**asked, "smallest": 0.1}]}, "CHANGED since it was frozen"),
        ({}, {"questions": [{**asked, "name": "new"}]}, "not among the frozen questions"),
        ({}, {"parameters": {"max_rounds": 7}}, "its conditions CHANGED since they were frozen"),
        ({"n": [3, 4, 5]}, {}, "its conditions CHANGED since they were frozen"),
        ({"n": [3]}, {}, "2 conditions left out since it was frozen"),
    ]
    for changed, content, why in cases:
        now = study_factory({**grid, **changed}, **{"questions": [asked], **content})
        assert list(registrations(rows, now)) == [Told(f"{why}: exploratory")]
    fewer = study_factory(grid, questions=[asked, {**asked, "name": "b", "smallest": 0.3}])
    write_frozen(fewer, force=True)
    one = study_factory(grid, questions=[asked])
    assert told(one, rows) == "1 question left out since it was frozen: exploratory"
    # Another condition beside it changes nothing, nor does playing seeds again.
    both = study_factory(grid, {**grid, "model": "random"}, questions=[{**asked, "where": {"model": "majority"}}])
    write_frozen(both, force=True)
    alone = study_factory(grid, {**grid, "model": ["random", "stubborn"]}, questions=[both.questions_json[0]])
    assert told(alone, rows) == "confirmatory, frozen 3 times, last before the first of 16 games"


def test_a_page_that_was_edited_or_has_no_time_and_imported_games_prove_nothing(study: Study) -> None:
    rows = games(study)
    assert told(study, games(study, engine=f"{IMPORTED}jsonl")) == (
        "imported games, whose times are not ours: exploratory"
    )
    file = Path("small.frozen.md")
    text = file.read_text()
    year = str(datetime.fromisoformat(read_frozen(study).time).year)
    for old, new in (
        ('"smallest": 0.2', '"smallest": 0.4'),
        (f'"time": "{year}', '"time": "1999'),
        ("{}", '{"a": 3}'),
    ):
        assert old in text
        file.write_text(text.replace(old, new))
        assert told(study, rows) == "the frozen page was edited: exploratory"
    for other in ('"moment": "', '"time": "soon, '):
        file.write_text(text.replace('"time": "', other))
        assert told(study, rows) == "the frozen page cannot be read: exploratory"


def test_frozen_again_as_it_was_it_keeps_its_time_and_changed_it_does_not(
    study: Study, study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, first = games(study), read_frozen(study)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> "Later":
            return cls(2999, 1, 1, tzinfo=UTC)

    monkeypatch.setattr("parley.study.frozen.datetime", Later)
    with pytest.raises(UsageError):
        write_frozen(study)
    write_frozen(study, force=True)
    assert read_frozen(study) == first
    changed = study_factory(GRID, questions=[{**ASKED, "smallest": 0.1}])
    write_frozen(changed, force=True)
    assert read_frozen(changed).time.startswith("2999")
    assert told(changed, rows) == "frozen 2 times, last after 24 of 24 games: exploratory"
    write_frozen(study_factory(GRID, questions=[ASKED]), force=True)
    assert [each["time"] for each in read_frozen(study).earlier] == [first.time, read_frozen(changed).time]


def test_a_study_of_which_games_are_missing_is_answered_by_the_p_that_holds_at_any_time(study: Study) -> None:
    rows = games(study)
    few = rows[(rows["seed"] < 5) | (rows["spec"] == study.conditions[1].spec)]
    for part in (rows[rows["seed"] < 5], few):
        said = told(study, part)
        assert f"stopped at {len(part)} of 24 games: seeds 5, 6, 7, 8, 9, 10, 11 are missing" in said
        assert "confirmatory" not in said
    told_by_p = {"p_holm": 0.001, "anytime_p_holm": 0.2, "p_equivalence": 0.001, "p_equivalence_holm": 0.001}
    same = {
        "kind": "outcome",
        "pairs": 5,
        "worst_low": np.nan,
        "difference": 0.2,
        "low": 0.1,
        "high": 0.3,
        "smallest": 0.5,
        "test": "",
        "together_low": 0.1,
        "together_high": 0.3,
    }
    answered = pd.DataFrame([{**same, **told_by_p, "value_from": 0.5}])
    assert with_registration(answered, rows, study)["answer"].tolist() == ["differs, by less than 0.5"]
    assert with_registration(answered, few, study)["answer"].tolist() == ["open"]


@pytest.fixture
def played(study: Study) -> Study:
    simulate_shard(study, SCRIPTED, 0)
    return study


def test_it_stands_in_the_table_and_freezing_anew_makes_no_table_out_of_date(
    played: Study, parley: Parley, study_factory: StudyFactory
) -> None:
    summarize(played)
    row = read_table("small", "questions").iloc[0]
    assert [row["registered"], row["confirmatory"], row["seeds_fixed"]] == [
        "frozen before the first of 24 games",
        True,
        True,
    ]
    simulations = read_table("small", "simulations")
    assert simulations["started"].tolist() == [each.provenance["started"] for each in read_records(played).summaries]
    assert "Confirmatory: frozen before the first of 24 games, but" in parley("summarize", "small.yaml").out
    plan = played.plan
    changed = study_factory(GRID, questions=[{**ASKED, "smallest": 0.1}])
    said = parley("plan", "small.yaml", "--freeze", "--force").out.splitlines()
    assert said[1].startswith("frozen after 24 of 24 games: ")
    assert study_factory(GRID, questions=[ASKED]).plan == plan
    now = with_registration(read_table("small", "questions"), simulations, changed)
    assert now["registered"].tolist() == ["frozen 2 times, last after 24 of 24 games: exploratory"]
