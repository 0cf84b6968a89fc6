"""Cards: which selections are read, and which texts could mean another one."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.cards import is_card, matching_cards, normal_cards, read_cards, right_cards

CARDS = ("A", "K", "4", "7")
READ = {
    **dict.fromkeys(
        ["A, 7", "7,A", "A and 7", "A AND 7", "7A", "A7", "A 7", "A\n7", "A;7", "A/7", "A & 7", "[A,7]", "['A', '7']"],
        "7,A",
    ),
    **dict.fromkeys(["a, 7", "7 a", "a and 7", "**A**, **7**", "- A\n- 7", "A, 7, A", "Ａ，７", "(A) (7)."], "7,A"),
    **dict.fromkeys(
        [
            *("Turn over A and 7", "TURN OVER A AND 7", "Cards: A and 7", "The cards A and 7.", "I choose: A, 7"),
            *("I would turn A and 7", "It's A and 7", "A and 7 must be turned", "answer: A,7"),
        ],
        "7,A",
    ),
    "A": "A",
    "a": "A",
    "7": "7",
    "AK": "A,K",
    "K,4,7,A": "4,7,A,K",
}
UNREADABLE = [
    *(
        "",
        "-",
        "none",
        "all",
        "A, 5",
        "A, B",
        "A and the 9",
        "47",
        "12",
        "4,700",
        "A, 7.5",
        "7th and A",
        "vowel and odd",
        "A and four",
        "A, then the first one",
        "7 and the vowel",
        "Turn over A because it is a vowel, and 7 because it is odd.",
    ),
    *(
        "A or 7",
        "not A, 7",
        "Turn over A, not 7",
        "don't turn A",
        "all but A",
        "7 without A",
        "2 cards: A and 7",
        "4 cards",
    ),
    *(
        "A vowel must be checked: 7",
        "turn over a and 7",
        "Turn over a, 7",
        "only k matters, so A",
        "Turn AK and 7",
        "ak",
    ),
    *("x" * 5_000, "A" + " " * 2_000),
]


@pytest.mark.parametrize(("text", "selection"), READ.items())
def test_a_selection_is_read_however_it_is_written(text: str, selection: str) -> None:
    assert read_cards(text, CARDS) == selection


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_text_that_names_no_selection_or_several_is_not_read(text: str) -> None:
    assert read_cards(text, CARDS) is None


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("12", "12"),
        ("I, 12", "12,I"),
        ("I12", "12,I"),
        ("1, I", "1,I"),
        ("1, 2", None),
        ("I think K", None),
        ("i", "I"),
    ],
)
def test_a_number_is_one_card_and_the_pronoun_is_none(text: str, selection: str | None) -> None:
    assert read_cards(text, ("I", "K", "12", "1")) == selection


_cards = st.lists(st.sampled_from([*"AEIOUBKXZ123456789", "12", "47", "0"]), min_size=2, max_size=6, unique=True)


@given(_cards, st.data())
def test_every_selection_is_read_in_any_order_and_is_its_own_normal_form(
    cards: list[str], data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(cards), min_size=1, unique=True))
    normal = normal_cards(chosen)
    assert read_cards(normal, cards) == normal
    for order in list(permutations(chosen))[:6]:
        for text in (", ".join(order), " and ".join(order), "\n".join(order).lower(), f"Cards: {' and '.join(order)}"):
            assert read_cards(text, cards) == normal


@pytest.mark.parametrize("text", ["\\boxed{A, 7}", "$\\boxed{7, A}$", "The answer is \\boxed{A, 7}.", "\\text{A, 7}"])
def test_latex_around_a_selection_is_no_word(text: str) -> None:
    assert read_cards(text, ("A", "K", "4", "7")) == "7,A"


_words = st.sampled_from(
    [*CARDS, "a", "k", "and", "the", "card", "I", "or", ",", ".", "7A", "it's", "5", " ", "vowel"]
)


@given(st.text(max_size=60) | st.lists(_words, max_size=12).map(" ".join))
@pytest.mark.slow
def test_reading_never_raises_and_finds_only_cards_that_are_there(text: str) -> None:
    selection = read_cards(text, CARDS)
    if selection is not None:
        assert set(selection.split(",")) <= set(CARDS)
        assert read_cards(selection, CARDS) == selection


def test_vowels_and_odd_numbers_must_be_turned() -> None:
    assert right_cards(CARDS) == "7,A"
    assert matching_cards(CARDS) == "4,A"
    assert right_cards(("12", "E", "13", "B")) == "13,E"
    assert right_cards(("K", "4")) == ""


@pytest.mark.parametrize(
    ("text", "card"), [("A", True), ("7", True), ("12", True), ("0", True), ("Y", False), ("a", False), ("07", False)]
)
def test_a_card_shows_a_capital_or_a_number(text: str, card: bool) -> None:
    assert is_card(text) is card
