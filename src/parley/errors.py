"""The one tree of exceptions, of which `ParleyError` is the root.

Every message is one line (of a FileError several) that says what is wrong and what to do about it; the command line
prints it and exits with `exit_code`. Anything else that escapes is a defect of Parley.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class ParleyError(Exception):
    """Base of all errors that Parley raises on purpose; by itself, something failed while working.

    >>> import parley
    >>> issubclass(parley.UsageError, parley.ParleyError)
    True
    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message without characters that a terminal obeys: names in it may come from anyone."""
        shown = (c if c.isprintable() or c == "\n" else " " if c.isspace() else "" for c in super().__str__())
        return "".join(shown)


class UsageError(ParleyError):
    """The user's input (a study, a model entry, an argument) is wrong; nothing was started.

    >>> import parley
    >>> try:
    ...     parley.load("demo").results().frame("rounds", modle="majority")
    ... except parley.UsageError as error:
    ...     print(error)
    /.../config/demo.yaml: 'modle': unknown axis; did you mean 'model'? choose one of: model, n, b, prompt
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
