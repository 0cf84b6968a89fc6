"""`parley prompts` from outside: what is sent in a study or without one, templates, and options that mean nothing."""

import re
from pathlib import Path

import pytest

from parley.games.registry import GAMES
from parley.study.prompt_sent import PromptQuery, part_text, prompt_sent
from support.answering import SERVED, StandInService, completion, openai
from support.commands import Parley, Ran, one_line_error
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "`parley prompts` prints what is sent in any condition, role and phase, as text or difference."
)

HUNT = {"model": "tiny", "n": 4, "b": [0, 1], "byzantine": "betray", "prompt": "plain"}
IN_STUDY = ("prompts", "small.yaml")


# Of a study


def test_what_is_sent_in_a_condition_is_printed_and_nothing_else(parley: Parley, study_factory: StudyFactory) -> None:
    study = study_factory({**HUNT, "vary": {"cheap_talk": [True, False]}}, game="stag_hunt")
    where = ("--where", "cheap_talk=false", "--where", "b=1")
    for part in ("system", "user", "reply"):
        ran = parley(*IN_STUDY, *where, "--round", 3, "--seed", 2, "--part", part)
        sent = prompt_sent(study, {"cheap_talk": "false", "b": 1}, PromptQuery("honest", round=3), 2)
        assert ran.out == part_text(sent.ask, part) + "\n"
        assert ran.err == (
            "model=tiny/n=4/b=1/prompt=plain/cheap_talk=false, seed 2: "
            f"{sent.ask.agent} (honest, played by tiny), round 3, act\n"
        )


def test_prompts_of_two_conditions_are_compared(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": [3, 4], "b": 1, "byzantine": "random"})
    pair = (*IN_STUDY, "--where", "n=3", "--against")
    ran = parley(*pair, "n=4", "--round", 2)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("--- model=majority/n=3/b=1/prompt=may_exist\n+++ model=majority/n=4/")
    assert "round 2, vote, reply: identical\n" in ran.out
    assert "    {+" in ran.out
    assert "round 2" not in parley(*pair, "n=4").out
    assert "'5': unknown n; choose" in one_line_error(parley(*pair, "n=5"), 2)
    assert "--against n: write AXIS=VALUE" in one_line_error(parley(*pair, "n"), 2)


def test_what_is_in_no_study_or_game_exits_2(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": [3, 4]})
    for given, words in (
        ("small.yaml --where n", "--where n: write AXIS=VALUE"),
        ("small.yaml --where n=3 --where n=4", "--where n=4: n is 3"),
        ("small.yaml --where size=3", "small.yaml: 'size': unknown axis"),
        ("small.yaml --where byzantine=random", "byzantine: has one value in this study"),
        ("consensus --role nobody", "--role: 'nobody': unknown role; choose one of: honest, byzantine"),
        ("consensus --agent-id agent_5", "no agent fits (agent agent_5); choose one of: agent_1"),
        ("consensus --phase chat", "choose one of: propose, vote"),
        ("consensus --set max_round=3", "consensus: max_round: unknown key; did you mean 'max_rounds'"),
    ):
        assert words in one_line_error(parley("prompts", *given.split()), 2)


# Options that mean nothing


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("small.yaml --set reply_format=text", "--set: not used with a STUDY"),
        ("small.yaml --against n=4 --part user", "--part: not used with --against"),
        ("small.yaml --write new", "--write: not used with a STUDY"),
        ("stag_hunt --against n=4", "--against: not used with a GAME"),
        ("stag_hunt --write new --role honest", "--role: not used with --write"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    parley: Parley, study_factory: StudyFactory, given: str, said: str
) -> None:
    study_factory({"n": [3, 4]})
    ran = parley("prompts", *given.split())
    assert one_line_error(ran, 2).startswith(f"parley: {said}")
    assert ran.out == ""


# Of a game


@pytest.mark.parametrize("name", GAMES)
def test_of_a_game_it_is_what_four_models_are_sent(parley: Parley, study_factory: StudyFactory, name: str) -> None:
    for prompt in GAMES[name].prompts:
        study = study_factory({"model": "tiny", "n": 4, "b": 1, "prompt": prompt}, game=name)
        for place, role in enumerate(GAMES[name].roles):
            for number, part in ((1 + place, "system"), (2 - place, "user"), (2, "reply")):
                key = ("--prompt", prompt, "--role", role, "--round", number, "--part", part, "--seed", 2)
                ran = parley("prompts", name, *key)
                sent = prompt_sent(study, {}, PromptQuery(role, round=number), 2)
                assert ran.out == part_text(sent.ask, part) + "\n"
                assert ran.err == next(sent.about()).replace("tiny", "llm") + "\n"


# Tried


def try_it(parley: Parley, server: StandInService, *more: object) -> Ran:
    return parley(*IN_STUDY, "--try", "--model", f"{server.url}:{SERVED}", *more)


@pytest.mark.promise("`parley prompts --try` shows what a model replies to a prompt, and how it is read.")
def test_a_prompt_is_sent_with_several_seeds_and_its_replies_are_shown(
    parley: Parley, study_factory: StudyFactory, server: StandInService, folder: Path
) -> None:
    study = study_factory({"n": 3})
    answers = iter(['{"decision": "stop"}', "```json\n{}\n```", "\x1b[2J\u202eno\nline"])
    server.answer = lambda body: completion(next(answers))
    ran = try_it(parley, server, "--times", 3, "--phase", "vote")
    assert ran.status == 0, ran.err
    sent = prompt_sent(study, {}, PromptQuery("honest", phase="vote"), 0)
    assert [body["messages"] for body in server.bodies] == [sent.ask.messages] * 3
    assert len({body["seed"] for body in server.bodies}) == 3
    assert ran.out.startswith(sent.ask.system + "\n" + sent.ask.user + "\n\nreply 1 of 3\n")
    for words in (
        '  | {"decision": "stop"}',
        '  read: {"decision":"stop"}',
        "not read: invalid_json",
        "code_fence: true",
    ):
        assert words in ran.out, words
    assert r"  | \x1b[2J\u202eno" in ran.out
    assert "\x1b" not in ran.out
    assert "100 tokens of prompt, 7 of reply, seed" in ran.out
    assert not list(folder.glob("results/small/**"))


def test_replies_to_two_prompts_stand_one_after_the_other(
    parley: Parley, study_factory: StudyFactory, server: StandInService
) -> None:
    study_factory({"n": 3, "prompt": ["may_exist", "none_exist"]})
    against = ("--where", "prompt=may_exist", "--against", "prompt=none_exist")
    ran = try_it(parley, server, "--times", 2, *against)
    shown = re.findall(r"^reply (\d) of 2, .*prompt=(\w+)$", ran.out, re.M)
    assert shown == [("1", "may_exist"), ("1", "none_exist"), ("2", "may_exist"), ("2", "none_exist")]
    assert len({body["messages"][0]["content"] for body in server.bodies}) == 2


def test_a_prompt_that_cannot_be_tried_is_one_line(
    parley: Parley, study_factory: StudyFactory, server: StandInService
) -> None:
    study_factory({"n": 3})
    assert "reads no prompt; add --model" in parley(*IN_STUDY, "--try").err
    assert "--times: not used without --try" in one_line_error(parley(*IN_STUDY, "--times", 2), 2)
    assert "--try: not used with a GAME" in one_line_error(parley("prompts", "consensus", "--try"), 2)
    server.answer = lambda body: openai("no such thing")
    assert "answered 400: no such thing" in try_it(parley, server).err.splitlines()[-1]
