"""What an importer gives: games as data, and the defects of files that cannot be read as games.

An importer says what was said, and checks none of it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.base import Game
from parley.games.parameters import BYZANTINE, GameParameters
from parley.play.journal import Entry
from parley.text import one_line, valid_unicode

UNREADABLE, NO_GAME = "cannot be read", "not a game of this format"
CUT_SHORT, MISSING = "cut short", "an agent is missing"
PAYOFFS = "payoffs do not follow from the actions"
UNASKED, TWICE = "replies that nobody asked for", "the same game twice"
ENDED = "ends otherwise by the rules"


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong: its kind, the file (as in PATH), and in words what and where."""

    kind: str
    file: str
    text: str = ""

    def __str__(self) -> str:
        return one_line(f"{self.file}: {self.kind}{self.text and f': {self.text}'}", 300)


@dataclass(frozen=True)
class ImportedAgent:
    """An agent: its role, and what played it in a word, for tables."""

    role: str
    player: str


@dataclass(frozen=True, kw_only=True)
class ImportedGame:
    """One game as its file tells it; `points` are payoffs by round and agent, `links` None for everyone.

    `players` and `byzantine` say in a word what played. `material` is what a seed would deal: `initial_values` of
    honest agents by name (consensus). `ended` is the outcome's class and the number of rounds, `held` the sorted
    values of all agents after a round; both are checks.
    """

    file: str  # below PATH
    sha256: str
    rules: type[Game]
    parameters: Mapping[str, Any]
    agents: Mapping[str, ImportedAgent]
    replies: Sequence[Entry]
    players: str
    byzantine: str
    links: Sequence[tuple[str, str]] | None = None
    points: Mapping[tuple[int, str], float] = field(default_factory=dict)
    prompt: str
    material: Mapping[str, Any] = field(default_factory=dict)
    ended: tuple[str, int] | None = None
    held: Mapping[int, Sequence[int]] = field(default_factory=dict)

    @cached_property
    def own_parameters(self) -> GameParameters:
        """All parameters of the game; raises pydantic's ValidationError for what it does not know."""
        return self.rules.Parameters.model_validate(self.parameters)

    @property
    def number(self) -> int:
        """The seed of its record. Drawn from its content, it is shared with no other game: nothing is paired by it."""
        return int(self.sha256[:12], 16) % 10**9

    @property
    def byzantine_agents(self) -> int:
        """How many of its agents are Byzantine."""
        return sum(agent.role == BYZANTINE for agent in self.agents.values())


def reply(round_number: int, phase: str, agent: str, text: str) -> Entry:
    """Return the reply of an agent; what it was asked, when, and in how many tokens was not kept."""
    text = valid_unicode(text)
    return Entry(round_number, phase, agent, 0, 0, "", text, "stop", None, None, None, 0.0, 0.0)


@dataclass(frozen=True)
class Format:
    """A format of games: where they are from, under which license, and how files are read.

    `game` makes a game of a JSON file, of its path, its name, its bytes and what they say.
    """

    source: str
    license: str
    files: str  # their names
    game: Callable[[Path, str, bytes, Any], ImportedGame]

    def read(self, path: Path) -> Iterator[ImportedGame | Defect]:
        """Yield the games in a file or folder, in order, and what is no game; raises UsageError if there is none."""
        files = [path] if path.is_file() else sorted(path.rglob(self.files))
        if not files:
            raise UsageError(f"{path}: holds no {self.files}; name the folder results of a copy of {self.source}")
        for file in files:
            name = file.name if file == path else file.relative_to(path).as_posix()
            try:
                content = read_regular(file)
                yield self.game(file, name, content, json.loads(content))
            except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
                yield Defect(UNREADABLE, name, one_line(str(error), 100))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                yield Defect(NO_GAME, name, one_line(repr(error), 100))
