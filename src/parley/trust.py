"""Who is trusted: one rule, and what it comes to for own code and for keys.

A study, its models file and its own code are trusted like a Makefile: who runs a study lets it do what it says. But
own code lies beside the study, or is an installed entry point of Parley's groups: a study names nothing else that
is installed. And a key goes only to the host of its maker, or where its owner says, over https or to this machine.
Records, journals, ledgers, imports and texts of models are never trusted: they are data, and nothing in them is run.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from parley.errors import HIDDEN, UsageError, names_key, without_keys
from parley.text import one_line

GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS = "parley.games", "parley.policies"  # groups of entry points
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_ALLOWED = "PARLEY_ALLOW_KEYS"
MAKERS = {  # to whom their keys may go
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "DEEPINFRA_API_KEY": "api.deepinfra.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "GROQ_API_KEY": "api.groq.com",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
}


# Own code


def names_own_code(name: str) -> bool:
    """Whether a name is a module:attribute, of at most 200 characters."""
    return len(name) <= 200 and _NAME.fullmatch(name) is not None


def own_file(name: str, folder: Path) -> tuple[Path, bool]:
    """Return the file of the module of `module:attribute`, and whether it lies beside the study, in `folder`.

    Nothing is imported. Raises UsageError, which begins with the name, where there is none.
    """
    module = name.partition(":")[0]
    for base, is_beside in _bases(name, module.partition(".")[0], folder):
        place = base.joinpath(*module.split("."))
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return file, is_beside
    raise UsageError(
        f"{name}: no module {module} beside the study, in {one_line(str(folder.resolve()), 300)}; put it there, or "
        f"install it as an entry point of {POLICY_ENTRY_POINTS} or {GAME_ENTRY_POINTS}"
    )


def _bases(name: str, first: str, folder: Path) -> Iterator[tuple[Path, bool]]:
    """Yield where a module or package `first` may lie: the folder of the study, and where it is installed."""
    yield folder.resolve(), True
    if name in _plugins():
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(first)
            if spec is not None and spec.origin:
                origin = Path(spec.origin)
                yield origin.parents[origin.stem == "__init__"], False


@cache
def _plugins() -> frozenset[str]:
    groups = (GAME_ENTRY_POINTS, POLICY_ENTRY_POINTS)
    return frozenset(value for group in groups for value in entry_points(group).values())


def entry_points(group: str) -> dict[str, str]:
    """Return what is installed by name, as module:attribute; of two of one name the first that Python finds.

    It reads all metadata: call it if needed.
    """
    installed: dict[str, str] = {}
    for point in sorted(importlib.metadata.entry_points(group=group), key=lambda point: point.name):
        if names_own_code(value := "".join(point.value.partition("[")[0].split())):  # without extras
            installed.setdefault(point.name, value)
    return installed


# Keys


def check_key(model: str, variable: str, url: str) -> None:
    """Raise UsageError unless the key in an environment variable may go to a URL for a model."""
    parts = urlsplit(url)
    host, is_safe = (parts.hostname or "").lower(), parts.scheme == "https"
    if not is_safe and not is_loopback(host):
        raise UsageError(
            f"{model}: its entry sends the key in {variable} to {host} unencrypted; write https:// in source.url, or "
            "the end of a tunnel on this machine (ssh -L)"
        )
    port = parts.port or (443 if is_safe else 80)
    places = {host, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"}
    if MAKERS.get(variable) != host and places.isdisjoint(map(str.lower, _allowed().get(variable, []))):
        if host.endswith(".invalid"):  # which resolves nowhere (RFC 2606)
            raise UsageError(
                f"{model}: its entry is a placeholder, as are all with the host {host}; write url and served of a "
                "service of yours into its source in models.yaml"
            )
        raise UsageError(
            f"{model}: its entry sends the key in {variable} to {host}; if it belongs there, say so: export "
            f"{_ALLOWED}={variable}={host} (commas between several)"
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    return re.fullmatch(r"localhost|127(?:\.\d{1,3}){3}|::1", host) is not None


def without_key_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that are named as keys are, or may go to a service."""
    allowed = _allowed()
    return {
        name: value
        for name, value in environment.items()
        if without_keys(value, name in allowed or names_key(name)) != HIDDEN
    }


def _allowed() -> dict[str, list[str]]:
    """Return where each key may go by its owner's word in the environment."""
    allowed: dict[str, list[str]] = {}
    for each in os.environ.get(_ALLOWED, "").split(","):
        variable, _, place = each.strip().partition("=")
        allowed.setdefault(variable, []).append(place)
    return allowed
