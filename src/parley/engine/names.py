"""Whether the model that an answer names is the one that was asked for."""

import re
from typing import Literal

Answered = Literal["same", "version", "other"]
# What services append to an alias: gpt-4o-2024-08-06, gpt-4-0613, claude-3-5-haiku-20241022, gemini-1.5-flash-002.
_VERSION = re.compile(r"[-@](?:preview-)?(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8})(?:-v\d+(?::\d+)?)?")


def compare_names(asked: str, answered: str) -> Answered:
    """Return what an answer's name of the model means: the same model, a dated version of it, or another one.

    Upper and lower case are one, and an owner's name before "/" counts only where both have one. `asked` may end in
    "-latest".
    """
    first, second = asked.lower(), answered.lower()
    if ("/" in first) != ("/" in second):
        first, second = first.rpartition("/")[2], second.rpartition("/")[2]
    if first == second:
        return "same"
    stem = first.removesuffix("-latest")
    return "version" if second.startswith(stem) and _VERSION.fullmatch(second[len(stem) :]) else "other"
