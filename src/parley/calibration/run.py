"""The command `calibrate`: asks, goes on after an interruption, and keeps what it found.

The runner asks, as it does in games: an arm is a phase, a question an agent. So replies are journaled as they come.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np

from parley import __version__, paths
from parley.calibration.arms import (
    FORMAT,
    PLAIN,
    STYLES,
    TEMPERATURE,
    Arm,
    Source,
    all_arms,
    arm_row,
    identity_of,
    questions,
    read_calibration,
)
from parley.engine.client import Engine, LLMPolicy
from parley.engine.endpoint import read_endpoint
from parley.engine.grammar import cuts_texts
from parley.engine.models import ModelEntry, model_entry
from parley.engine.service.service import Service, service_of
from parley.engine.supervisor import temporary_engine
from parley.engine.weights import check_source
from parley.errors import RecordError, UsageError
from parley.files import write_atomically
from parley.games.base import Game, Outcome
from parley.games.evidence import OutcomeClass
from parley.games.parameters import HONEST, GameParameters, Seat
from parley.games.problems.problem import Problem
from parley.identity import digest
from parley.play.journal import Journal
from parley.play.runner import Exchange, Play, play_async
from parley.policies import FIRST_STEP, REPLY_FORMATS, Ask, Completion, Policy, Reply
from parley.text import duration, every, limited_logger

_log = limited_logger(__name__)
_AT_ONCE = 64  # requests; more wait here, not at the engine, whose patience ends
_FEWEST_TIMED = 10  # replies; the first ones say too little of the pace


class Quiz(Game[GameParameters]):
    """The game of a calibration: its agents are questions, its phases arms; every arm asks every question once.

    Its material are the arms and the problems.
    """

    outcomes = (OutcomeClass("asked", "all questions were asked", "#0072B2", ""),)

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Ask all questions of one arm after the other."""
        arms, problems = self.material
        for arm in arms:
            yield [arm.ask(problem, number) for number, problem in enumerate(problems)]
        return Outcome(name="asked", rounds=1)


class _Telling:
    """A policy that lets some requests through at once, and tells how far it is and how long the rest takes."""

    def __init__(self, policy: Policy, total: int) -> None:
        self._policy, self._total = policy, total
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._began = time.monotonic()
        self._done = 0

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        async with self._turn:
            reply = await self._policy.answer(ask, seed, attempt)
        self._done += 1
        seconds = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        left = f", about {duration(seconds)} left" if self._done >= _FEWEST_TIMED else ""
        seldom = every(since=self._began)
        _log.info("%s: %d of %d replies%s", ask.phase, self._done, self._total, left, extra=seldom)
        return reply


def calibrate(
    model: str,
    models_file: Path,
    source: Source,
    number: int,
    arms: Sequence[Arm],
    endpoint: Path | None,
    engine_timeout: float,
) -> dict[str, Any]:
    """Ask `number` questions of a source in each arm, plainly too, and return what came of it; write it to a file.

    Arms that an earlier calibration of the same finished are kept, and not asked again. An engine is started unless an
    `endpoint` is given, the model is a service, or nothing is left to ask. Raises UsageError for what cannot be asked,
    EngineError if the engine fails, JournalError if another process calibrates the same, RecordError if the journal
    of finished arms is gone.
    """
    entry = model_entry(model, models_file)
    place = _place(model, entry, endpoint)
    problems = questions(source, number)
    identity, asked = identity_of(entry), source.model_dump(mode="json")
    key = digest([FORMAT, identity, asked, number])[:12]  # names its files
    path = paths.calibration(model, key, ".json")
    earlier = read_calibration(path) if path.exists() else None
    finished = {row["arm"] for row in earlier["arms"]} if earlier else set()
    wanted = {PLAIN, *finished, *(arm.name for arm in arms)}
    every = [arm for arm in all_arms(STYLES, REPLY_FORMATS) if arm.name in wanted]
    left = [arm for arm in every if arm.name not in finished]
    if left and place is None:
        check_source(model, entry, models_file)  # an engine would download its weights unasked
    # Seeds follow from the name: the same for each model.
    name = digest(["calibration", asked])
    with Journal(paths.calibration(model, key, ".jsonl"), name) as journal:
        known = Counter(entry.phase.removesuffix(FIRST_STEP) for entry in journal.entries.values())
        if lost := sorted(arm for arm in finished if known[arm] < number):
            raise RecordError(
                f"{journal.path}: lacks replies of {lost[0]}, which is finished; restore the file, or delete {path} "
                "to ask again"
            )
        total = sum(arm.steps * number - known[arm.name] for arm in left)
        engine: AbstractContextManager[Path | Service | None] = nullcontext(place if left else None)
        if left and place is None:
            engine = temporary_engine(model, models_file)
        cut = cuts_texts(entry.grammar_name)
        seats = tuple(Seat(f"question_{at}", HONEST, cut_texts=cut) for at in range(number))
        quiz = Quiz(GameParameters(retries=0), seats, "plain", np.random.default_rng(0), material=(every, problems))
        with engine as where:
            play = asyncio.run(_played(name, quiz, where, entry, total, engine_timeout, journal))
    found = {
        "calibration": FORMAT,
        "model": model,
        "identity": identity,
        "problems": asked,
        "problems_label": source.label,
        "number": number,
        "temperature": TEMPERATURE,
        "parley": __version__,
        "arms": _rows(every, problems, play),
    }
    text = json.dumps(found, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))
    return found | {"path": path}


def _place(model: str, entry: ModelEntry, endpoint: Path | None) -> Path | Service | None:
    """Return where to ask; None if an engine has to be started."""
    if entry.is_service:
        if endpoint is not None:
            raise UsageError(f"{model}: a service answers for it, which needs no --endpoint; leave it out")
        return service_of(model, entry)
    if endpoint is not None and (served := read_endpoint(endpoint).model) != model:
        raise UsageError(f"{endpoint}: serves {served}, not {model}")
    return endpoint


async def _played(
    name: str,
    quiz: Quiz,
    place: Path | Service | None,
    entry: ModelEntry,
    total: int,
    engine_timeout: float,
    journal: Journal,
) -> Play:
    """Play the quiz with `total` requests; what the journal has is not asked again, and without a place it has all."""
    names = [seat.name for seat in quiz.seats]
    if place is None:
        return await play_async(name, quiz, dict.fromkeys(names, cast(Policy, None)), journal)
    async with Engine(place, seconds=entry.deadline) as engine:
        await engine.wait_ready(engine_timeout)
        policy = _Telling(LLMPolicy(engine, entry), total)
        return await play_async(name, quiz, dict.fromkeys(names, policy), journal)


def _rows(arms: Sequence[Arm], problems: Sequence[Problem], play: Play) -> list[dict[str, Any]]:
    """Return what came of each arm, a row each; the plain arm is the first."""
    exchanges: dict[tuple[str, str], list[Exchange]] = defaultdict(list)
    for exchange in play.exchanges:
        exchanges[exchange.ask.phase.removesuffix(FIRST_STEP), exchange.ask.agent].append(exchange)
    rows: list[dict[str, Any]] = []
    plain: list[bool] = []
    for arm in arms:
        asked = [exchanges[arm.name, f"question_{at}"] for at in range(len(problems))]
        answers = [arm.answer(problem, said[-1]) for problem, said in zip(problems, asked, strict=True)]
        right = [answer == problem.answer for answer, problem in zip(answers, problems, strict=True)]
        plain = plain or right
        every = [exchange for said in asked for exchange in said]
        rows.append(arm_row(arm, right, plain, [answer is not None for answer in answers], every))
    return rows
