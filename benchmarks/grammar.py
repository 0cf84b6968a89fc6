"""What a grammar costs an engine's CPU: to compile it, to fill the mask of a token, and to accept one.

vLLM fills masks one request after the other for up to 128 requests, so microseconds here are milliseconds of a step.
The vocabulary is that of the random model, as large as those of models of now.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from benchmarks.measure import Row
from benchmarks.random_model import SPECIAL, TOKENS, made_tokenizer
from parley.engine.grammar import LATEST, GrammarVersion, constraint
from parley.games.consensus.parameters import proposal_model
from parley.games.deliberation.parameters import reply_model
from parley.games.stag_hunt.parameters import hunt_model
from parley.policies import Ask, Sampling

if TYPE_CHECKING:
    from xgrammar import TokenizerInfo

_REPEATS = 3
_SAID = "I keep my value because most of the others are close to it, and I will move to the middle when two more do. "


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


def sent(model: type[BaseModel], version: GrammarVersion) -> str:
    """Return xgrammar's structural tag that goes with a request for a reply of `model`."""
    ask = Ask("agent_1", "honest", 1, "propose", "", "", model, Sampling(temperature=0.0, max_tokens=1), None)
    tag: str = constraint(ask, of_service=False, version=version)["structured_outputs"]["structural_tag"]
    return tag


@cache
def _vocabulary(size: int) -> "TokenizerInfo":
    import xgrammar

    numbers = made_tokenizer(size).get_vocab()
    words, end = sorted(numbers, key=numbers.__getitem__), numbers[SPECIAL[2]]
    return xgrammar.TokenizerInfo(words, xgrammar.VocabType.BYTE_LEVEL, vocab_size=size, stop_token_ids=[end])


def cost(tag: str, reply: str, size: int = TOKENS) -> Cost:
    """Return what a structural tag costs on one reply; raises ValueError if it refuses that."""
    import xgrammar

    compiler = xgrammar.GrammarCompiler(_vocabulary(size), max_threads=1, cache_enabled=False)
    tokens = made_tokenizer(size).encode(reply).ids
    began = time.process_time()
    compiled = compiler.compile_structural_tag(tag)
    compiling = time.process_time() - began
    mask = xgrammar.allocate_token_bitmask(1, size)
    filling, accepting = 0, 0
    for _ in range(_REPEATS):
        matcher = xgrammar.GrammarMatcher(compiled)
        for token in tokens:
            before = time.process_time_ns()
            matcher.fill_next_token_bitmask(mask, 0)
            filled = time.process_time_ns()
            if not matcher.accept_token(token):
                raise ValueError("the grammar refuses the reply")
            filling, accepting = filling + filled - before, accepting + time.process_time_ns() - filled
    each = 1e-3 / (_REPEATS * len(tokens))
    return Cost(compiling, filling * each, accepting * each)


def replies() -> dict[str, tuple[type[BaseModel], dict[str, Any]]]:
    """Return a shape of each kind with a reply of usual length."""
    long = (_SAID * 3)[:320]
    proposal = {"internal_strategy": long, "value": 7, "public_reasoning": long[:190]}
    answer = {"argument": long, "answer": "1234.5"}
    return {
        "consensus, proposal": (proposal_model("honest", 0, 50, 400, 600), proposal),
        "stag hunt, signal": (hunt_model("signal", 600), {"reasoning": long, "word": "coordination"}),
        "deliberation, answer": (reply_model("cot", "number", (), 60, 600), answer),
    }


def rows() -> Iterator[Row]:
    """Yield a row for each shape."""
    for name, (model, said) in replies().items():
        yield Row(name, cost(sent(model, LATEST), json.dumps(said, indent=2)), "compile 0.2 s")
