"""Games played by hand, and playthroughs: files that show every ask, reply and state of one game, and its outcome.

`make playthroughs` writes docs/playthroughs/ anew from tests/games/playthroughs/; tests/games/test_playthroughs.py
plays them again and compares. A playthrough says which agents reply what, by round and phase:

    1 propose: [20, null, {raw: "no JSON"}]    # agent_1, agent_2, agent_3; null is an empty reply
    2 vote: {agent_2: stop}                    # the others reply as if nothing were said here
    3 propose: {agent_2: {attempts: [99, 20]}} # the last one is repeated

A number, a word or a list is the field that decides (KEYS), a mapping has other fields of the reply, and may have the
`seconds` that it took. Where nothing is said, scripted agents answer by their policy, and models as the first scripted
policy of their game would. Only by name is a scripted agent told what to reply. `prompts: false` leaves prompts out.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from parley.games.base import Game
from parley.games.registry import GAMES
from parley.identity import stream
from parley.play.runner import Exchange, Play, play
from parley.policies import Ask, Completion, Policy
from parley.policies.kinds import Rule, ScriptedPolicy
from parley.policies.reply_text import free_field, labels, labels_first
from parley.study import load_study
from parley.study.condition import Simulation
from parley.study.prompt_sent import part_text, rule_for
from parley.text import by_number
from support import REPOSITORY

SPECS = REPOSITORY / "tests" / "games" / "playthroughs"
FOLDER = REPOSITORY / "docs" / "playthroughs"
MODELS = {"models": {"tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}}}}
KEYS = ("value", "decision", "vote", "answer", "selection", "policies", "word", "action")
_READ = """\
Whole games as text: what each shows, every prompt and reply, the state after each round, and the outcome.
`: 12 lines as before` stands for lines that the last prompt of that kind had, too, `: 2 lines less` for lines that are
gone. `[reply]` is the reply's JSON schema and sampling. An agent's reply follows `>`.
"""
_FEWEST = 3  # lines that are as before and left out; fewer are shown again

Moves = Mapping[str, Any]


@dataclass(frozen=True)
class ByHand:
    """Answers for an agent by the moves of one game, else by a rule."""

    rule: Rule
    moves: Moves

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply as a model would write it."""
        move = move_of(self.moves, ask)
        if isinstance(move, Mapping) and "attempts" in move:
            move = move["attempts"][min(attempt, len(move["attempts"]) - 1)]
        seconds = move.get("seconds", 0.0) if isinstance(move, Mapping) else 0.0
        if isinstance(move, Mapping) and "raw" in move:
            return Completion(move["raw"], move.get("finish_reason", "stop"), seconds=seconds)
        return Completion(self._text(ask, move), "stop", seconds=seconds)

    def _text(self, ask: Ask, move: Any) -> str:
        if move is None:
            return ""
        if ask.reply_format == "free":
            return move if isinstance(move, str) and move else "I think about it."
        fields = dict(self.rule(ask.view, stream("playthrough", ask.round, ask.phase, ask.agent)))
        known = ask.reply_model.model_fields
        if not isinstance(move, Mapping):
            move = {next(key for key in KEYS if key in known): move}
        fields = {key: value for key, value in {**fields, **move}.items() if key in known}
        return as_text(ask, fields) if ask.reply_format == "text" else json.dumps(fields)


def move_of(moves: Moves, ask: Ask) -> Any:
    """Return what is said of the reply to an ask; an empty mapping for nothing."""
    chosen = moves.get(f"{ask.round} {ask.phase}", {})
    return chosen.get(ask.agent, {}) if isinstance(chosen, Mapping) else chosen[by_number(ask.agent)[1] - 1]


def as_text(ask: Ask, fields: Mapping[str, Any]) -> str:
    """Write a reply as the format `text` asks for it: free text, and a line for each other field."""
    named = labels(ask.reply_model)
    each = [(named[name], value) for name, value in fields.items() if name in named]
    lines = [f"{label}: {one}" for label, value in each for one in (value if isinstance(value, list) else [value])]
    free = [str(fields[name])] if (name := free_field(ask.reply_model)) else []
    return "\n".join([*lines, *free] if labels_first(ask.reply_model) else [*free, *lines])


def simulation_of(game: str, grid: Mapping[str, Any], parameters: Mapping[str, Any], seed: int = 0) -> Simulation:
    """Return the first simulation of a study of one grid; `n` is 3 and the model a language model if it names none."""
    defaults = {"prompt": next(iter(GAMES[game].prompts))} | ({} if "groups" in grid else {"model": "tiny", "n": 3})
    body = {"game": game, "seeds": [seed], "parameters": {**parameters}, "grids": [{**defaults, **grid}]}
    with TemporaryDirectory() as folder, chdir(folder):
        Path("models.yaml").write_text(yaml.safe_dump(MODELS), encoding="utf-8")
        Path("study.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
        return next(iter(load_study(Path("study.yaml")).simulations()))


def by_hand(game: Game, moves: Moves | None = None) -> Play:
    """Play `game` by the `moves`."""
    policies: dict[str, Policy] = {}
    named = {name for chosen in (moves or {}).values() if isinstance(chosen, Mapping) for name in chosen}
    for seat in game.seats:
        rule = rule_for(type(game), seat)
        by_rule = seat.policy.kind.rule is not None and seat.name not in named
        policies[seat.name] = ScriptedPolicy(rule) if by_rule else ByHand(rule, moves or {})
    return play("playthrough", game, policies)


@dataclass
class Shown:
    """Writes a game as text; what was shown before is left out, and said to be."""

    before: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    def game(self, spec: Mapping[str, Any]) -> str:
        """Play a playthrough, and return its file."""
        self.spec = spec
        simulation = simulation_of(spec["game"], spec.get("grid", {}), spec.get("parameters", {}), spec.get("seed", 0))
        played_game = simulation.game()
        played = by_hand(played_game, spec.get("replies"))
        head, end = self._head(spec, simulation, played_game), _end(played, played_game)
        return "\n".join([*head, *self._rounds(played), *end]) + "\n"

    @staticmethod
    def _head(spec: Mapping[str, Any], simulation: Simulation, game: Game) -> Iterator[str]:
        players = simulation.players
        yield from (f"{spec['name']}: {spec['shows']}", "")
        yield f"{simulation.condition.name}, seed {simulation.seed}, parameters {_plain(spec.get('parameters', {}))}"
        yield f"threat model: {simulation.condition.threat_model}"
        if game.about:
            yield f"about: {game.about}"
        seats = sorted(game.seats, key=lambda seat: by_number(seat.name))  # agent k of a network is agent_k + 1
        for place, seat in enumerate(seats):
            heard = [seats[peer].name for peer in game.network.neighbors[place]]
            links = "" if game.network.is_complete else f", hears {', '.join(heard) or 'nobody'}"
            yield f"{seat.name}: {seat.role}, played by {players[seat.name].label}{links}"

    def _rounds(self, played: Play) -> Iterator[str]:
        states = {entry.get("round", place): entry for place, entry in enumerate(played.outcome.trace, 1)}
        for number, in_round in groupby(played.exchanges, key=lambda exchange: exchange.ask.round):
            for phase, exchanges in groupby(in_round, key=lambda exchange: exchange.ask.phase):
                yield from ("", f"== Round {number}, {phase} ==")
                for exchange in exchanges:
                    yield from self._exchange(exchange)
            if number in states:
                yield from ("", f"== After round {number} ==")
                yield from (f"{key}: {_plain(value)}" for key, value in states[number].items())

    def _exchange(self, exchange: Exchange) -> Iterator[str]:
        ask, entry, reply = exchange.ask, exchange.entry, exchange.reply
        result = "" if reply.failure is None else f"  ({reply.failure}: {reply.detail})"
        said = f"> {entry.text}{result}"
        if not self.spec.get("prompts", True):
            yield from _indented(f"{ask.agent} {said}", "")
            return
        move = move_of(self.spec.get("replies", {}), ask)
        took = f", {move['seconds']} s" if isinstance(move, Mapping) and "seconds" in move else ""
        yield from ("", f"-- {ask.agent}{took}" + (f", attempt {entry.attempt + 1}" if entry.attempt else ""))
        if entry.attempt == 0 and ask.user:
            earlier = "\n".join(f"{role}: {text}" for role, text in ask.earlier)
            parts = {"system": ask.system, "earlier": earlier, "user": ask.user, "reply": part_text(ask, "reply")}
            parts["reply"] = re.sub(r"\s*\n\s*", " ", parts["reply"]) + f", {_plain(ask.sampling.model_dump())}"
            for part, text in parts.items():
                if text:
                    yield from self._part(f"{ask.role} {ask.phase}", part, text)
        yield from _indented(said, "  ")

    def _part(self, who: str, part: str, text: str) -> Iterator[str]:
        """Yield the lines of a prompt; runs of lines that the last one of its kind had are left out."""
        lines, key = text.split("\n"), (who, part, "")
        last = self.before.get(key, [])
        self.before[key] = lines
        if lines == last:
            yield f"  [{part}] as before"
            return
        yield f"  [{part}]"
        matches = SequenceMatcher(None, last, lines, autojunk=False).get_matching_blocks()
        at = at_last = 0
        for match in matches:
            if match.size < _FEWEST and match.size:
                continue
            yield from (f"  | {line}".rstrip() for line in lines[at : match.b])
            if at == match.b and (gone := match.a - at_last):
                yield f"  : {gone} {'line' if gone == 1 else 'lines'} less"
            if match.size:
                yield f"  : {match.size} lines as before"
            at, at_last = match.b + match.size, match.a + match.size


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _indented(text: str, by: str) -> Iterator[str]:
    yield from ((by + line).rstrip() for line in text.split("\n"))


def _end(played: Play, game: Game) -> Iterator[str]:
    outcome = played.outcome
    counted = game.class_of(outcome.name, outcome.detail)
    yield from ("", f"== Outcome: {outcome.name}{'' if counted == outcome.name else f', counted as {counted}'} ==")
    for key in ("detail", "diagnosis", "rounds", "finished_early"):
        yield f"{key}: {_plain(getattr(outcome, key))}"
    yield from (f"{key}: {_plain(value)}" for key, value in outcome.metrics.items())


def specs() -> Sequence[Mapping[str, Any]]:
    """Return the playthroughs, in the order of their files, which are called by the game."""
    return [
        {"game": file.stem, **spec, "name": f"{file.stem}/{spec['name']}"}
        for file in sorted(SPECS.glob("*.yaml"))
        for spec in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def file_of(spec: Mapping[str, Any]) -> Path:
    """Return the file of a playthrough."""
    return FOLDER / f"{spec['name']}.txt"


def index() -> str:
    """Return the page that lists the playthroughs."""
    lines = ["# Playthroughs", "", *_READ.splitlines()]
    for game, listed in groupby(specs(), key=lambda spec: spec["name"].partition("/")[0]):
        lines += ["", f"## {game.replace('_', ' ').capitalize()}", ""]
        lines += [f"- [{spec['name'].partition('/')[2]}]({spec['name']}.txt)" for spec in listed]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write all files anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for spec in specs():
        file_of(spec).parent.mkdir(parents=True, exist_ok=True)
        file_of(spec).write_text(Shown().game(spec), encoding="utf-8")
    (FOLDER / "index.md").write_text(index(), encoding="utf-8")
    print(f"{FOLDER.relative_to(REPOSITORY)}: {len(specs())} games")


if __name__ == "__main__":
    main()
