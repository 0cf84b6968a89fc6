"""The Byzantine Consensus Game of "Can AI Agents Agree?" (Berdoz, Rugli, Wattenhofer; sections 3, A.2, A.3).

Agents propose integers in synchronous rounds, see everyone's proposals, and vote to stop or to continue. The game
stops when enough of all agents vote to stop, else at the deadline.
"""

from collections.abc import Generator, Mapping, Sequence

import numpy as np

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST, Game, Group, Outcome, OutcomeClass, Paper, threat_class
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.parameters import NAMES, Agent, ConsensusParameters
from parley.games.consensus.policies import POLICIES
from parley.games.consensus.prompts import PROMPTS, share_text
from parley.games.consensus.protocol import PaperProtocol, Protocol, SwarmsProtocol
from parley.policies import Ask, Reply
from parley.text import by_number

PREMATURE_STOP = "premature_stop"
PROTOCOLS: Mapping[str, type[Protocol]] = {"paper": PaperProtocol, "swarms": SwarmsProtocol}


class ConsensusGame(Game[ConsensusParameters]):
    """N agents, B of them Byzantine, agree on an integer or fail to (section 3)."""

    name = "consensus"
    paper = Paper(
        "berdoz2026",
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
    prompts = PROMPTS
    evidence = ConsensusEvidence()

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
        self.protocol = PROTOCOLS[self.parameters.protocol](self.parameters, self.prompt, self.agents, self.network)
        self.honest = self.protocol.honest

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Play by the protocol until enough agents vote to stop, or the deadline."""
        rounds, stopped = yield from self.protocol.play()
        return self.outcome(rounds, stopped=stopped)

    @classmethod
    def check(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> None:
        """Raise UsageError if `groups` cannot play so, or if prompts have no words for the stop threshold."""
        super().check(parameters, groups)
        if parameters.seat is not None and _named_by_role(parameters):
            raise UsageError(
                f"seat: {parameters.seat}: names that tell the role leave no choice; remove the leak {NAMES}"
            )
        if share_text(parameters.stop_threshold) is None:
            raise UsageError(
                f"stop_threshold: {float(parameters.stop_threshold):.10g}: prompts cannot say it; use a percentage "
                "with at most one decimal (0.66, 0.665), or a fraction up to twentieths (2/3)"
            )

    @classmethod
    def seat_names(cls, parameters: ConsensusParameters, roles: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a name for each agent: neutral ones, unless the swarms protocol leaks the roles by them."""
        if not _named_by_role(parameters):
            return super().seat_names(parameters, roles, rng)
        return [f"{role.capitalize()}-{roles[:place].count(role) + 1}" for place, role in enumerate(roles)]

    @classmethod
    def possible_outcomes(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> frozenset[str]:
        """Return the outcomes that can be: none is valid without an honest agent, none invalid with a single value.

        None is premature with less than two honest agents, or a single value: they cannot disagree.
        """
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
    def class_of(cls, name: str, detail: str | None) -> str:
        """Return the class of an outcome; a stop while honest agents disagree has one of its own (section 3).

        Records call it an invalid consensus with this detail.
        """
        return PREMATURE_STOP if detail == PREMATURE_STOP else name

    @classmethod
    def threat_model(cls, parameters: ConsensusParameters, groups: Sequence[Group]) -> str:
        """Return "none" without Byzantine agents, "paper" if the paper allows all of them, else what is beyond it.

        "Byzantine agents may propose arbitrary values and justifications and adapt to the history, but they cannot
        equivocate ..., forge identities, or drop or suppress messages" (section 3), they are at most a third of the
        agents, and everybody hears everybody.
        """
        adversaries = [group for group in groups if group.role == BYZANTINE and group.count]
        reasons = [group.policy.kind.beyond for group in adversaries if group.policy.kind.beyond]
        if 3 * sum(group.count for group in adversaries) > sum(group.count for group in groups):
            reasons.append("B > N/3")
        if (topology := str(parameters.topology)) != "complete":
            reasons.append(f"topology {topology}")
        if parameters.protocol != "paper":
            reasons.append(f"protocol {parameters.protocol}")  # those who speak later know more
        return threat_class(groups, reasons)

    # How it ended

    def outcome(self, rounds: int, *, stopped: bool) -> Outcome:
        """Return how the game ended after `rounds` rounds, by the values that honest agents hold."""
        held = set(self.protocol.honest_values())
        agreed = len(held) == 1
        initial = [agent.initial_value for agent in self.honest]
        detail = None
        if not stopped:
            name = "no_consensus"
        elif agreed and held <= set(initial):
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
                "consensus_value": next(iter(held)) if stopped and agreed else None,
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


def _named_by_role(parameters: ConsensusParameters) -> bool:
    return NAMES in parameters.leaks
