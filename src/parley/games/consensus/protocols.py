"""How a consensus game goes (sections 3, A.2, A.3): who is asked what, in which order, and when votes end it.

A protocol is the paper's (A.2), that of its authors' code, or that of the published Swarms code.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache

from pydantic import BaseModel

from parley.games.base import Game
from parley.games.consensus import prompts
from parley.games.consensus.filters import SCORE, apply_filters, scores_model
from parley.games.consensus.parameters import (
    EARLY_VOTE,
    MISSING_VALUE,
    Agent,
    ByzantineVote,
    ConsensusParameters,
    ConsensusRound,
    ConsensusView,
    HonestVote,
    Proposal,
    Said,
    Signer,
    Value,
    proposal_model,
    turn_model,
)
from parley.games.network import Links
from parley.games.parameters import BYZANTINE
from parley.identity import digest
from parley.policies import Ask, Reply
from parley.text import one_line

# What the authors' code (`rules: published_code`) shows of the past: notes, and characters of a reason.
_PUBLISHED_NOTES = 5


Heard = Mapping[str, Said]  # what one agent heard of a round, by name: its own word and its neighbors'
Unheard = Mapping[str, Sequence[str]]  # by agent, the peers whose message its filter dropped
_Received = dict[str, list[Mapping[str, Value | None]]]  # by honest agent and round: what was said to it, by name


class Protocol(ABC):
    """Who is asked what, in which order, and when votes end the game; with the agents, the history and the trace.

    `agents` are in the order in which they are asked, which says nothing about roles.
    """

    def __init__(self, game: Game[ConsensusParameters], agents: Sequence[Agent]) -> None:
        self.game, self.parameters, self.goal, self.agents = game, game.parameters, game.parameters.goal, agents
        names = [agent.name for agent in self.agents]
        self.honest = [agent for agent in self.agents if agent.honest]
        self.links = Links(names, game.network)
        self.history: dict[str, list[Heard]] = {name: [] for name in names}  # by agent and round that is over
        self.trace: list[ConsensusRound] = []
        # What signatures are made of (`Signer`): no agent sees it.
        self._secret = digest([game.name, "signatures", [(agent.name, agent.initial_value) for agent in self.agents]])
        self._round_text = cache(self.round_text)

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
        now: Heard,
        reply_model: type[BaseModel],
    ) -> Ask:
        """Return what an agent is asked; `now` is what it sees of this round, as far as it may be known."""
        p, earlier = self.parameters, self.history[agent.name]
        last = earlier[number - 2] if number > 1 and p.history_rounds else {}
        view = ConsensusView(
            phase=phase,
            agent=agent.name,
            role=agent.seat.role,
            prompt=agent.seat.prompt,
            round=number,
            value_min=p.value_min,
            value_max=p.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            last_round={name: said.value for name, said in last.items()},
            this_round={name: said.value for name, said in now.items()},
            neighbors=self.links.neighbors(agent.name),
            early_vote=EARLY_VOTE in p.leaks,
            earlier=tuple(earlier),
            goal=self.goal,
            signer=Signer(agent.name, self._secret),
        )
        network = {"agents": len(self.agents), "neighbors": ", ".join(view.neighbors) or "none"}
        return self.game.ask(agent.seat, number, phase, {**values, **network}, reply_model, view)

    def heard(self, agent: Agent, proposals: Iterable[Proposal]) -> dict[str, Said]:
        """Return what `agent` hears of these: its own proposal and its neighbors', as they were sent to it."""
        seen, name = self.links.seen_by(agent.name), agent.name
        return {sent.agent: sent.said_to(name) for sent in proposals if sent.agent in seen}

    def remember(self, heard: Mapping[str, Heard]) -> None:
        """Add what each agent heard of a round to the history."""
        for name, said in heard.items():
            self.history[name].append(said)

    def shown_history(self, agent: Agent) -> list[str]:
        """Return the rounds that prompts show, the latest first: the last `history_rounds` of those that are over."""
        over = len(self.history[agent.name])
        first = max(0, over - self.parameters.history_rounds) + 1
        return [self._round_text(agent.name, number) for number in range(over, first - 1, -1)]

    @abstractmethod
    def round_text(self, name: str, number: int) -> str:
        """Return a round of an agent's history, from 1, as prompts show it."""

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
        told: Mapping[str, Value | str] = fields.get("peer_values", {})
        sent = {
            name: None if isinstance(value, str) else value for name, value in told.items() if value != fields["value"]
        }
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
        self,
        number: int,
        proposals: Sequence[Proposal],
        votes: Mapping[str, str | None],
        stopped: bool,
        unheard: Unheard | None = None,
    ) -> None:
        """Add a round to the trace."""
        held = self.honest_values()
        done: ConsensusRound = {
            "round": number,
            "proposals": {proposal.agent: proposal.value for proposal in proposals},
            "values": {agent.name: agent.current_value for agent in self.agents},
            "votes": dict(votes),
            "stop_votes": sum(vote == "stop" for vote in votes.values()),
            "stopped": stopped,
            "honest_share": self.goal.share(held),
            "honest_spread": max(held) - min(held) if held else None,
        }
        # Left out where there is nothing to say: everyone hears everyone, everyone told all the same.
        if links := self.links.trace(number):
            done["neighbors"] = links["neighbors"]
        if sent := {said.agent: dict(said.peer_values) for said in proposals if said.peer_values}:
            done["sent"] = sent
        if unheard:
            done["filtered"] = {name: dict.fromkeys(peers) for name, peers in unheard.items()}
        self.trace.append(done)

    def honest_values(self) -> list[Value]:
        """Return the values that the honest agents hold."""
        return [agent.current_value for agent in self.honest if agent.current_value is not None]


class PaperProtocol(Protocol):
    """In each round all agents propose at once, see the proposals, and vote at once."""

    # Whether the history that a vote is shown has its own round: Figures 7 and 10 call them "previous rounds".
    votes_on_history = False

    def play(self) -> Generator[list[Ask], list[Reply], tuple[int, bool]]:
        """Play rounds of proposals and votes until enough agents vote to stop, or the deadline."""
        received: _Received = {agent.name: [] for agent in self.honest}
        for number in range(1, self.parameters.max_rounds + 1):
            replies = yield [self._ask(agent, number, "propose", {}) for agent in self.agents]
            proposals = [
                self.take_proposal(agent, number, reply) for agent, reply in zip(self.agents, replies, strict=True)
            ]
            heard = {agent.name: self.heard(agent, proposals) for agent in self.agents}
            unheard = yield from self._filter(number, heard, received)
            if self.votes_on_history:
                self.remember(heard)
            asks = [self._ask(agent, number, "vote", heard[agent.name]) for agent in self.agents]
            if not self.votes_on_history:
                self.remember(heard)
            replies = yield asks
            votes = {agent.name: _decision(reply) for agent, reply in zip(self.agents, replies, strict=True)}
            stopped = self.stops(votes)
            self.close_round(number, proposals, votes, stopped, unheard)
            if stopped:
                return number, True
        return self.parameters.max_rounds, False

    def _filter(
        self, number: int, heard: Mapping[str, dict[str, Said]], received: _Received
    ) -> Generator[list[Ask], list[Reply], Unheard]:
        """Drop of what honest agents heard what their filters drop, and return whom each does not hear.

        An agent's own message counts as the value that it holds, also where it was silent.
        """
        if not self.parameters.filter:
            return {}
        honest = {agent.name: agent for agent in self.honest}
        for name, agent in honest.items():
            values = {peer: said.value for peer, said in heard[name].items()}
            received[name].append(values | {name: agent.current_value})

        def scoring(name: str, peers: tuple[str, ...]) -> Ask:
            return self._ask(honest[name], number, SCORE, heard[name], peers)

        unheard = yield from apply_filters(self.parameters.filter, received, scoring)
        for name, peers in unheard.items():
            for peer in peers:
                del heard[name][peer]
        return unheard

    def _ask(self, agent: Agent, number: int, phase: str, now: Heard, scored: tuple[str, ...] = ()) -> Ask:
        p, role = self.parameters, agent.seat.role
        history = "\n".join(self.shown_history(agent))
        if self.history[agent.name] and not p.history_rounds:
            history = "(Earlier rounds are not shown)"
        values = prompts.places(agent, number, p, history, self.this_round_text(agent, now), self.notes_text(agent))
        if phase == "propose":
            # A language model is not offered it: it is not told what it is for.
            offered = p.equivocation and role == BYZANTINE and not agent.seat.policy.kind.asks_model
            peers = self.links.neighbors(agent.name) if offered else None
            model = proposal_model(
                role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars, peers, p.values == "real"
            )
            return self.ask(agent, number, phase, values, now, model)
        if phase == SCORE:
            values["scored"] = ", ".join(scored)
            return self.ask(agent, number, phase, values, now, scores_model(scored))
        vote = ByzantineVote if role == BYZANTINE else HonestVote
        return self.ask(agent, number, phase, values, now, vote)

    def this_round_text(self, agent: Agent, now: Heard) -> str:
        """Return what an agent heard of the round that is played."""
        return prompts.proposals_text(agent.name, now)

    def round_text(self, name: str, number: int) -> str:
        """Return a round of an agent's history."""
        return f"Round {number}:\n{prompts.proposals_text(name, self.history[name][number - 1])}"

    def notes_text(self, agent: Agent) -> str:
        """Return the agent's own notes of the last rounds in which it wrote one: `history_rounds`, at least one."""
        shown = agent.notes[-max(1, self.parameters.history_rounds) :]
        return "\n".join(f"Round {number}: {note}" for number, note in shown)


class PublishedCodeProtocol(PaperProtocol):
    """As the authors' code plays (`rules: published_code`; docs/reference/consensus.md says what is not played).

    A vote is shown its own round as the latest of the history, five notes are shown, reasons in the history are cut,
    and an agent that is silent sends its old value once more. Agents stand by letter: agent_10 before agent_2.
    """

    votes_on_history = True  # main.py adds the round (`_update_round_summaries`) before its vote

    def this_round_text(self, agent: Agent, now: Heard) -> str:
        """Return what an agent heard of the round that is played."""
        return prompts.published_vote_text(agent.name, now)

    def round_text(self, name: str, number: int) -> str:
        """Return a round of an agent's history, in a line."""
        return prompts.published_round_text(number, self.history[name][number - 1])

    def notes_text(self, agent: Agent) -> str:
        """Return the last five notes of an agent."""
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

    Without the leak `early_vote`, a vote of round r is about the values at the end of round r - 1, with which a stop
    ends the game: what was proposed in round r is in the trace, but is not applied. Votes of round 1 do not count.
    After an unusable reply an agent keeps its value, has no message and no notes, and no vote. A Byzantine agent that
    abstains keeps its value, but its message is public.
    """

    def __init__(self, game: Game[ConsensusParameters], agents: Sequence[Agent]) -> None:
        """Begin with what leaks: that somebody voted early, and the values of agents that said nothing yet."""
        super().__init__(game, agents)
        self._early_vote = EARLY_VOTE in self.parameters.leaks
        self._public: dict[str, Proposal] = {}  # the last value that each agent has told, with its message of now
        if MISSING_VALUE in self.parameters.leaks:
            self._public = {agent.name: Proposal(agent.name, agent.initial_value) for agent in self.agents}

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
            self.remember({agent.name: self.heard(agent, self._listed()) for agent in self.agents})
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
        p, now = self.parameters, self.heard(agent, self._listed())
        history = "\n".join(reversed(self.shown_history(agent))) or "No previous rounds."
        if self.history[agent.name] and not p.history_rounds:
            history = "Earlier rounds are not shown."
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
            "history": history,
            "current_value": agent.current_value,
            "private_notes": note if noted == number - 1 and note else "None.",
        }
        model = turn_model(agent.seat.role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars)
        return self.ask(agent, number, prompts.TURN, values, now, model)

    def _listed(self) -> list[Proposal]:
        return [self._public[agent.name] for agent in self.agents if agent.name in self._public]

    def round_text(self, name: str, number: int) -> str:
        """Return a round of an agent's history."""
        return prompts.turn_proposals_text(self.history[name][number - 1])


def _decision(reply: Reply) -> str | None:
    return None if reply.value is None else str(reply.value.model_dump()["decision"])
