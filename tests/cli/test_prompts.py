"""`parley prompts` from outside: what is sent in a study, samples, templates, and options that mean nothing."""

import itertools
import re
from typing import Any

import click
import pytest

from parley.cli.prompts import _SAMPLE, policies, prompts
from parley.games.base import Game
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.prompts import PROMPTS
from parley.games.registry import GAMES
from parley.study.prompt_sent import Wanted, prompt_sent
from support.commands import Parley, one_line_error
from support.studies import StudyFactory

HUNT = {"model": "tiny", "n": 4, "b": [0, 1], "byzantine": "betray", "prompt": "plain"}


# Of a study


def test_what_is_sent_in_a_condition_is_printed_and_nothing_else(parley: Parley, study_factory: StudyFactory) -> None:
    study = study_factory({**HUNT, "vary": {"cheap_talk": [True, False]}}, game="stag_hunt")
    where = ("--where", "cheap_talk=false", "--where", "b=1")
    for part in ("system", "user", "reply"):
        ran = parley("prompts", "--study", "small.yaml", *where, "--round", 3, "--seed", 2, "--part", part)
        sent = prompt_sent(study, {"cheap_talk": "false", "b": 1}, Wanted("honest", round=3), 2)
        assert ran.out == sent.text(part) + "\n"
        assert ran.err == (
            "model=tiny/n=4/b=1/prompt=plain/cheap_talk=false, seed 2: "
            f"{sent.ask.agent} (honest, played by tiny), round 3, act\n"
        )
    assert (
        parley("prompts", "--study", "small.yaml", *where).out
        == prompt_sent(study, {"cheap_talk": "false", "b": 1}, Wanted("honest"), 0).text("system") + "\n"
    )


def test_the_condition_that_is_taken_of_several_is_told(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({**HUNT, "vary": {"cheap_talk": [True, False]}}, game="stag_hunt")
    told = parley("prompts", "--study", "small.yaml").err.splitlines()
    assert told[0].startswith("model=tiny/n=4/b=0/prompt=plain/cheap_talk=true, seed 0: agent_")
    assert told[1:] == ["the first of 4 conditions that fit; choose by --where: b, cheap_talk"]
    told = parley("prompts", "--study", "small.yaml", "--role", "byzantine").err.splitlines()
    assert "/b=1/" in told[0]
    assert "(byzantine, played by betray, scripted: reads none)" in told[0]
    assert told[1:] == ["the first of 2 conditions that fit; choose by --where: cheap_talk"]


def test_an_agent_that_is_named_needs_no_role(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"b": 1}, name="named")
    seen = [parley("prompts", "--study", "named.yaml", "--agent-id", f"agent_{i}").err for i in (1, 2, 3)]
    assert sum(" (byzantine, " in told for told in seen) == 1
    [number] = [i for i, told in enumerate(seen, 1) if " (byzantine, " in told]
    message = parley("prompts", "--study", "named.yaml", "--agent-id", f"agent_{number}", "--role", "honest")
    assert f"no agent agent_{number} with the role honest; choose one of: agent_1 (" in one_line_error(message, 2)


def test_prompts_of_two_conditions_are_compared(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": [3, 4], "b": 1, "byzantine": "random"})
    ran = parley("prompts", "--diff", "small.yaml", "--where", "n=3", "--against", "n=4", "--round", 2)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("--- model=majority/n=3/b=1/prompt=may_exist\n+++ model=majority/n=4/")
    assert "round 2, vote, reply: identical\n" in ran.out
    assert "    -" in ran.out
    without = parley("prompts", "--diff", "small.yaml", "--where", "n=3", "--against", "n=4")
    assert without.out.count("round 1, ") == 6
    assert "round 2" not in without.out
    message = one_line_error(parley("prompts", "--diff", "small.yaml", "--against", "n=5"), 2)
    assert "no condition has n=5" in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--where", "n"], "--where n: write AXIS=VALUE"),
        (["--where", "n="], "--where n=: write AXIS=VALUE"),
        (["--where", "=3"], "--where =3: write AXIS=VALUE"),
        (["--where", "n=3", "--where", "n=4"], "--where n=4: n is 3 already; give one value"),
        (["--where", "size=3"], "small.yaml: size: not an axis of this study; choose one of: model, n, b, prompt"),
        (["--where", "n=9"], "no condition has n=9"),
        (["--role", "leader"], "no agent has the role leader in the conditions that fit"),
        (["--round", "9"], "nothing such is sent (round 9, role honest)"),
    ],
)
def test_what_is_in_no_study_exits_2(
    parley: Parley, study_factory: StudyFactory, given: list[str], words: str
) -> None:
    study_factory({"n": [3, 4]})
    assert words in one_line_error(parley("prompts", "--study", "small.yaml", *given), 2)


def test_both_conditions_are_named_by_axis_and_value(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory({"n": [3, 4]})
    ran = parley("prompts", "--diff", "small.yaml", "--against", "n")
    assert "--against n: write AXIS=VALUE" in one_line_error(ran, 2)


# Options that mean nothing


VALUES = {
    "--agent-id": "agent_2",
    "--round": "2",
    "--max-rounds": "40",
    "--value-min": "1",
    "--value-max": "49",
    "--initial-value": "18",
    "--current-value": "21",
    "--neighbors": "agent_2",
    "--reply-format": "text",
}
OF_A_SAMPLE = {**VALUES, "--game": "consensus", "--prompt": "may_exist", "--template": None, "--strategy": "stall"}
OF_A_STUDY = {"--where": "n=3", "--against": "n=4", "--seed": "1", "--models": "models.yaml"}
USED = {
    "--study": {"--where", "--seed", "--models", "--agent-id", "--round"},
    "--diff": {"--where", "--against", "--seed", "--models", "--round"},
}


def options(name: str, value: str | None) -> list[str]:
    return [name] if value is None else [name, value]


@pytest.mark.parametrize("mode", USED)
@pytest.mark.parametrize(("name", "value"), {**OF_A_SAMPLE, **OF_A_STUDY}.items())
def test_a_study_is_given_no_option_that_it_does_not_use(
    parley: Parley, study_factory: StudyFactory, mode: str, name: str, value: str | None
) -> None:
    study_factory({"n": [3, 4]})
    needed = ["--against", "n=4"] if mode == "--diff" and name != "--against" else []
    ran = parley("prompts", mode, "small.yaml", *needed, *options(name, value))
    if name in USED[mode]:
        assert ran.status == 0
    else:
        assert one_line_error(ran, 2).startswith(f"parley: {name}: not used with {mode}: ")
        assert ran.out == ""


@pytest.mark.parametrize("option", [("--phase", "vote"), ("--part", "user"), ("--part", "system")])
def test_a_comparison_is_of_all_phases_and_parts(
    parley: Parley, study_factory: StudyFactory, option: tuple[str, str]
) -> None:
    study_factory({"n": [3, 4]})
    ran = parley("prompts", "--diff", "small.yaml", "--against", "n=4", *option)
    assert "print one with --study" in one_line_error(ran, 2)


def test_a_study_is_printed_or_compared(parley: Parley, study_factory: StudyFactory) -> None:
    study_factory()
    ran = parley("prompts", "--diff", "small.yaml", "--study", "small.yaml")
    assert one_line_error(ran, 2).startswith("parley: --study: --diff names a study already")


@pytest.mark.parametrize(("name", "value"), OF_A_STUDY.items())
def test_a_sample_is_given_no_option_of_a_study(parley: Parley, name: str, value: str) -> None:
    message = one_line_error(parley("prompts", name, value), 2)
    assert message.startswith(f"parley: {name}: not used without a study: ")
    assert "--diff STUDY" in message


def test_a_sample_has_no_schema(parley: Parley) -> None:
    assert "--part reply: a sample has none; add --study" in one_line_error(parley("prompts", "--part", "reply"), 2)


@pytest.mark.parametrize(("name", "value"), VALUES.items())
@pytest.mark.parametrize("game", sorted({*GAMES} - {"consensus"}))
@pytest.mark.parametrize("part", ["system", "user"])
def test_a_fixed_sample_is_given_no_value(parley: Parley, game: str, part: str, name: str, value: str) -> None:
    if (name, part) == ("--reply-format", "user"):
        pytest.skip("user prompts have one in each format")
    message = one_line_error(parley("prompts", "--game", game, "--part", part, name, value), 2)
    assert message.startswith(f"parley: {name}: not used in the sample {game}, honest, ")
    assert "--study STUDY" in message


@pytest.mark.parametrize(("name", "value"), VALUES.items())
def test_a_template_is_given_no_value(parley: Parley, name: str, value: str) -> None:
    message = one_line_error(parley("prompts", "--template", name, value), 2)
    assert message.startswith(f"parley: {name}: not used in a template: ")


OTHER: dict[str, Any] = {
    "agent_id": "agent_2",
    "round_number": 4,
    "max_rounds": 40,
    "value_min": 1,
    "value_max": 49,
    "initial_value": 18,
    "current_value": 21,
    "neighbors": "agent_2",
    "reply_format": "text",
}
SAMPLES = list(itertools.product(("honest", "byzantine"), PROMPTS, ("propose", "vote", "turn"), ("system", "user")))


@pytest.mark.parametrize(("role", "awareness", "phase", "part"), SAMPLES)
def test_the_values_of_a_sample_are_those_that_change_it(role: str, awareness: str, phase: str, part: str) -> None:
    game: type[Game] = ConsensusGame
    given = {**_SAMPLE, "round_number": 3}
    text = game.prompts.sample(awareness, role, phase, part, given)
    changing = {
        name
        for name, value in OTHER.items()
        if game.prompts.sample(awareness, role, phase, part, {**given, name: value}) != text
    }
    used = game.prompts.sample_values(awareness, role, phase, part)
    assert changing <= used
    # A round must not be after the last one, wherever there is a round.
    assert used - changing <= ({"max_rounds"} if "round_number" in used else set())


def test_every_value_of_a_sample_can_be_given(parley: Parley) -> None:
    assert set(OTHER) == set(_SAMPLE)
    for name, value in VALUES.items():
        phase, part = ("vote", "user") if name in ("--round", "--current-value") else ("propose", "system")
        ran = parley("prompts", "--phase", phase, "--part", part, name, value)
        assert (ran.status, ran.err) == (0, "")
        assert ran.out != parley("prompts", "--phase", phase, "--part", part).out


@pytest.mark.parametrize(
    "flags",
    [
        ("--round", "60", "--max-rounds", "5", "--part", "user"),
        ("--round", "0", "--part", "user"),
        ("--round", "0", "--part", "user", "--phase", "turn"),
        ("--value-min", "9", "--value-max", "3"),
        ("--role", "nobody"),
    ],
)
def test_prompts_that_no_agent_could_get_exit_2(parley: Parley, flags: tuple[str, ...]) -> None:
    assert flags[1] in one_line_error(parley("prompts", *flags), 2)


def test_defaults_in_the_help_are_those_that_are_used(parley: Parley) -> None:
    help_text = " ".join(parley("prompts", "--help").out.split())
    for name, value in _SAMPLE.items():
        flag = "--round" if name == "round_number" else f"--{name.replace('_', '-')}"
        told = help_text.split(f" {flag} ")[-1].split(" --")[0]
        if value is not None:
            assert f"default: {value}" in told


# Samples and templates


EVERY_PROMPT = list(itertools.product(("honest", "byzantine"), PROMPTS, ("propose", "vote"), ("system", "user")))
every_prompt = pytest.mark.parametrize(("role", "awareness", "phase", "part"), EVERY_PROMPT)


def prompt(parley: Parley, role: str, awareness: str, phase: str, part: str, *more: object) -> str:
    key = ("--role", role, "--awareness", awareness, "--phase", phase, "--part", part)
    ran = parley("prompts", "--game", "consensus", *key, *more)
    assert (ran.status, ran.err) == (0, "")
    return ran.out


@every_prompt
def test_a_template_is_printed_as_it_is(parley: Parley, role: str, awareness: str, phase: str, part: str) -> None:
    printed = prompt(parley, role, awareness, phase, part, "--template")
    assert printed == PROMPTS.template(awareness, role, phase, part) + "\n"
    file = PROMPTS.variants[awareness][f"{role}_{phase}_{part}"]
    assert printed == file.read_text(encoding="utf-8")


@every_prompt
def test_a_prompt_is_printed_rendered(parley: Parley, role: str, awareness: str, phase: str, part: str) -> None:
    later = ("--round", 3) if part == "user" else ()
    printed = prompt(parley, role, awareness, phase, part, *later)
    assert printed != prompt(parley, role, awareness, phase, part, "--template")
    for expression in (
        "{agent_id}",
        "self.",
        "{current_round",
        "{max_rounds}",
        "{value_m",
        "_summary",
        "previous_strategies",
    ):
        assert expression not in printed


def test_flags_set_the_values_of_a_prompt(parley: Parley) -> None:
    flags = ("--agent-id", "agent_7", "--max-rounds", 33, "--value-min", -4, "--value-max", 44, "--initial-value", 12)
    system = prompt(parley, "honest", "may_exist", "propose", "system", *flags)
    for part in ("You are agent_7,", "after 33 rounds", "between -4 and 44 only", "Your Initial Value: 12"):
        assert part in system
    user = prompt(parley, "honest", "may_exist", "propose", "user", "--round", 5, "--current-value", 21)
    assert user.startswith("=== ROUND 5 ===\n")
    assert "Your current value: 21\n" in user
    vote = prompt(parley, "byzantine", "none_exist", "vote", "user", "--round", 5, "--max-rounds", 33)
    assert vote.startswith("=== BYZANTINE VOTING - Round 5/33 ===\n")


def test_the_game_is_by_default_the_first_of_the_register(parley: Parley, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in reversed(list(GAMES)):
        reordered = {first: GAMES[first], **{name: game for name, game in GAMES.items() if name != first}}
        monkeypatch.setattr("parley.games.registry.GAMES", reordered)
        for command in (["prompts", "--part", "user", "--template"], ["policies"]):
            default = parley(*command)
            assert default.status == 0
            assert default.out == parley(*command, "--game", first).out


@pytest.mark.parametrize("command", [prompts, policies])
def test_options_are_told_without_naming_a_game(command: click.Command) -> None:
    told = " ".join(str(option.help) for option in command.params if isinstance(option, click.Option))
    assert not re.search(r"consensus|deliberation|stag.?hunt|swarms|zero_shot|reflect", told)


def test_the_other_condition_is_said_to_agree_in_most_not_in_all() -> None:
    told = " ".join(str(prompts.help).split())
    assert "agrees with it in most else" in told
    assert "in all else" not in told


def test_an_unknown_game_or_phase_lists_those_there_are(parley: Parley, study_factory: StudyFactory) -> None:
    assert ", ".join(sorted(GAMES)) in one_line_error(parley("policies", "--game", "chess"), 2)
    assert "phases: propose, vote" in one_line_error(parley("prompts", "--phase", "chat"), 2)
    study_factory()
    ran = parley("prompts", "--study", "small.yaml", "--phase", "chat")
    assert "with the phases propose, vote" in one_line_error(ran, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--game", "chess"],
        ["--role", "leader"],
        ["--awareness", "must_exist"],
        ["--phase", "chat"],
        ["--part", "assistant"],
        ["--round", "-1"],
        ["--max-rounds", "x"],
        ["--value-min", "1.5"],
    ],
)
def test_an_unknown_prompt_or_value_exits_2(parley: Parley, arguments: list[str]) -> None:
    for template_too in ([], ["--template"]):
        ran = parley("prompts", *arguments, *template_too)
        assert ran.status == 2
        assert ran.out == ""
        assert arguments[1] in ran.err
        assert "Traceback" not in ran.err
