import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.text import by_number, last_part, one_line, table, valid_unicode, without_folders

pytestmark = pytest.mark.promise("Any text becomes printable, and paths name no user.")

ANY_TEXT = st.text(alphabet=st.characters(), max_size=60)  # surrogates and controls included


def test_every_separator_becomes_one_space_and_what_prints_nothing_goes() -> None:
    for separator in "\n", "\r\n", "\t", "\x1c", "\x85", "\u2028", "\xa0":
        assert one_line(f"a{separator}b") == one_line(f" a {separator}{separator} b\n") == "a b", separator
    for hidden in "\0", "\x9b", "\u200b", "\u202e", "\ufeff", "\ue000", "\ud800":
        assert one_line(f"a{hidden}b") == "ab", hidden
        assert one_line(f"a {hidden} b") == "a b", hidden
    assert one_line("\n\0" * 50 + "abcdef", 3) == "abc"
    text = 'Größe: 17 – "ja", 共識 17, נכון, e\u0301 🙂 {history_summary}'
    assert one_line(text) == text


@settings(max_examples=60)
@given(ANY_TEXT, st.integers(0, 40) | st.none())
def test_any_text_becomes_one_printable_line(text: str, limit: int | None) -> None:
    line = one_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert {unicodedata.category(c) for c in line}.isdisjoint({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
    assert line == line.strip()
    assert "  " not in line
    assert limit is None or len(line) <= limit
    assert one_line(line) == line


def test_lone_surrogates_become_replacement_characters_and_pairs_their_character() -> None:
    assert valid_unicode("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert valid_unicode("\ud83d\ude00") == "\U0001f600"


def test_paths_are_reduced_to_their_last_part_and_name_no_user() -> None:
    rows = [
        ("/home/alice/templates/x.jinja", "x.jinja"),
        ("/home/alice/", "~"),
        ("~/models/x", "x"),
        ("./a/b", "b"),
        ("/home/al ice/My Models/x", "x"),
        ("file:///home/alice/x", "x"),
        ('{"model": "/home/alice/d/draft", "n": 3}', '{"model": "draft", "n": 3}'),
        ("a=/home/alice,b=/srv/alice/x", "a=~,b=x"),
        *((text, text) for text in ("owner/name", "a/b/c", "1/2", "--flag", "https://h.example/a/b", "")),
    ]
    for text, expected in rows:
        assert without_folders(text) == expected
    parts = [("models/x", "x"), ("x", "x"), ("a/b/", "b"), ("../..", ".."), ("/home/alice", "~"), ("~alice", "~")]
    for path, expected in parts:
        assert last_part(path) == expected


def test_a_table_is_aligned_with_numbers_to_the_right_and_names_are_sorted_by_their_number() -> None:
    assert table(("name", "count", "s"), [("a", 7, 1.25), ("long\n\x1bname", 12345, 10.0)]) == [
        "name       count     s",
        "a              7   1.2",
        "long name  12345  10.0",
    ]
    names = ["agent_10", "agent_2", "b-agent-3", "agent_²", "Zoe", "b-agent-11"]
    assert sorted(names, key=by_number) == ["Zoe", "agent_2", "agent_10", "agent_²", "b-agent-3", "b-agent-11"]
