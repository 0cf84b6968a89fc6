from urllib.parse import parse_qsl, urlsplit

from parley import paths
from parley.view_links import pairs_link, simulations_link, single_link


def test_simulations_are_named_by_the_values_of_their_axes() -> None:
    assert simulations_link({"n": 8, "prompt": "may_exist"}) == "../view/index.html#/?axis.n=8&axis.prompt=may_exist"
    assert simulations_link({"n": 8}, "agreed").endswith("#/?axis.n=8&outcome=agreed")
    assert simulations_link({}) == "../view/index.html#/"
    assert single_link("ab12") == "../view/index.html#/game/ab12"


def test_pairs_name_both_conditions_and_what_they_differ_in() -> None:
    address = "../view/index.html#/pairs?a.n=8&b.n=4&outcome=agreed"
    assert pairs_link({"n": 8}, {"n": 4}, "agreed") == pairs_link({"n": 8}, {"n": 4}, "agreed", "agreed") == address
    assert pairs_link({"n": 8}, {"n": 4}, "agreed", "fast") == f"{address}&outcome.b=fast"


def test_no_value_can_leave_its_place_in_the_address() -> None:
    value = 'a b&axis.n=9#"<+%é'
    _, _, chosen = urlsplit(simulations_link({"model": value})).fragment.partition("?")
    assert parse_qsl(chosen) == [("axis.model", value)]
    assert not set(' "<>') & set(simulations_link({"model": value}))


def test_the_page_lies_in_a_folder_beside_figures_and_the_report() -> None:
    figure, report = paths.figure("demo", "rates", ".svg"), paths.report("demo")
    page, _, _ = simulations_link({}).partition("#")
    expected = paths.view_page(paths.view("demo"))
    assert {path.parents[1] / page.removeprefix("../") for path in (figure, report)} == {expected}
