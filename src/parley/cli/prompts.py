"""The commands that tell what agents are sent, what may play them, and what they would deliberate about."""

from collections.abc import Callable, Iterator, Mapping
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from parley.cli import common
from parley.errors import UsageError
from parley.text import one_line, table

if TYPE_CHECKING:
    from parley.games.base import Game
    from parley.study import Study

_FIRST_GAME = "default: the first of those there are, which an unknown one lists."


@click.command()
@click.argument("study", required=False, metavar="[STUDY | GAME]", shell_complete=common.STUDY_NAMES)
@click.option("--game", shell_complete=common.GAME_NAMES, help=f"Game, where no study is named; {_FIRST_GAME}")
@common.WHERE
@click.option("--role", default="honest", show_default=True, help="Role of the agent.")
@click.option("--prompt", help="Prompt; default: the game's first. Of a study, that of the agent.")
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
    help="Round; default: the first that fits, with --against the last of those "
    "compared. 0 is what comes before the first, in games that have it.",
)
@click.option(
    "--reply-format",
    type=click.Choice(["json", "text", "two_steps"]),
    help="How agents are asked to reply; default: the game's own. With a study leave it out: the study says it.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="AXIS=VALUE",
    help="Print how what is sent differs in this condition; if several fit, in the one most like the first.",
)
@click.option("--diff", nargs=2, metavar="PROMPT PROMPT", help="Print in which words two prompts of a study differ.")
@click.option("--lengths", is_flag=True, help="Print how long the prompts of a study are.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the games.")
@click.option("--write", type=common.PATH, metavar="FOLDER", help="Write templates of a game there.")
@common.MODELS
@click.pass_context
def prompts(context: click.Context, /, **_: Any) -> None:
    """Print what an agent is sent.

    Of a STUDY, in the first condition that has the values --where: the game is played up to there. Scripted agents
    answer as they do; for models, and policies of your own, a scripted one answers. Whose prompt it is stands on
    stderr.

    With --against, what one agent is sent in such a condition, compared with the one of the conditions --against that
    agrees with it in most else: every phase and part, up to --round, in games of the same seed. With --diff, the words
    in which the templates of two prompts differ, as far as the study sends them.

    With --lengths, how long each prompt of a STUDY is, by the number of agents.

    With --write, the templates of a GAME are written as files, with a README.txt that names their places.

    Of a GAME, or without either, what one of four language models is sent, one of them Byzantine, in a game with
    default parameters; a study shows any others (rounds, range of values, topology). An option that changes nothing
    is refused. Where a study has the name of a game, the study is meant; --game names the game.

    \b
    Examples:  parley prompts stag-hunt --where topology=ring --where disclosure=explicit
               parley prompts stag-hunt --where cheap_talk=false --part user --round 2 --seed 3
               parley prompts swarms-demo --role byzantine --where model=majority --part user
               parley prompts deliberation-demo --phase reflect --part user
               parley prompts stag-hunt --where disclosure=silent --against disclosure=explicit
               parley prompts my-study --diff may_exist watched
               parley prompts my-study --lengths
               parley prompts consensus --write config/prompts/mine
               parley prompts --role honest --prompt none_exist --phase vote --part user --round 2
               parley prompts --role byzantine --strategy stall
               parley prompts stag_hunt --template
    """
    options = _Options(context)
    _MODES[options.mode][0](options)


class _Options:
    """The options of `parley prompts`: their values, which of them the user gave, and so what is to be printed."""

    def __init__(self, context: click.Context) -> None:
        self._values = context.params
        flags = {option.name: option.opts[0] for option in context.command.params}
        self._set = {
            name for name in self._values if context.get_parameter_source(name) is not ParameterSource.DEFAULT
        }
        if self["study"] is not None and common.is_game(named := self["study"]):
            if self.is_set("game"):
                raise UsageError("--game: not used with a GAME, which is named already; leave it out")
            self._values |= {"study": None, "game": named}
        of_study = ("diff", "lengths", "against", "study") if self["study"] is not None else ("template",)
        self.mode = next((mode for mode in ("write", *of_study) if self[mode]), "game")
        for name in sorted(self._set - _MODES[self.mode][1] - {self.mode, "study"}):
            why = {"study": "with a STUDY, which says it", "game": "without a STUDY"}.get(self.mode)
            raise UsageError(f"{flags[name]}: not used {why or f'with {flags[self.mode]}'}; leave it out")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def is_set(self, name: str) -> bool:
        return name in self._set


def _study(options: _Options) -> "Study":
    return common.load(options["study"], options["models"], needs_weights=False)  # type: ignore[no-any-return]


def _print_first(options: _Options, study: "Study", phase: str | None) -> None:
    """Print the first prompt of a study that is asked for; on stderr, whose it is."""
    from parley.study.prompt_sent import PromptQuery, prompt_sent

    any_role = options.is_set("agent_id") and not options.is_set("role")
    role, prompt = None if any_role else options["role"], options["prompt"]
    query = PromptQuery(role, options["agent_id"], options["round_number"], phase, prompt)
    sent = prompt_sent(study, common.axis_values(options["where"]), query, options["seed"])
    for line in sent.about():
        click.echo(one_line(line), err=True)
    click.echo(sent.text(options["part"]))


def _print_against(options: _Options) -> None:
    from parley.study.prompt_sent import prompt_diff

    chosen_axes = common.axis_values(options["where"]), common.axis_values(options["against"], "--against")
    last = 1 if options["round_number"] is None else options["round_number"]
    for line in prompt_diff(_study(options), *chosen_axes, options["role"], options["seed"], last).text():
        click.echo(line)


def _print_diff(options: _Options) -> None:
    from rich.console import Console

    from parley.study.prompt_sent import word_diff

    console = Console(highlight=False, soft_wrap=True)
    for line in word_diff(_study(options), *options["diff"]):
        console.print(line)


def _print_lengths(options: _Options) -> None:
    from parley.study.prompt_sent import prompt_lengths

    header = ("prompt", "n", "characters at first", "longest, at least", "tokens with the reply, about", "")
    rows: list[list[str | int]] = [
        [prompt, n, *(f"{size:,}" for size in sizes), f"too long for {', '.join(too_small)}" if too_small else ""]
        for prompt, n, *sizes, too_small in prompt_lengths(_study(options), options["seed"])
    ]
    for line in table(header, rows):
        click.echo(line)


def _print_write(options: _Options) -> None:
    from parley.study.own_prompts import write_templates

    game = _game(options["study"] or options["game"])
    for path in write_templates(game, _prompt(options, game), options["write"]):
        common.say(f"wrote: {path}")


def _print_game(options: _Options) -> None:
    from parley.study.prompt_sent import default_study

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
    game = _game(options["game"])
    phase = options["phase"] or next(iter(game.prompts.phases), "")
    click.echo(game.prompts.template(_prompt(options, game), options["role"], phase, options["part"]))


_OF_ASK = {"role", "prompt", "phase", "part"}
# What is printed, by the option that asks for it, with the other options that it has a use for.
_MODES: Mapping[str, tuple[Callable[[_Options], None], set[str]]] = {
    "write": (_print_write, {"game", "prompt"}),
    "diff": (_print_diff, {"models"}),
    "lengths": (_print_lengths, {"models", "seed"}),
    "against": (_print_against, {"models", "seed", "where", "role", "round_number"}),
    "study": (
        lambda options: _print_first(options, _study(options), options["phase"]),
        {*_OF_ASK, "models", "seed", "where", "agent_id", "round_number"},
    ),
    "template": (_print_template, {*_OF_ASK, "game"}),
    "game": (_print_game, {*_OF_ASK, "game", "seed", "agent_id", "round_number", "strategies", "reply_format"}),
}


def _prompt(options: _Options, game: "type[Game]") -> str:
    return options["prompt"] or next(iter(game.prompts))


def _game(name: str | None) -> "type[Game]":
    """Return the game of this name, by default the first of the register; raises UsageError for an unknown one."""
    from parley.games.registry import GAMES, game_class

    return game_class(next(iter(GAMES)) if name is None else name)


@click.command()
@click.option("--game", shell_complete=common.GAME_NAMES, help=f"Game; {_FIRST_GAME}")
def policies(game: str | None) -> None:
    """List what may play the agents of a game: policies, their parameters and defaults.

    \b
    Example:  parley policies --game consensus
    """
    from parley.games.registry import policy_lines

    for line in policy_lines(_game(game)):
        click.echo(line)


@click.command()
@click.argument("source", metavar="KIND_OR_STUDY", shell_complete=common.STUDY_NAMES)
@click.option("--path", type=common.PATH, help="File or folder of the problems.")
@click.option("--repo", metavar="OWNER/NAME", help="Data set of the Hugging Face hub, instead of --path.")
@click.option("--revision", help="Its commit, 40 hexadecimal digits.")
@click.option("--split", type=click.Choice(["train", "test"]), help="Part of GSM8K; default: test.")
@click.option("--answers", type=click.Choice(["number", "choice"]), help="What answers in your JSON lines are.")
@click.option("--order", type=int, help="Seed of the order; default: 0.")
@click.option("--first", type=int, help="Use the first problems of the order only.")
@click.option("--show", default=5, show_default=True, type=click.IntRange(0, 10_000), help="Problems to print.")
@common.JSON
def problems(source: str, show: int, as_json: bool, **options: Any) -> None:
    """Check problems: how many there are, what did not fit, their SHA-256, and the first with their answers.

    KIND is arithmetic, wason, gsm8k, delidata, jsonl or policies; else a study is meant, whose own problems are shown.

    \b
    Examples:  parley problems arithmetic --show 10
               parley problems gsm8k --path data/gsm8k --split train
               parley problems jsonl --path own.jsonl --answers choice
    """
    from parley.games.problems.sources import KINDS

    named = {name: str(value) if name == "path" else value for name, value in options.items() if value is not None}
    if source not in KINDS and named:
        raise UsageError(
            f"{one_line(source, 60)}: no kind of problems ({', '.join(KINDS)}), and a study has no options"
        )
    found = [_validated({"kind": source, **named}, source)] if source in KINDS else _of_study(source)
    described = [_described(each, show) for each in found]
    common.tell(as_json, described, "\n\n".join("\n".join(_lines(each)) for each in described).splitlines())


def _validated(value: Any, where: str) -> Any:
    from pydantic import BaseModel

    from parley.games.problems.sources import ProblemSource
    from parley.text.yamlfile import validated

    class Named(BaseModel):
        problems: ProblemSource

    return validated(Named, {"problems": value}, where).problems


def _of_study(name: str) -> list[Any]:
    """Return the problems that a study names, each once; raises UsageError if its game has none."""
    found: list[Any] = []
    for condition in common.load(name, None, needs_weights=False).conditions:
        source = getattr(condition.parameters, "problems", None)
        found += [] if source is None or source in found else [source]
    if not found:
        raise UsageError(f"{name}: its game has no problems; give a kind of problems")
    return found


def _question(problem: Any) -> str:
    listed = zip(ascii_uppercase, problem.options, strict=False) if problem.kind == "choice" else ()
    facts = [f"Facts: {' '.join(problem.facts)}"] if problem.facts else []
    return " ".join([problem.question, *(f"{letter}) {option}" for letter, option in listed), *facts])


def _described(source: Any, show: int) -> dict[str, Any]:
    source.check()
    size, stored = source.size, source.stored()
    asked = [source.problem(seed) for seed in range(show if size is None else min(show, size))]
    rows = [
        {"seed": seed, "problem": p.id, "answer": _answer(p), "question": _question(p)} for seed, p in enumerate(asked)
    ]
    return {
        "source": source.label,
        "kind": source.problem_kind,
        "size": size,
        "counts": dict(stored.counts) if stored else {},
        "sha256": source.problems_sha256() or None,
        "first": rows,
    }


def _lines(described: dict[str, Any]) -> Iterator[str]:
    size = described["size"]
    many = "no end of" if size is None else format(size, ",")
    yield one_line(f"{described['source']}: {many} problems ({described['kind']})")
    for what, count in described["counts"].items():
        yield f"  {what}: {count:,}"
    if described["sha256"]:
        yield f"  sha256: {described['sha256']}"
    if rows := described["first"]:
        yield from table([*rows[0]], [[*row.values()] for row in rows])


def _answer(problem: Any) -> str:
    return problem.answer if problem.definitive else f"({len(problem.options)} policies)"


COMMANDS = (prompts, policies, problems)
