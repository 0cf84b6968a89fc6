"""Who sees whom, by name."""

from parley.games.network.graph import Network
from parley.games.network.links import Links

NAMES = ["ann", "bob", "cid"]


def test_links_are_by_name() -> None:
    links = Links(NAMES, Network.of_edges(3, [(0, 1)]))
    assert [links.neighbors(name) for name in NAMES] == [("bob",), ("ann",), ()]
    assert [links.seen_by(name) for name in NAMES] == [{"ann", "bob"}, {"ann", "bob"}, {"cid"}]


def test_facts_are_of_the_whole_and_of_its_honest_part() -> None:
    facts = Links(NAMES, Network.of_edges(3, [(0, 1), (1, 2)])).facts(["ann", "cid"])
    assert (facts["edges"], facts["components"], facts["honest_edges"], facts["honest_components"]) == (2, 1, 0, 2)


def test_the_links_are_traced_once_and_only_where_somebody_is_hidden() -> None:
    links = Links(NAMES, Network.of_edges(3, [(0, 1)]))
    assert links.trace(1) == {"neighbors": {"ann": ["bob"], "bob": ["ann"], "cid": []}}
    assert links.trace(2) == Links(NAMES, Network.complete(3)).trace(1) == {}
