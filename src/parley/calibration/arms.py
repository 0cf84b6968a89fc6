"""The arms of a calibration: how each asks a question, and where its answer stands."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from parley.errors import UsageError
from parley.games.base import Ask, Game, Group, ReplyFormat, Sampling, new_game
from parley.games.consensus import ConsensusGame
from parley.games.consensus_parameters import ConsensusParameters
from parley.games.deliberation import DeliberationGame
from parley.games.deliberation_parameters import DeliberationParameters
from parley.games.replies import FreeText
from parley.games.roles import HONEST
from parley.games.stag_hunt import StagHuntGame
from parley.games.stag_hunt_parameters import StagHuntParameters
from parley.identity import digest
from parley.problems.problem import Problem
from parley.problems.sources import Arithmetic, Gsm8k
from parley.runner import Exchange
from parley.text import one_line

TEMPERATURE = 0.7
PLAIN = "plain"
GAMES = ("deliberation_cot", "deliberation_zero_shot", "consensus", "stag_hunt")
_AGENTS = 4
_LARGEST = 1_000_000  # whole numbers up to it can be said in every game
_PLAIN_TOKENS = 600
_PLAIN_TASK = "Think step by step, then end with: The answer is N."
_TASK = "=== YOUR TASK ===\n"
# What of a game's reply is the answer, and how it is told so.
_FIELDS = {"consensus": "value", "stag_hunt": "word"}
_TOLD = {
    "consensus": "The value that you propose is your answer to this question.",
    "stag_hunt": "The word that you broadcast is your answer to this question.",
}
# "flexible-extract" of gsm8k in EleutherAI's lm-evaluation-harness: its last match is the answer.
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")

Source = Arithmetic | Gsm8k


@dataclass(frozen=True)
class _Question(Ask):
    """A question without a system prompt."""

    @property
    def messages(self) -> list[dict[str, str]]:
        return [message for message in super().messages if message["content"]]


@dataclass(frozen=True)
class Arm:
    """One way to ask: plainly, or as a game does in one of its reply formats."""

    game: str
    reply_format: ReplyFormat | None = None  # None for the plain question

    @property
    def name(self) -> str:
        """A name for tables and journals."""
        return self.game if self.reply_format is None else f"{self.game}-{self.reply_format}"

    @property
    def steps(self) -> int:
        """Requests for one question."""
        return 2 if self.reply_format == "two_steps" else 1

    def ask(self, problem: Problem, number: int) -> Ask:
        """Return the ask of question `number` of a calibration."""
        if self.reply_format is None:
            asked = _plain(problem)
        elif self.game in _FIELDS:
            asked = _in_shape(self.game, self.reply_format, problem)
        else:
            asked = _deliberated(self.game, self.reply_format, problem)
        sampling = asked.sampling.model_copy(update={"temperature": TEMPERATURE})
        return replace(asked, agent=f"question_{number}", round=1, phase=self.name, sampling=sampling)

    def answer(self, problem: Problem, last: Exchange) -> str | None:
        """Return the answer of the last exchange on a question in normal form; None if it cannot be read."""
        if self.reply_format is None:
            return plain_answer(last.entry.text)
        if last.reply.value is None:
            return None
        return problem.read(str(last.reply.value.model_dump()[_FIELDS.get(self.game, "answer")]))


def all_arms(games: Sequence[str], formats: Sequence[ReplyFormat]) -> list[Arm]:
    """Return the plain arm, and that of each game and format that is a format of its own there."""
    found = [Arm(game, reply_format) for game in games for reply_format in formats]
    # What is answered before its argument has no free first step: it stays in JSON.
    return [Arm(PLAIN), *(arm for arm in found if arm != Arm("deliberation_zero_shot", "two_steps"))]


def source_of(text: str) -> Source:
    """Return the source of problems that `arithmetic` or `gsm8k:PATH` names; raises UsageError for anything else."""
    kind, _, path = text.partition(":")
    if kind == "arithmetic" and not path:
        return Arithmetic()
    if kind == "gsm8k" and path:
        return Gsm8k(path=path)
    raise UsageError(f"--problems {one_line(text, 100)}: write arithmetic, or gsm8k:PATH with the file or its folder")


def questions(source: Source, number: int) -> list[Problem]:
    """Return the first `number` problems of a source whose answer every game can say: a whole number, not negative.

    Raises UsageError if the source cannot be read, or has fewer.
    """
    source.check()
    seeds = range(source.size if source.size is not None else 100 * number)
    found = (problem for problem in map(source.problem, seeds) if _is_whole(problem.answer))
    kept = [problem for problem, _ in zip(found, range(number), strict=False)]
    if len(kept) < number:
        raise UsageError(f"--number {number}: {source.label} has {len(kept)} questions with a whole number; lower it")
    return kept


def _is_whole(answer: str | None) -> bool:
    return answer is not None and answer.isdecimal() and int(answer) <= _LARGEST


def prompts_digest(problem: Problem, arms: Sequence[Arm]) -> str:
    """Return the SHA-256 of how `arms` ask for a problem: prompts, shapes of replies, sampling."""
    asks = [arm.ask(problem, 0) for arm in arms]
    return digest([[ask.digest, ask.follow_up, ask.reply_model.model_json_schema()] for ask in asks])


def plain_answer(text: str) -> str | None:
    r"""Return the answer of a text in normal form: the number in its last \boxed{}, else its last number, or None."""
    boxed = _BOXED.findall(text)
    for said in [*boxed[-1:], text]:
        found = [one or other for one, other in _FLEXIBLE.findall(said)]
        while found:
            number = found.pop().replace("$", "").replace(",", "").rstrip(".")
            if re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", number):
                return str(Fraction(number))
    return None


def _plain(problem: Problem) -> Ask:
    sampling = Sampling(temperature=TEMPERATURE, max_tokens=_PLAIN_TOKENS)
    user = f"{problem.question}\n\n{_PLAIN_TASK}"
    return _Question("", HONEST, 1, PLAIN, "", user, FreeText, sampling, None, reply_format="free")


def _deliberated(style: str, reply_format: ReplyFormat, problem: Problem) -> Ask:
    """Return what the first agent of a deliberation on the problem is asked first."""
    cot = 1 if style == "deliberation_cot" else 0
    parameters = DeliberationParameters.model_validate({"cot_share": cot, "reply_format": reply_format})
    return _first_ask(DeliberationGame, parameters, "improve", problem.as_json())


def _in_shape(game: str, reply_format: ReplyFormat, problem: Problem) -> Ask:
    """Return the question with what the game says of the form of its first reply, which ends the game's own prompt."""
    if game == "consensus":
        consensus = ConsensusParameters.model_validate({"value_max": _LARGEST, "reply_format": reply_format})
        ask = _first_ask(ConsensusGame, consensus, "may_exist")
    else:
        ask = _first_ask(StagHuntGame, StagHuntParameters.model_validate({"reply_format": reply_format}), "plain")
    form = ask.user.rpartition(_TASK)[2].partition("\n")[2]
    values = {name: getattr(ask, name) for name in ("role", "reply_model", "follow_up")}
    asked = partial(_Question, "", round=1, phase=game, system="", sampling=ask.sampling, view=None, **values)
    return asked(user=f"{problem.question}\n\n{_TOLD[game]}\n{form}", reply_format=reply_format)


def _first_ask(game: type[Game], parameters: Any, prompt: str, material: Any = None) -> Ask:
    return next(new_game(game, parameters, [Group(HONEST, _AGENTS)], prompt, 0, material).play())[0]
