"""Pages of HTML, read as a browser reads them, and in one; the explorer's pages of studies, made up or played."""

import base64
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.report.explorer.game import part_content
from parley.report.explorer.selection import select
from parley.report.explorer.site import data_js, page_html, write_view
from parley.study import Study
from support.figures import recorded as recorded

Json = dict[str, Any]


class Page(HTMLParser):
    """All tags with their attributes, all texts, and what scripts and styles hold, by the number of their tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[int, str] = {}
        self.feed(html)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.cdata_elem:  # inside of a script or a style
            self.inside[len(self.tags) - 1] = self.inside.get(len(self.tags) - 1, "") + data


# A real browser: Chromium of the system, driven by Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a running browser; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make setup")
    with sync_api.sync_playwright() as started:
        # Chromium's own sandbox cannot be had by root, nor in most containers.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


# The explorer of a made-up study, small or with thousands of simulations

HOSTILE = (
    '<img src=x onerror="window.harmed=1"></script><script>window.harmed=1</script> \u202eevil\u200b\x1b[31m {{7*7}}'
)
OUTCOMES = [
    {"name": "agreed", "label": "agreed on a value", "color": "#0072B2"},
    {"name": "split", "label": "no agreement", "color": "#D9D9D9"},
    {"name": "misled", "label": "agreed on a wrong value", "color": "#E69F00"},
]
STATES = [
    {"name": "leading", "label": "holds the most frequent value", "color": "#56B4E9"},
    {"name": "other", "label": "holds another value", "color": "#E69F00"},
]
LIARS = (0, 1, 2)
ROUNDS = range(1, 9)
AGENTS = 4
SYSTEM = "You are {name}, one of four agents.\nAgree on a number.\nBe brief."


def simulation_id(place: int) -> str:
    """Return the id of a simulation, by its place in the index."""
    return hashlib.sha256(str(place).encode()).hexdigest()


def study_index(seeds: int, **changes: Any) -> dict[str, Any]:
    """Return the index of a study, with a condition for each number of liars; one record is damaged.

    The first game with most liars is a fork of the first without.
    """
    total = len(LIARS) * seeds
    conditions = [place // seeds for place in range(total)]
    names = [OUTCOMES[(place * 7 + place // seeds * 2) % 3]["name"] for place in range(total)]
    columns: dict[str, list[Any]] = {
        **{"repeat": [0] * total, "damaged": [None] * total, "part": [0] * total},
        "id": [simulation_id(place) for place in range(total)],
        "condition": conditions,
        "seed": [place % seeds for place in range(total)],
        "outcome": names,
        "diagnosis": ["never_agreed" if name == "split" else None for name in names],
        "rounds": [len(ROUNDS)] * total,
        "replies": [AGENTS * len(ROUNDS)] * total,
        "failed": [int(place % 5 == 1) for place in range(total)],
        "parent": [0 if place == total - seeds else None for place in range(total)],
        "pair": [str(place % seeds) for place in range(total)],
    }
    columns["damaged"][2], columns["outcome"][2] = "seed=2.parquet: its checksum does not fit; play it again", None
    return {
        **{"study": "made-up", "game": "numbers", "title": "Numbers among liars", "version": "0.0.0"},
        **{"imported": False, "written": "2026-01-01T00:00:00+00:00", "unfinished": 0, "left_out": None},
        "axes": [
            {"name": "liars", "label": "liars", "values": list(LIARS)},
            {"name": "prompt", "label": "prompt", "values": ["plain"]},
        ],
        "outcomes": [dict(outcome) for outcome in OUTCOMES],
        "conditions": [
            {
                "label": f"liars={liars}",
                "axes": {"liars": liars, "prompt": "plain"},
                "parts": [f"data/{place:04d}.js"],
            }
            for place, liars in enumerate(LIARS)
        ],
        "simulations": columns,
    } | changes


class _Texts(list[Any]):
    def number(self, text: str) -> int:
        if text not in self:
            self.append(text)
        return self.index(text)

    def lines(self, text: str) -> int:
        """Return the number of a text of which each line stands there once."""
        self.append([self.number(line) for line in text.split("\n")])
        return len(self) - 1


def condition_data(index: Mapping[str, Any], condition: int) -> dict[str, Any]:
    """Return the data file of a condition. Agent 2 of seed 1 is asked again once, and says what is hostile."""
    texts, columns = _Texts(), index["simulations"]
    places = [place for place, found in enumerate(columns["condition"]) if found == condition]
    games = [_game(columns, place, condition, texts) for place in places if columns["damaged"][place] is None]
    return {"texts": texts, "states": STATES, "simulations": games}


def _game(columns: Mapping[str, Any], place: int, liars: int, texts: _Texts) -> dict[str, Any]:
    seed, names = columns["seed"][place], [f"agent_{number}" for number in range(1, AGENTS + 1)]
    framed = set(names[AGENTS - LIARS[liars] :])
    cells, attempts = [], []
    for number in ROUNDS:
        for agent, name in enumerate(names):
            liar = name in framed and number > 2
            value = 90 + agent if liar else max(10, 40 - 10 * number + agent * (4 - number))
            hostile = seed == 1 and name == "agent_2" and number == 2
            marks = ["first lie"] if liar and number == 3 else []
            history = "\n".join(f"In round {past} they said {40 - 10 * past}." for past in range(1, number))
            user = f"Round {number}.\n{history}\nYour number is {value}.\nAnswer in JSON." + (
                HOSTILE if hostile else ""
            )
            reply = f'{{"value": {value}, "reason": "it is near"}}'
            read = {"value": value, "reason": HOSTILE if hostile else "it is near"}
            sent = (texts.number(SYSTEM.format(name=name)), texts.lines(user))
            facts = [120 + number, 14, 0.25, 1000 + place, 0.7, "stop"]
            if hostile:
                marks.append("asked again")
                failure = [texts.number(HOSTILE), None, "invalid_json", HOSTILE]
                attempts.append([number, "propose", agent, 0, *sent, *failure, *facts, None, False])
            thought = texts.number("I think.") if agent == 0 else None
            # true: the reply is the JSON that it was read as.
            answer = [texts.number(reply), read if hostile else True, None, None]
            attempts.append([number, "propose", agent, int(hostile), *sent, *answer, *facts, thought, False])
            vote = [texts.number(f"Round {number}: go on?"), texts.number("go on"), {"vote": "go on"}, None, None]
            attempts.append([number, "vote", agent, 0, None, *vote, *facts, None, False])
            state = "other" if liar and number == 3 else "leading"
            cells.append([agent, number, state, texts.number(str(value)), marks])
    ring = {name: [names[at - 1], names[(at + 1) % AGENTS]] for at, name in enumerate(names)}
    return {
        "id": columns["id"][place],
        "metrics": {"rounds_to_agree": 3, "share": 0.75, "nothing": None},
        "rounds": list(ROUNDS),
        "round_name": "round",
        "agents": [
            {"name": name, "label": name, "role": "liar" if name in framed else "honest", "player": "scripted"}
            | {"framed": name in framed, "hears": ring[name]}
            for name in names
        ],
        "cells": cells,
        "results": {str(ROUNDS[-1]): "stop"},
        "results_label": "vote",
        "framed_label": "liars",
        # Agent 2 of seed 1 did not hear something hostile, nor agent 4.
        "unheard": [[1, 2, [texts.number(HOSTILE), texts.number("agent_4: 9")]]] * (seed == 1),
        "attempts": attempts,
    }


def write_explorer(folder: Path, index: dict[str, Any], conditions: Sequence[int] | None = None) -> Path:
    """Write the pages of an index, with the data of some conditions or of all, and return the first page."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for place in range(len(index["conditions"])) if conditions is None else conditions:
        content = condition_data(index, place)
        name = f"{place:04d}"
        (folder / "data" / f"{name}.js").write_text(data_js(name, content), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(page_html(index), encoding="utf-8")
    return page


# What the explorer writes of studies that are played

ATTEMPT = (
    *("round", "phase", "agent", "attempt", "system", "user", "text", "parsed", "failure", "detail"),
    *("prompt_tokens", "completion_tokens", "seconds", "seed", "temperature", "finish_reason", "reasoning"),
    *("degenerate", "sent"),
)


def with_pictures(study: Study) -> Study:
    """Put an empty picture in the place of each figure of a study, as the pages that hold them need one."""
    size = 'width="504pt" height="300pt"'
    for spec in study.figures:
        for suffix in (".svg", ".png", ".pdf"):
            file = paths.figure(study.name, spec.name, suffix)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>{spec.name}</title></svg>')
    return study


def small_played(make: Callable[..., Study]) -> Study:
    """Return a study of two conditions with two finished simulations each."""
    return recorded(make({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1}))


def unpacked(script: str) -> Json:
    """Return what a data file hands over to the page."""
    found = re.search(r'parleyData\("([^"]+)","([A-Za-z0-9+/=]+)"\);\n$', script)
    assert found
    content: Json = json.loads(zlib.decompress(base64.b64decode(found[2]), -zlib.MAX_WBITS))
    return content


def index_of(html: str) -> Json:
    """Return the index that stands in a page."""
    found = re.search(r'<script type="application/json" id="index">([^<]*)</script>', html)
    assert found
    index: Json = json.loads(found[1])
    return index


def data_of(study: Study) -> list[Json]:
    """Return the simulations of a study as the data files have them, with texts in place of numbers."""
    shown = select(study, 1000)
    return [game for part in shown.parts for game in games_of(part_content(part))]


def games_of(content: Json) -> list[Json]:
    """Return the simulations of a data file, with texts in place of their numbers, and attempts and cells by name."""
    content = json.loads(json.dumps(content))

    def text(number: int | None) -> str | None:
        if number is None:
            return None
        found = content["texts"][number]
        return found if isinstance(found, str) else "\n".join(content["texts"][line] for line in found)

    for game in content["simulations"]:
        if "damaged" in game:
            continue
        names = [agent["name"] for agent in game["agents"]]
        game["cells"] = {
            (names[agent], number): (state, text(said), marks) for agent, number, state, said, marks in game["cells"]
        }
        game["unheard"] = {
            (names[agent], number): [text(each) for each in said] for agent, number, said in game["unheard"]
        }
        rows = [dict(zip(ATTEMPT, row, strict=True)) for row in game["attempts"]]
        for row in rows:
            row["agent"] = names[row["agent"]]
            row |= {name: text(row[name]) for name in ("system", "user", "text", "reasoning", "sent")}
            row["parsed"] = json.loads(row["text"]) if row["parsed"] is True else row["parsed"]
        game["attempts"] = rows
    found: list[Json] = content["simulations"]
    return found


def written(study: Study, most: int = 1000) -> Path:
    """Write the explorer of a study into its folder, and return the folder."""
    return write_view(select(study, most)).parent
