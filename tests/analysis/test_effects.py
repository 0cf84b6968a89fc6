"""The table `effects`: against what can be computed by other means, with known effects, and where nothing fits."""

import functools
import itertools
import operator
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy
from statsmodels.genmod.generalized_estimating_equations import GEE

from parley.analysis.effects import _gee, design, effect_table, points, separated_rates
from parley.analysis.margins import margin_table
from parley.games.consensus.game import ConsensusGame
from parley.study.margins import Effects
from support.alike import AXES, VALID, Drawn, condition


def effects(rows: pd.DataFrame, *interactions: tuple[str, str]) -> pd.DataFrame:
    return effect_table(rows, AXES, ConsensusGame, Effects(interactions=interactions))


def of(table: pd.DataFrame, axis: str, to: Any, at: str = "") -> dict[Any, Any]:
    [row] = table[(table["axis"] == axis) & (table["to"] == str(to)) & (table["at"] == at)].to_dict("records")
    return row


def crossed(random: np.random.Generator, seeds: int = 30, alike: float = 0.4) -> pd.DataFrame:
    """Return simulations of two models with two prompts; the prompt changes more with the second model."""
    drawn = Drawn(random, seeds, alike)
    for (model, prompt), rate in {("a", "p"): 0.5, ("a", "q"): 0.6, ("b", "p"): 0.3, ("b", "q"): 0.7}.items():
        drawn.play(rate, model=model, prompt=prompt)
    return drawn.rows


def test_a_saturated_model_says_what_the_conditions_say() -> None:
    rows = crossed(np.random.default_rng(1))
    table = effects(rows, ("prompt", "model"))
    rate = rows.groupby(["model", "prompt"])["outcome"].apply(lambda o: (o == VALID).mean())
    by_model = {model: rate[model, "q"] - rate[model, "p"] for model in "ab"}
    assert of(table, "prompt", "q")["effect"] == pytest.approx(sum(by_model.values()) / 2)
    assert of(table, "prompt", "q", "model=b")["effect"] == pytest.approx(by_model["b"])
    change = of(table, "prompt", "q", "model=a -> b")
    assert change["effect"] == pytest.approx(by_model["b"] - by_model["a"])
    # The variance between seeds of what each seed adds, as in any mean over them.
    well = (rows.assign(well=rows["outcome"] == VALID)).pivot_table("well", "seed", ["model", "prompt"], aggfunc="sum")
    by_seed = (well["b", "q"] - well["b", "p"] - well["a", "q"] + well["a", "p"]).astype(float)
    half = scipy.stats.t.ppf(0.975, 29) * by_seed.std(ddof=1) / np.sqrt(30)
    assert (change["low"], change["high"]) == pytest.approx((change["effect"] - half, change["effect"] + half))
    assert of(table, "prompt", "q")["effect"] == pytest.approx(margins_of(rows, "prompt", "q"))


def margins_of(rows: pd.DataFrame, axis: str, value: str) -> float:
    table = margin_table(rows, AXES, ConsensusGame)
    [found] = table[(table["what"] == VALID) & (table["axis"] == axis) & (table["value"] == value)]["difference"]
    return float(found)


def test_without_shared_seeds_it_is_logistic_regression() -> None:
    random = np.random.default_rng(2)
    cells = list(itertools.product("ab", "pq", (4, 8)))
    rates = [0.3, 0.4, 0.5, 0.7, 0.4, 0.6, 0.55, 0.8]
    letters = [random.random(40) < rate for rate in rates]
    rows = pd.DataFrame(
        functools.reduce(
            operator.iadd,
            (
                condition(("y" if x else "n" for x in each), 40 * place, model=m, prompt=p, n=n)
                for place, ((m, p, n), each) in enumerate(zip(cells, letters, strict=True))
            ),
            [],
        )
    )
    x = np.array([[1, m == "b", p == "q", n == 8] for m, p, n in cells for _ in range(40)], dtype=float)
    y = np.concatenate(letters).astype(float)
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
    assert note == ""
    assert alpha > 0.1
    assert np.linalg.solve(bread, score) == pytest.approx(0, abs=1e-4)  # as near as its iterations come
    assert covariance == pytest.approx(np.linalg.inv(bread) @ meat @ np.linalg.inv(bread) * 60 / 59, rel=1e-3)


def rate_of(model: str, prompt: str, honest: int, b: int = 0) -> float:
    """Return a rate as in the paper, by a model without interactions."""
    by_model, by_prompt, by_size = {"14b": 0.4, "8b": -2.0}[model], 0.75 * (prompt == "none"), -0.3 * (honest == 16)
    return float(scipy.special.expit(by_model + by_prompt + by_size - 0.6 * b))


@pytest.mark.slow
def test_effects_that_are_known_are_found() -> None:
    """50 studies like the paper's: their mean effects are the true ones, and 95% of the intervals hold those."""
    grid = list(itertools.product(("14b", "8b"), ("may", "none"), (4, 8, 16)))
    truth = {
        ("model", "8b"): np.mean([rate_of("8b", p, n) - rate_of("14b", p, n) for m, p, n in grid]),
        ("prompt", "none"): np.mean([rate_of(m, "none", n) - rate_of(m, "may", n) for m, p, n in grid]),
        ("n", "16"): np.mean([rate_of(m, p, 16) - rate_of(m, p, 4) for m, p, n in grid]),
        ("b", "2"): rate_of("14b", "may", 8, 2) - rate_of("14b", "may", 8),
    }
    inside, found = 0, []
    for seed in range(50):
        drawn = Drawn(np.random.default_rng(seed), 50, 0.3)
        for model, prompt, n in grid:
            drawn.play(rate_of(model, prompt, n), model=model, prompt=prompt, n=n)
        for b in (1, 2, 3):
            drawn.play(rate_of("14b", "may", 8, b), 25, model="14b", prompt="may", n=8 + b, b=b)
        table = effects(drawn.rows)
        rows = [of(table, *key) for key in truth]
        found.append([row["effect"] for row in rows])
        inside += sum(row["low"] <= true <= row["high"] for row, true in zip(rows, truth.values(), strict=True))
    assert np.mean(found, axis=0) == pytest.approx(list(truth.values()), abs=0.025)
    assert 0.91 < inside / 200 < 0.99


def test_an_interaction_gives_the_effect_at_each_value_and_how_it_changes() -> None:
    table = effects(crossed(np.random.default_rng(4)), ("prompt", "model"))
    told = list(table[["axis", "to", "at"]].itertuples(index=False, name=None))
    assert told == [
        ("model", "b", ""), ("prompt", "q", ""), ("prompt", "q", "model=a"), ("prompt", "q", "model=b"),
        ("prompt", "q", "model=a -> b"), ("model", "b", "prompt=p"), ("model", "b", "prompt=q"),
    ]  # fmt: skip
    assert list(table["conditions"]) == [2, 2, 1, 1, 1, 1, 1]
    assert not set(effects(crossed(np.random.default_rng(4)))["at"]) - {""}


def test_what_is_always_so_gets_its_effect_without_an_interval_and_leaves_the_others_theirs() -> None:
    drawn = Drawn(np.random.default_rng(5), 30, 0.3)
    for model, n in itertools.product("abc", (4, 8)):
        drawn.play(1e-12 if model == "c" else {"a": 0.6, "b": 0.4}[model] - 0.02 * n, model=model, n=n)
    rows = drawn.rows
    table = effects(rows)
    never, other = of(table, "model", "c"), of(table, "model", "b")
    assert never["effect"] == pytest.approx(margins_of(rows, "model", "c"), abs=0.02)
    assert (never["separated"], np.isnan(never["low"]), np.isnan(never["p"])) == (2, True, True)
    assert (other["separated"], other["low"] < other["effect"] < other["high"]) == (0, True)
    without = effects(rows[rows["model"] != "c"])
    assert other["effect"] == pytest.approx(of(without, "model", "b")["effect"], abs=1e-6)


@pytest.mark.parametrize(("letters", "change"), [(["yyyyyy", "nnnnnn"], -1), (["yyyyyy", "yyyyyy"], 0)])
def test_where_nothing_varies_effects_have_no_interval(letters: list[str], change: int) -> None:
    rows = [row for n, text in zip((4, 8), letters, strict=True) for row in condition(text, n=n)]
    row = of(effects(pd.DataFrame(rows)), "n", 8)
    assert (row["effect"], row["separated"], np.isnan(row["low"]), row["note"]) == (change, 2, True, "")


def test_separation_by_several_axes_together_is_seen() -> None:
    # No axis alone has an outcome always; b and q together have, and a and p never.
    matrix = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=float)
    assert separated_rates(matrix, np.array([0, 0.5, 0.5, 1])) == pytest.approx([0, np.nan, np.nan, 1], nan_ok=True)
    assert np.isnan(separated_rates(matrix, np.array([0.1, 0.5, 0.5, 0.9]))).all()
    # Always in one condition alone, which the others do not allow in a model without interaction.
    assert np.isnan(separated_rates(matrix, np.array([0.5, 0.5, 0.5, 1]))[:3]).all()


def test_few_seeds_have_effects_without_intervals() -> None:
    rows = [row for n, text in ((4, "yynn"), (8, "ynnn")) for row in condition(text, n=n)]
    row = of(effects(pd.DataFrame(rows)), "n", 8)
    assert row["effect"] == pytest.approx(-0.25)
    assert np.isnan(row["low"])


def test_axes_that_go_together_are_told_apart_where_the_study_can() -> None:
    keys = pd.DataFrame(
        [("a", 4, 0), ("a", 8, 0), ("a", 9, 1), ("a", 10, 2), ("b", 4, 0), ("b", 8, 0)], columns=["model", "n", "b"]
    )
    # One model more, one number of honest agents more, two numbers of Byzantine agents more.
    assert design(keys, [], ConsensusGame).shape == (6, 5)
    assert design(keys, [("model", "n")], ConsensusGame).shape == (6, 6)


def test_what_the_fit_warns_of_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = GEE.fit

    def warned(self: Any, **options: Any) -> Any:
        warnings.warn("did not\nconverge", stacklevel=1)
        return fit(self, **options)

    monkeypatch.setattr(GEE, "fit", warned)
    table = effects(crossed(np.random.default_rng(6)))
    assert set(table["note"]) == {"did not converge"}
    assert table["low"].notna().all()


def test_a_fit_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(self: Any, **options: Any) -> Any:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(GEE, "fit", failed)
    table = effects(crossed(np.random.default_rng(6)))
    assert set(table["note"]) == {"Singular matrix"}
    assert table["effect"].isna().all()


def test_an_axis_whose_values_no_combination_has_all_of_has_effects() -> None:
    drawn = Drawn(np.random.default_rng(7), 30, 0.3)
    for n, b in [(6, 0), (6, 1), (6, 2), (12, 0), (12, 2), (12, 4)]:
        drawn.play(0.8 - 0.1 * b, n=n, b=b)
    rows = effects(drawn.rows).set_index(["axis", "to"])
    assert dict(rows.loc["b", "conditions"]) == {"1": 1, "2": 2, "4": 1}
    assert rows.loc["b", "low"].notna().all()


def test_nothing_to_compare_has_no_rows() -> None:
    assert effects(pd.DataFrame(condition("yynnn"))).empty
    assert effects(pd.DataFrame(columns=[*AXES, "seed", "outcome"])).empty


@pytest.mark.parametrize(("change", "told"), [(12.4, "+12"), (-3.6, "-4"), (-0.2, "0"), (0.0, "0")])
def test_points_have_a_sign_which_zero_has_not(change: Any, told: str) -> None:
    assert points(change) == told
