"""The commands that tell what agents are sent, and what may play them: `parley prompts` and `parley policies`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from parley.cli.options import MODELS, WHERE, axis_values, load
from parley.errors import UsageError
from parley.text import one_line

if TYPE_CHECKING:
    from parley.games.base import Game

# What a sample is filled with, by option; the values for those that are not given.
_SAMPLE: Mapping[str, Any] = {
    "agent_id": "agent_1",
    "round_number": 1,
    "max_rounds": 50,
    "value_min": 0,
    "value_max": 50,
    "initial_value": 17,
    "current_value": None,
    "neighbors": None,
    "reply_format": "json",
}
_SET_IN_STUDY = ("max_rounds", "value_min", "value_max", "initial_value", "current_value", "neighbors", "reply_format")

# Options that mean nothing in a mode, and what to use instead.
_NO_SAMPLE: Mapping[str, str] = {
    "game": "the study names its game; leave it out",
    "prompt": "a condition has its own; choose it with --where prompt=NAME",
    "template": "a study's prompts are filled; leave the study out and name its --game",
    "strategies": "a condition says what its agents are told; choose it with --where",
    **dict.fromkeys(_SET_IN_STUDY, "it is set by the study; change its parameters, or choose another condition"),
}
_IN_STUDY = {**_NO_SAMPLE, "against": "it names the other condition of --diff; use --diff instead of --study"}
_IN_DIFF = {
    **_NO_SAMPLE,
    "phase": "all phases are compared; leave it out, or print one with --study",
    "part": "all parts are compared; leave it out, or print one with --study",
    "agent_id": "the first agent of --role in both conditions is taken; leave it out",
}
_IN_SAMPLE = {
    "where": "it chooses a condition of a study; add --study STUDY or --diff STUDY",
    "against": "it names a condition of a study; add --diff STUDY",
    "seed": "it is of a game that is played; add --study STUDY or --diff STUDY",
    "models": "it goes with a study; add --study STUDY or --diff STUDY",
}

_FIRST_GAME = "default: the first of those there are, which an unknown one lists."


@click.command()
@click.option("--game", help=f"Game, for a sample or a template; {_FIRST_GAME}")
@click.option("--study", metavar="STUDY", help="Print what is really sent in a condition of this study, no sample.")
@WHERE
@click.option("--role", default="honest", show_default=True, help="Role of the agent.")
@click.option("--prompt", "--awareness", "prompt", help="Prompt variant; default: the game's first.")
@click.option(
    "--phase",
    help="Phase of the round; default: the first that fits; an unknown one lists those there are.",
)
@click.option(
    "--part",
    type=click.Choice(["system", "user", "reply"]),
    default="system",
    show_default=True,
    help="Which text; reply is the JSON schema that goes with it (--study).",
)
@click.option("--template", is_flag=True, help="Print the template, unrendered.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Add what the policy llm_strategies tells a Byzantine agent; may be repeated.",
)
@click.option(
    "--agent-id", help=f"Agent; default: {_SAMPLE['agent_id']}, with --study the first of its role that is asked."
)
@click.option(
    "--round",
    "round_number",
    type=click.IntRange(min=0),
    help=f"Round; default: {_SAMPLE['round_number']}, with --study the first that fits, with --diff the last of those "
    "compared. 0 is what comes before the first, in games that have it.",
)
@click.option("--max-rounds", type=click.IntRange(min=1), help=f"Of a sample; default: {_SAMPLE['max_rounds']}.")
@click.option("--value-min", type=int, help=f"Of a sample; default: {_SAMPLE['value_min']}.")
@click.option("--value-max", type=int, help=f"Of a sample; default: {_SAMPLE['value_max']}.")
@click.option("--initial-value", type=int, help=f"Of a sample; default: {_SAMPLE['initial_value']}.")
@click.option(
    "--current-value",
    type=int,
    help="Value that the agent of a sample holds; default: the initial one, none for a Byzantine agent.",
)
@click.option(
    "--neighbors",
    metavar="NAME,NAME",
    help="Add to a sample what an agent with these neighbors, one of eight, is told of its network.",
)
@click.option(
    "--reply-format",
    type=click.Choice(["json", "text", "two_steps"]),
    help="How the agent of a sample is asked to reply; default: json. With two_steps it is the first step.",
)
@click.option("--diff", metavar="STUDY", help="Print where the prompts of two conditions of a study differ instead.")
@click.option(
    "--against",
    multiple=True,
    metavar="AXIS=VALUE",
    help="The other condition of --diff: of those that have it, the one that agrees with the first in most else.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the games of --study and --diff."
)
@MODELS
@click.pass_context
def prompts(context: click.Context, /, **_: Any) -> None:
    """Print a prompt as an agent would receive it.

    With --study, what one agent is sent in the first condition that has the values --where: the game is played up to
    there. Scripted agents answer as they do; for models, and policies of your own, a scripted one answers. Whose
    prompt it is stands on stderr.

    With --diff, what one agent is sent in such a condition, compared with the one of the conditions --against that
    agrees with it in most else: every phase and part, up to --round, in games of the same seed.

    Without either, a sample of a game with default parameters. An option that changes nothing is refused.

    \b
    Examples:  parley prompts --study stag-hunt --where topology=ring --where disclosure=explicit
               parley prompts --study stag-hunt --where cheap_talk=false --part user --round 2 --seed 3
               parley prompts --study swarms-demo --role byzantine --where model=majority --part user
               parley prompts --study deliberation-demo --phase reflect --part user
               parley prompts --diff stag-hunt --where disclosure=silent --against disclosure=explicit
               parley prompts --role honest --awareness none_exist --phase vote --part user --round 3
               parley prompts --role byzantine --strategy stall
               parley prompts --game stag_hunt --template
    """
    given = _Given(context)
    if given["study"] and given["diff"]:
        raise UsageError("--study: --diff names a study already; give one of them")
    if given["study"] is not None:
        _print_sent(given)
    elif given["diff"] is not None:
        _print_difference(given)
    else:
        _print_sample(given)


class _Given:
    """The options of `parley prompts`: their values, and which of them the user gave."""

    def __init__(self, context: click.Context) -> None:
        self._values = context.params
        self._flags = {option.name: option.opts[0] for option in context.command.params}
        self._chosen = {
            name for name in self._values if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def chosen(self, name: str) -> bool:
        return name in self._chosen

    def refuse(self, unused: Mapping[str, str], why: str) -> None:
        """Raise UsageError if the user gave one of the options that are `unused`, with what to use instead."""
        for name, instead in unused.items():
            if name in self._chosen:
                raise UsageError(f"{self._flags[name]}: not used {why}: {instead}")


def _print_sent(given: _Given) -> None:
    from parley.study.prompt_sent import Wanted, prompt_sent

    given.refuse(_IN_STUDY, "with --study")
    any_role = given.chosen("agent_id") and not given.chosen("role")
    wanted = Wanted(None if any_role else given["role"], given["agent_id"], given["round_number"], given["phase"])
    study = load(given["study"], given["models"])
    sent = prompt_sent(study, axis_values(given["where"]), wanted, given["seed"])
    for line in sent.about():
        click.echo(one_line(line), err=True)
    click.echo(sent.text(given["part"]))


def _print_difference(given: _Given) -> None:
    from parley.study.prompt_diff import prompt_diff

    given.refuse(_IN_DIFF, "with --diff")
    chosen_axes = axis_values(given["where"]), axis_values(given["against"], "--against")
    last = 1 if given["round_number"] is None else given["round_number"]
    study = load(given["diff"], given["models"])
    for line in prompt_diff(study, *chosen_axes, given["role"], given["seed"], last).text():
        click.echo(line)


def _print_sample(given: _Given) -> None:
    from parley.games.catalog import told_to
    from parley.policies.kinds import with_instructions
    from parley.text.suggest import meant

    given.refuse(_IN_SAMPLE, "without a study")
    game, role, part = _game(given["game"]), given["role"], given["part"]
    if part == "reply":
        raise UsageError("--part reply: a sample has none; add --study STUDY")
    prompt, phase = given["prompt"] or next(iter(game.prompts)), given["phase"] or next(iter(game.prompts.phases), "")
    try:
        text = game.prompts.template(prompt, role, phase, part)
    except UsageError as error:
        there = ((prompt, game.prompts), (role, game.roles), (phase, game.prompts.phases))
        question = next((close for name, known in there if name not in known and (close := meant(name, known))), None)
        raise UsageError(f"{error}; did you mean {question!r}?" if question else str(error)) from None
    if given["template"]:
        given.refuse(dict.fromkeys(_SAMPLE, "it is not filled; leave out --template"), "in a template")
    else:
        _refuse_without_place(given, game, (prompt, role, phase, part))
        values = {name: default if given[name] is None else given[name] for name, default in _SAMPLE.items()}
        text = game.prompts.sample(prompt, role, phase, part, values)
    strategies = given["strategies"]
    click.echo(with_instructions(text, told_to(game, role, part, strategies)) if strategies else text)


def _game(name: str | None) -> "type[Game]":
    """Return the game of this name, by default the first of the register; raises UsageError for an unknown one."""
    from parley.games.registry import GAMES, game_class

    return game_class(next(iter(GAMES)) if name is None else name)


def _refuse_without_place(given: _Given, game: "type[Game]", sample: tuple[str, str, str, str]) -> None:
    """Raise UsageError for a value that this sample has no place for."""
    prompt, role, phase, part = sample
    used = game.prompts.sample_values(prompt, role, phase, part)
    with_study = "leave it out, or print what a study sends in a round with --study STUDY"
    by_study = "leave it out, or set it in a study and print what that sends with --study STUDY"
    instead = {name: by_study if name in _SET_IN_STUDY else with_study for name in _SAMPLE if name not in used}
    given.refuse(instead, f"in the sample {game.name}, {role}, {phase}, {part}")


@click.command()
@click.option("--game", help=f"Game; {_FIRST_GAME}")
def policies(game: str | None) -> None:
    """List what may play the agents of a game: policies, their parameters and defaults.

    \b
    Example:  parley policies --game consensus
    """
    from parley.games.catalog import policy_lines

    for line in policy_lines(_game(game)):
        click.echo(line)


COMMANDS = (prompts, policies)
