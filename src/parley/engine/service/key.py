"""An API key in a text of the service that got it: as it is, or in a disguise that a reader would undo."""

import base64
import html
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from urllib.parse import unquote

_ESCAPES = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))", re.DOTALL
)
_NO_LETTER = re.compile(r"[^a-z0-9]+")
_DEPTH = 4  # of escapes in escapes: a reply is JSON within JSON, and what is in it may be once more
_NUMBERS = ("02x", "#x", "d", "o", "03o", "08b")  # how lists of them are written
_LEAST = 8  # letters and digits, of which a shorter key may be part of anything


def holds_key(text: str, key: str) -> bool:
    """Whether `key` is in `text`, also escaped, encoded, reversed, or with other characters between its own."""
    disguises = _disguises(key)
    return any(key in form or any(part in squeezed for part in disguises) for form, squeezed in _forms(text))


def _forms(text: str) -> Iterator[tuple[str, str]]:
    """Yield a text with more and more of its escapes undone, and each without all but its letters and digits."""
    for _ in range(_DEPTH):
        yield text, _squeezed(text)
        plainer = unquote(html.unescape(_ESCAPES.sub(_unescaped, text)))
        if plainer == text:
            return
        text = plainer


def _unescaped(match: re.Match[str]) -> str:
    *numbers, character = match.groups()
    number = next(filter(None, numbers), None)
    try:
        return chr(int(number, 16)) if number else json.loads(f'"\\{character}"')
    except (ValueError, OverflowError):
        return character or ""


def _squeezed(text: str) -> str:
    return _NO_LETTER.sub("", unicodedata.normalize("NFKD", text).casefold())


@cache
def _disguises(key: str) -> tuple[str, ...]:
    """Return what to look for in a squeezed text; of base64 the part that is the same whatever stands around it."""
    data = key.encode()
    found = [key, key[::-1], base64.b32encode(data).decode().rstrip("=")[:-1]]
    found += ["".join(format(byte, form) for byte in data) for form in _NUMBERS]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data + b"\0" * 3).decode()
        start, end = (before * 8 + 5) // 6, (before + len(data)) * 8 // 6
        found += [encoded[start:end], encoded[start:end].replace("+", "-").replace("/", "_")]
    return tuple({_squeezed(each) for each in found if len(_squeezed(each)) >= _LEAST})
