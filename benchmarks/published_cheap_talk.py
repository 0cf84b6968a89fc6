"""The published games of Byzantine Cheap Talk beside the numbers of their paper: `make published GAMES=PATH`.

Reads the table of turns of the study `published-games`, which `parley import` made, and prints Markdown. The unit is
the game, with one share over its rounds and players: Wilson's interval for shares, Student's for payoffs, as in all
tables.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from parley import paths
from parley.analysis.stats import mean_interval, wilson_of_mean
from parley.games.stag_hunt.state import STAG

STUDY = "published-games"
_KEY = ["n", "b", "byzantine", "disclosure", "topology"]
Key = tuple[Any, ...]
# Of the paper (arXiv:2606.07790), cohort v1: group cooperation and that of honest players (%), their mean payoff.
# Tables 1, 2 and 4; cooperation by round is Table 3.
PAPER: dict[Key, tuple[float, float, float]] = {
    (4, 1, "betray", "none", "complete"): (0, 50, 1.5),
    (4, 2, "betray", "none", "complete"): (0, 43, 1.7),
    (4, 1, "betray-0.5", "none", "complete"): (12, 61, 2.37),
    (4, 1, "betray-hub", "explicit", "star"): (0, 13, 2.6),
    (4, 1, "betray-spoke", "explicit", "star"): (0, 28, 2.2),
    (4, 0, "none", "explicit", "complete"): (70, 82, 7.6),
    (4, 0, "none", "explicit", "ring"): (5, 35, 2.4),
    (4, 0, "none", "explicit", "star"): (0, 24, 2.3),
    (4, 0, "none", "silent", "complete"): (100, 100, 10),
    (4, 0, "none", "silent", "ring"): (100, 100, 10),
    (4, 0, "none", "silent", "star"): (80, 88, 8.4),
}
BY_ROUND: dict[Key, tuple[float, ...]] = {
    (4, 1, "betray", "none", "complete"): (98, 43, 43, 27, 38),
    (4, 2, "betray", "none", "complete"): (100, 23, 30, 30, 33),
    (4, 1, "betray-0.5", "none", "complete"): (97, 62, 50, 48, 48),
}


def main() -> None:
    """Print the tables."""
    turns = pd.read_parquet(paths.table(STUDY, "turns", ".parquet"))
    turns["byzantine"] = turns["byzantine"].str.removeprefix("imported-")
    turns["stag"] = turns["action"] == STAG
    turns = turns[~turns["model"].str.endswith("-10-trials")]  # the paper's runs have 20
    header = ["condition", "games", "all hunt", "(paper)", "honest hunt", "(paper)", "payoff", "(paper)"]
    print(_markdown(header, list(_overall(turns))))
    print(_markdown(["condition", "games", *(f"round {r}" for r in range(1, 6))], list(_by_round(turns))))


def _overall(turns: pd.DataFrame) -> Iterator[list[str]]:
    for key, found in _conditions(turns):
        honest = found[~found["is_byzantine"]]
        unanimous = found.groupby(["id", "round"])["stag"].all().groupby("id").mean()
        told = PAPER.get(key)
        cells = [_share(unanimous), _share(honest.groupby("id")["stag"].mean()), _points(honest)]
        paper = ["-"] * 3 if told is None else [f"{told[0]:g}%", f"{told[1]:g}%", f"{told[2]:g}"]
        both = [cell for pair in zip(cells, paper, strict=True) for cell in pair]
        yield [_name(key), str(found["id"].nunique()), *both]


def _by_round(turns: pd.DataFrame) -> Iterator[list[str]]:
    for key, found in _conditions(turns):
        if (told := BY_ROUND.get(key)) is None:
            continue
        shares = found[~found["is_byzantine"]].groupby(["round", "id"])["stag"].mean()
        cells = [f"{_share(shares[number])} ({paper:g}%)" for number, paper in enumerate(told, 1)]
        yield [_name(key), str(found["id"].nunique()), *cells]


def _conditions(turns: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    for key, found in turns.groupby(_KEY, sort=False):
        assert isinstance(key, tuple)
        yield key, found


def _share(by_game: pd.Series) -> str:
    low, high = wilson_of_mean(float(by_game.mean()), len(by_game))
    return f"{by_game.mean():.0%} [{low:.0%}, {high:.0%}]"


def _points(honest: pd.DataFrame) -> str:
    found = mean_interval(honest.groupby("id")["points"].mean())
    return f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _name(key: Key) -> str:
    n, b, byzantine, disclosure, topology = key
    return f"{n} players, " + (f"{b} {byzantine}" if b else "none") + f", {disclosure}, {topology}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
