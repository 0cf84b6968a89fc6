"""Policies to choose from: the problems that come with Parley, or a YAML file of the user's own of the same form."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from parley.errors import UsageError
from parley.games.problems.loaded import ProblemSet
from parley.games.problems.matching import MAX_CHARACTERS, normal_policy
from parley.games.problems.problem import Problem
from parley.text import one_line
from parley.text.yamlfile import Slug, load_yaml, validated

OURS = Path(__file__).parent / "policies.yaml"

_Policy = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Slug
    question: str = Field(min_length=1, max_length=10_000)
    policies: list[_Policy] = Field(min_length=2, max_length=50)


class _PolicyFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    problems: list[_Entry] = Field(min_length=1, max_length=10_000)


def load(path: Path) -> ProblemSet:
    """Return the problems of a file; raises UsageError with the first thing that is wrong in it."""
    entries = validated(_PolicyFile, load_yaml(path), str(path)).problems
    problems: dict[str, Problem] = {}
    for index, entry in enumerate(entries):
        where = f"{path}: problems[{index}]"
        if entry.id in problems:
            raise UsageError(f"{where}.id: {entry.id!r} is repeated; rename one of the problems")
        seen: dict[str, int] = {}
        for place, policy in enumerate(entry.policies):
            normal = normal_policy(policy)
            if not normal or normal in seen:
                why = f"the same as policies[{seen[normal]}]" if normal else "no words"
                raise UsageError(f"{where}.policies[{place}]: {why}; remove it or write another")
            seen[normal] = place
        question = one_line(entry.question)
        if not question:
            raise UsageError(f"{where}.question: empty; write one")
        options = tuple(one_line(policy) for policy in entry.policies)
        problems[entry.id] = Problem(entry.id, "policies", question, None, options)
    return ProblemSet(tuple(problems.values()), {"rows": len(entries), "used": len(problems)})
