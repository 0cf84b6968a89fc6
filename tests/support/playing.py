"""Small games and the policies that play them; `support.playthrough` plays games by hand."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from parley.games.base import Game, Outcome
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.policies import POLICIES
from parley.games.deliberation.game import DeliberationGame
from parley.games.deliberation.parameters import DeliberationParameters
from parley.games.evidence import Session, Utterance
from parley.games.network import Network
from parley.games.parameters import Group, Seat
from parley.games.problems.problem import Problem
from parley.games.stag_hunt.game import StagHuntGame
from parley.games.stag_hunt.parameters import StagHuntParameters
from parley.identity import stream
from parley.play.runner import Play, play
from parley.play.simulate import simulate
from parley.policies import Ask, Completion, Policy, Reply
from parley.policies.kinds import BY_MODEL, ChosenPolicy, Rule, ScriptedPolicy
from parley.policies.reply_text import parse_reply
from parley.study import Study
from parley.study.condition import Player, Simulation

INITIAL = [20, 42, 18, 16, 5, 32, 25, 47]  # what seed 0 deals to the first eight honest agents
ROLES = {"h": "honest", "b": "byzantine"}
# The scripted policies of the consensus game that need no parameters, as rules.
RULES: Mapping[str, Rule] = {
    name: partial(kind.rule, given=kind.Parameters())
    for name, kind in POLICIES.items()
    if kind.rule and not kind.roles and not any(field.is_required() for field in kind.Parameters.model_fields.values())
}


def groups(**counts: int) -> list[Group]:
    """Return a group per role, which is played by the model of nobody."""
    return [Group(role, count) for role, count in counts.items()]


def scripted(player: Player) -> ScriptedPolicy:
    """Return the scripted policy of a player."""
    assert player.policy.rule is not None
    return ScriptedPolicy(player.policy.rule)


def scripted_policies(simulation: Simulation, game: Game) -> dict[str, Policy]:
    """Return what the study names for each agent; all of it is scripted."""
    return {name: scripted(player) for name, player in simulation.players.items()}


def seats(roles: str, policies: Mapping[str, ChosenPolicy] | None = None) -> tuple[Seat, ...]:
    """Return the seats of agent_1, agent_2, ... with these roles; `policies` says by role what plays them."""
    played_by = {letter: (policies or {}).get(role, BY_MODEL) for letter, role in ROLES.items()}
    return tuple(Seat(f"agent_{place}", ROLES[letter], played_by[letter]) for place, letter in enumerate(roles, 1))


def new_consensus(roles: str = "hhh", seed: int = 0, prompt: str = "may_exist", **parameters: Any) -> ConsensusGame:
    """Return a game with one agent per letter, named in order; honest ones hold INITIAL for seed 0."""
    return ConsensusGame(ConsensusParameters(**parameters), seats(roles), prompt, stream("game", "consensus", seed))


class CountingPolicy:
    """A scripted policy that remembers what it was asked."""

    def __init__(self, rule: Rule) -> None:
        self._policy = ScriptedPolicy(rule)
        self.asked: list[tuple[int, str, str, int]] = []
        self.seeds: list[int] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self.asked.append((ask.round, ask.phase, ask.agent, attempt))
        self.seeds.append(seed)
        return await self._policy.answer(ask, seed, attempt)


class ListPolicy:
    """Answers every attempt at an ask with the next text of a list, the last one again and again."""

    def __init__(self, *texts: str, finish_reason: str = "stop") -> None:
        self.texts = texts
        self.finish_reason = finish_reason
        self.seeds: list[int] = []

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        self.seeds.append(seed)
        return Completion(self.texts[min(attempt, len(self.texts) - 1)], self.finish_reason, 100, 7, 40)


def play_of(simulation: Simulation, failing: Policy | None = None) -> Play:
    """Play by the study's scripted policies; agent_1 by `failing`."""
    game = simulation.game()
    policies = scripted_policies(simulation, game)
    if failing is not None:
        policies["agent_1"] = failing
    return play(simulation.id, game, policies)


def drive(game: Game, answer: Callable[[Ask], Reply]) -> tuple[list[list[Ask]], Outcome]:
    """Play by what `answer` makes of each ask; return what was asked, phase by phase, and how it ended."""
    playing, phases = game.play(), list[list[Ask]]()
    asks = next(playing)
    while True:
        phases.append(asks)
        replies = [answer(ask) for ask in asks]
        try:
            asks = playing.send(replies)
        except StopIteration as end:
            return phases, end.value


# Deliberations


EIGHTEEN = Problem("eighteen", "number", "What is nine times two?", "18")
CARDS = Problem("cards", "cards", "Which cards must be turned over?", "7,A", ("A", "K", "4", "7"))
CHOICES = Problem(
    "library", "policies", "What should the library do?", None, ("Open on Sundays", "Buy more books", "Lend tools")
)


def new_deliberation(roles: str = "hhh", problem: Problem = EIGHTEEN, **parameters: Any) -> DeliberationGame:
    """Return a game of agent_1, agent_2, ... with these roles on a problem."""
    given, rng = DeliberationParameters(**parameters), stream("game", "deliberation", 0)
    return DeliberationGame(given, seats(roles), "improve", rng, material=problem.as_json())


def answering(ask: Ask, said: Any, milliseconds: int = 0) -> Reply:
    """Return the reply to an ask; None for a silent agent, a list for policies, else the answer as text."""
    if said is None:
        return Reply(None, "invalid_json", "no JSON", milliseconds)
    key = "policies" if isinstance(said, list) else "answer"
    reply = parse_reply(json.dumps({"argument": f"Because of {said}.", key: said}), "stop", ask.reply_model)
    assert reply.failure is None, reply.detail
    return Reply(reply.value, milliseconds=milliseconds)


# Stag hunts, by plain words and actions


HUNTERS: dict[str, Any] = {
    "model": ["grim_trigger", "always_stag"],
    "n": 3,
    "b": [0, 1],
    "byzantine": {"name": "betray", "from_round": 2},
    "prompt": "plain",
}  # a grid of scripted players
ACTIONS = {"s": "Hunt Stag", "h": "Hunt Hare"}


@dataclass(frozen=True)
class Hunted:
    """What was asked, phase by phase, and how it ended."""

    phases: list[list[Ask]]
    outcome: Outcome

    @property
    def of(self) -> Mapping[str, Any]:
        """The metrics."""
        return self.outcome.metrics

    def ask(self, number: int, phase: str, player: int) -> Ask:
        """Return what `agent_<player>` was asked in a round and phase."""
        asks = [ask for asks in self.phases for ask in asks]
        [found] = [a for a in asks if (a.round, a.phase, a.agent) == (number, phase, f"agent_{player}")]
        return found


def new_hunt(
    roles: str = "hhhh",
    network: Network | None = None,
    policies: Mapping[str, ChosenPolicy] | None = None,
    **parameters: Any,
) -> StagHuntGame:
    """Return a game of agent_1, agent_2, ... with these roles; `policies` says by role what plays them."""
    given, rng = StagHuntParameters(**parameters), stream("game", "stag_hunt", 0)
    return StagHuntGame(given, seats(roles, policies), "plain", rng, network)


def _reply(ask: Ask, field: str, said: str | None) -> Reply:
    if said is None:
        return Reply(None, "invalid_json", "no JSON")
    published: Any = {"type": "communicate", "word": said} if field == "word" else {"choice": said}
    fields = {"action": published} if ask.view.published else {field: said}
    reply = parse_reply(json.dumps({"reasoning": "Because.", **fields}), "stop", ask.reply_model)
    assert reply.failure is None, reply.detail
    return reply


def hunt(roles: str, *actions: str, words: Sequence[Sequence[str | None]] | None = None, **given: Any) -> Hunted:
    """Play a game in which player k does `actions[r][k - 1]` in round r + 1: s(tag), h(are) or - (no usable reply).

    It broadcasts `words[r][k - 1]`, "stag" if there are no words, None for no usable reply.
    """

    def answer(ask: Ask) -> Reply:
        number, place = ask.round - 1, int(ask.agent[6:]) - 1
        if ask.phase == "signal":
            return _reply(ask, "word", "stag" if words is None else words[number][place])
        return _reply(ask, "action", ACTIONS.get(actions[number][place]))

    return Hunted(*drive(new_hunt(roles, rounds=len(actions), **given), answer))


def letters(played: Play) -> list[str]:
    """Return the actions of a game, a text for each round, in the order of the names."""
    short = {"Hunt Stag": "s", "Hunt Hare": "h", None: "-"}
    return ["".join(short[action] for action in entry["actions"].values()) for entry in played.outcome.trace]


# A small game that keeps a ledger, for the tests: the consensus game, whose proposals are what is said


FIRST_ROUNDS = 2


def _session(outcome: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]], agents: tuple[str, ...]) -> Session:
    said = [
        Utterance(row["round"], agent, {"value": row["proposals"][agent], "text": f'I say "{agent}"'})
        for row in rounds
        for agent in agents
    ]
    stopped = bool(rounds[-1]["stopped"])
    verdict = {"value": rounds[-1]["values"][agents[0]], "outcome": outcome["name"]} if stopped else {}
    return Session({"problem": "a number"}, agents, {"rounds": FIRST_ROUNDS}, tuple(said), stopped, verdict)


def council_sessions(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Sequence[Session]:
    agents = tuple(trace[0]["proposals"])
    sessions = [_session(outcome, trace[:FIRST_ROUNDS], agents)]
    if trace[FIRST_ROUNDS:]:
        sessions.append(_session(outcome, trace[FIRST_ROUNDS:], agents[:-1]))
    return sessions


class CouncilEvidence(ConsensusEvidence):
    keeps_ledger = True

    def sessions(self, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Sequence[Session]:
        return council_sessions(outcome, trace)


class CouncilGame(ConsensusGame):
    """The consensus game with a ledger."""

    name = "council"
    evidence = CouncilEvidence()


def recorded_study(make: Callable[..., Study], **content: Any) -> Study:
    """Return a study of the game that `make` (the fixture `study_factory`) writes, all of it played.

    Three agents of which one is adversarial, on two networks, two seeds; some deliberations hang, some do not.
    """
    grid = {"honest": 3, "b": [0, 1], "byzantine": "random", "vary": {"topology": ["complete", "ring"]}}
    parameters = {"max_rounds": 4, **content.pop("parameters", {})}
    study = make(grid, game=CouncilGame.name, seeds=2, parameters=parameters, **content)
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    return study
