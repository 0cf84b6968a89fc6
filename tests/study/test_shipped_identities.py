"""The shipped studies: each is valid, and every simulation keeps its id, as results of years need.

`shipped_identities.json` holds a hash over all ids of a study. Where one is meant to change,
`PARLEY_PIN=1 pytest` of this file writes it anew, and CHANGELOG.md says so. Studies of models
that are not installed here are compared where they are.
"""

import hashlib
import json
import os
import pickle
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.study import Study, load_study
from parley.study.frozen import frozen_state
from support import REPOSITORY

pytestmark = pytest.mark.promise("Every simulation of a shipped study keeps its id; frozen plans stay.")

PINNED = Path(__file__).parent / "shipped_identities.json"
CONFIG = REPOSITORY / "config"
SHIPPED = sorted([*CONFIG.glob("*.yaml"), *(REPOSITORY / "examples").glob("*.yaml")])


def identities(study: Study) -> dict[str, int | str]:
    records = {simulation.id: simulation.record(study.name) for simulation in study.simulations()}
    assert len(records) == len(set(records.values())) == sum(len(condition.seeds) for condition in study.conditions)
    lines = "".join(f"{name}\n" for name in sorted(records))
    return {"simulations": len(records), "sha256": hashlib.sha256(lines.encode()).hexdigest()}


@pytest.mark.slow
def test_the_shipped_studies_are_valid_and_keep_their_ids() -> None:
    found, absent = {}, []
    for path in SHIPPED:
        if path.name == "models.yaml":
            continue
        try:
            study = load_study(path)
        except UsageError as error:
            if "not installed" not in str(error):
                raise
            absent.append(path.stem)
            continue
        found[path.stem] = identities(study)
        if path.parent == CONFIG:
            assert pickle.loads(pickle.dumps(study)).plan == study.plan
    pinned = json.loads(PINNED.read_text())
    if os.environ.get("PARLEY_PIN"):
        PINNED.write_text(json.dumps(dict(sorted((pinned | found).items())), indent=1) + "\n")
    assert found == {name: pinned[name] for name in found}
    assert len(found) > len(absent), "make model"


def test_the_papers_study_is_its_two_grids_and_asks_what_the_paper_claims() -> None:
    study = load_study(CONFIG / "paper.yaml")
    played = [(s.condition, s.condition.count("byzantine")) for s in study.simulations()]
    benign, attacked = [c for c, b in played if not b], [c for c, b in played if b]
    assert (len(benign), len(attacked)) == (600, 100)
    assert {(c.axes["model"], c.axes["n"], c.prompt) for c in benign} == {
        (model, n, prompt)
        for model in ("qwen3-8b", "qwen3-14b")
        for n in (4, 8, 16)
        for prompt in ("may_exist", "none_exist")
    }
    assert {(c.axes["model"], c.count("honest"), c.prompt) for c in attacked} == {("qwen3-14b", 8, "may_exist")}
    assert {b for _, b in played} == {0, 1, 2, 3, 4}
    assert {c.parameters.max_rounds for c, _ in played} == {50}  # type: ignore[attr-defined]
    assert [(c.question.name, len(c.strata), sum(c.seeds)) for c in study.comparisons] == [
        ("prompt", 3, 150),
        ("time", 3, 150),
        ("group_size", 4, 200),
        ("every_size", 4, 200),
        ("model", 6, 300),
        ("one_byzantine", 1, 25),
        ("byzantine", 1, 25),
        ("liveness", 4, 100),
    ]


def test_the_shipped_plans_stay_as_they_were_frozen() -> None:
    for file in sorted(CONFIG.rglob("*.frozen.md")):
        study = load_study(file.with_name(file.name.replace(".frozen.md", ".yaml")), needs_weights=False)
        assert frozen_state(study).endswith("the study is as it was frozen"), file
