import pytest
from pydantic import ValidationError

from parley.engine.service.terms import Price
from parley.errors import UsageError
from parley.policies import Tokens
from parley.study.study_file import Budget
from support.studies import StudyFactory

SOURCE = {"repo": "owner/tiny", "revision": "a" * 40}
PRICE = {"prompt": 2.0, "completion": 8.0}


@pytest.mark.parametrize("content", [{}, {"tokens": 0}, {"cost": 0}, {"tokens": 1.5}, {"cost": float("inf")}])
def test_a_budget_that_says_nothing_is_refused(content: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate(content)


def test_a_cost_needs_the_price_of_every_model_that_is_used(study_factory: StudyFactory) -> None:
    models = {"tiny": {"source": SOURCE, "price": PRICE}, "other": {"source": SOURCE}}
    grids = [{"model": "tiny"}, {"model": "majority"}]
    assert study_factory(*grids, models=models, budget={"cost": 5}).budget == Budget(cost=5)
    with pytest.raises(UsageError) as caught:
        study_factory({"model": ["tiny", "other"]}, models=models, budget={"cost": 5})
    assert str(caught.value) == (
        "small.yaml: budget.cost: 5: other has no price; add price: {prompt: ..., completion: ...} to models.other in "
        "models.yaml, or give budget.tokens alone"
    )
    assert study_factory({"model": "other"}, models=models, budget={"tokens": 5}).budget == Budget(tokens=5)


def test_neither_budget_nor_price_changes_what_is_played(study_factory: StudyFactory) -> None:
    def records(price: dict[str, float], **content: object) -> list[object]:
        study = study_factory({"model": "tiny"}, models={"tiny": {"source": SOURCE, "price": price}}, **content)
        return [study.plan, *(simulation.id for simulation in study.simulations())]

    assert records(PRICE) == records({"prompt": 1, "completion": 1}, budget={"tokens": 10})


def test_tokens_cost_what_their_kind_costs() -> None:
    tokens = Tokens(prompt=1_000_000, completion=500_000, cached=400_000)
    assert Price(prompt=2, completion=8).of(tokens) == 2 + 4
    assert Price(prompt=2, completion=8, cached=0.5).of(tokens) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 4)
    assert Price(prompt=2, completion=8, cached=0.5).of(Tokens(100, 0, 900)) == pytest.approx(100 * 0.5e-6)


def test_at_most_costs_no_less_wherever_the_prompt_comes_from() -> None:
    most = Tokens(prompt=1_000_000, completion=0)
    assert Price(prompt=2, completion=8, cached=0.5).most(most) == 2
    assert Price(prompt=2, completion=8, cached=3).most(most) == 3
