"""The commands that tell what agents are sent, and what they would deliberate about."""

from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import click

from parley import paths
from parley.cli import common
from parley.errors import UsageError
from parley.text import choose, one_line, table


@click.command()
@click.argument("named", metavar="STUDY | GAME", shell_complete=common.STUDY_OR_GAME_NAMES)
@common.WHERE
@click.option("--role", help="Role of the agent; default: honest, or any with --agent-id.")
@click.option("--prompt", help="Prompt of a GAME; default: the first.")
@click.option("--phase", help="Phase of the round; default: the first that fits. A wrong name lists the phases.")
@click.option(
    "--part",
    type=click.Choice(["system", "user", "reply"]),
    default="system",
    show_default=True,
    help="Which text; reply is the JSON schema that goes with it.",
)
@click.option("--agent-id", "agent", help="Agent; default: the first of its role that is asked.")
@click.option(
    "--round",
    type=click.IntRange(min=0),
    help="Round; default: the first that fits, with --against the last of those "
    "compared. 0 is what comes before the first, in games that have it.",
)
@common.SET
@click.option(
    "--against",
    multiple=True,
    metavar="AXIS=VALUE",
    help="Print how what is sent differs in this condition; if several fit, in the one most like the first.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the games.")
@click.option("--try", "tries", is_flag=True, help="Send it to a model; print its replies, and what is read of them.")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1, 1000), help="How often, with --try.")
@common.PLAYED_BY
@common.ENDPOINTS
@common.TIMEOUT
@click.option("--write", type=common.PATH, metavar="FOLDER", help="Write the templates of a GAME there.")
@common.MODELS
def prompts(
    named: str,
    where: tuple[str, ...],
    part: str,
    set_to: tuple[str, ...],
    against: tuple[str, ...],
    seed: int,
    tries: bool,
    times: int,
    model: str | None,
    endpoints: tuple[Path, ...],
    engine_timeout: float,
    write: Path | None,
    models: Path | None,
    **wanted: Any,
) -> None:
    """Print what an agent is sent.

    Of a STUDY, in the first condition that has the values --where: the game is played up to there. Scripted agents
    answer as they do; for models, and policies of your own, a scripted one answers. Whose prompt it is stands on
    stderr.

    Of a GAME, what one of four language models is sent, one of them Byzantine, in a game with default parameters but
    for those of --set. Where a study has the name of a game, the study is meant without --set and --write.

    With --against, in which words what one agent of a STUDY is sent differs from the one of the conditions --against
    that agrees with it in most else: every phase and part, up to --round, in games of the same seed.

    With --try, it goes to the model that plays the agent, or to --model, as often as --times says, with as many seeds;
    nothing is stored. With --against the replies to both prompts are printed.

    With --write, the templates of a GAME are written as files, with a README.txt that names their places.

    \b
    Examples:  parley prompts stag-hunt --where topology=ring --where disclosure=explicit
               parley prompts stag-hunt --where cheap_talk=false --part user --round 2 --seed 3
               parley prompts deliberation-demo --phase reflect --part user
               parley prompts stag-hunt --where disclosure=silent --against disclosure=explicit
               parley prompts demo --try --model smollm2-135m --times 5
               parley prompts consensus --prompt none_exist --phase vote --part user --round 2
               parley prompts consensus --set protocol=swarms --role byzantine
               parley prompts consensus --write config/prompts/mine
    """
    from rich.console import Console

    from parley.games.registry import game_class
    from parley.play.live import try_prompts
    from parley.study.own_prompts import write_templates
    from parley.study.prompt_sent import PromptQuery, default_study, part_text, prompt_diff, prompt_sent

    if wanted["role"] is None and wanted["agent"] is None:
        wanted["role"] = "honest"
    of_game = wanted.pop("prompt")
    query = PromptQuery(**wanted)
    if ":" in named or common.is_game(named, set_to, write):
        common.refuse("with a GAME", "where", "against", "models", "tries")
        game = game_class(named)
        prompt = of_game or next(iter(game.prompts))
        if write is not None:
            common.refuse("with --write", "role", "phase", "part", "agent", "round", "set_to", "seed")
            for path in write_templates(game, prompt, write):
                common.say(f"wrote: {path}")
            return
        study = default_study(game, prompt, common.parameters(set_to))
    else:
        common.refuse("with a STUDY, but with a GAME", "set_to", "write")
        study = common.load(named, models, needs_weights=False)
    axes, others = common.axis_values(where), common.axis_values(against, "--against")
    if tries:
        common.log_to_stderr()  # what is on stdout are prompts and replies
    else:
        common.refuse("without --try", "times", "model", "endpoints", "engine_timeout")
    if model is not None:
        axes["model"] = model
        study = common.with_model(study, axes, query.role or study.game.roles[0])
    if others and not tries:
        common.refuse("with --against", "prompt", "phase", "part", "agent")
        console, last = Console(highlight=False, soft_wrap=True), 1 if query.round is None else query.round
        for text in prompt_diff(study, axes, others, wanted["role"], seed, last).lines():
            console.print(text)
        return
    sent = prompt_sent(study, axes, query, seed)
    asked = [sent, sent.other(study, others)] if others else [sent]
    for each in asked:
        for line in each.about():
            click.echo(one_line(line), err=True)
        for shown in ("system", "user") if tries and part == "system" else (part,):
            click.echo(part_text(each.ask, shown))
    if tries:
        try_prompts(study, asked, times, endpoints, engine_timeout, click.echo)


@click.command()
@click.argument("source", metavar="PROBLEMS | STUDY", shell_complete=common.STUDY_NAMES)
@click.option("--show", default=5, show_default=True, type=click.IntRange(0, 10_000), help="Problems to print.")
@common.JSON
def problems(source: str, show: int, as_json: bool) -> None:
    """Check problems: how many there are, their SHA-256, and the first with their answers.

    PROBLEMS are as `problems` in a study: a kind, or a mapping; else a study is meant, whose own problems are shown.

    \b
    Examples:  parley problems arithmetic --show 10
               parley problems '{kind: gsm8k, path: data/gsm8k, split: train}'
               parley problems '{kind: jsonl, path: own.jsonl, answers: choice}'
    """
    from parley.games.problems.sources import KINDS
    from parley.text.yamlfile import plain

    written = plain(source)
    is_study = isinstance(written, str) and written not in KINDS
    if is_study and not paths.study_file(source).exists():
        raise UsageError(f"{one_line(source, 60)!r}: no study and no kind of problems; {choose(source, KINDS)}")
    sources = _of_study(source) if is_study else [_validated(written, one_line(source, 60))]
    described = [_described(each, show) for each in sources]
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
    size = source.size
    asked = [source.problem(seed) for seed in range(show if size is None else min(show, size))]
    rows = [
        {"seed": seed, "problem": p.id, "answer": _answer(p), "question": _question(p)} for seed, p in enumerate(asked)
    ]
    return {
        "source": source.label,
        "kind": source.problem_kind,
        "size": size,
        "sha256": source.problems_sha256() or None,
        "first": rows,
    }


def _lines(described: dict[str, Any]) -> Iterator[str]:
    size = described["size"]
    many = "no end of" if size is None else format(size, ",")
    yield one_line(f"{described['source']}: {many} problems ({described['kind']})")
    if described["sha256"]:
        yield f"  sha256: {described['sha256']}"
    if rows := described["first"]:
        yield from table([*rows[0]], [[*row.values()] for row in rows])


def _answer(problem: Any) -> str:
    return problem.answer if problem.definitive else f"({len(problem.options)} policies)"


COMMANDS = (prompts, problems)
