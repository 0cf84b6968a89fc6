"""The card of a model."""

import re
from pathlib import Path

import click

from parley import paths
from parley.cli import common
from parley.errors import UsageError

_DRY_RUN = re.compile(r"-[a-zA-Z]*n|--dry-?run")  # options of Snakemake


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("names", nargs=-1, required=True, type=click.UNPROCESSED, metavar="MODEL [OPTION OF SNAKEMAKE]...")
@click.option("--quick", is_flag=True, help="Two seeds of each condition: wide intervals. Without it, it goes on.")
@click.option("--compare", is_flag=True, help="Name two card.json instead: which of their axes differ.")
@common.MODELS_FILE
def card(names: tuple[str, ...], quick: bool, compare: bool, models: Path) -> None:
    """Play a frozen study of studies with a model, and write its card: cards/MODEL/card.json, card.md, card.html.

    MODEL is an entry of models.yaml, a model without one (openai:NAME, as `parley play` has it), or a scripted
    reference: majority, flood_min, random, grim_trigger, copies, ... First it says what it takes. Stopped, the same
    command goes on. Records and studies lie beside the card, so that anyone can replay it. `parley serve MODEL --keep
    30m` beforehand starts the engine once for all.

    \b
    Examples:  parley card qwen3-8b
               parley card smollm2-135m --quick
               parley card majority
               parley card --compare cards/qwen3-8b/card.json cards/majority/card.json
    """
    from parley.card.content import read_card
    from parley.card.measures import make_card
    from parley.card.page import comparison_lines, write_card
    from parley.card.play import estimate_line, hide_places, play, write_studies
    from parley.engine.models import known_models
    from parley.study import load_study
    from parley.workflow.run import missing_records

    model, *options = names
    if compare:
        if len(names) != 2:
            raise UsageError("card --compare: name two cards: parley card --compare A/card.json B/card.json")
        for line in comparison_lines(*(read_card(Path(each)) for each in names)):
            common.say(line)
        return
    if model.startswith("-"):
        raise UsageError(f"card: name the model first, then options: parley card MODEL {model}")
    name, entry = common.unfiled_model(model, models) or (model, known_models(models).get(model))
    folder = paths.CARDS / name
    if quick and (folder / "card.json").is_file() and not read_card(folder / "card.json").quick:
        raise UsageError(f"{folder / 'card.json'}: is of all games; leave out --quick, which would make it of a few")
    files = write_studies(folder, name, entry, models, quick)
    try:
        studies = []
        for file in files:
            with paths.rooted(paths.home(file)):
                studies.append(load_study(file, needs_weights=False))
                if missing_records(studies[-1], by_shard=False):
                    load_study(file)  # which says what is missing to play them
        common.say(estimate_line(studies, name))
        play(files, options)
        if any(_DRY_RUN.match(option) for option in options):
            return
        for path in write_card(make_card(files, name, quick), folder):
            common.say(str(path))
    finally:
        hide_places(folder)


COMMANDS = (card,)
