"""What forks say: how games end that were changed in one place, against the same games unchanged.

The unit is the recorded game, the parent. Repeats are within it: each parent has one value for each point and change,
the mean of its repeats. A recorded game is no unchanged fork: it ends as recorded by definition. So without such forks
no effect is stated. docs/explanation/statistics.md says why.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from parley.analysis.contrasts import is_share, measured
from parley.analysis.simulations import PlayedGame, simulation_table
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.play.record import peek_summary
from parley.statistics.differences import MEANS, NO_PAIRS, NUMBER, RATE, SHARE, TESTED, SamplePair, compare, selected
from parley.statistics.stats import CONFIDENCE, Floats
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.study_file import Change

NONE, KEEP = "none", "keep"
UNCHANGED = (NONE, KEEP)  # the changes that are none: from the point on, or from after its phase on
AS_PARENT = "as_parent"  # what is compared first: whether a fork ends as its parent did
SURE = 0.8  # share of unchanged forks that end as their parent from the point of no return on: its lower limit
_KEY = ["_point", "_change", "_parent"]  # columns
_Repeats = Mapping[tuple[str, str], Mapping[str, Floats]]  # by point, change and parent, what is known of the repeats


def fork_tables(
    simulations: Sequence[Simulation], rows: pd.DataFrame, by: Sequence[str], game: type[Game]
) -> dict[str, pd.DataFrame]:
    """Return the tables `forks` (a row per point, change and what is compared) and `influences` (also per parent).

    `rows` is the table of these simulations. Both are empty for studies that have no forks. Raises RecordError if the
    record of a parent cannot be read.
    """
    names = {name: names_of(name, by, game) for name in ("forks", "influences")}
    forks = [(each, each.parent, each.condition.axes) for each in simulations if each.parent is not None]
    if not forks:
        return {name: pd.DataFrame(columns=columns) for name, columns in names.items()}
    rows = rows.copy()
    rows[_KEY] = [(str(axes["at"]), str(axes["change"]), parent.digest) for _, parent, axes in forks]
    parents = {parent.digest: (each.before, parent.record) for each, parent, _ in forks}
    before = simulation_table([PlayedGame(game, peek_summary(record)) for game, record in parents.values()])
    rows[AS_PARENT] = rows["outcome"] == rows["_parent"].map(dict(zip(parents, before["outcome"], strict=True)))
    of_influence = {"value_from": "same", "value_to": "same_unchanged", "difference": "influence"}
    compared = compare(list(_samples(rows, game)))
    compared["parents"] = compared["pairs"].where(compared["base"] != "", compared["simulations_to"])
    influences = compare(list(_influences(rows, [simulation for simulation, *_ in forks])))
    made = {"forks": compared[compared["parents"] > 0], "influences": influences.rename(columns=of_influence)}
    return {name: selected(made[name], columns) for name, columns in names.items()}


def _repeats(rows: pd.DataFrame, values: ArrayLike) -> _Repeats:
    found: dict[tuple[str, str], dict[str, Floats]] = defaultdict(dict)
    groups: Any = rows[_KEY].assign(value=np.asarray(values)).groupby(_KEY, sort=False)["value"]
    for (point, change, parent), of in groups:
        found[point, change][parent] = _known(of.to_numpy(dtype=float))
    return found


def _unchanged(repeats: _Repeats, point: str, change: str, parent: str) -> Floats:
    """Return the values of a parent unchanged from a point on; none where the study has no such forks."""
    return repeats.get((point, _base_of(change)), {}).get(parent, np.empty(0))


def _samples(rows: pd.DataFrame, game: type[Game]) -> Iterator[SamplePair]:
    """Yield what parents have unchanged and changed, per point, change and what is compared.

    What is unchanged is compared with itself: the first half of its repeats with the second.
    """
    for kind, what, values in [("outcome", AS_PARENT, rows[AS_PARENT].to_numpy(dtype=float)), *measured(rows, game)]:
        share, repeats = is_share(what, game), _repeats(rows, values)
        for (point, change), by_parent in repeats.items():
            like, of_parents = _base_of(change), []
            for parent, changed in by_parent.items():
                unchanged = _unchanged(repeats, point, change, parent)
                n = unchanged.size
                noise = _distance(unchanged, unchanged) * n / (n - 1) if n > 1 else np.nan
                if change == like:
                    of_parents.append((_mean(changed[: n // 2]), _mean(changed[n // 2 :]), noise, noise, n))
                else:
                    of_parents.append(
                        (_mean(unchanged), _mean(changed), _distance(changed, unchanged), noise, changed.size)
                    )
            x, y, differs, noises, number = np.array(of_parents).T
            keys = {
                **{"at": point, "change": change, "kind": kind, "what": what, "repeats": int(number.max())},
                "base": like if (point, like) in repeats else "",
                **{"differs": _mean(differs), "noise": _mean(noises)},
            }
            family = None if change in UNCHANGED else (kind, what)  # what is unchanged is tested against nothing
            yield SamplePair(
                keys, x, y, SHARE if share else NUMBER, family=family, without_pairs=MEANS, flips_signs=True
            )


def _base_of(change: str) -> str:
    """Return what a change, by its name as an axis, is compared with."""
    return KEEP if change.partition("-")[0] in (KEEP, "say", "silence_once") else NONE


def without_effect(study: Study) -> str:
    """Return in a sentence which changes have no unchanged forks beside them, and so no effect; "" for none."""
    places = {(str(c.axes["at"]), str(c.axes["change"])) for c in study.conditions if c.fork}
    alone = sorted(change for at, change in places if (at, _base_of(change)) not in places)
    return f"no effect is stated of {', '.join(dict.fromkeys(alone))}: add `none` to `change`" if alone else ""


def _distance(first: Floats, second: Floats) -> float:
    """Return how far a repeat of the one and one of the other are apart on average; NaN without any."""
    return _mean(np.abs(np.subtract.outer(first, second)))


def _known(values: Floats) -> Floats:
    return np.asarray(values[~np.isnan(values)], dtype=float)


def _mean(values: Floats) -> float:
    """Return the mean of those that are known, NaN for none."""
    known = _known(values)
    return float(known.mean()) if known.size else np.nan


def _influences(rows: pd.DataFrame, forks: Sequence[Simulation]) -> Iterator[SamplePair]:
    """Yield how often the forks of each parent end as it did, per point and change: changed and unchanged."""
    repeats, no_return = _repeats(rows, rows[AS_PARENT]), _no_return(rows, forks)
    for place, point, change, parent in rows[_KEY].drop_duplicates().itertuples(name=None):
        simulation = forks[place]
        condition, fork = simulation.condition, simulation.condition.fork
        assert fork is not None
        changed, unchanged = repeats[point, change][parent], _unchanged(repeats, point, change, parent)
        keys = {
            **{**condition.axes, "seed": simulation.seed, "parent": parent},
            **{"round": fork.point.round, "phase": fork.point.phase},
            "agent": Change.model_validate(fork.change).seat or None,
            **{"repeats": changed.size, "no_return": no_return.get(parent)},
        }
        yield influence_samples(keys, changed, unchanged, family=None if change in UNCHANGED else parent)


def influence_samples(
    keys: Mapping[str, Any], changed: ArrayLike, unchanged: ArrayLike, *, family: Hashable = None
) -> SamplePair:
    """Return which changed forks of a game end as it did (1 or 0), and which unchanged ones.

    Their difference is the influence of the change: by how much less often changed ones do. Who tries all messages of
    a game finds some influence by chance: `family` names the game, over whose changes p is corrected.
    """
    same, same_unchanged = (np.asarray(each, dtype=float) for each in (changed, unchanged))
    return SamplePair(keys, same, same_unchanged, RATE, NO_PAIRS, NO_PAIRS, family=family, without_pairs=TESTED)


def _no_return(rows: pd.DataFrame, forks: Sequence[Simulation]) -> dict[str, int]:
    """Return, by parent, the first round from which on its unchanged forks end as it did; none where there is none.

    In this round and all that follow they do so `surely`. Read from the last round on, the first that fails ends it:
    too early a round is named in at most 5%.
    """
    points = [
        (fork.point.round, fork.point.phase is None and not fork.change) for f in forks if (fork := f.condition.fork)
    ]
    rows = rows.assign(round=[number for number, _ in points])[[is_unchanged for _, is_unchanged in points]]
    counts = rows.groupby(["_parent", "round"])[AS_PARENT].agg(["sum", "size"]).sort_index(ascending=False)
    sure: Any = pd.Series(surely(counts["sum"], counts["size"]), counts.index).groupby("_parent").cummin()
    return {parent: int(number) for (parent, number), is_sure in sure.items() if is_sure}  # the last is the first


def surely(same: ArrayLike, number: ArrayLike) -> NDArray[np.bool_]:
    """Return whether, of so many forks, the lower limit (Clopper and Pearson, one-sided 95%) is SURE or more."""
    return np.asarray(scipy.special.bdtrc(np.asarray(same) - 1, np.asarray(number), SURE) <= 1 - CONFIDENCE)
