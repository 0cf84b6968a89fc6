"""From records to a card: what each axis comes to, what it cannot know, and which control failed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley import __version__, paths
from parley.analysis.planning import PILOT
from parley.analysis.rates import values_of
from parley.analysis.simulations import PlayedGame, simulation_row
from parley.analysis.summarize import played_games
from parley.analysis.traces import FromTraces
from parley.card.content import Axis, Card, Result, definition
from parley.identity import digest
from parley.play.record_store import played_part, read_records
from parley.policies.kinds import ChosenPolicy
from parley.statistics.differences import NUMBER, RATE, SHARE, SamplePair, compare
from parley.statistics.power import power_of_differences
from parley.statistics.stats import CONFIDENCE, mean_interval, wilson_of_mean
from parley.study import Study, load_study

_TOLERANCE = 0.005  # by which a control may miss what theory says
_MOSTLY = 0.5  # share of replies that cannot be used from which an axis has no number
_SAY_NOTHING = 0.4  # of replies that are degenerate; votes, half of the replies of some games, never are
BySeed = Mapping[int, float]


def _stags_after_betrayal(game: PlayedGame) -> float | None:
    """Return the share of stags among the actions of betrayed players after the betrayal, in a game that has one."""
    after = (game.summary.outcome["metrics"].get("after_betrayal") or {}).values()
    actions = sum(each["stags"] + each["hares"] for each in after)
    return sum(each["stags"] for each in after) / actions if actions else None


def _rows(study: Study) -> pd.DataFrame:
    """Return the table of simulations of what is played, with all that an axis may be about."""
    records = read_records(played_part(study))
    games = played_games(records)
    rows = pd.DataFrame([simulation_row(each.simulation, each.summary) for each in games])
    rows = with_shares_of_replies(rows)
    if study.repeats > 1:
        return rows.assign(same_end=same_end(rows, study.repeats))
    rows["stags_after_betrayal"] = [_stags_after_betrayal(each) for each in games]
    from_traces = FromTraces(records.study, games)
    for _ in from_traces.read(len):  # which takes what is asked from them
        pass
    return from_traces.asked(rows)


def with_shares_of_replies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return games with the shares of their replies that can be used, and that are degenerate."""
    replies = rows["model_replies"].fillna(rows["calls"]) if "model_replies" in rows else rows["calls"]
    degenerate = rows.get("degenerate", math.nan)
    usable = 1 - (rows["failed_replies"] / replies).astype(float)
    return rows.assign(usable=usable, degenerate_share=(degenerate / replies).astype(float))


class Measured:
    """The games of a card, by study: the model's and those of the references."""

    def __init__(self, files: Sequence[Path], name: str) -> None:
        self.name = name
        self.studies: dict[str, Study] = {}
        self.rows: dict[str, pd.DataFrame] = {}
        for file in files:
            with paths.rooted(paths.home(file)):
                study = load_study(file, needs_weights=False)
                short = file.stem.removeprefix("card-")
                self.studies[short], self.rows[short] = study, _rows(study)

    def of(self, axis: Axis, player: str) -> pd.DataFrame:
        """Return the games of an axis that a player has: the model, or a reference by its name."""
        found = []
        for short, rows in self.rows.items():
            label = self._label(short, player)
            if axis.study in ("", short) and label is not None:
                found.append(rows[rows["model"] == label])
        return pd.concat(found) if found else pd.DataFrame()

    def missing(self, player: str) -> int:
        """Return how many games of a player are not there, or cannot be used."""
        lacking = 0
        for short, study in self.studies.items():
            label = self._label(short, player)
            lacking += sum(len(each.seeds) for each in study.conditions if each.axes["model"] == label)
            lacking -= int((self.rows[short]["model"] == label).sum())
        return lacking

    def _label(self, study: str, player: str) -> str | None:
        """Return what a player is called in a study; None where it does not play."""
        if player not in definition().references:
            return player
        if (written := definition().references[player].get(study)) is None:
            return None
        given = {"name": written} if isinstance(written, str) else dict(written)
        kind = self.studies[study].game.policies[given.pop("name")]
        return ChosenPolicy(kind, kind.Parameters.model_validate(given)).label

    def value(self, axis: Axis, player: str) -> tuple[BySeed, SamplePair | None]:
        """Return an axis's number by seed, and of a difference its two sides."""
        rows = self.of(axis, player)
        second = self._side(axis, rows, axis.where)
        if not axis.against:
            return second, None
        first = self._side(axis, rows, axis.against)
        seeds = sorted(first.keys() & second.keys())
        return {seed: second[seed] - first[seed] for seed in seeds}, samples(axis, first, second, 1.0)

    def _side(self, axis: Axis, rows: pd.DataFrame, where: Mapping[str, Sequence[Any]]) -> BySeed:
        rows = _chosen(rows, where)
        if not len(rows):
            return {}
        outcomes = [each.name for study in self.studies.values() for each in study.game.outcomes]
        kind = "outcome" if axis.measure in outcomes else "quantity"
        known = rows.assign(value=values_of(rows, kind, axis.measure)).dropna(subset="value")
        means = known.groupby("seed")["value"].mean()
        return dict(zip(map(int, means.index), means.tolist(), strict=True))


def samples(axis: Axis, first: BySeed, second: BySeed, most: float) -> SamplePair:
    """Return two samples of an axis's numbers on the same seeds, which differ by `most` at most."""
    seeds = sorted(first.keys() & second.keys())
    x, y = (np.array([by_seed[seed] for seed in seeds]) for by_seed in (first, second))
    of_games = RATE if most == 1 and np.isin([x, y], (0, 1)).all() else SHARE
    return SamplePair({"axis": axis}, x, y, NUMBER if axis.unit else of_games, family="card", most=most)


def _chosen(rows: pd.DataFrame, where: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    for name, values in where.items() if len(rows) else ():
        rows = rows[rows[name].astype(str).isin(list(map(str, values)))]
    return rows


def same_end(rows: pd.DataFrame, repeats: int) -> Any:
    """Return by game whether all repeats of its seed ended alike, in the same round; NaN where one is missing."""
    ends = rows.groupby(["model", "seed"])[["outcome", "rounds"]]
    sizes: pd.Series = rows.groupby(["model", "seed"])["seed"].transform("size")
    return (ends.transform("nunique") == 1).all(axis=1).astype(float).where(sizes == repeats)


def make_card(files: Sequence[Path], name: str, quick: bool) -> Card:
    """Return the card of a model from the records of its studies; raises RecordError where nothing is played."""
    games = Measured(files, name)
    axes = [each for each in definition().axes if each.study in ("", *games.rows)]
    own = pd.concat([games.of(axis, name) for axis in axes])
    conditions = [each for study in games.studies.values() for each in study.conditions]
    entries = [entry.identity() for each in conditions for entry in each.entries.values()]
    return Card(
        card=definition().card,
        parley=__version__,
        name=name,
        model=entries[0] if entries else definition().references[name],
        answered=sorted(set(own["engine"])),
        quick=quick,
        date=str(own["started"].max())[:10],
        records=digest(sorted({each for rows in games.rows.values() for each in rows["digest"]})),
        missing=games.missing(name),
        axes=[_result(axis, games) for axis in axes],
    )


def _result(axis: Axis, games: Measured) -> Result:
    (by_seed, sides), played = games.value(axis, games.name), games.of(axis, games.name)
    rows = pd.concat([_chosen(played, where) for where in [axis.where, *filter(None, [axis.against])]])
    reason = _reason(axis, rows, by_seed)
    value, low, high = (math.nan,) * 3 if reason else interval(axis, by_seed, sides)
    chance, best = (_mean(axis, games.value(axis, each)[0]) for each in axis.ends)
    failed = []
    for reference, known in axis.control.items():
        reached = _mean(axis, games.value(axis, reference)[0])
        if reached is not None and abs(reached - known) > _TOLERANCE:
            failed.append(f"{reference} reached {reached:g}, and theory says {known:g}")
        elif reached is None and not len(games.of(axis, reference)):
            failed.append(f"{reference} has no games that can be used, and theory says {known:g}")
    degenerate = float(rows["degenerate_share"].mean()) if len(rows) else math.nan
    return Result(
        axis=axis.name,
        value=_number(value),
        low=_number(low),
        high=_number(high),
        reason=reason,
        note=f"{degenerate:.0%} of its replies are degenerate" if degenerate >= 0.02 and not reason else "",
        games=len(rows),
        by_seed={} if reason else {seed: round(each, 9) for seed, each in by_seed.items()},
        smallest=axis.smallest,
        power=None if reason else _power(axis, by_seed),
        noise=_number(math.sqrt(2) * (high - low) / 2),
        chance=chance,
        best=best,
        failed=failed,
    )


def _reason(axis: Axis, rows: pd.DataFrame, by_seed: BySeed) -> str:
    """Return why an axis has no number; "" if it has one."""
    if not len(rows):
        return "it does not play this"
    if axis.measure != "usable":
        unusable, degenerate = 1 - float(rows["usable"].mean()), float(rows["degenerate_share"].mean())
        if unusable > _MOSTLY:
            return f"{unusable:.0%} of its replies could not be used"
        if degenerate > _SAY_NOTHING:
            return f"{degenerate:.0%} of its replies say nothing (degenerate)"
    if axis.measure == "effective_votes" and not by_seed:
        return "needs 12 problems with wrong answers, and 12 with right ones"
    return "" if by_seed else "no game tells anything of it"


def interval(axis: Axis, by_seed: BySeed, sides: SamplePair | None) -> tuple[float, float, float]:
    """Return an axis's number with its 95% limits: of pairs, of a rate Wilson's, else t."""
    values = np.array(list(by_seed.values()))
    if sides is not None:
        found = tuple(compare([sides]).iloc[0][["difference", "low", "high"]])
    elif axis.unit or _says_how_it_varies(values):
        each = mean_interval(values)
        found = (each.mean, each.low, each.high)
    else:
        found = (values.mean(), *wilson_of_mean(values.mean(), len(values)))
    value, low, high = np.clip(found, *axis.limits).tolist()
    return value, low, high


def _mean(axis: Axis, by_seed: BySeed) -> float | None:
    return float(np.clip(np.mean(list(by_seed.values())), *axis.limits)) if by_seed else None


def _power(axis: Axis, by_seed: BySeed) -> float | None:
    """Return the chance to find the smallest difference between two independent such cards, at Holm's first step."""
    level, values = (1 - CONFIDENCE) / len(definition().axes), np.array(list(by_seed.values()))
    if _says_how_it_varies(values):
        differences = values * math.sqrt(2)
    elif axis.unit or axis.of_many:
        return None
    else:
        games = math.prod(map(len, axis.where.values()))  # each as a coin: rates about one half vary most
        coins = 2 * games * (2 if axis.against else 1)
        heads = np.repeat(np.arange(coins + 1), [math.comb(coins, each) for each in range(coins + 1)])
        differences = (heads - coins / 2) / games
    return power_of_differences(len(values), differences, axis.smallest, level, share=not axis.unit)


def _says_how_it_varies(values: "np.ndarray[Any, Any]") -> bool:
    """Whether there are enough seeds, whose values are no mere yes and no: Wilson's limits would be far too wide."""
    return len(values) >= PILOT and not np.isin(values, (0, 1)).all() and float(values.std()) > 0


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 9) + 0.0
