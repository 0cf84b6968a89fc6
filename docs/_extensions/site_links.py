"""Copies of pages that lie outside of docs/, so that the site has them: where they go, and what their links become."""

import os.path
import re
from collections.abc import Callable, Collection

_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def place(name: str) -> str:
    """Return where in docs/ the copy of a page goes: envs/README.md is _generated/project/envs.md."""
    stem = os.path.dirname(name) or os.path.splitext(name)[0].lower()
    return f"_generated/project/{stem}.md"


def moved(text: str, name: str) -> str:
    """Return the text of the page `name` with links that are right in its copy."""
    return _relinked(text, name, f"docs/{place(name)}", lambda target: target)


def to_copies(text: str, name: str, copied: Collection[str]) -> str:
    """Return the text of the page `name` with links to the copies of the pages `copied`."""
    return _relinked(text, name, name, lambda target: f"docs/{place(target)}" if target in copied else target)


def _relinked(text: str, old: str, new: str, change: Callable[[str], str]) -> str:
    def link(match: re.Match[str]) -> str:
        target = change(os.path.normpath(os.path.join(os.path.dirname(old), match[1])))
        return f"]({os.path.relpath(target, os.path.dirname(new))}{match[2] or ''})"

    return _LINK.sub(link, text)
