"""The published games beside their paper: on games of our own making, with numbers by hand."""

import csv
import shutil
from pathlib import Path

import pytest

from benchmarks import published_cheap_talk
from parley.analysis.summarize import summarize
from parley.imports.import_games import import_games
from parley.study import load_study
from support.records import cheap_talk, write_cheap_talk

pytestmark = pytest.mark.promise("The page of published games is made from the games.")

PAGE = Path(__file__).parents[2] / published_cheap_talk.PAGE
NAMES = [f"Agent_{k}" for k in (1, 2, 3, 4)]
EVERYONE = dict.fromkeys(NAMES, NAMES)
# Mixtral and DeepSeek switch after round 1, Qwen and Llama go on; the adversary sits at one of the four.
GAMES = {1: ["hsss", *["hssh"] * 4], 2: ["shss", *["hhsh"] * 4], 4: ["sssh", *["hssh"] * 4]}


def write(folder: Path, rounds: list[str], trials: int, adversary: int | None = None, **meta: object) -> None:
    for trial in range(1, trials + 1):
        # Times tell games apart that are alike in all else.
        write_cheap_talk(folder, trial, cheap_talk(rounds, adversary, timestamp=f"{folder}{trial}", **meta))


@pytest.mark.slow
def test_tables_and_page_are_made_from_the_games(folder: Path) -> None:
    games = folder / "games"
    for seat, rounds in GAMES.items():
        write(games / f"hard-{seat}", rounds, 2, seat)
        late = ["ssss", *rounds[:-1]] if seat == 4 else rounds  # its coin fell otherwise in round 1
        write(games / f"soft-{seat}", late, 2, seat, experiment="byzantine_soft", defect_prob=0.5)
        for hub in (True, False):
            star = {"topology": "star", "adversary_is_hub": hub, "visibility_map": EVERYONE}
            write(games / f"star-{hub}-{seat}", rounds, 2, seat, experiment="byzantine_star", **star)
    for number in range(3):
        meta = {"adversary_agents": ["Agent_1", "Agent_3"], "timestamp": number}
        write_cheap_talk(games / "k2", number, cheap_talk(["hshs", *["hshh"] * 4], **meta))
    for topology in ("broadcast", "ring", "star"):
        for experiment in ("communication_topology", "communication_topology_silent"):
            meta = {"experiment": experiment, "topology": topology, "visibility_map": EVERYONE}
            write(games / experiment / topology, [*["ssss"] * 4, "hsss"], 3, **meta)
    (folder / "config").mkdir()
    (folder / published_cheap_talk.PAGE.with_suffix("")).mkdir(parents=True)
    shutil.copy(PAGE, published_cheap_talk.PAGE)
    found = import_games("byzantine-cheap-talk", games, published_cheap_talk.STUDY)
    assert (found.defects, found.conditions) == ([], 11)
    summarize(load_study(found.study))
    published_cheap_talk.main()

    page = published_cheap_talk.PAGE.read_text()
    tables = {
        file.stem: file.read_text().splitlines() for file in published_cheap_talk.PAGE.with_suffix("").glob("*.csv")
    }
    # Stags of honest players by seat of the adversary: 11, 7 and 11 of 15; points: 12, 24 and 12, in 15 turns.
    [hard] = [row for row in csv.reader(tables["conditions"]) if row[0] == "4 players, 1 betray, none, complete"]
    assert (hard[1], hard[5], hard[3]) == ("6", "50%", "0%")
    assert hard[2].startswith("0% [")
    assert hard[4].startswith("64% [")
    assert hard[6].startswith("1.07 [")
    assert "| mixtral | DP 13/13 | DP 15/15 | DP 17/17 | DP | 4/4 | 4/4 | 0/4 |" in page
    assert "llama,CP 3/13,-,-,CP,0/6,0/6,0/6" in tables["cohorts"]
    rows = [line for line in tables["placebo"] if "some stag hunter turns to the hare" in line]
    assert any(
        row.startswith('"hard, k = 1",explicit broadcast,some stag hunter turns to the hare,"6, 3",100%,')
        for row in rows
    )
    [fall] = [row for row in csv.reader(tables["claims"]) if row[0].startswith("hard k = 1: fewer hunt the stag in r")]
    assert "(6 games)" in fall[1]
    assert len(tables["costs"]) > 3
    assert "Which claims hold" in page  # what stands around the table stays
