"""Every public name of the API has an example in its docstring, and the examples are right."""

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import parley
from support.studies import make_demo

pytestmark = pytest.mark.promise("Every public name has an example in its docstring that runs.")

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Iterator[tuple[str, Any]]:
    """Yield what is public, by its full name: what parley offers, and the members of its classes."""
    for name in parley.__all__:
        found = getattr(parley, name)
        if name == "__version__":
            continue
        yield name, found
        if inspect.isclass(found) and not issubclass(found, Exception):
            yield from ((f"{name}.{member}", value) for member, value in vars(found).items() if member[0] != "_")


@pytest.mark.slow
def test_an_example_of_each_is_there_and_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = dict(public())
    expected = {"load", "run", "Study.play", "Results.simulations", "Record.replay", "Played.transcript", "UsageError"}
    assert expected <= set(names)
    wrong: list[str] = []
    for name, value in names.items():
        examples = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
        if not examples:
            wrong.append(f"parley.{name}: its docstring has no example")
        test = doctest.DocTest(examples, {"parley": parley}, f"parley.{name}", None, None, None)
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=wrong.append)
    assert not wrong, "\n".join(wrong)
