"""The command that runs a study: Snakemake, with the Snakefile of this checkout; and a small copy to try first."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley import paths
from parley.errors import UsageError
from parley.files import read_regular, write_atomically
from parley.text.yamlfile import load_yaml, yaml_text

if TYPE_CHECKING:
    from parley.study import Study

# Options that say how many jobs run at once, or name a profile that does.
_JOBS = re.compile(r"--(cores|jobs|profile)(=.*)?|-[cj].*")
_CONFIG = re.compile(r"--config(=.*)?|-C.*")


def own_options(options: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of `parley run` that are Parley's, and Snakemake's; raises UsageError for a wrong value."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--seeds", type=_at_least_one)
    parser.add_argument("--rounds", type=_at_least_one)
    parser.add_argument("--go-on", action="store_true")
    try:
        return parser.parse_known_args(options)
    except argparse.ArgumentError as error:
        raise UsageError(str(error).removeprefix("argument ")) from None


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of at least 1")
    return int(text)


def snakemake_command(study: str, options: Sequence[str], go_on: bool = False) -> list[str]:
    """Return the command with which Snakemake runs a study, on all cores by default; may raise UsageError."""
    if study.startswith("-"):
        raise UsageError(f"{study}: name the study first, then options: parley run STUDY {study}")
    if any(map(_CONFIG.fullmatch, options)):
        raise UsageError("--config: its only key is the study, which is named already; leave it out")
    given = "SNAKEMAKE_PROFILE" in os.environ or any(map(_JOBS.fullmatch, options))
    if go_on:  # its jobs have the environment, on whatever node
        from parley.play.pausing import GO_ON  # slow to import

        os.environ[GO_ON] = "1"
    cores = [] if given else ["--cores", "all"]
    command = [sys.executable, "-P", "-m", "snakemake", "--snakefile", str(paths.CHECKOUT / paths.SNAKEFILE)]
    return [*command, *cores, *options, "--config", f"study={study}"]


# `parley run STUDY --seeds 1 --rounds 3`: the same study, small, with a name and results of its own

_MADE_BY = "# Written anew by each: parley run "
_ROUNDS = ("max_rounds", "rounds", "turns")  # parameters of games, of which each has one at most


def write_smaller(study: "Study", seeds: int | None, rounds: int | None) -> Path:
    """Write a study of at most so many seeds and rounds beside a study; return its file.

    Raises UsageError for forks, rounds that a game does not count, and a file of that name which somebody else wrote.
    """
    if study.content.fork:
        raise UsageError(f"{study.file}: fork: its games are recorded; choose few by fork.seeds and fork.repeats")
    given = {name: number for name, number in (("seeds", seeds), ("rounds", rounds)) if number is not None}
    name = "-".join([study.name, *(f"{option}{number}" for option, number in given.items())])
    shipped = not paths.IN_CLONE and study.file.resolve().is_relative_to(paths.CHECKOUT)
    file = (paths.root() if shipped else study.file.parent) / f"{name}.yaml"
    if os.path.lexists(file) and not read_regular(file).startswith(_MADE_BY.encode()):
        raise UsageError(f"{file}: exists already, and `parley run` did not write it; give it another name (mv)")
    content = load_yaml(study.file)
    content["title"] = f"{study.title[:150]} ({', '.join(f'{option}: {number}' for option, number in given.items())})"
    if seeds is not None:
        _fewer_seeds(content, seeds)
    if rounds is not None:
        _fewer_rounds(content, study, rounds)
    command = [paths.study_argument(study.file), *(f"--{option} {number}" for option, number in given.items())]
    text = f"{_MADE_BY}{' '.join(command)}\n{yaml_text(content)}".encode()
    write_atomically(file, lambda out: out.write(text))
    return file


def _fewer_seeds(content: dict[str, Any], most: int) -> None:
    """Leave at most so many seeds to each condition; a figure that named some shows the lowest."""
    for part in (content, *content["grids"]):
        if seeds := part.get("seeds"):
            part["seeds"] = seeds[:most] if isinstance(seeds, list) else min(seeds, most)
    for drawn in content.get("figures", {}).values():
        for choice in drawn:
            choice.pop("seeds", None)


def _fewer_rounds(content: dict[str, Any], study: "Study", most: int) -> None:
    """Leave games at most so many rounds, also where their number is an axis."""
    fields = study.game.Parameters.model_fields
    if (key := next((name for name in _ROUNDS if name in fields), None)) is None:
        raise UsageError(f"--rounds: {study.game.name} has no parameter {', '.join(_ROUNDS)}; leave it out")
    axes = [grid["vary"] for grid in content["grids"] if key in grid.get("vary", {})]
    for axis in axes:
        values = axis[key] if isinstance(axis[key], list) else [axis[key]]
        axis[key] = [*dict.fromkeys(min(value, most) for value in values)]
    if len(axes) < len(content["grids"]):
        parameters = content.setdefault("parameters", {})
        parameters[key] = min(parameters.get(key, fields[key].default), most)
