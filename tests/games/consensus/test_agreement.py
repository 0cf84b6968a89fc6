"""Protocols of agreement keep what theory promises of them, against adversaries that may say anything to anybody."""

import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given as tried
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame
from parley.games.consensus.parameters import ConsensusParameters, ConsensusView, Value
from parley.games.consensus.policies import POLICIES
from parley.games.network import Network
from parley.games.parameters import Seat
from parley.policies import Ask, Reply
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from support.playing import drive
from support.studies import StudyFactory

Rule = Callable[[ConsensusView, np.random.Generator], Mapping[str, Any]]
LOW, HIGH, LONG = 0, 50, 10_000
REAL = {"values": "real", "agree_within": 1.0, "validity": "hull"}
EXACT: Mapping[str, Any] = {}
BY_RULE = ChosenPolicy(PolicyKind("rule", rule=dict), PolicyParameters())


def rule(name: str, **given: Any) -> Rule:
    kind = POLICIES[name]
    assert kind.rule is not None
    return partial(kind.rule, given=kind.Parameters(**given))


def name_of(place: int) -> str:
    return f"agent_{place + 1}"


class Rounds:
    """A game of a protocol among honest agents that begin with `start`, None for a faulty one; see what they held."""

    def __init__(
        self,
        protocol: Rule,
        start: Sequence[Value | None],
        faulty: Rule,
        rounds: int,
        network: Network | None = None,
        goal: Mapping[str, Any] = EXACT,
        high: int = HIGH,
        seed: int = 0,
    ) -> None:
        names = [name_of(place) for place in range(len(start))]
        self.start = dict(zip(names, start, strict=True))
        parameters = {**goal, "value_max": high, "max_rounds": rounds, "reasoning_chars": LONG}
        given = ConsensusParameters(
            **parameters, justification_chars=LONG, stop_threshold=Fraction(1), equivocation=True, history_rounds=0
        )
        roles = {name: "byzantine" if value is None else "honest" for name, value in self.start.items()}
        seats = tuple(Seat(name, role, BY_RULE) for name, role in roles.items())
        initial = {"initial_values": {name: value for name, value in self.start.items() if value is not None}}
        rng = np.random.default_rng(seed)
        game = ConsensusGame(given, seats, "may_exist", rng, network, initial)

        def answer(ask: Ask) -> Reply:
            rule = faulty if self.start[ask.agent] is None else protocol
            return Reply(ask.reply_model.model_validate(rule(ask.view, rng)))

        trace = drive(game, answer)[1].trace
        honest = [name for name, value in self.start.items() if value is not None]
        self.values: list[list[Value]] = [[entry["values"][name] for name in honest] for entry in trace]
        self.votes = [{entry["votes"][name] for name in honest} for entry in trace]

    @property
    def spreads(self) -> list[float]:
        return [max(values) - min(values) for values in self.values]

    @property
    def in_hull(self) -> bool:
        first = self.values[0]
        return all(min(first) <= value <= max(first) for values in self.values for value in values)

    @property
    def stops(self) -> int:
        """The round in which all honest agents vote to stop."""
        return 1 + next(place for place, votes in enumerate(self.votes) if votes == {"stop"})


def liar(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Tell each peer anything, or nothing, with any text that a protocol may read."""
    if view.phase == "vote":
        return {"decision": "continue"}
    ends = [view.value_min, view.value_max, "abstain"]
    near = [said.value for said in view.earlier[-1].values() if said.value is not None] if view.earlier else ends
    among = [*ends, *near] if rng.integers(2) else near
    values = {name: among[int(rng.integers(len(among)))] for name in view.neighbors}
    return said(view.value_min, ('"?"', "", "[[")[int(rng.integers(3))], values)


def same_to_all(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Tell all peers the same, which may be anything."""
    if view.phase == "vote":
        return {"decision": "continue"}
    values = [value for value in liar(view, rng)["peer_values"].values() if value != "abstain"]
    return said(values[0] if values else view.value_max)


def said(value: Any, text: str = "", peers: Mapping[str, Any] | None = None) -> dict[str, Any]:
    told = {"internal_strategy": "", "value": value, "public_reasoning": text}
    return told if peers is None else {**told, "peer_values": peers}


def starts(n: int, faulty: int, seed: int, values: Sequence[Value] = range(LOW, HIGH + 1)) -> list[Value | None]:
    """Return initial values of n agents, drawn, and faulty agents in seats that are drawn."""
    rng = np.random.default_rng([seed, n])
    drawn: list[Value | None] = [values[int(place)] for place in rng.integers(len(values), size=n)]
    for place in rng.permutation(n)[:faulty]:
        drawn[int(place)] = None
    return drawn


# Approximate agreement


@pytest.mark.promise("`msr` shrinks the spread to f/(n - 2f) in each round and stays in the hull, for n >= 3f + 1.")
@pytest.mark.parametrize(("n", "f"), [(4, 1), (5, 1), (7, 2), (10, 3)])
def test_msr_shrinks_the_spread_against_every_adversary(n: int, f: int) -> None:
    for seed in range(6):
        for adversary in (liar, rule("keep_apart"), rule("equivocate"), rule("drag"), rule("silent")):
            made = Rounds(rule("msr"), starts(n, f, seed), adversary, 8, goal=REAL, seed=seed)
            assert made.in_hull
            for before, after in zip(made.spreads, made.spreads[1:], strict=False):
                assert after <= f / (n - 2 * f) * before + 1e-9


def test_at_n_equal_to_3f_an_adversary_stops_msr() -> None:
    for f in (1, 2, 3):
        made = Rounds(rule("msr", f=f), starts(3 * f, f, f), rule("keep_apart"), 25, goal=REAL)
        assert made.spreads[24] == pytest.approx(made.spreads[4])
    apart = Rounds(rule("msr", f=1), [0, 50, None], rule("keep_apart"), 25, goal=REAL)
    assert apart.values[24] == [0, 50]


@pytest.mark.promise("`w_msr` converges where n > 2f agents hear all; on a ring, which bears nobody, it is stopped.")
def test_w_msr_converges_where_a_network_is_robust_and_nowhere_else() -> None:
    for seed, (n, f) in enumerate([(3, 1), (5, 2), (7, 3)]):
        for adversary in (same_to_all, rule("stubborn", value=50), rule("drag"), rule("oscillate")):
            made = Rounds(rule("w_msr"), starts(n, f, seed), adversary, 60, goal=REAL, seed=seed)
            assert made.in_hull
            assert made.spreads[-1] < 0.01 * max(1, made.spreads[0])
    ring = Network.of_edges(6, [(place, (place + 1) % 6) for place in range(6)])
    apart = Rounds(rule("w_msr", f=1), [0, 0, 0, 50, 50, None], rule("stubborn", value=50), 60, ring, REAL)
    assert apart.in_hull
    assert apart.spreads[-1] > 1


def test_medians_stay_in_the_hull_and_flooding_survives_crashes() -> None:
    for seed in range(20):
        for name in ("median", "trimmed_median"):
            made = Rounds(rule(name), starts(7, 3, seed), same_to_all, 5, seed=seed)
            assert made.in_hull
            assert name == "trimmed_median" or set(made.spreads[1:]) == {0}

    def crashing(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        """Tell one peer the smallest value in the first round that its number allows, and nothing else to anybody."""
        if view.phase == "vote":
            return {"decision": "abstain"}
        told = {view.neighbors[view.round % len(view.neighbors)]: 0} if view.round == int(view.agent[6:]) else {}
        return said("abstain", "", told)

    for f in (1, 2, 3):
        made = Rounds(rule("flood_min", rounds=f + 1), [None] * f + [20, 30, 40, 45], crashing, f + 2)
        assert made.spreads[f + 1] == 0
        assert made.votes[f + 1] == {"stop"}


# Exact agreement


@pytest.mark.promise("`phase_king` agrees after f + 1 phases, n > 4f, also with equivocation.")
@pytest.mark.parametrize(("n", "f"), [(5, 1), (6, 1), (9, 2)])
def test_phase_king_agrees_after_its_phases(n: int, f: int) -> None:
    for seed in range(10):
        for adversary in (liar, rule("keep_apart"), rule("equivocate")):
            few = starts(n, f, seed, (3, 40) if seed % 2 else range(LOW, HIGH + 1))
            made = Rounds(rule("phase_king"), few, adversary, 2 * f + 4, seed=seed)
            assert made.spreads[2 * f + 2 :] == [0, 0], (seed, few)
            assert made.stops == 2 * f + 3
    for faulty in combinations(range(n), f):  # they stay with the value that all begin with, whoever is king
        same: list[Value | None] = [None if place in faulty else 7 for place in range(n)]
        assert set(Rounds(rule("phase_king"), same, liar, 2 * f + 3).values[-1]) == {7}


def test_at_n_equal_to_4f_a_king_that_lies_breaks_the_agreement() -> None:
    games = [Rounds(rule("phase_king", f=1), starts(4, 1, seed), rule("keep_apart"), 5) for seed in range(20)]
    assert any(made.spreads[4] > 0 for made in games)


@pytest.mark.promise("`ben_or` agrees on one of two values, n > 5f, also with equivocation.")
@pytest.mark.parametrize(("n", "f"), [(6, 1), (7, 1), (11, 2)])
def test_ben_or_agrees(n: int, f: int) -> None:
    for seed in range(8):
        for adversary in (liar, rule("keep_apart"), rule("equivocate")):
            start = starts(n, f, seed, (0, 1))
            made = Rounds(rule("ben_or"), start, adversary, 40, high=1, seed=seed)
            decided = next(place for place, votes in enumerate(made.votes) if "stop" in votes)
            assert made.spreads[decided] == 0  # as soon as one of them decides
            assert (made.spreads[decided + 2], made.votes[decided + 2]) == (0, {"stop"})
            initial = {value for value in start if value is not None}
            assert len(initial) > 1 or ({*made.values[decided]} == initial and decided == 2)


@pytest.mark.promise("`dolev_strong` agrees after f + 1 rounds with n > f, and on what all began with where n > 2f.")
@pytest.mark.parametrize(("n", "f"), [(3, 1), (4, 3), (5, 2), (7, 3)])
def test_dolev_strong_agrees_after_its_rounds(n: int, f: int) -> None:
    for seed in range(5):
        for adversary in (liar, rule("keep_apart"), *(rule("late_signer", round=k) for k in range(1, f + 3))):
            made = Rounds(rule("dolev_strong", f=f), starts(n, f, seed), adversary, f + 2, seed=seed)
            assert made.spreads[f + 1] == 0, seed
            assert made.stops == f + 2
            if n > 2 * f:
                same: list[Value | None] = [None if v is None else 9 for v in starts(n, f, seed)]
                assert {*Rounds(rule("dolev_strong", f=f), same, adversary, f + 2).values[-1]} == {9}


def test_one_signer_more_than_dolev_strong_tolerates_breaks_it() -> None:
    late = rule("late_signer", round=2)
    broken = [Rounds(rule("dolev_strong", f=1), starts(6, 2, seed), late, 3) for seed in range(10)]
    assert any(made.spreads[2] > 0 for made in broken)


TEXTS = st.one_of(
    st.text(max_size=60),
    st.recursive(st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=8)), st.lists, max_leaves=8).map(
        json.dumps
    ),
    st.tuples(
        st.sampled_from(["agent_1", "agent_2", "agent_4", "x"]),
        st.one_of(st.none(), st.integers(-(10**30), 10**30), st.floats()),
        st.dictionaries(st.sampled_from(["agent_1", "agent_4", "x"]), st.text(max_size=16)),
    ).map(lambda one: json.dumps([one])),
    st.just('[["agent_1", null, {"agent_1": "\\ud800"}]]'),
    st.just("[" * 9_000),
    st.just(f"[{'9' * 9_000}]"),
)


@pytest.mark.promise("What a hostile peer writes beside a value can break no protocol.")
@tried(text=TEXTS, value=st.integers(LOW, HIGH))
def test_hostile_texts_are_read_strictly(text: str, value: int) -> None:
    def hostile(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        return {"decision": "continue"} if view.phase == "vote" else said(value, text)

    assert Rounds(rule("dolev_strong"), [3, 3, 8, None], hostile, 3).values[-1] == [3, 3, 3]


def test_a_signer_of_fractions_cannot_make_others_say_what_the_game_does_not_have() -> None:
    def fraction(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        assert view.signer is not None
        told = [[view.agent, 2.5, {view.agent: view.signer.sign(f"{view.agent} 2.5")}]]
        return {"decision": "continue"} if view.phase == "vote" else said(50, json.dumps(told))

    assert Rounds(rule("dolev_strong"), [30, 40, None], fraction, 3).values[-1] == [30, 30]


# Whole games


def test_a_game_that_does_not_fit_a_protocol_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    for name, parameters, said in (
        ("msr", {}, "add values: real"),
        ("ben_or", {}, "differ by 1"),
        ("dolev_strong", {"reasoning_chars": 4000}, "justification_chars: 200"),
        ("phase_king", {"protocol": "swarms"}, "protocol: swarms"),
    ):
        with pytest.raises(UsageError, match=said):
            study_factory({"model": name}, parameters=parameters)
