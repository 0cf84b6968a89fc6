"""The rules of the consensus game over all inputs; docs/playthroughs/consensus shows how single games go."""

import json
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from parley.games.base import new_game
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.network import draw_network
from parley.games.parameters import Group
from parley.identity import stream
from parley.policies.kinds import ChosenPolicy, PolicyKind, PolicyParameters
from support.playing import INITIAL, groups, new_consensus
from support.playthrough import by_hand
from support.studies import StudyFactory, refused

# When votes end a game


@pytest.mark.promise("Games stop at the exact share of all votes.")
@pytest.mark.parametrize("protocol", ["paper", "swarms"])
@given(n=st.integers(1, 60), votes=st.integers(0, 60), above=st.integers(1, 20), below=st.integers(1, 20))
def test_a_game_stops_at_the_exact_share_of_all_votes(
    protocol: str, n: int, votes: int, above: int, below: int
) -> None:
    threshold, votes = Fraction(min(above, below), max(above, below)), min(votes, n)
    game = new_consensus("h" * n, protocol=protocol, stop_threshold=threshold)
    cast = ["stop"] * votes + [None, "continue", "abstain"] * n
    assert game.protocol.stops(dict(zip(map(str, range(n)), cast, strict=False))) == (
        votes * threshold.denominator >= threshold.numerator * n
    )


def test_thresholds_are_read_as_they_are_written() -> None:
    rows = [
        (0.66, 50, 33),  # 33 / 50 is 0.66 exactly; 2/3 takes 34
        ("2/3", 50, 34),
        (1, 5, 5),
        # In floats 0.7 * 10 is 7.000000000000001, 0.29 * 100 is 28.999999999999996.
        (0.7, 10, 7),
        (0.29, 100, 29),
        (0.1 * 3, 10, 4),  # it is written 0.30000000000000004, which is more than 3 / 10
        ("0.333333333333333333333333333334", 3, 2),
    ]
    for threshold, n, enough in rows:
        game = new_consensus("h" * n, stop_threshold=threshold)
        found = [game.protocol.stops({str(k): "stop" if k < votes else None for k in range(n)}) for votes in range(n)]
        assert [*found, True].index(True) == enough, (threshold, n)


# How it ends


@st.composite
def games(draw: st.DrawFn) -> tuple[str, list[list[Any]], list[list[Any]]]:
    """Roles, and for each round what all propose and vote; None is an empty reply. Few values, so that some agree."""
    roles = draw(st.text("hhb", min_size=1, max_size=4))
    values = {"h": [None, 20, 42, 7], "b": [None, 20, 7, "abstain"]}
    votes = {"h": [None, "stop", "stop", "continue"], "b": [None, "stop", "continue", "abstain"]}
    rounds = range(draw(st.integers(1, 4)))
    said = [[draw(st.sampled_from(values[role])) for role in roles] for _ in rounds]
    return roles, said, [[draw(st.sampled_from(votes[role])) for role in roles] for _ in rounds]


@given(games())
def test_a_game_ends_by_the_values_that_honest_agents_hold(
    game: tuple[str, list[list[Any]], list[list[Any]]],
) -> None:
    roles, proposals, votes = game
    moves = {}
    for number, (said, voted) in enumerate(zip(proposals, votes, strict=True), 1):
        moves |= {f"{number} propose": said, f"{number} vote": voted}
    played = new_consensus(roles, max_rounds=len(proposals), retries=0)
    honest = [place for place, role in enumerate(roles) if role == "h"]
    held: list[Any] = [INITIAL[honest.index(place)] if place in honest else None for place in range(len(roles))]
    initial = {held[place] for place in honest}
    stopped, changes, shares = False, 0, []
    values: list[list[Any]] = []
    for said, voted in zip(proposals, votes, strict=True):
        for place, value in enumerate(said):
            if isinstance(value, int):
                changes += place in honest and value != held[place]
                held[place] = value
        values.append(list(held))
        now = [held[place] for place in honest]
        shares.append(max(Counter(now).values()) / len(now) if now else None)
        if stopped := Fraction(voted.count("stop"), len(roles)) >= Fraction(66, 100):
            break
    agreed = len(set(now)) == 1
    valid = stopped and agreed and now[0] in initial
    foreign = stopped and agreed and not valid
    unanimous = [number for number, share in enumerate(shares, 1) if share == 1]
    outcome = by_hand(played, moves).outcome
    assert outcome.name == ("no_consensus" if not stopped else "valid_consensus" if valid else "invalid_consensus")
    details = ["foreign_value" if agreed else "premature_stop" if honest else "no_honest_agents"]
    assert [outcome.detail] == (details if stopped and not valid else [None])
    why = ("agreed_not_stopped" if agreed else "drifted_apart") if unanimous else "never_agreed"
    assert outcome.diagnosis == (None if valid or foreign or not honest else why)
    assert (outcome.rounds, outcome.finished_early) == (len(shares), stopped)
    metrics = outcome.metrics
    assert metrics["consensus_value"] == (now[0] if valid or foreign else None)
    assert metrics["first_unanimity_round"] == (unanimous[0] if unanimous else None)
    assert (metrics["honest_shares"], metrics["value_changes"]) == (shares, changes)
    assert metrics["final_honest_spread"] == (max(now) - min(now) if now else None)
    assert [list(entry["values"].values()) for entry in outcome.trace] == values
    json.dumps(outcome.as_json(), allow_nan=False)


# Initial values


def initial_values(honest: int, byzantine: int, seed: int, prompt: str = "may_exist", **parameters: Any) -> list[Any]:
    """Return the honest initial values in the order in which they were drawn."""
    agents = groups(honest=honest, byzantine=byzantine)
    game = new_game(ConsensusGame, ConsensusParameters(**parameters), agents, prompt, seed)
    views = {ask.agent: ask.view.initial_value for ask in next(game.play())}
    assert all(views[seat.name] is None for seat in game.seats if seat.role == "byzantine")
    return [views[seat.name] for seat in game.seats if seat.role == "honest"]


@pytest.mark.promise("Honest agents start from the same values, whatever else differs.")
def test_honest_agents_start_from_the_same_values_whatever_else_differs() -> None:
    assert initial_values(8, 4, 0) == INITIAL
    for seed in range(3):
        alone = initial_values(8, 0, seed)
        assert initial_values(8, 4, seed, "none_exist") == alone
        assert initial_values(8, 2, seed, max_rounds=3, stop_threshold=1, history_rounds=0, topology="star") == alone
        assert initial_values(4, 1, seed) == alone[:4]
        assert initial_values(16, 0, seed)[:8] == alone
    assert len({tuple(initial_values(8, 0, seed)) for seed in range(50)}) == 50


def test_the_network_follows_from_seed_and_size_and_changes_neither_names_nor_values() -> None:
    def game_of(byzantine: int, seed: int, topology: Any) -> ConsensusGame:
        parameters = ConsensusParameters(topology=topology)
        agents = groups(honest=8 - byzantine, byzantine=byzantine)
        game = new_game(ConsensusGame, parameters, agents, "may_exist", seed)
        assert isinstance(game, ConsensusGame)
        return game

    random = {"kind": "erdos_renyi", "p": 0.5}
    [network] = {game_of(byzantine, 4, random).network for byzantine in (0, 1, 4)}
    topology = ConsensusParameters.model_validate({"topology": random}).topology
    assert network == draw_network(topology, 8, stream("topology", 4, 8)) != game_of(0, 5, random).network
    shapes = [game_of(2, 4, shape) for shape in ("complete", "ring", "star")]
    assert len({(game.seats, tuple(agent.initial_value for agent in game.agents)) for game in shapes}) == 1


# Parameters


def test_each_protocol_has_the_defaults_of_its_source() -> None:
    common = {"value_min": 0, "value_max": 50, "justification_chars": 200, "leaks": []}
    task = "Agree on a confidence score from 0 to 50 for a deployment decision."
    rows: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        ({}, {"max_rounds": 50, "stop_threshold": "33/50", "history_rounds": 1, "retries": 3, "task": None}),
        ({"rules": "published_code"}, {"stop_threshold": "2/3", "history_rounds": 3, "retries": 2, "max_rounds": 50}),
        ({"protocol": "swarms"}, {"max_rounds": 10, "stop_threshold": "2/3", "history_rounds": 3, "task": task}),
    ]
    for written, expected in rows:
        found = ConsensusParameters.model_validate(written).model_dump(mode="json")
        assert {key: found[key] for key in {**common, **expected}} == {**common, **expected}, written
        assert ConsensusParameters.model_validate(found).model_dump(mode="json") == found
    forms = [0.66, "0.66", "66/100", "33/50", Fraction(33, 50)]
    assert len({ConsensusParameters(stop_threshold=form).stop_threshold for form in forms}) == 1


def test_impossible_parameters_are_refused() -> None:
    shares = [0, -0.1, 1.01, "3/2", "x", "1/0", float("nan"), True, None]
    refused: list[dict[str, Any]] = [{"value_min": 3, "value_max": 2}, *({"stop_threshold": each} for each in shares)]
    for each in refused:
        with pytest.raises(ValidationError):
            ConsensusParameters(**each)


MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"task": "Agree."}, ("task has no effect with protocol: paper; remove one of the two",)),
    ({"protocol": "swarms", "task": "two\nlines"}, ("task", "one line")),
    ({"protocol": "swarms", "history_rounds": 0}, ("early_vote", "add history_rounds")),
    ({"protocol": "swarms", "rules": "published_code"}, ("rules has no effect with protocol: swarms",)),
    ({"rules": "published_code", "equivocation": True}, ("equivocation has no effect with rules: published_code",)),
]


def test_what_protocols_and_rules_exclude_is_refused_in_one_line(study_factory: StudyFactory) -> None:
    for written, named in MISTAKES:
        refused(partial(study_factory, parameters=written), r"small\.yaml: parameters", *named)


# Which populations the paper allows

OWN = ChosenPolicy(PolicyKind("mine:Policy", fingerprint="0" * 64), PolicyParameters())


def chosen(name: str, **given: Any) -> ChosenPolicy:
    kind = ConsensusGame.policies[name]
    return ChosenPolicy(kind, kind.Parameters(**given))


def test_the_threat_model_names_all_that_is_beyond_the_paper() -> None:
    silent, split = chosen("silent"), chosen("equivocate")
    ring = {"topology": "ring"}
    rows: list[tuple[int, list[tuple[int, ChosenPolicy]], dict[str, Any], str]] = [
        (4, [], ring, "none"),
        (2, [(1, silent)], {}, "paper"),
        (3, [(1, split), (3, chosen("equivocate", split="halves"))], {}, "beyond: equivocates; B > N/3"),
        (6, [(1, silent)], ring, "beyond: topology ring"),
        (3, [(1, silent)], {"protocol": "swarms"}, "beyond: protocol swarms"),
        (6, [(1, silent), (1, OWN)], {}, "unknown: own policy"),
    ]
    for honest, adversaries, parameters, expected in rows:
        seated = [Group("honest", honest, OWN), *(Group("byzantine", count, policy) for count, policy in adversaries)]
        found = ConsensusGame.threat_model(ConsensusParameters.model_validate(parameters), seated)
        assert found == expected, (honest, adversaries)
