"""What forks say: how games end that were changed in one place, against the same games unchanged.

The unit is the recorded game, the parent. Repeats are within it: each parent has one value for each point and change,
the mean of its repeats. docs/explanation/statistics.md says why.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from parley.analysis.contrasts import is_share, measured
from parley.analysis.simulations import PlayedGame, simulation_table
from parley.analysis.stats import Floats, holm, paired_mean, paired_share, sign_flip, unpaired_difference
from parley.analysis.tables import names_of
from parley.games.base import Game
from parley.play.record import peek_summary
from parley.play.record_store import UsableRecords
from parley.study.condition import Simulation
from parley.study.study_file import Change

NONE, KEEP = "none", "keep"
UNCHANGED = (NONE, KEEP)  # the changes that are none: from the point on, or from after its phase on
AS_PARENT = "as_parent"  # what is compared first: whether a fork ends as its parent did
SURE = 0.95  # share of repeats that end as their parent from the point of no return on
_Place = tuple[str, str]  # point, change


@dataclass(frozen=True)
class _Forks:
    """The values of forks: of each thing compared an array, and the places in it of each point, change and parent."""

    places: Mapping[_Place, Mapping[str, Sequence[int]]]
    values: Mapping[tuple[str, str], Floats]
    of_parents: Mapping[tuple[str, str], Mapping[str, float]]

    def known(self, what: tuple[str, str], place: _Place, parent: str) -> Floats:
        """Return the values of a parent's repeats; none where it has no such fork."""
        found = self.values[what][list(self.places.get(place, {}).get(parent, ()))]
        return _known(found)

    def unchanged(self, what: tuple[str, str], point: str, base: str, parent: str) -> Floats:
        """Return the values of the repeats of a parent unchanged from a point on; its own where there are none."""
        if (point, base) in self.places:
            return self.known(what, (point, base), parent)
        return _known(np.array([self.of_parents[what][parent]]))


def fork_tables(records: UsableRecords, by: Sequence[str], game: type[Game]) -> dict[str, pd.DataFrame]:
    """Return the tables `forks` (a row per point, change and what is compared) and `influences` (also per parent).

    No rows for studies that have no forks. Raises RecordError if the record of a parent cannot be read.
    """
    names = {name: names_of(name, by, game) for name in ("forks", "influences")}
    if not any(simulation.parent for simulation in records.simulations):
        return {name: pd.DataFrame(columns=columns) for name, columns in names.items()}
    forks = _read(records, game)
    return {
        "forks": pd.DataFrame(_effects(forks, game), columns=names["forks"]).pipe(_corrected),
        "influences": pd.DataFrame(_influences(forks, records), columns=names["influences"]),
    }


def _read(records: UsableRecords, game: type[Game]) -> _Forks:
    rows = simulation_table([PlayedGame(*both) for both in zip(records.simulations, records.summaries, strict=True)])
    places: dict[_Place, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    parents: dict[str, Simulation] = {}
    for at, simulation in enumerate(records.simulations):
        assert simulation.parent is not None
        axes = simulation.condition.axes
        places[str(axes["at"]), str(axes["change"])][simulation.parent.digest].append(at)
        parents.setdefault(simulation.parent.digest, simulation)
    played = [PlayedGame(each.before, peek_summary(each.parent.record)) for each in parents.values() if each.parent]
    of_parents = simulation_table(played)
    ended = dict(zip(parents, of_parents["outcome"], strict=True))
    own = [ended[each.parent.digest] for each in records.simulations if each.parent]
    values = {("outcome", AS_PARENT): (rows["outcome"].to_numpy() == np.array(own)).astype(float)}
    values |= {(kind, what): found for kind, what, found in measured(rows, game)}
    before = {("outcome", AS_PARENT): dict.fromkeys(parents, 1.0)}
    before |= {
        (kind, what): dict(zip(parents, found, strict=True)) for kind, what, found in measured(of_parents, game)
    }
    return _Forks(places, values, before)


def _effects(forks: _Forks, game: type[Game]) -> Iterator[list[object]]:
    """Yield a row per point, change and what is compared.

    What is unchanged is compared with itself: the first half of its repeats with the second.
    """
    for what in forks.values:
        share = is_share(what[1], game)
        for (point, change), of_parents in forks.places.items():
            like, found = _base_of(change), []
            for parent in of_parents:
                changed = forks.known(what, (point, change), parent)
                unchanged = forks.unchanged(what, point, like, parent)
                n = unchanged.size
                noise = _apart(unchanged, unchanged) * n / (n - 1) if n > 1 else np.nan
                if change == like:
                    found.append((_mean(changed[: n // 2]), _mean(changed[n // 2 :]), noise, noise, n))
                else:
                    found.append((_mean(unchanged), _mean(changed), _apart(changed, unchanged), noise, changed.size))
            x, y, differs, noises, repeats = np.array(found).T
            both = ~np.isnan(x + y)
            x, y = x[both], y[both]
            if not x.size:
                continue
            low, high, _ = (paired_share if share else paired_mean)(x, y)
            low, high = (max(low, -1.0), min(high, 1.0)) if share and low == low else (low, high)
            base = like if (point, like) in forks.places else "parent"
            yield [
                *(point, change, *what, x.size, int(repeats.max()), base, _mean(x), _mean(y), _mean(y - x)),
                *(low, high, sign_flip(y - x), np.nan, _mean(differs), _mean(noises)),
            ]


def _base_of(change: str) -> str:
    """Return what a change, by its name as an axis, is compared with."""
    return KEEP if change.partition("-")[0] in (KEEP, "say", "silence_once") else NONE


def _apart(first: Floats, second: Floats) -> float:
    """Return how far a repeat of the one and one of the other are apart on average; NaN without any."""
    return _mean(np.abs(np.subtract.outer(first, second)))


def _known(values: Floats) -> Floats:
    return np.asarray(values[~np.isnan(values)], dtype=float)


def _mean(values: Floats) -> float:
    """Return the mean of those that are known, NaN for none."""
    known = _known(values)
    return float(known.mean()) if known.size else np.nan


def _corrected(table: pd.DataFrame) -> pd.DataFrame:
    """Correct p by Holm over all points and changes; what is unchanged is not tested against anything."""
    p = table["p"].where(~table["change"].isin(UNCHANGED))
    families = p.groupby([table["kind"], table["what"]], sort=False)
    return table.assign(p_holm=families.transform(lambda each: holm(each.to_numpy(dtype=float))))


def _influences(forks: _Forks, records: UsableRecords) -> Iterator[list[object]]:
    """Yield a row per parent, point and change: how often its forks end as it did, changed and unchanged."""
    what = ("outcome", AS_PARENT)
    no_return = _no_return(forks, records)
    seen = set()
    for simulation in records.simulations:
        condition, parent = simulation.condition, simulation.parent
        assert parent is not None
        assert condition.fork is not None
        place = str(condition.axes["at"]), str(condition.axes["change"])
        if (*place, parent.digest) in seen:
            continue
        seen.add((*place, parent.digest))
        changed = forks.known(what, place, parent.digest)
        unchanged = forks.unchanged(what, place[0], _base_of(place[1]), parent.digest)
        point, agent = condition.fork.point, Change.model_validate(condition.fork.change).seat
        yield [
            *(*condition.axes.values(), simulation.seed, parent.digest, point.round, point.phase),
            *(agent or None, changed.size, _mean(unchanged), _mean(changed)),
            *(
                *map(float, influence(changed.sum(), changed.size, unchanged.sum(), unchanged.size)),
                no_return.get(parent.digest),
            ),
        ]


def influence(
    same: ArrayLike, forks: ArrayLike, same_unchanged: ArrayLike, unchanged: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Return by how much less often changed forks of a game end as it did than unchanged ones, with the 95% interval.

    Of `forks` changed ones `same` ended as the recorded game; the same for those that are `unchanged`. NaN for none.
    """
    counts = [np.asarray(count, dtype=float) for count in (same, forks, same_unchanged, unchanged)]
    low, high = unpaired_difference(*counts)
    a, n, b, m = (np.where(count > 0, count, np.nan) if at % 2 else count for at, count in enumerate(counts))
    return np.asarray(b / m - a / n), low, high


def _no_return(forks: _Forks, records: UsableRecords) -> dict[str, int]:
    """Return, by parent, the first round from which on its unchanged forks end as it did; none where there is none."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for simulation in records.simulations:
        fork, parent = simulation.condition.fork, simulation.parent
        if fork is not None and parent is not None and not fork.change and fork.point.phase is None:
            place = str(simulation.condition.axes["at"]), NONE
            found[parent.digest][fork.point.round] = _mean(forks.known(("outcome", AS_PARENT), place, parent.digest))
    first: dict[str, int] = {}
    for digest, shares in found.items():
        for number in sorted(shares, reverse=True):
            if shares[number] < SURE:
                break
            first[digest] = number
    return first
