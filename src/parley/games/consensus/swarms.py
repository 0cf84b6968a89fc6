"""The protocol of the published Swarms code (`protocol: swarms`): one agent after the other proposes and votes."""

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
from parley.games.consensus.protocols import Protocol
from parley.games.network import Network
from parley.policies import Ask, Reply
from parley.text import one_line


class SwarmsProtocol(Protocol):
    """As the published Swarms code plays (`protocol: swarms`): one agent after the other proposes and votes.

    The source is the page "Byzantine consensus" of the Swarms documentation (docs.swarms.world), which implements "Can
    AI Agents Agree?" in its own way: one call per agent and round, a *turn*, that both proposes and votes. What it
    gives away more than it should is a switch each (`leaks`; docs/reference/swarms.md).

    Without the leak `early_vote`, a vote of round r is about the values at the end of round r - 1. A stop in round r
    ends the game with these: what was proposed in round r is in the record and in the trace (`proposals`), but is not
    applied. Votes of round 1 have no object and do not count, and one round more is played than `max_rounds`, so that
    the values of as many rounds may end the game.

    Silence: after an unusable reply, all retries included, an agent keeps its value, has no message and no notes, and
    its vote is none, which counts as not stop. A Byzantine agent that abstains keeps its value, but its message is
    public.
    """

    def __init__(
        self, parameters: ConsensusParameters, agents: Sequence[Agent], network: Network, secret: str = ""
    ) -> None:
        super().__init__(parameters, agents, network, secret)
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
        proposal = self.take_proposal(agent, number, reply)
        if proposal.value is not None:
            self._public[agent.name] = proposal
        elif reply.value is not None and agent.name in self._public:
            message = one_line(reply.value.model_dump()["public_reasoning"], self.parameters.justification_chars)
            self._public[agent.name] = replace(self._public[agent.name], justification=message)
        return proposal

    def _ask(self, agent: Agent, number: int) -> Ask:
        """Return what one agent is asked when its turn comes."""
        p, now = self.parameters, self.visible(agent, number, self._listed())
        noted, note = agent.notes[-1] if agent.notes else (0, "")
        values = {
            "agent_id": agent.name,
            "task": p.task,
            "value_min": p.value_min,
            "value_max": p.value_max,
            "max_rounds": p.longest,
            "initial_value": agent.initial_value,
            "round_number": number,
            "proposals": turn_proposals_text(now),
            "history": self._history_text(agent),
            "current_value": agent.current_value,
            "private_notes": note if noted == number - 1 and note else "None.",
        }
        model = turn_model(agent.seat.role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars)
        return self.ask(agent, number, TURN, values, now, model, p.turn)

    def _listed(self) -> list[Proposal]:
        return [self._public[agent.name] for agent in self.agents if agent.name in self._public]

    def _history_text(self, agent: Agent) -> str:
        shown = self._shown_rounds()
        if self.history and not shown:
            return "Earlier rounds are not shown."
        blocks = [turn_proposals_text(self.seen_of(agent, number)) for number in shown]
        return "\n".join(blocks) or "No previous rounds."
