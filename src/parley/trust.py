"""Who is trusted: one rule, and what it comes to for own code.

A study, its models file and its own code are trusted like a Makefile: who runs a study lets it do what it says. Own
code lies beside the study, or is an installed entry point of Parley's groups: a study names nothing else that happens
to be installed. Records, journals, ledgers, imports and texts of models are never trusted: what they name is not run.
"""

import importlib
import importlib.metadata
import importlib.util
import re
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from parley.errors import UsageError
from parley.text import one_line

GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS = "parley.games", "parley.policies"  # groups of entry points
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def names_own_code(name: str) -> bool:
    """Whether a name is a module:attribute, of at most 200 characters."""
    return len(name) <= 200 and _NAME.fullmatch(name) is not None


def own_file(name: str, folder: Path) -> tuple[Path, bool]:
    """Return the file of the module of `module:attribute`, and whether it lies beside the study, in `folder`.

    Nothing is imported. Raises UsageError, which begins with the name, where there is none.
    """
    module = name.partition(":")[0]
    place = folder.resolve().joinpath(*module.split("."))
    for file in (place / "__init__.py", place.with_suffix(".py")):
        if file.is_file():
            return file, True
    if name in _plugins() and (installed := _installed_file(module)):
        return installed, False
    raise UsageError(
        f"{name}: no module {module} beside the study, in {one_line(str(folder.resolve()), 300)}; put it there, or "
        f"install it as an entry point of {POLICY_ENTRY_POINTS} or {GAME_ENTRY_POINTS}"
    )


def _installed_file(module: str) -> Path | None:
    """Return the source of an installed module; its packages are not imported to find it, as importlib would."""
    first, *others = module.split(".")
    try:
        spec = importlib.util.find_spec(first)
        for index in range(len(others)):
            if spec is None or spec.submodule_search_locations is None:
                return None
            full = ".".join([first, *others[: index + 1]])
            spec = PathFinder.find_spec(full, spec.submodule_search_locations)
    except (ImportError, ValueError):
        return None
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin if origin is not None and origin.suffix == ".py" and origin.is_file() else None


@cache
def _plugins() -> frozenset[str]:
    groups = (GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS)
    return frozenset(value for group in groups for values in entry_points(group).values() for value in values)


def is_plugin_package(package: str) -> bool:
    """Whether an installed plug-in is in this package."""
    return any(re.split("[.:]", value)[0] == package for value in _plugins())


def entry_points(group: str) -> dict[str, tuple[str, ...]]:
    """Return what is installed by name, normally one module:attribute. It reads all metadata: call it if needed."""
    found: dict[str, set[str]] = {}
    for point in importlib.metadata.entry_points(group=group):
        value = point.value.partition("[")[0]  # extras, which nobody needs to import it
        found.setdefault(point.name, set()).add("".join(value.split()))
    return {name: tuple(sorted(values)) for name, values in sorted(found.items())}


def of_entry_point(name: str, values: tuple[str, ...], group: str) -> str:
    """Return what an installed name stands for, as module:attribute; raises UsageError if that is not one."""
    if len(values) > 1:
        places = one_line(" and ".join(values), 300)
        raise UsageError(f"{name!r}: installed more than once; name the one that you mean: {places}")
    if not names_own_code(values[0]):
        raise UsageError(
            f"{name!r}: installed as {one_line(values[0], 200)!r}; an entry point of {group} is a module:attribute, "
            "so correct the package that installs it"
        )
    return values[0]
