"""The games, by name. A new game is one folder and one line here; one of the user's own needs neither."""

from pathlib import Path

from parley import trust
from parley.errors import UsageError
from parley.games.base import Game
from parley.games.consensus.game import ConsensusGame
from parley.games.deliberation.game import DeliberationGame
from parley.games.own_game import load_game
from parley.games.stag_hunt.game import StagHuntGame
from parley.text import choose

GAMES: dict[str, type[Game]] = {game.name: game for game in (ConsensusGame, DeliberationGame, StagHuntGame)}


def game_class(name: str, folder: Path = Path()) -> type[Game]:
    """Return the game called `name`: one of these, a module:attribute of the user's own, or an installed entry point.

    `folder` is that of the study that names it; by default the working directory, for a name given to a command. The
    user's own code is imported. Raises UsageError for an unknown one, GameError for what is no game.
    """
    if name in GAMES:
        return GAMES[name]
    if trust.names_own_code(name):
        return load_game(name, folder)
    installed = trust.entry_points(trust.GAME_ENTRY_POINTS)
    if name in installed:
        return load_game(installed[name], folder)
    raise UsageError(
        f"unknown game {name!r}; {choose(name, sorted([*GAMES, *installed]))}, or your own module:attribute"
    )
