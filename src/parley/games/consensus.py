"""The Byzantine Consensus Game of "Can AI Agents Agree?" (Berdoz, Rugli, Wattenhofer; sections 3, A.2, A.3).

Agents propose integers in synchronous rounds, see everyone's proposals, and vote to stop or to continue. The game
stops when enough of all agents vote to stop, else at the deadline.
"""

import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    create_model,
    model_validator,
)

from parley.games.base import (
    Ask,
    FigureSpec,
    Game,
    GameParameters,
    Outcome,
    OutcomeClass,
    Reply,
    Rule,
    Sampling,
    Seat,
    Trajectory,
)
from parley.games.consensus_prompts import PROMPTS, PromptValues, Proposal, proposals_text, render, sample, template
from parley.games.consensus_rules import RULES
from parley.text import one_line

HONEST = "honest"
BYZANTINE = "byzantine"


# Short, so that nobody's exponent makes an integer of a billion digits.
_SHARE = re.compile(r"-?\d{1,9}(\.\d{1,40})?(e-\d{1,2})?|-?\d{1,9}\s*/\s*\d{1,9}")


def _exact_share(value: Any) -> Fraction:
    """Read 0.66, "0.66" or "2/3" as the exact number that is written there."""
    if isinstance(value, Fraction):
        return value
    text = str(value).strip()
    plain = isinstance(value, int | float | str) and not isinstance(value, bool) and _SHARE.fullmatch(text)
    try:
        if plain:
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise ValueError("must be a number or a fraction like '2/3'")


Share = Annotated[
    Fraction,
    BeforeValidator(_exact_share),
    Field(gt=0, le=1),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1}, {"type": "string"}]}),
]


class ConsensusParameters(GameParameters):
    """Fixed parameters of the consensus game; the defaults are the paper's."""

    max_rounds: int = Field(default=50, ge=1, le=10_000, description="Deadline, in rounds (T_max).")
    value_min: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="Smallest value.")
    value_max: int = Field(default=50, ge=-1_000_000, le=1_000_000, description="Largest value.")
    stop_threshold: Share = Field(
        default=Fraction(66, 100),
        description="Share of all agents whose stop votes end the game, in (0, 1]; compared exactly.",
    )
    history_rounds: int = Field(default=1, ge=0, le=10_000, description="Earlier rounds that a prompt shows.")
    justification_chars: int = Field(
        default=200, ge=0, le=10_000, description="A peer's justification is cut to so many characters."
    )
    reasoning_chars: int = Field(default=600, ge=1, le=10_000, description="Longest public_reasoning.")
    strategy_chars: int = Field(default=400, ge=1, le=10_000, description="Longest internal_strategy.")
    propose: Sampling = Field(default=Sampling(temperature=0.5, max_tokens=300), description="Proposals.")
    vote: Sampling = Field(default=Sampling(temperature=0.3, max_tokens=200), description="Votes.")

    @model_validator(mode="after")
    def _ordered(self) -> "ConsensusParameters":
        if self.value_min > self.value_max:
            raise ValueError(f"value_min {self.value_min} must not be above value_max {self.value_max}")
        return self


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HonestVote(_Strict):
    """A vote of an honest agent (Figure 10)."""

    decision: Literal["stop", "continue"]


class ByzantineVote(_Strict):
    """A vote of a Byzantine agent, which may abstain (Figure 7)."""

    decision: Literal["stop", "continue", "abstain"]


@cache
def proposal_model(role: str, value_min: int, value_max: int, strategy: int, reasoning: int) -> type[BaseModel]:
    """Return the model of a proposal (Figures 5, 11, 12), with the bounds and lengths of this game."""
    value: Any = Annotated[int, Field(ge=value_min, le=value_max)]
    if role == BYZANTINE:
        value = value | Literal["abstain"]
    return create_model(
        f"{role.capitalize()}Proposal",
        __base__=_Strict,
        internal_strategy=(Annotated[str, Field(max_length=strategy)], ...),
        value=(value, ...),
        public_reasoning=(Annotated[str, Field(max_length=reasoning)], ...),
    )


@dataclass(frozen=True, slots=True)
class ConsensusView:
    """What one agent may see when it is asked, as data.

    `last_round` and `this_round` map every agent's name to its proposal, or None where it was silent;
    `this_round` is empty in the propose phase.
    """

    phase: str
    agent: str
    role: str
    round: int
    value_min: int
    value_max: int
    initial_value: int | None
    current_value: int | None
    last_round: Mapping[str, int | None]
    this_round: Mapping[str, int | None]


@dataclass
class _Agent:
    seat: Seat
    initial_value: int | None
    current_value: int | None
    notes: list[tuple[int, str]] = field(default_factory=list)
    changes: int = 0

    @property
    def honest(self) -> bool:
        return self.seat.role == HONEST


class ConsensusGame(Game):
    """N agents, B of them Byzantine, agree on an integer or fail to (section 3)."""

    name: ClassVar[str] = "consensus"
    protocol_version: ClassVar[int] = 1
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
            name="trajectories",
            kind="trajectories",
            title="Proposals over rounds",
            caption="Values of single simulations over rounds: honest agents in color, Byzantine ones gray and "
            "dashed. The band is the honest initial range, the vertical line the stop (after Figure 4 of the paper).",
        ),
    )
    Parameters: ClassVar[type[GameParameters]] = ConsensusParameters
    prompts = PROMPTS
    rules: ClassVar[Mapping[str, Rule]] = RULES

    parameters: ConsensusParameters

    def __init__(
        self, parameters: GameParameters, seats: tuple[Seat, ...], prompt: str, rng: np.random.Generator
    ) -> None:
        """Draw the honest initial values, uniform on [value_min, value_max], in the order of `seats`.

        With the same generator the first k honest agents get the same values whatever follows them.
        """
        super().__init__(parameters, seats, prompt, rng)
        low, high = self.parameters.value_min, self.parameters.value_max
        agents = []
        for seat in seats:
            value = int(rng.integers(low, high + 1)) if seat.role == HONEST else None
            agents.append(_Agent(seat, initial_value=value, current_value=value))
        # Asked in the order of the neutral names, which says nothing about roles.
        self._agents = sorted(agents, key=lambda agent: _name_key(agent.seat.name))
        self._honest = [agent for agent in self._agents if agent.honest]
        self._history: list[tuple[int, list[Proposal]]] = []
        self._trace: list[dict[str, Any]] = []

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play rounds of proposals and votes until enough agents vote to stop, or the deadline."""
        for number in range(1, self.parameters.max_rounds + 1):
            replies = yield [self._ask(agent, number, "propose", None) for agent in self._agents]
            proposals = [
                self._take_proposal(agent, number, reply) for agent, reply in zip(self._agents, replies, strict=True)
            ]
            replies = yield [self._ask(agent, number, "vote", proposals) for agent in self._agents]
            votes = {agent.seat.name: _decision(reply) for agent, reply in zip(self._agents, replies, strict=True)}
            self._history.append((number, proposals))
            stop_votes = sum(vote == "stop" for vote in votes.values())
            stopped = Fraction(stop_votes, len(self._agents)) >= self.parameters.stop_threshold
            self._trace.append(self._round_entry(number, proposals, votes, stopped))
            if stopped:
                return self._outcome(number, stopped=True)
        return self._outcome(self.parameters.max_rounds, stopped=False)

    @classmethod
    def prompt_template(cls, prompt: str, role: str, phase: str, part: str) -> str:
        """Return the unrendered text of one prompt."""
        return template(prompt, role, phase, part)

    @classmethod
    def sample_prompt(cls, prompt: str, role: str, phase: str, part: str, given: Mapping[str, Any]) -> str:
        """Return one prompt filled with sample values."""
        return sample(prompt, role, phase, part, given)

    @classmethod
    def trajectory(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Trajectory:
        """Return each agent's value by round (round 0: the initial ones), for the paper's Figure 4."""
        initial: Mapping[str, int] = outcome["metrics"]["initial_values"]
        series: dict[str, list[tuple[int, float]]] = {name: [(0, v)] for name, v in initial.items()}
        for entry in trace:
            for name, value in entry["values"].items():
                if name in initial or entry["proposals"][name] is not None:
                    series.setdefault(name, []).append((entry["round"], value))
        return Trajectory(
            series=dict(sorted(series.items(), key=lambda item: _name_key(item[0]))),
            highlighted=frozenset(initial),
            labels=("honest agents", "Byzantine agents"),
            band=(min(initial.values()), max(initial.values())) if initial else None,
            stopped=outcome["rounds"] if outcome["finished_early"] else None,
        )

    # What an agent is asked

    def _ask(self, agent: _Agent, number: int, phase: str, proposals: list[Proposal] | None) -> Ask:
        p = self.parameters
        role = agent.seat.role
        values = PromptValues(
            agent_id=agent.seat.name,
            round=number,
            max_rounds=p.max_rounds,
            value_min=p.value_min,
            value_max=p.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            history=self._history_text(agent),
            this_round="" if proposals is None else proposals_text(agent.seat.name, proposals),
            notes=self._notes_text(agent),
        )
        model: type[BaseModel]
        if phase == "propose":
            model = proposal_model(role, p.value_min, p.value_max, p.strategy_chars, p.reasoning_chars)
        else:
            model = ByzantineVote if role == BYZANTINE else HonestVote
        return Ask(
            agent=agent.seat.name,
            role=role,
            round=number,
            phase=phase,
            system=render(self.prompt, role, phase, "system", values),
            user=render(self.prompt, role, phase, "user", values),
            reply_model=model,
            sampling=p.propose if phase == "propose" else p.vote,
            view=self._view(agent, number, phase, proposals),
        )

    def _view(self, agent: _Agent, number: int, phase: str, proposals: list[Proposal] | None) -> ConsensusView:
        last = self._history[-1][1] if self._history and self.parameters.history_rounds else []
        return ConsensusView(
            phase=phase,
            agent=agent.seat.name,
            role=agent.seat.role,
            round=number,
            value_min=self.parameters.value_min,
            value_max=self.parameters.value_max,
            initial_value=agent.initial_value,
            current_value=agent.current_value,
            last_round={proposal.agent: proposal.value for proposal in last},
            this_round={proposal.agent: proposal.value for proposal in proposals or []},
        )

    def _history_text(self, agent: _Agent) -> str:
        """Return the last `history_rounds` rounds, the latest first; "" in round 1."""
        if self._history and not self.parameters.history_rounds:
            return "(Earlier rounds are not shown)"
        shown = self._history[-self.parameters.history_rounds :]
        return "\n".join(
            f"Round {number}:\n{proposals_text(agent.seat.name, proposals)}" for number, proposals in reversed(shown)
        )

    def _notes_text(self, agent: _Agent) -> str:
        """Return the agent's own notes of the last rounds in which it wrote one: `history_rounds`, at least one."""
        shown = agent.notes[-max(1, self.parameters.history_rounds) :]
        return "\n".join(f"Round {number}: {note}" for number, note in shown)

    # What a reply does

    def _take_proposal(self, agent: _Agent, number: int, reply: Reply) -> Proposal:
        """Apply one proposal; after a failed or withheld one the agent keeps its value and is silent."""
        if reply.value is None:
            return Proposal(agent.seat.name, None)
        fields = reply.value.model_dump()
        note = one_line(fields["internal_strategy"], self.parameters.strategy_chars)
        if note:
            agent.notes.append((number, note))
        if fields["value"] == "abstain":
            return Proposal(agent.seat.name, None)
        if agent.current_value is not None and fields["value"] != agent.current_value:
            agent.changes += 1
        agent.current_value = fields["value"]
        justification = one_line(fields["public_reasoning"], self.parameters.justification_chars)
        return Proposal(agent.seat.name, fields["value"], justification)

    def _round_entry(
        self, number: int, proposals: list[Proposal], votes: Mapping[str, str | None], stopped: bool
    ) -> dict[str, Any]:
        held = self._honest_values()
        return {
            "round": number,
            "proposals": {proposal.agent: proposal.value for proposal in proposals},
            "values": {agent.seat.name: agent.current_value for agent in self._agents},
            "votes": dict(votes),
            "stop_votes": sum(vote == "stop" for vote in votes.values()),
            "stopped": stopped,
            "honest_share": max(Counter(held).values()) / len(held) if held else None,
            "honest_spread": max(held) - min(held) if held else None,
        }

    def _honest_values(self) -> list[int]:
        return [agent.current_value for agent in self._honest if agent.current_value is not None]

    # How it ended

    def _outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        held = set(self._honest_values())
        agreed = len(held) == 1
        initial = [agent.initial_value for agent in self._honest]
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
                "value_changes": sum(agent.changes for agent in self._honest),
                "final_honest_share": self._trace[-1]["honest_share"],
                "final_honest_spread": self._trace[-1]["honest_spread"],
                "initial_values": {agent.seat.name: agent.initial_value for agent in self._honest},
                "honest_shares": [entry["honest_share"] for entry in self._trace],
                "honest_spreads": [entry["honest_spread"] for entry in self._trace],
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


def _name_key(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("_")
    return (stem, int(number)) if number.isdigit() else (name, 0)
