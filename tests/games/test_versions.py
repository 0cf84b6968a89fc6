"""What agents read and how rules answer is under a version: the same identity never asks or answers otherwise.

`versions.json` holds, for each condition of the studies below, its identity and hashes of all that was asked and
answered in a game. Where a change to the code changes these and not the identity, a version has to be raised: the
game's `protocol_version`, or the `version` of the policy. After that, or after new conditions were added here,
`PARLEY_PIN=1 pytest tests/games/test_versions.py` writes the file anew.
"""

import json
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from parley.engine.grammar import constraint
from parley.games.playing import playing
from parley.games.registry import GAMES
from parley.identity import digest, stream
from parley.policies import Ask, Reply
from parley.policies.reply_text import FreeText, parse_reply
from parley.study.condition import Condition, Simulation
from parley.study.prompt_sent import rule_for
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "The same identity never asks or answers otherwise: a text or rule that changes without a version fails."
)

PINNED = Path(__file__).parent / "versions.json"
PIN_AGAIN = "`PARLEY_PIN=1 pytest tests/games/test_versions.py` writes tests/games/versions.json anew"
MODELS = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}}}
FORMATS = {"reply_format": ["json", "text", "two_steps"]}
ALL_LEAKS = ["names", "missing_value", "early_vote"]
BY_WORDS: list[Any] = [
    *({"name": "llm_strategies", "strategies": s} for s in ("stall", "split", "impersonate", "inject")),
    {"name": "llm_strategies", "strategies": "anchor", "value": 41},
]
HONEST_RULES = ["majority", "stubborn", "random", "minimum", {"name": "majority", "agree": 60}]
ADVERSARIES = [
    *("opposite", "oscillate", "mimic_then_defect", "silent", "equivocate"),
    {"name": "crash", "round": 2},
    {"name": "mimic_then_defect", "after": 2},
    {"name": "equivocate", "split": "halves"},
    {"name": "stubborn", "value": 41, "vote": "stop"},
]
EXACT_ADVERSARIES = ["keep_apart", {"name": "late_signer", "round": 2}, "equivocate"]
LISTENERS: list[Any] = ["always_stag", "always_hare", "grim_trigger", "tit_for_tat", "win_stay_lose_shift"]
NETWORKS: list[Any] = [
    "path",
    {"kind": "erdos_renyi", "p": 0.5},
    {"kind": "watts_strogatz", "k": 4, "p": 0.5},
    {"kind": "barabasi_albert", "m": 2},
    {"kind": "random_regular", "degree": 3},
]
CARDS = {"kind": "delidata", "path": str(Path(__file__).parent / "problems" / "cards")}
PROBLEMS: list[Any] = ["arithmetic", CARDS, "policies"]
FILTERS: list[Any] = [{"trim": 1}, {"reputation": 1}, {"scored": 1}]


def study_of(
    game: str, prompt: str, usual: dict[str, Any], *grids: dict[str, Any], **parameters: Any
) -> dict[str, Any]:
    each = [{"model": "tiny", "n": 4, "prompt": prompt, **grid} for grid in grids]
    return {"game": game, "parameters": {**usual, **parameters}, "grids": each}


consensus = partial(study_of, "consensus", "may_exist", {"max_rounds": 4})
deliberation = partial(study_of, "deliberation", "improve", {"turns": 2, "stop_when_unanimous": False})
stag_hunt = partial(study_of, "stag_hunt", "plain", {"rounds": 4})
GOAL: dict[str, Any] = {"values": "real", "agree_within": 1.5, "validity": "hull"}
STUDIES: Mapping[str, dict[str, Any]] = {
    "goal": consensus({"b": 1, "prompt": ["may_exist", "none_exist"], "vary": FORMATS}, **GOAL),
    "consensus": consensus(
        {"prompt": ["may_exist", "none_exist"], "vary": FORMATS},
        {"b": 1, "prompt": ["may_exist", "none_exist"], "vary": FORMATS},
        {"b": 1, "byzantine": BY_WORDS},
        {"model": HONEST_RULES, "b": 1, "byzantine": "random"},
        {"model": "wary", "prompt": ["may_exist", "none_exist"]},
    ),
    "consensus-long": consensus({"b": 1}, max_rounds=6, history_rounds=3, justification_chars=20),
    "consensus-apart": consensus(
        {"b": 1, "vary": {"topology": ["ring", "star"], "disclose_topology": [True, False]}}, history_rounds=2
    ),
    "consensus-memory": consensus({"b": 1, "vary": {"memory": ["chat"], "protocol": ["paper", "swarms"], **FORMATS}}),
    "consensus-even": consensus({}, {"model": "random"}, stop_threshold=0.5, max_rounds=8),
    "consensus-published": consensus(
        {"b": 1, "prompt": ["may_exist", "none_exist"]}, {"model": "majority"}, rules="published_code", max_rounds=7
    ),
    "consensus-two-thirds": consensus({"b": 1}, {"model": "majority", "b": 1}, stop_threshold="2/3"),
    "consensus-networks": consensus(
        {"n": 8, "vary": {"topology": NETWORKS, "disclose_topology": [True]}},
    ),
    "consensus-two-faced": consensus(
        {"b": 1, "vary": FORMATS}, {"model": "majority", "b": 1, "byzantine": ADVERSARIES}, equivocation=True
    ),
    "consensus-real-protocols": consensus(
        {"model": ["msr", "w_msr", "trimmed_median", "median"], "b": 1, "byzantine": ["keep_apart", "drag"]},
        {"model": [{"name": "w_msr", "f": 1, "rounds": 3}], "b": 0, "vary": {"topology": ["ring"]}},
        equivocation=True,
        **GOAL,
    ),
    "consensus-exact-protocols": consensus(
        {"model": ["phase_king", "flood_min", "dolev_strong"], "b": 1, "byzantine": EXACT_ADVERSARIES},
        {"model": [{"name": "ben_or", "f": 1}], "b": 1, "byzantine": "keep_apart", "vary": {"value_max": [1]}},
        equivocation=True,
        max_rounds=8,
        reasoning_chars=4000,
        justification_chars=4000,
    ),
    "consensus-filtered": consensus(
        {"b": 1, "byzantine": "random", "vary": {"filter": FILTERS}},
        {"vary": {"filter": FILTERS[2:], **FORMATS, "rules": ["paper", "published_code"]}},
        {"model": "majority", "b": 1, "byzantine": "random", "vary": {"filter": FILTERS}},
    ),
    "swarms": consensus(
        {"b": 1, "prompt": ["may_exist", "none_exist"], "vary": {**FORMATS, "leaks": [[], ALL_LEAKS]}},
        {"b": 1, "byzantine": BY_WORDS, "vary": {"leaks": [[]]}},
        {"model": HONEST_RULES, "b": 1, "byzantine": "random", "vary": {"leaks": [[], ALL_LEAKS]}},
        protocol="swarms",
    ),
    "deliberation": deliberation(
        {"prompt": ["improve", "skeptical"], "vary": {"problems": PROBLEMS, **FORMATS}},
        {"vary": {"problems": PROBLEMS, "cot_share": [0, 1], "hears": ["neighbor"]}},
        {"b": 1, "byzantine": ["llm_persuader"], "vary": {"problems": PROBLEMS}},
        {
            "model": ["solver", {"name": "solver", "accuracy": 0.4, "conformity": 0.9, "recognize": 0.5}],
            "b": 1,
            "byzantine": ["stubborn"],
            "vary": {"problems": PROBLEMS},
        },
        {"vary": {"problems": ["arithmetic"], "reading": ["strict", "flexible"], **FORMATS}},
    ),
    "deliberation-long": deliberation(
        {"vary": {"shown_chars": [20], **FORMATS}},
        turns=3,
    ),
    "deliberation-facts": deliberation(
        {"model": ["tiny", "pooler"], "vary": {"problems": ["hidden_profiles"], "facts": ["dealt", "all"]}}
    ),
    "deliberation-alone": deliberation({"n": 1}),
    "deliberation-in-turn": deliberation({"b": 1, "vary": {"hears": ["all", "neighbor"], **FORMATS}}, order="in_turn"),
    "deliberation-arms": deliberation(
        {"prompt": ["improve", "skeptical"], "vary": {"hears": ["nobody", "another_problem"], **FORMATS}},
        {"model": ["solver"], "vary": {"hears": ["nobody", "another_problem"]}},
        {"b": 1, "byzantine": ["llm_persuader", "stubborn"], "vary": {"hears": ["nobody", "another_problem"]}},
    ),
    "deliberation-apart": deliberation({"b": 1, "byzantine": "stubborn", "vary": {"topology": ["ring"]}}),
    "stag-hunt": stag_hunt(
        {"vary": {"cheap_talk": [True, False], **FORMATS}},
        {"b": 1, "byzantine": [{"name": "betray", "from_round": 2, "probability": 0.5}, "same"]},
        {"vary": {"topology": ["ring"], "disclosure": ["silent", "explicit"], "needed": ["all", 3]}},
        {"model": LISTENERS, "b": 1, "byzantine": "betray", "vary": {"cheap_talk": [True, False]}},
        {"model": "follow_words", "b": 1, "byzantine": "betray"},
    ),
    "deliberation-copies": deliberation({"model": "copies", "vary": {"problems": PROBLEMS}}),
    "stag-hunt-coin": stag_hunt({"model": "coin", "b": 1, "byzantine": {"name": "betray", "times": 1}}),
    "stag-hunt-short": stag_hunt({"vary": {"show_points": [True, False]}}, history_rounds=1),
    "stag-hunt-forgetful": stag_hunt({}, history_rounds=0),
    "stag-hunt-published": stag_hunt(
        {"b": 1, "byzantine": "betray"},
        {"vary": {"topology": ["star"], "disclosure": ["silent", "explicit"]}},
        {"vary": {"stag": [12], "hare": [5], "needed": ["all", 3], "cheap_talk": [True, False]}},
        rules="published",
    ),
    "stag-hunt-switches": stag_hunt(
        {"vary": {"rules": ["published"], "disclosure": ["silent"], "links_told": [True]}},
        {"vary": {"rules": ["published"], "disclosure": ["silent"], "nudge": [True]}},
        {"vary": {"rules": ["published"], "disclosure": ["explicit"], "hides": ["words+actions"]}},
        {"vary": {"rules": ["published"], "disclosure": ["silent"], "payoff_note": [True]}},
        topology="ring",
    ),
}


def played(condition: Condition, seed: int) -> Iterator[Any]:
    """Yield all that is asked and answered in a game, and how it ends.

    For models the first rule of the game answers. One reply in five is none, and is told to others as such; one in ten
    is not quite what was asked for, and may be taken or not.
    """
    game = Simulation(condition, seed).game()
    rules = {seat.name: rule_for(type(game), seat) for seat in game.seats}

    def answer(ask: Ask, scripted: bool) -> tuple[Any, Reply]:
        rng = stream("versions", seed, ask.round, ask.phase, ask.agent)
        if not scripted and rng.random() < 0.2:
            return None, Reply(None, "invalid_json", "for the test")
        if ask.reply_format == "free":
            return None, Reply(FreeText(text="I would rather wait."))
        said = rules[ask.agent](ask.view, rng)
        fields = {name: value for name, value in said.items() if name in ask.reply_model.model_fields}
        if not scripted and rng.random() < 0.1:
            fields = {name: str(value) for name, value in fields.items()}
        return said, parse_reply(json.dumps(fields), "stop", ask.reply_model)

    scripted = {seat.name: seat.policy.kind.rule is not None for seat in game.seats}
    asked_in_steps = playing(game)
    asks = next(asked_in_steps)
    while True:
        answers = [answer(ask, scripted[ask.agent]) for ask in asks]
        for ask, (said, _) in zip(asks, answers, strict=True):
            if scripted[ask.agent]:
                yield [ask.agent, ask.round, ask.phase, said]
            else:
                held = [constraint(ask, of_service) for of_service in (False, True)]
                yield [ask.agent, ask.round, ask.phase, ask.messages, ask.sampling.model_dump(), held]
        try:
            asks = asked_in_steps.send([reply for _, reply in answers])
        except StopIteration as end:
            outcome = end.value
            yield [outcome.name, outcome.detail, outcome.rounds]
            return


def conditions_of(name: str, study_factory: StudyFactory) -> dict[str, Condition]:
    content = {"seeds": 1, **STUDIES[name]}
    grids = content.pop("grids")
    study = study_factory(*grids, name=name, models=MODELS, **content)
    return {f"{name}/{c.name}": c for c in study.conditions}


def found_in(condition: Condition) -> dict[str, str]:
    return {"identity": condition.identity[:16], "texts": digest([list(played(condition, s)) for s in (0, 1)])[:16]}


@pytest.mark.parametrize("name", STUDIES)
def test_the_same_identity_never_asks_or_answers_otherwise(name: str, study_factory: StudyFactory) -> None:
    now = {place: found_in(condition) for place, condition in conditions_of(name, study_factory).items()}
    pinned = json.loads(PINNED.read_text()) if PINNED.exists() else {}
    texts = {one["identity"]: one["texts"] for one in pinned.get(name, {}).values()}
    changed = [place for place, one in now.items() if texts.get(one["identity"], one["texts"]) != one["texts"]]
    assert not changed, (
        f"raise the version: agents would read something else, or rules answer otherwise, under the same identity, in "
        f"{len(changed)} conditions, the first of them {changed[0]}. Raise protocol_version of the game "
        f"{STUDIES[name]['game']}, or the version of the policy that changed; then {PIN_AGAIN}"
    )
    if os.environ.get("PARLEY_PIN"):
        PINNED.write_text(json.dumps(dict(sorted({**pinned, name: now}.items())), indent=0) + "\n")
        return
    assert now == pinned.get(name), f"identities changed, or conditions of this test: {PIN_AGAIN}"


def test_everything_that_has_a_version_is_pinned() -> None:
    """Every prompt, every policy and every reply format of every game is in some study above."""
    for game in GAMES.values():
        studies = [study for study in STUDIES.values() if study["game"] == game.name]
        text = json.dumps(studies)
        for word in {*game.prompts, *game.policies, "json", "text", "two_steps"} - {"llm"}:
            assert f'"{word}"' in text, f"{game.name}: {word} is in no study of this test"
