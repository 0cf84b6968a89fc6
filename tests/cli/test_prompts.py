"""`parley prompts` from outside: what is sent in a study or without one, templates, and options that mean nothing."""

import itertools
import re

import click
import pytest

from parley.cli.prompts import policies, prompts
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
        (["--round", "9"], "there is no such prompt (round 9, role honest)"),
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


OF_A_GAME = {
    "--agent-id": "agent_2",
    "--round": "2",
    "--reply-format": "text",
    "--game": "consensus",
    "--prompt": "may_exist",
    "--template": None,
    "--strategy": "stall",
}
OF_A_STUDY = {"--where": "n=3", "--against": "n=4", "--seed": "1", "--models": "models.yaml"}
USED = {
    "--study": {"--where", "--seed", "--models", "--agent-id", "--round"},
    "--diff": {"--where", "--against", "--seed", "--models", "--round"},
    "--template": {"--game", "--prompt", "--template"},
}


def options(name: str, value: str | None) -> list[str]:
    return [name] if value is None else [name, value]


@pytest.mark.parametrize("mode", ["--study", "--diff"])
@pytest.mark.parametrize(("name", "value"), {**OF_A_GAME, **OF_A_STUDY}.items())
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


@pytest.mark.parametrize("name", ["--where", "--against", "--models"])
def test_no_study_is_given_no_option_of_a_study(parley: Parley, name: str) -> None:
    message = one_line_error(parley("prompts", name, OF_A_STUDY[name]), 2)
    assert message.startswith(f"parley: {name}: not used without a study: ")
    assert "--diff STUDY" in message


@pytest.mark.parametrize(("name", "value"), {**OF_A_GAME, **OF_A_STUDY}.items())
def test_a_template_is_given_no_value(parley: Parley, name: str, value: str | None) -> None:
    ran = parley("prompts", "--template", *options(name, value))
    if name in USED["--template"]:
        assert ran.status == 0
    else:
        assert one_line_error(ran, 2).startswith(f"parley: {name}: not used in a template: ")


# Without a study


@pytest.mark.parametrize("name", GAMES)
def test_without_a_study_it_is_what_four_models_are_sent(
    parley: Parley, study_factory: StudyFactory, name: str
) -> None:
    for prompt in GAMES[name].prompts:
        study = study_factory({"model": "tiny", "n": 4, "b": 1, "prompt": prompt}, game=name)
        for role, number, part in itertools.product(GAMES[name].roles, (1, 2), ("system", "user", "reply")):
            key = ("--prompt", prompt, "--role", role, "--round", number, "--part", part, "--seed", 2)
            ran = parley("prompts", "--game", name, *key)
            sent = prompt_sent(study, {}, Wanted(role, round=number), 2)
            assert ran.out == sent.text(part) + "\n"
            assert ran.err == next(sent.about()).replace("tiny", "llm") + "\n"


@pytest.mark.parametrize(
    ("given", "parameters", "wanted"),
    [
        (["--reply-format", "text"], {"reply_format": "text"}, Wanted("honest")),
        (["--phase", "turn", "--round", "2"], {"protocol": "swarms"}, Wanted("honest", round=2, phase="turn")),
        (["--game", "deliberation", "--phase", "zero_shot"], {"cot_share": 0}, Wanted("honest")),
        (["--game", "deliberation", "--phase", "reflect"], {}, Wanted("honest", phase="reflect")),
        (["--agent-id", "agent_3"], {}, Wanted(None, "agent_3")),
    ],
)
def test_a_format_or_a_phase_of_other_parameters_can_be_chosen(
    parley: Parley, study_factory: StudyFactory, given: list[str], parameters: dict[str, object], wanted: Wanted
) -> None:
    game = "deliberation" if "deliberation" in given else "consensus"
    grid = {"model": "tiny", "n": 4, "b": 1, "prompt": next(iter(GAMES[game].prompts))}
    study = study_factory(grid, game=game, parameters=parameters)
    sent = prompt_sent(study, {}, wanted, 0)
    assert parley("prompts", *given, "--part", "user").out == sent.text("user") + "\n"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--round", "60"], "there is no such prompt (round 60, role honest)"),
        (["--round", "0"], "there is no such prompt (round 0, role honest)"),
        (
            ["--role", "nobody"],
            "no agent has the role nobody in the conditions that fit; choose one of: honest, byzantine",
        ),
        (["--agent-id", "agent_5"], "no agent agent_5; choose one of: agent_1"),
    ],
)
def test_prompts_that_no_agent_could_get_exit_2(parley: Parley, given: list[str], words: str) -> None:
    assert words in one_line_error(parley("prompts", *given), 2)


# Templates


EVERY_PROMPT = list(itertools.product(("honest", "byzantine"), PROMPTS, ("propose", "vote"), ("system", "user")))
every_prompt = pytest.mark.parametrize(("role", "awareness", "phase", "part"), EVERY_PROMPT)


@every_prompt
def test_a_template_is_printed_as_it_is(parley: Parley, role: str, awareness: str, phase: str, part: str) -> None:
    key = ("--role", role, "--awareness", awareness, "--phase", phase, "--part", part)
    printed = parley("prompts", "--game", "consensus", *key, "--template").out
    assert printed == PROMPTS.template(awareness, role, phase, part) + "\n"
    file = PROMPTS.variants[awareness][f"{role}_{phase}_{part}"]
    assert printed == file.read_text(encoding="utf-8")


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
    assert "phases: propose, vote" in one_line_error(parley("prompts", "--phase", "chat", "--template"), 2)
    study_factory()
    ran = parley("prompts", "--study", "small.yaml", "--phase", "chat")
    assert "and the phases propose, vote" in one_line_error(ran, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--game", "chess"],
        ["--role", "leader"],
        ["--awareness", "must_exist"],
        ["--phase", "chat"],
        ["--part", "assistant"],
        ["--round", "-1"],
        ["--seed", "x"],
        ["--reply-format", "xml"],
    ],
)
def test_an_unknown_prompt_or_value_exits_2(parley: Parley, arguments: list[str]) -> None:
    for template_too in ([], ["--template"]):
        ran = parley("prompts", *arguments, *template_too)
        assert ran.status == 2
        assert ran.out == ""
        assert arguments[1] in ran.err
        assert "Traceback" not in ran.err
