"""The table `effects`: against what can be computed by other means, with known effects, and where nothing fits."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from statsmodels.genmod.generalized_estimating_equations import GEE

from parley.analysis.effects import _gee, design, effect_table, firth, separated_rates
from parley.analysis.margins import Answers, margin_table
from parley.games.consensus.game import ConsensusGame
from parley.study.study_file import Effects
from support.studies import AXES, VALID, Drawn, condition

pytestmark = pytest.mark.promise(
    "One model over all axes finds known effects, agrees with logistic regression, and says where it has no interval."
)


def effects(rows: pd.DataFrame, *interactions: tuple[str, str]) -> pd.DataFrame:
    return effect_table(rows, AXES, ConsensusGame, Effects(interactions=interactions))


def of(table: pd.DataFrame, axis: str, to: Any, at: str = "") -> dict[Any, Any]:
    [row] = table[(table["axis"] == axis) & (table["to"] == str(to)) & (table["at"] == at)].to_dict("records")
    return row


def conditions(*each: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame([row for rows in each for row in rows])


def margin_of(rows: pd.DataFrame, axis: str, value: str) -> float:
    table = margin_table(rows, AXES, ConsensusGame)
    [found] = table[(table["what"] == VALID) & (table["axis"] == axis) & (table["value"] == value)]["difference"]
    return float(found)


@pytest.fixture(scope="module")
def crossed() -> pd.DataFrame:
    """Simulations of two models with two prompts; the prompt changes more with the second model."""
    drawn = Drawn(np.random.default_rng(1), 30, 0.4)
    for (model, prompt), rate in {("a", "p"): 0.5, ("a", "q"): 0.6, ("b", "p"): 0.3, ("b", "q"): 0.7}.items():
        drawn.play(rate, model=model, prompt=prompt)
    return drawn.rows


def test_a_saturated_model_says_what_the_conditions_say(crossed: pd.DataFrame) -> None:
    table = effects(crossed, ("prompt", "model"))
    told = list(table[["axis", "to", "at"]].itertuples(index=False, name=None))
    assert told == [
        ("model", "b", ""), ("prompt", "q", ""), ("prompt", "q", "model=a"), ("prompt", "q", "model=b"),
        ("prompt", "q", "model=a -> b"), ("model", "b", "prompt=p"), ("model", "b", "prompt=q"),
    ]  # fmt: skip
    assert list(table["conditions"]) == [2, 2, 1, 1, 1, 1, 1]
    assert set(effects(crossed)["at"]) == {""}
    rate = crossed.groupby(["model", "prompt"])["outcome"].apply(lambda o: (o == VALID).mean())
    a, b = (rate[model, "q"] - rate[model, "p"] for model in "ab")
    assert of(table, "prompt", "q")["effect"] == pytest.approx((a + b) / 2)
    assert of(table, "prompt", "q")["effect"] == pytest.approx(margin_of(crossed, "prompt", "q"))
    assert of(table, "prompt", "q", "model=b")["effect"] == pytest.approx(b)
    change = of(table, "prompt", "q", "model=a -> b")
    assert change["effect"] == pytest.approx(b - a)
    # The variance between seeds of what each seed adds, as in any mean over them.
    well = crossed.assign(well=crossed["outcome"] == VALID)
    well = well.pivot_table("well", "seed", ["model", "prompt"], aggfunc="sum").astype(float)
    by_seed = well["b", "q"] - well["b", "p"] - well["a", "q"] + well["a", "p"]
    half = scipy.stats.t.ppf(0.975, 29) * by_seed.std(ddof=1) / np.sqrt(30)
    assert (change["low"], change["high"]) == pytest.approx((change["effect"] - half, change["effect"] + half))


def test_without_shared_seeds_it_is_logistic_regression() -> None:
    random = np.random.default_rng(2)
    cells = list(itertools.product("ab", "pq", (4, 8)))
    won = [random.random(40) < rate for rate in (0.3, 0.4, 0.5, 0.7, 0.4, 0.6, 0.55, 0.8)]
    rows = conditions(
        *(
            condition(("y" if x else "n" for x in each), 40 * place, model=m, prompt=p, n=n)
            for place, ((m, p, n), each) in enumerate(zip(cells, won, strict=True))
        )
    )
    x = np.array([[1, m == "b", p == "q", n == 8] for m, p, n in cells for _ in range(40)], dtype=float)
    y = np.concatenate(won).astype(float)
    beta = np.zeros(4)
    for _ in range(30):  # Newton's method
        fitted = scipy.special.expit(x @ beta)
        beta += np.linalg.solve(x.T @ (x * (fitted * (1 - fitted))[:, None]), x.T @ (y - fitted))
    bread = np.linalg.inv(x.T @ (x * (fitted * (1 - fitted))[:, None]))
    covariance = bread @ (x.T @ (x * ((y - fitted) ** 2)[:, None])) @ bread * 320 / 319
    one, zero = (np.array([[1, m == "b", q, n == 8] for m, p, n in cells if p == "p"], dtype=float) for q in (1, 0))

    def difference(b: Any) -> float:
        return float(np.mean(scipy.special.expit(one @ b) - scipy.special.expit(zero @ b)))

    slope = np.array([(difference(beta + h) - difference(beta - h)) / 2e-6 for h in 1e-6 * np.eye(4)])
    half = scipy.stats.t.ppf(0.975, 319) * np.sqrt(slope @ covariance @ slope)
    row = of(effects(rows), "prompt", "q")
    assert row["effect"] == pytest.approx(difference(beta), abs=1e-6)
    assert (row["low"], row["high"]) == pytest.approx((row["effect"] - half, row["effect"] + half), abs=1e-6)
    assert (row["correlation"], row["conditions"]) == (0, 4)


def test_the_estimating_equations_of_simulations_that_share_seeds_are_solved() -> None:
    random = np.random.default_rng(3)
    seeds = np.repeat(np.arange(60), 4)
    x = np.column_stack([np.ones(240), random.integers(0, 2, 240), random.integers(0, 2, 240)]).astype(float)
    y = (random.normal(size=60)[seeds] + random.normal(size=240) < x @ [0.2, 0.5, -0.3]).astype(float)
    beta, covariance, alpha, note = _gee(y, x, seeds)
    fitted = scipy.special.expit(x @ beta)
    score, bread, meat = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    for seed in range(60):
        here = seeds == seed
        spread = np.sqrt(fitted[here] * (1 - fitted[here]))
        inverse = np.linalg.inv(np.outer(spread, spread) * (alpha + (1 - alpha) * np.eye(4)))
        slope = x[here] * (spread**2)[:, None]
        part = slope.T @ inverse @ (y - fitted)[here]
        score, bread, meat = score + part, bread + slope.T @ inverse @ slope, meat + np.outer(part, part)
    assert (note, alpha > 0.1) == ("", True)
    assert np.linalg.solve(bread, score) == pytest.approx(0, abs=1e-4)  # as near as its iterations come
    assert covariance == pytest.approx(np.linalg.inv(bread) @ meat @ np.linalg.inv(bread) * 60 / 59, rel=1e-3)


def ending_well(random: np.random.Generator, cells: Iterable[tuple[dict[str, Any], float]]) -> pd.DataFrame:
    drawn = Drawn(random, 30, 0.3)
    for axes, rate in cells:
        drawn.play(rate, **axes)
    return drawn.rows


def test_what_is_always_so_has_an_interval_by_firth_and_leaves_the_others_theirs() -> None:
    rates = {"a": 0.6, "b": 0.4}
    cells = [
        ({"model": m, "n": n}, rates[m] - 0.02 * n if m in rates else 1e-12)
        for m, n in itertools.product("abc", (4, 8))
    ]
    rows = ending_well(np.random.default_rng(5), cells)
    table = effects(rows)
    never, other = of(table, "model", "c"), of(table, "model", "b")
    assert never["effect"] == pytest.approx(margin_of(rows, "model", "c"), abs=0.02)
    assert (never["separated"], never["low"] < never["effect"] < never["high"] < 0) == (2, True)
    assert (other["separated"], other["low"] < other["effect"] < other["high"]) == (0, True)
    without = effects(rows[rows["model"] != "c"])
    assert other["effect"] == pytest.approx(of(without, "model", "b")["effect"], abs=1e-6)


def test_where_nothing_varies_half_an_answer_more_is_counted_and_few_have_no_interval() -> None:
    for four, eight, effect, separated in (
        ("yyyyyy", "nnnnnn", 0.5 / 7 - 6.5 / 7, 2),
        ("yyyyyy", "yyyyyy", 0, 2),
        ("yynn", "ynnn", -0.25, 0),
    ):
        row = of(effects(conditions(condition(four, n=4), condition(eight, n=8))), "n", 8)
        assert row["effect"] == pytest.approx(effect, abs=1e-9)
        assert (row["separated"], np.isnan(row["low"])) == (separated, not separated), effect
    assert effects(conditions(condition("yynnn"))).empty  # nothing to compare
    assert effects(pd.DataFrame(columns=[*AXES, "seed", "outcome"])).empty


def test_rare_outcomes_have_effects_whose_intervals_hold() -> None:
    random, matrix, held = np.random.default_rng(4), np.array([[1, 0], [1, 1]], dtype=float), []
    cells, seeds = np.repeat([0, 1], 10), np.tile(np.arange(10), 2)
    for _ in range(400):  # a rate of 10% in two conditions, ten seeds
        fit = firth(Answers(pd.DataFrame(index=[0, 1]), (random.random(20) < 0.1) * 1.0, cells, seeds, seeds), matrix)
        slope = fit.slopes[1] - fit.slopes[0]
        error = max(slope @ each @ slope for each in (fit.covariance, fit.least)) ** 0.5
        held.append(abs(fit.rates[1] - fit.rates[0]) <= scipy.stats.t.ppf(0.975, 9) * error)
    assert np.mean(held) >= 0.935


def test_separation_by_several_axes_together_is_seen() -> None:
    # No axis alone has an outcome always; b and q together have, and a and p never.
    matrix = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=float)
    assert separated_rates(matrix, np.array([0, 0.5, 0.5, 1])) == pytest.approx([0, np.nan, np.nan, 1], nan_ok=True)
    assert np.isnan(separated_rates(matrix, np.array([0.1, 0.5, 0.5, 0.9]))).all()
    # Always in one condition alone, which the others do not allow in a model without interaction.
    assert np.isnan(separated_rates(matrix, np.array([0.5, 0.5, 0.5, 1]))[:3]).all()


def test_axes_that_go_together_are_told_apart_where_the_study_can() -> None:
    keys = pd.DataFrame(
        [("a", 4, 0), ("a", 8, 0), ("a", 9, 1), ("a", 10, 2), ("b", 4, 0), ("b", 8, 0)], columns=["model", "n", "b"]
    )
    # One model more, one number of honest agents more, two numbers of Byzantine agents more.
    assert design(keys, [], ConsensusGame).shape == (6, 5)
    assert design(keys, [("model", "n")], ConsensusGame).shape == (6, 6)
    # An axis whose values no combination has all of has effects.
    games = [(6, 0), (6, 1), (6, 2), (12, 0), (12, 2), (12, 4)]
    rows = ending_well(np.random.default_rng(7), [({"n": n, "b": b}, 0.8 - 0.1 * b) for n, b in games])
    found = effects(rows).set_index(["axis", "to"])
    assert dict(found.loc["b", "conditions"]) == {"1": 1, "2": 2, "4": 1}
    assert found.loc["b", "low"].notna().all()


def test_a_fit_that_fails_says_so(crossed: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(self: Any, **options: Any) -> Any:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(GEE, "fit", failed)
    table = effects(crossed)
    assert set(table["note"]) == {"Singular matrix"}
    assert table["effect"].isna().all()
