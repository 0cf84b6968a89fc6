"""The plain format: JSON lines, one a reply, which any project can write. `docs/how-to/import.md` describes it.

What one line says of a game or of an agent holds for all its lines; others may say the same again.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from parley.files import read_regular
from parley.games.stag_hunt.game import StagHuntGame
from parley.imports.games import NO_GAME, UNREADABLE, Defect, Format, ImportedAgent, ImportedGame, files_below, reply
from parley.play.replay import RecordedReply
from parley.text import one_line
from parley.text.yamlfile import Slug

_OF_GAME = ("game", "seed", "parameters", "prompt", "problem", "players", "byzantine", "links")
_OF_AGENT = ("role", "player", "initial_value")
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]*$", max_length=52)]
_Count = Annotated[int, Field(ge=0, lt=2**31)]


class ReplyLine(BaseModel):
    """One reply of one agent in a game that was played elsewhere."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    id: str = Field(min_length=1, max_length=200, description="The game that the reply belongs to, in this file.")
    round: int = Field(ge=0, le=10_000, description="Round, from 1.")
    phase: Slug = Field(description="Phase of the round, as the game has it: in the stag hunt `signal` and `act`.")
    agent: Slug = Field(description="Name of the agent, such as `agent_1`.")
    attempt: int = Field(default=0, ge=0, le=100, description="0, and one more for each time that it was asked again.")
    text: str | None = Field(default=None, description="The reply as it came. This or `reply` must be there.")
    reply: dict[str, Any] | None = Field(default=None, description="What the reply says, by field.")
    finish_reason: str = Field(default="stop", description="Why the reply ended: `stop`, `length`, `content_filter`.")
    points: int | float | None = Field(default=None, description="Payoff of the agent in this round, as a check.")
    system: str = Field(default="", description="System message that the agent was sent.")
    user: str = Field(default="", description="User message that it was sent; games that have all of them replay.")
    prompt_tokens: _Count | None = Field(default=None, description="Tokens of the messages.")
    completion_tokens: _Count | None = Field(default=None, description="Tokens of the reply.")
    started: float = Field(default=0.0, ge=0, le=1e11, description="When it was asked: seconds since 1970, UTC.")
    seconds: float = Field(default=0.0, ge=0, le=1e6, description="Time from the question to the reply.")
    role: Literal["honest", "byzantine"] | None = Field(default=None, description="Of the agent; default: honest.")
    player: _Name | None = Field(default=None, description="Of the agent: what played it, in a word, for tables.")
    model: Annotated[str, Field(max_length=200)] | None = Field(default=None, description="Of the agent: its model.")
    initial_value: int | None = Field(default=None, description="Of the agent: its first value (consensus).")
    game: Slug | None = Field(default=None, description="Of the game: its name; default: stag_hunt.")
    prompt: Slug | None = Field(default=None, description="Of the game: its prompt; default: the game's first.")
    problem: dict[str, Any] | None = Field(
        default=None,
        description="Of the game: the problem (deliberation), with `id`, `kind`, `question`, `answer` and `options`.",
    )
    seed: Annotated[int, Field(ge=0, lt=10**9)] | None = Field(default=None, description="Of the game: pairs games.")
    parameters: dict[str, Any] | None = Field(default=None, description="Of the game: its parameters, as in a study.")
    players: _Name | None = Field(default=None, description="Of the game: what played the honest agents, in a word.")
    byzantine: _Name | None = Field(default=None, description="Of the game: what played the Byzantine agents.")
    links: list[Annotated[list[Slug], Field(min_length=2, max_length=2)]] | None = Field(
        default=None, description="Of the game: pairs of agents who see each other; default: everyone sees everyone."
    )

    @model_validator(mode="after")
    def _says_something(self) -> "ReplyLine":
        if (self.text is None) == (self.reply is None):
            raise ValueError("give text or reply, one of them")
        return self


def _read(path: Path) -> Iterator[ImportedGame | Defect]:
    """Yield the games of a `.jsonl` file, or of all below a folder, in the order of paths and of first lines."""
    for file, name in files_below(path, "*.jsonl", "docs/how-to/import.md describes the format"):
        yield from _games(file, name)


def _games(file: Path, name: str) -> Iterator[ImportedGame | Defect]:
    try:
        content = read_regular(file)
        lines = content.decode("utf-8").split("\n")
    except (OSError, ValueError) as error:
        yield Defect(UNREADABLE, name, one_line(str(error), 100))
        return
    games: dict[str, list[ReplyLine]] = {}
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                said = ReplyLine.model_validate_json(line)
                games.setdefault(said.id, []).append(said)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            what = ".".join(map(str, first["loc"]))
            yield Defect(NO_GAME, name, one_line(f"line {number}: {what} {first['msg']}", 150))
    sha256 = hashlib.sha256(content).hexdigest()
    for key, replies in games.items():
        try:
            yield _game(name, sha256, key, replies)
        except ValueError as error:
            yield Defect(NO_GAME, name, one_line(f"game {key}: {error}", 150))


def _game(file: str, sha256: str, key: str, lines: list[ReplyLine]) -> ImportedGame:
    stated = _stated_once(lines, _OF_GAME)
    agents: dict[str, list[ReplyLine]] = {}
    for line in lines:
        agents.setdefault(line.agent, []).append(line)
    # A model may change between two lines of an agent: the checks name it.
    own = {name: _stated_once(said, _OF_AGENT) for name, said in agents.items()}
    models = {name: next((line.model for line in said if line.model), "") for name, said in agents.items()}
    default = "+".join(sorted({str(each["player"]) for each in own.values() if each.get("player")}))
    return ImportedGame(
        file=file,
        sha256=sha256,
        key=key,
        game=stated.get("game", StagHuntGame.name),
        parameters=stated.get("parameters", {}),
        agents={n: ImportedAgent(o.get("role", "honest"), o.get("player", ""), models[n]) for n, o in own.items()},
        replies=[_reply(line) for line in lines],
        players=stated.get("players") or (default if 0 < len(default) <= 52 else "players"),
        byzantine=stated.get("byzantine", "adversary"),
        links=None if stated.get("links") is None else [(a, b) for a, b in stated["links"]],
        points={(line.round, line.agent): line.points for line in lines if line.points is not None},
        seed=stated.get("seed"),
        prompt=stated.get("prompt", ""),
        material={
            "initial_values": {name: each.get("initial_value") for name, each in own.items()},
            "problem": stated.get("problem"),
        },
    )


def _stated_once(lines: list[ReplyLine], names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return what is said of a game or an agent, where it is; raises ValueError if two lines differ."""
    stated: dict[str, Any] = {}
    for line in lines:
        for name in names:
            value = getattr(line, name)
            if value is not None and stated.setdefault(name, value) != value:
                raise ValueError(f"{name}: {value} in round {line.round}, and {stated[name]} before")
    return stated


def _reply(line: ReplyLine) -> RecordedReply:
    text = json.dumps(line.reply) if line.text is None else line.text
    return reply(
        *(line.round, line.phase, line.agent, text, line.model or "", line.attempt, line.finish_reason),
        prompts=(line.system, line.user),
        tokens=(line.prompt_tokens, line.completion_tokens),
        began=line.started,
        seconds=line.seconds,
    )


FORMAT = Format("JSON lines", "not said", _read)
