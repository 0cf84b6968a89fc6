"""Studies and model entries as no one should write them: read, or refused in bounded lines, at once."""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.study import load_study
from parley.text import one_line

pytestmark = pytest.mark.promise("Any file in the place of a study is read, or refused in bounded lines.")

LONGEST = 1_000  # characters of a line, the file's own name left out
SLOWEST = 5.0  # seconds of this process, however busy the machine; a file that explodes takes minutes or all memory

GRID = {"model": ["majority", "hub"], "n": [3], "b": [0, 1], "prompt": ["may_exist"], "byzantine": "same"}
STUDY: dict[str, Any] = {
    "game": "consensus",
    "seeds": 2,
    "parameters": {"max_rounds": 5, "stop_threshold": 0.66, "vote": {"temperature": 0.1, "max_tokens": 5}},
    "grids": [GRID, {"model": "local", "honest": 4, "prompt": "none_exist", "vary": {"max_rounds": [3, 4]}}],
}
HUB = {
    "source": {"repo": "owner/tiny", "revision": "a" * 40},
    "max_model_len": 4096,
    "chat_template_kwargs": {"enable_thinking": False, "deep": {"er": [1, 2.5, None]}},
    "engine_args": {"seed": 3, "quantization": "fp8"},
    "server_args": {"gpu-memory-utilization": 0.8, "enable-prefix-caching": True},
}
MODELS: dict[str, Any] = {"models": {"hub": HUB, "local": {"source": {"folder": "local"}}}}

HUGE = "@@huge@@"  # stands for a number that Python would not print
ODD = [
    *("", " ", "~", "..", "../x", "/dev/zero", "a\0b", "~nobody-at-all/x", "x" * 5000, "\ud800", "\x1b[31m", "\u202e"),
    *("a\nb", "{x}", "x[0]", "majority", "same", "None", "2/3", "1/0", "1e400", "NaN", "--host", HUGE),
    *(0, -1, 1, 10**9, 10**30, -(10**400), True, False, None, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"": ""}, {1: 2}, {"x": {"y": {}}}, [1] * 300),
]
VALUES = st.sampled_from(ODD) | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8)
KEYS = VALUES.filter(lambda value: not isinstance(value, list | dict))
NESTED = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


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
        for line in message.splitlines():
            assert line.startswith(("study.yaml", "models.yaml"))
            assert line == one_line(line)
            assert len(line) < LONGEST
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
        action = draw(st.sampled_from(["replace", "replace", "delete", "rename", "wrap"]))
        if action == "wrap" and isinstance(container, dict) and key in container:
            container[key] = draw(st.sampled_from([[container[key]], {"x": container[key]}]))
        elif action == "replace" or isinstance(container, list) or key not in container:
            container[key] = copy.deepcopy(draw(NESTED))  # the odd ones are shared
        else:
            value = container.pop(key)
            container |= {draw(KEYS): value} if action == "rename" else {}
    return content


def dumped(content: Any) -> str:
    """Return YAML of anything, with a number of thousands of digits in its place."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(content, Dumper=Dumper).replace(f"'{HUGE}'", "0x" + "f" * 5000)


GOOD_STUDY, GOOD_MODELS = yaml.safe_dump(STUDY), yaml.safe_dump(MODELS)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@settings(in_one_folder, max_examples=100)
@given(study=mutated(STUDY) | st.just(STUDY), models=mutated(MODELS) | st.just(MODELS))
@pytest.mark.slow
def test_mutated_files_are_read_or_refused_in_one_line(
    folder: Path, study: dict[str, Any], models: dict[str, Any]
) -> None:
    loaded_or_refused(dumped(study), dumped(models))


def chain_of(link: Callable[[int], str], first: str) -> str:
    """Return YAML in which each line names an alias of the line before it several times."""
    return first + "".join(f"x{i}: &x{i} {link(i - 1)}\n" for i in range(1, 12))


SMALL = {"model": "majority", "prompt": "may_exist"}
BOMBS = {
    "lists of lists": chain_of(lambda i: f"[{', '.join([f'*x{i}'] * 10)}]", "x0: &x0 [lol]\n"),
    "merges of merges": chain_of(lambda i: f"{{k{i}: 1, <<: [{', '.join([f'*x{i}'] * 10)}]}}", "x0: &x0 {k: 1}\n"),
    "a merge of itself": f"title: &a {{<<: *a}}\n{GOOD_STUDY}",
}
HUGE_GRIDS = {
    "a million conditions": {**SMALL, "n": [*range(1000, 2000)], "b": [*range(1000)]},
    "a billion simulations": {**SMALL, "n": [*range(1, 9000)], "seeds": 10_000},
}


@pytest.mark.slow
def test_files_that_explode_are_refused_at_once(folder: Path) -> None:
    for kind, bomb in BOMBS.items():
        assert loaded_or_refused(bomb, GOOD_MODELS).startswith("study.yaml"), kind
        assert loaded_or_refused(GOOD_STUDY, bomb).startswith("models.yaml"), kind
    for kind, grid in HUGE_GRIDS.items():
        content = yaml.safe_dump({"game": "consensus", "grids": [grid]})
        assert loaded_or_refused(content, GOOD_MODELS).startswith("study.yaml: grids: "), kind
