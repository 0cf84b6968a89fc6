"""Names of files and folders as somebody gives them, which may be of any type."""

import os
from typing import Any

from parley.errors import UsageError
from parley.text import one_line


def path_text(argument: str, value: Any) -> str:
    """Return the path that is given for an argument; raises UsageError for what can be none."""
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    try:
        if isinstance(found, str) and b"\0" not in os.fsencode(found):
            return found
    except UnicodeEncodeError:
        pass
    raise UsageError(f"{argument}={one_line(repr(value), 60)}: give a name or a path, as text")
