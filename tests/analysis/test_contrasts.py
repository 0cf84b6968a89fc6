import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from parley.analysis.contrasts import contrast_table
from parley.analysis.pairs import MAX_VALUES
from parley.games.consensus.game import ConsensusGame
from parley.statistics.stats import holm, mcnemar, paired_difference, paired_mean, unpaired_difference, unpaired_p
from parley.study import load_study
from support import REPOSITORY
from support.figures import MeasuredGame

pytestmark = pytest.mark.promise(
    "Contrasts compare conditions that differ in one axis, paired by seed, corrected by Holm; each group "
    "of the paper has every pair of its values."
)

BY = ["model", "n", "b", "prompt"]
WON, LOST = "valid_consensus", "no_consensus"


def simulations(outcomes: str, seeds: list[int] | None = None, **axes: Any) -> list[dict[str, Any]]:
    """Return a row per letter, w for the first outcome class and l for the last, of seeds 0, 1, ..."""
    return [
        {"model": "a", "n": 4, "b": 0, "prompt": "p", **axes, "seed": seed, "outcome": WON if letter == "w" else LOST}
        for seed, letter in zip(seeds or range(len(outcomes)), outcomes, strict=True)
    ]


def contrasts(*conditions: list[dict[str, Any]], impossible: Any = None, **columns: Any) -> pd.DataFrame:
    """Return the contrasts of these conditions, with the metrics of the measured game where `columns` has some."""
    rows = pd.DataFrame([row for condition in conditions for row in condition]).assign(**columns)
    return contrast_table(rows, BY, MeasuredGame if columns else ConsensusGame, *([impossible] if impossible else []))


def of(table: pd.DataFrame, what: str = WON, **values: Any) -> dict[str, Any]:
    """Return the one row about `what` in which columns have `values`."""
    here = table[table["what"] == what]
    for name, value in values.items():
        here = here[here[name.rstrip("_")] == value]
    (row,) = here.to_dict("records")
    return {str(name): value for name, value in row.items()}


def cells(row: dict[str, Any], names: str) -> list[Any]:
    return [row[name] for name in names.split()]


def pairs_of(table: pd.DataFrame, axis: str, what: str = WON) -> list[tuple[str, str]]:
    here = table[(table["axis"] == axis) & (table["what"] == what)]
    return sorted(here[["from", "to"]].itertuples(index=False, name=None))


COUNTS = "pairs only_first only_second both"


def test_conditions_that_differ_in_one_axis_are_compared_by_seed() -> None:
    table = contrasts(simulations("wwwlll"), simulations("wlllll", model="b")[::-1])
    row = of(table)
    assert cells(row, "kind axis from to n test") == ["outcome", "model", "a", "b", "4", "McNemar"]
    assert cells(row, COUNTS) == [6, 2, 0, 1]
    assert cells(row, "value_from value_to") == [0.5, pytest.approx(1 / 6)]
    assert row["difference"] == pytest.approx(-1 / 3) == -of(table, LOST)["difference"]  # to minus from
    assert cells(row, "low high") == [float(limit) for limit in paired_difference(1, 2, 0, 3)]
    assert row["p"] == float(mcnemar(2, 0))
    assert set(table["what"]) == {outcome.name for outcome in ConsensusGame.outcomes}
    along_n = of(contrasts(simulations("wwww"), simulations("wlll", n=8)))
    assert cells(along_n, "axis from to n model difference") == ["n", "4", "8", "", "a", -0.75]


def test_only_shared_seeds_are_paired() -> None:
    row = of(contrasts(simulations("wwll", [0, 1, 2, 3]), simulations("lwl", [9, 3, 1], model="b")))
    assert cells(row, COUNTS) == [2, 1, 1, 0]
    assert cells(row, "simulations_from simulations_to") == [4, 3]
    assert row["value_from"] == 0.5  # of the pairs
    assert cells(row, "all_from all_to") == [0.5, pytest.approx(1 / 3)]  # of all simulations, as in `conditions`


def test_without_shared_seeds_all_simulations_are_compared_unpaired() -> None:
    numbers = {"value_changes": [1, 3, 5, 3, 5, 5, 8]}
    table = contrasts(simulations("wwwl", [0, 1, 2, 3]), simulations("llw", [7, 8, 9], model="b"), **numbers)
    row = of(table)
    assert cells(row, "pairs simulations_from simulations_to test") == [0, 4, 3, "chi-squared"]
    assert cells(row, "value_from value_to") == cells(row, "all_from all_to") == [0.75, pytest.approx(1 / 3)]
    assert cells(row, "low high") == [float(limit) for limit in unpaired_difference(3, 4, 1, 3)]
    assert row["p"] == float(unpaired_p(3, 4, 1, 3))
    quantity = of(table, "value_changes")
    assert cells(quantity, "pairs difference test") == [0, 3.0, ""]
    assert np.isnan(cells(quantity, "low high p")).all()


def test_two_axes_at_once_are_no_contrast() -> None:
    assert contrasts(simulations("ww"), simulations("wl", model="b", n=8)).empty


def test_every_pair_of_a_few_values_and_the_first_against_each_of_many() -> None:
    few = contrasts(*(simulations("w", n=n) for n in range(MAX_VALUES)))
    assert len(pairs_of(few, "n")) == math.comb(MAX_VALUES, 2)
    many = contrasts(*(simulations("w", n=n) for n in (5, 3, *range(6, 6 + MAX_VALUES))))
    assert set(many["from"]) == {"5"}  # as the study lists them
    assert len(pairs_of(many, "n")) == MAX_VALUES + 1


def test_the_papers_groups_have_each_pair_of_their_few_values() -> None:
    study = load_study(REPOSITORY / "config" / "paper.yaml")
    rows = [{**c.axes, "seed": seed, "outcome": WON} for c in study.conditions for seed in c.seeds]
    paper = contrast_table(pd.DataFrame(rows), study.axes, study.game)
    assert pairs_of(paper, "n") == sorted([("4", "8"), ("4", "16"), ("8", "16")] * 4)


def test_attackers_that_come_on_top_are_compared_by_the_others() -> None:
    table = contrasts(*(simulations("wl", b=b, n=4 + b) for b in (0, 1, 2)))
    assert pairs_of(table, "b") == [("0", "1"), ("0", "2"), ("1", "2")]
    assert set(table["axis"]) == {"b"}
    assert of(table, from_="0", to="2")["n"] == "4 -> 6"


def test_indicators_are_compared_where_both_have_an_answer() -> None:
    unanimous = [True, True, None, False, False, True, True, None]
    table = contrasts(simulations("wwww"), simulations("wwww", model="b"), unanimous=unanimous, early=False)
    row = of(table, "unanimous", kind="indicator")
    assert cells(row, COUNTS) == [2, 1, 0, 1]
    assert cells(row, "simulations_from simulations_to") == [3, 3]
    assert "unanswered" not in set(table["what"])  # nobody answered: there is nothing to compare


def test_quantities_have_mean_differences_with_t() -> None:
    changes = [1, 2, 3, 4, None, 3, 5, 5, 9, 7]
    row = of(contrasts(simulations("w" * 5), simulations("w" * 5, model="b"), value_changes=changes), "value_changes")
    assert cells(row, "kind test pairs simulations_from simulations_to") == ["quantity", "t", 4, 4, 5]
    assert cells(row, "value_from value_to difference all_from all_to") == [2.5, 5.5, 3.0, 2.5, 5.8]
    half = 3.182446305284263 * np.std([2, 3, 2, 5], ddof=1) / 2
    assert cells(row, "low high") == pytest.approx([3 - half, 3 + half])
    assert row["p"] == paired_mean([1, 2, 3, 4], [3, 5, 5, 9])[2]
    assert pd.isna(row["both"])


def test_p_values_are_corrected_over_what_is_compared_along_the_same_axis() -> None:
    games = [simulations("w" * 12), simulations("l" * 12, model="b"), simulations("wl" * 6, prompt="q")]
    table = contrasts(*games, simulations("wwl" * 4, model="c"), early=True, unanimous=True, size=range(48))
    assert set(table["kind"]) == {"outcome", "indicator", "quantity"}
    for _, family in table.groupby(["kind", "axis", "what"]):
        assert family["p_holm"].to_numpy() == pytest.approx(holm(family["p"].to_numpy(dtype=float)), nan_ok=True)
    along = table[(table["axis"] == "prompt") & (table["kind"] == "outcome")]
    assert (along["p_holm"] == along["p"]).all()


def test_an_outcome_is_compared_only_where_both_conditions_can_have_it() -> None:
    games = [simulations("w" * 8), simulations("l" * 8, n=8), simulations("wlwlwlwl", n=9)]
    every = contrasts(*games)
    assert (every[every["what"] == WON]["p_holm"] > every[every["what"] == WON]["p"]).any()
    for cannot, compared in (([4], [("8", "9")]), ([4, 8], [])):
        table = contrasts(*games, impossible={("a", n, 0, "p"): frozenset({WON}) for n in cannot})
        assert pairs_of(table, "n") == compared
        # At most one comparison is left to correct for, not three.
        mine = table[table["what"] == WON]
        assert (mine["p_holm"] == mine["p"]).all()
