import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.text import by_number, last_part, one_line, table, valid_unicode, without_folders

ANY_TEXT = st.text(alphabet=st.characters(), max_size=60)  # surrogates and controls included


@pytest.mark.parametrize(
    "separator",
    ["\n", "\r", "\r\n", "\t", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\xa0", "\u3000"],
)
def test_every_line_or_paragraph_separator_becomes_one_space(separator: str) -> None:
    assert one_line(f"a{separator}b") == "a b"
    assert one_line(f"a {separator}{separator} b") == "a b"


@pytest.mark.parametrize(
    "hidden",
    [
        "\0",
        "\x07",
        "\x08",
        "\x1b",
        "\x7f",
        "\x9b",
        "\u200b",
        "\u200e",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\ue000",
        "\ud800",
    ],
)
def test_characters_that_print_nothing_are_dropped(hidden: str) -> None:
    assert one_line(f"a{hidden}b") == "ab"


def test_terminal_escape_sequences_lose_their_escape() -> None:
    assert one_line("\x1b[2Jcleared") == "[2Jcleared"


def test_visible_text_of_any_language_stays() -> None:
    text = 'Größe: 17 – "ja", 共識 17, נכון, e\u0301 🙂 {history_summary}'
    assert one_line(text) == text


def test_dropping_a_character_leaves_no_double_space() -> None:
    assert one_line("a \u200b b") == "a b"


def test_the_limit_counts_cleaned_characters() -> None:
    assert one_line("\n\0" * 50 + "abcdef", 3) == "abc"
    assert one_line("ab cdef", 3) == "ab"
    assert one_line("abc", 0) == ""


def test_without_a_limit_nothing_is_cut() -> None:
    assert len(one_line("x" * 100_000)) == 100_000


@given(ANY_TEXT, st.integers(0, 40) | st.none())
def test_any_text_becomes_one_printable_line(text: str, limit: int | None) -> None:
    line = one_line(text, limit)
    assert len(line.splitlines()) <= 1
    assert {unicodedata.category(c) for c in line}.isdisjoint({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
    assert line == line.strip()
    assert "  " not in line
    assert limit is None or len(line) <= limit


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)


def test_lone_surrogates_become_replacement_characters() -> None:
    assert valid_unicode("a\ud800b\udfff") == "a\ufffdb\ufffd"


def test_a_surrogate_pair_becomes_its_character() -> None:
    assert valid_unicode("\ud83d\ude00") == "\U0001f600"


@given(ANY_TEXT)
def test_any_text_can_be_stored_as_utf8(text: str) -> None:
    assert valid_unicode(text).encode("utf-8").decode("utf-8") == valid_unicode(text)


@given(st.text(max_size=60))
def test_text_without_surrogates_stays_as_it_is(text: str) -> None:
    assert valid_unicode(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/templates/x.jinja", "x.jinja"),
        ("/home/alice", "~"),
        ("/home/alice/", "~"),
        ("/Users/alice", "~"),
        ("~/models/x", "x"),
        ("~alice/models/x", "x"),
        ("./a/b", "b"),
        ("../a/b", "b"),
        ("/home/al ice/My Models/x", "x"),
        ("file:///home/alice/x", "x"),
        ('{"model": "/home/alice/d/draft", "n": 3}', '{"model": "draft", "n": 3}'),
        ("a=/home/alice,b=/srv/alice/x", "a=~,b=x"),
        ("a:/home/alice/x", "a:x"),
    ],
)
def test_paths_are_reduced_to_their_last_part(text: str, expected: str) -> None:
    assert without_folders(text) == expected


@pytest.mark.parametrize(
    "text", ["owner/name", "a/b/c", "xgrammar", "1/2", "--flag", "0.8", "https://h.example/a/b", ""]
)
def test_what_is_no_path_stays_as_it_is(text: str) -> None:
    assert without_folders(text) == text


@given(st.text(max_size=40))
def test_reducing_paths_twice_changes_nothing(text: str) -> None:
    assert without_folders(without_folders(text)) == without_folders(text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("models/x", "x"),
        ("x", "x"),
        ("a/b/", "b"),
        ("../..", ".."),
        ("/home/alice", "~"),
        ("~alice", "~"),
        ("~/x", "x"),
    ],
)
def test_the_last_part_of_a_path_names_no_user(path: str, expected: str) -> None:
    assert last_part(path) == expected


def test_a_table_is_aligned_with_numbers_to_the_right() -> None:
    assert table(("name", "count", "s"), [("a", 7, 1.25), ("long\n\x1bname", 12345, 10.0)]) == [
        "name       count     s",
        "a              7   1.2",
        "long name  12345  10.0",
    ]


def test_names_are_sorted_by_their_number() -> None:
    names = ["agent_10", "agent_2", "b-agent-3", "agent_²", "Zoe", "b-agent-11"]
    assert sorted(names, key=by_number) == ["Zoe", "agent_2", "agent_10", "agent_²", "b-agent-3", "b-agent-11"]
