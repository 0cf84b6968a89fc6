"""The rounds of the consensus game as the published Swarms code plays them (`protocol: swarms`).

The source is the page "Byzantine consensus" of the Swarms documentation (docs.swarms.world), which implements "Can AI
Agents Agree?" in its own way: one call per agent and round, a *turn*, that both proposes and votes. Agents speak one
after the other; each is shown the current public proposals with the messages of those who spoke before it in the same
round, the last rounds of public history, its own value and its notes of the round before. When 2/3 of all agents vote
to stop, the game ends; its outcome is judged as in the paper's protocol.

The published code gives away more than it should. Each such leak is a switch (`leaks`), off unless a study names it:

- `names`: agents are called Honest-1, ..., Byzantine-1, ... and speak in that order. Without it names are neutral and
  shuffled, and agents speak in the order of the names, which therefore says nothing of roles.
- `missing_value`: all agents are listed from the start, Byzantine ones with `value=None`, honest ones with the initial
  value that they have told nobody. Without it an agent is listed from its first proposal on.
- `early_vote`: a vote of round r counts at the end of round r, although those who speak later may still change the
  values. Without it a vote of round r is about the values at the end of round r - 1, the last ones that all agents
  have seen whole, and the agents are told so. If enough vote to stop in round r, the game ends with the values of the
  end of round r - 1: what was proposed in round r is in the record and in the trace (`proposals`), but is not applied
  (`values` are those of round r - 1, and so are outcome and metrics). `rounds` is r, the rounds that were played.
  Votes of round 1 have no object and do not count; the values that the last round leaves behind are never voted on,
  so that an agreement has to be there one round before the deadline.

Silence: after an unusable reply, all retries included, an agent keeps its value, has no message and no notes, and its
vote is none, which counts as not stop. A Byzantine agent that abstains keeps its value, but its message is public.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parley.games.base import Outcome
from parley.games.consensus.parameters import turn_model
from parley.games.consensus.prompts import Proposal
from parley.games.consensus.state import Agent, ConsensusView
from parley.games.consensus.swarms.parameters import EARLY_VOTE, MISSING_VALUE
from parley.games.consensus.swarms.prompts import filled, format_proposals, template
from parley.policies import Ask, Reply
from parley.policies.kinds import PolicyKind, Rule, with_instructions
from parley.text import one_line

if TYPE_CHECKING:
    from parley.games.consensus.game import ConsensusGame


def play(game: "ConsensusGame") -> Generator[list[Ask], list[Reply], Outcome]:
    """Play rounds of turns until enough agents vote to stop, or the deadline."""
    parameters = game.parameters
    rounds = _Rounds(game)
    for number in range(1, parameters.max_rounds + 1):
        proposals, votes = [], {}
        rounds.begin()
        for agent in game.agents:
            [reply] = yield [rounds.ask(agent, number)]
            proposals.append(rounds.take(agent, number, reply))
            votes[agent.name] = None if reply.value is None else str(reply.value.model_dump()["vote"])
        stop_votes = sum(vote == "stop" for vote in votes.values())
        stopped = rounds.votes_count(number) and Fraction(stop_votes, len(votes)) >= parameters.stop_threshold
        if stopped and EARLY_VOTE not in parameters.leaks:
            rounds.undo()
        game.close_round(number, proposals, votes, stopped)
        rounds.end()
        if stopped:
            return game.outcome(number, stopped=True)
    return game.outcome(parameters.max_rounds, stopped=False)


class _Rounds:
    """What is public while a game is played, turn by turn."""

    def __init__(self, game: "ConsensusGame") -> None:
        self._game = game
        self._public: dict[str, Proposal] = {}  # the last value that each agent has told, with its message of now
        if MISSING_VALUE in game.parameters.leaks:
            self._public = {agent.name: Proposal(agent.name, agent.initial_value) for agent in game.agents}
        self._history: list[list[Proposal]] = []  # what was public at the end of each round
        self._before: list[tuple[Agent, int | None, int]] = []

    def begin(self) -> None:
        """Begin a round: the messages of the one before are history."""
        self._public = {name: replace(said, justification="") for name, said in self._public.items()}
        self._before = [(agent, agent.current_value, agent.changes) for agent in self._game.agents]

    def take(self, agent: Agent, number: int, reply: Reply) -> Proposal:
        """Apply one reply, and return what it proposed."""
        proposal = self._game.take_proposal(agent, number, reply)
        if proposal.value is not None:
            self._public[agent.name] = proposal
        elif reply.value is not None and agent.name in self._public:
            message = one_line(reply.value.model_dump()["public_reasoning"], self._game.parameters.justification_chars)
            self._public[agent.name] = replace(self._public[agent.name], justification=message)
        return proposal

    def votes_count(self, number: int) -> bool:
        """Whether the votes of a round are about something."""
        return number > 1 or EARLY_VOTE in self._game.parameters.leaks

    def undo(self) -> None:
        """Give all agents the values back that they held before this round."""
        for agent, value, changes in self._before:
            agent.current_value, agent.changes = value, changes

    def end(self) -> None:
        """End a round: what is public now is what history says of it."""
        self._history.append(self._listed())

    def ask(self, agent: Agent, number: int) -> Ask:
        """Return what one agent is asked when its turn comes."""
        game, p, role = self._game, self._game.parameters, agent.seat.role
        values = {
            "agent_id": agent.name,
            "task": p.task,
            "value_min": p.value_min,
            "value_max": p.value_max,
            "max_rounds": p.max_rounds,
            "initial_value": agent.initial_value,
            "round_number": number,
            "proposals": format_proposals(game.visible(agent, self._listed())),
            "history": self._history_text(agent),
            "current_value": agent.current_value,
            "private_notes": _last_note(agent, number) or "None.",
        }
        written = game.format_for(agent.seat)
        prompted = partial(template, game.prompt, role, leaks=p.leaks, reply_format=written)
        return Ask(
            agent=agent.name,
            role=role,
            round=number,
            phase="turn",
            system=with_instructions(filled(prompted("system"), values), agent.seat.policy),
            user=filled(prompted("user"), values),
            follow_up=filled(prompted("follow_up"), values),
            reply_format=written,
            reply_model=turn_model(role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars),
            sampling=p.turn,
            view=self._view(agent, number),
        )

    def _listed(self) -> list[Proposal]:
        return [self._public[agent.name] for agent in self._game.agents if agent.name in self._public]

    def _history_text(self, agent: Agent) -> str:
        shown = self._history[-self._game.parameters.history_rounds :] if self._game.parameters.history_rounds else []
        if self._history and not shown:
            return "Earlier rounds are not shown."
        blocks = [format_proposals(self._game.visible(agent, listed)) for listed in shown]
        return "\n".join(blocks) or "No previous rounds."

    def _view(self, agent: Agent, number: int) -> "TurnView":
        p = self._game.parameters
        last = self._history[-1] if self._history and p.history_rounds else []
        return TurnView(
            phase="turn",
            agent=agent.name,
            role=agent.seat.role,
            round=number,
            value_min=p.value_min,
            value_max=p.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            last_round=_values(self._game.visible(agent, last)),
            this_round=_values(self._game.visible(agent, self._listed())),
            neighbors=self._game.links.neighbors(agent.name),
            early_vote=EARLY_VOTE in p.leaks,
        )


def _values(proposals: Sequence[Proposal]) -> dict[str, int | None]:
    return {proposal.agent: proposal.value for proposal in proposals}


def _last_note(agent: Agent, number: int) -> str:
    return agent.notes[-1][1] if agent.notes and agent.notes[-1][0] == number - 1 else ""


# Scripted policies, whose rules know proposals and votes


@dataclass(frozen=True, slots=True)
class TurnView(ConsensusView):
    """What one agent may see in its turn: `this_round` is what is public now, `last_round` what was a round ago."""

    early_vote: bool = False

    def proposing(self) -> ConsensusView:
        """Return the view from which the value is proposed."""
        return replace(self, phase="propose")

    def voting(self, value: object) -> ConsensusView:
        """Return the view from which the vote follows: the values that it is about."""
        if not self.early_vote:
            return replace(self, phase="vote", this_round=self.last_round)
        mine = {self.agent: value} if isinstance(value, int) else {}
        return replace(self, phase="vote", this_round={**self.this_round, **mine})


def in_turns(kinds: Mapping[str, PolicyKind]) -> dict[str, PolicyKind]:
    """Return the kinds such that the rules of scripted ones answer turns, too."""
    return {name: kind if kind.rule is None else _in_turns(kind) for name, kind in kinds.items()}


def _in_turns(kind: PolicyKind) -> PolicyKind:
    make = kind.rule
    assert make is not None
    return replace(kind, rule=lambda parameters: _turn_rule(make(parameters)))


def _turn_rule(rule: Rule) -> Rule:
    def answer(view: ConsensusView, rng: np.random.Generator) -> Mapping[str, Any]:
        if not isinstance(view, TurnView):
            return rule(view, rng)
        proposal = rule(view.proposing(), rng)
        vote = rule(view.voting(proposal["value"]), rng)
        return {**proposal, "vote": vote["decision"]}

    return answer
