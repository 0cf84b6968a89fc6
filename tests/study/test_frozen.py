"""The preregistration: written once, completed by a person, and compared with the study as it is."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.errors import UsageError
from parley.study import Study
from parley.study.frozen import frozen_lacks, frozen_state, planned_report, report_plan, write_frozen
from parley.study.load import RunPlan, plan_of
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A frozen study that changed is said to have changed.")

ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "over": ["n"], "smallest": 0.2}
GRID: dict[str, Any] = {"n": [4, 6], "prompt": ["may_exist", "none_exist"], "seeds": 3}
SAME = "the study is as it was frozen"


@pytest.fixture
def frozen(study_factory: StudyFactory) -> Study:
    study = study_factory(GRID, questions=[ASKED])
    assert write_frozen(study) == Path("small.frozen.md") == paths.frozen(study.file)
    return study


def test_a_difference_of_times_has_its_unit(study_factory: StudyFactory) -> None:
    asked = ASKED | {"outcome": {"time_to": "valid_consensus"}, "smallest": 2}
    write_frozen(study_factory(GRID, questions=[asked]))
    assert "Smallest difference that matters: 2 rounds." in Path("small.frozen.md").read_text()


def test_it_holds_questions_conditions_and_rules_for_people(frozen: Study) -> None:
    text = Path("small.frozen.md").read_text()
    asked = "Do games end in “valid consensus” as often with prompt=none_exist as with prompt=may_exist?"
    assert f"1. **prompt**: {asked} Over all values of n. Smallest difference that matters: 0.2." in text
    assert "honest_propose_system" in text  # where the prompts differ
    assert "4 conditions, 12 simulations" in text
    assert "    model=majority/n=6/b=0/prompt=none_exist: 3 seeds" in text
    for part in ("Stopping", "Exclusion", "Analysis", "## Why"):
        assert part in text
    assert str(Path.cwd()) not in text
    said = rf"small\.frozen\.md, [0-9a-f]{{8}}, [0-9T:-]+\+00:00, left as a form.+ and not committed: {SAME}"
    assert re.fullmatch(said, frozen_state(frozen))


def test_it_names_what_is_not_the_default(study_factory: StudyFactory) -> None:
    path = write_frozen(study_factory(GRID, questions=[ASKED], parameters={"max_rounds": 7}))
    assert "- `max_rounds`: 7" in path.read_text()


def test_what_a_person_writes_changes_nothing_and_is_overwritten_only_if_forced(frozen: Study) -> None:
    file = Path("small.frozen.md")
    file.write_text(file.read_text().replace("*who*", "A. Person").replace("## Why", "## Why we do this\n\nTo learn."))
    assert frozen_state(frozen).endswith(SAME)
    with pytest.raises(UsageError, match="--force"):
        write_frozen(frozen)
    assert "A. Person" in file.read_text()
    write_frozen(frozen, force=True)
    assert "A. Person" not in file.read_text()


def test_a_page_that_is_a_form_still_or_that_git_has_otherwise_is_said(frozen: Study) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True)

    file = Path("small.frozen.md")
    assert frozen_lacks(frozen).startswith("left as a form (*who*, *when*, *nothing, or")
    file.write_text(file.read_text().replace("*who*", "A. Person").replace("*when*", "today"))
    assert re.fullmatch(r"left as a form \(\*nothing, [^)]+\) and not committed", frozen_lacks(frozen))
    file.write_text(re.sub(r"(?<!\*)\*[^*\n]+\*(?!\*)", "Said.", file.read_text()))
    git("init", "-q")
    git("add", str(file))
    assert frozen_lacks(frozen) == "not committed"
    git("commit", "-qm", "Freeze")
    assert frozen_lacks(frozen) == ""
    file.write_text(file.read_text() + "More.\n")
    assert frozen_lacks(frozen) == "not committed"


def test_what_changed_is_said(frozen: Study, study_factory: StudyFactory) -> None:
    changes: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"seeds": [0, 1, 5]}, {}, "4 conditions changed"),  # as many
        ({"n": [4, 6, 8]}, {}, "2 conditions added"),
        ({}, {"parameters": {"max_rounds": 7}}, "4 conditions changed"),
        ({}, {"questions": [{**ASKED, "smallest": 0.1}]}, "1 question changed: prompt"),
        ({}, {"questions": [{**ASKED, "name": "other"}]}, "1 question added: other; 1 question removed: prompt"),
    ]
    for grid, content, said in changes:
        state = frozen_state(study_factory({**GRID, **grid}, **{"questions": [ASKED], **content}))
        assert state.endswith(f": CHANGED since it was frozen: {said}")
    other = study_factory(GRID, questions=[ASKED], title="Another", shard_size=7)
    assert frozen_state(other).endswith(SAME)


def test_a_damaged_file_is_told_from_a_study_that_changed(frozen: Study) -> None:
    file = Path("small.frozen.md")
    file.write_text(file.read_text().replace('"smallest": 0.2', '"smallest": 0.4'))
    assert "the frozen block was edited" in frozen_state(frozen)
    for damage in ("", "```json parley-frozen\n{\n```\n", "```json parley-frozen\n[1]\n```\n"):
        file.write_text(damage)
        assert frozen_state(frozen).startswith("small.frozen.md: its frozen block cannot be read"), damage


def test_freezing_a_study_and_changing_that_are_other_plans_of_the_report_for_all_jobs_of_a_run(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_factory(GRID, questions=[ASKED])
    assert report_plan(study) == study.plan
    write_frozen(study)
    frozen = report_plan(study)
    monkeypatch.setenv("PARLEY_RUN", "")
    RunPlan("token", plan_of(study), frozen).give_to_jobs()
    paths.frozen(study.file).write_text("damaged")
    assert len({report_plan(study), frozen, study.plan}) == 3
    assert planned_report(study) == frozen
