import hashlib

import pytest

from parley.ledger.merkle import leaf_hash, merkle_root

LEAVES = [leaf_hash(b"%d" % number) for number in range(9)]


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_trees_of_up_to_five_leaves_are_those_of_rfc_6962() -> None:
    a, b, c, d, e = LEAVES[:5]
    assert merkle_root([]) == hashlib.sha256(b"").digest()
    assert merkle_root([a]) == a == hashlib.sha256(b"\x000").digest()
    assert merkle_root([a, b]) == node(a, b)
    assert merkle_root([a, b, c]) == node(node(a, b), c)
    assert merkle_root([a, b, c, d]) == node(node(a, b), node(c, d))
    assert merkle_root([a, b, c, d, e]) == node(node(node(a, b), node(c, d)), e)


def test_the_root_is_that_of_the_test_vectors_of_certificate_transparency() -> None:
    # The inputs and roots of the reference implementation's tests (google/certificate-transparency, merkle_tree_test).
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    leaves = [leaf_hash(bytes.fromhex(text)) for text in inputs]
    assert merkle_root(leaves[:1]).hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert merkle_root(leaves).hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@pytest.mark.parametrize("count", range(1, 9))
def test_the_last_leaf_counted_twice_has_another_root(count: int) -> None:
    """What CVE-2012-2459 is about."""
    leaves = LEAVES[:count]
    for repeated in range(1, count + 1):
        assert merkle_root([*leaves, *leaves[-repeated:]]) != merkle_root(leaves)


def test_an_inner_node_does_not_pass_for_a_leaf() -> None:
    a, b, c, d = LEAVES[:4]
    inner = [leaf_hash(a + b), leaf_hash(c + d)]
    assert merkle_root(inner) != merkle_root([a, b, c, d])


def test_every_leaf_and_its_place_count() -> None:
    root = merkle_root(LEAVES)
    for place in range(len(LEAVES)):
        assert merkle_root([*LEAVES[:place], leaf_hash(b"x"), *LEAVES[place + 1 :]]) != root
        assert merkle_root([*LEAVES[:place], *LEAVES[place + 1 :]]) != root
    swapped = [LEAVES[1], LEAVES[0], *LEAVES[2:]]
    assert merkle_root(swapped) != root
