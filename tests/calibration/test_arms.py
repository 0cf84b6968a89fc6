"""What the arms of a calibration ask, and what they read."""

import itertools
from dataclasses import replace

import pytest

from parley.calibration.arms import STYLES, Arm, all_arms, plain_answer, prompts_digest, questions, source_of
from parley.errors import UsageError
from parley.games.base import new_game
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.parameters import Group
from parley.games.problems.problem import Problem
from parley.games.problems.sources import Arithmetic
from parley.play.journal import Entry
from parley.play.runner import Exchange
from parley.policies import REPLY_FORMATS
from parley.policies.reply_text import FreeText, read_reply

PROBLEM = Problem("eighteen", "number", "What is nine times two?", "18")
ARMS = all_arms(STYLES, REPLY_FORMATS)


def test_the_plain_answer_is_the_last_boxed_or_the_last_number() -> None:
    for text, answer in {
        "9 * 2 = 18. The answer is 18.": "18",
        "The answer is $1,234.50.": "2469/2",
        r"So \boxed{18}, since 9 + 9 is no other number than 9 * 2.": "18",
        r"\boxed{17} is wrong; \boxed{\text{eggs: } 18}": "18",
        r"\boxed{eighteen} 18": "18",
        "It is -5": "-5",
        "3 and 4, and so on ...": "4",
        "I do not know.": None,
        "": None,
    }.items():
        assert plain_answer(text) == answer, text


def test_questions_are_those_whose_answer_every_game_can_say() -> None:
    found = questions(Arithmetic(), 50)
    every = [Arithmetic().problem(seed) for seed in range(100)]
    assert any((problem.answer or "").startswith("-") for problem in every)
    assert [problem for problem in every if (problem.answer or "").isdecimal()][:50] == found
    assert questions(Arithmetic(), 20) == found[:20]
    with pytest.raises(UsageError, match=r"--number 9: arithmetic-first-8 .* lower it"):
        questions(Arithmetic(first=8), 9)
    for text in ("", "algebra", "gsm8k", "gsm8k:", "arithmetic:x"):
        with pytest.raises(UsageError, match="arithmetic, or gsm8k:PATH"):
            source_of(text)


def test_deliberation_asks_what_its_game_asks_first() -> None:
    styles = {"deliberation_cot": (1, "Think step by step"), "deliberation_zero_shot": (0, "in one sentence")}
    for (game, (share, style)), form in itertools.product(styles.items(), REPLY_FORMATS):
        parameters = DeliberationParameters.model_validate({"cot_share": share, "reply_format": form})
        played = new_game(DeliberationGame, parameters, [Group("honest", 4)], "improve", 0, PROBLEM.as_json())
        real, *_ = next(played.play())
        ask = Arm(game, form).ask(PROBLEM, 0)  # type: ignore[arg-type]
        assert (ask.messages, ask.follow_up, ask.reply_format) == (real.messages, real.follow_up, real.reply_format)
        assert (ask.reply_model, ask.sampling.max_tokens) == (real.reply_model, real.sampling.max_tokens)
        assert style in ask.user, (game, form)


def test_the_digest_of_prompts_follows_from_each_part_of_an_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    before, ask = prompts_digest(PROBLEM, ARMS), Arm.ask
    assert prompts_digest(PROBLEM, ARMS) == before
    for change in ({"user": "Well?"}, {"system": "You are."}, {"follow_up": "And?"}, {"reply_model": FreeText}):
        with monkeypatch.context() as patch:
            patch.setattr(Arm, "ask", lambda *given, change=change: replace(ask(*given), **change))
            assert prompts_digest(PROBLEM, ARMS) != before, change


def test_a_first_step_that_failed_has_no_answer() -> None:
    ask = replace(Arm("consensus", "two_steps").ask(PROBLEM, 0), reply_format="free", reply_model=FreeText)
    entry = Entry(1, "x", "question_0", 0, 7, ask.digest, " ", "stop", 9, 1, 0, 0.0, 0.1)
    assert Arm("consensus", "two_steps").answer(PROBLEM, Exchange(ask, entry, read_reply(ask, " ", "stop"))) is None
