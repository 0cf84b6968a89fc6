"""Protocols of distributed computing as scripted policies, and the adversaries that are the worst for them.

Each is a pure function of what an agent may see: what it and its neighbors said in the rounds that are over. A round
of the game is one of the protocol: what agents propose in round r + 1 follows from rounds 1 to r. What a protocol says
beside a value is JSON in `public_reasoning`; of peers it is read strictly, and what cannot be read is not there. A
silent peer counts as one that said the agent's own value, unless the docstring says otherwise. A protocol votes `stop`
once it is done. n is the number of agents that an agent sees, itself among them, f how many faulty ones it tolerates.
docs/explanation/theory.md says what is promised and what games showed.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from statistics import fmean, median_low
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from parley.games.consensus.parameters import ConsensusView, Said, Value
from parley.games.parameters import BYZANTINE, Count, Positive
from parley.policies.kinds import PolicyKind, PolicyParameters, scripted_kind
from parley.text import by_number

if TYPE_CHECKING:
    import numpy as np

Fields = Mapping[str, Any]  # of a reply


# A value that agents propose, or None; what None means is said where it is used.
_IS_VALUE = "value of the game"
GameValue = Annotated[int | None, _IS_VALUE, Field(ge=-1_000_000, le=1_000_000)]


def outside_range(given: PolicyParameters, game: Any) -> str:
    """Return which of the values that a policy is given is not one of the game; "" if all are."""
    for name, field in type(given).model_fields.items():
        value = getattr(given, name)
        if _IS_VALUE in field.metadata and value is not None and not game.value_min <= value <= game.value_max:
            return f"{name}: {value}: not a value of the game; choose one from {game.value_min} to {game.value_max}"
    return ""


REASON = "This value may help us to agree."  # all rules give it: it says nothing of who gives it
ABSTENTION: Fields = {"internal_strategy": "", "value": "abstain", "public_reasoning": ""}


def proposal(value: Value, text: str = REASON) -> Fields:
    """Return a proposal, with what a protocol has to say beside the value."""
    return {"internal_strategy": "", "value": value, "public_reasoning": text}


def uniform(view: ConsensusView, rng: "np.random.Generator") -> int:
    """Return a value that is uniform on the range of the game."""
    return int(rng.integers(view.value_min, view.value_max + 1))


def held_value(view: ConsensusView, rng: "np.random.Generator") -> Value:
    """Return the value it holds; an agent that starts without one (Byzantine) draws it."""
    return uniform(view, rng) if view.current_value is None else view.current_value


def most_frequent(values: Iterable[Value | None]) -> Value | None:
    """Return the most frequent value, the smallest on a tie; None if nobody proposed one."""
    counts = Counter(value for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def stop_when_equal(view: ConsensusView, percent: int = 100) -> Fields:
    """Vote stop when at least `percent` of the proposals that it sees are equal; a silent agent made none."""
    counts = Counter(value for value in view.this_round.values() if value is not None)
    agreed = bool(counts) and 100 * max(counts.values()) >= percent * counts.total()
    return {"decision": "stop" if agreed else "continue"}


VOTES = "Its votes; `honest` is stop when all proposals it sees are equal."


def vote(view: ConsensusView, given: Any) -> Fields:
    """Vote as the policy's parameter `vote` says (VOTES)."""
    return stop_when_equal(view) if given.vote == "honest" else {"decision": given.vote}


Vote = Literal["continue", "stop", "abstain", "honest"]


class Adversary(PolicyParameters):
    """How an adversary votes, whatever it proposes."""

    vote: Vote = Field(default="continue", description=VOTES)


class Tolerant(PolicyParameters):
    """How many faults a protocol tolerates."""

    f: Count | None = Field(
        default=None,
        description="Faulty agents that it tolerates; default: the most that its bound allows among the agents it "
        "sees.",
    )


class Lasting(PolicyParameters):
    """How long a protocol plays that may be asked to stop."""

    rounds: Count | None = Field(
        default=None,
        description="Rounds of exchange after which it votes stop; default: once all that it hears is equal, or lies "
        "within agree_within, or its bound says so (`flood_min`: when all is equal, or after one less than the agents "
        "that it sees).",
    )


class Approximate(Tolerant, Lasting):
    """How many faults an approximate protocol tolerates, and how long it plays."""


def _bound(view: ConsensusView, given: Tolerant, times: int) -> tuple[int, int]:
    """Return n, and f as given, or the largest with n > `times` f."""
    n = len(view.neighbors) + 1
    return n, (n - 1) // times if given.f is None else given.f


def _heard(view: ConsensusView, said: Mapping[str, Said], rng: "np.random.Generator") -> dict[str, Value]:
    """Return by name what it heard in a round that is over; who was not heard said what the agent itself said."""
    mine = said[view.agent].value
    own = held_value(view, rng) if mine is None else mine
    told = {name: each.value for name, each in said.items() if each.value is not None}
    return dict.fromkeys((view.agent, *view.neighbors), own) | told


def _decision(stop: bool) -> Fields:
    return {"decision": "stop" if stop else "continue"}


# Approximate agreement: values come closer in each round


def _vote_when_near(view: ConsensusView, given: Lasting) -> Fields:
    heard = [value for value in view.this_round.values() if value is not None]
    return _decision(view.goal.agreed(heard) or (given.rounds is not None and view.round > given.rounds))


def _approach(
    view: ConsensusView, rng: "np.random.Generator", given: Lasting, middle: Callable[[list[Value], Value], Value]
) -> Fields:
    """Propose the middle of what it heard in the last round, given its own value; vote stop as it is told."""
    if view.phase == "vote":
        return _vote_when_near(view, given)
    if not view.earlier:
        return proposal(held_value(view, rng))
    heard = _heard(view, view.earlier[-1], rng)
    return proposal(middle(sorted(heard.values()), heard[view.agent]))


def _mean(kept: Sequence[Value], own: Value) -> Value:
    """Return the mean, in the hull of `kept` in spite of rounding; `own` of nothing."""
    return min(max(fmean(kept), min(kept)), max(kept)) if kept else own


def _beside_own(heard: Sequence[Value], own: Value, f: int) -> list[Value]:
    """Return sorted values without the f largest of those above `own`, and the f smallest of those below it."""
    low, high = bisect_left(heard, own), bisect_right(heard, own)
    return [*heard[:low][f:], *heard[low:high], *heard[high : max(high, len(heard) - f)]]


def msr(view: ConsensusView, rng: "np.random.Generator", given: Approximate) -> Fields:
    """Drop the f largest and the f smallest values heard, propose the mean of the rest.

    With n > 3f the spread shrinks in each round at least to f / (n - 2f) of what it was, so the round is known in
    which values lie within `agree_within`; it votes stop then. Source: Dolev, Lynch, Pinter, Stark, Weihl, Reaching
    approximate agreement in the presence of faults, J. ACM 33 (1986), section 4; the mean in place of theirs.
    """
    n, f = _bound(view, given, 3)
    if view.phase == "vote" and given.rounds is None and n > 3 * f:
        spread = (view.value_max - view.value_min) * (f / (n - 2 * f)) ** (view.round - 1)
        if spread <= view.goal.within:
            return _decision(True)
    return _approach(view, rng, given, lambda heard, own: _mean(heard[f : len(heard) - f], own))


def w_msr(view: ConsensusView, rng: "np.random.Generator", given: Approximate) -> Fields:
    """Drop the f largest of the values above its own and the f smallest below it, propose the mean of the rest.

    Source: LeBlanc, Zhang, Koutsoukos, Sundaram, Resilient asymptotic consensus in robust networks, IEEE JSAC 31
    (2013), section IV.
    """
    _, f = _bound(view, given, 2)
    return _approach(view, rng, given, lambda heard, own: _mean(_beside_own(heard, own, f), own))


def trimmed_median(view: ConsensusView, rng: "np.random.Generator", given: Approximate) -> Fields:
    """Drop values as `w_msr` does, propose the lower median of the rest; it plays whole numbers, too.

    After Zhang, Sundaram, A simple median-based resilient consensus algorithm, Allerton (2012).
    """
    _, f = _bound(view, given, 2)
    return _approach(view, rng, given, lambda heard, own: median_low(_beside_own(heard, own, f)))


def median(view: ConsensusView, rng: "np.random.Generator", given: Lasting) -> Fields:
    """Propose the lower median of the values heard; silent agents are not counted. As for `trimmed_median`."""
    if view.phase == "vote":
        return _vote_when_near(view, given)
    heard = [said.value for said in view.earlier[-1].values() if said.value is not None] if view.earlier else []
    return proposal(median_low(heard) if heard else held_value(view, rng))


def flood_min(view: ConsensusView, rng: "np.random.Generator", given: Lasting) -> Fields:
    """Propose the smallest value ever heard; vote stop after `rounds` rounds of exchange.

    Source: Lynch, Distributed Algorithms (1996), section 6.2 (FloodSet).
    """
    if view.phase == "vote":
        if given.rounds is not None:
            return _decision(view.round > given.rounds)
        return _decision(True) if view.round > len(view.neighbors) else stop_when_equal(view)
    own = held_value(view, rng)
    return proposal(min([own, *(_heard(view, view.earlier[-1], rng).values() if view.earlier else ())]))


# Exact agreement


def phase_king(view: ConsensusView, rng: "np.random.Generator", given: Tolerant) -> Fields:
    """Take the majority where it is overwhelming, else what the king of the phase says.

    A phase is two rounds: all send their value; all send the most frequent one of it, and that of the king, the k-th
    agent by number in phase k, counts for all that heard their own at most n/2 + f times.
    Source: Berman, Garay, Perry, Towards optimal distributed consensus, FOCS (1989); of many values.
    """
    n, f = _bound(view, given, 4)
    phase, second = divmod(view.round - 1, 2)
    if view.phase == "vote":
        return _decision(phase > f)
    if view.round == 1 or view.round > 2 * f + 3:
        return proposal(held_value(view, rng))
    heard = _heard(view, view.earlier[-1 if second else -2], rng)
    leading = most_frequent(heard.values())
    assert leading is not None
    if second or 2 * list(heard.values()).count(leading) > n + 2 * f:
        return proposal(leading)
    king = sorted(heard, key=by_number)[(phase - 1) % n]
    return proposal(_heard(view, view.earlier[-1], rng)[king])


UNDECIDED = json.dumps("?")  # what `ben_or` says beside a value that it does not propose


def ben_or(view: ConsensusView, rng: "np.random.Generator", given: Tolerant) -> Fields:
    """Propose what more than (n + f)/2 hold; take what more than f propose, else toss a coin.

    A phase is two rounds: all send their value; all propose what more than (n + f)/2 of them hold, or nothing (the
    text `"?"` beside their own value). Who then hears a value proposed by f + 1 takes it, and by more than (n + f)/2
    decides on it; who does not draws one of the two values.
    Source: Ben-Or, Another advantage of free choice, PODC (1983), protocol B, in synchronous rounds. Silent agents
    are not counted, as in the source.
    """
    n, f = _bound(view, given, 5)
    phase, second = divmod(view.round - 1, 2)
    said = view.earlier[2 * phase - 1].values() if phase else ()
    proposed = Counter(each.value for each in said if each.text != UNDECIDED and each.value is not None)
    value, votes = max(proposed.items(), key=lambda item: item[1], default=(None, 0))
    if view.phase == "vote":
        return _decision(2 * votes > n + f)
    if second:
        held = Counter(said.value for said in view.earlier[-1].values() if said.value is not None)
        value, votes = held.most_common(1)[0]
        return proposal(value) if 2 * votes > n + f else proposal(held_value(view, rng), UNDECIDED)
    if value is not None and votes > f:
        return proposal(value)
    return proposal(uniform(view, rng) if phase else held_value(view, rng))


def dolev_strong(view: ConsensusView, rng: "np.random.Generator", given: Tolerant) -> Fields:
    """Broadcast its value with signatures, n broadcasts at once; then take the most frequent value that all hold.

    What is sent in round r counts with the signatures of r agents, that of its origin among them; who takes it signs
    it and sends it on. After f + 1 rounds all hold the same values of each origin: an origin with two has none. Round
    f + 2 shows the most frequent value, the smallest on a tie. A silent agent is one whose broadcast has no value.
    Source: Dolev, Strong, Authenticated algorithms for Byzantine agreement, SIAM J. Comput. 12 (1983).
    """
    _, f = _bound(view, given, 2)
    if view.phase == "vote":
        return _decision(view.round > f + 1)
    own = held_value(view, rng)
    if view.round == 1:
        return proposal(own, _written([(view.agent, None, {view.agent: _signed(view, view.agent, own)})]))
    if view.round > f + 2:
        return proposal(own)
    taken, new = _broadcasts(view)
    if view.round < f + 2:
        signed = ((origin, value, {**by, view.agent: _signed(view, origin, value)}) for origin, value, by in new)
        return proposal(own, _written(signed))
    leading = most_frequent(values[0] for values in taken.values() if len(values) == 1)
    return proposal(own if leading is None else leading)


# What a broadcast of an agent is: its name, a value (None: the one that is told beside the text), and signatures.
_Broadcast = tuple[str, Value | None, dict[str, str]]


def _written(broadcasts: Iterable[_Broadcast]) -> str:
    return json.dumps(list(broadcasts), separators=(",", ":"))


def _statement(origin: str, value: Value) -> str:
    return f"{origin} {float(value)!r}"


def _signed(view: ConsensusView, origin: str, value: Value) -> str:
    assert view.signer is not None
    return view.signer.sign(_statement(origin, value))


def _signers(view: ConsensusView, origin: str, value: Value, signatures: Mapping[str, str]) -> dict[str, str]:
    """Return those signatures of agents that it sees that are good."""
    assert view.signer is not None
    text, seen = _statement(origin, value), {view.agent, *view.neighbors}
    return {name: by for name, by in signatures.items() if name in seen and view.signer.signed(name, text, by)}


def _read(text: str) -> Iterator[_Broadcast]:
    """Yield the broadcasts of a peer's text, whatever it wrote there; their values are anything but text and lists."""
    try:
        broadcasts = json.loads(text)
    except (ValueError, RecursionError):
        return
    for each in broadcasts if isinstance(broadcasts, list) else ():
        match each:
            case [str(origin), None | int() | float() as value, dict(signatures)]:
                if not isinstance(value, bool) and all(isinstance(by, str) for by in signatures.values()):
                    yield origin, value, signatures


def _broadcasts(view: ConsensusView) -> tuple[dict[str, list[Value]], list[tuple[str, Value, dict[str, str]]]]:
    """Return the values of each origin that it took, two at most, and what it took in the last round."""
    taken: dict[str, list[Value]] = {name: [] for name in (view.agent, *view.neighbors)}
    mine = view.earlier[0][view.agent].value
    taken[view.agent] += [] if mine is None else [mine]
    new: list[tuple[str, Value, dict[str, str]]] = []
    whole = view.goal.values == "integer"
    for number, said in enumerate(view.earlier, 1):
        new = []
        for peer, each in said.items():
            for origin, told, signatures in _read(each.text) if peer != view.agent else ():
                value = each.value if told is None else told
                if value is None or not view.value_min <= value <= view.value_max or (whole and value % 1):
                    continue
                value = int(value) if whole else value
                if origin not in taken or value in taken[origin] or len(taken[origin]) == 2:
                    continue
                signers = _signers(view, origin, value, signatures)
                if origin in signers and len(signers) >= number:
                    taken[origin].append(value)
                    new.append((origin, value, signers))
    return taken, new


# Adversaries


def _others(view: ConsensusView) -> dict[str, Value]:
    """Return what the others held last, without those who were silent in round 1: they are of its own kind."""
    if not view.earlier:
        return {}
    first, last = view.earlier[0], view.earlier[-1]
    spoke = [name for name in view.neighbors if first[name].value is not None]
    return {name: value for name in spoke if (value := last[name].value) is not None}


def keep_apart(view: Any, rng: "np.random.Generator", given: Adversary) -> Fields:
    """Tell the lower half of the others their smallest value and the upper half their largest, so that they stay.

    Both are just inside of what is trimmed; in exact agreement this splits the vote, and is a king that lies. Once
    the others agree, the upper half is told the farther end of the range. In round 1 it is silent, by which its kind
    know each other; after that it hears what honest agents said, a round late.
    """
    others = _others(view)
    if not others:
        return ABSTENTION
    ordered = sorted(others, key=lambda name: (others[name], by_number(name)))
    low, high = others[ordered[0]], others[ordered[-1]]
    if low == high:
        high = max(view.value_max, view.value_min, key=lambda end: abs(end - low))
    upper = dict.fromkeys(ordered[len(ordered) // 2 :], high)
    return {**proposal(low), "peer_values": upper}


def drag(view: ConsensusView, rng: "np.random.Generator", given: Adversary) -> Fields:
    """Tell all the largest value that the others held, the farthest one that is not trimmed.

    In round 1 it is silent, by which its kind know each other.
    """
    others = _others(view)
    return proposal(max(others.values())) if others else ABSTENTION


class LateSigner(Adversary):
    """When it releases its second value."""

    round: Positive = Field(description="Round in which it tells half of the others; the last is f + 1.")


def late_signer(view: Any, rng: "np.random.Generator", given: LateSigner) -> Fields:
    """Sign two values, tell all the smallest of the game, and half of them the largest in a late round.

    Its kind add their signatures to each other's second value in the meantime. What they wrote of it cannot be used
    by those whom they told the first one. `dolev_strong` refuses it, unless more agents do so than it tolerates.
    """
    first, second = view.value_min, view.value_max
    late: dict[str, dict[str, str]] = {view.agent: {}}
    for each in chain.from_iterable(said.values() for said in view.earlier):
        for origin, _, signatures in _read(each.text):
            if origin in {view.agent, *view.neighbors}:
                late.setdefault(origin, {}).update(_signers(view, origin, second, signatures))
    told: list[_Broadcast] = [
        (origin, None, {**by, view.agent: _signed(view, origin, second)})
        for origin, by in late.items()
        if origin in by or origin == view.agent
    ]
    if view.round == 1:
        told.append((view.agent, None, {view.agent: _signed(view, view.agent, first)}))
    half = view.neighbors[: len(view.neighbors) // 2] if view.round == given.round else ()
    return {**proposal(first, _written(told)), "peer_values": dict.fromkeys(half, second)}


# What they need of a game


def _lacks(given: PolicyParameters, game: Any, real: bool = False, two: bool = False, chars: int = 0) -> str:
    """Return which parameter of the game does not fit a policy that plays real numbers, two values or long texts."""
    if game.protocol != "paper":
        return f"protocol: {game.protocol}: plays in rounds; remove it"
    if real and game.values != "real":
        return "plays real numbers; add values: real to the game's parameters"
    if two and (game.value_max - game.value_min != 1 or game.values == "real"):
        return "plays two whole numbers; choose value_min and value_max that differ by 1, without values: real"
    for name in ("reasoning_chars", "justification_chars"):
        if getattr(game, name) < chars:
            return f"{name}: {getattr(game, name)}: sends texts of up to {chars} characters; raise it"
    return ""


# `dolev_strong` sends on at most two broadcasts of each faulty agent, with f + 1 signatures, and one of each agent in
# round 2: of 13 agents with f = 6 that is under 4,000 characters.
_signing = partial(_lacks, chars=4000)
_attack = partial(scripted_kind, roles=(BYZANTINE,))

POLICIES: tuple[PolicyKind, ...] = (
    scripted_kind(msr, Approximate, misfit=partial(_lacks, real=True)),
    scripted_kind(w_msr, Approximate, misfit=partial(_lacks, real=True)),
    scripted_kind(trimmed_median, Approximate, misfit=_lacks),
    scripted_kind(median, Lasting, misfit=_lacks),
    scripted_kind(flood_min, Lasting, misfit=_lacks),
    scripted_kind(phase_king, Tolerant, misfit=_lacks),
    scripted_kind(ben_or, Tolerant, misfit=partial(_lacks, two=True, chars=len(UNDECIDED))),
    scripted_kind(dolev_strong, Tolerant, misfit=_signing),
    _attack(keep_apart, Adversary, misfit=_lacks, beyond="equivocates", needs="equivocation"),
    _attack(drag, Adversary, misfit=_lacks),
    _attack(late_signer, LateSigner, misfit=_signing, beyond="equivocates", needs="equivocation"),
)
