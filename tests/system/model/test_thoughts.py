"""A small model that is made to write thoughts into tags: they are recorded, and no other agent is sent them."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from parley.play.replay import replay
from parley.play.simulate import simulate
from support.workflows import serve, write_real

pytestmark = [pytest.mark.model, pytest.mark.rare]
MODEL = "smollm2-135m-thinking"


@pytest.mark.promise("Thoughts that a real model writes in tags are recorded, and no other agent is sent them.")
def test_thoughts_in_tags_reach_no_other_agent(folder: Path) -> None:
    asked = {"max_rounds": 2, "reply_format": "two_steps", "retries": 0}
    study = write_real(folder, {"model": MODEL, "n": 3, "prompt": "none_exist"}, parameters=asked)
    record = next(study.simulations()).record("real")
    engine = serve(MODEL)
    try:
        simulate(study, record, [Path("endpoint.json")], 900.0)
    finally:
        engine.terminate()
        engine.wait(timeout=60)
    rows = ds.dataset(record).to_table().to_pylist()
    thoughts = {row["reasoning"] for row in rows} - {None}
    assert thoughts  # seldom: it hardly ever closes its tag
    sent = [f"{row['system']} {row['user']} {row['sent']}" for row in rows]
    assert not any("</think>" in text for text in [*sent, *(row["text"] for row in rows)])
    assert not any(thought in text for thought in thoughts for text in sent)
    assert replay(record).identical
