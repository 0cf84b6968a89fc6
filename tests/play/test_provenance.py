"""What made a result: complete, and without a word about who or where."""

from datetime import UTC, datetime, timedelta

import pytest

from parley import __version__
from parley.engine import hardware
from parley.play import record

pytestmark = pytest.mark.promise("A record says what made it, without a word about who or where.")


def test_provenance_names_versions_machine_and_times() -> None:
    started = datetime.now(UTC) - timedelta(minutes=1)
    found = record.provenance(started, {"tiny": {"engine": "vllm"}})
    assert found["parley"] == __version__
    assert set(found["packages"]) == {
        *("numpy", "pandas", "pyarrow", "pydantic", "scipy", "networkx", "aiohttp", "snakemake", "dvc"),
    }
    assert hardware.cpu() in found["machine"]
    assert found["engines"] == {"tiny": {"engine": "vllm"}}
    assert datetime.fromisoformat(found["started"]) == started.replace(microsecond=0)
    assert started < datetime.fromisoformat(found["ended"]) + timedelta(seconds=1)


def test_readers_are_warned_of_each_engine_and_of_its_load() -> None:
    invariant = {"by": hardware.determinism(True, False, (hardware.Gpu("A100", "1", (8, 0)),)).by, "warning": "a beta"}
    engines = {
        "b": {"deterministic": invariant, "requests_at_once": 64},
        "a": {"deterministic": {"by": "float32", "warning": "no proof"}, "requests_at_once": 64},
        "c": {"deterministic": None},
        "d": {},
    }
    found = record.provenance_warnings({"engines": engines})
    assert found[:2] == ["a: no proof", "b: a beta"]
    assert found[2].startswith("b: up to 64 requests at once")
    assert len(found) == 3
