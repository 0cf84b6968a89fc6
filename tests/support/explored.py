"""The explorer's pages of a made-up study: what `parley view` would write, small or with thousands of simulations."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.report.view.writing import data_js, page_html

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


def study_index(seeds: int = 8, **changes: Any) -> dict[str, Any]:
    """Return the index of a study, with a condition for each number of liars; one record is damaged, one grows."""
    total = len(LIARS) * seeds
    conditions = [place // seeds for place in range(total)]
    names = [OUTCOMES[(place * 7 + place // seeds * 2) % 3]["name"] for place in range(total)]
    columns: dict[str, list[Any]] = {
        "id": [simulation_id(place) for place in range(total)],
        "condition": conditions,
        "seed": [place % seeds for place in range(total)],
        "repeat": [0] * total,
        "outcome": names,
        "diagnosis": ["never_agreed" if name == "split" else None for name in names],
        "rounds": [len(ROUNDS)] * total,
        "replies": [AGENTS * len(ROUNDS)] * total,
        "failed": [int(place % 5 == 1) for place in range(total)],
        "running": [False] * total,
        "damaged": [None] * total,
        "part": [0] * total,
    }
    columns["damaged"][2], columns["outcome"][2] = "seed=2.parquet: its checksum does not fit; play it again", None
    columns["running"][-1], columns["outcome"][-1] = True, None
    return {
        "format": 1,
        "study": "made-up",
        "game": "numbers",
        "title": "Numbers among liars",
        "version": "0.0.0",
        "imported": False,
        "written": "2026-01-01T00:00:00+00:00",
        "served": False,
        "running": False,
        "unfinished": 0,
        "left_out": None,
        "axes": [
            {"name": "liars", "label": "liars", "values": list(LIARS)},
            {"name": "prompt", "label": "prompt", "values": ["plain"]},
        ],
        "outcomes": [dict(outcome) for outcome in OUTCOMES],
        "indicators": [{"name": "fast", "label": "agreed fast", "values": [place % 2 == 0 for place in range(total)]}],
        "quantities": [
            {
                "name": "share",
                "label": "largest share",
                "share": True,
                "values": [place / total for place in range(total)],
            },
            {"name": "moves", "label": "moves", "share": False, "values": [place % seeds for place in range(total)]},
        ],
        "conditions": [
            {
                "id": f"{place:04d}",
                "label": f"liars={liars}",
                "axes": {"liars": liars, "prompt": "plain"},
                "parts": [f"data/{place:04d}.js"],
                "n": seeds,
            }
            for place, liars in enumerate(LIARS)
        ],
        "simulations": columns,
        "pairs": {"key": [str(place % seeds) for place in range(total)]},
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
    return {"format": 1, "condition": f"{condition:04d}", "texts": texts, "states": STATES, "simulations": games}


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
            cells.append(
                [agent, number, "other" if liar and number == 3 else "leading", texts.number(str(value)), marks]
            )
    ring = {name: [names[at - 1], names[(at + 1) % AGENTS]] for at, name in enumerate(names)}
    return {
        "id": columns["id"][place],
        "seed": seed,
        "outcome": columns["outcome"][place],
        "metrics": {"rounds_to_agree": 3, "share": 0.75, "nothing": None},
        "running": columns["running"][place],
        "rounds": list(ROUNDS),
        "round_name": "round",
        "agents": [
            {
                "name": name,
                "label": name,
                "role": "liar" if name in framed else "honest",
                "player": "scripted",
                "framed": name in framed,
                "hears": ring[name],
            }
            for name in names
        ],
        "cells": cells,
        "results": {str(ROUNDS[-1]): "stop"},
        "results_label": "vote",
        "framed_label": "liars",
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
