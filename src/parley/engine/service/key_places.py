"""Where the user's API keys may go: a models file may be anybody's, and names a variable and an address.

A key goes to the host of its own maker, to those that the user allowed with `parley allow-key`, and to those that the
environment variable PARLEY_ALLOW_KEYS names, as for jobs and in CI.
"""

import os
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import yaml
from pydantic import Field, RootModel

from parley.errors import UsageError
from parley.files import write_atomically
from parley.text.yamlfile import load_yaml, validated

ALLOW = "PARLEY_ALLOW_KEYS"
_MAKERS = {
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


class _Places(RootModel[dict[str, list[Annotated[str, Field(min_length=1)]]]]):
    """Hosts by the name of a variable."""


def places_file() -> Path:
    """Return the user's own file of what was allowed."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "parley" / "keys.yaml"


def require_allowed(model: str, variable: str, url: str) -> None:
    """Raise UsageError unless the key in an environment variable may go to a URL for a model."""
    host = (urlsplit(url).hostname or "").lower()
    is_safe = urlsplit(url).scheme == "https"  # else anybody on the way reads it
    allowed = [each.strip().partition("=") for each in os.environ.get(ALLOW, "").split(",")]
    hosts = [place for named, _, place in allowed if named == variable] + _allowed().get(variable, [])
    is_makers = is_safe and _MAKERS.get(variable) == host
    if not is_makers and host not in map(str.lower, hosts):
        way = "" if is_safe else " unencrypted"
        raise UsageError(
            f"{model}: its entry sends the key in {variable} to {host}{way}; if it belongs there, say so once: parley "
            f"allow-key {variable}={host} (in jobs and CI: {ALLOW}={variable}={host})"
        )


def allow(variable: str, host: str) -> Path:
    """Let the key in an environment variable go to a host; return the file that says so from now on."""
    path, places = places_file(), _allowed()
    places[variable] = sorted({*places.get(variable, []), host.lower()})
    write_atomically(path, partial(yaml.safe_dump, places, encoding="utf-8"))
    return path


def _allowed() -> dict[str, list[str]]:
    path = places_file()
    return validated(_Places, load_yaml(path), str(path)).root if path.exists() else {}
