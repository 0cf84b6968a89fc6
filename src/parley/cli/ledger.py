"""The commands of the ledger: the stage that makes it, and those that check, show, sign and export it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from parley import paths
from parley.cli.common import JSON, MODELS, PATH, STRICT, STUDY_NAMES, at_work, load, log_to_stderr, study_loaded, tell
from parley.text import one_line

if TYPE_CHECKING:
    from parley.ledger.check import ChainChecker
    from parley.study import Study

_TARGET = click.argument("target", metavar="STUDY|FILE", shell_complete=STUDY_NAMES)


def _chain(target: str, models: Path | None) -> Path:
    return Path(target) if paths.is_ledger(target) else paths.ledger(load(target, models).name)


def _checked(target: str, models: Path | None) -> "tuple[Path, ChainChecker]":
    """Check the chain that was meant, by its head or by the records of its study; return it, and what was found."""
    from parley.ledger.build import check_against_records
    from parley.ledger.check import check_chain

    if paths.is_ledger(target):
        return Path(target), check_chain(Path(target))
    study = load(target, models)
    return paths.ledger(study.name), check_against_records(study)


@click.group()
def ledger() -> None:
    """What was said in a study, signed and chained: make the ledger, check it, look at it.

    FILE is a ledger's file, whose name ends in .jsonl; a STUDY stands for its own, results/STUDY/ledger/chain.jsonl.

    \b
    Example:  parley ledger verify deliberation
    """


@ledger.command()
@study_loaded(plan=True)
@STRICT
def build(study: "Study", strict: bool) -> None:
    """Make the ledger of a study from its records, and the table of its blocks.

    \b
    Example:  parley ledger build deliberation
    """
    from parley.files import mark_done
    from parley.ledger.build import build as write_ledger
    from parley.play.record_store import played_part

    with at_work(study.name, "ledger"):
        part = played_part(study)
        table = write_ledger(part, strict)
    mark_done(study.name, "ledger", part.ledger_plan)
    hung = int((~table["agreed"].astype(bool)).sum())
    click.echo(f"{paths.ledger(study.name)}: {len(table):,} blocks, {hung:,} of them of deliberations that hung")


@ledger.command()
@_TARGET
@MODELS
@click.option(
    "--public-key",
    type=PATH,
    help="Check that the owner of this Ed25519 key (PEM or OpenSSH) signed the head.",
)
def verify(target: str, models: Path | None, public_key: Path | None) -> None:
    """Check a ledger; exits 1 and names the first bad block, utterance or signature.

    Every byte counts: each block has to follow the one before, with the keys, signatures, Merkle root, hash and proof
    of work that its content gives, and with a verdict that its utterances bear out. The ledger of a study is also
    compared with the study's records, from which it is made once more; a FILE only with the head.json beside it.
    Anyone could make such a chain and head: only the records, or the author's signature of the head, show whose it is.

    \b
    Examples:  parley ledger verify deliberation
               parley ledger verify results/deliberation/ledger/chain.jsonl --public-key author.pub
    """
    log_to_stderr()
    chain, checker = _checked(target, models)
    whole = "" if paths.is_ledger(target) else ", and that of the study's records"
    if public_key is not None:
        from parley.ledger.signing import check_signature

        check_signature(chain, public_key)
        whole += f"; its head is signed by the owner of {public_key}"
    elif paths.is_ledger(target):
        whole += "; the author's signature was not checked (--public-key)"
    if checker.unjudged:
        whole += f"; {checker.unjudged:,} verdicts not compared with what was said (their game is not known here)"
    hung = f" ({checker.empty:,} hung, and empty)" if checker.empty else ""
    click.echo(f"{checker.utterances:,} utterances in {checker.blocks:,} blocks{hung}: chain whole{whole}")


@ledger.command()
@_TARGET
@MODELS
@click.option(
    "--key",
    type=PATH,
    required=True,
    help="File of your Ed25519 private key (PEM or OpenSSH, without a passphrase).",
)
def sign(target: str, models: Path | None, key: Path) -> None:
    """Sign the head of a ledger with your own key, after checking the ledger as `verify` does.

    Writes head.json.sig beside the head, and prints your public key as a line that --public-key takes. Publish that
    line where readers know that it is yours.

    \b
    Example:  openssl genpkey -algorithm ed25519 -out author.pem
              parley ledger sign deliberation --key author.pem > author.pub
    """
    from parley.ledger.signing import sign_head

    log_to_stderr()
    chain, _ = _checked(target, models)
    public = sign_head(chain, key)
    click.echo(f"{paths.ledger_signature(chain)}: the head is signed; the public key is on standard output", err=True)
    click.echo(public)


@ledger.command()
@_TARGET
@MODELS
@click.option("--block", type=click.IntRange(min=0), help="Show this block with its whole history.")
@JSON
def show(target: str, models: Path | None, block: int | None, as_json: bool) -> None:
    """Print the blocks of a ledger as a table, or one block with what was said as YAML; nothing is checked.

    \b
    Examples:  parley ledger show deliberation
               parley ledger show deliberation --block 0
    """
    from parley.ledger.build import blocks, history, overview

    chain = _chain(target, models)
    lines = overview(chain) if block is None else history(chain, block).splitlines()
    tell(as_json, [each.model_dump() for each, _ in blocks(chain) if block in (None, each.height)], lines)


@ledger.command()
@_TARGET
@MODELS
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True, help="Kind of file."
)
@click.option("--output", type=PATH, help="File to write; default: print.")
def export(target: str, models: Path | None, form: Literal["jsonl", "csv"], output: Path | None) -> None:
    """Write the utterances of a ledger, one a line, with their keys and signatures; nothing is checked.

    \b
    Example:  parley ledger export deliberation --format csv --output utterances.csv
    """
    from parley.files import write_atomically
    from parley.ledger.build import export as write_utterances

    rows = write_utterances(_chain(target, models), form)
    if output is None:
        in_terminal = sys.stdout.isatty()
        for row in rows:
            click.echo(one_line(row) if in_terminal else row, nl=in_terminal)
        return
    write_atomically(output, lambda file: file.writelines(row.encode() for row in rows))
    click.echo(str(output), err=True)


COMMANDS = (ledger,)
