"""The page and the data files: what a browser makes of them, and what hostile text cannot make of it."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from parley.play.simulate import simulate
from parley.report.view.chosen import chosen
from parley.report.view.index import index_content, read_rows
from parley.report.view.packing import exact
from parley.report.view.writing import data_js, page_html
from support.hostile import TEXTS
from support.studies import StudyFactory
from support.viewed import Json, index_of, unpacked


class Tags(HTMLParser):
    """The elements of a page as a browser finds them: names, attributes, and what scripts and styles hold."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: dict[int, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.cdata_elem:  # inside of a script or a style
            self.inside[len(self.found) - 1] = self.inside.get(len(self.found) - 1, "") + data


@pytest.fixture
def index(study_factory: StudyFactory) -> Json:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 1})
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    shown = chosen(study, {}, 100, journals=False)
    return index_content(shown, read_rows(shown.parts))


def parsed(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_the_page_has_the_index_and_loads_nothing(index: Json) -> None:
    html = page_html(index)
    assert index_of(html) == index
    tags = parsed(html)
    assert not [attrs for _, attrs in tags.found if "src" in attrs]
    assert {attrs["href"] for _, attrs in tags.found if "href" in attrs} <= {"data:,"}


def test_the_policy_allows_what_is_in_the_page_by_its_hash_and_nothing_else(index: Json) -> None:
    tags = parsed(page_html(index))
    [policy] = [a["content"] for t, a in tags.found if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    assert rules["default-src"] == "'none'"
    held = [tags.inside[place] for place, (tag, attrs) in enumerate(tags.found) if tag == "script" and not attrs]
    styles = [tags.inside[place] for place, (tag, _) in enumerate(tags.found) if tag == "style"]
    for rule, [text], more in (("script-src", held, " 'strict-dynamic'"), ("style-src", styles, "")):
        told = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{told}'{more}"
    assert not {"connect-src", "object-src", "frame-src"} & set(rules)  # as default-src has them


@pytest.mark.parametrize("text", [*TEXTS, "</script><script>alert(1)</script>", "<!--<script>", "]]>", "&quot;"])
def test_hostile_text_is_no_part_of_the_page(index: Json, text: str) -> None:
    plain = [tag for tag, _ in parsed(page_html(index)).found]
    index["title"] = text
    index["conditions"][0]["label"] = text
    index["simulations"]["damaged"] = [text or None, None, None, None]
    html = page_html(index)
    found = [tag for tag, _ in parsed(html).found]
    assert [tag for tag in found if tag not in ("ul", "li", "p")] == [tag for tag in plain if tag != "p"]
    assert index_of(html)["title"] == text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]", html)


def test_without_javascript_a_table_counts_the_outcomes(index: Json) -> None:
    texts = [text.strip() for text in parsed(page_html(index)).texts if text.strip()]
    for condition in index["conditions"]:
        assert condition["label"] in texts
    place = texts.index("n=3")
    ended = [name == "no_consensus" for name in index["simulations"]["outcome"][:2]]
    assert texts[place + 1] == "2"
    assert int(texts[place + 1 + len(index["outcomes"])]) == sum(ended)


def test_a_long_table_says_what_it_leaves_out(index: Json) -> None:
    index["conditions"] = index["conditions"][:1] * 700
    html = page_html(index)
    assert html.count("<td>n=3</td>") == 500
    assert "200 more conditions" in html


@pytest.mark.parametrize("text", TEXTS)
def test_a_data_file_is_ascii_and_gives_back_what_it_was_given(text: str) -> None:
    script = data_js("0001-2", {"texts": [text]})
    assert script.isascii()
    assert script.startswith('parleyData("0001-2","')
    assert unpacked(script) == {"texts": [text.replace("\ud800", "\ufffd")]}


def test_numbers_are_those_that_a_browser_has() -> None:
    assert exact({"a": [2**53, -(2**53), 2**53 - 1, True, None, 0.5]}) == {
        "a": [str(2**53), str(-(2**53)), 2**53 - 1, True, None, 0.5]
    }
    assert exact((float("inf"), float("nan"))) == [None, None]
