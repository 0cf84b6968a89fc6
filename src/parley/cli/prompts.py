"""The commands that tell what agents are sent, what may play them, and what they would deliberate about."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from parley import paths
from parley.cli.options import MODELS, WHERE, axis_values, load, say
from parley.errors import UsageError
from parley.text import one_line, table

if TYPE_CHECKING:
    from parley.games.base import Game
    from parley.study import Study

# Options that mean nothing in a mode, and what to use instead.
_OF_GAME: Mapping[str, str] = {
    "game": "the study names its game; leave it out",
    "prompt": "a condition has its own; choose it with --where prompt=NAME",
    "template": "a study's prompts are filled; leave the study out and name its --game",
    "strategies": "a condition says what its agents are told; choose it with --where",
    "reply_format": "it is set by the study; change its parameters, or choose another condition",
}
_IN_STUDY = {**_OF_GAME, "against": "it names the other condition of --diff; use --diff instead of --study"}
_IN_DIFF = {
    **_OF_GAME,
    "phase": "all phases are compared; leave it out, or print one with --study",
    "part": "all parts are compared; leave it out, or print one with --study",
    "agent_id": "the first agent of --role in both conditions is taken; leave it out",
}
_IN_GAME = {
    "where": "it chooses a condition of a study; add --study STUDY or --diff STUDY",
    "against": "it names a condition of a study; add --diff STUDY",
    "models": "it goes with a study; add --study STUDY or --diff STUDY",
}
_IN_TEMPLATE = dict.fromkeys(
    ("strategies", "agent_id", "round_number", "reply_format", "seed"), "it is not filled; leave out --template"
)

_FIRST_GAME = "default: the first of those there are, which an unknown one lists."


@click.command()
@click.argument("names", nargs=-1, metavar="[GAME | STUDY] [PROMPT]")
@click.option("--game", help=f"Game, where no study is named; {_FIRST_GAME}")
@click.option("--study", metavar="STUDY", help="Print what is sent in a condition of this study.")
@WHERE
@click.option("--role", default="honest", show_default=True, help="Role of the agent.")
@click.option("--prompt", "--awareness", "prompt", help="Prompt variant; default: the game's first.")
@click.option(
    "--phase",
    help="Phase of the round; default: the first that fits. A wrong name lists the phases.",
)
@click.option(
    "--part",
    type=click.Choice(["system", "user", "reply"]),
    default="system",
    show_default=True,
    help="Which text; reply is the JSON schema that goes with it.",
)
@click.option("--template", is_flag=True, help="Print the template, unrendered.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Add what the policy llm_strategies tells a Byzantine agent; may be repeated.",
)
@click.option("--agent-id", help="Agent; default: the first of its role that is asked.")
@click.option(
    "--round",
    "round_number",
    type=click.IntRange(min=0),
    help="Round; default: the first that fits, with --diff the last of those "
    "compared. 0 is what comes before the first, in games that have it.",
)
@click.option(
    "--reply-format",
    type=click.Choice(["json", "text", "two_steps"]),
    help="How agents are asked to reply; default: the game's own. With a study leave it out: the study says it.",
)
@click.option("--diff", metavar="STUDY", help="Print where prompts of two conditions, or two prompts, differ instead.")
@click.option(
    "--against",
    multiple=True,
    metavar="AXIS=VALUE",
    help="The other condition of --diff; if several fit, the one most like the first.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the games.")
@click.option("--write", type=click.Path(path_type=Path), metavar="FOLDER", help="Write templates of a game there.")
@MODELS
@click.pass_context
def prompts(context: click.Context, /, **_: Any) -> None:
    """Print what an agent is sent.

    With --study, in the first condition that has the values --where: the game is played up to there. Scripted agents
    answer as they do; for models, and policies of your own, a scripted one answers. Whose prompt it is stands on
    stderr.

    With --diff, what one agent is sent in such a condition, compared with the one of the conditions --against that
    agrees with it in most else: every phase and part, up to --round, in games of the same seed. With two prompts, the
    words in which their templates differ, as far as the study sends them.

    With --write, the templates of a game are written as files, with a README.txt that names their places.

    Without either, what one of four language models is sent, one of them Byzantine, in a game with default parameters;
    --study shows any others (rounds, range of values, topology). An option that changes nothing is refused.

    \b
    Examples:  parley prompts --study stag-hunt --where topology=ring --where disclosure=explicit
               parley prompts --study stag-hunt --where cheap_talk=false --part user --round 2 --seed 3
               parley prompts --study swarms-demo --role byzantine --where model=majority --part user
               parley prompts --study deliberation-demo --phase reflect --part user
               parley prompts consensus --write config/prompts/mine
               parley prompts my-study --diff may_exist watched
               parley prompts --diff stag-hunt --where disclosure=silent --against disclosure=explicit
               parley prompts --role honest --awareness none_exist --phase vote --part user --round 2
               parley prompts --role byzantine --strategy stall
               parley prompts --game stag_hunt --template
    """
    options = _Options(context)
    if options["study"] and options["diff"]:
        raise UsageError("--study: --diff names a study already; give one of them")
    if options["write"] is not None:
        _write_templates(options)
    elif len(options["names"]) == 2 and options["diff"] is not None:
        _print_words(options)
    elif options["names"]:
        unused = one_line(options["names"][0], 60)
        raise UsageError(f"{unused}: only for --write FOLDER and --diff PROMPT PROMPT; else give --study or --game")
    elif options["study"] is not None:
        _print_sent(options)
    elif options["diff"] is not None:
        _print_difference(options)
    elif options["template"]:
        _print_template(options)
    else:
        _print_default(options)


class _Options:
    """The options of `parley prompts`: their values, and which of them the user gave."""

    def __init__(self, context: click.Context) -> None:
        self._values = context.params
        self._flags = {option.name: option.opts[0] for option in context.command.params}
        self._set = {
            name for name in self._values if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def is_set(self, name: str) -> bool:
        return name in self._set

    def refuse(self, unused: Mapping[str, str], why: str) -> None:
        """Raise UsageError if the user gave one of the options that are `unused`, with what to use instead."""
        for name, instead in unused.items():
            if name in self._set:
                raise UsageError(f"{self._flags[name]}: not used {why}: {instead}")

    def refuse_all_but(self, *used: str) -> None:
        """Raise UsageError if the user gave another option: whole templates are meant."""
        self.refuse(dict.fromkeys(sorted(self._set.difference(used)), "leave it out"), "with whole templates")


def _print_sent(options: _Options) -> None:
    options.refuse(_IN_STUDY, "with --study")
    _print_first(options, load(options["study"], options["models"], needs_weights=False), options["phase"])


def _print_first(options: _Options, study: "Study", phase: str | None) -> None:
    """Print the first prompt of a study that is asked for; on stderr, whose it is."""
    from parley.study.prompt_sent import Wanted, prompt_sent

    any_role = options.is_set("agent_id") and not options.is_set("role")
    query = Wanted(None if any_role else options["role"], options["agent_id"], options["round_number"], phase)
    sent = prompt_sent(study, axis_values(options["where"]), query, options["seed"])
    for line in sent.about():
        click.echo(one_line(line), err=True)
    click.echo(sent.text(options["part"]))


def _print_difference(options: _Options) -> None:
    from parley.study.prompt_diff import prompt_diff

    options.refuse(_IN_DIFF, "with --diff")
    chosen_axes = axis_values(options["where"]), axis_values(options["against"], "--against")
    last = 1 if options["round_number"] is None else options["round_number"]
    study = load(options["diff"], options["models"], needs_weights=False)
    for line in prompt_diff(study, *chosen_axes, options["role"], options["seed"], last).text():
        click.echo(line)


def _print_words(options: _Options) -> None:
    from rich.console import Console

    from parley.study.prompt_diff import word_diff

    options.refuse_all_but("names", "diff", "models")
    study, other = options["names"]
    console = Console(highlight=False, soft_wrap=True)
    loaded = load(study, options["models"], needs_weights=False)
    for line in word_diff(loaded, options["diff"], other):
        console.print(line)


def _write_templates(options: _Options) -> None:
    from parley.study.own_prompts import write_templates

    options.refuse_all_but("write", "prompt", "game" if not options["names"] else "names")
    game = _game(" ".join(options["names"]) or options["game"])
    for path in write_templates(game, _prompt(options, game), options["write"]):
        say(f"wrote: {path}")


def _print_default(options: _Options) -> None:
    from parley.study.prompt_sent import default_study

    options.refuse(_IN_GAME, "without a study")
    game, strategies, reply_format = _game(options["game"]), options["strategies"], options["reply_format"]
    if strategies and (options["role"], options["part"]) != (game.roles[-1], "system"):
        raise UsageError(
            f"--strategy: it is told to {game.roles[-1]} agents in their system prompts; add --role {game.roles[-1]} "
            "--part system"
        )
    phase, parameters = game.prompts.asked_in.get(options["phase"], (options["phase"], {}))
    parameters = {**parameters, **({"reply_format": reply_format} if reply_format else {})}
    _print_first(options, default_study(game, _prompt(options, game), parameters, strategies), phase)


def _print_template(options: _Options) -> None:
    options.refuse(_IN_GAME | _IN_TEMPLATE, "in a template")
    game = _game(options["game"])
    phase = options["phase"] or next(iter(game.prompts.phases), "")
    click.echo(game.prompts.template(_prompt(options, game), options["role"], phase, options["part"]))


def _prompt(options: _Options, game: "type[Game]") -> str:
    return options["prompt"] or next(iter(game.prompts))


def _game(name: str | None) -> "type[Game]":
    """Return the game of this name, by default the first of the register; raises UsageError for an unknown one."""
    from parley.games.registry import GAMES, game_class

    return game_class(next(iter(GAMES)) if name is None else name)


@click.command()
@click.option("--game", help=f"Game; {_FIRST_GAME}")
def policies(game: str | None) -> None:
    """List what may play the agents of a game: policies, their parameters and defaults.

    \b
    Example:  parley policies --game consensus
    """
    from parley.games.registry import policy_lines

    for line in policy_lines(_game(game)):
        click.echo(line)


@click.command()
@click.argument("source", metavar="KIND_OR_STUDY")
@click.option("--path", type=click.Path(path_type=Path), help="File or folder of the problems.")
@click.option("--repo", metavar="OWNER/NAME", help="Data set of the Hugging Face hub, instead of --path.")
@click.option("--revision", help="Its commit, 40 hexadecimal digits.")
@click.option("--split", type=click.Choice(["train", "test"]), help="Part of GSM8K; default: test.")
@click.option("--order", type=int, help="Seed of the order; default: 0.")
@click.option("--first", type=int, help="Use the first problems of the order only.")
@click.option("--show", default=5, show_default=True, type=click.IntRange(0, 10_000), help="Problems to print.")
@click.option("--readings", is_flag=True, help="Count how often each reading of numbers finds GSM8K's gold number.")
def problems(source: str, show: int, readings: bool, **options: Any) -> None:
    """Check problems: how many there are, what did not fit, their SHA-256, and the first with their answers.

    KIND is arithmetic, wason, gsm8k, delidata or policies; else a study is meant, whose own problems are shown.

    \b
    Examples:  parley problems arithmetic --show 10
               parley problems gsm8k --path data/gsm8k --split train
               parley problems gsm8k --path data/gsm8k --readings --show 0
    """
    from parley.games.problems.sources import KINDS

    named = {name: str(value) if name == "path" else value for name, value in options.items() if value is not None}
    if readings and source != "gsm8k":
        raise UsageError("--readings: GSM8K alone has worked solutions; write: parley problems gsm8k --readings")
    if source in KINDS:
        found = _validated({"kind": source, **named}, source)
        _print_problems(found, show)
        if readings:
            _print_readings(found)
        return
    if named:
        raise UsageError(
            f"{one_line(source, 60)}: no kind of problems ({', '.join(KINDS)}), and a study has no options"
        )
    for index, found in enumerate(_of_study(paths.study_file(source))):
        if index:
            click.echo()
        _print_problems(found, show)


def _validated(value: Any, where: str) -> Any:
    """Return a source as a study would give it; raises UsageError."""
    from pydantic import BaseModel

    from parley.games.problems.sources import ProblemSource
    from parley.text.yamlfile import validated

    class Named(BaseModel):
        problems: ProblemSource

    return validated(Named, {"problems": value}, where).problems


def _of_study(file: Path) -> Iterator[Any]:
    """Yield the problems that a study names, each once; raises UsageError if it names none."""
    from parley.study.study_file import StudyFile
    from parley.text.yamlfile import load_yaml, validated

    content = validated(StudyFile, load_yaml(file), str(file))
    named = [content.parameters["problems"]] if "problems" in content.parameters else []
    named += [value for grid in content.grids for value in grid.vary.get("problems", [])]
    if not named:
        raise UsageError(f"{file}: names no problems; add parameters.problems, or give a kind of problems")
    seen = []
    for value in named:
        if value not in seen:
            seen.append(value)
            yield _validated(value, str(file))


def _print_problems(source: Any, show: int) -> None:
    source.check()
    size = source.size
    sha256 = source.problems_sha256()
    say(f"{source.label}: {'no end of' if size is None else format(size, ',')} problems ({source.problem_kind})")
    stored = source.stored()
    for what, count in (stored.counts if stored else {}).items():
        click.echo(f"  {what}: {count:,}")
    if sha256:
        click.echo(f"  sha256: {sha256}")
    found = [source.problem(seed) for seed in range(show if size is None else min(show, size))]
    if found:
        rows = [(seed, p.id, _answer(p), one_line(p.question)) for seed, p in enumerate(found)]
        for line in table(("seed", "problem", "answer", "question"), rows):
            click.echo(line)


def _print_readings(source: Any) -> None:
    rows = source.readings()
    header = ("gold solutions as replies", "replies", *rows[0][2])
    for line in table(header, [(what, count, *found.values()) for what, count, found in rows]):
        click.echo(line)


def _answer(problem: Any) -> str:
    return problem.answer if problem.definitive else f"({len(problem.options)} policies)"


COMMANDS = (prompts, policies, problems)
