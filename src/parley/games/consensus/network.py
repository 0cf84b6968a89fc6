"""The network of the consensus game: who sees whose proposal, in which version, and what is recorded of it.

In the paper everyone sees everyone, and everyone sees the same (section 3). Here an agent sees its neighbors alone,
and where `equivocation` is on, a Byzantine agent may send different values to different peers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parley.games.consensus.parameters import ConsensusParameters
from parley.games.consensus.prompts import disclosed_text
from parley.games.consensus.state import Proposal, Round
from parley.games.network.graph import Links
from parley.games.parameters import BYZANTINE, Seat


class ConsensusNetwork(Links):
    """Who hears whom, by name, and what of a round reaches them."""

    def visible(self, name: str, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Return what an agent sees of a round: its own proposal and its neighbors', as they were sent to it."""
        heard = self.seen_by(name)
        return [_as_sent(proposal, name) for proposal in proposals if proposal.agent in heard]

    def disclosed(self, name: str) -> str:
        """Return what an agent is told of the network, where it is told."""
        return disclosed_text(len(self._names), self._neighbors[name])

    def peers_of(self, seat: Seat, parameters: ConsensusParameters) -> tuple[str, ...] | None:
        """Return to whom an agent may send a value of its own choice for each; None if it must tell all the same.

        A language model is offered it only by a policy that needs it: others are not told what it is for.
        """
        kind = seat.policy.kind
        offered = not kind.asks_model or kind.needs == "equivocation"
        allowed = parameters.equivocation and seat.role == BYZANTINE and offered
        return self._neighbors[seat.name] if allowed else None

    def tell(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """Add to a round who was told something else, and to the first the links.

        Both are left out where there is nothing to say: everyone told all the same, everyone hears everyone.
        """
        if links := self.trace(done["round"]):
            done["neighbors"] = links["neighbors"]
        if sent := {said.agent: dict(said.peer_values) for said in proposals if said.peer_values}:
            done["sent"] = sent


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
