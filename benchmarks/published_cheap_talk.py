"""The published games of Byzantine Cheap Talk beside the numbers of their paper: `make published GAMES=PATH`.

Reads the tables and records of the study `published-games`, which `parley import` made. Writes tables as CSV into
docs/published-cheap-talk/, and that of cohorts into the page, between marks. The unit is the game, with one share over
its rounds and players: Wilson's interval for shares, Student's for payoffs, as in all tables.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import published_claims as claims
from benchmarks.measure import fill
from parley.analysis.tables import read_table
from parley.games.stag_hunt.parameters import STAG
from parley.report.html import interval_text
from parley.statistics.stats import mean_interval, wilson_of_mean

STUDY = "published-games"
PAGE = Path("docs/published-cheap-talk.md")
_KEY = ["n", "b", "byzantine", "disclosure", "topology", "seat"]
Key = tuple[Any, ...]
HARD = (4, 1, "betray", "none", "complete", "any")
HARD_2 = (4, 2, "betray", "none", "complete", "any")
SOFT = (4, 1, "betray-0.5", "none", "complete", "any")
# Of the paper (arXiv:2606.07790), cohort v1: group cooperation and that of honest players (%), their mean payoff.
# Tables 1, 2 and 4; cooperation by round is Table 3.
PAPER: dict[Key, tuple[float, float, float]] = {
    HARD: (0, 50, 1.5),
    HARD_2: (0, 43, 1.7),
    SOFT: (12, 61, 2.37),
    (4, 1, "betray", "explicit", "star", "hub"): (0, 13, 2.6),
    (4, 1, "betray", "explicit", "star", "spoke"): (0, 28, 2.2),
    (4, 0, "none", "explicit", "complete", "any"): (70, 82, 7.6),
    (4, 0, "none", "explicit", "ring", "any"): (5, 35, 2.4),
    (4, 0, "none", "explicit", "star", "any"): (0, 24, 2.3),
    (4, 0, "none", "silent", "complete", "any"): (100, 100, 10),
    (4, 0, "none", "silent", "ring", "any"): (100, 100, 10),
    (4, 0, "none", "silent", "star", "any"): (80, 88, 8.4),
}
BY_ROUND: dict[Key, tuple[float, ...]] = {
    HARD: (98, 43, 43, 27, 38),
    HARD_2: (100, 23, 30, 30, 33),
    SOFT: (97, 62, 50, 48, 48),
}
# Table 7: the class of a model, and in how many of its games it switched, by number of players.
BY_PLAYERS: dict[str, dict[int, str]] = {
    "mixtral": {2: "DP 9/9", 3: "DP 14/14", 4: "DP 17/17", 5: "DP 11/11", 6: "DP 17/17"},
    "qwen": {2: "CP 0/11", 3: "CP 0/13", 4: "CP 0/14", 5: "CP 0/14", 6: "CP 0/18"},
    "llama": {3: "CP 1/13", 4: "CP 0/17", 5: "CP 0/14", 6: "CP 1/18"},
    "deepseek": {4: "DP 11/12", 5: "DP 14/14", 6: "DP 15/17"},
    "gpt-4o": {5: "CP 5/11", 6: "CP 5/16"},
    "claude": {6: "DP 8/14"},
}
# Table 6: the same by cohort, with four players.
BY_COHORT: dict[str, tuple[str, str, str]] = {
    "mixtral": ("DP 13/13", "DP 15/15", "DP 17/17"),
    "qwen": ("CP 2/15", "CP 7/15", "CP 2/14"),
    "llama": ("CP 3/13", "-", "-"),
    "deepseek": ("DP 19/19", "-", "DP 15/15"),
    "gpt-4o": ("-", "DP 13/13", "DP 14/14"),
    "claude": ("-", "DP 17/17", "-"),
}
# The payoff of the models that switch, DP, against that of the others, CP (sections 4.2 to 4.4).
RATIOS: dict[Key, str] = {
    HARD: "2.42 and 0.45: 5.4 times",
    SOFT: "2.6 times",
    (4, 1, "betray", "explicit", "star", "hub"): "1.4 to 1.7 times",
    (4, 1, "betray", "explicit", "star", "spoke"): "1.4 to 1.7 times",
}


def main() -> None:
    """Write the tables, and what of the page is made from them."""
    turns, behaviors = _of_the_paper(read_table(STUDY, "turns")), _of_the_paper(read_table(STUDY, "behaviors"))
    turns["stag"] = turns["action"] == STAG
    metrics = ["all hunt", "(paper)", "honest hunt", "(paper)", "payoff", "(paper)"]
    header = ["model", "paper v1", "paper v2", "paper v3", "class", "hare for good", "switched", "preemptive"]
    costs = ["condition", "who", "games", "payoff", "cost against 3", "(paper: DP against CP)"]
    tables: dict[str, claims.Table] = {
        "conditions": (["condition", "games", *metrics], list(_overall(turns))),
        "rounds": (["condition", "games", *(f"round {r}" for r in range(1, 6))], list(_by_round(turns))),
        "cohorts": (header, list(_by_cohort(behaviors))),
        "players": (["model", "rule", *(f"n = {n}" for n in range(2, 7))], list(_by_players(behaviors))),
        "costs": (costs, list(_costs(behaviors))),
        "placebo": claims.placebo(STUDY),
        "claims": claims.tested_claims(turns),
    }
    for name, (columns, rows) in tables.items():
        with (PAGE.with_suffix("") / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    fill(PAGE, "make published: cohorts", *tables["cohorts"])
    print(PAGE.with_suffix(""), PAGE, sep="\n")


def _of_the_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the runs of 20 games, as the paper names what plays."""
    table = table[~table["model"].str.endswith("-10-trials")].copy()
    for name in ("byzantine", "player", "model"):
        table[name] = table[name].str.removeprefix("imported-")
    return table


# Tables 1 to 4


def _overall(turns: pd.DataFrame) -> Iterator[list[str]]:
    for key, found in _conditions(turns):
        honest = found[~found["is_byzantine"]].groupby("id")
        paid = mean_interval(honest["points"].mean())
        ours = [
            _share(found.groupby(["id", "round"])["stag"].all().groupby("id").mean()),
            _share(honest["stag"].mean()),
            interval_text((paid.mean, paid.low, paid.high), ".2f"),
        ]
        told = PAPER.get(key)
        paper = ["-"] * 3 if told is None else [f"{told[0]:g}%", f"{told[1]:g}%", f"{told[2]:g}"]
        both = [cell for pair in zip(ours, paper, strict=True) for cell in pair]
        yield [_name(key), str(found["id"].nunique()), *both]


def _by_round(turns: pd.DataFrame) -> Iterator[list[str]]:
    for key, found in _conditions(turns):
        if (told := BY_ROUND.get(key)) is None:
            continue
        shares = found[~found["is_byzantine"]].groupby(["round", "id"])["stag"].mean()
        cells = [f"{_share(shares[number])} ({paper:g}%)" for number, paper in enumerate(told, 1)]
        yield [_name(key), str(found["id"].nunique()), *cells]


# Tables 6 and 7, and what it cost


def _by_cohort(behaviors: pd.DataFrame) -> Iterator[list[str]]:
    """Yield the rows of Table 6, with the games of four players that are in the files."""
    of = _rows_of(behaviors, HARD)
    for model, told in BY_COHORT.items():
        if (model, "hare_for_good") not in of:
            yield [model, *told, *["-"] * 4]
            continue
        rows = [of[model, what] for what in ("hare_for_good", "switched_for_good", "preemptive")]
        kind = "preemptive" if rows[2]["majority"] else "DP" if rows[0]["majority"] else "CP"
        yield [model, *told, kind, *(_count(row) for row in rows)]


def _by_players(behaviors: pd.DataFrame) -> Iterator[list[str]]:
    """Yield the rows of Table 7 by both rules, beside the paper's."""
    numbers = range(2, 7)
    of = {n: _rows_of(behaviors, (n, *HARD[1:])) for n in numbers}
    for model, told in BY_PLAYERS.items():
        yield [model, "paper", *(told.get(n, "-") for n in numbers)]
        for rule, what in (("switched", "switched_for_good"), ("hare for good", "hare_for_good")):
            rows = [of[n].get((model, what)) for n in numbers]
            cells = ("-" if row is None else f"{'DP' if row['majority'] else 'CP'} {_count(row)}" for row in rows)
            yield ["", rule, *cells]


def _costs(behaviors: pd.DataFrame) -> Iterator[list[str]]:
    """Yield what each class of behavior got per round, and what the hare would have paid it more."""
    names = {"any": "all betrayed", "hare_for_good": "hare for good", "stag_again": "hunt the stag again"}
    for key, found in _conditions(behaviors):
        if key not in PAPER:
            continue
        of = _rows_of(found, key)
        for what, name in names.items():
            row = of["all", what]
            names_of = [(each, f"{each}_low", f"{each}_high") for each in ("payoff", "cost")]
            limits = [interval_text((row[column] for column in columns), ".2f") for columns in names_of]
            yield [_name(key), name, str(row["shown"]), *limits, RATIOS.get(key, "-") if what == "any" else ""]


def _count(row: Any) -> str:
    return f"{row['shown']}/{row['simulations']}"


# What all tables share


def _conditions(rows: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    for key, found in rows.groupby(_KEY, sort=False):
        assert isinstance(key, tuple)
        yield key, found


def _rows_of(behaviors: pd.DataFrame, key: Key) -> dict[tuple[str, str], dict[Any, Any]]:
    """Return the rows of one condition by player and behavior."""
    rows = behaviors[(behaviors[_KEY] == list(key)).all(axis=1)]
    return {(row["player"], row["behavior"]): row for row in rows.to_dict("records")}


def _share(by_game: pd.Series) -> str:
    mean = float(by_game.mean())
    return interval_text((mean, *wilson_of_mean(mean, len(by_game))), ".0%")


def _name(key: Key) -> str:
    n, b, byzantine, disclosure, topology, seat = key
    where = f" as {seat}" if seat != "any" else ""
    return f"{n} players, " + (f"{b} {byzantine}{where}" if b else "none") + f", {disclosure}, {topology}"


if __name__ == "__main__":
    main()
