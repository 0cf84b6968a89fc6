"""The plan of a run: jobs refuse to run if the study changed after planning."""

import os

from parley.errors import ParleyError
from parley.identity import digest
from parley.study import Study, load_study

_PLAN = "PARLEY_PLAN"


def plan_of(study: Study) -> str:
    """Return eight hexadecimal digits that name all that the jobs of a run depend on.

    They are the simulations, the shards these are dealt into, and what else shows in what is made of them: the title,
    the ledger settings, the questions. It takes time in proportion to the conditions, not the simulations: each job
    computes it.
    """
    conditions = [
        [
            condition.name,
            condition.place,
            condition.engine,
            condition.at_once,
            str(seeds) if isinstance(seeds := condition.seeds, range) else list(seeds),
        ]
        for condition in study.conditions
    ]
    ledger = study.ledger.model_dump(mode="json")
    more = [*study.questions_json, *study.shown_besides]
    return digest([study.name, study.title, study.shard_size, ledger, conditions, *more])[:8]


def require_plan(study: Study, plan: str | None) -> None:
    """Raise ParleyError if `study` is another one than when its run was planned; None is a command given by hand."""
    if plan is not None and plan_of(study) != plan:
        raise ParleyError(changed(study))


def changed_since(study: Study, plan: str) -> str | None:
    """Return the line to end a run with, whose plan this was, if its files say something else now; else None."""
    try:
        require_plan(load_study(study.file, study.models_file), plan)
    except ParleyError:
        return changed(study)
    return None


def changed(study: Study) -> str:
    """Return the line that says that a study changed while it ran."""
    return (
        f"{study.file} changed while it ran (or {study.models_file}, a prompt, or code that it names); what was "
        "played stays, and the same command plans anew and goes on"
    )


def run_plan(study: Study, new: bool) -> str:
    """Return the plan of this run of the workflow: the same in all its jobs, on whatever node.

    `new` begins a run. Raises ParleyError if the study changed since it began.
    """
    if new or _PLAN not in os.environ:
        os.environ[_PLAN] = plan_of(study)
    require_plan(study, os.environ[_PLAN])
    return os.environ[_PLAN]
