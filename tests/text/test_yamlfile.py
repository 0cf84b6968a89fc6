from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from parley.errors import UsageError
from parley.text.yamlfile import Slug, is_slug, load_yaml, validated


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(default=1, ge=1, strict=True)
    color: str = "red"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Slug
    parts: list[Inner] = []
    by_name: dict[Slug, Inner] = {}
    inner: Inner = Inner()
    maybe: list[Inner] | None = None


def load(folder: Path, text: str | bytes) -> Any:
    path = folder / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path)


def problem(content: Any) -> str:
    with pytest.raises(UsageError) as caught:
        validated(Outer, content, "file.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["a", "7", "qwen3-8b", "a.b_c-d", "A" * 64])
def test_plain_names_are_slugs(name: str) -> None:
    assert is_slug(name)


NO_SLUGS = ["", ".", "..", "a..b", "a/b", "/a", "a\\b", "a b", " a", "a\n", "a=b", ".a", "a.", "-a", "a-", "_a", "é"]


@pytest.mark.parametrize("name", [*NO_SLUGS, "a\0", "a{b}", "$a", "~", "*", "A" * 65, "１"])
def test_other_names_are_no_slugs(name: str) -> None:
    assert not is_slug(name)


@given(st.text(st.characters(), max_size=70))
def test_a_slug_is_one_harmless_part_of_a_path(name: str) -> None:
    if is_slug(name):
        assert name.isascii()
        assert Path("folder", name).parts == ("folder", name)


def test_yaml_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, "a: [1, 2.5, yes, ~]\nb: {c: 'ü'}\n") == {"a": [1, 2.5, True, None], "b": {"c": "ü"}}


def test_merge_keys_of_yaml_are_read(tmp_path: Path) -> None:
    text = "base: &base {x: 1, y: 2}\nother:\n  <<: *base\n  y: 3\n"
    assert load(tmp_path, text)["other"] == {"x": 1, "y": 3}


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_yaml(tmp_path / "no.yaml")
    assert str(caught.value) == f"{tmp_path / 'no.yaml'}: no such file"


def test_a_folder_is_not_a_yaml_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_yaml(tmp_path)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: [1\n", ", line 2"),
        ("a: 1\n\tb: 2\n", ", line 2"),
        ("a: b: c\n", ", line 1"),
        ("a: 'open\n", ", line 2"),
        ("a: *nowhere\n", ", line 1"),
        ("a: 1\n---\nb: 2\n", ", line 2"),
        ("a: !!python/object/apply:os.system [ls]\n", ", line 1"),
        ("a: !unknown x\n", ", line 1"),
        ("? [a]\n: 1\n", ", line 1"),
        ("a: 2024-13-45\n", ""),
        ("a: " + "9" * 5000 + "\n", ""),
        ("a: \0\n", ""),
        (b"a: \xff\xfe\n", ""),
        ("[" * 100_000, ""),
        ("{a: " * 20_000, ""),
    ],
)
@pytest.mark.slow
def test_yaml_that_does_not_parse_is_one_line_with_its_place(tmp_path: Path, text: str | bytes, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'file.yaml'}{where}")
    assert "not valid YAML" in message or "cannot be read" in message
    assert "\n" not in message


@pytest.mark.parametrize("text", ["a: 1\na: 1\n", "a: {b: 1, b: 2}\n", "- {1: x, 1: y}\n", "a: 1\n'a': 2\n"])
def test_repeated_keys_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"line \d, column \d+: not valid YAML: key .* is repeated; keep one"):
        load(tmp_path, text)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp()
    message = ""
    try:
        load(folder, content)
    except UsageError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


def test_what_is_valid_is_returned() -> None:
    made = validated(Outer, {"name": "x", "parts": [{"size": 2}]}, "file.yaml")
    assert made.parts == [Inner(size=2)]


@pytest.mark.parametrize("content", [None, [], "text", 7, [{"name": "x"}]])
def test_a_file_must_hold_a_mapping(content: Any) -> None:
    assert problem(content).startswith("file.yaml: must be a mapping of keys to values, not ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nam": "x"}, "file.yaml: name: missing; add it (and 1 more)"),
        ({}, "file.yaml: name: missing; add it"),
        ({"name": "x", "part": []}, "file.yaml: part: unknown key; did you mean 'parts'?"),
        (
            {"name": "x", "zzz": 1},
            "file.yaml: zzz: unknown key; known keys are: name, parts, by_name, inner, maybe",
        ),
        ({"name": "x", "inner": {"colour": 1}}, "file.yaml: inner.colour: unknown key; did you mean 'color'?"),
        ({"name": "x", "parts": [{}, {"sice": 1}]}, "file.yaml: parts[1].sice: unknown key; did you mean 'size'?"),
        (
            {"name": "x", "by_name": {"k": {"sice": 1}}},
            "file.yaml: by_name.k.sice: unknown key; did you mean 'size'?",
        ),
        ({"name": "x", "maybe": [{"sice": 1}]}, "file.yaml: maybe[0].sice: unknown key; did you mean 'size'?"),
        (
            {"name": "x", "inner": {"size": 0}},
            "file.yaml: inner.size: 0: input should be greater than or equal to 1",
        ),
        ({"name": "x", "inner": {"size": True}}, "file.yaml: inner.size: True: input should be a valid integer"),
        (
            {"name": "../x"},
            "file.yaml: name: '../x': use up to 64 letters, digits, '.', '_' or '-', beginning and ending "
            "with a letter or digit",
        ),
    ],
)
def test_the_first_problem_is_one_line_of_file_key_value_and_remedy(content: Any, message: str) -> None:
    assert problem(content) == message


@pytest.mark.parametrize(
    "key", ["x[0]", "[", "list[int]", "dataSource", "Source", "a.b", "", " ", "a\nb", "\u2028", "é"]
)
def test_an_unknown_key_of_any_form_is_named(key: str) -> None:
    message = problem({"name": "x", key: 1})
    assert message.startswith("file.yaml: ")
    assert "unknown key" in message
    assert len(message.splitlines()) == 1


def test_a_long_value_is_shortened() -> None:
    assert len(problem({"name": "x" * 10_000})) < 250


def test_a_huge_number_is_reported_like_any_other() -> None:
    assert problem({"name": "x", "inner": {"size": -(16**5000)}}).startswith("file.yaml: inner.size: ")


def test_a_value_cannot_break_the_line() -> None:
    assert len(problem({"name": "a\n\u2028b"}).splitlines()) == 1
