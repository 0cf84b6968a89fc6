"""Every public name of the API has an example in its docstring, and the examples are right."""

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parley
from support import REPOSITORY
from support.demo_study import make_demo

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Iterator[tuple[str, Any]]:
    """Yield what is public, by its full name: what parley offers, and the members of its classes."""
    for name in parley.__all__:
        found = getattr(parley, name)
        if name == "__version__":
            continue
        yield name, found
        if inspect.isclass(found) and not issubclass(found, Exception):
            for member, value in vars(found).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", value


NAMES = dict(public())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("demo")
    make_demo(root)
    return root


def examples(name: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(NAMES[name]) or "")


def test_what_is_public_is_found_with_its_members() -> None:
    expected = {"load", "run", "Study.play", "Results.simulations", "Record.replay", "Played.transcript", "UsageError"}
    assert expected <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_there_and_right(name: str, demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    found = examples(name)
    assert found, f"parley.{name}: its docstring has no example"
    told: list[str] = []
    test = doctest.DocTest(found, {}, f"parley.{name}", None, None, None)
    failed = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=told.append).failed
    assert not failed, "".join(told)


PAGE = REPOSITORY / "docs" / "python.md"
OBJECTS = {
    "parley": parley,
    "study": parley.Study,
    "game": parley.Played,
    "results": parley.Results,
    "record": parley.Record,
}


def test_the_page_names_what_is_there() -> None:
    used = set(re.findall(r"\b(parley|study|game|results|record)\.([a-z_]\w*)(?!\.(?:md|yaml))", PAGE.read_text()))
    assert len(used) > 20
    missing = {f"{name}.{member}" for name, member in used if not hasattr(OBJECTS[name], member)}
    assert not missing
