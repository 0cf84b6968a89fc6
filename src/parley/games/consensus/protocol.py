"""How a game of consensus goes: the protocol of the paper (A.2), and what every protocol keeps and does."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from pydantic import BaseModel

from parley.games.consensus.parameters import (
    EARLY_VOTE,
    PUBLISHED_CODE,
    Agent,
    ByzantineVote,
    ConsensusParameters,
    ConsensusView,
    HonestVote,
    Proposal,
    Round,
    proposal_model,
)
from parley.games.consensus.prompts import (
    PROMPTS,
    disclosed_text,
    places,
    proposals_text,
    threshold_text,
)
from parley.games.network.graph import Links, Network
from parley.games.parameters import BYZANTINE
from parley.policies import Ask, Reply, Sampling
from parley.policies.kinds import with_instructions
from parley.text import one_line


def _as_sent(proposal: Proposal, name: str) -> Proposal:
    if name not in proposal.peer_values:
        return proposal
    return replace(proposal, value=proposal.peer_values[name], peer_values={})


def peer_values(fields: Mapping[str, Any]) -> dict[str, int | None]:
    """Return which peers a reply tells another value than all others, and which (None: nothing)."""
    told: Mapping[str, int | str] = fields.get("peer_values", {})
    return {
        name: None if isinstance(value, str) else value for name, value in told.items() if value != fields["value"]
    }


# What the authors' code (`rules: published_code`) shows of the past: notes, and characters of a reason.
_PUBLISHED_NOTES = 5
_PUBLISHED_CHARS = 50


class Protocol(ABC):
    """Who is asked what, in which order, and when votes end the game; with the agents, the history and the trace."""

    def __init__(
        self, parameters: ConsensusParameters, prompt: str, agents: Sequence[Agent], network: Network
    ) -> None:
        """`agents` are in the order in which they are asked, which says nothing about roles, and so is `network`."""
        self.parameters = parameters
        self.prompt = prompt
        self.agents = agents
        self.honest = [agent for agent in agents if agent.honest]
        self.links = Links([agent.name for agent in agents], network)
        self.history: list[Sequence[Proposal]] = []  # what agents see of each round that is over
        self.trace: list[Round] = []

    @abstractmethod
    def play(self) -> Generator[list[Ask], list[Reply], tuple[int, bool]]:
        """Play to the end; return how many rounds were played, and whether votes stopped the game."""

    def stops(self, votes: Mapping[str, str | None]) -> bool:
        """Return whether enough of all agents vote to stop."""
        stop_votes = sum(vote == "stop" for vote in votes.values())
        return Fraction(stop_votes, len(votes)) >= self.parameters.stop_threshold

    # What an agent is asked

    def ask(
        self,
        agent: Agent,
        number: int,
        phase: str,
        values: Mapping[str, object],
        now: Sequence[Proposal],
        reply_model: type[BaseModel],
        sampling: Sampling,
    ) -> Ask:
        """Return what an agent is asked; `now` is what was proposed in this round, as far as it may be known."""
        p, role = self.parameters, agent.seat.role
        written, early = p.format_for(agent.seat), EARLY_VOTE in p.leaks
        prompted = partial(
            PROMPTS.filled,
            self.prompt,
            role,
            phase,
            values=values,
            reply_format=written,
            early_vote=early,
            threshold=threshold_text(p, scripted=agent.seat.policy.kind.rule is not None),
        )
        system = with_instructions(prompted("system") + self._told_of_network(agent), agent.seat.policy)
        last = self.history[-1] if self.history and p.history_rounds else []
        return Ask(
            agent=agent.name,
            role=role,
            round=number,
            phase=phase,
            system=system,
            user=prompted("user"),
            follow_up=prompted("follow_up"),
            reply_format=written,
            reply_model=reply_model,
            sampling=sampling,
            view=ConsensusView(
                phase=phase,
                agent=agent.name,
                role=role,
                round=number,
                value_min=p.value_min,
                value_max=p.value_max,
                initial_value=agent.initial_value,
                current_value=agent.current_value,
                last_round={proposal.agent: proposal.value for proposal in self.visible(agent, last)},
                this_round={proposal.agent: proposal.value for proposal in self.visible(agent, now)},
                neighbors=self.links.neighbors(agent.name),
                early_vote=early,
                system=system,
            ),
        )

    def visible(self, agent: Agent, proposals: Sequence[Proposal]) -> Sequence[Proposal]:
        """Return what `agent` sees of one round: its own proposal and its neighbors', as they were sent to it."""
        heard = self.links.seen_by(agent.name)
        return [_as_sent(proposal, agent.name) for proposal in proposals if proposal.agent in heard]

    def _told_of_network(self, agent: Agent) -> str:
        """Return what follows an agent's system prompt where the topology is disclosed, on lines of its own."""
        if not self.parameters.disclose_topology:
            return ""
        return f"\n{disclosed_text(len(self.agents), self.links.neighbors(agent.name))}"

    # What a reply does

    def take_proposal(self, agent: Agent, number: int, reply: Reply) -> Proposal:
        """Apply one proposal; after a failed or withheld one the agent keeps its value and is silent."""
        if reply.value is None:
            return self._silent(agent)
        fields = reply.value.model_dump()
        note = one_line(fields["internal_strategy"], self.parameters.strategy_chars)
        if note:
            agent.notes.append((number, note))
        justification = one_line(fields["public_reasoning"], self.parameters.justification_chars)
        told = peer_values(fields)
        if fields["value"] == "abstain":
            return Proposal(agent.name, None, justification, told) if told else self._silent(agent, justification)
        if agent.current_value is not None and fields["value"] != agent.current_value:
            agent.changes += 1
        agent.current_value = fields["value"]
        return Proposal(agent.name, fields["value"], justification, told)

    def _silent(self, agent: Agent, justification: str = "") -> Proposal:
        """Return what others see of an agent that proposes nothing: by the authors' code its old value, once more."""
        if self.parameters.rules != PUBLISHED_CODE or agent.current_value is None:
            return Proposal(agent.name, None)
        return Proposal(agent.name, agent.current_value, justification)

    def close_round(
        self, number: int, proposals: Sequence[Proposal], votes: Mapping[str, str | None], stopped: bool
    ) -> None:
        """Add a round to the trace."""
        held = self.honest_values()
        done: Round = {
            "round": number,
            "proposals": {proposal.agent: proposal.value for proposal in proposals},
            "values": {agent.name: agent.current_value for agent in self.agents},
            "votes": dict(votes),
            "stop_votes": sum(vote == "stop" for vote in votes.values()),
            "stopped": stopped,
            "honest_share": max(Counter(held).values()) / len(held) if held else None,
            "honest_spread": max(held) - min(held) if held else None,
        }
        # Both are left out where there is nothing to say: everyone hears everyone, everyone told all the same.
        if links := self.links.trace(number):
            done["neighbors"] = links["neighbors"]
        if sent := {said.agent: dict(said.peer_values) for said in proposals if said.peer_values}:
            done["sent"] = sent
        self.trace.append(done)

    def honest_values(self) -> list[int]:
        """Return the values that the honest agents hold."""
        return [agent.current_value for agent in self.honest if agent.current_value is not None]


class PaperProtocol(Protocol):
    """In each round all agents propose at once, see the proposals, and vote at once."""

    def play(self) -> Generator[list[Ask], list[Reply], tuple[int, bool]]:
        """Play rounds of proposals and votes until enough agents vote to stop, or the deadline."""
        for number in range(1, self.parameters.max_rounds + 1):
            replies = yield [self._ask(agent, number, "propose", []) for agent in self.agents]
            proposals = [
                self.take_proposal(agent, number, reply) for agent, reply in zip(self.agents, replies, strict=True)
            ]
            replies = yield [self._ask(agent, number, "vote", proposals) for agent in self.agents]
            votes = {agent.name: _decision(reply) for agent, reply in zip(self.agents, replies, strict=True)}
            stopped = self.stops(votes)
            self.history.append(proposals)
            self.close_round(number, proposals, votes, stopped)
            if stopped:
                return number, True
        return self.parameters.max_rounds, False

    def _ask(self, agent: Agent, number: int, phase: str, proposals: Sequence[Proposal]) -> Ask:
        p, role = self.parameters, agent.seat.role
        this_round = proposals_text(agent.name, self.visible(agent, proposals))
        values = places(agent, number, p, self._history_text(agent), this_round, self._notes_text(agent))
        if phase == "propose":
            kind = agent.seat.policy.kind
            # A language model is offered it only by a policy that needs it: others are not told what it is for.
            offered = p.equivocation and role == BYZANTINE and (not kind.asks_model or kind.needs == "equivocation")
            peers = self.links.neighbors(agent.name) if offered else None
            model = proposal_model(role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars, peers)
            return self.ask(agent, number, phase, values, proposals, model, p.propose)
        vote = ByzantineVote if role == BYZANTINE else HonestVote
        return self.ask(agent, number, phase, values, proposals, vote, p.vote)

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, the latest first; "" in round 1."""
        if self.history and not self.parameters.history_rounds:
            return "(Earlier rounds are not shown)"
        longest = _PUBLISHED_CHARS if self.parameters.rules == PUBLISHED_CODE else None
        numbered = list(enumerate(self.history, 1))[-self.parameters.history_rounds :]
        return "\n".join(
            f"Round {number}:\n{proposals_text(agent.name, self.visible(agent, proposals), longest)}"
            for number, proposals in reversed(numbered)
        )

    def _notes_text(self, agent: Agent) -> str:
        """Return the agent's own notes of the last rounds in which it wrote one: `history_rounds`, at least one."""
        published = self.parameters.rules == PUBLISHED_CODE
        shown = agent.notes[-(_PUBLISHED_NOTES if published else max(1, self.parameters.history_rounds)) :]
        return "\n".join(f"Round {number}: {note}" for number, note in shown)


def _decision(reply: Reply) -> str | None:
    """Return the vote; None for an agent that did not answer, which counts as continue."""
    return None if reply.value is None else str(reply.value.model_dump()["decision"])
