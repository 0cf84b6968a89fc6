"""`parley play GAME`: a game from flags alone."""

import pytest
from click.shell_completion import ShellComplete

from parley.cli import commands
from support.commands import Parley, one_line_error

pytestmark = pytest.mark.promise(
    "`parley play GAME` plays any game from flags alone, and names a flag that does not fit."
)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("consensus --honest 3 --b 2 --model majority --byzantine silent --rounds 2 --values 7-7", "agent_5"),
        ("consensus --honest 3 --b 2 --model majority --byzantine silent --rounds 2 --values 7-7", "honest     7"),
        ("deliberation --honest 3 --model solver --rounds 1", "Outcome: "),
        ("stag_hunt --n 3 --model always_hare --set rounds=2 --set topology=complete", "after 2 rounds"),
        ("consensus --n 1 --model majority --rounds 2 --values -7--7", "honest     -7"),
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
        ("consensus --model majority --n 4 --honest 4 --b 1", "--n 4"),
        ("consensus --model majority --set max_round=3", "max_round"),
        ("stag_hunt --model always_hare --values 0-5", "--values"),
        ("consensus --model majority --rounds 3 --set max_rounds=4", "max_rounds=4"),
        ("consensus --model majority --values 0-9 --set value_max=8", "value_max=8"),
        ("consensus --model majority --honest 3 --byzantine random", "--byzantine"),
        ("consensus --model majority --honest 3 --where b=2", "--where"),
        ("demo --honest 3", "--honest"),
    ],
)
def test_a_flag_that_does_not_fit_is_named(parley: Parley, command: str, named: str) -> None:
    error = one_line_error(parley("play", *command.split()), 2)
    assert named in error
    assert "/tmp" not in error


@pytest.mark.parametrize(
    ("option", "begun", "name"),
    [
        ("--model", "maj", "majority"),
        ("--byzantine", "sil", "silent"),
        ("--prompt", "may", "may_exist"),
        ("--set", "max", "max_rounds="),
    ],
)
def test_a_shell_completes_what_the_game_has(option: str, begun: str, name: str) -> None:
    found = ShellComplete(commands, {}, "parley", "").get_completions(["play", "consensus", option], begun)
    assert name in [item.value for item in found]
