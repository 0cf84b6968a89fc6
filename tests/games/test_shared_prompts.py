"""Templates are data: their places are filled once, and what fills them is never searched for places."""

from pathlib import Path

from parley.games.parameters import GameParameters
from parley.games.prompts import Phase, Prompts, fill, text_of

EVIL = "{a} {b} {{ }} \\g<0> \\1 %s {c}"


def test_a_value_is_never_searched_for_places() -> None:
    assert fill("{a}, {b}; {a}", {"a": EVIL, "b": "{a}"}) == f"{EVIL}, {{a}}; {EVIL}"
    assert fill("{a} {{b}} {b}", {"a": "{b} {{", "b": "}}"}, doubled=True) == "{b} {{ {b} }}"


def test_the_longest_place_is_taken_and_braces_of_json_stay() -> None:
    assert fill('{x if x else "-"} {x}', {"x": 1, 'x if x else "-"': 2}) == "2 1"
    assert fill('{"value": {a}}\n{\n}', {"a": 3}) == '{"value": 3}\n{\n}'


class Greeting(Prompts[GameParameters]):
    phases = (Phase("hello"),)

    def __init__(self, file: Path) -> None:
        self.variants = {"plain": {"honest_system": "You are {agent}.\n", "honest_hello_user": file}}


def test_a_template_is_a_file_or_a_text(tmp_path: Path) -> None:
    file = tmp_path / "hello.txt"
    file.write_text("Say {word}\n\n")
    prompts = Greeting(file)
    assert text_of(file) == "Say {word}"
    assert list(prompts) == ["plain"]
    sent = {"system": "You are {agent}.", "hello_user": "Say {word}"}
    assert prompts.sent("plain", "honest", GameParameters()) == sent
    before = prompts.digests("plain", ["honest"], GameParameters())
    file.write_text("Say {word}!\n")
    assert prompts.digests("plain", ["honest"], GameParameters()) == before  # as is what is sent: it was read before
    other = tmp_path / "other.txt"
    other.write_text("Say {word}!\n")
    after = Greeting(other).digests("plain", ["honest"], GameParameters())
    assert {name for name in before if before[name] != after[name]} == {"honest_hello_user"}
    assert len(before) == 2
    assert prompts.digests("plain", ["byzantine"], GameParameters()) == {}
