"""`parley prompts` from outside: what is sent in a study, and to a model."""

import re
from pathlib import Path

import pytest

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


def test_what_is_in_no_study_exits_2(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": [3, 4]})
    for given, words in (
        ("small.yaml --where n", "--where n: write AXIS=VALUE"),
        ("small.yaml --where n=3 --where n=4", "--where n=4: n is 3"),
        ("small.yaml --where size=3", "small.yaml: 'size': unknown axis"),
        ("small.yaml --where byzantine=random", "byzantine: has one value in this study"),
        ("small.yaml --role nobody", "--role: 'nobody': unknown role; choose one of: honest, byzantine"),
        ("small.yaml --agent-id agent_5", "no agent fits (agent agent_5); choose one of: agent_1"),
        ("small.yaml --phase chat", "choose one of: propose, vote"),
        ("small.yaml --against n=4 --part user", "--part: not used with --against"),
        ("small.yaml --times 2", "--times: not used without --try"),
    ):
        assert words in one_line_error(parley("prompts", *given.split()), 2)


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
    server.answer = lambda body: openai("no such thing")
    assert "answered 400: no such thing" in try_it(parley, server).err.splitlines()[-1]
