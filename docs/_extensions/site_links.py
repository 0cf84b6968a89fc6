"""Copies of pages that lie outside of docs/, so that the site has them: where they go, and what their links become."""

import os.path
import re
from collections.abc import Collection
from pathlib import Path

_LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")


def place(name: str) -> str:
    """Return where in docs/ the copy of a page goes: envs/README.md is _generated/project/envs.md."""
    stem = os.path.dirname(name) or os.path.splitext(name)[0].lower()
    return f"_generated/project/{stem}.md"


def relinked(text: str, old: str, new: str, copied: Collection[str], root: Path) -> str:
    """Return a page's text with links that are right after its move from `old` to `new`, paths in the folder `root`.

    Links to the pages `copied` lead to their copies. A link to a folder becomes its text: the site has no folders.
    """

    def link(match: re.Match[str]) -> str:
        words, path, anchor = match.groups()
        target = os.path.normpath(os.path.join(os.path.dirname(old), path))
        if (root / target).is_dir():
            return words
        if target in copied:
            target = f"docs/{place(target)}"
        return f"[{words}]({os.path.relpath(target, os.path.dirname(new))}{anchor or ''})"

    return _LINK.sub(link, text)
