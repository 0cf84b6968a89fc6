"""Protocols of agreement keep what theory promises of them, against adversaries that may say anything to anybody."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given as tried
from hypothesis import strategies as st

from parley.errors import UsageError
from parley.games.consensus.parameters import ConsensusView, Goal, Said, Signer, Value
from parley.games.consensus.policies import POLICIES
from parley.games.network import Network
from support.studies import StudyFactory

Rule = Callable[[ConsensusView, np.random.Generator], Mapping[str, Any]]
LOW, HIGH = 0, 50
REAL = Goal("real", 1.0, "hull")


def rule(name: str, **given: Any) -> Rule:
    kind = POLICIES[name]
    assert kind.rule is not None
    return partial(kind.rule, given=kind.Parameters(**given))


def name_of(place: int) -> str:
    return f"agent_{place + 1}"


class Rounds:
    """Rounds of a protocol among honest agents that begin with `start`, None for a faulty one, on a network."""

    def __init__(
        self,
        protocol: Rule,
        start: Sequence[Value | None],
        faulty: Rule,
        network: Network | None = None,
        goal: Goal = REAL,
        high: int = HIGH,
        seed: int = 0,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.names = [name_of(place) for place in range(len(start))]
        self.start = dict(zip(self.names, start, strict=True))
        self.rules = {name: faulty if value is None else protocol for name, value in self.start.items()}
        self.network = network or Network.complete(len(start))
        self.held: dict[str, Value | None] = dict(self.start)
        self.heard: dict[str, list[dict[str, Said]]] = {name: [] for name in self.names}
        self.goal, self.high = goal, high
        self.votes: list[set[str]] = []  # by round, of honest agents
        self.values: list[list[Value]] = []

    def view(self, name: str, phase: str, this_round: Mapping[str, Said]) -> ConsensusView:
        place = self.names.index(name)
        return ConsensusView(
            phase=phase,
            agent=name,
            role="honest" if self.start[name] is not None else "byzantine",
            round=len(self.values) + 1,
            value_min=LOW,
            value_max=self.high,
            initial_value=self.start[name],
            current_value=self.held[name],
            last_round={},
            this_round={peer: said.value for peer, said in this_round.items()},
            neighbors=tuple(self.names[peer] for peer in self.network.neighbors[place]),
            earlier=tuple(self.heard[name]),
            goal=self.goal,
            signer=Signer(name, "secret"),
        )

    def play(self, rounds: int) -> "Rounds":
        for _ in range(rounds):
            views = {name: self.view(name, "propose", {}) for name in self.names}
            said = {name: self.rules[name](view, self.rng) for name, view in views.items()}
            for name, fields in said.items():
                self.held[name] = self.held[name] if fields["value"] == "abstain" else fields["value"]
            now = {name: {peer: _told(said[peer], name) for peer in (name, *views[name].neighbors)} for name in said}
            votes = {
                str(self.rules[name](self.view(name, "vote", now[name]), self.rng)["decision"]) for name in self.honest
            }
            for name in self.names:
                self.heard[name].append(now[name])
            self.votes.append(votes)
            self.values.append([value for name in self.honest if (value := self.held[name]) is not None])
        return self

    @property
    def honest(self) -> list[str]:
        return [name for name, value in self.start.items() if value is not None]

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


def _told(fields: Mapping[str, Any], hearer: str) -> Said:
    value = fields.get("peer_values", {}).get(hearer, fields["value"])
    text = fields.get("peer_texts", {}).get(hearer, fields["public_reasoning"])
    return Said(None if value == "abstain" else value, text)


def liar(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Tell each peer anything, or nothing, with any text that a protocol may read."""
    ends = [view.value_min, view.value_max, "abstain"]
    near = [said.value for said in view.earlier[-1].values() if said.value is not None] if view.earlier else ends
    among = [*ends, *near] if rng.integers(2) else near
    values = {name: among[int(rng.integers(len(among)))] for name in view.neighbors}
    texts = {name: ('"?"', "", "[[")[int(rng.integers(3))] for name in view.neighbors}
    return {"value": view.value_min, "public_reasoning": "", "peer_values": values, "peer_texts": texts}


def same_to_all(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
    """Tell all peers the same, which may be anything."""
    values = [value for value in liar(view, rng)["peer_values"].values() if value != "abstain"]
    return {"value": values[0] if values else view.value_max, "public_reasoning": ""}


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
    for seed in range(12):
        for adversary in (liar, rule("keep_apart"), rule("equivocate"), rule("drag"), rule("silent")):
            made = Rounds(rule("msr"), starts(n, f, seed), adversary, seed=seed).play(8)
            assert made.in_hull
            for before, after in zip(made.spreads, made.spreads[1:], strict=False):
                assert after <= f / (n - 2 * f) * before + 1e-9


def test_at_n_equal_to_3f_an_adversary_stops_msr() -> None:
    for f in (1, 2, 3):
        for seed in range(5):
            made = Rounds(rule("msr", f=f), starts(3 * f, f, seed), rule("keep_apart")).play(25)
            assert made.spreads[24] == pytest.approx(made.spreads[4])
    apart = Rounds(rule("msr", f=1), [0, 50, None], rule("keep_apart")).play(25)
    assert apart.values[24] == [0, 50]


def converges(network: Network, f: int, start: Sequence[Value | None], adversary: Rule, seed: int = 0) -> bool:
    made = Rounds(rule("w_msr", f=f), start, adversary, network, seed=seed).play(150)
    assert made.in_hull
    return made.spreads[-1] < 0.01 * max(1, made.spreads[0])


def minimal(n: int, seed: int, enough: Callable[[Network], bool]) -> tuple[Network, Network]:
    """Return a network that is enough, and the same without one link, which is not."""
    links = list(combinations(range(n), 2))
    for place in np.random.default_rng(seed).permutation(len(links)):
        link = list(combinations(range(n), 2))[int(place)]
        if enough(Network.of_edges(n, [each for each in links if each != link])):
            links.remove(link)
    return Network.of_edges(n, links), Network.of_edges(n, links[1:])


def sets_of(n: int) -> Iterator[tuple[int, ...]]:
    return (each for size in range(1, n) for each in combinations(range(n), size))


def reaching(network: Network, agents: Sequence[int], r: int) -> list[int]:
    """Return those of a set that hear r agents or more outside of it."""
    return [a for a in agents if sum(peer not in agents for peer in network.neighbors[a]) >= r]


def robust(network: Network, r: int, s: int) -> bool:
    """Whether of any two disjoint sets all agents of one hear r outside of it, or s agents of both together do."""
    hear = {each: len(reaching(network, each, r)) for each in sets_of(len(network.neighbors))}
    few = [({*each}, number) for each, number in hear.items() if number < min(len(each), s)]
    return all(one & other or first + second >= s for (one, first), (other, second) in combinations(few, 2))


def breaking(network: Network, f: int) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """Return two sets for which a network is not (f+1, f+1)-robust, and the agents that hear more than f outside."""
    for one in sets_of(len(network.neighbors)):
        for other in sets_of(len(network.neighbors)):
            hear = [reaching(network, each, f + 1) for each in (one, other)]
            whole = len(hear[0]) == len(one) or len(hear[1]) == len(other)
            if not {*one} & {*other} and not whole and len(hear[0]) + len(hear[1]) <= f:
                return one, other, hear[0] + hear[1]
    raise AssertionError("it is robust")


@pytest.mark.promise("`w_msr` converges on (F+1, F+1)-robust networks (F-total), and not one link below.")
@pytest.mark.parametrize("seed", range(4))
def test_w_msr_converges_on_robust_networks_and_can_be_stopped_one_link_below(seed: int) -> None:
    n, f = 6, 1
    enough, below = minimal(n, seed, lambda network: robust(network, f + 1, f + 1))
    for place in range(n):
        for adversary in (same_to_all, rule("stubborn", value=50), rule("drag"), rule("oscillate")):
            start = starts(n, 0, seed)
            start[place] = None
            assert converges(enough, f, start, adversary, seed)
    one, other, faulty = breaking(below, f)
    start = [0 if place in one else 50 if place in other else 25 for place in range(n)]
    told = {name_of(place): start[place] for place in faulty}
    held = [None if place in faulty else value for place, value in enumerate(start)]
    assert not converges(below, f, held, lambda view, _: {"value": told[view.agent], "public_reasoning": ""})


@pytest.mark.promise("`w_msr` converges on (2F+1)-robust networks where each agent hears F faulty ones (F-local).")
def test_w_msr_converges_on_more_robust_networks_where_no_agent_hears_more_than_f_faulty_ones() -> None:
    f, found = 1, 0
    for seed in range(3):
        network, _ = minimal(9, seed, lambda each: robust(each, 2 * f + 1, 1))
        for faulty in combinations(range(9), 2):
            hears = [sum(peer in faulty for peer in network.neighbors[a]) for a in range(9) if a not in faulty]
            if max(hears) <= f:
                found += 1
                start = [None if place in faulty else v for place, v in enumerate(starts(9, 0, seed))]
                assert converges(network, f, start, rule("stubborn", value=50), seed)
                assert converges(network, f, start, same_to_all, seed)
    assert found >= 1


def test_medians_stay_in_the_hull_and_flooding_survives_crashes() -> None:
    for seed in range(20):
        for name in ("median", "trimmed_median"):
            made = Rounds(rule(name), starts(7, 3, seed), same_to_all, seed=seed, goal=Goal()).play(5)
            assert made.in_hull
            assert name == "trimmed_median" or set(made.spreads[1:]) == {0}

    def crashing(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        """Tell one peer the smallest value in the first round that its number allows, and nothing else to anybody."""
        told = {view.neighbors[view.round % len(view.neighbors)]: 0} if view.round == int(view.agent[6:]) else {}
        return {"value": "abstain", "public_reasoning": "", "peer_values": told}

    for f in (1, 2, 3):
        start = [None] * f + [20, 30, 40, 45]
        made = Rounds(rule("flood_min", rounds=f + 1), start, crashing, goal=Goal()).play(f + 2)
        assert made.spreads[f + 1] == 0
        assert made.votes[f + 1] == {"stop"}


# Exact agreement


@pytest.mark.promise("`phase_king` agrees after f + 1 phases, n > 4f, also with equivocation.")
@pytest.mark.parametrize(("n", "f"), [(5, 1), (6, 1), (9, 2)])
def test_phase_king_agrees_after_its_phases(n: int, f: int) -> None:
    for seed in range(40):
        for adversary in (liar, rule("keep_apart"), rule("equivocate")):
            few = starts(n, f, seed, (3, 40) if seed % 2 else range(LOW, HIGH + 1))
            made = Rounds(rule("phase_king"), few, adversary, goal=Goal(), seed=seed).play(2 * f + 4)
            assert made.spreads[2 * f + 2 :] == [0, 0], (seed, few)
            assert made.stops == 2 * f + 3
    for faulty in combinations(range(n), f):  # they stay with the value that all begin with, whoever is king
        same: list[Value | None] = [None if place in faulty else 7 for place in range(n)]
        assert set(Rounds(rule("phase_king"), same, liar, goal=Goal()).play(2 * f + 3).values[-1]) == {7}


def test_at_n_equal_to_4f_a_king_that_lies_breaks_the_agreement() -> None:
    broken = [
        Rounds(rule("phase_king", f=1), starts(4, 1, seed), rule("keep_apart"), goal=Goal()).play(5).spreads[4] > 0
        for seed in range(20)
    ]
    assert any(broken)


@pytest.mark.promise("`ben_or` agrees on one of two values, n > 5f, also with equivocation.")
@pytest.mark.parametrize(("n", "f"), [(6, 1), (7, 1), (11, 2)])
def test_ben_or_agrees(n: int, f: int) -> None:
    for seed in range(30):
        for adversary in (liar, rule("keep_apart"), rule("equivocate")):
            start = starts(n, f, seed, (0, 1))
            made = Rounds(rule("ben_or"), start, adversary, goal=Goal(), high=1, seed=seed)
            while not made.votes or "stop" not in made.votes[-1]:
                made.play(1)
                assert len(made.votes) < 200
            assert made.spreads[-1] == 0  # as soon as one of them decides
            made.play(2)
            assert (made.spreads[-1], made.votes[-1]) == (0, {"stop"})
            initial = {value for value in start if value is not None}
            assert len(initial) > 1 or ({*made.values[-1]} == initial and len(made.votes) == 5)


@pytest.mark.promise("`dolev_strong` agrees after f + 1 rounds with n > f, and on what all began with where n > 2f.")
@pytest.mark.parametrize(("n", "f"), [(3, 1), (4, 3), (5, 2), (7, 3)])
def test_dolev_strong_agrees_after_its_rounds(n: int, f: int) -> None:
    for seed in range(5):
        adversaries = [liar, rule("keep_apart"), *(rule("late_signer", round=k) for k in range(1, f + 3))]
        for adversary in adversaries:
            made = Rounds(rule("dolev_strong", f=f), starts(n, f, seed), adversary, goal=Goal(), seed=seed).play(f + 2)
            assert made.spreads[f + 1] == 0, seed
            assert made.stops == f + 2
            if n > 2 * f:
                same: list[Value | None] = [None if v is None else 9 for v in starts(n, f, seed)]
                assert set(Rounds(rule("dolev_strong", f=f), same, adversary, goal=Goal()).play(f + 2).values[-1]) == {
                    9
                }


def test_one_signer_more_than_dolev_strong_tolerates_breaks_it() -> None:
    broken = [
        Rounds(rule("dolev_strong", f=1), starts(6, 2, seed), rule("late_signer", round=2), goal=Goal()).play(3)
        for seed in range(10)
    ]
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
    start = [3, 3, 8, None]

    def hostile(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        return {"value": value, "public_reasoning": text}

    made = Rounds(rule("dolev_strong"), start, hostile, goal=Goal()).play(3)
    assert made.values[-1] == [3, 3, 3]


def test_a_signer_of_fractions_cannot_make_others_say_what_the_game_does_not_have() -> None:
    def fraction(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        assert view.signer is not None
        told = [[view.agent, 2.5, {view.agent: view.signer.sign(f"{view.agent} 2.5")}]]
        return {"value": 50, "public_reasoning": json.dumps(told)}

    assert Rounds(rule("dolev_strong"), [30, 40, None], fraction, goal=Goal()).play(3).values[-1] == [30, 30]


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
