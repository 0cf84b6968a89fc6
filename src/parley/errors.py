"""The one tree of exceptions, of which `ParleyError` is the root.

Every message is one line (of a FileError several) that says what is wrong and what to do about it, and quotes no key;
the command line prints it and exits with `exit_code`. Anything else that escapes is a defect of Parley.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

HIDDEN = "[key]"
# One of these words in a name, in camelCase, too. What counts `tokens` is none, nor what names a cache's entry.
_KEY_NAME = re.compile(
    r"(?<!cache_)(?:(?<![A-Za-z])|(?=[A-Z][a-z]))(?i:token|(?:api)?keys?|secrets?|passwords?|passwd|credentials?|"
    r"auth(?:orization)?|headers?)(?![a-z]|(?<=[A-Z])[A-Z])"
)
# Beginnings by which services mark their keys, tokens of the web, and what is long, unbroken and of all letters.
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:sk[-_](?=[\w-]*\d)[\w-]{8,}|(?:xai|nvapi|pplx)-[\w-]{30,}|AIza[\w-]{30,}"
    r"|(?:hf|gsk|gh[oprsu]|github_pat|r8)_[A-Za-z0-9]{16,}\w*"
    r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{10,999}\.[\w.-]{10,}|[Bb]earer +[^\s'\"]{8,}"
    r"|(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32,})"
)
_NUMBER = re.compile(r"[-.0-9]{0,7}")  # too short for a key


def names_key(name: object) -> bool:
    """Whether a field or variable of that name holds a key, such as `api_key`, `authToken` or `headers`."""
    return _KEY_NAME.search(str(name)) is not None


def without_keys(value: Any, is_key: bool = False) -> Any:
    """Return a text, or the content of a file, with `[key]` for each key: what looks like one, or is named so."""
    if isinstance(value, Mapping):
        return {without_keys(name): without_keys(part, is_key or names_key(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [without_keys(part, is_key) for part in value]
    if is_key and not isinstance(value, bool | None) and not _NUMBER.fullmatch(str(value)):
        return HIDDEN
    return _KEY.sub(HIDDEN, value) if isinstance(value, str) else value


class ParleyError(Exception):
    """Base of all errors that Parley raises on purpose; by itself, something failed while working.

    >>> import parley
    >>> issubclass(parley.UsageError, parley.ParleyError)
    True
    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message without keys, and characters that a terminal obeys: names in it may come from anyone."""
        shown = (c if c.isprintable() or c == "\n" else " " if c.isspace() else "" for c in super().__str__())
        return str(without_keys("".join(shown)))


class UsageError(ParleyError):
    """The user's input (a study, a model entry, an argument) is wrong; nothing was started.

    >>> import parley
    >>> try:
    ...     parley.load("demo").results().table("contrast")
    ... except parley.UsageError as error:
    ...     print(error)
    'contrast': no such table; did you mean 'contrasts'? ...
    """

    exit_code = 2


class FileError(UsageError):
    """A file says what it may not: all of it, a line each."""


class EngineError(ParleyError):
    """The engine did not start in time, died, or answered a request with an error."""


class NotReadyError(EngineError):
    """A service is not there, or does not offer the model: no simulation can ask it."""


class PausedError(EngineError):
    """Hardly any reply of a model can be used, so that its games pause; what was answered is kept."""


class BudgetError(ParleyError):
    """The study's budget has no room for a request; what was answered is kept, and raising the budget goes on."""


class JournalError(ParleyError):
    """A journal belongs to another simulation or is in use, or it or what processes share cannot be written."""


class GameError(ParleyError):
    """A game of the user's own is no game, or broke the contract of games in mid-play; its journal stays."""


class RecordError(ParleyError):
    """A result file is cut short, foreign or damaged."""


class MissingRecordError(RecordError):
    """A record is not there: its simulation was not played yet, or somebody deleted it."""


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put `where` and a colon before the message of each of these errors that is raised within."""
    try:
        yield
    except ParleyError as error:
        raise type(error)(f"{where}: {error}") from None
