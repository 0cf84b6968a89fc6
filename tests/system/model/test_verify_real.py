"""`parley verify` on the real model, computed in float32: one start of the engine for all that is shown."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.play.record import read_summary
from parley.play.recorded_asks import read_recorded
from parley.play.simulate import simulate
from support.commands import Parley, Ran
from support.forging import forge
from support.models import serve, write

pytestmark = pytest.mark.model
MODEL = "smollm2-135m"


def alter(record: Path) -> int:
    """Add a space to the attempt that a sample of one takes, which leaves the game as it was; return its length."""
    [recorded] = read_recorded(record, 1)
    [chosen] = recorded.attempts
    lengths: list[int] = []

    def change(rows: list[dict[str, Any]]) -> None:
        key = ("round", "phase", "agent", "attempt")
        [row] = [row for row in rows if tuple(row[c] for c in key) == chosen.entry.key]
        lengths.append(len(row["text"]))
        row["text"] += " "

    forge(record, change)
    return lengths[0]


def rows_of(ran: Ran) -> list[list[str]]:
    return [line.split()[1:6] for line in ran.out.splitlines()[1:5]]


def test_deterministic_replies_are_given_again_and_altered_ones_found(folder: Path, parley: Parley) -> None:
    entries = yaml.safe_load(Path("models.yaml").read_text())["models"]
    Path("models.yaml").write_text(yaml.safe_dump({"models": {MODEL: {**entries[MODEL], "deterministic": True}}}))
    # Short replies: what is compared is the arithmetic behind each token, not what they say.
    parameters = {
        "max_rounds": 1,
        "retries": 0,
        "propose": {"temperature": 0.5, "max_tokens": 32},
        "vote": {"temperature": 0.3, "max_tokens": 12},
    }
    study = write(folder, {"model": MODEL, "n": 2, "prompt": "none_exist"}, parameters=parameters)
    record = next(study.simulations()).record("real")
    engine = serve()
    try:
        simulate(study, record, [Path("endpoint.json")], 120.0)
        same = parley("verify", record, "--engine", "endpoint.json", "--batch", 4, "--sample", 3)
        length = alter(record)
        altered = parley("verify", record, "--engine", "endpoint.json", "--batch", 4, "--sample", 1)
    finally:
        engine.terminate()
        engine.wait(timeout=60)

    made = read_summary(record).provenance["engines"][MODEL]
    assert made["deterministic"]["by"] == "float32"
    assert made["arguments"][made["arguments"].index("--dtype") + 1] == "float32"
    assert made["deterministic"]["warning"] in Path("engine.log").read_text()

    passes = [(batch, cache) for batch in ("1", "4") for cache in ("cold", "warm")]
    assert rows_of(same) == [[*each, "3", "3", "0"] for each in passes], same.out
    assert same.status == 0
    assert "warning" not in same.err

    assert rows_of(altered) == [[*each, "1", "0", "1"] for each in passes], altered.out
    assert altered.status == 1
    assert f"attempt 0, character {length}" in altered.out
    assert altered.err.splitlines()[-1] == "parley: 4 of 4 passes gave other replies than the records"
