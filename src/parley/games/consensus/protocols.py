"""How a consensus game goes (sections 3, A.2, A.3): who is asked what, in which order, and when votes end it.

A protocol is the paper's, that of its authors' code, or that of the published Swarms code (`swarms.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import median_low
from typing import Any

from pydantic import BaseModel

from parley.games.consensus.parameters import (
    EARLY_VOTE,
    Agent,
    ByzantineVote,
    ConsensusParameters,
    ConsensusView,
    HonestVote,
    Proposal,
    Round,
    Said,
    Signer,
    Value,
    proposal_model,
)
from parley.games.consensus.prompts import (
    PROMPTS,
    disclosed_template,
    places,
    proposals_text,
    published_round_text,
    published_text,
    published_vote_text,
    threshold_text,
)
from parley.games.filters import SCORE, NoFilter, passed, scores_model, told_text
from parley.games.network import Links, Network
from parley.games.parameters import BYZANTINE
from parley.games.prompts import fill, text_of
from parley.policies import Ask, Reply, Sampling
from parley.policies.kinds import with_instructions
from parley.text import one_line


def peer_values(fields: Mapping[str, Any]) -> dict[str, Value | None]:
    """Return which peers a reply tells another value than all others, and which (None: nothing)."""
    values: Mapping[str, Value | str] = fields.get("peer_values", {})
    return {
        name: None if isinstance(value, str) else value for name, value in values.items() if value != fields["value"]
    }


# What the authors' code (`rules: published_code`) shows of the past: notes, and characters of a reason.
_PUBLISHED_NOTES = 5
_PUBLISHED_CHARS = 50


class Protocol(ABC):
    """Who is asked what, in which order, and when votes end the game; with the agents, the history and the trace."""

    def __init__(
        self, parameters: ConsensusParameters, agents: Sequence[Agent], network: Network, secret: str = ""
    ) -> None:
        """`agents` are in the order in which they are asked, which says nothing about roles, and so is `network`.

        `secret` is what signatures are made of (`Signer`): no agent sees it.
        """
        self.parameters = parameters
        self.agents = agents
        self.honest = [agent for agent in agents if agent.honest]
        self.links = Links([agent.name for agent in agents], network)
        self.history: list[Sequence[Proposal]] = []  # what agents see of each round that is over
        self.trace: list[Round] = []
        self._seen: dict[tuple[str, int], Sequence[Proposal]] = {}
        self._said: dict[str, list[Mapping[str, Said]]] = {agent.name: [] for agent in agents}
        # Of honest agents with a filter: what was said to them by round, and what they heard in its place.
        self._received: dict[str, list[Mapping[str, Value | None]]] = {agent.name: [] for agent in self.honest}
        self._heard_as: dict[tuple[str, int], Mapping[str, Value | None]] = {}
        self.goal = parameters.goal
        self.secret = secret
        self._thresholds = {scripted: threshold_text(parameters, scripted) for scripted in (True, False)}

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
        """Return what an agent is asked; `now` is what it sees of this round, as far as it may be known."""
        p, role = self.parameters, agent.seat.role
        written, early = p.format_for(agent.seat), EARLY_VOTE in p.leaks
        prompted = partial(
            PROMPTS.filled,
            agent.seat.prompt,
            role,
            phase,
            values=values,
            reply_format=written,
            early_vote=early,
            threshold=self._thresholds[agent.seat.policy.kind.rule is not None],
            goal=self.goal,
        )
        told = self._told_of_network(agent) + (told_text(p) if agent.honest else "")
        system = with_instructions(prompted("system") + told, agent.seat.policy)
        last = self.seen_of(agent, number - 1) if number > 1 and p.history_rounds else []
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
                last_round={proposal.agent: proposal.value for proposal in last},
                this_round={proposal.agent: proposal.value for proposal in now},
                neighbors=self.links.neighbors(agent.name),
                early_vote=early,
                system=system,
                earlier=self._earlier(agent),
                goal=self.goal,
                signer=Signer(agent.name, self.secret),
            ),
        )

    def visible(self, agent: Agent, number: int, proposals: Sequence[Proposal]) -> Sequence[Proposal]:
        """Return what `agent` sees of one round: its own proposal and its neighbors', as they were sent to it.

        Without what its filter drops, once that is known (`_hear`).
        """
        heard, name = self.links.seen_by(agent.name), agent.name
        seen = [
            replace(said, value=said.peer_values[name], peer_values={}) if name in said.peer_values else said
            for said in proposals
            if said.agent in heard
        ]
        if not (changed := self._heard_as.get((name, number))):
            return seen
        heard_as = ((said, changed.get(said.agent, said.value)) for said in seen)
        return [
            replace(said, value=value) for said, value in heard_as if said.agent not in changed or value is not None
        ]

    def seen_of(self, agent: Agent, number: int) -> Sequence[Proposal]:
        """Return what `agent` sees of a round that is over, from 1: found once, and shown in several prompts."""
        key = agent.name, number
        if key not in self._seen:
            self._seen[key] = self.visible(agent, number, self.history[number - 1])
        return self._seen[key]

    def _earlier(self, agent: Agent) -> tuple[Mapping[str, Said], ...]:
        """Return by name what `agent` heard in each of the rounds that are over."""
        heard = self._said[agent.name]
        for number in range(len(heard) + 1, len(self.history) + 1):
            seen = self.seen_of(agent, number)
            heard.append({said.agent: Said(said.value, said.justification) for said in seen})
        return tuple(heard)

    def _shown_rounds(self) -> range:
        """Return the numbers of the rounds that prompts show: the last `history_rounds` of those that are over."""
        over = len(self.history)
        return range(max(0, over - self.parameters.history_rounds) + 1, over + 1)

    def _told_of_network(self, agent: Agent) -> str:
        """Return what follows an agent's system prompt where the topology is disclosed, on lines of its own."""
        if not self.parameters.disclose_topology:
            return ""
        name = agent.name
        heard, hearers = (
            ", ".join(names) or "none" for names in (self.links.neighbors(name), self.links.hearers(name))
        )
        values = {"agents": len(self.agents), "neighbors": heard, "hearers": hearers}
        return f"\n{fill(text_of(disclosed_template(self.parameters)), values)}"

    # What a reply does

    def take_proposal(self, agent: Agent, number: int, reply: Reply) -> Proposal:
        """Apply one proposal; after a failed or withheld one the agent keeps its value and is silent."""
        if reply.value is None:
            return self.silent(agent)
        fields = reply.value.model_dump()
        note = one_line(fields["internal_strategy"], self.parameters.strategy_chars)
        if note:
            agent.notes.append((number, note))
        justification = one_line(fields["public_reasoning"], self.parameters.justification_chars)
        sent = peer_values(fields)
        if fields["value"] == "abstain":
            return Proposal(agent.name, None, justification, sent) if sent else self.silent(agent, justification)
        if agent.current_value is not None and fields["value"] != agent.current_value:
            agent.changes += 1
        agent.current_value = fields["value"]
        return Proposal(agent.name, fields["value"], justification, sent)

    def silent(self, agent: Agent, justification: str | None = None) -> Proposal:
        """Return what others see of an agent that proposes nothing; None is the reason of one that failed."""
        return Proposal(agent.name, None)

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
            "honest_share": self.goal.share(held),
            "honest_spread": max(held) - min(held) if held else None,
        }
        # Both are left out where there is nothing to say: everyone hears everyone, everyone told all the same.
        if links := self.links.trace(number):
            done["neighbors"] = links["neighbors"]
        if sent := {said.agent: dict(said.peer_values) for said in proposals if said.peer_values}:
            done["sent"] = sent
        if changed := {name: of for (name, when), of in self._heard_as.items() if when == number and of}:
            done["filtered"] = changed
        self.trace.append(done)

    def honest_values(self) -> list[Value]:
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
            yield from self._hear(number, proposals)
            replies = yield self._vote_asks(number, proposals)
            votes = {agent.name: _decision(reply) for agent, reply in zip(self.agents, replies, strict=True)}
            stopped = self.stops(votes)
            self.close_round(number, proposals, votes, stopped)
            if stopped:
                return number, True
        return self.parameters.max_rounds, False

    def _hear(self, number: int, proposals: Sequence[Proposal]) -> Generator[list[Ask], list[Reply], None]:
        """Let the messages of a round pass the filter of each honest agent; with `scored` they are asked for scores.

        Its own message counts as the value that it holds, also where it was silent.
        """
        chosen = self.parameters.filter
        if isinstance(chosen, NoFilter):
            return
        honest = {agent.name: agent for agent in self.honest}
        for agent in self.honest:
            seen = {said.agent: said.value for said in self.visible(agent, number, proposals)}
            self._received[agent.name].append(seen | {agent.name: agent.current_value})

        def scoring(name: str, peers: tuple[str, ...]) -> Ask:
            return self._ask(honest[name], number, SCORE, proposals, peers)

        changed, _ = yield from passed(chosen, self._received, _apart, scoring)
        self._heard_as |= {(name, number): heard for name, heard in changed.items()}

    def _vote_asks(self, number: int, proposals: Sequence[Proposal]) -> list[Ask]:
        """Return the asks of a vote, and add its round to the history.

        It is not yet among those that the vote is shown: Figures 7 and 10 call them "previous rounds".
        """
        asks = [self._ask(agent, number, "vote", proposals) for agent in self.agents]
        self.history.append(proposals)
        return asks

    def _ask(
        self, agent: Agent, number: int, phase: str, proposals: Sequence[Proposal], scored: tuple[str, ...] = ()
    ) -> Ask:
        p, role = self.parameters, agent.seat.role
        now = self.visible(agent, number, proposals)
        history = (
            "(Earlier rounds are not shown)" if self.history and not p.history_rounds else self._history_text(agent)
        )
        values = places(agent, number, p, history, self._this_round_text(agent, now), self._notes_text(agent))
        if phase == "propose":
            kind = agent.seat.policy.kind
            # A language model is offered it only by a policy that needs it: others are not told what it is for.
            offered = p.equivocation and role == BYZANTINE and (not kind.asks_model or kind.needs == "equivocation")
            peers = self.links.neighbors(agent.name) if offered else None
            model = proposal_model(
                role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars, peers, p.values == "real"
            )
            return self.ask(agent, number, phase, values, now, model, p.propose)
        if phase == SCORE:
            values["scored"] = ", ".join(scored)
            return self.ask(agent, number, phase, values, now, scores_model(scored), p.score)
        vote = ByzantineVote if role == BYZANTINE else HonestVote
        return self.ask(agent, number, phase, values, now, vote, p.vote)

    def _this_round_text(self, agent: Agent, now: Sequence[Proposal]) -> str:
        return proposals_text(agent.name, now)

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, the latest first; "" in round 1."""
        return "\n".join(
            f"Round {number}:\n{proposals_text(agent.name, self.seen_of(agent, number))}"
            for number in reversed(self._shown_rounds())
        )

    def _notes_text(self, agent: Agent) -> str:
        """Return the agent's own notes of the last rounds in which it wrote one: `history_rounds`, at least one."""
        shown = agent.notes[-max(1, self.parameters.history_rounds) :]
        return "\n".join(f"Round {number}: {note}" for number, note in shown)


class PublishedCodeProtocol(PaperProtocol):
    """As the authors' code plays (`rules: published_code`; docs/reference/consensus.md says what is not played).

    A vote is shown its own round as the latest of the history, five notes are shown, reasons in the history are cut,
    and an agent that is silent sends its old value once more. Agents stand by letter: agent_10 before agent_2.
    """

    def _vote_asks(self, number: int, proposals: Sequence[Proposal]) -> list[Ask]:
        """Return the asks of a vote: main.py adds its round to the history (`_update_round_summaries`) before it."""
        self.history.append(proposals)
        return [self._ask(agent, number, "vote", proposals) for agent in self.agents]

    def _this_round_text(self, agent: Agent, now: Sequence[Proposal]) -> str:
        return published_vote_text(agent.name, now)

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, a line each, the latest first; "" in round 1."""
        return "\n".join(
            published_round_text(number, self.seen_of(agent, number), _PUBLISHED_CHARS)
            for number in reversed(self._shown_rounds())
        )

    def _notes_text(self, agent: Agent) -> str:
        shown = agent.notes[-_PUBLISHED_NOTES:]
        return "\n".join(published_text("note", number=number, note=note) for number, note in shown)

    def silent(self, agent: Agent, justification: str | None = None) -> Proposal:
        """Return the old value of an agent that proposes nothing, with a sentence of the program if it failed."""
        if justification is None:
            justification = published_text("failed", attempts=self.parameters.retries + 1)
        return Proposal(agent.name, agent.current_value, justification)


def _apart(value: Value, others: Sequence[Value]) -> float:
    """Return the distance of a value from the lower median of others."""
    return abs(value - median_low(others))


def _decision(reply: Reply) -> str | None:
    return None if reply.value is None else str(reply.value.model_dump()["decision"])
