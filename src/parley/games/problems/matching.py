"""When two texts state the same policy: by a normal form that has a name, which games record."""

import re
import unicodedata

MATCHING = "nfkc-casefold-v1"  # raised whenever the normal form of any text changes
MAX_CHARACTERS = 1_000  # of the text of a policy

# A list's bullet or number, quotes, and emphasis. "3 branches" and "-5 degrees" begin with no bullet.
_LEADING = re.compile(r"(?:[-–—+]\s+|[*•·‣◦▪#>\"'`“”„‘’«»]+\s*|\(?(?:\d{1,3}|[a-z])[.)]\s+|\(\d{1,3}\)\s*)")
_TRAILING = re.compile(r"[\s.,;:!?*\"'`“”‘’«»]+$")
_SPACES = re.compile(r"\s+")


def normal_policy(text: str) -> str:
    """Return the normal form of a policy's text; "" for one of nothing but marks, or of more than 1,000 characters.

    Unicode NFKC, casefold, white space collapsed, then without leading bullets, list numbers and quotes, and without
    trailing punctuation. The normal form of a normal form is itself. Never raises.
    """
    if len(text) > MAX_CHARACTERS:
        return ""
    while True:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        found = _SPACES.sub(" ", folded).strip()
        found = _TRAILING.sub("", found)
        if bullet := _LEADING.match(found):
            found = found[bullet.end() :]
        if found == text:
            fits = len(found) <= MAX_CHARACTERS  # NFKC makes some characters longer
            return found if fits and any(map(str.isalnum, found)) else ""
        text = found
