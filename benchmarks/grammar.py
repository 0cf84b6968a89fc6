"""What a grammar costs an engine's CPU: to compile it, to fill the mask of a token, and to accept one.

vLLM fills masks one request after the other for up to 128 requests, so microseconds here are milliseconds of a step.
The vocabulary is made: as large as those of models of now, of syllables, signs and characters of other scripts.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from pydantic import BaseModel

from benchmarks.measure import Row
from parley.engine.grammar import LATEST, GrammarVersion, constraint
from parley.games.consensus.parameters import proposal_model
from parley.games.deliberation.parameters import reply_model
from parley.games.stag_hunt.parameters import hunt_model
from parley.policies import Ask, Sampling

SIZE = 150_000
Matcher = tuple[Callable[[], object], Callable[[int], bool]]  # fills a mask, accepts a token
_REPEATS = 3
_SAID = "I keep my value because most of the others are close to it, and I will move to the middle when two more do. "
_SIGNS = [
    '":',
    '": ',
    '": "',
    '",',
    '",\n',
    '",\n  "',
    '{"',
    "{\n",
    '{\n  "',
    '"}',
    '"\n}',
    "\n",
    "\n  ",
    ' "',
    ". ",
    ", ",
]
_ONSETS = ["", *"bcdfghlmnprstvw", "st", "tr", "pr", "th", "ch"]
_VOWELS = [*"aeiou", "ea", "io"]
_CODAS = ["", *"nrstlm", "ng", "tion"]


@dataclass(frozen=True)
class Cost:
    """CPU time of one thread: seconds to compile, microseconds a token."""

    compiling: float
    filling: float
    accepting: float

    def __str__(self) -> str:
        return f"{self.filling:.1f} µs to fill, {self.accepting:.1f} µs to accept, {self.compiling:.2f} s to compile"

    @property
    def token(self) -> float:
        """Microseconds a token, both together."""
        return self.filling + self.accepting


@cache
def vocabulary(size: int = SIZE) -> list[bytes]:
    """Return the tokens of a made vocabulary: all bytes first, the end of a reply last."""
    rng = np.random.default_rng(0)
    letters = [*range(0xC0, 0x250), *range(0x391, 0x3CA), *range(0x400, 0x530), *range(0x4E00, 0x9FFF)]
    found = dict.fromkeys([*(bytes([byte]) for byte in range(256)), *map(str.encode, _SIGNS)])
    found |= dict.fromkeys(chr(letter).encode() for letter in letters[: size // 4])
    while len(found) < size - 1:
        parts = rng.integers(0, [len(_ONSETS), len(_VOWELS), len(_CODAS)], (rng.integers(1, 4), 3))
        word = "".join(_ONSETS[a] + _VOWELS[b] + _CODAS[c] for a, b, c in parts)
        forms = (word, word.capitalize(), f" {word.capitalize()}", f"{word}.", *[f" {word}"] * 6)
        found[forms[rng.integers(len(forms))].encode()] = None
    return [*found, b"</s>"]


def sent(model: type[BaseModel], version: GrammarVersion) -> str:
    """Return xgrammar's structural tag that goes with a request for a reply of `model`."""
    ask = Ask("agent_1", "honest", 1, "propose", "", "", model, Sampling(temperature=0.0, max_tokens=1), None)
    tag: str = constraint(ask, of_service=False, version=version)["structured_outputs"]["structural_tag"]
    return tag


def cost(tag: str, reply: str, size: int = SIZE) -> Cost:
    """Return what a structural tag costs on one reply; raises ValueError if it refuses that."""
    import xgrammar

    words = vocabulary(size)
    raw = xgrammar.VocabType.RAW
    told = xgrammar.TokenizerInfo(words, vocab_type=raw, vocab_size=len(words), stop_token_ids=[len(words) - 1])
    compiler = xgrammar.GrammarCompiler(told, max_threads=1, cache_enabled=False)
    began = time.process_time()
    compiled = compiler.compile_structural_tag(tag)
    compiling = time.process_time() - began
    mask = xgrammar.allocate_token_bitmask(1, len(words))

    def start() -> Matcher:
        matcher = xgrammar.GrammarMatcher(compiled)
        return lambda: matcher.fill_next_token_bitmask(mask, 0), matcher.accept_token

    return Cost(compiling, *_timed(start, _tokens(reply, words)))


def _timed(start: Callable[[], Matcher], tokens: Sequence[int]) -> tuple[float, float]:
    """Return the microseconds that filling a mask and accepting a token take; raises ValueError for a refused one."""
    filling, accepting = 0, 0
    for _ in range(_REPEATS):
        fill, accept = start()
        for token in tokens:
            before = time.process_time_ns()
            fill()
            filled = time.process_time_ns()
            if not accept(token):
                raise ValueError("the grammar refuses the reply")
            filling, accepting = filling + filled - before, accepting + time.process_time_ns() - filled
    each = 1e-3 / (_REPEATS * len(tokens))
    return filling * each, accepting * each


def _tokens(text: str, words: Sequence[bytes]) -> list[int]:
    """Return a text as tokens, the longest first."""
    known = _numbers(len(words))
    rest, found = text.encode(), []
    while rest:
        length = next(length for length in range(min(len(rest), 40), 0, -1) if rest[:length] in known)
        found.append(known[rest[:length]])
        rest = rest[length:]
    return found


@cache
def _numbers(size: int) -> dict[bytes, int]:
    return {word: number for number, word in enumerate(vocabulary(size))}


def replies() -> dict[str, tuple[type[BaseModel], dict[str, Any]]]:
    """Return a shape of each kind with a reply of usual length."""
    proposal = {"internal_strategy": (_SAID * 3)[:300], "value": 7, "public_reasoning": (_SAID * 2)[:190]}
    return {
        "consensus, proposal": (proposal_model("honest", 0, 50, 400, 600), proposal),
        "stag hunt, signal": (hunt_model("signal", 600), {"reasoning": (_SAID * 3)[:320], "word": "coordination"}),
        "deliberation, answer": (
            reply_model("cot", "number", (), 60, 600),
            {"argument": (_SAID * 3)[:320], "answer": "1234.5"},
        ),
    }


def rows() -> Iterator[Row]:
    """Yield a row for each shape."""
    for name, (model, said) in replies().items():
        yield Row(name, str(cost(sent(model, LATEST), json.dumps(said, indent=2))), "compile 0.2 s")
