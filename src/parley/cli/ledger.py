"""The commands of the ledger: the stage that makes it, and those that check and show it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from parley import paths
from parley.cli.common import MODELS, at_work, load, log_to_stderr, study_loaded

if TYPE_CHECKING:
    from parley.study import Study

_TARGET = click.argument("target", metavar="STUDY|FILE")


@click.group()
def ledger() -> None:
    """What was said in a study, signed and chained: make the ledger, check it, look at it.

    FILE is a ledger's file, whose name ends in .jsonl; a STUDY stands for its own, results/STUDY/ledger/chain.jsonl.

    \b
    Example:  parley ledger verify deliberation
    """


@ledger.command()
@study_loaded(plan=True)
def build(study: "Study") -> None:
    """Make the ledger of a study from its records, and the table of its blocks.

    \b
    Example:  parley ledger build deliberation
    """
    from parley.files import mark_done
    from parley.ledger.build import build as write_ledger
    from parley.play.record_store import played_part

    with at_work(study.name, "ledger"):
        part = played_part(study)
        table = write_ledger(part)
    mark_done(study.name, "ledger", part.ledger_plan)
    hung = int((~table["agreed"].astype(bool)).sum())
    click.echo(f"{paths.ledger(study.name)}: {len(table):,} blocks, {hung:,} of them of deliberations that hung")


@ledger.command()
@_TARGET
@MODELS
def verify(target: str, models: Path | None) -> None:
    """Check a ledger; exits 1 and names the first bad block, utterance or signature.

    Every byte counts: each block has to follow the one before, with the keys, signatures, Merkle root and hash that
    its content gives. The ledger of a study is also compared with the study's records, from which it is made once
    more; a FILE only with the head.json beside it. Anyone could make such a chain and head: only the records, or a
    head that was published, show whose it is.

    \b
    Examples:  parley ledger verify deliberation
               parley ledger verify results/deliberation/ledger/chain.jsonl
    """
    from parley.ledger.build import check_against_records
    from parley.ledger.check import check_chain

    log_to_stderr()
    if paths.is_ledger(target):
        checker, whole = check_chain(Path(target)), ""
    else:
        checker, whole = check_against_records(load(target, models)), ", and that of the study's records"
    hung = f" ({checker.empty:,} hung, and empty)" if checker.empty else ""
    click.echo(f"{checker.utterances:,} utterances in {checker.blocks:,} blocks{hung}: chain whole{whole}")


@ledger.command()
@_TARGET
@MODELS
def show(target: str, models: Path | None) -> None:
    """Print the blocks of a ledger as a table; nothing is checked.

    \b
    Example:  parley ledger show deliberation
    """
    from parley.ledger.build import overview

    chain = Path(target) if paths.is_ledger(target) else paths.ledger(load(target, models).name)
    for line in overview(chain):
        click.echo(line)


COMMANDS = (ledger,)
