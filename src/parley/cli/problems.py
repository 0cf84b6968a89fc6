"""The command that shows what a deliberation would be about, from a study or straight from files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from parley import paths
from parley.cli.options import say
from parley.errors import UsageError
from parley.text import one_line, table


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

    given = {name: str(value) if name == "path" else value for name, value in options.items() if value is not None}
    if readings and source != "gsm8k":
        raise UsageError("--readings: GSM8K alone has worked solutions; write: parley problems gsm8k --readings")
    if source in KINDS:
        found = _validated({"kind": source, **given}, source)
        _print(found, show)
        if readings:
            _print_readings(found)
        return
    if given:
        raise UsageError(
            f"{one_line(source, 60)}: no kind of problems ({', '.join(KINDS)}), and a study has no options"
        )
    for index, found in enumerate(_of_study(paths.study_file(source))):
        if index:
            click.echo()
        _print(found, show)


def _validated(value: Any, where: str) -> Any:
    """Return a source as a study would give it; raises UsageError."""
    from pydantic import BaseModel

    from parley.games.problems.sources import ProblemSource
    from parley.text.yamlfile import validated

    class Given(BaseModel):
        problems: ProblemSource

    return validated(Given, {"problems": value}, where).problems


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


def _print(source: Any, show: int) -> None:
    source.check()
    size = source.size
    sha256 = source.problems_sha256()
    say(f"{source.label}: {'no end of' if size is None else format(size, ',')} problems ({source.problem_kind})")
    for what, count in source.report().items():
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


COMMANDS = (problems,)
