"""What is wrong with imported games: each is played by the rules from its replies, and compared with what it says."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from parley.errors import ParleyError
from parley.games.base import Game, Group, new_game
from parley.games.parameters import BYZANTINE, HONEST
from parley.games.registry import game_class
from parley.games.seating import ImportedSeating
from parley.identity import canonical_json
from parley.imports.games import (
    CUT_SHORT,
    MISSING,
    NO_GAME,
    PAYOFFS,
    SEATS,
    TWICE,
    UNASKED,
    Defect,
    ImportedGame,
)
from parley.play.replay import Key, replay_replies
from parley.play.runner import Play
from parley.policies import said_name
from parley.policies.kinds import IMPORTED, ChosenPolicy, ImportedGames
from parley.text import one_line


@dataclass(frozen=True)
class Checked:
    """A game, and what is wrong with it."""

    game: ImportedGame
    defects: tuple[Defect, ...]


def condition_key(game: ImportedGame) -> str:
    """Return what tells the condition of a game: all but its seed, its replies and who sat where."""
    byzantine = game.byzantine if game.byzantine_agents else ""
    return canonical_json([game.game, game.players, byzantine, len(game.agents), game.byzantine_agents, _own(game)])


def _own(game: ImportedGame) -> Any:
    return game_class(game.game).Parameters.model_validate(game.parameters).model_dump(mode="json")


def material_of(game: ImportedGame) -> Any:
    """Return what the record of a game keeps of who sat where."""
    players = {name: agent.player for name, agent in game.agents.items() if agent.player}
    return ImportedSeating({name: agent.role for name, agent in game.agents.items()}, players, game.links).as_material(
        None
    )


def check(found: Iterable[ImportedGame | Defect]) -> tuple[list[Checked], list[Defect]]:
    """Return the games that can be played by the rules, each with its defects, and what is no game.

    Games of one condition are compared: a model that sits elsewhere in most of them has changed its seat.
    """
    games: list[Checked] = []
    none: list[Defect] = []
    for each in found:
        if isinstance(each, Defect):
            none.append(each)
            continue
        try:
            games.append(Checked(each, tuple(_defects(each, *played(each)))))
        except (ParleyError, ValidationError, LookupError, ValueError) as error:
            none.append(Defect(NO_GAME, each.file, _where(each) + one_line(str(error), 150)))
    return _compared(games), none


def played(game: ImportedGame) -> tuple[Play, list[Key]]:
    """Play a game by the rules from its replies; return what happened, and which replies are missing."""
    return replay_replies("", _new(game), game.replies)


def _new(game: ImportedGame) -> Game:
    rules = game_class(game.game)
    if not rules.importable:
        raise ValueError(f"{game.game}: what its games are about is dealt by a seed, so they cannot be imported")
    policy = ChosenPolicy(IMPORTED, ImportedGames(players=game.players))
    groups = [
        Group(HONEST, len(game.agents) - game.byzantine_agents, policy),
        Group(BYZANTINE, game.byzantine_agents, policy),
    ]
    parameters = rules.Parameters.model_validate(game.parameters)
    unknown = {name for link in game.links or () for name in link} - {*game.agents}
    if unknown:
        raise ValueError(f"links name {min(unknown)}, who plays no part")
    rules.check(parameters, groups)
    return new_game(rules, parameters, groups, next(iter(rules.prompts)), game.number, material_of(game))


def _defects(game: ImportedGame, play: Play, missing: Sequence[Key]) -> Iterator[Defect]:
    last = max((given.entry.round for given in game.replies), default=0)
    rounds = play.outcome.rounds
    if last < rounds:
        yield _defect(CUT_SHORT, game, f"{last} of {rounds} rounds")
    lacks: set[tuple[int, str]] = set()
    for number, phase, agent in missing:
        if number <= last and (number, agent) not in lacks:
            lacks.add((number, agent))  # told once, however often it is asked
            yield _defect(MISSING, game, f"round {number}: {agent} has no {phase}")
    asked = {x.entry.key[:3] for x in play.exchanges}
    if unasked := sorted({given.entry.key[:3] for given in game.replies} - asked):
        number, phase, agent = unasked[0]
        yield _defect(UNASKED, game, f"round {number}: {phase} of {agent}; {len(unasked)} in all")
    yield from _payoffs(game, play)
    for given in game.replies:
        entry = given.entry
        seat = said_name(game.agents[entry.agent].model) if entry.agent in game.agents else None
        if entry.served_model and seat and entry.served_model != seat:
            yield _defect(
                SEATS, game, f"round {entry.round}: {entry.agent} is {entry.served_model}, and {seat} before"
            )
            return


def _payoffs(game: ImportedGame, play: Play) -> Iterator[Defect]:
    """Yield a defect for each round whose payoffs are others than the rules give for its actions."""
    for entry in play.outcome.trace:
        by_rules = {} if entry.get("excluded") else entry.get("points", {})  # what does not count is not paid
        told = {name: game.points[entry["round"], name] for name in by_rules if (entry["round"], name) in game.points}
        wrong = [name for name, points in told.items() if points != by_rules[name]]
        if wrong:
            name = wrong[0]
            action = entry["actions"][name] or "no action"
            text = (
                f"round {entry['round']}: {name} has {told[name]} points for {action}, by the rules {by_rules[name]}"
            )
            yield _defect(PAYOFFS, game, text + (f"; {len(wrong) - 1} more" if len(wrong) > 1 else ""))


def _compared(games: Sequence[Checked]) -> list[Checked]:
    """Return the games with what shows only beside others: the same content, and models in other seats."""
    seatings: dict[str, Counter[str]] = defaultdict(Counter)
    for each in games:
        seatings[condition_key(each.game)][_seating(each.game)] += 1
    seen: dict[tuple[str, int], ImportedGame] = {}
    result = []
    for each in games:
        game, more = each.game, []
        usual = seatings[condition_key(game)].most_common(1)[0][0]
        if _seating(game) != usual:
            more.append(_defect(SEATS, game, f"{_seating(game)}; in most games of the condition {usual}"))
        first = seen.setdefault((condition_key(game), game.number), game)
        if first is not game:
            more.append(_defect(TWICE, game, f"seed {game.number} is that of {_where(first)}{first.file} too"))
        result.append(Checked(game, (*each.defects, *more)))
    return result


def _seating(game: ImportedGame) -> str:
    return ", ".join(f"{name}: {said_name(agent.model)}" for name, agent in game.agents.items() if agent.model)


def _where(game: ImportedGame) -> str:
    return f"game {game.key}: " if game.key else ""


def _defect(kind: str, game: ImportedGame, text: str) -> Defect:
    return Defect(kind, game.file, _where(game) + text)
