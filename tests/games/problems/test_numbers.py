"""Numbers: what people write is read exactly, and what could mean two things is not read at all."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.numbers import MAX_DIGITS, read_number

pytestmark = pytest.mark.promise("Numbers are read exactly, and what could mean two things is not read.")

# What docs/reference/problems.md says is read; the property below has the forms of any number.
READ = {  # by the number that is read
    "18": [
        "18.", "#### 18", "\\boxed{18}", "x = 18", "**18**", "'18'", "‘18’", "１８", "answer:18",
        "\\boxed{18 \\text{ dollars}}", "The answer is **18**.", "18 – all of them", "18 %", "18 (eighteen)",
        "18 = 18.0", "18. So the answer is 18.", "9 * 2 = 18", "18 (18.00)", "The answer is 9 * $2 = $18.",
        "(4 + 5) * 2 = 9 * 2 = 18", "The answer – 18", "The answer—18—is right",
    ],
    "120021": ["The answer is 120,021 (one hundred and twenty thousand twenty-one)."],
    "-5": ["–5", "\u22125", "minus 5", "negative 5 dollars", "-$5", "$-5", "x = –5", "- 5", "**-5**"],
    "-18": ["Final answer: -18"],
    "20": ["US$20", "20kg", "€ 20"],
    "2469/2": ["$1,234.50"],
    "1/2": ["$.50", "½", ".5"],
    "3/2": ["1½", "1\\frac{1}{2}"],
    "3/4": ["3⁄4"],
    "-3/2": ["-1 1/2"],
    "-3/4": ["-\\dfrac{3}{4}"],
    "1500": ["1.5 x 10^3"],
    "3/2000": ["1.5 × 10^{-3}"],
    "1/1000": ["1E-3"],
    "3500000": ["$ 3.5 million"],
    "1234567": ["1\u00a0234\u202f567"],
    "617/500": ["1.234"],
    "0": ["-0"],
}  # fmt: skip
UNREADABLE = [
    "", " ", "two", "$", "nan", "∞", "no idea", "Ⅷ", "٣", "①", "\u202e81",
    # Two numbers, or one that is not stated again
    "18 or 20", "18 or more", "3-5", "3 - 5", "3–5", "18 – 20", "7 - 18", "- 18\n- 20", "18 dollars and 50 cents",
    "12 * 12", "12 x 12", "12 by 12", "(5)(5)", "5(5)", "5 / 5 / 5", "12 and 12", "2 hours 2 minutes", "1 2",
    "18 200 3", "2 boys, 2 girls", "18 (nineteen)", "9 * 2 = ", "x + 9 * 2 = 18", "9 * 2 = 18 or 20", "[[[[18]]], 19]",
    # Two meanings
    "1,23", "18,5", "1,2345", "1,234,56", "1.234,50", "1 000,50", "0,500", "1.2.3", "1{,}23", "12:30", "3/4/2024",
    "5k", "$5 K", "5 M", "5m", "5bn", "5$ k", "5 m 20 cm", "18²", "3^2", "√18", "1_000", "0x10", "5th", "x2",
    "1.5 x 10^", "—5", "--18", "+-18", "3 - - 5", "'18", "\\frac{3}{0}", "\\frac{a}{4}", "1/0", "18/", "1 3/2",
    "18-year-old",
    # Bounds, guesses, denials and words
    "at least 18", "about 18", "~18", "<18", "not 18", "isn't 18", "less than 18", "3 dozen", "3 and a half",
    "half of 18", "3 hundred thousand", "3 million 200 thousand", "3 millionUS$", "1e31", "1e999999999",
    "9" * (MAX_DIGITS + 1),
]  # fmt: skip


def test_what_people_write_is_read_exactly_and_what_could_be_two_is_not_read() -> None:
    read = {text: number for number, texts in READ.items() for text in texts}
    assert {text: read_number(text) for text in read} == read
    assert {text: number for text in UNREADABLE if (number := read_number(text)) is not None} == {}


_whole = st.integers(-(10**15), 10**15)
_fractions = st.builds(Fraction, _whole, st.integers(1, 10**9))


def forms(value: Fraction) -> list[str]:
    """Return a fraction in every accepted form that can hold it."""
    sign, size = "-" if value < 0 else "", abs(value)
    over, under = size.numerator, size.denominator
    written = [str(value), f"{sign}{over} / {under}", f"{sign}{over * 3}/{under * 3}"]
    if sign:
        written.append(f"\u2212{over}/{under}")
    if under > 1 and over > under:
        written.append(f"{sign}{over // under} {over % under}/{under}")
    if under == 1:
        grouped = f"{over:,}"
        written += [f"{sign}{grouped.replace(',', mark)}" for mark in ",' \u00a0\u202f\u2019"]
        around = ("{} kg", "It is {}.", "{}e0", "{}%", "${}.00", '"{}"', "({})", "= {}", "{}!", "{}\n", "#### {}")
        written += [form.format(f"{sign}{over}") for form in around]
        if over % 1_000 == 0:
            written.append(f"{sign}{over // 1_000} thousand")
    return written


@given(_fractions | _whole.map(Fraction))
def test_a_fraction_in_any_form_is_read_as_itself(value: Fraction) -> None:
    found = {form: read_number(form) for form in forms(value)}
    assert found == dict.fromkeys(found, str(value))


_alphabet = st.sampled_from(
    [*"0123456789" * 2, *" ,.'/-+$%eE()*=:\n½²", "−", "–", " million", " or ", "k", "\u00a0", "Ⅷ"]
)


@given(st.text(max_size=60) | st.lists(_alphabet, max_size=25).map("".join))
def test_reading_never_raises_and_a_normal_form_is_read_as_itself(text: str) -> None:
    number = read_number(text)
    if number is not None:
        assert str(Fraction(number)) == number
        assert read_number(number) == number


@pytest.mark.parametrize("unit", ["1 ", "1/", "1,000", "e1", " 1/2"])
def test_a_long_text_is_refused_at_once(unit: str) -> None:
    for length in (990, 1_000_000):
        assert read_number((unit * length)[:length]) is None
