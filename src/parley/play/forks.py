"""What answers in a fork: up to its point the recorded replies, there what the change says, then who plays it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from parley.errors import RecordError, UsageError
from parley.games.base import Point
from parley.play.journal import Entry
from parley.play.record import read_record
from parley.play.replay import replay
from parley.policies import CHANGED, FIRST_STEP, GIVEN, SILENCED, Ask, Completion, Policy
from parley.policies.reply_text import read_reply
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.study_file import ALL, Change
from parley.text import counted, one_line


def forked_policies(simulation: Simulation, policies: Mapping[str, Policy]) -> dict[str, Policy]:
    """Return what answers for each agent of a fork, of which `policies` play from its point on.

    Raises RecordError if the record of the parent is damaged, or is another one by now.
    """
    fork, parent = simulation.condition.fork, simulation.parent
    if fork is None or parent is None:
        return dict(policies)
    entries = _entries(parent.record, parent.digest)
    first = next((at for at, entry in enumerate(entries) if fork.point.is_of(entry.round, entry.phase)), len(entries))
    # The first phase at the point alone, where the point is a round.
    asked = [(entry.round, entry.phase.removesuffix(FIRST_STEP)) for entry in entries[first : first + 1]]
    at = Point(*asked[0]) if asked else fork.point
    change = Change.model_validate(fork.change)
    changed = {seat.name for seat in simulation.before.seats if change.seat in (ALL, seat.name, seat.role)}
    of_phase = [entry for entry in entries[first:] if at.is_of(entry.round, entry.phase)]
    kept = [entry for entry in of_phase if entry.agent not in changed] if change.of_messages else []
    given = {entry.key: entry for entry in [*entries[:first], *kept]}
    was_said = {entry.key[:3]: entry for entry in of_phase}  # the last attempt
    return {
        name: _Forked(policy, given, was_said, change if name in changed else Change(), at)
        for name, policy in policies.items()
    }


@lru_cache(maxsize=64)
def _entries(record: Path, digest: str) -> list[Entry]:
    summary, entries = read_record(record)
    if summary.digest != digest:
        raise RecordError(f"{record}: is another game than the study was planned with; run the same command again")
    return entries


@dataclass(frozen=True)
class _Forked:
    """Answers for one agent of a fork; `was_said` are the replies that its parent has at the point."""

    policy: Policy
    given: Mapping[tuple[int, str, str, int], Entry]
    was_said: Mapping[tuple[int, str, str], Entry]
    change: Change
    at: Point

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply; raises RecordError where the parent was asked something else before the point."""
        entry = self.given.get((ask.round, ask.phase, ask.agent, attempt))
        here = self.at.is_of(ask.round, ask.phase)
        is_same = entry is not None and entry.ask in ("", ask.digest)
        if entry is not None and (is_same or not here):  # who speaks in turn, and heard what is changed, is asked
            if not is_same:
                raise RecordError(
                    f"round {ask.round}, {ask.phase}, {ask.agent}: another question was recorded; the game cannot be "
                    "replayed, so it has no forks"
                )
            return Completion(
                entry.text,
                entry.finish_reason,
                seconds=entry.seconds,
                served_model=entry.served_model,
                system_fingerprint=entry.system_fingerprint,
                reasoning=entry.reasoning,
                given=GIVEN,
            )
        if self.change.silence or (here and self.change.silence_once):
            return Completion("", SILENCED, seconds=0.0, given=CHANGED)
        if (said := self._said(ask)) is not None:
            return Completion(said, "stop", seconds=0.0, given=CHANGED)
        return await self.policy.answer(ask, seed, attempt)

    def _said(self, ask: Ask) -> str | None:
        """Return what the change says in place of a reply; None for other replies.

        Raises UsageError if no agent may say that there.
        """
        said = self.change.say
        if said is None or ask.phase.endswith(FIRST_STEP) or not self.at.is_of(ask.round, ask.phase):
            return None
        fields, text = said.model_extra or {}, said.text
        if text is None:
            was = self.was_said.get((ask.round, ask.phase, ask.agent))
            try:
                text = json.dumps({**json.loads(was.text if was else "{}"), **fields})
            except (ValueError, TypeError):
                text = json.dumps(fields)
        reply = read_reply(ask, text, "stop")
        if reply.value is None:
            what = one_line(f"{ask.agent} cannot say this in round {ask.round}, {ask.phase}: {reply.detail}", 250)
            raise UsageError(f"say: {what}; give the fields of its reply, or all of its text")
        return str(text)


def forks_line(study: Study) -> str:
    """Return what the forks of a study may ask for; "" for a study that has none."""
    left = [simulation.parent.left for simulation in study.simulations() if simulation.parent is not None]
    forks = f"{counted(len(left), 'fork')} of {counted(len(study.parents), 'recorded game')}"
    return f"{forks}: about {sum(left):,} replies to ask for, as many as these had left" if left else ""


def check_parents(study: Study) -> None:
    """Raise RecordError for a recorded game that cannot be replayed, before any fork of it is played."""
    for path in study.parents:
        if difference := replay(path).difference:
            raise RecordError(f"{path}: cannot be replayed ({one_line(difference, 200)}), so it has no forks")
