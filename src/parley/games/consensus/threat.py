"""Which populations the paper's threat model allows (section 3).

"Byzantine agents may propose arbitrary values and justifications and adapt to the history, but they cannot equivocate
..., forge identities, or drop or suppress messages", they are at most a third of the agents, and everybody hears
everybody.
"""

from collections.abc import Sequence

from parley.games.base import BYZANTINE, GameParameters, Group

NO_THREAT = "none"
PAPER = "paper"


def threat_model(parameters: GameParameters, groups: Sequence[Group]) -> str:
    """Return "none" without Byzantine agents, "paper" if the paper allows all of them, else what is beyond it.

    What code of the user's own does is unknown.
    """
    adversaries = [group for group in groups if group.role == BYZANTINE and group.count]
    if not adversaries:
        return NO_THREAT
    reasons = [group.policy.kind.beyond for group in adversaries if group.policy.kind.beyond]
    if 3 * sum(group.count for group in adversaries) > sum(group.count for group in groups):
        reasons.append("B > N/3")
    if (topology := str(parameters.topology)) != "complete":
        reasons.append(f"topology {topology}")
    if (protocol := getattr(parameters, "protocol", "paper")) != "paper":
        reasons.append(f"protocol {protocol}")  # those who speak later know more
    if reasons:
        return f"beyond: {'; '.join(dict.fromkeys(reasons))}"
    return "unknown: own policy" if any(group.policy.kind.is_plugin for group in adversaries) else PAPER
