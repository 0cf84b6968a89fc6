"""How many votes a group is worth, and how its agents give way: the tables `votes` and `conformity`.

Agents whose errors go together say less than as many independent ones (Kish, Survey Sampling, 1965; of language models
arXiv:2605.29800). docs/explanation/talking.md says what the tables mean.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy

from parley.games.deliberation.decisions import last_panel
from parley.games.deliberation.parameters import TALK, DeliberationTurn, values_of
from parley.games.deliberation.turns import heard_values
from parley.games.evidence import ANY, TableMaker
from parley.statistics.clustered import rate_limits, standardized
from parley.statistics.stats import Floats, mean_interval

Row: TypeAlias = dict[str, Any]


def effective_votes(right: Floats, voters: int) -> float:
    """Return of how many independent votes the mean of a group would vary as much from problem to problem.

    `right` has the number of right votes of each problem. It is voters / (1 + (voters - 1) r), where r is the
    intraclass correlation of the votes by analysis of variance: 1 where all vote alike, infinite where every problem
    has as many right votes, NaN where no vote differs from another.
    """
    share = right / voters
    between = voters * float(np.var(share, ddof=1))
    within = voters * float(np.mean(share * (1 - share))) / (voters - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 + (voters - 1) * float(np.divide(within, between))


def independent_right(right: Floats, voters: int) -> float:
    """Return how often a majority of independent voters of the same skill is right (Condorcet, 1785)."""
    return float(scipy.stats.binom.sf(voters // 2, voters, right.mean() / voters))


def lost_by_dependence(right: Floats, voters: int) -> float:
    """Return by how much less often a majority of the group is right than one of independent voters of its skill."""
    return independent_right(right, voters) - float((2 * right > voters).mean())


ENOUGH = 12  # problems of either kind that a measure hangs on: with fewer its limits hold too seldom


def pseudo_values(measure: Callable[[Floats, int], float], right: Floats, voters: int) -> Floats:
    """Return what each problem says of a measure of all: the mean of the values is the estimate without its bias.

    Their t interval is the jackknife's (Tukey, 1958). It held effective votes in 88 to 96% of made-up studies of 20
    to 100 problems (least where nearly all vote alike), a bootstrap of problems in 80 to 95%. NaN unless ENOUGH
    problems have a wrong vote, and ENOUGH a right one; of what is lost, a wrong and a right majority.
    """
    number, majority = len(right), 2 * right > voters
    of = (majority, ~majority) if measure is lost_by_dependence else (right < voters, right > 0)
    if min(kind.sum() for kind in of) < ENOUGH:
        return np.full(number, np.nan)
    each = {count: measure(np.delete(right, place), voters) for place, count in enumerate(right)}  # alike if as many
    return np.asarray(number * measure(right, voters) - (number - 1) * np.array([each[count] for count in right]))


class Votes(TableMaker):
    """Makes a row per condition and turn of answers (`votes`), and per size of what agents face (`conformity`)."""

    def rows(self, game: Any, trace: Sequence[DeliberationTurn]) -> list[Row]:
        """Return the right votes of honest agents of a game, and each answer that was given again; else nothing."""
        right, turns = game.summary.outcome["metrics"]["right_answer"], last_panel(trace)
        names = [name for name in turns[0]["answers"] if name in game.honest]
        if right is None or len(names) < 2:
            return []
        first, last = (sum(value == right for value in values_of(turn, names)) for turn in (turns[0], turns[-1]))
        row = {"condition": game.simulation.condition.name, "id": game.simulation.id, "voters": len(names)}
        talked = {"last": last} if turns[0]["rules"]["turns"] else {}
        return [{**row, "first": first, **talked, "again": list(_given_again(turns, names, right))}]

    def tables(self, rows: Sequence[Row]) -> Mapping[str, pd.DataFrame]:
        """Return the tables `votes` and `conformity`."""
        votes, conformity = list[Row](), list[Row]()
        for axes, games in self._by_condition(rows):
            for answers in ("first", "last"):
                if answers in games[0] and _have_one_size(games):
                    votes.append({**axes, "answers": answers, **_worth(games, answers)})
            conformity += [{**axes, **row} for row in _gave_way([game["again"] for game in games])]
        return {"votes": pd.DataFrame(votes), "conformity": pd.DataFrame(conformity)}

    def asked(self, rows: Sequence[Row]) -> pd.DataFrame | None:
        """Return what each game says of the votes that last answers are worth, and of what is lost."""
        parts = [
            pd.DataFrame(
                {name: pseudo_values(measure, right, voters) for name, measure in ASKED.items()},
                index=pd.Index([game["id"] for game in games], name="id"),
            )
            for _, games in self._by_condition(rows)
            if _have_one_size(games)
            for right, voters in [_counts(games, "last" if "last" in games[0] else "first")]
        ]
        return pd.concat(parts) if parts else None

    def _by_condition(self, rows: Sequence[Row]) -> Iterator[tuple[Mapping[str, Any], list[Row]]]:
        for condition in self.study.conditions:
            if games := [row for row in rows if row["condition"] == condition.name]:
                yield condition.axes, games


ASKED = {"effective_votes": effective_votes, "lost_by_dependence": lost_by_dependence}


def _have_one_size(games: Sequence[Row]) -> bool:
    """Whether all games have as many honest agents: panels of some have not, where some agents are Byzantine."""
    return len({game["voters"] for game in games}) == 1


def _counts(games: Sequence[Row], answers: str) -> tuple[Floats, int]:
    return np.array([game[answers] for game in games], dtype=float), games[0]["voters"]


def _worth(games: Sequence[Row], answers: str) -> Row:
    right, voters = _counts(games, answers)
    worth, lost = (mean_interval(pseudo_values(measure, right, voters)) for measure in ASKED.values())
    return {
        **{"simulations": len(games), "voters": voters, "skill": right.mean() / voters},
        **{"effective": max(worth.mean, 1.0), "low": max(worth.low, 1.0), "high": max(worth.high, 1.0)},
        **{"independent": independent_right(right, voters), "majority": (2 * right > voters).mean()},
        **{"lost": lost.mean, "lost_low": lost.low, "lost_high": lost.high},
    }


def _given_again(
    turns: Sequence[DeliberationTurn], names: Sequence[str], right: Any
) -> Iterator[tuple[int, bool, bool, bool]]:
    """Yield of each answer that an agent might have kept how many faced it with one other, and what came of it.

    The other answer is that which most of those heard gave; of several all count. What came of it: whether one of
    them was taken over (with nobody against it, whether it was given up), whether it was right, and is now wrong.
    """
    for before, after in pairwise(turns):
        if TALK in after:  # they heard messages, and no answers
            continue
        for name, old, new in zip(names, values_of(before, names), values_of(after, names), strict=True):
            if old is None or new is None:  # silence is no change of mind
                continue
            heard = Counter(heard_values(before, after, name))
            others = {value: count for value, count in heard.items() if value not in (None, old)}
            faced = max(others.values(), default=0)
            gave_way = new in [value for value, count in others.items() if count == faced] if faced else new != old
            yield faced, gave_way, old == right, gave_way and new != right


def _gave_way(again: Sequence[Sequence[tuple[int, bool, bool, bool]]]) -> Iterator[Row]:
    """Yield a row for any number that faced an answer, then for each; shares are clustered by game."""
    given = np.array([(number, *each) for number, game in enumerate(again) for each in game], dtype=np.int64)
    if not len(given):
        return
    games, faced, gave_way, was_right, wrong_now = given.T
    for size in (ANY, *np.unique(faced)):
        here = faced > 0 if size == ANY else faced == size
        right = here & (was_right == 1)
        yield {
            **{"faced": str(size), "answers": int(here.sum()), "simulations": len(np.unique(games[here]))},
            **dict(zip(("gave_way", "low", "high"), _share(gave_way[here], games[here]), strict=True)),
            "right": int(right.sum()),
            **dict(zip(("misled", "misled_low", "misled_high"), _share(wrong_now[right], games[right]), strict=True)),
        }


def _share(yes: Any, games: Any) -> tuple[float, float, float]:
    if not len(yes):
        return np.nan, np.nan, np.nan
    clusters = np.unique(games, return_inverse=True)[1].astype(np.int64)
    share = standardized(yes.astype(float), np.zeros(len(yes), dtype=np.int64), clusters, np.ones(1))
    return share.rate, *rate_limits(share)
