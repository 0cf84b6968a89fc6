"""The games, by name. A new game is one folder and one line here; one of the user's own needs neither."""

from parley.errors import UsageError
from parley.games.base import Game
from parley.games.consensus.game import ConsensusGame
from parley.games.deliberation.game import DeliberationGame
from parley.games.plugin import ENTRY_POINTS, load_game
from parley.games.stag_hunt.game import StagHuntGame
from parley.policies.own_code import entry_points, names_own_code, of_entry_point
from parley.text.suggest import choose

GAMES: dict[str, type[Game]] = {game.name: game for game in (ConsensusGame, DeliberationGame, StagHuntGame)}


def game_class(name: str) -> type[Game]:
    """Return the game called `name`: one of these, a module:attribute of the user's own, or an installed entry point.

    The user's own code is imported. Raises UsageError for an unknown one, GameError for what is no game.
    """
    if name in GAMES:
        return GAMES[name]
    if names_own_code(name):
        return load_game(name)
    installed = entry_points(ENTRY_POINTS)
    if name in installed:
        return load_game(of_entry_point(name, installed[name], ENTRY_POINTS))
    raise UsageError(f"unknown game {name!r}; {choose(name, sorted(GAMES), installed)}, or your own module:attribute")
