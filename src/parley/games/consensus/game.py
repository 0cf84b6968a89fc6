"""The Byzantine Consensus Game of "Can AI Agents Agree?" (Berdoz, Rugli, Wattenhofer; sections 3, A.2, A.3).

Agents propose values in synchronous rounds, see proposals, and vote to stop or to continue. The game stops when enough
of all agents vote to stop, else at the deadline.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cache, partial
from statistics import median_low
from typing import TYPE_CHECKING, Any

from parley.errors import UsageError
from parley.games.base import Game, Outcome, Paper
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.filters import check_filter
from parley.games.consensus.parameters import NAMES, PUBLISHED_CODE, Agent, ConsensusParameters, Value
from parley.games.consensus.policies import POLICIES
from parley.games.consensus.prompts import ConsensusPrompts, share_text
from parley.games.consensus.protocols import PaperProtocol, Protocol, PublishedCodeProtocol, SwarmsProtocol
from parley.games.evidence import OutcomeClass
from parley.games.parameters import BYZANTINE, HONEST, Group, Seat
from parley.games.prompts import Instruction, Phase
from parley.policies import Ask, Reply
from parley.text import by_number

if TYPE_CHECKING:
    import numpy as np

PREMATURE_STOP = "premature_stop"
PROTOCOLS: Mapping[tuple[str, str], type[Protocol]] = {  # by protocol and rules
    ("paper", "paper"): PaperProtocol,
    ("paper", PUBLISHED_CODE): PublishedCodeProtocol,
    ("swarms", "paper"): SwarmsProtocol,
}


class ConsensusGame(Game[ConsensusParameters]):
    """N agents, B of them Byzantine, agree on an integer or fail to (section 3)."""

    name = "consensus"
    does = (
        "Agents each begin with a number; in every round they propose one, read what the others propose, and "
        "may vote to stop: they have to agree on a number that one of the honest agents began with."
    )
    paper = Paper(
        "Can AI Agents Agree?",
        "https://arxiv.org/abs/2603.01213",
    )
    protocol_version = 2
    outcomes = (
        OutcomeClass("valid_consensus", "valid consensus", "#0072B2", ""),
        OutcomeClass("invalid_consensus", "invalid consensus", "#E69F00", "///"),
        OutcomeClass(PREMATURE_STOP, "premature stop", "#CC79A7", "xx"),
        OutcomeClass("no_consensus", "no consensus", "#D9D9D9", ".."),
    )
    Parameters = ConsensusParameters
    policies = POLICIES
    prompts = ConsensusPrompts()
    evidence = ConsensusEvidence()

    def set_up(self) -> None:
        """Draw the honest initial values, uniform on [value_min, value_max], in the order of `seats`."""
        given = None if self.material is None else self.material["initial_values"]
        agents = []
        for seat in self.seats:
            drawn = self._drawn_value() if seat.role == HONEST else None
            value = drawn if given is None else given.get(seat.name)
            agents.append(Agent(seat, initial_value=value, current_value=value))
        # Asked in the order of the neutral names, which says nothing about roles.
        p = self.parameters
        self.agents = agents if NAMES in p.leaks else sorted(agents, key=lambda agent: by_number(agent.name))
        self._worded = cache(partial(self.prompts.worded, parameters=p))  # prompts of a game are few
        self.protocol = PROTOCOLS[p.protocol, p.rules](self, self.agents)
        self.honest = self.protocol.honest

    def _drawn_value(self) -> Value:
        """Return an initial value, uniform on the range; real ones have two decimals, as people write them."""
        low, high = self.parameters.value_min, self.parameters.value_max
        if self.parameters.values == "real":
            return round(float(self.rng.uniform(low, high)), 2)
        return int(self.rng.integers(low, high + 1))

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play by the protocol until enough agents vote to stop, or the deadline."""
        rounds, stopped = yield from self.protocol.play()
        return self.outcome(rounds, stopped=stopped)

    def wording(self, seat: Seat, phase: Phase, part: str, form: Instruction) -> str:
        """Return a printed prompt in the words of what is played."""
        template = super().wording(seat, phase, part, form)
        return self._worded(template, part, form, seat.prompt, seat.role, seat.policy.kind.rule is not None)

    @classmethod
    def check(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> None:
        """Raise UsageError if `groups` cannot play so, or if prompts have no words for the stop threshold."""
        super().check(parameters, groups)
        check_filter(parameters.filter, sum(group.count for group in groups))
        if parameters.seat is not None and NAMES in parameters.leaks:
            raise UsageError(
                f"seat: {parameters.seat}: names that tell the role leave no choice; remove the leak {NAMES}"
            )
        if share_text(parameters.stop_threshold) is None:
            raise UsageError(
                f"stop_threshold: {float(parameters.stop_threshold):.10g}: prompts cannot say it; use a percentage "
                "with at most one decimal (0.66, 0.665), or a fraction up to twentieths (2/3)"
            )

    @classmethod
    def imported_material(
        cls, parameters: ConsensusParameters, roles: Mapping[str, str], recorded: Mapping[str, Any]
    ) -> Any:
        """Return the initial values of the honest agents; raises ValueError if one is missing or out of range."""
        given = recorded.get("initial_values", {})
        known = (int, float) if parameters.values == "real" else (int,)
        values = {name: given.get(name) for name, role in roles.items() if role == HONEST}
        for name, value in values.items():
            if type(value) not in known or not parameters.value_min <= value <= parameters.value_max:
                raise ValueError(
                    f"{name}: initial value {value}: {parameters.values} values from value_min to value_max are needed"
                )
        return {"initial_values": values}

    @classmethod
    def seat_names(
        cls, parameters: ConsensusParameters, roles: Sequence[str], rng: "np.random.Generator"
    ) -> list[str]:
        """Return a name for each agent: neutral ones, unless the swarms protocol leaks the roles by them."""
        if NAMES not in parameters.leaks:
            return super().seat_names(parameters, roles, rng)
        return [f"{role.capitalize()}-{roles[:place].count(role) + 1}" for place, role in enumerate(roles)]

    @classmethod
    def possible_outcomes(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return what can be: valid needs an honest agent, invalid two values, premature two honest agents."""
        impossible = set()
        honest = sum(group.count for group in groups if group.role == HONEST)
        if honest == 0:
            impossible.add("valid_consensus")
        elif parameters.value_min == parameters.value_max:
            impossible |= {"invalid_consensus", PREMATURE_STOP}
        if honest < 2:
            impossible.add(PREMATURE_STOP)
        return super().possible_outcomes(parameters, groups) - impossible

    @classmethod
    def plays_fractions(cls, parameters: ConsensusParameters) -> bool:
        """Return whether values are real numbers."""
        return parameters.values == "real"

    @classmethod
    def class_of(cls, name: str, detail: str | None) -> str:
        """Return the class: a stop while honest agents disagree (section 3) is in records an invalid consensus."""
        return PREMATURE_STOP if detail == PREMATURE_STOP else name

    @classmethod
    def beyond(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> Iterable[str]:
        """Return what is beyond section 3.

        "Byzantine agents may propose arbitrary values and justifications and adapt to the history, but they cannot
        equivocate ..., forge identities, or drop or suppress messages", they are at most a third of the agents, and
        everybody hears everybody.
        """
        adversaries = [group for group in groups if group.role == BYZANTINE and group.count]
        yield from (group.policy.kind.beyond for group in adversaries if group.policy.kind.beyond)
        if 3 * sum(group.count for group in adversaries) > sum(group.count for group in groups):
            yield "B > N/3"
        if (topology := str(parameters.topology)) != "complete":
            yield f"topology {topology}"
        if parameters.protocol != "paper":
            yield f"protocol {parameters.protocol}"  # those who speak later know more

    # How it ended

    def outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        """Return how the game ended after `rounds` rounds, by the values that honest agents hold."""
        held, goal = self.protocol.honest_values(), self.parameters.goal
        agreed = goal.agreed(held)
        initial = [agent.initial_value for agent in self.honest if agent.initial_value is not None]
        detail = None
        if not stopped:
            name = "no_consensus"
        elif agreed and goal.valid(held, initial):
            name = "valid_consensus"
        else:
            name = "invalid_consensus"
            detail = "foreign_value" if agreed else PREMATURE_STOP if held else "no_honest_agents"
        unanimous = [entry["round"] for entry in self.protocol.trace if entry["honest_share"] == 1]
        return Outcome(
            name=name,
            detail=detail,
            diagnosis=self._diagnosis(name, detail, unanimous, agreed) if held else None,
            rounds=rounds,
            finished_early=stopped,
            metrics={
                "consensus_value": median_low(held) if stopped and agreed else None,
                "first_unanimity_round": unanimous[0] if unanimous else None,
                "value_changes": sum(agent.changes for agent in self.honest),
                "final_honest_share": self.protocol.trace[-1]["honest_share"],
                "final_honest_spread": self.protocol.trace[-1]["honest_spread"],
                "initial_values": {agent.name: agent.initial_value for agent in self.honest},
                "honest_shares": [entry["honest_share"] for entry in self.protocol.trace],
                "honest_spreads": [entry["honest_spread"] for entry in self.protocol.trace],
                **self.protocol.links.facts([agent.name for agent in self.honest]),
            },
            trace=tuple(self.protocol.trace),
        )

    @staticmethod
    def _diagnosis(name: str, detail: str | None, unanimous: list[int], agreed: bool) -> str | None:
        """Say why liveness failed: the paper's finding is that failures are mostly of this kind (4.1, 4.2)."""
        if name == "valid_consensus" or detail == "foreign_value":
            return None
        if not unanimous:
            return "never_agreed"
        return "agreed_not_stopped" if agreed else "drifted_apart"
