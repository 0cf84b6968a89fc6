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
  Votes of round 1 have no object and do not count. So one round more is played than `max_rounds`: its proposals are
  never voted on, its votes are about the values of round `max_rounds`. With the leak and without it, the values of as
  many rounds may end the game. Agents are told the rounds that are played.

Silence: after an unusable reply, all retries included, an agent keeps its value, has no message and no notes, and its
vote is none, which counts as not stop. A Byzantine agent that abstains keeps its value, but its message is public.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace

from parley.games.consensus.parameters import (
    EARLY_VOTE,
    MISSING_VALUE,
    Agent,
    ConsensusParameters,
    Proposal,
    turn_model,
)
from parley.games.consensus.prompts import TURN, turn_proposals_text
from parley.games.consensus.protocol import Protocol
from parley.games.network.graph import Network
from parley.policies import Ask, Reply
from parley.text import one_line


class SwarmsProtocol(Protocol):
    """In each round one agent after the other proposes and votes, seeing what is public when its turn comes."""

    def __init__(
        self, parameters: ConsensusParameters, prompt: str, agents: Sequence[Agent], network: Network
    ) -> None:
        super().__init__(parameters, prompt, agents, network)
        self._early_vote = EARLY_VOTE in parameters.leaks
        self._public: dict[str, Proposal] = {}  # the last value that each agent has told, with its message of now
        if MISSING_VALUE in parameters.leaks:
            self._public = {agent.name: Proposal(agent.name, agent.initial_value) for agent in agents}

    def play(self) -> Generator[list[Ask], list[Reply], tuple[int, bool]]:
        """Play rounds of turns until enough agents vote to stop, or the deadline."""
        for number in range(1, self.parameters.longest + 1):
            before = [(agent, agent.current_value, agent.changes) for agent in self.agents]
            # The messages of the round before are history.
            self._public = {name: replace(said, justification="") for name, said in self._public.items()}
            proposals, votes = [], {}
            for agent in self.agents:
                [reply] = yield [self._ask(agent, number)]
                proposals.append(self._take(agent, number, reply))
                votes[agent.name] = None if reply.value is None else str(reply.value.model_dump()["vote"])
            # Votes of round 1 are about nothing, unless they count at once.
            stopped = (number > 1 or self._early_vote) and self.stops(votes)
            if stopped and not self._early_vote:
                for agent, value, changes in before:
                    agent.current_value, agent.changes = value, changes
            self.close_round(number, proposals, votes, stopped)
            if stopped:
                return number, True
            self.history.append(self._listed())
        return self.parameters.longest, False

    def _take(self, agent: Agent, number: int, reply: Reply) -> Proposal:
        """Apply one reply, and return what it proposed."""
        proposal = self.take_proposal(agent, number, reply)
        if proposal.value is not None:
            self._public[agent.name] = proposal
        elif reply.value is not None and agent.name in self._public:
            message = one_line(reply.value.model_dump()["public_reasoning"], self.parameters.justification_chars)
            self._public[agent.name] = replace(self._public[agent.name], justification=message)
        return proposal

    def _ask(self, agent: Agent, number: int) -> Ask:
        """Return what one agent is asked when its turn comes."""
        p, now = self.parameters, self._listed()
        values = {
            "agent_id": agent.name,
            "task": p.task,
            "value_min": p.value_min,
            "value_max": p.value_max,
            "max_rounds": p.longest,
            "initial_value": agent.initial_value,
            "round_number": number,
            "proposals": turn_proposals_text(self.visible(agent, now)),
            "history": self._history_text(agent),
            "current_value": agent.current_value,
            "private_notes": _last_note(agent, number) or "None.",
        }
        model = turn_model(agent.seat.role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars)
        return self.ask(agent, number, TURN, values, now, model, p.turn)

    def _listed(self) -> list[Proposal]:
        return [self._public[agent.name] for agent in self.agents if agent.name in self._public]

    def _history_text(self, agent: Agent) -> str:
        shown = self.history[-self.parameters.history_rounds :] if self.parameters.history_rounds else []
        if self.history and not shown:
            return "Earlier rounds are not shown."
        blocks = [turn_proposals_text(self.visible(agent, listed)) for listed in shown]
        return "\n".join(blocks) or "No previous rounds."


def _last_note(agent: Agent, number: int) -> str:
    return agent.notes[-1][1] if agent.notes and agent.notes[-1][0] == number - 1 else ""
