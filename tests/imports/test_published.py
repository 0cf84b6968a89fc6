"""The published games themselves, where a copy of their repository is: PARLEY_CHEAP_TALK=path of its folder."""

import os
from pathlib import Path

import pandas as pd
import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.imports.import_games import import_games
from parley.play.record import read_summary
from parley.study import load_study

WHERE = os.environ.get("PARLEY_CHEAP_TALK", "")

pytestmark = [
    pytest.mark.promise(
        "All 446 published games are imported and say what their CSV files say (PARLEY_CHEAP_TALK names a copy)."
    ),
    pytest.mark.rare,
    pytest.mark.usefixtures("folder"),
    pytest.mark.skipif(not WHERE, reason="the published games are not here; set PARLEY_CHEAP_TALK to their folder"),
]


def told(folder: Path, csv: Path) -> pd.DataFrame:
    """Return the rows of one of their CSVs, with the file of each game."""
    table = pd.read_csv(csv, keep_default_na=False)

    def file(condition: str, trial: int) -> str:
        inside, beside = (csv.parent / part / f"trial_{trial:02d}" / "results.json" for part in (condition, "."))
        return (inside if inside.exists() else beside).resolve().relative_to(folder.resolve()).as_posix()

    return pd.DataFrame(
        {
            "file": [file(c, t) for c, t in zip(table["condition"], table["trial_id"], strict=True)],
            "round": table["round"],
            "agent": table["agent_id"],
            "action": table["action"],
            "points": table["payoff"],
            "is_byzantine": table["is_adversary"].astype(str) == "True",
        }
    )


def test_all_published_games_are_imported_and_say_what_their_csvs_say() -> None:
    Path("config").mkdir()
    folder = Path(WHERE) / "results"
    found = import_games("byzantine-cheap-talk", folder, "published-games")
    assert (found.games, found.rounds, found.conditions) == (446, 2230, 27)
    assert found.defects == []
    study = load_study(found.study)
    summarize(study)
    files = {s.id: read_summary(s.record(study.name)).provenance["imported"]["file"] for s in study.simulations()}
    turns = pd.read_parquet(paths.table(study.name, "turns", ".parquet"))
    turns["file"] = turns["id"].map(files)
    theirs = pd.concat([told(folder, csv) for csv in sorted(folder.rglob("all_results.csv"))])
    both = theirs.merge(turns, on=["file", "round", "agent"], suffixes=("_csv", ""), validate="one_to_one")
    assert len(both) == len(turns) == len(theirs) == 9200
    for name in ("action", "points", "is_byzantine"):
        assert (both[name] == both[f"{name}_csv"]).all()
