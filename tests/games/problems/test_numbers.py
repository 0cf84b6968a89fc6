"""Numbers: what people write is read exactly, and what could mean two things is not read at all."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.numbers import MAX_DIGITS, read_number

READ = {
    "18": "18",
    "18.": "18",
    "18\n": "18",
    "18!": "18",
    "007": "7",
    "0": "0",
    "-0": "0",
    "= 18": "18",
    "x = 18": "18",
    "(18)": "18",
    '"18"': "18",
    "**-5**": "-5",
    "#### 18": "18",
    "answer:18": "18",
    "\\boxed{18}": "18",
    "\\$18": "18",
    "$18$": "18",
    "The answer is 18": "18",
    "The answer is **18**.": "18",
    "Final answer: -18": "-18",
    "18 – all of them": "18",
    "18 (18.00)": "18",
    "She goes 3 times": "3",
    "+18": "18",
    "-5": "-5",
    "\u22125": "-5",
    "minus 5": "-5",
    "negative 5 dollars": "-5",
    "-$5": "-5",
    "$-5": "-5",
    "$1,234.50": "2469/2",
    "1,234,567.89": "123456789/100",
    "1 234": "1234",
    "1\u00a0234\u202f567": "1234567",
    "1'234": "1234",
    "1\u2019234": "1234",
    "€ 20": "20",
    "€20,000": "20000",
    "US$20": "20",
    "$.50": "1/2",
    "18 dollars": "18",
    "20 kg": "20",
    "20kg": "20",
    "50%": "50",
    "18 %": "18",
    "3/4": "3/4",
    "6/8": "3/4",
    "3 / 4": "3/4",
    "-7/2": "-7/2",
    "1 1/2": "3/2",
    "-1 1/2": "-3/2",
    "½": "1/2",
    "1½": "3/2",
    "3⁄4": "3/4",
    "0.5": "1/2",
    ".5": "1/2",
    "2.50": "5/2",
    "1.234": "617/500",
    "1.5e3": "1500",
    "1E-3": "1/1000",
    "3 million": "3000000",
    "3 hundred": "300",
    "$ 3.5 million": "3500000",
    "１８": "18",
    # Calculations whose result is stated, restatements, LaTeX, quotes, dashes, meters and powers of ten
    "9 * 2 = 18": "18",
    "The answer is 9 * $2 = $18.": "18",
    "(4 + 5) * 2 = 9 * 2 = 18": "18",
    "-3 x 2 = -6": "-6",
    "12 \\times 12 = 144": "144",
    "18 (eighteen)": "18",
    "The answer is 120,021 (one hundred and twenty thousand twenty-one).": "120021",
    "18 = 18.0": "18",
    "18. So the answer is 18.": "18",
    "1{,}234": "1234",
    "\\frac{3}{4}": "3/4",
    "-\\dfrac{3}{4}": "-3/4",
    "1\\frac{1}{2}": "3/2",
    "\\boxed{18 \\text{ dollars}}": "18",
    "'18'": "18",
    "‘18’": "18",
    "The answer is '18'.": "18",
    "- 18": "-18",
    "The answer is: - 18": "-18",
    "540 m": "540",
    "It is 540 m.": "540",
    "–5": "-5",
    "x = –5": "-5",
    "The answer – 18": "18",
    "The answer—18—is right": "18",
    "1.5 x 10^3": "1500",
    "1.5 × 10^{-3}": "3/2000",
    "2 * 10^2": "200",
}

UNREADABLE = [
    *(
        "",
        " ",
        "two",
        "no idea",
        "$",
        "nan",
        "inf",
        "-inf",
        "∞",
        "18 or 20",
        "18 or more",
        "3-5",
        "3 - 5",
        "3–5",
    ),
    # The same numeral twice is one number only where the second states the first again.
    *("12 * 12", "12*12", "12 x 12", "12 times 12", "12 by 12", "(5)(5)", "(5) (5)", "5(5)", "5 / 5 / 5", "12 and 12"),
    *("2 hours 2 minutes", "2 hours and 2 minutes", "2 boys, 2 girls", "18 (nineteen)", "18 (eighteen) (twelve)"),
    *(
        "9 * 2 = ",
        "x + 9 * 2 = 18",
        "9 * 2 = 18 or 20",
        "5 M",
        "$5 m",
        "5 m 20 cm",
        "—5",
        "18–20",
        "18 – 20",
        "3 - - 5",
    ),
    *("7 - 18", "- 18\n- 20", "1.5 x 11^3", "1.5 x 10^", "'18", "\\frac{3}{0}", "\\frac{a}{4}", "1{,}23"),
    *("--18", "+-18", "1 2", "18 200 3", "12 34", "1, 2", "1,23", "18,5", "12,34", "1,234,56", "1,2345"),
    *("1.234,50", "1 000,50", "0,500", "1.2.3", "1..2", "12:30", "12:12", "3/4/2024", "1/2/3", "1/0", "18/", "1 3/2"),
    *(
        "at least 18",
        "about 18",
        "~18",
        "<18",
        "not 18",
        "isn't 18",
        "less than 18",
        "5k",
        "$5 K",
        "5 M",
        "5m",
        "5bn",
        "5$ k",
        "3 millionUS$",
    ),
    *("x2", "A18", "1_000", "0x10", "5th", "18-year-old", "3^2", "5²", "18²", "√18", "9*2", "1e5e5"),
    *("3 dozen", "3 and a half", "half of 18", "3 hundred thousand", "3 million 200 thousand", "Ⅷ", "٣", "①"),
    *("1e31", "1e1000", "1e999999999", "1e-999999999", "9" * (MAX_DIGITS + 1), "9" * 5_000, "1" + ",000" * 300),
    *("\u202e81", "18" + " " * 2_000, "[[[[18]]], 19]", "18 dollars and 50 cents"),
]


@pytest.mark.parametrize(("text", "number"), READ.items())
def test_what_people_write_is_read_exactly(text: str, number: str) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_is_no_number_or_could_be_two_is_not_read(text: str) -> None:
    assert read_number(text) is None


_whole = st.integers(-(10**15), 10**15)
_fractions = st.builds(Fraction, _whole, st.integers(1, 10**9))


def forms(value: Fraction) -> list[str]:
    """Return a fraction in every accepted form that can hold it."""
    sign, size = "-" if value < 0 else "", abs(value)
    over, under = size.numerator, size.denominator
    written = [str(value), f"{sign}{over} / {under}", f"{sign}{over * 3}/{under * 3}", f"\u2212{over}/{under}"]
    if not sign:
        written.pop()
    if under > 1 and over > under:
        written.append(f"{sign}{over // under} {over % under}/{under}")
    if under == 1:
        grouped = f"{over:,}"
        written += [f"{sign}{grouped.replace(',', mark)}" for mark in ",' \u00a0\u202f\u2019"]
        written += [
            f"{sign}${grouped}.00",
            f"{sign}{over} kg",
            f"It is {sign}{over}.",
            f"{sign}{over}e0",
            f"{sign}{over}%",
        ]
        if over % 1_000 == 0:
            written.append(f"{sign}{over // 1_000} thousand")
    return written


@given(_fractions | _whole.map(Fraction))
def test_a_fraction_in_any_form_is_read_as_itself(value: Fraction) -> None:
    assert {read_number(form) for form in forms(value)} == {str(value)}


@given(st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=6))
def test_a_decimal_is_read_as_itself(value: object) -> None:
    assert read_number(f"{value:,f}") == read_number(f"${value:f}".replace("$-", "-$")) == str(Fraction(str(value)))


_alphabet = st.sampled_from(
    [*"0123456789" * 2, *" ,.'/-+$%eE()*=:\n½²", "−", "–", " million", " or ", "k", "\u00a0", "Ⅷ"]
)


@given(st.text(max_size=60) | st.lists(_alphabet, max_size=25).map("".join))
def test_reading_never_raises_and_a_normal_form_is_read_as_itself(text: str) -> None:
    number = read_number(text)
    if number is not None:
        assert str(Fraction(number)) == number
        assert read_number(number) == number


@pytest.mark.parametrize("unit", ["1 ", "1/", "1,000", "1'", "9", "-", "$", "e1", "1.", " 1/2", "½"])
def test_a_long_text_is_refused(unit: str) -> None:
    for length in (990, 1_000_000):
        assert read_number((unit * length)[:length]) is None
