"""How a consensus game goes (sections 3, A.2, A.3): who is asked what, in which order, and when votes end it.

A protocol is the paper's, that of its authors' code, or that of the published Swarms code.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from statistics import median_low
from typing import Any

from pydantic import BaseModel

from parley.games.consensus import prompts
from parley.games.consensus.parameters import (
    EARLY_VOTE,
    MISSING_VALUE,
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
    turn_model,
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
        self._shown: dict[tuple[str, int], str] = {}  # the same as text
        self._template = cache(prompts.PROMPTS.template)  # of this game, whose prompts are few
        self._said: dict[str, list[Mapping[str, Said]]] = {agent.name: [] for agent in agents}
        # Of honest agents with a filter: what was said to them by round, and what they heard in its place.
        self._received: dict[str, list[Mapping[str, Value | None]]] = {agent.name: [] for agent in self.honest}
        self._heard_as: dict[tuple[str, int], Mapping[str, Value | None]] = {}
        self.goal = parameters.goal
        self.secret = secret
        self._thresholds = {scripted: prompts.threshold_text(parameters, scripted) for scripted in (True, False)}

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
        threshold = self._thresholds[agent.seat.policy.kind.rule is not None]

        def prompted(part: str) -> str:
            text = self._template(agent.seat.prompt, role, phase, part, written, early, self.goal, threshold)
            return fill(text, values, doubled=phase == prompts.TURN)

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
        return f"\n{fill(text_of(prompts.disclosed_template(self.parameters)), values)}"

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
        values = prompts.places(agent, number, p, history, self._this_round_text(agent, now), self._notes_text(agent))
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
        return prompts.proposals_text(agent.name, now)

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, the latest first; "" in round 1."""
        return "\n".join(self._round_text(agent, number) for number in reversed(self._shown_rounds()))

    def _round_text(self, agent: Agent, number: int) -> str:
        key = agent.name, number
        if key not in self._shown:
            self._shown[key] = f"Round {number}:\n{prompts.proposals_text(agent.name, self.seen_of(agent, number))}"
        return self._shown[key]

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
        return prompts.published_vote_text(agent.name, now)

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, a line each, the latest first; "" in round 1."""
        return "\n".join(
            prompts.published_round_text(number, self.seen_of(agent, number), _PUBLISHED_CHARS)
            for number in reversed(self._shown_rounds())
        )

    def _notes_text(self, agent: Agent) -> str:
        shown = agent.notes[-_PUBLISHED_NOTES:]
        return "\n".join(prompts.published_text("note", number=number, note=note) for number, note in shown)

    def silent(self, agent: Agent, justification: str | None = None) -> Proposal:
        """Return the old value of an agent that proposes nothing, with a sentence of the program if it failed."""
        if justification is None:
            justification = prompts.published_text("failed", attempts=self.parameters.retries + 1)
        return Proposal(agent.name, agent.current_value, justification)


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
            "proposals": prompts.turn_proposals_text(now),
            "history": self._history_text(agent),
            "current_value": agent.current_value,
            "private_notes": note if noted == number - 1 and note else "None.",
        }
        model = turn_model(agent.seat.role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars)
        return self.ask(agent, number, prompts.TURN, values, now, model, p.turn)

    def _listed(self) -> list[Proposal]:
        return [self._public[agent.name] for agent in self.agents if agent.name in self._public]

    def _history_text(self, agent: Agent) -> str:
        shown = self._shown_rounds()
        if self.history and not shown:
            return "Earlier rounds are not shown."
        blocks = [prompts.turn_proposals_text(self.seen_of(agent, number)) for number in shown]
        return "\n".join(blocks) or "No previous rounds."


def _apart(value: Value, others: Sequence[Value]) -> float:
    """Return the distance of a value from the lower median of others."""
    return abs(value - median_low(others))


def _decision(reply: Reply) -> str | None:
    return None if reply.value is None else str(reply.value.model_dump()["decision"])
