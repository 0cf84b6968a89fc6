"""Cards: which selections are read, and which texts could mean another one."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.games.problems.problem import is_card, matching_cards, normal_cards, read_cards, right_cards

CARDS = ("A", "K", "4", "7")
PRONOUNS = ("I", "K", "12", "1")
READ = {  # by the selection that is read
    "7,A": [
        "7A", "A 7", "A/7", "A & 7", "['A', '7']", "7 a", "- A\n- 7", "A, 7, A", "Ａ，７", "(A) (7).",
        "Turn over A and 7", "TURN OVER A AND 7", "It's A and 7", "A and 7 must be turned", "$\\boxed{7, A}$",
        "The answer is \\boxed{A, 7}.", "\\text{A, 7}", "answer: A,7",
    ],
    "A": ["a"],
    "A,K": ["AK"],
    "4,7,A,K": ["K,4,7,A"],
}  # fmt: skip
UNREADABLE = [
    "", "-", "none", "all", "A, 5", "A and the 9", "47", "4,700", "A, 7.5", "7th and A", "A and four",
    "vowel and odd", "A, then the first one", "Turn over A because it is a vowel, and 7 because it is odd.",
    "7 and the vowel", "A or 7", "not A, 7", "Turn over A, not 7", "don't turn A", "all but A", "7 without A",
    "2 cards: A and 7", "4 cards", "A vowel must be checked: 7", "turn over a and 7", "only k matters, so A",
    "Turn AK and 7", "ak", "x" * 5_000,
]  # fmt: skip


def test_a_selection_is_read_however_it_is_written_and_no_other_text() -> None:
    read = {text: selection for selection, texts in READ.items() for text in texts}
    assert {text: read_cards(text, CARDS) for text in read} == read
    assert {text: found for text in UNREADABLE if (found := read_cards(text, CARDS))} == {}
    assert read_cards("A" + " " * 2_000, CARDS) is None
    pronouns = {"12": "12", "I, 12": "12,I", "I12": "12,I", "1, 2": None, "I think K": None, "i": "I"}
    assert {text: read_cards(text, PRONOUNS) for text in pronouns} == pronouns


_cards = st.lists(st.sampled_from([*"AEIOUBKXZ123456789", "12", "47", "0"]), min_size=2, max_size=6, unique=True)


@settings(max_examples=60)
@given(_cards, st.data())
def test_every_selection_is_read_in_any_order_and_is_its_own_normal_form(
    cards: list[str], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(cards), min_size=1, unique=True))
    normal = normal_cards(chosen)
    assert read_cards(normal, cards) == normal
    for order in list(permutations(chosen))[:4]:
        for text in (", ".join(order), " and ".join(order), "\n".join(order).lower(), f"Cards: {' and '.join(order)}"):
            assert read_cards(text, cards) == normal


def test_vowels_and_odd_numbers_must_be_turned() -> None:
    assert (right_cards(CARDS), matching_cards(CARDS)) == ("7,A", "4,A")
    assert (right_cards(("12", "E", "13", "B")), right_cards(("K", "4"))) == ("13,E", "")
    shown = {"A": True, "7": True, "12": True, "0": True, "Y": False, "a": False, "07": False}
    assert {text: is_card(text) for text in shown} == shown
