"""How data travel in files that a browser opens without a server: packed in scripts, and as JSON inside the page."""

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from parley.text.cleaning import valid_unicode

_LEVEL = 6  # of zlib: 9 takes three times as long for a few percent
_MOST_EXACT = 2**53  # the integers that a browser tells apart


def packed(content: Mapping[str, Any]) -> str:
    """Return JSON as base64 of its raw deflate."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    raw = deflate.compress(valid_unicode(_json(content, ascii_only=False)).encode())
    return base64.b64encode(raw + deflate.flush()).decode("ascii")


def in_html(content: Mapping[str, Any]) -> str:
    """Return JSON in ASCII that can stand in a <script> of the page: nothing in it can end that, or open a comment."""
    text = _json(content, ascii_only=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def exact(value: Any) -> Any:
    """Return JSON values as a browser has them: integers that it would round are texts, and NaN is nothing."""
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, int) and abs(value) >= _MOST_EXACT else value


def _json(content: Any, *, ascii_only: bool) -> str:
    return json.dumps(content, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)
