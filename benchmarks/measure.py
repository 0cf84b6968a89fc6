"""Measuring a command: seconds and peak memory of the process itself."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import yaml

from parley.study import Study, load_study

REPOSITORY = Path(__file__).parent.parent


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    measured: object
    aim: str = ""


@dataclass(frozen=True)
class Cost:
    """What a command took: wall seconds, the largest resident memory of its process in MB, seconds of a CPU."""

    seconds: float
    megabytes: float
    cpu: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.megabytes:.0f} MB"


PARLEY = (sys.executable, "-m", "parley.cli")
SNAKEMAKE = (sys.executable, "-m", "snakemake")


def cost(*command: str) -> Cost:
    """Run a command to its end; exits with its output if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{errors.decode(errors='replace')}")
    return Cost(time.perf_counter() - start, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime)


def cheapest(*commands: Sequence[str]) -> Cost:
    """Return the least of each cost of commands that do the same: what the machine did besides only adds."""
    return Cost(*map(min, zip(*(astuple(cost(*command)) for command in commands), strict=True)))


def consensus_study(
    file: Path, grid: Mapping[str, Any], seeds: int, parameters: Mapping[str, Any], **more: Any
) -> Study:
    """Write a study of consensus games, and return it."""
    content = {"game": "consensus", "seeds": seeds, "parameters": {**parameters}, **more}
    file.write_text(yaml.safe_dump({**content, "grids": [{"prompt": "may_exist", **grid}]}), encoding="utf-8")
    return load_study(file)


def fill(page: Path, made_by: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Put a table after the mark that says what it is made by, in the place of the one that is there."""
    table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in [columns, ["---"] * len(columns), *rows])
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- made by {made_by} -->\n")
    page.write_text(f"{before}{begin}\n{table}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}", encoding="utf-8")


@contextmanager
def temporary_folder() -> Iterator[None]:
    """Work in a folder that goes away, with the repository's model entries."""
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder, chdir(folder):
        shutil.copy(REPOSITORY / "config" / "models.yaml", folder)
        yield
