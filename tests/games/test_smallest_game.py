"""A game says its parameters, its outcomes and `play`; all else has a default."""

from collections.abc import Generator

import numpy as np
import pytest

from parley.games import Ask, Game, GameParameters, Group, Outcome, OutcomeClass, Reply, ReplyModel, Sampling, new_game
from parley.play.runner import play
from parley.policies.kinds import ScriptedPolicy

pytestmark = pytest.mark.promise("A game needs parameters, outcomes and `play`, and nothing else.")

SAMPLING = Sampling(temperature=0, max_tokens=9)


class CoinParameters(GameParameters):
    rounds: int = 2


class Side(ReplyModel):
    side: str


class MatchingCoinsGame(Game[CoinParameters]):
    outcomes = (OutcomeClass("same", "all the same", "#0072B2", ""), OutcomeClass("mixed", "mixed", "#D9D9D9", ".."))
    Parameters = CoinParameters

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        shown: list[str] = []
        for number in range(1, self.parameters.rounds + 1):
            replies = yield [
                Ask(seat.name, seat.role, number, "show", "Show a side.", "", Side, SAMPLING, None)
                for seat in self.seats
            ]
            shown = [str(reply.value.model_dump()["side"]) for reply in replies if reply.value is not None]
        return Outcome(name="same" if len({*shown}) == 1 else "mixed", rounds=self.parameters.rounds)


def test_it_is_played() -> None:
    game = new_game(MatchingCoinsGame, CoinParameters(), [Group("honest", 3)], "plain", 0)
    heads = ScriptedPolicy(lambda view, rng: {"side": "heads"})
    played = play("0" * 64, game, {seat.name: heads for seat in game.seats})
    assert (played.outcome.name, played.outcome.rounds, len(played.exchanges)) == ("same", 2, 6)
    unsaid = {"detail": None, "diagnosis": None, "finished_early": False, "metrics": {}, "trace": []}
    assert played.outcome.as_json() == {"name": "same", "rounds": 2, **unsaid}


def test_what_it_leaves_unsaid_has_a_default() -> None:
    game, groups = MatchingCoinsGame, [Group("honest", 3), Group("byzantine", 1)]
    assert type("OtherCoinsGame", (game,), {}).name == "matching_coins"  # kept by a game that is made of another
    assert (game.name, game.protocol_version, game.roles) == ("matching_coins", 1, ("honest", "byzantine"))
    assert list(game.policies) == ["llm"]
    assert game.possible_outcomes(CoinParameters(), groups) == {"same", "mixed"}
    game.check(CoinParameters(), groups)
    names = game.seat_names(CoinParameters(), ["honest"] * 3, np.random.default_rng(0))
    assert sorted(names) == ["agent_1", "agent_2", "agent_3"]
    market = type("MarketGame", (game,), {"roles": ("buyer", "seller")})  # or roles of its own
    seats = new_game(market, CoinParameters(), [Group("seller", 1), Group("buyer", 2)], "plain", 0).seats
    assert [seat.role for seat in seats] == ["buyer", "buyer", "seller"]
