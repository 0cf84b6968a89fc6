"""The stag hunt through the whole pipeline: studies, identity, records, replay, the shipped studies."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.play.record import read_summary, read_trace
from parley.play.replay import replay
from parley.study import load_study
from parley.study.condition import Condition
from parley.study.recorded import rebuilt
from support import REPOSITORY
from support.studies import play_all

pytestmark = pytest.mark.promise("The paper's study has its 40 conditions; scripted cohorts play and replay it.")

CONFIG = REPOSITORY / "config"
PAPER = CONFIG / "stag-hunt-paper.yaml"


# The published experiment: its cohorts, as scripts/config.py of the published code has them, and its conditions

SIX = ("mixtral-8x22b", "qwen2.5-72b", "llama-3.3-70b", "deepseek-v3", "gpt-4o", "claude-sonnet-4.6")
COHORTS = [tuple(SIX[place] for place in places) for places in ((0, 1, 2, 3), (0, 1, 4, 5), (0, 1, 4, 3))]
TOLD = ("explicit", "silent")
# b, what plays the Byzantine player, topology, disclosure, seat
CONDITIONS = {
    (0, "none", "complete", "none", "any"),
    (1, "betray", "complete", "none", "any"),
    (2, "betray", "complete", "none", "any"),
    (1, "betray-probability-0.5", "complete", "none", "any"),
    *((0, "none", topology, told, "any") for topology in ("complete", "ring", "star") for told in TOLD),
    *((1, "betray", "star", "explicit", seat) for seat in ("hub", "spoke")),
}
RULES = ("grim_trigger", "always_stag", "follow_words", "tit_for_tat", "win_stay_lose_shift", "always_hare")


def test_it_has_the_papers_conditions_for_each_cohort_and_group_size() -> None:
    study = load_study(PAPER, needs_weights=False)

    def of(condition: Condition) -> tuple[Any, ...]:
        return tuple(condition.axes[axis] for axis in ("b", "byzantine", "topology", "disclosure", "seat"))

    def models(condition: Condition) -> tuple[str | None, ...]:
        return tuple(group.player.model for group in condition.groups if group.role == "honest")

    for cohort in COHORTS:
        here = [condition for condition in study.conditions if models(condition) == cohort]
        assert {of(condition) for condition in here} == CONDITIONS
        assert (len(here), {condition.axes["n"] for condition in here}) == (12, {4})
    for n in (2, 3, 5, 6):
        [sized] = [condition for condition in study.conditions if condition.axes["n"] == n]
        assert (models(sized), of(sized)) == (SIX[:n], (1, "betray", "complete", "none", "any"))
    assert len(study.conditions) == 40
    assert {len(condition.seeds) for condition in study.conditions} == {20}


@pytest.mark.slow
def test_scripted_cohorts_play_it_replay_and_are_summarized(folder: Path) -> None:
    text = PAPER.read_text()
    for model, policy in zip(SIX, RULES, strict=True):
        text = text.replace(f"model: {model}}}", f"policy: {policy}}}")
    Path("scripted.yaml").write_text(yaml.safe_dump({**yaml.safe_load(text), "seeds": 1, "paper": []}))
    study = load_study(Path("scripted.yaml"))
    records = play_all(study)
    assert len(records) == 40
    for simulation, record in zip(study.simulations(), records, strict=True):
        assert replay(record).difference is None
        summary, trace, axes = read_summary(record), read_trace(record), simulation.condition.axes
        assert rebuilt(record, summary.simulation).id == simulation.id
        byzantine = summary.outcome["metrics"]["byzantine_players"]
        assert (len(trace), len(byzantine)) == (5, axes["b"])
        if axes["byzantine"] == "betray":
            assert {entry["actions"][name] for entry in trace for name in byzantine} == {"Hunt Hare"}
            assert not summary.outcome["metrics"]["successes"]
        if axes["topology"] == "star":
            hubs = [name for name, peers in trace[0]["neighbors"].items() if len(peers) == 3]
            assert (hubs == byzantine) == (axes["seat"] == "hub")
    summarize(study)
    assert set(read_table(study.name, "simulations")["excluded_rounds"]) == {0}
    players = read_table(study.name, "players")
    assert {"grim_trigger", "always_stag", "tit_for_tat"} <= set(players["player"])
