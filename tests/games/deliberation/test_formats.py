"""The shipped study that compares reply formats, played by agents that no format changes."""

from pathlib import Path

import pytest

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.play.simulate import simulate_shard
from parley.study import load_study
from parley.study.condition import SCRIPTED
from support import REPOSITORY

pytestmark = [
    pytest.mark.promise("A shipped study compares reply formats in right answers, with a control that none changes."),
    pytest.mark.slow,
]


def test_reply_formats_are_compared_by_the_same_questions_in_each(folder: Path) -> None:
    text = (REPOSITORY / "config" / "formats.yaml").read_text()
    # Without facts to pool, a pooler knows the answer.
    file = folder / "formats.yaml"
    file.write_text(text.replace("smollm2-135m", "pooler").replace("seeds: 150", "seeds: 6"))
    study = load_study(file)
    assert [len(condition.seeds) for condition in study.conditions] == [6] * 6
    for shard in range(len(set(study.shards().values()))):
        simulate_shard(study, SCRIPTED, shard)
    summarize(study)
    rows = read_table("formats", "questions")
    assert list(zip(rows["question"], rows["from"], rows["to"], strict=True)) == [
        (question, "json", to) for question in ("model", "control") for to in ("text", "two_steps")
    ]
    assert list(rows["pairs"]) == [6] * 4
    right = read_table("formats", "conditions").set_index(["model", "reply_format"])["correct_consensus_rate"]
    assert (right["pooler"] == 1).all()
    assert (right["solver"] < 1).any()
