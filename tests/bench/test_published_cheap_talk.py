"""The published games beside their paper: on games of our own making, with numbers by hand."""

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
def test_tables_page_and_figure_are_made_from_the_games(folder: Path) -> None:
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
    assert (found.defects, found.conditions) == ((), 11)
    summarize(load_study(found.study))
    published_cheap_talk.main()

    page = published_cheap_talk.PAGE.read_text()
    written = Path("results/published-games/beside-the-paper.md").read_text()
    lines = written.splitlines()
    # Stags of honest players by seat of the adversary: 11, 7 and 11 of 15; points: 12, 24 and 12, in 15 turns.
    hard = next(line for line in lines if line.startswith("| 4 players, 1 betray, none, complete | 6 | 0% ["))
    assert hard.split(" | ")[4].startswith("64% [")
    assert "| 50% | 1.07 [" in hard
    assert "| mixtral | DP 13/13 | DP 15/15 | DP 17/17 | DP | 4/4 | 4/4 | 0/4 |" in lines
    assert "| llama | CP 3/13 | - | - | CP | 0/6 | 0/6 | 0/6 |" in lines
    assert "| hard, k = 1 | explicit broadcast | some stag hunter turns to the hare | 6, 3 | 100% |" in written
    fall = next(line for line in lines if line.startswith("| hard k = 1: fewer hunt the stag in round 2"))
    assert "(6 games)" in fall
    table = written.split("## cohorts\n")[1].split("## ")[0].strip()
    assert table in page
    costs = (published_cheap_talk.PAGE.with_suffix("") / "costs.csv").read_text()
    assert costs.count("\n") == written.split("## costs\n")[1].split("## ")[0].count("\n| ") - 1
    assert "Which claims hold" in page  # what stands between the tables stays
    assert Path("results/published-games/beside-the-paper.png").stat().st_size > 10_000
