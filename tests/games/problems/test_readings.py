"""The readings: ours, and those of lm-evaluation-harness, compared with its own filters."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.numbers import Reading, read_as

pytestmark = pytest.mark.promise("The readings of lm-evaluation-harness are its own filters.")

# reply (argument, answer) -> what `exact`, `strict` and `flexible` read
REPLIES: dict[tuple[str, str], tuple[str | None, str | None, str | None]] = {
    ("", "18"): ("18", "18", "18"),
    ("", "18 dollars"): ("18", "18", "18"),
    ("", "18 or 20"): (None, "18", "20"),
    ("", "The answer is 18."): ("18", None, "18"),
    ("", "$1,234.50"): ("2469/2", None, "2469/2"),
    ("", "18.00"): ("18", "18", "18"),
    ("9 * 2 = 18", "none"): (None, None, "18"),
    ("9 * 2 = 18 #### 18", "#### 18"): ("18", "18", "18"),
    ("", "12 * 12"): (None, "12", "12"),
    ("", "3/4"): ("3/4", "3", "4"),
    ("", "- 18"): ("-18", None, "18"),
    ("So 18.", "..."): (None, None, None),
    ("So 18.", "$"): (None, None, "18"),
    ("", "1.2.3"): (None, None, None),
    ("", ""): (None, None, None),
}


def test_each_reading_reads_what_the_page_says() -> None:
    for (argument, answer), read in REPLIES.items():
        assert tuple(read_as(reading, answer, argument) for reading in get_args(Reading)) == read, (argument, answer)


def harness(pattern: str, text: str, last: bool) -> str:
    """Return what the harness's regex filter and exact_match's regexes_to_ignore leave of a text (lm_eval 0.4)."""
    found = re.findall(pattern, text)
    if not found:
        return "[invalid]"
    match = found[-1 if last else 0]
    if isinstance(match, tuple):
        match = next(group for group in match if group)
    match = match.strip()
    for ignored in (",", r"\$", "(?s).*#### ", r"\.$"):
        match = re.sub(ignored, "", match)
    return str(match)


_texts = st.lists(st.sampled_from([*"0123456789", *" .,-$%/=", "\n", "So ", "####"]), max_size=30).map("".join)


@given(_texts, _texts)
def test_they_are_the_harness_s_filters_on_the_same_text(argument: str, answer: str) -> None:
    """Its filters on the argument and the answer one after the other, the answer with its mark before it."""
    flexible = harness(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", f"{argument}\n{answer}", last=True)
    strict = harness(r"#### (\-?[0-9\.\,]+)", f"#### {answer.rpartition('#### ')[2].strip()}", last=False)
    for reading, told in (("flexible", flexible), ("strict", strict)):
        read = read_as(reading, answer, argument)  # type: ignore[arg-type]
        number = re.fullmatch(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", told)
        assert (read is None) == (number is None)
        if read is not None:
            assert abs(eval(read) - float(told)) <= 1e-9 * abs(float(told))  # noqa: S307
