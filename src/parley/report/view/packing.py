"""How data travel in files that a browser opens without a server: as scripts, and as JSON inside the page."""

import base64
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from parley.text.cleaning import valid_unicode

_LEVEL = 6  # of zlib: 9 takes three times as long for a few percent
_MOST_EXACT = 2**53  # the numbers of a browser


def packed(function: str, content: Mapping[str, Any], *before: str) -> bytes:
    """Return a script that calls `function` with texts, and last with `content`: base64 of raw-deflated JSON."""
    raw = json_text(content).encode()
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = base64.b64encode(deflate.compress(raw) + deflate.flush()).decode("ascii")
    arguments = ",".join([*(json.dumps(text) for text in before), f'"{data}"'])
    return f"{function}({arguments});\n".encode()


def in_html(content: Mapping[str, Any]) -> str:
    """Return JSON in ASCII that can stand in a <script> of the page: nothing in it can end that, or open a comment."""
    text = json.dumps(json.loads(json_text(content)), ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def json_text(content: Any) -> str:
    """Return JSON that a browser reads as it was meant: no NaN, no lone surrogates, large integers as texts."""
    try:
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(content), ensure_ascii=False, separators=(",", ":"))
    return valid_unicode(text)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, int) and abs(value) >= _MOST_EXACT else value
