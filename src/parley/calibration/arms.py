"""The arms of a calibration: how each asks a question, where its answer stands, and what was found.

Results are a row per arm, kept beside those of studies, printed, and shown in reports.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from parley import paths
from parley.analysis.stats import paired_difference, wilson_interval
from parley.engine.models import ModelEntry
from parley.errors import RecordError, UsageError
from parley.files import read_regular
from parley.games.base import Game, new_game
from parley.games.parameters import HONEST, Group
from parley.games.problems.numbers import FLEXIBLE, as_fraction
from parley.games.problems.problem import Problem
from parley.games.problems.sources import Arithmetic, Gsm8k
from parley.games.prompts import QuestionStyle
from parley.games.registry import GAMES
from parley.identity import digest
from parley.play.degenerate import ASKED, DEGENERATE_CLASSES, REMEDIES, count_degenerate
from parley.play.record_content import times
from parley.play.runner import Exchange
from parley.policies import REPLY_FORMATS, Ask, ReplyFormat, Sampling
from parley.policies.reply_text import FreeText
from parley.study import Study
from parley.study.frozen import frozen_state
from parley.study.load import plan_of, run_plan
from parley.text import one_line

TEMPERATURE = 0.7
PLAIN = "plain"
# Each way in which a game asks, with the game.
STYLES: Mapping[str, tuple[type[Game], QuestionStyle]] = {
    style.name: (game, style) for game in GAMES.values() for style in game.prompts.questions
}
_AGENTS = 4
_TASK = "=== YOUR TASK ===\n"  # after it a prompt says what to do, and at its end in which form
_ANY = Problem("any", "number", "What is 1 + 1?", "2")
_LARGEST = 1_000_000  # whole numbers up to it can be said in every game
_PLAIN_TOKENS = 600
_PLAIN_TASK = "Think step by step, then end with: The answer is N."
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")

Source = Arithmetic | Gsm8k


@dataclass(frozen=True)
class CalibrationQuestion(Ask):
    """A question without a system prompt."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages, in OpenAI's form."""
        return [message for message in super().messages if message["content"]]


@dataclass(frozen=True)
class Arm:
    """One way to ask: plainly, or as a game does in one of its reply formats."""

    style: str  # PLAIN, or one of STYLES
    reply_format: ReplyFormat | None = None  # None for the plain question

    @property
    def name(self) -> str:
        """A name for tables and journals."""
        return self.style if self.reply_format is None else f"{self.style}-{self.reply_format}"

    @property
    def steps(self) -> int:
        """Requests for one question."""
        return 2 if self.reply_format == "two_steps" else 1

    def ask(self, problem: Problem, number: int) -> Ask:
        """Return the ask of question `number` of a calibration."""
        asked = _plain(problem) if self.reply_format is None else self._question(problem, number)
        sampling = asked.sampling.model_copy(update={"temperature": TEMPERATURE})
        return replace(asked, agent=f"question_{number}", round=1, phase=self.name, sampling=sampling)

    def answer(self, problem: Problem, last: Exchange) -> str | None:
        """Return the answer of the last exchange on a question in normal form; None if it cannot be read."""
        if self.reply_format is None:
            return plain_answer(last.entry.text)
        if last.reply.value is None:
            return None
        style = STYLES[self.style][1]
        fields = last.reply.value.model_dump()
        if style.letter is None:
            return problem.read(str(fields[style.answer_field]))
        preferred = style.letter(fields)
        return "" if preferred is None else problem.read(last.ask.view.heard[preferred])

    @property
    def exists(self) -> bool:
        """Whether the game asks in this format, and not in another one in its place."""
        return self.reply_format is None or self._question(_ANY).reply_format == self.reply_format

    def _question(self, problem: Problem, number: int = 0) -> Ask:
        """Return what the first of four honest agents is asked first, by a game that is about the problem.

        For other games it is the question alone, with what the game says of the form of its reply.
        """
        game, style = STYLES[self.style]
        parameters = game.Parameters.model_validate({**style.parameters, "reply_format": self.reply_format})
        material = None if style.about else problem.as_json()
        seed = number if style.letter else 0
        ask = new_game(game, parameters, [Group(HONEST, _AGENTS)], style.prompt, seed, material).first_question()
        if not style.about:
            return ask
        form = ask.user.rpartition(_TASK)[2].partition("\n")[2]
        user = f"{problem.question}\n\n{style.about}\n{form}"
        plain = CalibrationQuestion("", ask.role, 1, ask.phase, "", user, ask.reply_model, ask.sampling, None)
        return replace(plain, reply_format=ask.reply_format, follow_up=ask.follow_up)


def all_arms(styles: Iterable[str], formats: Sequence[ReplyFormat]) -> list[Arm]:
    """Return the plain arm, and that of each game and format that is a format of its own there."""
    found = [Arm(style, reply_format) for style in styles for reply_format in formats]
    return [Arm(PLAIN), *(arm for arm in found if arm.exists)]


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
    whole = (each for each in map(source.problem, seeds) if each.answer is not None and each.answer.isdecimal())
    kept = list(islice((each for each in whole if int(each.answer or 0) <= _LARGEST), number))
    if len(kept) < number:
        raise UsageError(f"--number {number}: {source.label} has {len(kept)} questions with a whole number; lower it")
    return kept


def prompts_digest(problem: Problem, arms: Sequence[Arm]) -> str:
    """Return the SHA-256 of how `arms` ask for a problem: prompts, shapes of replies, sampling."""
    asks = [arm.ask(problem, 0) for arm in arms]
    return digest([[ask.digest, ask.follow_up, ask.reply_model.model_json_schema()] for ask in asks])


def plain_answer(text: str) -> str | None:
    r"""Return the answer of a text in normal form: the number in its last \boxed{}, else its last number, or None."""
    boxed = _BOXED.findall(text)
    numbers = (as_fraction(found) for said in [*boxed[-1:], text] for found in reversed(FLEXIBLE.findall(said)))
    return next((number for number in numbers if number is not None), None)


def _plain(problem: Problem) -> Ask:
    sampling = Sampling(temperature=TEMPERATURE, max_tokens=_PLAIN_TOKENS)
    user = f"{problem.question}\n\n{_PLAIN_TASK}"
    return CalibrationQuestion("", HONEST, 1, PLAIN, "", user, FreeText, sampling, None, reply_format="free")


# What was found


FORMAT = 1
_MAX_BYTES = 100_000_000


def identity_of(entry: ModelEntry) -> dict[str, Any]:
    """Return what a calibration is of: the model, the grammar that holds its replies, and all prompts and shapes."""
    every = all_arms(STYLES, REPLY_FORMATS)
    prompts = prompts_digest(questions(Arithmetic(), 1)[0], every)
    return {"model": entry.identity(), "grammar": entry.grammar_name, "prompts": prompts}


def arm_row(
    arm: Arm, right: Sequence[bool], plain: Sequence[bool], readable: Sequence[bool], said: Sequence[Exchange]
) -> dict[str, Any]:
    """Return what came of one arm, as JSON values, from its answers and those of the plain arm, question by question.

    Shares and their limits are in [0, 1]; the difference to plain has Tango's for pairs. Tokens are means for one
    question, `said` has all attempts, `seconds` is from the first question to the last reply.
    """
    n, x, y = len(right), np.array(plain, dtype=bool), np.array(right, dtype=bool)
    low, high = wilson_interval(int(y.sum()), n)
    pairs = [int(found.sum()) for found in (x & y, x & ~y, ~x & y, ~x & ~y)]
    limits = [float(limit) for limit in paired_difference(*pairs)]
    counts = count_degenerate(said)
    return {
        "arm": arm.name,
        "questions": n,
        "right": int(y.sum()),
        "accuracy": [float(y.mean()), low, high],
        "difference": None if arm.reply_format is None else [float(y.mean() - x.mean()), *limits],
        "unreadable": 1 - sum(readable) / n,
        "failures": dict(Counter(x.reply.failure for x in said if x.reply.failure).most_common()),
        "degenerate": {name: counts[name] / counts[ASKED] for name in DEGENERATE_CLASSES},
        "prompt_tokens": sum(x.entry.prompt_tokens or 0 for x in said) / n,
        "completion_tokens": sum(x.entry.completion_tokens or 0 for x in said) / n,
        "seconds": times(x.entry for x in said)["wall_seconds"],
    }


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return one row of the table by its columns, as text; differences to plain are in percentage points."""
    share, low, high = (100 * part for part in row["accuracy"])
    difference = "-"
    if row["difference"] is not None:
        change, least, most = (100 * part for part in row["difference"])
        difference = f"{change:+.1f} [{least:+.1f}, {most:+.1f}]"
    return {
        "arm": row["arm"],
        "right": f"{row['right']} of {row['questions']}",
        "accuracy": f"{share:.1f}% [{low:.1f}, {high:.1f}]",
        "minus plain": difference,
        "unreadable": f"{row['unreadable']:.1%}",
        **{name: f"{row['degenerate'][name]:.1%}" for name in DEGENERATE_CLASSES},
        "tokens in": f"{row['prompt_tokens']:.0f}",
        "tokens out": f"{row['completion_tokens']:.0f}",
        "seconds": f"{row['seconds']:.0f}",
    }


def remedies(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield, for each arm of which most replies cannot be used, what most often helps."""
    for row in rows:
        if row["unreadable"] > 0.5 and (failures := row.get("failures")):
            most = next(iter(failures))
            share = f"{row['unreadable']:.0%}"
            yield f"{row['arm']}: {share} cannot be used, most of it {most}; what helps: {REMEDIES[most]}"


def read_calibration(path: Path) -> dict[str, Any] | None:
    """Return what a file says; None if it is no calibration. Raises RecordError if it is damaged."""
    try:
        found = json.loads(read_regular(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        raise RecordError(f"{path}: cut short or not JSON; delete it and run: parley calibrate") from None
    if not isinstance(found, dict) or found.get("calibration") != FORMAT:
        return None
    try:
        _ = found["identity"], found["number"] + 0, found["problems_label"] + "", [cells(row) for row in found["arms"]]
    except (LookupError, TypeError, ValueError):
        raise RecordError(f"{path}: damaged; delete it and run: parley calibrate") from None
    return found


def calibrations_of(entry: ModelEntry) -> list[dict[str, Any]]:
    """Return the calibrations of a model as it is now, whatever it was called; those of the most questions first."""
    files = sorted(Path().glob(str(paths.calibration("*", "*", ".json"))))
    read = [one for path in files if (one := read_calibration(path)) is not None]
    identity = identity_of(entry) if read else {}
    found = [one for one in read if one["identity"] == identity]
    return sorted(found, key=lambda one: (-one["number"], one["problems_label"]))


def calibration_tables(study: Study) -> dict[str, list[tuple[str, list[dict[str, str]]]]]:
    """Return for each model that the study asks its calibrations: what was asked, and the rows, as text."""
    return {
        name: [(f"{one['number']} questions of {one['problems_label']}", [*map(cells, one["arms"])]) for one in found]
        for name, found in _of_study(study).items()
    }


def _of_study(study: Study) -> dict[str, list[dict[str, Any]]]:
    """Return the calibrations of each model that a study asks."""
    models = sorted({name for condition in study.conditions for name in condition.models})
    return {name: calibrations_of(study.models[name]) for name in models}


def report_plan(study: Study) -> str:
    """Return the hash over what a report is made of: simulations, calibrations of the models, what was frozen.

    Without the last two it is the study's plan.
    """
    found = [one for of_model in _of_study(study).values() for one in of_model]
    frozen = [frozen_state(study)] if paths.frozen(study.file).exists() else []
    return digest([study.plan, found, *frozen])[:8] if found or frozen else study.plan


def planned_report(study: Study) -> str:
    """Return the plan of the report of the run that this process is part of; outside of a run that of now."""
    run = run_plan()
    return run.report if run is not None and run.study == plan_of(study) else report_plan(study)
