"""`parley play GAME`: a game from flags alone."""

import pytest

from support.commands import Parley, one_line_error

pytestmark = pytest.mark.promise(
    "`parley play GAME` plays any game from flags alone, and names a flag that does not fit."
)

SEVENS = "--set max_rounds=2 --set value_min=7 --set value_max=7"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (f"consensus --n 5 --b 2 --model majority --byzantine silent {SEVENS}", "honest     7"),
        ("deliberation --n 3 --model solver --set turns=1", "Outcome: "),
        ("stag_hunt --n 3 --model always_hare --set rounds=2 --set topology=complete", "after 2 rounds"),
        ("consensus --n 1 --model majority --set value_min=-7 --set value_max=-7", "honest     -7"),
    ],
)
def test_a_game_is_played_as_flags_say(parley: Parley, command: str, shown: str) -> None:
    ran = parley("play", "--plain", *command.split())
    assert ran.status == 0
    assert shown in ran.out


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("consensus", "--model"),
        ("consensus --model majority --set max_round=3", "max_round"),
        ("consensus --model majority --byzantine random", "--byzantine"),
        ("consensus --model majority --n 3 --where b=2", "--where"),
        ("demo --byzantine random", "--byzantine"),
    ],
)
def test_a_flag_that_does_not_fit_is_named(parley: Parley, command: str, named: str) -> None:
    error = one_line_error(parley("play", *command.split()), 2)
    assert named in error
    assert "/tmp" not in error
