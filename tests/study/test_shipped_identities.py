"""Every simulation of every shipped study keeps its id and its path: results of years depend on them.

`shipped_identities.json` holds a hash over all of a study. Where one is meant to change,
`PARLEY_PIN=1 pytest` of this file writes it anew, and CHANGELOG.md says so. Studies of models
that are not installed here are compared where they are.
"""

import hashlib
import json
import os
from pathlib import Path

import pytest

from parley.errors import UsageError
from parley.study import load_study
from support import REPOSITORY

PINNED = Path(__file__).parent / "shipped_identities.json"
SHIPPED = sorted([*(REPOSITORY / "config").glob("*.yaml"), *(REPOSITORY / "examples").glob("*.yaml")])
STUDIES = [path for path in SHIPPED if path.name != "models.yaml"]


def identities(path: Path) -> dict[str, int | str]:
    study = load_study(path)
    lines = sorted(f"{simulation.id} {simulation.record(study.name)}\n" for simulation in study.simulations())
    return {"simulations": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_shipped_study_keeps_its_ids_and_paths(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "examples")
    try:
        found = identities(path)
    except UsageError as error:
        assert "not installed" in str(error)  # noqa: PT017
        pytest.skip(str(error))
    pinned = json.loads(PINNED.read_text()) if PINNED.exists() else {}
    if os.environ.get("PARLEY_PIN"):
        PINNED.write_text(json.dumps(dict(sorted((pinned | {path.stem: found}).items())), indent=1) + "\n")
    else:
        assert found == pinned[path.stem]
