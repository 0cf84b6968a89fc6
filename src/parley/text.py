"""Text that a model wrote is hostile: what has to happen before anyone else sees it."""

import re
import unicodedata

# Categories of characters that print nothing or move the cursor: controls, format characters (among them
# the right-to-left marks), surrogates, private use.
_DROPPED = {"Cc", "Cf", "Cs", "Co"}
_SPACES = re.compile(r"\s+")  # of any kind, line and paragraph separators included


def valid_unicode(text: str) -> str:
    """Return `text` with lone surrogates replaced by U+FFFD, so that it can be stored as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def one_line(text: str, limit: int | None = None) -> str:
    """Return `text` as one printable line of at most `limit` characters.

    White space of any kind becomes one space, control and format characters go: no agent can start a line of
    its own in another's prompt, and no terminal or page is told to do anything.
    """
    kept = "".join(c for c in _SPACES.sub(" ", text) if unicodedata.category(c) not in _DROPPED)
    line = _SPACES.sub(" ", kept).strip()
    return line if limit is None else line[:limit].rstrip()
