"""The page and the data files: what a browser makes of them, and what hostile text cannot make of it."""

import base64
import hashlib
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.report.explorer.game import exact
from parley.report.explorer.index import index_content, part_rows
from parley.report.explorer.selection import select
from parley.report.explorer.site import data_js, page_html
from support.figures import study_of
from support.pages import Json, Page, index_of, small_played, unpacked
from support.replies import TEXTS

pytestmark = pytest.mark.promise("Hostile text is no part of the explorer's page; its policy allows nothing else.")

ODD = "[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]"


@pytest.fixture(scope="module")
def index() -> Json:
    shown = select(small_played(study_of), 100)
    return index_content(shown, [part_rows(part) for part in shown.parts])


@pytest.fixture(scope="module")
def page(index: Json) -> Page:
    return Page(page_html(index))


def test_the_page_has_the_index_and_allows_what_is_in_it_by_its_hash_and_nothing_else(index: Json, page: Page) -> None:
    assert index_of(page_html(index)) == index
    assert not [attrs for _, attrs in page.tags if "src" in attrs]
    assert {attrs["href"] for _, attrs in page.tags if "href" in attrs} <= {"data:,"}
    [policy] = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules["default-src"] == "'none'"
    held = [page.inside[place] for place, (tag, attrs) in enumerate(page.tags) if tag == "script" and not attrs]
    styles = [page.inside[place] for place, (tag, _) in enumerate(page.tags) if tag == "style"]
    for rule, [text], more in (("script-src", held, " 'strict-dynamic'"), ("style-src", styles, "")):
        told = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{told}'{more}"
    assert not {"connect-src", "object-src", "frame-src"} & set(rules)  # as default-src has them


def test_hostile_text_is_no_part_of_the_page(index: Json, page: Page) -> None:
    plain = [tag for tag, _ in page.tags if tag != "p"]
    first, *others = index["conditions"]
    for text in (*TEXTS, "</script><script>alert(1)</script>", "<!--<script>", "]]>", "&quot;"):
        rows = index["simulations"] | {"damaged": [text or None, None, None, None]}
        html = page_html(
            index | {"title": text, "conditions": [first | {"label": text}, *others], "simulations": rows}
        )
        assert [tag for tag, _ in Page(html).tags if tag not in ("ul", "li", "p")] == plain, repr(text)
        assert index_of(html)["title"] == text
        assert not re.search(ODD, html), repr(text)


def test_without_javascript_the_page_says_what_it_would_show(index: Json, page: Page) -> None:
    assert f"What was said in {len(index['simulations']['id'])} simulations of {index['study']} is" in page.words


@given(st.text())
@example("".join(TEXTS))
@example("\ud800")
@settings(max_examples=40)
def test_a_data_file_is_ascii_and_gives_back_what_it_was_given(text: str) -> None:
    script = data_js("0001-2", {"texts": [text]})
    assert script.isascii()
    assert script.startswith('parleyData("0001-2","')
    assert unpacked(script) == {"texts": [re.sub("[\ud800-\udfff]", "\ufffd", text)]}


def test_numbers_are_those_that_a_browser_has() -> None:
    assert exact({"a": [2**53, -(2**53), 2**53 - 1, True, None, 0.5]}) == {
        "a": [str(2**53), str(-(2**53)), 2**53 - 1, True, None, 0.5]
    }
    assert exact((float("inf"), float("nan"))) == [None, None]
