"""`seat`: who is the adversary, and who stands where in the network."""

from collections import Counter
from typing import Any

import pytest

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.registry import GAMES
from parley.study import Study
from parley.study.condition import Simulation
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Who is adversary and who is hub is drawn by seed or named.")

COHORT = ["grim_trigger", "tit_for_tat", "always_stag", "always_hare"]
STAR = {"topology": "star", "disclosure": "explicit"}


def cohort(b: Any = 1, players: list[str] = COHORT) -> dict[str, Any]:
    groups = [{"role": "honest", "count": 1, "policy": name} for name in players]
    groups.append({"role": "byzantine", "count": b, "policy": "betray"})
    return {"groups": groups, "model": None, "n": None, "prompt": "plain"}


def hunts(make: StudyFactory, *grids: dict[str, Any], **parameters: Any) -> Study:
    return make(*grids, game="stag_hunt", seeds=40, parameters={"rules": "published", **parameters})


def replaced(make: StudyFactory, b: Any = 1, **parameters: Any) -> Study:
    return hunts(make, cohort(b), **{"replaces_honest": True, "seat": "any", **parameters})


def games(study: Study) -> list[Game]:
    return [Simulation(study.conditions[0], seed).game() for seed in study.conditions[0].seeds]


def adversaries(game: Game) -> list[str]:
    return [seat.name for seat in game.seats if seat.role == "byzantine"]


def hub(game: Game) -> str:
    [found] = [k for k, peers in enumerate(game.network.neighbors) if len(peers) == len(game.seats) - 1]
    return f"agent_{found + 1}"


def test_four_models_keep_their_seats_and_the_adversary_takes_one(study_factory: StudyFactory) -> None:
    study = replaced(study_factory)
    assert (study.conditions[0].axes["n"], study.conditions[0].axes["b"]) == (4, 1)
    assert [study.conditions[0].count(role) for role in ("honest", "byzantine")] == [3, 1]
    taken: Counter[str] = Counter()
    for game in games(study):
        assert sorted(seat.name for seat in game.seats) == [f"agent_{k}" for k in (1, 2, 3, 4)]
        for seat in game.seats:
            if seat.role == "honest":
                assert seat.policy.kind.name == COHORT[int(seat.name[-1]) - 1]
        taken.update(adversaries(game))
    assert len(taken) == 4
    assert min(taken.values()) >= 4


def test_the_hub_is_drawn_and_the_adversary_sits_on_it_or_not(study_factory: StudyFactory) -> None:
    on_hub, spokes, anyone = (games(replaced(study_factory, **STAR, seat=seat)) for seat in ("hub", "spoke", "any"))
    assert len({hub(game) for game in on_hub}) == 4
    for one, other, third in zip(on_hub, spokes, anyone, strict=True):
        assert hub(one) == hub(other) == hub(third)  # paired by seed
        assert adversaries(one) == [hub(one)]
        assert adversaries(other) != [hub(other)]
        assert adversaries(third) in (adversaries(one), adversaries(other))
    assert len({tuple(adversaries(game)) for game in spokes}) == 4


def test_seats_that_are_not_there_are_refused(study_factory: StudyFactory) -> None:
    refused: list[tuple[dict[str, Any], int, str]] = [
        ({"seat": "hub"}, 1, "seat: hub: topology complete has none; use star"),
        ({"seat": "hub", **STAR}, 2, "has room for 1, and there are 2"),
        ({"seat": "middle"}, 1, "seat: 'middle'"),
        ({}, 5, "5 agents cannot replace 4"),
    ]
    for parameters, b, named in refused:
        with pytest.raises(UsageError, match=named):
            replaced(study_factory, b, **parameters)
    names = {"protocol": "swarms", "leaks": ["names"], "seat": "any"}  # names that tell the role leave none to choose
    with pytest.raises(UsageError, match="remove the leak names"):
        study_factory({"model": "majority", "n": 4, "b": 1, "byzantine": "random"}, parameters=names)


def test_every_game_takes_a_seat_and_has_it_in_its_identity_only_where_it_is_set(study_factory: StudyFactory) -> None:
    players: dict[str, dict[str, Any]] = {
        "consensus": {"model": "majority", "byzantine": "random", "prompt": "may_exist"},
        "deliberation": {"model": "solver", "byzantine": "stubborn", "prompt": "improve"},
        "stag_hunt": {"model": "grim_trigger", "byzantine": "betray", "prompt": "plain"},
    }
    assert {*players} == {*GAMES}
    for name, grid in players.items():
        star = {"topology": "star"} | ({"disclosure": "silent"} if name == "stag_hunt" else {})
        plain, none, on_hub = (
            study_factory({**grid, "n": 5, "b": 1}, game=name, seeds=5, parameters={**star, **seat})
            for seat in ({}, {"seat": None}, {"seat": "hub"})
        )
        assert plain.conditions[0].identity == none.conditions[0].identity != on_hub.conditions[0].identity
        assert all(adversaries(game) == [hub(game)] for game in games(on_hub))
