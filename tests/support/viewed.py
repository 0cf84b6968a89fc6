"""What the explorer writes, read as a browser reads it."""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from parley import paths
from parley.play.simulate import simulate
from parley.report.view.chosen import chosen
from parley.report.view.content import part_content
from parley.report.view.folder import write_view
from parley.study import Study
from support.studies import StudyFactory

ATTEMPT = (
    *("round", "phase", "agent", "attempt", "system", "user", "text", "parsed", "failure", "detail"),
    *("prompt_tokens", "completion_tokens", "seconds", "seed", "temperature", "finish_reason", "reasoning"),
    "degenerate",
)
Json = dict[str, Any]


def small_played(study_factory: StudyFactory) -> Study:
    """Return a study of two conditions with two finished simulations each."""
    made = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    for simulation in made.simulations():
        simulate(made, simulation.record(made.name), [], 0.0)
    return made


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
    shown = chosen(study, {}, 1000, journals=True)
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
        rows = [dict(zip(ATTEMPT, row, strict=True)) for row in game["attempts"]]
        for row in rows:
            row["agent"] = names[row["agent"]]
            row |= {name: text(row[name]) for name in ("system", "user", "text", "reasoning")}
            row["parsed"] = json.loads(row["text"]) if row["parsed"] is True else row["parsed"]
        game["attempts"] = rows
    found: list[Json] = content["simulations"]
    return found


def written(study: Study, most: int = 1000) -> Path:
    """Write the explorer of a study into its folder, and return the folder."""
    return write_view(chosen(study, {}, most, journals=False), paths.view(study.name)).parent
