"""The plan of a run: what changes it, and who refuses a study that changed."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parley.cli import commands
from parley.errors import ParleyError
from parley.study import load_study
from parley.study.load import RunPlan, changed_since, plan_of, require_plan, run_plan
from support.studies import MODELS, StudyFactory

pytestmark = pytest.mark.promise("Jobs refuse to run if the study changed after planning.")


ASKED = {"name": "prompt", "outcome": "valid_consensus", "compare": "prompt", "smallest": 0.2}
TOLD = {"what": "valid_consensus", "rate": 0.4}
GRID = {"model": "tiny", "prompt": ["may_exist", "none_exist"]}


def test_whatever_jobs_depend_on_changes_the_plan(study_factory: StudyFactory) -> None:
    played: list[dict[str, Any]] = [
        {"seeds": 3},
        {"parameters": {"max_rounds": 4}},
        {"models": {"tiny": MODELS["models"]["tiny"] | {"max_model_len": 1024}}},
    ]
    shown: list[dict[str, Any]] = [
        {"title": "Another"},
        *({"questions": [each]} for each in (ASKED, ASKED | {"smallest": 0.3})),
        *({"paper": [each]} for each in (TOLD, TOLD | {"rate": 0.5})),
    ]
    before = study_factory(GRID, seeds=2)
    plan, plans = plan_of(before), {plan_of(before)}
    for change in (*played, *shown, {"shard_size": 7}):
        after = study_factory(GRID, **{"seeds": 2, "models": MODELS["models"]} | change)
        assert ([s.id for s in after.simulations()] == [s.id for s in before.simulations()]) == (change not in played)
        assert (after.plan == before.plan) == ("shard_size" in change), change  # tables show no shards
        plans.add(plan_of(after))
        with pytest.raises(ParleyError, match=r"^small.yaml changed while it ran") as error:
            require_plan(after, plan)
        assert error.value.exit_code == 1
        assert changed_since(after, plan) == str(error.value)
    assert len(plans) == 1 + len(played) + len(shown) + 1


def test_what_changes_nothing_that_is_played_or_shown_is_let_be(study_factory: StudyFactory) -> None:
    plan = plan_of(study_factory(seeds=2))
    Path("small.yaml").write_text("# a comment\n" + Path("small.yaml").read_text())
    again = load_study(Path("small.yaml"))
    require_plan(again, plan)
    require_plan(again, None)
    assert changed_since(again, plan) is None
    raised = study_factory(seeds=2, budget={"tokens": 1000})
    require_plan(raised, plan)


def test_a_job_on_a_node_knows_the_plan_of_its_run(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_RUN", "")
    assert run_plan() is None
    begun = RunPlan("token", plan_of(study_factory(seeds=2)), "report")
    begun.give_to_jobs()
    assert run_plan() == begun
    require_plan(load_study(Path("small.yaml")), begun.study)
    with pytest.raises(ParleyError, match="changed while it ran"):
        require_plan(study_factory(seeds=3), begun.study)


def test_every_stage_refuses_a_study_that_changed(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=1)
    plan, record = plan_of(study), str(next(study.simulations()).record("small"))
    study_factory(seeds=2)
    for command in (
        ["simulate", "small.yaml", record],
        ["simulate-shard", "small.yaml", "0"],
        ["summarize", "small.yaml"],
        ["figures", "small.yaml"],
        ["report", "small.yaml"],
        ["ledger", "build", "small.yaml"],
    ):
        found = CliRunner().invoke(commands, [*command, "--plan", plan])
        assert isinstance(found.exception, ParleyError), command
        assert "changed while it ran" in str(found.exception), command
    assert not Path("results").exists()
