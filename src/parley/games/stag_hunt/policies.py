"""The scripted players of the stag hunt, whose behavior is known exactly: honest ones, and the paper's adversary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from parley.games.parameters import BYZANTINE, Positive, newer_field
from parley.games.stag_hunt.parameters import HARE, HARE_WORD, STAG, YOU, SeenRound, StagHuntView, Word
from parley.policies.kinds import LLM, PolicyKind, PolicyParameters, policy_table, scripted_kind

if TYPE_CHECKING:
    import numpy as np

_BEYOND = "does not promise the stag and betray"


class Betray(PolicyParameters):
    """When it betrays, and what it promises; by default it betrays always."""

    from_round: Positive = Field(default=1, description="The first round in which it may betray.")
    probability: float = Field(
        default=1.0, gt=0, le=1, description="Chance, in each round from then on, that it betrays."
    )
    word: Word = Field(
        default="stag", description="The word that it broadcasts in every round, one of cooperative_words."
    )
    times: Positive | None = newer_field(
        default=None, description="How often it betrays at most, of the rounds that it remembers; default: no limit."
    )


def _play(view: StagHuntView, hunts_stag: bool) -> Mapping[str, Any]:
    """Say what will be done, and do it."""
    if view.phase == "signal":
        return _say(view, view.cooperative_words[0] if hunts_stag else HARE_WORD)
    action = STAG if hunts_stag else HARE
    return {"reasoning": "", "action": {"choice": action} if view.published else action}


def _say(view: StagHuntView, word: str) -> Mapping[str, Any]:
    if view.published:
        return {"reasoning": "", "action": {"type": "communicate", "word": word}}
    return {"reasoning": "", "word": word}


def always_stag(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Promise and hunt the stag in every round."""
    return _play(view, True)


def always_hare(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Announce and hunt the hare in every round."""
    return _play(view, False)


def grim_trigger(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Hunt the stag until another player is seen to hunt the hare, then the hare for ever."""
    # Its own hare is how it remembers one that its history no longer shows.
    return _play(view, not any(HARE in seen.actions.values() for seen in view.history))


def tit_for_tat(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Hunt the stag if all others that it saw hunted the stag in the last round, and in the first round."""
    last = view.history[-1].actions if view.history else {}
    return _play(view, all(action == STAG for name, action in last.items() if name != YOU))


class WinStayLoseShift(PolicyParameters):
    """What it counts as a win."""

    aspiration: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Points from which a round is a win; default: more than a hare's.",
    )


def win_stay_lose_shift(view: StagHuntView, rng: "np.random.Generator", given: WinStayLoseShift) -> Mapping[str, Any]:
    """Hunt the stag at first; do the same again after a round that it won, and the other thing after a lost one."""
    # Also known as Pavlov: Nowak and Sigmund, Nature 364 (1993). What is a win is told by an aspiration level: Posch,
    # J. Theor. Biol. 198 (1999).
    if not view.history:
        return _play(view, True)
    won = _points(view, view.history[-1]) >= (view.hare + 1 if given.aspiration is None else given.aspiration)
    return _play(view, won == (view.history[-1].actions[YOU] == STAG))


def _points(view: StagHuntView, seen: SeenRound) -> int:
    """Return its own points of a round: as it was told, or from what all players did."""
    if seen.points is not None:
        return seen.points
    hunters = sum(action == STAG for action in seen.actions.values())
    worth = {STAG: view.stag if hunters >= view.needed else view.alone, HARE: view.hare}
    return worth.get(seen.actions[YOU] or "", 0)


def follow_words(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Promise the stag, and hunt it if all words of others that it sees in this round are cooperative."""
    heard = [word for name, word in view.words.items() if name != YOU]
    return _play(view, all(word is not None and word.casefold() in view.cooperative_words for word in heard))


def coin(view: StagHuntView, rng: "np.random.Generator", given: PolicyParameters) -> Mapping[str, Any]:
    """Promise the stag or announce the hare, and hunt either, each by a fair coin: words say nothing of actions."""
    return _play(view, rng.random() < 0.5)


def betray(view: StagHuntView, rng: "np.random.Generator", given: Betray) -> Mapping[str, Any]:
    """Promise the stag and hunt the hare: always, or from a round on, or by chance in each round; else the stag."""
    if view.phase == "signal":
        return _say(view, given.word)
    if given.times is not None and sum(seen.actions[YOU] == HARE for seen in view.history) >= given.times:
        return _play(view, True)
    return _play(view, view.round < given.from_round or rng.random() >= given.probability)


def _knows_its_points(given: Any, parameters: Any) -> str:
    if parameters.topology.kind != "complete" and not parameters.show_points:
        return f"topology: {parameters.topology}: it acts on its points; set show_points: true"
    return ""


def _never_betrays(given: Any, parameters: Any) -> str:
    if given.word.casefold() not in parameters.cooperative_words:
        return f"word: {given.word}: promises nothing; add it to cooperative_words, or choose one of them"
    return ""


# A new policy is one entry here.
POLICIES: Mapping[str, PolicyKind] = policy_table(
    LLM,
    scripted_kind(always_stag, beyond=_BEYOND),
    scripted_kind(always_hare, beyond=_BEYOND),
    scripted_kind(grim_trigger, beyond=_BEYOND),
    scripted_kind(tit_for_tat, beyond=_BEYOND),
    scripted_kind(win_stay_lose_shift, WinStayLoseShift, misfit=_knows_its_points, beyond=_BEYOND),
    scripted_kind(follow_words, needs="cheap_talk", beyond=_BEYOND),
    scripted_kind(coin, beyond=_BEYOND),
    scripted_kind(betray, Betray, (BYZANTINE,), misfit=_never_betrays),
)
