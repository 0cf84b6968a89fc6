"""The tables `rounds` and `players`: means by round, and by what plays the agents."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from parley.analysis.tables import read_table
from parley.games.evidence import Measure
from parley.play.record import read_summary
from parley.statistics.stats import paired_share, wilson_interval, wilson_of_mean
from support.figures import MeasuredEvidence, measured, played
from support.studies import StudyFactory

Series = Mapping[str, Sequence[tuple[int, float]]]


@pytest.mark.slow
def test_finished_games_keep_their_last_value_where_the_measure_allows_it(study_factory: StudyFactory) -> None:
    games = [[1.0], [0.5, 1.0], [0.0, 0.25, 0.25, 0.25], [0.5, None]]  # by seed and round

    class Listed(MeasuredEvidence):
        measures = (
            Measure("playing", "of those that still play"),
            Measure("carried", "kept", carried=True),
            Measure("never", "of what is no number"),
        )
        seeds = iter(games)

        def series(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Series:
            self.game = next(self.seeds)
            values = [(number, value) for number, value in enumerate(self.game, 1) if value is not None]
            return {"playing": values, "carried": values, "never": [(1, math.nan)]}

        def last_round(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> int:
            return len(self.game)

    played(measured(study_factory(seeds=4), Listed()))
    table = read_table("small", "rounds")
    by_hand = {
        "playing": ([4, 2, 1, 1], [0.5, 0.625, 0.25, 0.25]),  # it looks like a fall
        # The first two keep their 1; the last had no value when it ended, and has none from then on.
        "carried": ([4, 3, 3, 3], [0.5, 0.75, 0.75, 0.75]),
    }
    assert set(table["measure"]) == set(by_hand)
    for measure, (simulations, means) in by_hand.items():
        here = table[table["measure"] == measure]
        assert here[["round", "simulations", "playing"]].to_numpy().T.tolist() == [
            [1, 2, 3, 4], simulations, [4, 2, 1, 1],
        ]  # fmt: skip
        assert here["mean"].to_list() == pytest.approx(means)
        expected = [float(wilson_of_mean(m, n)[0]) for m, n in zip(means, simulations, strict=True)]
        assert here["low"].to_list() == pytest.approx(expected)


class ParityEvidence(MeasuredEvidence):
    """Shares of what is odd, among initial values below 15."""

    def of_agents(self, metrics: Mapping[str, Any], trace: Any) -> Mapping[str, Mapping[str, float]]:
        initial = metrics["initial_values"]
        return {agent: {"final_honest_share": float(value % 2)} for agent, value in initial.items() if value < 15}


def group(count: int, policy: str, role: str = "honest", **given: Any) -> dict[str, Any]:
    return {"role": role, "count": count, "policy": {"name": policy, **given} if given else policy}


@pytest.mark.slow
def test_n_counts_the_simulations_that_have_the_share_and_a_simulation_is_the_unit(
    study_factory: StudyFactory,
) -> None:
    grid = {"model": None, "n": None, "groups": [group(3, "majority"), group(2, "random")]}
    study = played(measured(study_factory(grid, seeds=8), ParityEvidence()))
    shares: dict[str, list[float]] = {"majority": [], "random": []}
    both: list[float] = []
    for simulation in study.simulations():
        initial = read_summary(simulation.record("small")).outcome["metrics"]["initial_values"]
        seats = simulation.game().seats
        sizes = [len(found) for found in shares.values()]
        for place, player in enumerate(shares):
            values = [initial[seat.name] for seat in seats if seat.group == place and initial[seat.name] < 15]
            if values:
                shares[player].append(sum(value % 2 for value in values) / len(values))
        if [len(found) for found in shares.values()] == [size + 1 for size in sizes]:
            both.append(shares["random"][-1] - shares["majority"][-1])
    assert 0 < len(shares["random"]) < 8  # some simulation has no such agent
    assert {share for found in shares.values() for share in found} - {0.0, 1.0}
    table = read_table("small", "players")
    assert list(table["player"]) == ["majority", "random"]
    for row in table.to_dict("records"):
        found = shares[row["player"]]
        assert (row["quantity"], row["simulations"]) == ("final_honest_share", len(found))
        assert row["mean"] == pytest.approx(np.mean(found))
        assert (row["low"], row["high"]) == pytest.approx(tuple(map(float, wilson_of_mean(row["mean"], len(found)))))
    first, second = table.to_dict("records")
    assert math.isnan(first["difference"])
    assert second["difference"] == pytest.approx(np.mean(both))
    low, high, _ = paired_share(np.zeros(len(both)), both)
    assert (second["difference_low"], second["difference_high"]) == (pytest.approx(low), pytest.approx(high))


# By what plays the agents


@pytest.mark.slow
def test_each_player_of_a_population_has_its_own_shares(study_factory: StudyFactory) -> None:
    groups = [group(2, "grim_trigger"), group(1, "always_stag"), group(1, "grim_trigger")]
    betrayer = group(1, "betray", "byzantine", from_round=2)
    grid = {"model": None, "n": None, "prompt": "plain", "groups": [*groups, betrayer]}
    played(study_factory(grid, game="stag_hunt", seeds=3, parameters={"rounds": 4}))
    found = {(row["quantity"], row["player"]): row for row in read_table("small", "players").to_dict("records")}
    loyal = dict.fromkeys(("kept_hunting", "cooperation_persistent"), "always_stag")
    whose = loyal | dict.fromkeys(("defection_prone", "hare_for_good"), "grim_trigger") | {"unclassified": "nobody"}
    assert {key: row["mean"] for key, row in found.items()} == {
        (quantity, player): float(player == own)
        for quantity, own in whose.items()
        for player in ("always_stag", "grim_trigger")
    } | {("stag_share", "always_stag"): 1.0, ("stag_share", "grim_trigger"): 0.5}  # hares from round 3 on
    row = found["defection_prone", "grim_trigger"]
    assert row["simulations"] == 3  # not agents
    assert (row["low"], row["high"]) == pytest.approx(wilson_interval(3, 3))
    whole = read_table("small", "quantities").set_index("quantity")["mean"]
    assert whole["defection_prone"] == pytest.approx(3 / 4)
