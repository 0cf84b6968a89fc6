"""What the explorer costs: `parley view`, the size of what it writes, and the seconds in which a browser opens it."""

import json
import shutil
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.measure import PARLEY, Row, consensus_study, cost, temporary_folder, ten_thousand
from parley import paths
from parley.identity import stream
from parley.play.record import provenance, write_record
from parley.play.runner import play
from parley.policies import Ask, Completion
from parley.policies.kinds import Rule

_WORDS = 3_000  # of the language that made-up replies are in
_LONG = (35, 70)  # words of a reply
_CHANCES = np.cumsum(1 / np.arange(1, _WORDS + 1)) / np.sum(1 / np.arange(1, _WORDS + 1))
_GAME = """async () => {
    const began = performance.now();
    location.hash = document.querySelector(".row.game a").getAttribute("href");
    while (!document.querySelector(".matrix")) await new Promise((resolve) => setTimeout(resolve, 5));
    return performance.now() - began;
}"""


def rows() -> Iterator[Row]:
    """Yield the measurements of games whose agents say a lot, and of many small games, in a folder that goes away."""
    with temporary_folder():
        _play_talkative()
        yield from _of("talked", "704 games of 8 agents and 20 rounds who write 35 to 70 words", "60 MB")
        ten_thousand()
        yield from _of("many", "10,000 scripted games of 2 rounds", "")


def _of(study: str, what: str, aim: str) -> Iterator[Row]:
    yield Row(f"`parley view`: {what}", _viewed(study))
    folder = paths.view(study)
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    page = paths.view_page(folder).stat().st_size
    yield Row("what it writes", f"{sum(files) / 1e6:.1f} MB in {len(files)} files, the page {page / 1e6:.2f} MB", aim)
    yield Row("the same again: nothing changed", _viewed(study))
    yield from _in_browser(paths.view_page(folder))


def _viewed(study: str) -> str:
    taken = cost(*PARLEY, "view", f"{study}.yaml")
    return f"{taken.cpu:.1f} s of a CPU, {taken.megabytes:.0f} MB"


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


def _play_talkative() -> None:
    """Play games whose prompts repeat what agents said."""
    axes = {"model": "stubborn", "n": 8, "b": [0, 1, 2, 3], "byzantine": "random"}
    grid = {**axes, "prompt": ["may_exist", "none_exist"]}
    study = consensus_study(Path("talked.yaml"), grid, 88, {"max_rounds": 20})
    rng, letters = stream("words"), list("abcdefghijklmnopqrstuvwxyz")
    words = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(_WORDS)]
    made = provenance(datetime.now(UTC), {})
    for simulation in study.simulations():
        players = {name: player.policy for name, player in simulation.players.items()}
        rules = {name: policy.kind.rule(policy.parameters) for name, policy in players.items() if policy.kind.rule}
        talkative = {name: _Talkative(rule, words) for name, rule in rules.items()}
        played = play(simulation.id, simulation.game(), talkative)
        write_record(simulation.record(study.name), simulation, played, made)


def _in_browser(page: Path) -> Iterator[Row]:
    """Yield what a page takes in a browser, if there is one: to open its list and a game."""
    program = shutil.which("chromium")
    if program is None:
        return
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened, games = [], []
        for _ in range(5):
            tab = browser.new_page(viewport={"width": 1300, "height": 900})
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector(".row.game")
            opened.append(tab.evaluate("performance.now()") / 1000)
            games.append(tab.evaluate(_GAME) / 1000)
            tab.close()
        browser.close()
    yield Row("its list in Chromium, from a file", f"{statistics.median(opened):.2f} s", "2 s")
    yield Row("a game, with the data file of its condition", f"{statistics.median(games):.2f} s")
