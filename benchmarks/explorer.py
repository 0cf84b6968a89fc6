"""What the explorer costs: the seconds and the memory of `parley view`, and the size of what it writes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.explorer_browser import in_browser
from benchmarks.measure import PARLEY, Row, consensus_study, cost, temporary_folder
from parley import paths
from parley.identity import stream
from parley.play.record import provenance, write_record
from parley.play.runner import play
from parley.policies import Ask, Completion
from parley.policies.kinds import Rule
from parley.study import Study

_WORDS = 3_000  # of the language that made-up replies are in
_LONG = (35, 70)  # words of a reply


def rows() -> Iterator[Row]:
    """Yield the measurements, in a folder that goes away."""
    with temporary_folder():
        yield from talkative_games()
        yield from scripted_games()


def talkative_games() -> Iterator[Row]:
    """Yield those of games whose agents say a lot, and whose prompts repeat it."""
    grid = {"model": "stubborn", "n": 8, "b": [0, 1, 2, 3], "prompt": ["may_exist", "none_exist"]}
    _play_talkative(_study("talked", 88, 20, grid))
    yield from _of("talked", "704 games of 8 agents and 20 rounds who write 35 to 70 words", "60 MB")


def scripted_games() -> Iterator[Row]:
    """Yield those of many small games."""
    study = _study("scripted", 500, 2, {"model": ["majority", "stubborn"], "n": [3, 4, 5, 6, 7], "b": [0, 1]})
    for number in range(len(set(study.shards().values()))):
        cost(*PARLEY, "simulate-shard", "scripted.yaml", str(number))
    yield from _of("scripted", "10,000 scripted games of 2 rounds", "")


def _study(name: str, seeds: int, rounds: int, grid: dict[str, Any]) -> Study:
    return consensus_study(Path(f"{name}.yaml"), {"byzantine": "random", **grid}, seeds, {"max_rounds": rounds})


def _of(study: str, what: str, aim: str) -> Iterator[Row]:
    yield Row(f"`parley view`: {what}", _viewed(study), "")
    folder = paths.view(study)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    page = paths.view_page(folder).stat().st_size
    yield Row("what it writes", f"{sum(files) / 1e6:.1f} MB in {len(files)} files, the page {page / 1e6:.2f} MB", aim)
    yield Row("the same again: nothing changed", _viewed(study), "")
    yield from in_browser(paths.view_page(folder))


def _viewed(study: str) -> str:
    taken = cost(*PARLEY, "view", f"{study}.yaml")
    return f"{taken.cpu:.1f} s of a CPU, {taken.megabytes:.0f} MB"


_CHANCES = np.cumsum(1 / np.arange(1, _WORDS + 1)) / np.sum(1 / np.arange(1, _WORDS + 1))


def _words() -> list[str]:
    rng = stream("words")
    letters = list("abcdefghijklmnopqrstuvwxyz")
    return ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(_WORDS)]


class _Talkative:
    """Answers by a rule, and says a lot of words: frequent ones often, as in a language."""

    def __init__(self, rule: Rule, words: list[str]) -> None:
        self._rule, self._words = rule, words

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the rule's reply, with texts."""
        rng = np.random.default_rng(seed)
        reply = dict(self._rule(ask.view, rng))
        for name in {"internal_strategy", "public_reasoning"} & reply.keys():
            places = np.searchsorted(_CHANCES, rng.random(rng.integers(*_LONG)))
            reply[name] = " ".join(self._words[place] for place in places)[:400]
        return Completion(text=json.dumps(reply), finish_reason="stop", prompt_tokens=700, completion_tokens=120)


def _play_talkative(study: Study) -> None:
    words = _words()
    made = provenance(datetime.now(UTC), {})
    for simulation in study.simulations():
        game = simulation.game()
        rules = {}
        for name, player in simulation.players.items():
            assert player.policy.kind.rule is not None
            rules[name] = _Talkative(player.policy.kind.rule(player.policy.parameters), words)
        played = play(simulation.id, game, rules)
        write_record(simulation.record(study.name), simulation, played, made)
