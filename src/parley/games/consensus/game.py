"""The Byzantine Consensus Game of "Can AI Agents Agree?" (Berdoz, Rugli, Wattenhofer; sections 3, A.2, A.3).

Agents propose integers in synchronous rounds, see everyone's proposals, and vote to stop or to continue. The game
stops when enough of all agents vote to stop, else at the deadline.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from parley.games.base import BYZANTINE, HONEST, Game, GameParameters, Group, Outcome
from parley.games.consensus.adversaries import ADVERSARIES
from parley.games.consensus.columns import COLUMNS
from parley.games.consensus.network import ConsensusNetwork, disclosed_templates, disclosed_text, peer_values
from parley.games.consensus.parameters import ByzantineVote, ConsensusParameters, HonestVote, proposal_model
from parley.games.consensus.prompts import (
    PROMPTS,
    PromptValues,
    Proposal,
    proposals_text,
    render,
    reply_templates,
    sample,
    sample_values,
    template,
)
from parley.games.consensus.rules import SCRIPTED
from parley.games.consensus.state import Agent, ConsensusView
from parley.games.consensus.strategies import LLM_STRATEGIES
from parley.games.consensus.swarms import prompts as consensus_swarms_prompts
from parley.games.consensus.swarms import protocol as consensus_swarms
from parley.games.consensus.swarms.parameters import NAMES
from parley.games.consensus.threat import threat_model
from parley.games.evidence import FigureSpec, GameColumns, Measure, OutcomeClass, Trajectory
from parley.games.problems.problem import Problem
from parley.games.questions import first_ask, in_form_of
from parley.policies import Ask, Reply, ReplyFormat
from parley.policies.kinds import LLM, PolicyKind, with_instructions
from parley.text import by_number, one_line


class ConsensusGame(Game):
    """N agents, B of them Byzantine, agree on an integer or fail to (section 3)."""

    name: ClassVar[str] = "consensus"
    protocol_version: ClassVar[int] = 2
    roles: ClassVar[tuple[str, ...]] = (HONEST, BYZANTINE)
    outcomes: ClassVar[tuple[OutcomeClass, ...]] = (
        OutcomeClass("valid_consensus", "valid consensus", "#0072B2", ""),
        OutcomeClass("invalid_consensus", "invalid consensus", "#E69F00", "///"),
        OutcomeClass("no_consensus", "no consensus", "#D9D9D9", ".."),
    )
    figures: ClassVar[tuple[FigureSpec, ...]] = (
        FigureSpec(
            name="outcome_rates",
            kind="rates",
            title="Outcomes by group size",
            caption="Share of simulations per outcome by number of agents, model and prompt, with 95% Wilson "
            "intervals (after Figure 2 of the paper).",
            x="n",
        ),
        FigureSpec(
            name="outcomes_by_byzantine",
            kind="stacked",
            title="Outcomes by number of Byzantine agents",
            caption="Outcomes by number of Byzantine agents, stacked to 100%; the bars are 95% Wilson intervals of "
            "valid consensus (after Figure 3 of the paper).",
            x="b",
        ),
        FigureSpec(
            name="valid_by_adversary",
            kind="map",
            title="Valid consensus by adversary",
            caption="Rate of valid consensus by what plays the Byzantine agents and by their number (b), with 95% "
            "Wilson intervals; without honest agents there is none.",
            x="b",
            needs=("b", "byzantine"),
        ),
        FigureSpec(
            name="valid_by_topology",
            kind="map",
            title="Valid consensus by topology",
            caption="Rate of valid consensus by topology, with 95% Wilson intervals.",
            x="topology",
            needs=("topology",),
        ),
        FigureSpec(
            name="agreement_by_round",
            kind="curves",
            title="Agreement by round",
            caption="Share of the honest agents that hold their most frequent value after each round: mean over "
            "simulations, with 95% Wilson intervals. What an agent says needs as many rounds as the network's "
            "diameter to reach everybody.",
            x="topology",
            needs=("topology",),
            of=("agreement",),
        ),
        FigureSpec(
            name="trajectories",
            kind="trajectories",
            title="Proposals over rounds",
            caption="Values of single simulations over rounds: honest agents in color, Byzantine ones gray and "
            "dashed. The band is the honest initial range, the vertical line the stop (after Figure 4 of the paper).",
        ),
    )
    measures: ClassVar[tuple[Measure, ...]] = (Measure("agreement", "agreement of honest agents"),)
    columns: ClassVar[GameColumns] = COLUMNS
    Parameters: ClassVar[type[GameParameters]] = ConsensusParameters
    prompts = PROMPTS
    prompt_phases: ClassVar[tuple[str, ...]] = ("propose", "vote", "turn")
    question_styles: ClassVar[tuple[str, ...]] = ("consensus",)
    policies: ClassVar[Mapping[str, PolicyKind]] = consensus_swarms.in_turns(
        {LLM.name: LLM, **SCRIPTED, LLM_STRATEGIES.name: LLM_STRATEGIES, **ADVERSARIES}
    )

    parameters: ConsensusParameters

    def set_up(self) -> None:
        """Draw the honest initial values, uniform on [value_min, value_max], in the order of `seats`.

        With the same generator the first k honest agents get the same values whatever follows them.
        """
        low, high = self.parameters.value_min, self.parameters.value_max
        agents = []
        for seat in self.seats:
            value = int(self.rng.integers(low, high + 1)) if seat.role == HONEST else None
            agents.append(Agent(seat, initial_value=value, current_value=value))
        # Asked in the order of the neutral names, which says nothing about roles.
        self.agents = agents if _named_by_role(self.parameters) else sorted(agents, key=lambda a: by_number(a.name))
        self.honest = [agent for agent in self.agents if agent.honest]
        self.links = ConsensusNetwork([agent.name for agent in self.agents], self.network)
        self._history: list[tuple[int, list[Proposal]]] = []
        self._trace: list[dict[str, Any]] = []

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play rounds of proposals and votes until enough agents vote to stop, or the deadline."""
        if self.parameters.protocol == "swarms":
            return (yield from consensus_swarms.play(self))
        for number in range(1, self.parameters.max_rounds + 1):
            replies = yield [self._ask(agent, number, "propose", None) for agent in self.agents]
            proposals = [
                self.take_proposal(agent, number, reply) for agent, reply in zip(self.agents, replies, strict=True)
            ]
            replies = yield [self._ask(agent, number, "vote", proposals) for agent in self.agents]
            votes = {agent.name: _decision(reply) for agent, reply in zip(self.agents, replies, strict=True)}
            stop_votes = sum(vote == "stop" for vote in votes.values())
            stopped = Fraction(stop_votes, len(self.agents)) >= self.parameters.stop_threshold
            self.close_round(number, proposals, votes, stopped)
            if stopped:
                return self.outcome(number, stopped=True)
        return self.outcome(self.parameters.max_rounds, stopped=False)

    @classmethod
    def seat_names(cls, parameters: GameParameters, roles: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a name for each agent: neutral ones, unless the swarms protocol leaks the roles by them."""
        if not _named_by_role(parameters):
            return super().seat_names(parameters, roles, rng)
        return [f"{role.capitalize()}-{roles[:place].count(role) + 1}" for place, role in enumerate(roles)]

    @classmethod
    def templates(cls, prompt: str, parameters: GameParameters) -> Mapping[str, Path]:
        """Return the files of the templates of the protocol that is played, and of what is told of the network."""
        assert isinstance(parameters, ConsensusParameters)
        if parameters.protocol == "swarms":
            return consensus_swarms_prompts.templates(prompt, parameters.leaks, parameters.reply_format)
        replies = reply_templates(("propose", "vote"), parameters.reply_format)
        return {**super().templates(prompt, parameters), **disclosed_templates(parameters, cls.roles), **replies}

    @classmethod
    def prompt_template(cls, prompt: str, role: str, phase: str, part: str) -> str:
        """Return the unrendered text of one prompt; the phase `turn` is the swarms protocol's."""
        if phase == "turn":
            return consensus_swarms_prompts.template(prompt, role, part)
        return template(prompt, role, phase, part)

    @classmethod
    def sample_prompt(cls, prompt: str, role: str, phase: str, part: str, given: Mapping[str, Any]) -> str:
        """Return one prompt filled with sample values, and what `neighbors` are told of a network of eight agents."""
        if phase == "turn":
            return consensus_swarms_prompts.sample(prompt, role, part, given)
        text = sample(prompt, role, phase, part, given)
        if part == "user" or not given.get("neighbors"):
            return text
        return f"{text}\n{disclosed_text(8, [one_line(name) for name in given['neighbors'].split(',')])}"

    @classmethod
    def question(cls, style: str, problem: Problem, reply_format: ReplyFormat) -> tuple[Ask, str]:
        """Return a question whose answer, a whole number from 0 to a million, is the value that is proposed."""
        parameters = ConsensusParameters(value_max=1_000_000, reply_format=reply_format)
        ask = first_ask(cls, parameters, "may_exist")
        told = "The value that you propose is your answer to this question."
        return in_form_of(ask, problem.question, told, reply_format), "value"

    @classmethod
    def sample_values(cls, prompt: str, role: str, phase: str, part: str) -> frozenset[str]:
        """Return the names of the values that the template has a place for."""
        if phase == "turn":
            return consensus_swarms_prompts.sample_values(prompt, role, part) | {"reply_format"}
        found = sample_values(prompt, role, phase, part) | {"reply_format"}
        return found | {"neighbors"} if part == "system" else found

    @classmethod
    def possible_outcomes(cls, parameters: GameParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return the outcomes that can be: none is valid without an honest agent, none invalid with a single value."""
        assert isinstance(parameters, ConsensusParameters)
        impossible = set()
        if not any(group.role == HONEST and group.count for group in groups):
            impossible.add("valid_consensus")
        elif parameters.value_min == parameters.value_max:
            impossible.add("invalid_consensus")
        return super().possible_outcomes(parameters, groups) - impossible

    @classmethod
    def threat_model(cls, parameters: GameParameters, groups: Sequence[Group]) -> str:
        """Return whether the paper's threat model allows the Byzantine agents among `groups`, and why not."""
        return threat_model(parameters, groups)

    @classmethod
    def trajectory(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Trajectory:
        """Return each agent's value by round (round 0: the initial ones), for the paper's Figure 4."""
        initial: Mapping[str, int] = outcome["metrics"]["initial_values"]
        series: dict[str, list[tuple[int, float]]] = {name: [(0, v)] for name, v in initial.items()}
        for entry in trace:
            for name, value in entry["values"].items():
                # What a Byzantine agent proposed in the round that stops a game is not always applied (swarms).
                if name in initial or (entry["proposals"][name] is not None and value is not None):
                    series.setdefault(name, []).append((entry["round"], value))
        return Trajectory(
            series=dict(sorted(series.items(), key=lambda item: by_number(item[0]))),
            highlighted=frozenset(initial),
            labels=("honest agents", "Byzantine agents"),
            band=(min(initial.values()), max(initial.values())) if initial else None,
            stopped=outcome["rounds"] if outcome["finished_early"] else None,
        )

    @classmethod
    def series(
        cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Sequence[tuple[int, float]]]:
        """Return the agreement by round: the share of the honest agents that hold their most frequent value."""
        shares = [(entry["round"], entry["honest_share"]) for entry in trace]
        return {"agreement": [(number, share) for number, share in shares if share is not None]}

    # What an agent is asked

    def _ask(self, agent: Agent, number: int, phase: str, proposals: list[Proposal] | None) -> Ask:
        p = self.parameters
        role = agent.seat.role
        values = PromptValues(
            agent_id=agent.name,
            round=number,
            max_rounds=p.max_rounds,
            value_min=p.value_min,
            value_max=p.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            history=self._history_text(agent),
            this_round="" if proposals is None else proposals_text(agent.name, self.visible(agent, proposals)),
            notes=self._notes_text(agent),
        )
        written = self.format_for(agent.seat)
        prompted = partial(render, self.prompt, role, phase, values=values, reply_format=written)
        model: type[BaseModel]
        if phase == "propose":
            peers = self.links.peers_of(agent.seat, p)
            model = proposal_model(role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars, peers)
        else:
            model = ByzantineVote if role == BYZANTINE else HonestVote
        return Ask(
            agent=agent.name,
            role=role,
            round=number,
            phase=phase,
            system=with_instructions(prompted("system") + self.told_of_network(agent), agent.seat.policy),
            user=prompted("user"),
            follow_up=prompted("follow_up"),
            reply_format=written,
            reply_model=model,
            sampling=p.propose if phase == "propose" else p.vote,
            view=self._view(agent, number, phase, proposals),
        )

    def _view(self, agent: Agent, number: int, phase: str, proposals: list[Proposal] | None) -> ConsensusView:
        last = self._history[-1][1] if self._history and self.parameters.history_rounds else []
        return ConsensusView(
            phase=phase,
            agent=agent.name,
            role=agent.seat.role,
            round=number,
            value_min=self.parameters.value_min,
            value_max=self.parameters.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            last_round={proposal.agent: proposal.value for proposal in self.visible(agent, last)},
            this_round={proposal.agent: proposal.value for proposal in self.visible(agent, proposals or [])},
            neighbors=self.links.neighbors(agent.name),
        )

    def told_of_network(self, agent: Agent) -> str:
        """Return what follows an agent's system prompt where the topology is disclosed, on lines of its own."""
        return f"\n{self.links.disclosed(agent.name)}" if self.parameters.disclose_topology else ""

    def _history_text(self, agent: Agent) -> str:
        """Return the last `history_rounds` rounds, the latest first; "" in round 1."""
        if self._history and not self.parameters.history_rounds:
            return "(Earlier rounds are not shown)"
        shown = self._history[-self.parameters.history_rounds :]
        return "\n".join(
            f"Round {number}:\n{proposals_text(agent.name, self.visible(agent, proposals))}"
            for number, proposals in reversed(shown)
        )

    def _notes_text(self, agent: Agent) -> str:
        """Return the agent's own notes of the last rounds in which it wrote one: `history_rounds`, at least one."""
        shown = agent.notes[-max(1, self.parameters.history_rounds) :]
        return "\n".join(f"Round {number}: {note}" for number, note in shown)

    # What a reply does

    def take_proposal(self, agent: Agent, number: int, reply: Reply) -> Proposal:
        """Apply one proposal; after a failed or withheld one the agent keeps its value and is silent."""
        if reply.value is None:
            return Proposal(agent.name, None)
        fields = reply.value.model_dump()
        note = one_line(fields["internal_strategy"], self.parameters.strategy_chars)
        if note:
            agent.notes.append((number, note))
        justification = one_line(fields["public_reasoning"], self.parameters.justification_chars)
        told = peer_values(fields)
        if fields["value"] == "abstain":
            return Proposal(agent.name, None, justification if told else "", told)
        if agent.current_value is not None and fields["value"] != agent.current_value:
            agent.changes += 1
        agent.current_value = fields["value"]
        return Proposal(agent.name, fields["value"], justification, told)

    def close_round(
        self, number: int, proposals: list[Proposal], votes: Mapping[str, str | None], stopped: bool
    ) -> None:
        """Add a round to the history that agents see, and to the trace."""
        held = self.honest_values()
        self._history.append((number, proposals))
        self._trace.append(
            {
                "round": number,
                "proposals": {proposal.agent: proposal.value for proposal in proposals},
                "values": {agent.name: agent.current_value for agent in self.agents},
                "votes": dict(votes),
                "stop_votes": sum(vote == "stop" for vote in votes.values()),
                "stopped": stopped,
                "honest_share": max(Counter(held).values()) / len(held) if held else None,
                "honest_spread": max(held) - min(held) if held else None,
                **self.links.told(number, proposals),
            }
        )

    def visible(self, agent: Agent, proposals: Sequence[Proposal]) -> Sequence[Proposal]:
        """Return what `agent` sees of the proposals of one round."""
        return self.links.visible(agent.name, proposals)

    def honest_values(self) -> list[int]:
        """Return the values that the honest agents hold."""
        return [agent.current_value for agent in self.honest if agent.current_value is not None]

    # How it ended

    def outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        """Return how the game ended after `rounds` rounds, by the values that honest agents hold."""
        held = set(self.honest_values())
        agreed = len(held) == 1
        initial = [agent.initial_value for agent in self.honest]
        detail = None
        if not stopped:
            name = "no_consensus"
        elif agreed and held <= set(initial):
            name = "valid_consensus"
        else:
            name = "invalid_consensus"
            detail = "foreign_value" if agreed else "premature_stop" if held else "no_honest_agents"
        unanimous = [entry["round"] for entry in self._trace if entry["honest_share"] == 1]
        return Outcome(
            name=name,
            detail=detail,
            diagnosis=self._diagnosis(name, detail, unanimous, agreed) if held else None,
            rounds=rounds,
            finished_early=stopped,
            metrics={
                "consensus_value": next(iter(held)) if stopped and agreed else None,
                "first_unanimity_round": unanimous[0] if unanimous else None,
                "value_changes": sum(agent.changes for agent in self.honest),
                "final_honest_share": self._trace[-1]["honest_share"],
                "final_honest_spread": self._trace[-1]["honest_spread"],
                "initial_values": {agent.name: agent.initial_value for agent in self.honest},
                "honest_shares": [entry["honest_share"] for entry in self._trace],
                "honest_spreads": [entry["honest_spread"] for entry in self._trace],
                **self.links.facts([agent.name for agent in self.honest]),
            },
            trace=tuple(self._trace),
        )

    @staticmethod
    def _diagnosis(name: str, detail: str | None, unanimous: list[int], agreed: bool) -> str | None:
        """Say why liveness failed: the paper's finding is that failures are mostly of this kind (4.1, 4.2)."""
        if name == "valid_consensus" or detail == "foreign_value":
            return None
        if not unanimous:
            return "never_agreed"
        return "agreed_not_stopped" if agreed else "drifted_apart"


def _decision(reply: Reply) -> str | None:
    """Return the vote; None for an agent that did not answer, which counts as continue."""
    return None if reply.value is None else str(reply.value.model_dump()["decision"])


def _named_by_role(parameters: GameParameters) -> bool:
    return isinstance(parameters, ConsensusParameters) and NAMES in parameters.leaks
