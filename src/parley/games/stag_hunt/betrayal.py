"""What honest players do once they were betrayed: detection, persistence and archetypes. Pure functions.

A betrayal is a hare that a Byzantine player hunts. Each honest player's own count starts with the first one that it
sees; rounds after it, and those alone, are looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from parley.games.parameters import share_of
from parley.games.stag_hunt.parameters import HARE, STAG, HuntRound, counted

PRONE = "defection_prone"
PERSISTENT = "cooperation_persistent"
UNCLASSIFIED = "unclassified"

_SHARES = ("hare_for_good", "switched_for_good", "preemptive")  # behaviors whose share of the players is a reaction
_T = TypeVar("_T")

SWEEP = tuple(Fraction(tenths, 20) for tenths in range(10, 21))  # 0.5 to 1 by 0.05


class Betrayed:
    """What one honest player did in the rounds that count after `seen`, in which it first saw a betrayal."""

    def __init__(self, rounds: Sequence[HuntRound], name: str, seen: int) -> None:
        self.seen = seen
        after = counted(rounds[seen:])
        before = [r["actions"][name] for r in rounds[:seen]]
        # By round, its words and actions since; a failed reply in the round of the betrayal is no behavior.
        self._words = {r["round"]: r["words"].get(name) for r in after}
        self._actions = {r["round"]: r["actions"][name] for r in after}
        taken = list(self._actions.values())
        self.stags, self.hares, self.idle = taken.count(STAG), taken.count(HARE), taken.count(None)
        word, action = _last(r["words"].get(name) for r in rounds[:seen]), _last(before)
        self._turned = _first_other(action, self._actions)
        changes = (_first_other(word, self._words), self._turned)
        self.changed = min((number for number in changes if number is not None), default=None)  # word or action
        self.hunted = action == STAG  # when it last acted up to the betrayal
        self.preemptive = action is not None and STAG not in before  # it had acted, and never hunted one

    @property
    def share(self) -> Fraction | None:
        """The share of stags among its actions; None if it took none."""
        actions = self.stags + self.hares
        return Fraction(self.stags, actions) if actions else None

    @property
    def kept(self) -> bool:
        """Whether it had hunted the stag, and goes on in every action."""
        return self.hunted and self.share == 1

    @property
    def behaviors(self) -> frozenset[str]:
        """The names of what it did (BEHAVIORS of the evidence)."""
        for_good = hare_for_good(self.stags, self.hares, self.idle)
        shown = {
            "hare_for_good": for_good,
            "switched_for_good": for_good and not self.preemptive,
            "preemptive": self.preemptive,
            "stag_again": self.stags > 0,
        }
        return frozenset(name for name, so in shown.items() if so)

    @property
    def retreated(self) -> int | None:
        """The first round with a hare, of one that had hunted the stag."""
        return self._turned if self.hunted else None

    @property
    def returned(self) -> bool | None:
        """Whether it hunts the stag again once it retreated; None if it did not, or did nothing after that."""
        retreated = self.retreated
        if retreated is None:
            return None
        later = {action for number, action in self._actions.items() if number > retreated} - {None}
        return STAG in later if later else None


def first_betrayal(rounds: Sequence[HuntRound], byzantine: frozenset[str]) -> int | None:
    """Return the first round in which one of these players hunted the hare."""
    return next((r["round"] for r in rounds if any(r["actions"][name] == HARE for name in byzantine)), None)


def player_after(rounds: Sequence[HuntRound], name: str, seen: int) -> Betrayed | None:
    """Return what a player did after the round `seen`, as if betrayed in it; None if no round after it counts."""
    return Betrayed(rounds, name, seen) if counted(rounds[seen:]) else None


def _all_after(rounds: Sequence[HuntRound], seen: Mapping[str, int | None]) -> dict[str, Betrayed]:
    """Return what players did after the round that each of them has in `seen`, where a round after it counts."""
    after = {name: player_after(rounds, name, number) for name, number in seen.items() if number is not None}
    return {name: each for name, each in after.items() if each is not None}


def _last(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in reversed(list(values)) if value is not None), None)


def _first_other(before: str | None, said: Mapping[int, str | None]) -> int | None:
    """Return the first round with another word or action, whatever its case; silence, a failure, is no change."""
    if before is None:
        return None
    return next((r for r, now in said.items() if now is not None and now.casefold() != before.casefold()), None)


def _first(rounds: Sequence[HuntRound], success: bool) -> int | None:
    return next((r["round"] for r in counted(rounds) if r["success"] is success), None)


def hare_for_good(stags: int, hares: int, idle: int) -> bool:
    """Whether a player hunts the hare in all rounds after its betrayal: defection-prone by the paper's rule."""
    return hares > 0 and not stags and not idle


def archetype(share: Fraction | None, threshold: Fraction) -> str:
    """Return the archetype of a player by its share of stags after the betrayal; at 1/2 there is none."""
    if share is None or share == Fraction(1, 2):
        return UNCLASSIFIED
    if share >= threshold:
        return PERSISTENT
    return PRONE if share <= 1 - threshold else UNCLASSIFIED


def archetype_shares(shares: Sequence[Fraction | None], threshold: Fraction) -> dict[str, float | None]:
    """Return which share of the betrayed players is of each archetype; they add up to 1, and are None for nobody."""
    archetypes = [archetype(share, threshold) for share in shares]
    return {kind: share_of([each == kind for each in archetypes]) for kind in (PRONE, PERSISTENT, UNCLASSIFIED)}


def betrayal_metrics(
    rounds: Sequence[HuntRound],
    honest: Sequence[str],
    byzantine: frozenset[str],
    sees: Mapping[str, frozenset[str]],
    threshold: Fraction,
) -> dict[str, Any]:
    """Return the metrics of betrayal, its detection, the archetypes and recovery; None where nothing could show it."""
    first = first_betrayal(rounds, byzantine)
    betrayed = _all_after(rounds, {name: first_betrayal(rounds, byzantine & sees[name]) for name in honest})
    shares = [b.share for b in betrayed.values()]
    return {
        **_recovery(rounds, first if byzantine else 1),
        "first_betrayal_round": first,
        "betrayed_players": len(betrayed),
        **_changes(list(betrayed.values()), first),
        **archetype_shares(shares, threshold),
        "archetypes_by_threshold": {f"{float(t):.2f}": archetype_shares(shares, t) for t in SWEEP if betrayed},
        "after_betrayal": {
            name: {
                "seen": b.seen,
                "stags": b.stags,
                "hares": b.hares,
                "idle": b.idle,
                "share": None if b.share is None else float(b.share),
                "archetype": archetype(b.share, threshold),
                "changed": b.changed,
                "kept": b.kept,
            }
            for name, b in betrayed.items()
        },
    }


def _changes(betrayed: Sequence[Betrayed], first: int | None) -> dict[str, Any]:
    detection = min((b.changed for b in betrayed if b.changed is not None), default=None)
    retreat = min((b.retreated for b in betrayed if b.retreated is not None), default=None)
    return {
        "detected": detection is not None if betrayed else None,
        "detection_round": detection,
        "rounds_until_detection": _since(first, detection),
        "rounds_until_retreat": _since(first, retreat),
        "retreated": retreat is not None if any(b.hunted for b in betrayed) else None,
        "kept_hunting": share_of([b.kept for b in betrayed]),
    }


def reaction_metrics(
    rounds: Sequence[HuntRound], seen: Mapping[str, int], first: int | None, threshold: Fraction
) -> dict[str, Any]:
    """Return detection, archetypes and recovery, with or without a betrayal: `seen` says from which round on."""
    betrayed = list(_all_after(rounds, seen).values())
    returned = [each.returned for each in betrayed if each.returned is not None]
    return {
        **_changes(betrayed, first),
        **archetype_shares([each.share for each in betrayed], threshold),
        **{name: share_of([name in b.behaviors for b in betrayed]) for name in _SHARES},
        "returned": any(returned) if returned else None,
        **_recovery(rounds, first),
    }


def _recovery(rounds: Sequence[HuntRound], start: int | None) -> dict[str, Any]:
    """Return the first failure since the round `start`, and the success that follows it."""
    failed = None if start is None else _first(rounds[start - 1 :], False)
    again = None if failed is None else _first(rounds[failed:], True)
    return {
        "disruption_round": failed,
        "recovered": again is not None if failed is not None and counted(rounds[failed:]) else None,
        "recovery_round": again,
    }


def _since(first: int | None, then: int | None) -> int | None:
    return None if first is None or then is None else then - first
