"""The published experiment as a study: its conditions and cohorts; and all of it played by scripted cohorts."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.play.record import read_record, read_trace
from parley.play.replay import replay
from parley.play.show import rebuilt
from parley.play.simulate import simulate
from parley.study import Study, load_study
from parley.study.condition import Condition
from support import REPOSITORY

PAPER = REPOSITORY / "config" / "stag-hunt-paper.yaml"
# As scripts/config.py of the published code has them.
COHORTS = {
    "v1": ("mixtral-8x22b", "qwen2.5-72b", "llama-3.3-70b", "deepseek-v3"),
    "v2": ("mixtral-8x22b", "qwen2.5-72b", "gpt-4o", "claude-sonnet-4.6"),
    "v3": ("mixtral-8x22b", "qwen2.5-72b", "gpt-4o", "deepseek-v3"),
}
ALL_SIX = ("mixtral-8x22b", "qwen2.5-72b", "llama-3.3-70b", "deepseek-v3", "gpt-4o", "claude-sonnet-4.6")
# b, what plays the Byzantine player, topology, disclosure, seat
CONDITIONS = {
    (0, "none", "complete", "none", "any"),
    (1, "betray", "complete", "none", "any"),
    (2, "betray", "complete", "none", "any"),
    (1, "betray-probability-0.5", "complete", "none", "any"),
    *(
        (0, "none", topology, told, "any")
        for topology in ("complete", "ring", "star")
        for told in ("explicit", "silent")
    ),
    *((1, "betray", "star", "explicit", seat) for seat in ("hub", "spoke")),
}
SCRIPTED = {
    "mixtral-8x22b": "grim_trigger",
    "qwen2.5-72b": "always_stag",
    "llama-3.3-70b": "follow_words",
    "deepseek-v3": "tit_for_tat",
    "gpt-4o": "win_stay_lose_shift",
    "claude-sonnet-4.6": "always_hare",
}


def models_of(condition: Condition) -> tuple[str | None, ...]:
    return tuple(group.player.model for group in condition.groups if group.role == "honest")


def axes_of(condition: Condition) -> tuple[object, ...]:
    return tuple(condition.axes[axis] for axis in ("b", "byzantine", "topology", "disclosure", "seat"))


def test_it_has_the_papers_conditions_for_each_cohort_and_group_size() -> None:
    study = load_study(PAPER, needs_weights=False)
    for cohort in COHORTS.values():
        here = [condition for condition in study.conditions if models_of(condition) == cohort]
        assert {axes_of(condition) for condition in here} == CONDITIONS
        assert len(here) == 12
        assert {condition.axes["n"] for condition in here} == {4}
    for n in (2, 3, 5, 6):
        [sized] = [condition for condition in study.conditions if condition.axes["n"] == n]
        assert (models_of(sized), axes_of(sized)) == (ALL_SIX[:n], (1, "betray", "complete", "none", "any"))
    assert len(study.conditions) == 40
    assert {len(condition.seeds) for condition in study.conditions} == {20}


@pytest.fixture
def scripted(folder: Path) -> Study:
    """Return the study with a scripted policy in the place of each model, and 3 seeds."""
    text = PAPER.read_text()
    for model, policy in SCRIPTED.items():
        text = text.replace(f"model: {model}}}", f"policy: {policy}}}")
    content = {**yaml.safe_load(text), "seeds": 3}
    file = Path("scripted.yaml")
    file.write_text(yaml.safe_dump(content))
    return load_study(file)


@pytest.mark.slow
def test_scripted_cohorts_play_it_replay_and_are_summarized(scripted: Study) -> None:
    ended: Counter[str] = Counter()
    for simulation in scripted.simulations():
        record = simulation.record(scripted.name)
        simulate(scripted, record, [], 5.0)
        assert replay(record).difference is None
        summary, _ = read_record(record)
        assert rebuilt(record, summary).id == simulation.id
        ended[summary.outcome["name"]] += 1
        condition, trace = simulation.condition, read_trace(record)
        assert len(trace) == 5
        byzantine = summary.outcome["metrics"]["byzantine_players"]
        assert len(byzantine) == condition.axes["b"]
        if condition.axes["byzantine"] == "betray":
            assert {entry["actions"][name] for entry in trace for name in byzantine} == {"Hunt Hare"}
            assert not summary.outcome["metrics"]["successes"]
        if condition.axes["topology"] == "star":
            hubs = [name for name, peers in trace[0]["neighbors"].items() if len(peers) == 3]
            assert (hubs == byzantine) == (condition.axes["seat"] == "hub")
    assert sum(ended.values()) == 120
    summarize(scripted)
    rows = read_table(scripted.name, "simulations")
    assert set(rows["excluded_rounds"]) == {0}
    players = read_table(scripted.name, "players")
    assert {"grim_trigger", "always_stag", "tit_for_tat"} <= set(players["player"])
    prone = players[(players["player"] == "grim_trigger") & (players["quantity"] == "defection_prone")]
    assert set(prone[prone["byzantine"] == "betray"]["mean"]) == {1.0}
    kept = players[(players["player"] == "always_stag") & (players["quantity"] == "kept_hunting")]
    assert set(kept["mean"]) == {1.0}
