"""Provenance: what made a result, but cannot change it. No secrets, no names of users or hosts, no paths."""

import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from parley import __version__
from parley.engine import hardware

# What is installed of these; an engine's own packages are in its part of the provenance.
_PACKAGES = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "networkx", "aiohttp", "snakemake", "dvc")


def provenance(started: datetime, engines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return versions, git commit, machine, start and end (UTC), and the engines that answered."""
    return {
        "parley": __version__,
        "python": platform.python_version(),
        "packages": dict(_versions()),
        "git": git_state(),
        "machine": f"{platform.system()}, {hardware.cpu()}",
        "started": started.isoformat(timespec="seconds"),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "engines": {name: dict(engine) for name, engine in engines.items()},
    }


def warnings(made: Mapping[str, Any]) -> list[str]:
    """Return what readers of a result should be warned of, from its provenance; one line for each."""
    found = []
    for name, engine in sorted(made.get("engines", {}).items()):
        deterministic = engine.get("deterministic") or {}
        load = hardware.load_warning(deterministic.get("by"), engine.get("requests_at_once"))
        found += [f"{name}: {warning}" for warning in (deterministic.get("warning"), load) if warning]
    if imported := made.get("imported"):
        found.append(
            f"imported: played elsewhere, not by Parley (format {imported['format']}; source: {imported['source']}; "
            f"license: {imported['license']})"
        )
        if imported["defects"]:
            found.append("imported: damaged games, kept on demand (--keep-damaged); their records name the damage")
    return found


@cache
def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@cache
def git_state() -> dict[str, Any] | None:
    """Return the commit of Parley's own repository and whether it had changes; None outside of one.

    An archive of the source that was unpacked, or installed, inside another repository has none either.
    """
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        commit = git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
