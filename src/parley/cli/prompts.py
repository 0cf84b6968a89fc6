"""The command that tells what agents are sent."""

from pathlib import Path
from typing import Any

import click

from parley.cli import common
from parley.text import one_line


@click.command()
@click.argument("study", metavar="STUDY")
@common.WHERE
@click.option("--role", help="Role of the agent; default: honest, or any with --agent-id.")
@click.option("--prompt", help="Prompt of the agent; default: any.")
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
@click.option("--write", type=common.PATH, metavar="FOLDER", help="Write the templates of a game there, for STUDY.")
@common.MODELS
def prompts(
    study: str,
    where: tuple[str, ...],
    part: str,
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

    It is of the first condition that has the values --where: the game is played up to there. Scripted agents answer as
    they do; for models, and policies of your own, a scripted one answers. Whose prompt it is stands on stderr.

    With --against, in which words what one agent is sent differs from the one of the conditions --against that agrees
    with it in most else: every phase and part, up to --round, in games of the same seed.

    With --try, it goes to the model that plays the agent, or to --model, as often as --times says, with as many seeds;
    nothing is stored. With --against the replies to both prompts are printed.

    With --write, the name of a game stands for STUDY: its templates are written as files, with a README.txt that names
    their places.

    \b
    Examples:  parley prompts stag-hunt --where topology=ring --where disclosure=explicit
               parley prompts stag-hunt --where cheap_talk=false --part user --round 2 --seed 3
               parley prompts deliberation-demo --phase reflect --part user
               parley prompts stag-hunt --where disclosure=silent --against disclosure=explicit
               parley prompts demo --try --model smollm2-135m --times 5
               parley prompts consensus --write config/prompts/mine
    """
    from rich.console import Console

    from parley.games.registry import game_class
    from parley.play.live import try_prompts
    from parley.study.own_prompts import write_templates
    from parley.study.prompt_sent import PromptQuery, part_text, prompt_diff, prompt_sent

    if write is not None:
        game = game_class(study)
        for path in write_templates(game, wanted["prompt"] or next(iter(game.prompts)), write):
            common.say(f"wrote: {path}")
        return
    if wanted["role"] is None and wanted["agent"] is None:
        wanted["role"] = "honest"
    query, loaded = PromptQuery(**wanted), common.load(study, models, needs_weights=False)
    axes, others = common.axis_values(where), common.axis_values(against, "--against")
    if not tries:
        common.refuse("without --try", "times", "model", "endpoints", "engine_timeout")
    if model is not None:
        axes["model"] = model
        loaded = common.with_model(loaded, axes, query.role or loaded.game.roles[0])
    if others and not tries:
        common.refuse("with --against", "prompt", "phase", "part", "agent")
        console, last = Console(highlight=False, soft_wrap=True), 1 if query.round is None else query.round
        for text in prompt_diff(loaded, axes, others, wanted["role"], seed, last).lines():
            console.print(text)
        return
    sent = prompt_sent(loaded, axes, query, seed)
    asked = [sent, sent.other(loaded, others)] if others else [sent]
    for each in asked:
        for line in each.about():
            click.echo(one_line(line), err=True)
        for shown in ("system", "user") if tries and part == "system" else (part,):
            click.echo(part_text(each.ask, shown))
    if tries:
        common.log_to_stderr()  # what is on stdout are prompts and replies
        try_prompts(loaded, asked, times, endpoints, engine_timeout, click.echo)


COMMANDS = (prompts,)
