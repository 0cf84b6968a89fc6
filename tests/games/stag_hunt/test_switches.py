"""The switches in which silent and explicit differ: each changes what it says, and nothing else."""

from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from parley.games.stag_hunt.parameters import PRESETS, StagHuntParameters
from parley.study import Study, load_study
from parley.study.prompt_diff import prompt_diff
from support import REPOSITORY
from support.hunting import hunt
from support.studies import StudyFactory

CONFOUNDS = REPOSITORY / "config" / "stag-hunt-confounds.yaml"
SWITCHES = ("count_told", "links_told", "nudge", "hides", "payoff_note")
OTHER: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(SWITCHES, (False, True)),
    "hides": ("words+actions", "words_when_acting"),
}
NUDGE = "Consider what unseen players might have said. Is it safe to cooperate?"
NOTE = "The payoffs count the actions of ALL players, seen or not."
NEIGHBORS = "You can only see messages from your neighbors: Agent_1, Agent_3. Other players' messages are hidden."
SECTION = ["### COMMUNICATION VISIBILITY", NEIGHBORS, "", "### MESSAGES YOU CAN SEE"]
CURRENT = ["### CURRENT ROUND INFORMATION", "The words broadcast by all players in the communication phase are:"]
# By switch: what is sent only where it is off, and only where it is on, in the phases signal and act of round 2.
PUBLISHED: dict[str, dict[str, tuple[list[str], list[str]]]] = {
    "links_told": {"act": (CURRENT, SECTION)},
    "hides": {
        "signal": ([], ['  Agent_2: "stag", then Hunt Stag (10 points)']),
        "act": ([], ["  Agent_2: Hunt Stag (10 points)"]),
    },
}


def confounds(make: StudyFactory, rules: str) -> Study:
    """Return a study of a ring that flips one switch at a time, from both presets."""
    both = {"topology": ["ring"], "disclosure": ["silent", "explicit"]}
    flips = []
    for disclosure, switch in product(("silent", "explicit"), SWITCHES):
        off, on = OTHER[switch]
        value = off if PRESETS[rules, disclosure][switch] == on else on
        flips.append({**both, "disclosure": [disclosure], switch: [value]})
    grid = {"model": "always_stag", "n": 4, "b": 0, "prompt": "plain"}
    return make(*({**grid, "vary": vary} for vary in (both, *flips)), game="stag_hunt", parameters={"rules": rules})


def changes(study: Study, rules: str, disclosure: str, switch: str) -> dict[tuple[int, str, str], tuple[Any, Any]]:
    """Return the lines of each text that are sent only where a switch is off, and only where it is on."""
    preset = PRESETS[rules, disclosure]
    as_axes = {name: str(value).lower() for name, value in preset.items()} | {"disclosure": disclosure}
    off, on = (str(value).lower() for value in OTHER[switch])
    found = prompt_diff(study, {**as_axes, switch: off}, {**as_axes, switch: on}, "honest", 0, 2)
    axes = found.where.axes
    assert {axis for axis in axes if axes[axis] != found.against.axes[axis]} == {switch}
    return {
        (d.round, d.phase, d.part): tuple([line[1:] for line in d.lines if line[0] == sign] for sign in "-+")  # type: ignore[misc]
        for d in found.differences
        if d.lines
    }


@pytest.mark.parametrize(("disclosure", "switch"), [*product(("silent", "explicit"), SWITCHES)])
def test_a_switch_of_the_published_rules_changes_its_words_alone(
    study_factory: StudyFactory, disclosure: str, switch: str
) -> None:
    found = changes(confounds(study_factory, "published"), "published", disclosure, switch)
    assert {part for _, _, part in found} == {"user"}
    if switch in PUBLISHED:
        assert {
            (phase, lines) for (number, phase, _), lines in ((k, str(v)) for k, v in found.items()) if number == 2
        } == {(phase, str(lines)) for phase, lines in PUBLISHED[switch].items()}
        return
    for (_, phase, _), (off, on) in found.items():
        if switch == "count_told":
            told = [
                line.replace("with N=4 players", "with a group of players").replace("4 players", "players")
                for line in on
            ]
            told = [line.replace("There are players in total.", "This is a multiplayer game.") for line in told]
            assert (off, len(on)) == (told, 2)
        elif switch == "nudge":
            assert (phase, [line.replace(f" {NUDGE}", "") for line in on]) == ("act", off)
            assert all(NUDGE in line for line in on)
        else:
            assert [line.replace(f" {NOTE}", "") for line in on] == off
            assert all(NOTE in line for line in on)
    assert {phase for _, phase, _ in found} == ({"act"} if switch == "nudge" else {"signal", "act"})


@pytest.mark.parametrize(("disclosure", "switch"), [*product(("silent", "explicit"), SWITCHES)])
def test_a_switch_of_parleys_rules_changes_its_words_alone(
    study_factory: StudyFactory, disclosure: str, switch: str
) -> None:
    found = changes(confounds(study_factory, "parley"), "parley", disclosure, switch)
    lines = {line for off, on in found.values() for line in (*off, *on)}
    marks = {
        "count_told": ("1. Players: ", "3. Payoffs: ", "- Number of players who are hidden"),
        "links_told": (
            "",
            "=== COMMUNICATION",
            "Players see words and",
            "- You see",
            "- Number of players",
            f"- {NOTE}",
            NOTE,
        ),
        "nudge": (NUDGE,),
        "hides": ("Players see words", "- Number of players", "  player_"),
        "payoff_note": ("", NOTE, f"- {NOTE}"),
    }[switch]
    assert lines
    assert [line for line in lines if not any(line == m or (m and line.startswith(m)) for m in marks)] == []
    parts = {part for _, _, part in found}
    assert parts == {
        "count_told": {"system"},
        "links_told": {"system"},
        "payoff_note": {"system"},
        "nudge": {"user"},
    }.get(switch, parts)


@pytest.mark.parametrize("rules", ["parley", "published"])
def test_the_presets_are_combinations_of_the_switches(rules: str) -> None:
    for disclosure in ("silent", "explicit"):
        written_out = {**PRESETS[rules, disclosure], "disclosure": disclosure, "rules": rules, "topology": "ring"}
        by_name = {"disclosure": disclosure, "rules": rules, "topology": "ring"}
        assert StagHuntParameters(**written_out) == StagHuntParameters(**by_name)


def test_all_pieces_together_are_the_section_that_identities_know() -> None:
    whole = hunt("hhhh", "ssss", disclosure="explicit").ask(1, "act", 1).system
    parts = hunt("hhhh", "ssss", disclosure="explicit", hides="words").ask(1, "act", 1).system
    changed = {
        "words and actions along": "words along",
        "players who are hidden from you, and you": "players whose words are hidden from you, and yours",
    }
    for old, new in changed.items():
        whole = whole.replace(old, new)
    assert parts == whole


def test_switches_that_are_about_words_need_words() -> None:
    for given in ({"nudge": True}, {"hides": "words"}):
        with pytest.raises(ValidationError, match=f"{next(iter(given))} is about words"):
            StagHuntParameters(cheap_talk=False, **given)  # type: ignore[arg-type]


def test_the_shipped_study_flips_each_switch_from_both_presets() -> None:
    study = load_study(CONFOUNDS, needs_weights=False)
    assert len(study.conditions) == 24
    for topology, disclosure in product(("ring", "star"), ("silent", "explicit")):
        here = [c for c in study.conditions if (c.axes["topology"], c.axes["disclosure"]) == (topology, disclosure)]
        preset = {name: str(value).lower() for name, value in PRESETS["published", disclosure].items()}
        flipped = [[name for name in SWITCHES if c.axes[name] != preset[name]] for c in here]
        assert sorted(flipped) == sorted([[], *([name] for name in SWITCHES)])
    assert [(c.question.name, len(c.strata)) for c in study.comparisons] == [(name, 4) for name in SWITCHES]
