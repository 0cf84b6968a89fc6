"""From records to a card: what each axis comes to, what it cannot know, and which control failed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley import __version__, paths
from parley.analysis.contrasts import REPEAT
from parley.analysis.planning import PILOT
from parley.analysis.rates import values_of
from parley.analysis.simulations import PlayedGame, simulation_row
from parley.analysis.summarize import played_games
from parley.analysis.traces import FromTraces
from parley.card.content import Axis, Card, Result, definition
from parley.identity import digest
from parley.play.record_store import played_part, read_records
from parley.policies.kinds import ChosenPolicy
from parley.statistics.differences import RATE, SHARE, SamplePair, compare
from parley.statistics.power import Rates, power_of_differences, power_of_rates
from parley.statistics.stats import CONFIDENCE, mean_interval, wilson_of_mean
from parley.study import Study, load_study

_TOLERANCE = 0.005  # by which a control may miss what theory says
_MOSTLY = 0.5  # share of replies that say nothing from which an axis has no number
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
    rows[REPEAT] = [each.simulation.condition.repeat or 0 for each in games]
    replies = rows["model_replies"].fillna(rows["calls"]) if "model_replies" in rows else rows["calls"]
    rows["usable"] = 1 - (rows["failed_replies"] / replies).astype(float)
    rows["degenerate_share"] = (rows["degenerate"] / replies).astype(float) if "degenerate" in rows else math.nan
    if study.repeats > 1:
        return rows.assign(same_end=same_end(rows, study.repeats))
    rows["stags_after_betrayal"] = [_stags_after_betrayal(each) for each in games]
    from_traces = FromTraces(records.study, games)
    for _ in from_traces.read(len):  # which takes what is asked from them
        pass
    return from_traces.asked(rows)


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
        planned, there = 0, 0
        for short, study in self.studies.items():
            label = self._label(short, player)
            planned += sum(len(each.seeds) for each in study.conditions if each.axes["model"] == label)
            there += int((self.rows[short]["model"] == label).sum())
        return planned - there

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
        first = self._side(axis, rows, axis.against) if axis.against else None
        second = self._side(axis, rows, axis.where)
        if first is None:
            return second, None
        seeds = sorted(first.keys() & second.keys())
        x, y = (np.array([side[seed] for seed in seeds]) for side in (first, second))
        kind = RATE if np.isin([x, y], (0, 1)).all() else SHARE
        return {seed: second[seed] - first[seed] for seed in seeds}, SamplePair({}, x, y, kind)

    def _side(self, axis: Axis, rows: pd.DataFrame, where: Mapping[str, Sequence[Any]]) -> BySeed:
        rows = _chosen(rows, where)
        if not len(rows):
            return {}
        outcomes = [each.name for study in self.studies.values() for each in study.game.outcomes]
        kind = "outcome" if axis.measure in outcomes else "quantity"
        known = rows.assign(value=values_of(rows, kind, axis.measure)).dropna(subset="value")
        means: dict[Any, float] = known.groupby("seed")["value"].mean().to_dict()
        return {int(seed): float(value) for seed, value in means.items()}


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
    results = [_result(axis, games) for axis in axes]
    own = pd.concat([games.of(axis, name) for axis in axes])
    groups = [g for study in games.studies.values() for c in study.conditions for g in c.groups]
    entries = [group.player.entry.identity() for group in groups if group.player.entry is not None]
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
        axes=results,
    )


def _result(axis: Axis, games: Measured) -> Result:
    by_seed, sides = games.value(axis, games.name)
    played = games.of(axis, games.name)
    rows = pd.concat([_chosen(played, where) for where in [axis.where, *filter(None, [axis.against])]])
    reason = _reason(axis, rows, by_seed)
    value, low, high = (math.nan,) * 3 if reason else interval(axis, by_seed, sides)
    ends = [_mean(axis, games.value(axis, each)[0]) for each in axis.ends]
    failed = []
    for reference, known in axis.control.items():
        reached = _mean(axis, games.value(axis, reference)[0])
        if reached is None:
            failed.append(f"{reference} has no games that can be used")
        elif abs(reached - known) > _TOLERANCE:
            failed.append(f"{reference} reached {reached:g}, and theory says {known:g}")
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
        chance=ends[0],
        best=ends[1],
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
        if degenerate > _MOSTLY:
            return f"{degenerate:.0%} of its replies say nothing (degenerate)"
    if axis.measure == "effective_votes" and not by_seed:
        return "needs 12 problems with wrong answers, and 12 with right ones"
    return "" if by_seed else "no game tells anything of it"


def interval(axis: Axis, by_seed: BySeed, sides: SamplePair | None) -> tuple[float, float, float]:
    """Return an axis's number with its 95% limits: of pairs, of a rate Wilson's, else t."""
    values = np.array(list(by_seed.values()))
    least, most = axis.limits
    if sides is not None:
        found = tuple(compare([sides]).iloc[0][["difference", "low", "high"]])
    elif axis.unit or _says_how_it_varies(values):
        each = mean_interval(values)
        found = (each.mean, each.low, each.high)
    else:
        found = (values.mean(), *wilson_of_mean(values.mean(), len(values)))
    value, low, high = (float(min(max(number, least), most)) for number in found)
    return value, low, high


def _mean(axis: Axis, by_seed: BySeed) -> float | None:
    if not by_seed:
        return None
    mean = float(np.mean(list(by_seed.values())))
    return min(max(mean, axis.limits[0]), axis.limits[1])


def _power(axis: Axis, by_seed: BySeed) -> float | None:
    """Return the chance to find the smallest difference between two such cards, at Holm's first step.

    Where enough seeds say how they vary, two cards vary independently as this one does; else they have rates about one
    half, the hardest.
    """
    level, values = (1 - CONFIDENCE) / len(definition().axes), np.array(list(by_seed.values()))
    if _says_how_it_varies(values):
        return power_of_differences(len(values), values * math.sqrt(2), axis.smallest, level, share=not axis.unit)
    half = axis.smallest / 2
    return None if axis.unit else power_of_rates(len(values), Rates(0.5 - half, 0.5 + half, 0.0), level)


def _says_how_it_varies(values: "np.ndarray[Any, Any]") -> bool:
    """Whether there are enough seeds, whose values are no mere yes and no: Wilson's limits would be far too wide."""
    return len(values) >= PILOT and not np.isin(values, (0, 1)).all() and float(values.std()) > 0


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 9)
