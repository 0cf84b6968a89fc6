"""The command that runs a study: Snakemake, with the Snakefile of this checkout; and DVC's stage that calls it."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley import paths
from parley.errors import UsageError
from parley.files import read_regular, write_atomically
from parley.text import one_line
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


# `parley stage`: the stage of DVC that plays a study, which `dvc stage add` writes into dvc.yaml

# What a study in Parley's folder depends on, too. By content, down to a comment: to start Snakemake in vain costs
# seconds, not to start it would be wrong. Which simulations are played is decided inside.
_CODE = ("envs", "profiles/default", "Snakefile", "src/parley", "workflow")
# Made from the simulations: deleted before the stage runs, so that the code as it is makes them anew.
_MADE = ("conditions.parquet", "figures", "report", "tables", "view")


def write_stage(study: "Study", profile: str | None) -> Iterator[str]:
    """Write the stage of a study; yield what was written, and what it cannot depend on. May raise UsageError."""
    import yaml  # slow to import

    root = paths.root().resolve()
    results = paths.results(study.name).resolve().relative_to(root)
    made = [*_MADE, *(["ledger"] if study.game.evidence.keeps_ledger else [])]
    needed = {os.path.relpath(os.path.realpath(path), root) for path in _needed(study, root == paths.CHECKOUT)}
    outside = {place for place in needed if place.startswith(os.pardir)}
    options = [f"--outs-persist={results}/simulations", *(f"--outs={results}/{each}" for each in made)]
    options += [f"--metrics={results}/metrics", *(f"--deps={place}" for place in sorted(needed - outside))]
    command = ["parley", "run", paths.study_argument(study.file), *(["--profile", profile] if profile else [])]
    call_dvc("stage", "add", "--force", f"--name={study.name}", *options, shlex.join(command))
    of_parameters = {os.path.relpath(os.path.realpath(path), root) for path in (study.file, study.models_file)}
    _list_parameters(root, add=sorted(of_parameters & needed - outside))
    file = root / "dvc.yaml"
    yield f"wrote the stage {study.name} into {file}:"
    yield yaml.safe_dump(yaml.safe_load(file.read_text())["stages"][study.name], sort_keys=False).rstrip()
    for place in sorted(outside):
        yield f"warning: {place}: outside of {root}, so the stage does not depend on it"


def remove_stage(study: Path) -> None:
    """Remove the stage of a study, by its file, which may be gone; raises UsageError if there is none."""
    call_dvc("remove", study.stem)
    root = paths.root().resolve()
    _list_parameters(root, remove=os.path.relpath(os.path.realpath(study), root))


def _list_parameters(root: Path, add: Sequence[str] = (), remove: str = "") -> None:
    """Change which files are among those whose changed values `dvc params diff` shows."""
    from dvc.utils.serialize import modify_yaml

    with modify_yaml(root / "dvc.yaml") as content:
        listed = content.setdefault("params", [])
        for file in add:
            if file not in listed:
                listed.insert(0, file)  # the last one is followed by what ends the list, such as a blank line
        if remove in listed:
            listed.remove(remove)
        if not listed:
            del content["params"]


def _needed(study: "Study", in_checkout: bool) -> Iterator[str | Path]:
    """Yield what can change the results of a study: files and folders of its own, and the code that plays it."""
    from parley.policies.own_code import source_of
    from parley.trust import names_own_code

    yield study.file
    yield from (paths.root() / each for each in _CODE if in_checkout)
    if study.models_file.exists() and (in_checkout or study.models_file != paths.OWN_MODELS):
        yield study.models_file
    if (frozen := paths.frozen(study.file)).exists():  # its report compares the study with it
        yield frozen
    yield from study.own_prompts.folders if study.own_prompts else []
    if names_own_code(study.game.name):
        yield from source_of(study.game.name, study.file.parent, whole_package=True).files
    for record in study.parents:
        yield next((each for each in record.parents if each.name == "simulations"), record)
    for condition in study.conditions:
        for kind in (group.player.policy.kind for group in condition.groups):
            yield from source_of(kind.name, study.file.parent).files if kind.is_plugin else []
        for _, parameter in condition.parameters:
            if path := getattr(parameter, "path", None):  # of files of problems
                yield paths.root() / os.path.expanduser(path)


def call_dvc(*arguments: str) -> None:
    """Run DVC in the folder of a study's results; raises UsageError with what it says if it refuses."""
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    ran = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, check=False)
    if ran.returncode:
        said = one_line(ran.stderr.strip().rpartition("ERROR: ")[2], 300)
        remedy = f"; run in {paths.root().absolute()}: git init && dvc init" if "not inside of a DVC" in said else ""
        raise UsageError(f"dvc {arguments[0]}: {said}{remedy}")
