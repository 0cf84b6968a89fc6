"""What the paper of Byzantine Cheap Talk claims, tested on its published games, and its detection beside a placebo.

Games are the units. What is of the same games is paired. p is corrected by Holm over all rows of a table.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley import paths
from parley.analysis.simulations import PlayedGame
from parley.analysis.summarize import played_games
from parley.games.stag_hunt.parameters import HARE
from parley.games.stag_hunt.reactions import reacted, reaction_rows, reaction_samples, sources_of
from parley.play.record import read_trace
from parley.play.record_store import read_records
from parley.report.html import interval_text
from parley.statistics.stats import holm, paired_mean, welch
from parley.study import load_study

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
_Row = tuple[str, str, str, int, float, float]  # claim, values, difference as text, claimed sign, difference, p
_AXES = ("b", "byzantine", "disclosure", "topology", "seat")
HARD, HARD_2, SOFT = (1, "betray", "none"), (2, "betray", "none"), (1, "betray-0.5", "none")
EXPLICIT, SILENT = (0, "none", "explicit"), (0, "none", "silent")
HUB, SPOKE = (1, "betray", "explicit", "star", "hub"), (1, "betray", "explicit", "star", "spoke")
PRONE, PERSISTENT = ("mixtral", "deepseek"), ("qwen", "llama")  # the paper's classes
# Measures of a reaction that the table shows, in its words.
_MEASURES = {
    "detected": "some player changes word or action",
    "rounds_until_detection": "rounds until then",
    "retreated": "some stag hunter turns to the hare",
    "hare_for_good": "players: hare in all later rounds",
    "switched_for_good": "players: the same, and had hunted the stag",
    "kept_hunting": "players: hunt the stag in all later rounds",
}


def placebo(study: str) -> Table:
    """Compare reactions of four players with what the same models do from the same round on without an adversary."""
    played = _played(study)
    pairs = [
        *(("star, adversary is " + where[-1], where, _in(EXPLICIT, "star")) for where in (HUB, SPOKE)),
        *(
            (name, _in(with_), _in(calm))
            for name, with_ in (("hard, k = 1", HARD), ("hard, k = 2", HARD_2), ("soft", SOFT))
            for calm in (EXPLICIT, SILENT)
        ),
    ]
    rows = []
    for name, with_, calm in pairs:
        without = f"{calm[2]} {'broadcast' if calm[3] == 'complete' else calm[3]}"
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for game, sources in sources_of(played[with_], played[calm]):
            trace: Any = read_trace(game.simulation.record(study))
            found |= reacted(game, sources, trace)
        samples = reaction_samples(played[with_], played[calm], found, {})
        for row in reaction_rows(samples).to_dict("records"):
            if (what := row["what"]) in _MEASURES:
                games = f"{row['simulations']}, {row['simulations_without']}"
                form, scale, limits = (".2f", 1, ".2f") if what == "rounds_until_detection" else (".0%", 100, ".0f")
                values = [f"{row[key]:{form}}" for key in ("value_with", "value_without")]
                effect = [row[key] for key in ("difference", "low", "high")]
                values.append(interval_text(effect, f"+{limits}", limits=limits, scale=scale))
                rows.append(([name, without, _MEASURES[what], games, *values], row["p"]))
    corrected = holm([p for _, p in rows])
    cells = [[*told, _p(p), _p(q)] for (told, p), q in zip(rows, corrected, strict=True)]
    return ["adversary", "compared with", "measure", "games", "with", "without", "difference", "p", "Holm"], cells


def _in(of: tuple[Any, ...], topology: str = "complete") -> tuple[Any, ...]:
    return (*of, topology, "any")


def _played(study: str) -> dict[tuple[Any, ...], dict[int, PlayedGame]]:
    """Return the games of four players of the paper's runs by axes and seed."""
    records = read_records(load_study(paths.study_file(study))).shown
    found: dict[tuple[Any, ...], dict[int, PlayedGame]] = {}
    for game in played_games(records):
        axes = game.simulation.condition.axes
        if axes["n"] == 4 and not str(axes["model"]).endswith("-10-trials"):
            key = tuple(str(axes[name]).removeprefix("imported-") if name != "b" else axes[name] for name in _AXES)
            found.setdefault(key, {})[game.simulation.seed] = game
    return found


# The claims


def tested_claims(turns: pd.DataFrame) -> Table:
    """Test the claims on games of four players; `turns` have `stag`."""
    four = turns[turns["n"] == 4]
    rows = list(_tested({tuple(key): found for key, found in four.groupby(list(_AXES), sort=False)}))
    corrected = holm([p for *_, p in rows])
    cells = [
        [claim, found, effect, _p(p), _p(q), _verdict(sign, change, q)]
        for (claim, found, effect, sign, change, p), q in zip(rows, corrected, strict=True)
    ]
    return ["claim of the paper", "in these games", "difference", "p", "Holm", "holds"], cells


def _verdict(sign: int, change: float, p: float) -> str:
    """Return whether the difference has the claimed sign; without a small p nothing can be said."""
    if math.isnan(p) or p >= 0.05:
        return "cannot be said"
    return "yes" if change * sign > 0 else "no: the other way"


def _tested(games: Mapping[tuple[Any, ...], pd.DataFrame]) -> Iterator[_Row]:
    """Yield the claims."""
    broadcasts = {"hard k = 1": games[_in(HARD)], "hard k = 2": games[_in(HARD_2)], "soft": games[_in(SOFT)]}
    hard, hard_2, soft = broadcasts.values()
    seats = {"hub": games[HUB], "spoke": games[SPOKE]}
    names = {"broadcast": "complete", "ring": "ring", "star": "star"}
    calm, silent = ({name: games[_in(of, where)] for name, where in names.items()} for of in (EXPLICIT, SILENT))

    for name, found in broadcasts.items():
        claim = f"{name}: fewer hunt the stag in round 2 than in 1"
        yield _claim(claim, _hunt(found, [1]), _hunt(found, [2]), sign=-1, paired=True)
    for name, found in broadcasts.items():
        claim = f"the same of {name}, less that without an adversary (explicit broadcast)"
        yield _claim(claim, *(_hunt(each, [2]) - _hunt(each, [1]) for each in (calm["broadcast"], found)), sign=-1)
    yield _claim("k = 2 falls deeper than k = 1 by round 2", _hunt(hard, [2]), _hunt(hard_2, [2]), sign=-1)
    yield _claim("a soft adversary leaves more who hunt the stag than a hard one", _hunt(hard), _hunt(soft), sign=1)
    betrayed, second = _betrayed(soft, 1), _hunt(soft, [2])
    claim = "soft: after a betrayal in round 1 fewer hunt the stag in round 2 than without one (its coin decides)"
    yield _claim(claim, second[~betrayed], second[betrayed], sign=-1)
    paid = [_points(soft, adversary=each) for each in (False, True)]
    yield _claim(
        "a soft adversary gets more than honest players (paper: 11%)", *paid, sign=1, paired=True, points=True
    )
    for name in ("hard k = 1", "soft", "star, hub", "star, spoke"):
        found = broadcasts[name] if name in broadcasts else seats[name.removeprefix("star, ")]
        paid = [_points(found, each) for each in (PERSISTENT, PRONE)]
        claim = f"{name}: Mixtral and DeepSeek get more than Qwen and Llama ({_ratio(*paid)})"
        yield _claim(claim, *paid, sign=1, paired=True, points=True)
    gaps = (_points(found, PRONE) - _points(found, PERSISTENT) for found in (hard, soft))
    yield _claim("that gap is smaller with a soft adversary (in points)", *gaps, sign=-1, points=True)
    claim = "an adversary at the hub leaves fewer who hunt than at a spoke"
    yield _claim(claim, _hunt(seats["spoke"]), _hunt(seats["hub"]), sign=-1)
    for name, found in seats.items():
        claim = f"star with the adversary at the {name}: fewer hunt than in"
        yield _claim(f"{claim} broadcast", _hunt(hard), _hunt(found), sign=-1)
        yield _claim(f"{claim} the star without one", _hunt(calm["star"]), _hunt(found), sign=-1)
    for name in ("ring", "star"):
        claim = f"told of the {name}, fewer hunt than told of the broadcast"
        yield _claim(claim, _hunt(calm["broadcast"]), _hunt(calm[name]), sign=-1)
    for name in names:
        yield _claim(f"{name}: more hunt if they are not told of it", _hunt(calm[name]), _hunt(silent[name]), sign=1)
    claim = "silent: fewer hunt in the star than in the broadcast"
    yield _claim(claim, _hunt(silent["broadcast"]), _hunt(silent["star"]), sign=-1)
    for name, found in (("hard k = 1", hard), ("explicit ring", calm["ring"]), ("explicit star", calm["star"])):
        sides = (_hunt(found, players=each) for each in (PRONE, PERSISTENT))
        yield _claim(
            f"{name}: Qwen and Llama hunt the stag more than Mixtral and DeepSeek", *sides, sign=1, paired=True
        )
    for name, found in silent.items():
        sides = (_hunt(found, players=each) for each in (PRONE, PERSISTENT))
        yield _claim(f"silent {name}: the same (the paper: the classes vanish)", *sides, sign=1, paired=True)


def _hunt(found: pd.DataFrame, rounds: Sequence[int] = (), players: Sequence[str] = ()) -> pd.Series:
    """Return the share of stags of honest players by game, of some rounds or of some models."""
    found = found[found["round"].isin(rounds)] if rounds else found
    return _mean(found, "stag", players)


def _points(found: pd.DataFrame, players: Sequence[str] = (), adversary: bool = False) -> pd.Series:
    """Return the mean points per round by game, of honest players, some models, or the adversary."""
    return _mean(found, "points", players, adversary)


def _mean(found: pd.DataFrame, column: str, players: Sequence[str], adversary: bool = False) -> pd.Series:
    found = found[found["is_byzantine"] == adversary]
    return (found[found["player"].isin(players)] if players else found).groupby("id")[column].mean()


def _betrayed(found: pd.DataFrame, number: int) -> pd.Series:
    """Return for each game whether its adversary hunted the hare in a round."""
    first = found[found["is_byzantine"] & (found["round"] == number)]
    return (first.set_index("id")["action"] == HARE).sort_index()


def _ratio(first: pd.Series, second: pd.Series) -> str:
    """Return the ratio of two means of the same games, with a percentile interval from resampled games."""
    both = pd.concat([first, second], axis=1).dropna().to_numpy()
    drawn = np.random.default_rng(18).integers(0, len(both), (10_000, len(both)))
    means = both[drawn].mean(axis=1)
    x, y = both.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # who always hunts the stag may get nothing
        low, high = np.quantile(means[:, 1] / means[:, 0], [0.025, 0.975], method="nearest")
        return f"{y:.2f} and {x:.2f}: {y / x:.1f} times [{low:.1f}, {high:.1f}]"


def _claim(claim: str, *sides: pd.Series, sign: int, paired: bool = False, points: bool = False) -> _Row:
    """Return a claim on two values of the same games, or on those of two conditions, which share no games."""
    if paired:
        x, y = pd.concat(sides, axis=1).dropna().to_numpy().T
    else:
        x, y = (side.to_numpy() for side in sides)
    games = f"{len(x)} games" if paired else f"{len(x)} and {len(y)} games"
    low, high, p = paired_mean(x, y) if paired else welch(x, y)
    before, after = float(x.mean()), float(y.mean())
    form, scale, limits = (".2f", 1, ".2f") if points else (".0%", 100, ".0f")
    effect = interval_text((after - before, low, high), f"+{limits}", limits=limits, scale=scale)
    return claim, f"{before:{form}}, {after:{form}} ({games})", effect, sign, after - before, p


def _p(value: float) -> str:
    return "" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
