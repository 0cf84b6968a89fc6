"""Templates are data: their places are filled once, and what fills them is never searched for places."""

from collections.abc import Generator
from pathlib import Path
from typing import ClassVar

import pytest

from parley.errors import GameError
from parley.games import Ask, Game, Group, Outcome, OutcomeClass, Reply, Sampling, new_game
from parley.games.parameters import GameParameters
from parley.games.prompts import Phase, Prompts, fill, text_of
from parley.policies.reply_text import FreeText

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


class GreetingParameters(GameParameters):
    hello: Sampling = Sampling(temperature=0.5, max_tokens=9)


class GreetingPrompts(Prompts[GreetingParameters]):
    """The template `aside` is in the prompt, and no phase needs it."""

    phases = (Phase("hello", system="system", user="hello_user"), Phase("bye", user="bye_user"))
    variants: ClassVar = {
        "plain": {"honest_system": "I am {you}.", "honest_hello_user": "Say {word}", "honest_aside": "Well."}
    }


class GreetingGame(Game[GreetingParameters]):
    outcomes = (OutcomeClass("said", "said", "#0072B2", ""),)
    Parameters = GreetingParameters
    prompts = GreetingPrompts()

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        yield [self.ask(seat, 1, "hello", {"you": seat.name, "word": EVIL}, FreeText, None) for seat in self.seats]
        return Outcome(name="said", rounds=1)


@pytest.mark.promise("What a game asks is made of the templates that its identity has, and of no others.")
def test_what_is_sent_is_what_is_hashed() -> None:
    game = new_game(GreetingGame, GreetingParameters(), [Group("honest", 1)], "plain", 0)
    [ask] = next(game.play())
    assert (ask.system, ask.user, ask.phase) == ("I am agent_1.", f"Say {EVIL}", "hello")
    assert ask.sampling == GreetingParameters().hello
    assert game.sent("plain", "honest") == {"system": "I am {you}.", "hello_user": "Say {word}"}
    assert {*game.prompts.digests("plain", ["honest"], GreetingParameters())} == {"honest_system", "honest_hello_user"}
    for phase, why in (
        ("sing", "no phase sing; choose one of: hello, bye"),
        ("bye", "plain has no honest_bye_user; write it"),
    ):
        with pytest.raises(GameError, match=why):
            game.ask(game.seats[0], 2, phase, {"you": ""}, FreeText, None)
