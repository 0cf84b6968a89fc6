from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from parley.errors import FileError, UsageError
from parley.text.yamlfile import Slug, is_slug, load_yaml, plain, validated, yaml_text

pytestmark = pytest.mark.promise("What is wrong with a file is told in lines of file, key, value and remedy.")


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int = Field(default=1, ge=1, strict=True)
    color: Literal["red", "blue"] = "red"


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Slug
    parts: list[Inner] = []
    inner: Inner = Inner()
    maybe: list[Inner] | None = None


def load(folder: Path, text: str | bytes) -> Any:
    path = folder / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path)


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(UsageError) as caught:
        load(folder, text)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def problem(content: Any) -> str:
    with pytest.raises(UsageError) as caught:
        validated(Outer, content, "file.yaml")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_a_slug_is_one_harmless_part_of_a_path() -> None:
    for name in "a", "7", "qwen3-8b", "a.b_c-d", "A" * 64:
        assert is_slug(name)
    for name in "", "a..b", "a/b", "a\\b", "a b", "a\n", ".a", "a.", "-a", "a-", "_a", "é", "A" * 65, "１":
        assert not is_slug(name), name


def test_yaml_is_read(tmp_path: Path) -> None:
    assert load(tmp_path, "a: [1, 2.5, yes, ~]\nb: {c: 'ü'}\n") == {"a": [1, 2.5, True, None], "b": {"c": "ü"}}
    assert load(tmp_path, "base: &base {x: 1, y: 2}\nother:\n  <<: *base\n  y: 3\n")["other"] == {"x": 1, "y": 3}
    numbers = {"010": 10, "1:30": "1:30", "5e-1": 0.5, "0x1f": 31, "0o17": 15, "-.5": -0.5, "1_0": "1_0", "0-9": "0-9"}
    for text, value in numbers.items():
        assert load(tmp_path, f"a: {text}")["a"] == value, text
        assert load(tmp_path, yaml_text({"a": text}))["a"] == text  # a name that is a number is quoted
    assert load(tmp_path, "") is None
    assert [plain(text) for text in ("3", "[a, 2]", "[a", "a: 1\na: 2")] == [3, ["a", 2], "[a", "a: 1\na: 2"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"^{tmp_path / 'no.yaml'}: no such file$"):
        load_yaml(tmp_path / "no.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        load_yaml(tmp_path)
    assert "cannot be read" in refused(tmp_path, b"a: \xff\xfe\n")
    assert "cannot be read: it is larger than 200,000 bytes" in refused(tmp_path, "a: 1\n" + " " * 200_000)


def test_yaml_that_does_not_parse_is_one_line_with_its_place(tmp_path: Path) -> None:
    grown = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for name in "bcdef":
        grown += f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 10)}]\n"
    rows: list[tuple[str, ...]] = [
        ("a: [1\n", ", line 2"),
        ("a: 1\n---\nb: 2\n", ", line 2"),
        ("a: !!python/object/apply:os.system [ls]\n", ", line 1"),
        ("a: !!bool maybe\n", ""),
        ("? [a]\n: 1\n", ", line 1"),
        ("a: 2024-13-45\n", ""),
        ("a: " + "9" * 5000 + "\n", ""),
        ("a: \0\n", ""),
        ("[" * 1000, ""),
        ("a: &a [*a]\n", ""),
        (grown, ""),
        ("game: consensus\n seeds: 3\n", ", line 2, column 7", "indent by spaces as the keys beside it"),
        ("a: 1\n\tb: 2\n", ", line 2, column 1", "indent by spaces as the keys beside it"),
    ]
    for text, where, *remedy in rows:
        message = refused(tmp_path, text)
        assert message.startswith(f"{tmp_path / 'file.yaml'}{where}"), text[:40]
        assert all(said in message for said in ["not valid YAML", *remedy]), text[:40]
    for text in "a: {b: 1, b: 2}\n", "a: 1\n'a': 2\n":
        assert "is repeated; keep one" in refused(tmp_path, text), text


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.text("a:[]{}&*!?-'\n\t 1", max_size=30))
@pytest.mark.slow
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: str | bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    message = ""
    try:
        load(folder, content)
    except UsageError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


def test_a_problem_is_one_line_of_file_key_value_and_remedy() -> None:
    made = validated(Outer, {"name": "x", "parts": [{"size": 2}]}, "file.yaml")
    assert made.parts == [Inner(size=2)]
    sice = {"sice": 1}
    rows: list[tuple[Any, str]] = [
        (None, "must be a mapping of keys to values, not nothing"),
        ("root:x:0", "must be a mapping of keys to values, not one value"),  # what is no study is not quoted
        ({"nam": "x"}, "nam: unknown key; did you mean 'name'?"),
        ({"name": "x", "part": []}, "part: unknown key; did you mean 'parts'?"),
        ({"name": "x", "zzz": 1}, "zzz: unknown key; known keys are: name, parts, inner, maybe"),
        ({"name": "x", "parts": [{}, sice]}, "parts[1].sice: unknown key; did you mean 'size'?"),
        ({"name": "x", "maybe": [sice]}, "maybe[0].sice: unknown key; did you mean 'size'?"),
        ({"name": "x", "inner": {"size": 0}}, "inner.size: 0: input should be greater than or equal to 1"),
    ]
    for content, message in rows:
        assert problem(content) == f"file.yaml: {message}"
    assert problem({"name": "../x"}).startswith("file.yaml: name: '../x': use up to 64 letters, digits")
    for key in "x[0]", "list[int]", "a.b", "", "a\nb", "\u2028":
        assert "unknown key" in problem({"name": "x", key: 1}), key


@pytest.mark.promise("All that is wrong with a file is told at once, a line each, unknown keys first.")
def test_all_that_is_wrong_is_told_at_once() -> None:
    def lines(content: Any, elsewhere: dict[str, str]) -> list[str]:
        with pytest.raises(FileError) as caught:
            validated(Outer, content, "f", elsewhere)
        return str(caught.value).splitlines()

    wrong = {"name": "", "inner": {"size": 0, "colour": 1}, "lap": 1, "parts": [{"sice": 1}]}
    assert lines(wrong, {"lap": "there"}) == [
        "f: lap: unknown key; put it under there:",
        "f: inner.colour: unknown key; did you mean 'color'?",
        "f: parts[0].sice: unknown key; did you mean 'size'?",
        "f: name: '': use up to 64 letters, digits, '.', '_' or '-', beginning and ending with a letter or digit",
        "f: inner.size: 0: input should be greater than or equal to 1",
    ]
    assert len(lines({f"key{number}": 1 for number in range(10)}, {})) == 11
    many = lines({f"key{number}": 1 for number in range(90)}, {})
    assert (len(many), many[-1]) == (21, "f: and 71 more")


def test_a_value_is_shown_shortened_in_one_line_and_without_a_password() -> None:
    assert len(problem({"name": "x" * 10_000})) < 250
    for key in "size", "color":
        assert problem({"name": "x", "inner": {key: -(16**5000)}}).startswith(f"file.yaml: inner.{key}: a huge number")
    problem({"name": "a\n\u2028b"})
    assert "pass" not in problem({"name": "http://me:pass@host/"})
