"""How a game of consensus goes: the protocols of the paper (A.2) and of the Swarms code, and what both keep and do."""

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
    MISSING_VALUE,
    PUBLISHED_CODE,
    Agent,
    ByzantineVote,
    ConsensusParameters,
    ConsensusView,
    HonestVote,
    Proposal,
    Round,
    proposal_model,
    turn_model,
)
from parley.games.consensus.prompts import (
    PROMPTS,
    TURN,
    disclosed_text,
    places,
    proposals_text,
    threshold_text,
    turn_proposals_text,
)
from parley.games.network import Links, Network
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


class SwarmsProtocol(Protocol):
    """As the published Swarms code plays (`protocol: swarms`): one agent after the other proposes and votes.

    The source is the page "Byzantine consensus" of the Swarms documentation (docs.swarms.world), which implements "Can
    AI Agents Agree?" in its own way: one call per agent and round, a *turn*, that both proposes and votes. Agents
    speak one after the other; each is shown the current public proposals with the messages of those who spoke before
    it in the same round, the last rounds of public history, its own value and its notes of the round before. When 2/3
    of all agents vote to stop, the game ends; its outcome is judged as in the paper's protocol.

    The published code gives away more than it should. Each such leak is a switch (`leaks`), off unless a study names
    it:

    - `names`: agents are called Honest-1, ..., Byzantine-1, ... and speak in that order. Without it names are neutral
      and shuffled, and agents speak in the order of the names, which therefore says nothing of roles.
    - `missing_value`: all agents are listed from the start, Byzantine ones with `value=None`, honest ones with the
      initial value that they have told nobody. Without it an agent is listed from its first proposal on.
    - `early_vote`: a vote of round r counts at the end of round r, although those who speak later may still change the
      values. Without it a vote of round r is about the values at the end of round r - 1, the last ones that all agents
      have seen whole, and the agents are told so. If enough vote to stop in round r, the game ends with the values of
      the end of round r - 1: what was proposed in round r is in the record and in the trace (`proposals`), but is not
      applied (`values` are those of round r - 1, and so are outcome and metrics). `rounds` is r, the rounds that were
      played. Votes of round 1 have no object and do not count. So one round more is played than `max_rounds`: its
      proposals are never voted on, its votes are about the values of round `max_rounds`. With the leak and without it,
      the values of as many rounds may end the game. Agents are told the rounds that are played.

    Silence: after an unusable reply, all retries included, an agent keeps its value, has no message and no notes, and
    its vote is none, which counts as not stop. A Byzantine agent that abstains keeps its value, but its message is
    public.
    """

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
        noted, note = agent.notes[-1] if agent.notes else (0, "")
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
            "private_notes": note if noted == number - 1 and note else "None.",
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
