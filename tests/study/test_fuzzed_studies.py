"""Studies and model entries as no one should write them: read, or refused in one bounded line, at once."""

import copy
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.study import load_study
from parley.text import one_line

LONGEST = 1_000  # characters of a message, the file's own name left out
SLOWEST = 5.0  # seconds of this process, however busy the machine; a file that explodes takes minutes or all memory

STUDY: dict[str, Any] = {
    "game": "consensus",
    "title": "t",
    "seeds": 2,
    "shard_size": 3,
    "parameters": {"max_rounds": 5, "stop_threshold": 0.66, "vote": {"temperature": 0.1, "max_tokens": 5}},
    "grids": [
        {"model": ["majority", "hub"], "n": [3], "b": [0, 1], "prompt": ["may_exist"], "byzantine": "same"},
        {"model": "local", "honest": 4, "prompt": "none_exist", "vary": {"max_rounds": [3, 4]}, "seeds": 1},
    ],
}
MODELS: dict[str, Any] = {
    "models": {
        "hub": {
            "source": {"repo": "owner/tiny", "revision": "a" * 40},
            "dtype": "float16",
            "max_model_len": 4096,
            "chat_template_kwargs": {"enable_thinking": False, "deep": {"er": [1, 2.5, None]}},
            "engine_args": {"seed": 3, "quantization": "fp8"},
            "server_args": {"gpu-memory-utilization": 0.8, "enable-prefix-caching": True},
            "gpus": 2,
            "note": "small",
        },
        "local": {"source": {"folder": "local"}},
        "packaged": {"source": {"package": "pyyaml", "gguf": "x.gguf"}},
    }
}

HUGE = "@@huge@@"  # stands for a number that Python would not print
ODD = [
    *("", " ", "~", "..", "../x", "/", "/dev/zero", "a\0b", "~nobody-at-all/x", "x" * 300, "x" * 5000),
    *("\ud800", "\x1b[31m"),
    *("\u202e", "a\nb", "\u2028", "{x}", "x[0]", "majority", "same", "None", "2/3", "1/0", "1e400", "NaN"),
    *("--host", HUGE),
    *(0, -1, 1, 10**9, 10**30, -(10**400), True, False, None, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"": ""}, {1: 2}, {"x": {"y": {}}}, [1] * 300),
]
VALUES = st.sampled_from(ODD) | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8)
KEYS = VALUES.filter(lambda value: not isinstance(value, list | dict))
NESTED = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)

# YAML of its own kind, in the place of a value or of a line.
SNIPPETS = [
    *r"""
!!python/object/apply:os.system [touch owned]
!!python/name:os.system
!!python/tuple [1]
!x y
!!bool maybe
!!int x
!!int ''
!!float x
!!timestamp x
!!null x
!!binary é
!!binary aGk=
!!str [1]
!!set {a, b}
!!omap [a: 1, a: 2]
!!pairs [a: 1]
!!map [1]
!!seq {a: 1}
2024-02-30
2024-02-03
1:30:30
2001-12-14t21:59:43.10-05:00
0001-01-01 00:00:00 +99:99
017
1_000
.inf
.NaN
=
&a [*a]
&a {b: *a}
*nowhere
<<
{<<: 3}
{<<: [1]}
{<<: {seeds: 3}, seeds: 4}
{a: 1, a: 2}
? [x]
'
"\ud800"
"\x00"
"\uFFFF"
|
>-
- - - -
%TAG
---
# comment
@x: 1
: """.splitlines(),
    *("\t", "\x07", "\x85", "\u2028", "`", "!" + "x" * 5000, "x" * 50_000, "9" * 4000, "9" * 5000, "0x" + "f" * 5000),
    *("[" * 100, "[" * 30 + "]" * 30, "[" * 900, "{a: " * 200),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("local").mkdir()
    Path("local/config.json").write_text("{}")
    return tmp_path


def loaded_or_refused(study: str | bytes, models: str | bytes) -> str:
    """Load a study and everything that follows from it; return the message that refuses it, or ""."""
    files = Path("study.yaml"), Path("models.yaml")
    for file, content in zip(files, (study, models), strict=True):
        file.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    message, start = "", time.process_time()
    try:
        loaded = load_study(files[0])
        # What commands go on with: identities, paths, shards.
        assert len(loaded.plan) == 8
        assert len(loaded.shards()) == len({simulation.id for simulation in loaded.simulations()})
    except UsageError as error:
        message = str(error)
        assert message.startswith(("study.yaml", "models.yaml"))
        assert message == one_line(message)
        assert len(message) < LONGEST
    assert time.process_time() - start < SLOWEST
    assert not Path("owned").exists()
    return message


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a nested value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


@st.composite
def mutated(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    content = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(content) or [(content, "x")]))
        action = draw(st.sampled_from(["replace", "replace", "delete", "add", "rename", "wrap"]))
        if action == "replace" or isinstance(container, list) or key not in container:
            container[key] = copy.deepcopy(draw(NESTED))  # the odd ones are shared
        elif action == "delete":
            del container[key]
        elif action == "add":
            container[draw(KEYS)] = copy.deepcopy(draw(NESTED))  # the odd ones are shared
        elif action == "rename":
            container[draw(KEYS)] = container.pop(key)
        else:
            container[key] = draw(st.sampled_from([[container[key]], {"x": container[key]}]))
    return content


GOOD_STUDY, GOOD_MODELS = yaml.safe_dump(STUDY), yaml.safe_dump(MODELS)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def test_the_files_that_are_mutated_are_good(folder: Path) -> None:
    assert loaded_or_refused(GOOD_STUDY, GOOD_MODELS) == ""


@settings(in_one_folder, max_examples=250)
@given(content=mutated(STUDY))
@pytest.mark.slow
def test_mutated_studies_are_read_or_refused_in_one_line(folder: Path, content: dict[str, Any]) -> None:
    loaded_or_refused(dumped(content), GOOD_MODELS)


@settings(in_one_folder, max_examples=250)
@given(content=mutated(MODELS))
@pytest.mark.slow
def test_mutated_model_entries_are_read_or_refused_in_one_line(folder: Path, content: dict[str, Any]) -> None:
    loaded_or_refused(GOOD_STUDY, dumped(content))


def dumped(content: Any) -> str:
    """Return YAML of anything, with a number of thousands of digits in its place."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(content, Dumper=Dumper).replace(f"'{HUGE}'", "0x" + "f" * 5000)


@settings(in_one_folder, max_examples=250)
@given(st.booleans(), st.integers(0, 10_000), st.sampled_from(SNIPPETS), st.sampled_from(["value", "line", "text"]))
@pytest.mark.slow
def test_yaml_of_any_kind_is_read_or_refused_in_one_line(
    folder: Path, models: bool, at: int, snippet: str, where: str
) -> None:
    good = GOOD_MODELS if models else GOOD_STUDY
    lines = good.splitlines(keepends=True)
    number = at % len(lines)
    if where == "value":
        head, colon, _ = lines[number].partition(":")
        lines[number] = f"{head}{colon} {snippet}\n"
    elif where == "line":
        lines.insert(number, snippet + "\n")
    text = "".join(lines) if where != "text" else good[: at % len(good)] + snippet + good[at % len(good) :]
    loaded_or_refused(*((GOOD_STUDY, text) if models else (text, GOOD_MODELS)))


@settings(in_one_folder, max_examples=150)
@given(at=st.integers(0, 10_000), junk=st.text(max_size=4), cut=st.integers(0, 5))
def test_a_damaged_file_is_read_or_refused_in_one_line(folder: Path, at: int, junk: str, cut: int) -> None:
    at %= len(GOOD_STUDY)
    loaded_or_refused(GOOD_STUDY[:at] + junk + GOOD_STUDY[at + cut :], GOOD_MODELS)


def test_a_study_survives_yaml_and_json_alike(folder: Path) -> None:
    Path("models.yaml").write_text(GOOD_MODELS)
    Path("one.yaml").write_text(GOOD_STUDY)
    Path("two.yaml").write_text(json.dumps(STUDY))
    one, two = (load_study(Path(name)).simulations() for name in ("one.yaml", "two.yaml"))
    assert [simulation.id for simulation in one] == [simulation.id for simulation in two]


def with_value(text: str, key: str, value: str) -> str:
    """Return a file with another value for a key that has a plain one."""
    start = text.index(f" {key}: " if f" {key}: " in text else f"{key}: ")
    end = text.index("\n", start)
    return text[:start] + f" {key}: {value}".removeprefix("" if text[start] == " " else " ") + text[end:]


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: ascii(snippet[:20]))
def test_yaml_of_any_kind_in_the_place_of_any_value_is_read_or_refused(folder: Path, snippet: str) -> None:
    for key in ("game", "seeds", "title", "max_rounds", "stop_threshold", "byzantine"):
        loaded_or_refused(with_value(GOOD_STUDY, key, snippet), GOOD_MODELS)
    for key in (
        "dtype",
        "max_model_len",
        "enable_thinking",
        "quantization",
        "gpu-memory-utilization",
        "folder",
        "note",
    ):
        loaded_or_refused(GOOD_STUDY, with_value(GOOD_MODELS, key, snippet))


LAUGHS = "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 12))
MERGES = "".join(f"y{i}: &y{i} {{k{i}: 1, <<: [{', '.join([f'*y{i - 1}'] * 10)}]}}\n" for i in range(1, 12))
KEYED = "".join(f"z{i}: &z{i} {{a: *z{i - 1}, b: *z{i - 1}}}\n" for i in range(1, 40))
SMALL = {"model": "majority", "prompt": "may_exist"}
BOMBS = {
    "lists of lists": f"x0: &x0 [lol]\n{LAUGHS}",
    "a list in a number's place": f"seeds: {{x0: &x0 [lol], {LAUGHS.strip().replace(chr(10), ', ')}}}\n{GOOD_STUDY}",
    "merges of merges": f"y0: &y0 {{k: 1}}\n{MERGES}",
    "mappings of mappings": f"z0: &z0 {{a: 1}}\n{KEYED}",
    "a megabyte": f"title: {'x' * 1_000_000}\n",
    "a list of itself": f"title: &a [*a]\n{GOOD_STUDY}",
    "a mapping of itself": f"title: &a {{b: {{c: *a}}}}\n{GOOD_STUDY}",
    "a merge of itself": f"title: &a {{<<: *a}}\n{GOOD_STUDY}",
    "a million conditions": yaml.safe_dump(
        {"game": "consensus", "grids": [{**SMALL, "n": [*range(1000, 2000)], "b": [*range(1000)]}]}
    ),
    "a billion simulations": yaml.safe_dump(
        {"game": "consensus", "seeds": 10_000, "grids": [{**SMALL, "n": [*range(1, 9000)]}]}
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_files_that_explode_are_refused_at_once(folder: Path, kind: str) -> None:
    assert loaded_or_refused(BOMBS[kind], GOOD_MODELS)
    if "simulations" not in kind and "conditions" not in kind:
        assert loaded_or_refused(GOOD_STUDY, BOMBS[kind]).startswith("models.yaml")


def test_a_file_without_end_is_refused_at_once(folder: Path) -> None:
    Path("endless.yaml").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"^endless\.yaml: cannot be read: it is a device; name a regular file"):
        load_study(Path("endless.yaml"))


def test_a_file_that_is_too_large_is_refused(folder: Path) -> None:
    Path("large.yaml").write_text("# nothing\n" * 20_001)
    with pytest.raises(UsageError, match=r"^large\.yaml: cannot be read: it is larger than 200,000 bytes"):
        load_study(Path("large.yaml"))


def test_merges_that_override_what_they_merge_are_no_repetition(folder: Path) -> None:
    """Also where a mapping is merged elsewhere before it is looked at itself."""
    text = """
    game: consensus
    parameters:
      vote: &v {<<: &w {temperature: 0.5, max_tokens: 9}, max_tokens: 8}
      propose: {<<: [*v, *w], temperature: 1.0}
    grids: [{model: majority, n: 3, prompt: may_exist}]
    """
    assert loaded_or_refused(text, GOOD_MODELS) == ""
    parameters: Any = load_study(Path("study.yaml")).conditions[0].parameters
    assert (parameters.vote.temperature, parameters.vote.max_tokens) == (0.5, 8)
    assert (parameters.propose.temperature, parameters.propose.max_tokens) == (1.0, 8)
    deep = "a: {b: &b {<<: &c {x: 1}, x: 2}}\nd: {<<: *b}\n"
    assert loaded_or_refused(deep, GOOD_MODELS).startswith("study.yaml: ")  # unknown keys, but no repeated one
    assert "repeated" not in loaded_or_refused(deep, GOOD_MODELS)


@pytest.mark.parametrize(
    ("study", "models"),
    [
        (BOMBS["lists of lists"], GOOD_MODELS),
        (GOOD_STUDY, BOMBS["merges of merges"]),
        ("game: !!python/object/apply:os.system [touch owned]\n", GOOD_MODELS),
        ("game: consensus\ntitle: \"\\e]0;title\\a\"\nseeds: '\x7f'\n", GOOD_MODELS),
        (GOOD_STUDY, GOOD_MODELS.replace("owner/tiny", "\u202e")),
        (GOOD_STUDY, GOOD_MODELS.replace("folder: local", "folder: ~nobody-at-all/x")),
        (b"\xff\xfe\x00", GOOD_MODELS),
    ],
    ids=["bomb", "merge bomb", "object", "escapes", "right to left", "no folder", "no text"],
)
@pytest.mark.slow
def test_the_command_refuses_in_one_line_with_exit_status_2(folder: Path, study: str | bytes, models: str) -> None:
    assert loaded_or_refused(study, models)
    command = [sys.executable, "-m", "parley.cli", "expand", "study.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("parley: ")
    assert done.stderr.count("\n") == 1
    assert done.stderr[:-1].isprintable()
    assert not Path("owned").exists()
