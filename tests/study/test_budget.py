"""What tokens cost, which budgets are counted in; `test_study_errors.py` has the budgets that are refused."""

import pytest

from parley.engine.service.dialect import Price
from parley.policies import Tokens


def test_tokens_cost_what_their_kind_costs() -> None:
    tokens = Tokens(prompt=1_000_000, completion=500_000, cached=400_000)
    assert Price(prompt=2, completion=8).of(tokens) == 2 + 4
    assert Price(prompt=2, completion=8, cached=0.5).of(tokens) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 4)
    assert Price(prompt=2, completion=8, cached=0.5).of(Tokens(100, 0, 900)) == pytest.approx(100 * 0.5e-6)


def test_at_most_costs_no_less_wherever_the_prompt_comes_from() -> None:
    most = Tokens(prompt=1_000_000, completion=0)
    assert Price(prompt=2, completion=8, cached=0.5).most(most) == 2
    assert Price(prompt=2, completion=8, cached=3).most(most) == 3
