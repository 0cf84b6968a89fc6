"""The command that shows what was said: `parley view`."""

from pathlib import Path
from typing import Any

import click

from parley import paths
from parley.cli.options import MODELS, PLAN, STUDY, WHERE, at_work, axis_values, load
from parley.errors import UsageError


@click.command()
@STUDY
@WHERE
@click.option("--most", type=click.IntRange(min=1), help="Show at most this many simulations, those of lowest seeds.")
@click.option("--journals", is_flag=True, help="Show simulations that are being played, too.")
@click.option("--out", type=click.Path(path_type=Path), help="Write into this folder; default: results/STUDY/view.")
@click.option("--serve", is_flag=True, help="Write nothing: serve the pages on this machine, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of --serve; default: any that is free.")
@MODELS
@PLAN
def view(
    study: str,
    where: tuple[str, ...],
    most: int | None,
    journals: bool,
    out: Path | None,
    serve: bool,
    port: int | None,
    models: Path | None,
    plan: str | None,
) -> None:
    """Write pages in which each simulation of a study can be read: who was asked what, and what came back.

    They open in a browser from their folder, and need nothing else: no server, no network. Data files whose records
    did not change are left as they are.

    With --serve a browser on this machine gets them as they are when it asks, simulations that are being played
    included; it may be started before the first reply.

    \b
    Examples:  parley view demo
               parley view paper --where n=8 --most 1000
               parley view stag-hunt --serve
    """
    from parley.api.studies import load_to_read
    from parley.files import forget_done, mark_done
    from parley.report.explorer.files import write_view
    from parley.report.explorer.selection import MOST, select

    if serve and out is not None:
        raise UsageError("--out: not used with --serve, which writes nothing; leave one of them out")
    if port is not None and not serve:
        raise UsageError("--port: is for --serve; add it")

    def shown(journals: bool) -> Any:
        # A person may look at what this machine cannot play, for lack of weights.
        loaded = load(study, models, plan) if plan else load_to_read(study, paths.root(), models)
        return select(loaded, axes, most or MOST, journals, may_be_none=serve)

    axes = axis_values(where)
    if serve:
        from parley.report.explorer.server import serve_view

        serve_view(lambda: shown(journals=True), port or 0, click.echo)
        return
    found = shown(journals)
    with at_work(found.study.name, "view"):
        page = write_view(found, out or paths.view(found.study.name))
    if out is None:
        if found.left_out or found.unfinished or journals:  # the next run makes all of it
            forget_done(found.study.name, "view")
        else:
            mark_done(found.study.name, "view", found.study.plan)
    click.echo(str(page))


COMMANDS = (view,)
