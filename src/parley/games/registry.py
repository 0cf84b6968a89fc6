"""The games, by name. A new game is one module and one line here."""

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.consensus.game import ConsensusGame
from parley.games.deliberation.game import DeliberationGame
from parley.games.stag_hunt.game import StagHuntGame
from parley.text.suggest import choose

GAMES: dict[str, type[Game]] = {game.name: game for game in (ConsensusGame, DeliberationGame, StagHuntGame)}


def game_class(name: str) -> type[Game]:
    """Return the game called `name`; raises UsageError for an unknown one."""
    try:
        return GAMES[name]
    except KeyError:
        raise UsageError(f"unknown game {name!r}; {choose(name, sorted(GAMES))}") from None
