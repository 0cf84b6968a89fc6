"""What the paper of Byzantine Cheap Talk claims, tested on its published games, and its detection beside a placebo.

Games are the units. What is of the same games is paired. p is corrected by Holm over all rows of a table.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from parley import paths
from parley.analysis.reactions import ReactionsOf
from parley.analysis.simulations import PlayedGame
from parley.analysis.stats import (
    Floats,
    holm,
    paired_mean,
    welch,
)
from parley.analysis.summarize import played_games
from parley.games.stag_hunt.parameters import HARE
from parley.play.record import read_trace
from parley.play.record_store import read_records
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


def tables(study: str, turns: pd.DataFrame) -> Mapping[str, Table]:
    """Return header and rows of the tables `placebo` and `claims`, of four players; `turns` have `stag`."""
    four = turns[turns["n"] == 4]
    return {"placebo": _placebo(study), "claims": _claims(four)}


# The placebo


def _placebo(study: str) -> Table:
    """Compare reactions with what the same models do from the same round on without an adversary."""
    played, loaded = _played(study), load_study(paths.study_file(study))
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
        reactions = ReactionsOf(loaded, played[with_], played[calm])
        for game in (*played[with_].values(), *played[calm].values()):
            reactions.add(reactions.found(game, read_trace(game.simulation.record(study))))
        for row in reactions.rows():
            if (what := row["what"]) in _MEASURES:
                games = f"{row['simulations']}, {row['simulations_without']}"
                values = [row[key] for key in ("value_with", "value_without", "difference", "low", "high")]
                rows.append(([name, without, _MEASURES[what], games], what, values, row["p"]))
    corrected = holm([p for *_, p in rows])
    cells = [
        [*told, *_numbers(what, *values), _p(p), _p(q)]
        for (told, what, values, p), q in zip(rows, corrected, strict=True)
    ]
    return ["adversary", "compared with", "measure", "games", "with", "without", "difference", "p", "Holm"], cells


def _in(of: tuple[Any, ...], topology: str = "complete") -> tuple[Any, ...]:
    return (*of, topology, "any")


def _played(study: str) -> dict[tuple[Any, ...], dict[int, PlayedGame]]:
    """Return the games of four players of the paper's runs by axes and seed."""
    records = read_records(load_study(paths.study_file(study))).first_repeat
    found: dict[tuple[Any, ...], dict[int, PlayedGame]] = {}
    for game in played_games(records):
        axes = game.simulation.condition.axes
        if axes["n"] == 4 and not str(axes["model"]).endswith("-10-trials"):
            key = tuple(str(axes[name]).removeprefix("imported-") if name != "b" else axes[name] for name in _AXES)
            found.setdefault(key, {})[game.simulation.seed] = game
    return found


def _numbers(what: str, value: float, sham: float, difference: float, low: float, high: float) -> list[str]:
    if what == "rounds_until_detection":
        return [f"{value:.2f}", f"{sham:.2f}", f"{difference:+.2f}{_limits(low, high, 1, '.2f')}"]
    return [f"{value:.0%}", f"{sham:.0%}", f"{100 * difference:+.0f}{_limits(low, high, 100, '.0f')}"]


# The claims


def _claims(turns: pd.DataFrame) -> Table:
    games = {tuple(key): found for key, found in turns.groupby(list(_AXES), sort=False)}
    rows = list(_tested(games))
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
    hard, hard_2, soft = (games[_in(each)] for each in (HARD, HARD_2, SOFT))
    calm, ring, star = (games[_in(EXPLICIT, where)] for where in ("complete", "ring", "star"))
    for name, found in (("hard k = 1", hard), ("hard k = 2", hard_2), ("soft", soft)):
        first, second = _hunt(found, [1]), _hunt(found, [2])
        yield _paired(f"{name}: fewer hunt the stag in round 2 than in 1", first, second, sign=-1)
    for name, found in (("hard k = 1", hard), ("hard k = 2", hard_2), ("soft", soft)):
        falls = [_hunt(each, [2]) - _hunt(each, [1]) for each in (calm, found)]
        yield _unpaired(f"the same of {name}, less that without an adversary (explicit broadcast)", *falls, sign=-1)
    yield _unpaired("k = 2 falls deeper than k = 1 by round 2", _hunt(hard, [2]), _hunt(hard_2, [2]), sign=-1)
    yield _unpaired("a soft adversary leaves more who hunt the stag than a hard one", _hunt(hard), _hunt(soft), sign=1)
    betrayed = _hares_of_adversary(soft, 1)
    second = _hunt(soft, [2])
    told = "soft: after a betrayal in round 1 fewer hunt the stag in round 2 than without one (its coin decides)"
    yield _unpaired(told, second[~betrayed], second[betrayed], sign=-1)
    paid = [_points(soft, adversary=each) for each in (False, True)]
    yield _paired("a soft adversary gets more than honest players (paper: 11%)", *paid, sign=1, unit="points")
    for name, found in (
        ("hard k = 1", hard),
        ("soft", soft),
        ("star, hub", games[HUB]),
        ("star, spoke", games[SPOKE]),
    ):
        paid = [_points(found, players=each) for each in (PERSISTENT, PRONE)]
        told = f"{name}: Mixtral and DeepSeek get more than Qwen and Llama ({_ratio(*paid)})"
        yield _paired(told, *paid, sign=1, unit="points")
    gaps = [_points(found, players=PRONE) - _points(found, players=PERSISTENT) for found in (hard, soft)]
    yield _unpaired("that gap is smaller with a soft adversary (in points)", *gaps, sign=-1, unit="points")
    yield _unpaired(
        "an adversary at the hub leaves fewer who hunt than at a spoke",
        *map(_hunt, (games[SPOKE], games[HUB])),
        sign=-1,
    )
    for name, found in (("hub", games[HUB]), ("spoke", games[SPOKE])):
        yield _unpaired(
            f"star with the adversary at the {name}: fewer hunt than in broadcast", _hunt(hard), _hunt(found), sign=-1
        )
        told = f"star with the adversary at the {name}: fewer hunt than in the star without one"
        yield _unpaired(told, _hunt(star), _hunt(found), sign=-1)
    for name, found in (("ring", ring), ("star", star)):
        yield _unpaired(
            f"told of the {name}, fewer hunt than told of the broadcast", _hunt(calm), _hunt(found), sign=-1
        )
    for where, name in (("complete", "broadcast"), ("ring", "ring"), ("star", "star")):
        open_, silent = games[_in(EXPLICIT, where)], games[_in(SILENT, where)]
        yield _unpaired(f"{name}: more hunt if they are not told of it", _hunt(open_), _hunt(silent), sign=1)
    yield _unpaired(
        "silent: fewer hunt in the star than in the broadcast",
        *(_hunt(games[_in(SILENT, w)]) for w in ("complete", "star")),
        sign=-1,
    )
    for name, found in (("hard k = 1", hard), ("explicit ring", ring), ("explicit star", star)):
        sides = [_hunt(found, players=each) for each in (PRONE, PERSISTENT)]
        yield _paired(f"{name}: Qwen and Llama hunt the stag more than Mixtral and DeepSeek", *sides, sign=1)
    for where, name in (("complete", "broadcast"), ("ring", "ring"), ("star", "star")):
        sides = [_hunt(games[_in(SILENT, where)], players=each) for each in (PRONE, PERSISTENT)]
        yield _paired(f"silent {name}: the same (the paper: the classes vanish)", *sides, sign=1)


def _hunt(found: pd.DataFrame, rounds: Sequence[int] = (), players: Sequence[str] = ()) -> pd.Series:
    """Return the share of stags of honest players by game, of some rounds or of some models."""
    return _of(found, rounds, players).groupby("id")["stag"].mean()


def _points(found: pd.DataFrame, players: Sequence[str] = (), adversary: bool = False) -> pd.Series:
    """Return the mean points per round by game, of honest players, some models, or the adversary."""
    return _of(found, (), players, adversary).groupby("id")["points"].mean()


def _of(found: pd.DataFrame, rounds: Sequence[int], players: Sequence[str], adversary: bool = False) -> pd.DataFrame:
    found = found[found["is_byzantine"] == adversary]
    found = found[found["round"].isin(rounds)] if rounds else found
    return found[found["player"].isin(players)] if players else found


def _hares_of_adversary(found: pd.DataFrame, number: int) -> pd.Series:
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


def _paired(claim: str, *sides: pd.Series, sign: int, unit: str = "") -> _Row:
    """Return a claim on two values of the same games."""
    both = pd.concat(sides, axis=1).dropna().to_numpy()
    x, y = both.T
    return _row(claim, f"{len(both)} games", (x, y), paired_mean(x, y), sign, unit)


def _unpaired(claim: str, *sides: pd.Series, sign: int, unit: str = "") -> _Row:
    """Return a claim on the values of two conditions, which share no games."""
    x, y = (side.to_numpy() for side in sides)
    return _row(claim, f"{len(x)} and {len(y)} games", (x, y), welch(x, y), sign, unit)


def _row(
    claim: str, games: str, sides: tuple[Floats, Floats], found: tuple[float, float, float], sign: int, unit: str
) -> _Row:
    low, high, p = found
    before, after = (float(side.mean()) for side in sides)
    change, scale, form = after - before, 1 if unit else 100, ".2f" if unit else ".0f"
    values = f"{before:.2f}, {after:.2f}" if unit else f"{before:.0%}, {after:.0%}"
    effect = f"{scale * change:+{form}}{_limits(low, high, scale, form)}"
    return claim, f"{values} ({games})", effect, sign, change, p


def _limits(low: float, high: float, scale: int, form: str) -> str:
    return "" if math.isnan(low) else f" [{scale * low:{form}}, {scale * high:{form}}]"


def _p(value: float) -> str:
    return "" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
