"""What an importer gives: games as data, and the defects of files that cannot be read as games.

An importer is a plug-in: an object with a `source`, a `license` and `read`, in FORMATS or installed as an entry point
of the group `parley.formats` (a module:attribute). It says what was said, and checks none of it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from parley.errors import UsageError
from parley.files import read_regular
from parley.games.base import Game
from parley.games.parameters import BYZANTINE, HONEST, GameParameters
from parley.games.registry import game_class
from parley.identity import digest
from parley.play.journal import Entry
from parley.play.replay import RecordedReply
from parley.policies import said_name, token_count
from parley.text import choose, one_line, valid_unicode
from parley.trust import entry_points

ENTRY_POINTS = "parley.formats"
FORMATS = {
    "byzantine-cheap-talk": "parley.imports.byzantine_cheap_talk:FORMAT",
    "byzantine-consensus": "parley.imports.byzantine_consensus:FORMAT",
    "jsonl": "parley.imports.jsonl:FORMAT",
}

UNREADABLE, NO_GAME = "cannot be read", "not a game of this format"
CUT_SHORT, MISSING = "cut short", "an agent is missing"
PAYOFFS, SEATS = "payoffs do not follow from the actions", "a model changed its seat"
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
    """An agent: its role, what played it in a word (for tables), and the model of its seat; "" where nobody said."""

    role: str = HONEST
    player: str = ""
    model: str = ""


@dataclass(frozen=True, kw_only=True)
class ImportedGame:
    """One game as its file tells it; `points` are payoffs by round and agent, `links` None for everyone.

    `players` and `byzantine` say in a word what played. Games of the same `seed` are paired. `material` is what a seed
    would deal: `initial_values` of honest agents by name (consensus), the `problem` (deliberation). `ended` is the
    outcome's class and the number of rounds, `held` the sorted values of all agents after a round; both are checks.
    """

    file: str  # below PATH
    sha256: str
    game: str
    parameters: Mapping[str, Any]
    agents: Mapping[str, ImportedAgent]
    replies: Sequence[RecordedReply]
    players: str
    byzantine: str = "adversary"
    key: str = ""  # of several games in a file, which
    links: Sequence[tuple[str, str]] | None = None
    points: Mapping[tuple[int, str], float] = field(default_factory=dict)
    seed: int | None = None
    prompt: str = ""  # the game's first, where nobody said
    material: Mapping[str, Any] = field(default_factory=dict)
    ended: tuple[str, int] | None = None
    held: Mapping[int, Sequence[int]] = field(default_factory=dict)
    defects: Sequence[Defect] = ()  # what is wrong with it, once it was checked

    @property
    def rules(self) -> type[Game]:
        """The game that was played."""
        return game_class(self.game)

    @cached_property
    def own_parameters(self) -> GameParameters:
        """All parameters of the game; raises pydantic's ValidationError for what it does not know."""
        return self.rules.Parameters.model_validate(self.parameters)

    @property
    def place(self) -> str:
        """Its file, and which of the games in it."""
        return f"{self.file}, game {self.key}" if self.key else self.file

    def defect(self, kind: str, text: str) -> Defect:
        """Return a defect of this game."""
        return Defect(kind, self.file, f"game {self.key}: {text}" if self.key else text)

    @property
    def number(self) -> int:
        """The seed of its record. Drawn from its content, it is shared with no other game: nothing is paired by it."""
        return int(digest([self.sha256, self.key])[:12], 16) % 10**9 if self.seed is None else self.seed

    @property
    def byzantine_agents(self) -> int:
        """How many of its agents are Byzantine."""
        return sum(agent.role == BYZANTINE for agent in self.agents.values())


def reply(
    round_number: int,
    phase: str,
    agent: str,
    text: str,
    model: str = "",
    attempt: int = 0,
    finish_reason: str = "stop",
    *,
    prompts: tuple[str, str] = ("", ""),
    tokens: tuple[int | None, int | None] = (None, None),
    began: float = 0.0,
    seconds: float = 0.0,
) -> RecordedReply:
    """Return one attempt of an agent; `prompts` are the system's and the user's, `tokens` those of both and of it."""
    asked, said = map(token_count, tokens)
    entry = Entry(
        *(round_number, phase, agent, attempt, 0, "", valid_unicode(text), one_line(finish_reason, 40)),
        *(asked, said, None, began, seconds, said_name(model)),
    )
    return RecordedReply(entry, *map(valid_unicode, prompts))


def files_below(path: Path, pattern: str, remedy: str) -> list[tuple[Path, str]]:
    """Return the files that a format reads, each with its name below PATH; raises UsageError if there is none."""
    files = [path] if path.is_file() else sorted(path.rglob(pattern))
    if not files:
        raise UsageError(f"{path}: holds no {pattern.removeprefix('*')}; {remedy}")
    return [(file, file.name if file == path else file.relative_to(path).as_posix()) for file in files]


def json_games(
    pattern: str, source: str, game: Callable[[Path, str, bytes, Any], ImportedGame], path: Path
) -> Iterator[ImportedGame | Defect]:
    """Yield what `game` makes of each JSON file, of its path, its name, its bytes and what they say, or a defect."""
    for file, name in files_below(path, pattern, f"name the folder results of a copy of {source}"):
        try:
            content = read_regular(file)
            yield game(file, name, content, json.loads(content))
        except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Defect(UNREADABLE, name, one_line(str(error), 100))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            yield Defect(NO_GAME, name, one_line(repr(error), 100))


@dataclass(frozen=True)
class Format:
    """A format of games: where they are from, under which license, and how files are read.

    `read` yields the games in a file or folder, in order, and what is no game; it raises UsageError if there is none.
    """

    source: str
    license: str
    read: Callable[[Path], Iterator[ImportedGame | Defect]]


def format_called(name: str) -> Format:
    """Return a format by its name; code of the user's own is imported. Raises UsageError for an unknown one."""
    formats = entry_points(ENTRY_POINTS) | FORMATS
    if name not in formats:
        raise UsageError(f"{name!r}: unknown format; {choose(name, formats)}")
    try:
        form: Format = resolve_name(formats[name])
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{name}: {formats[name]}: cannot be imported: {one_line(str(error), 150)}") from None
    return form
