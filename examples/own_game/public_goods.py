"""A game of your own: in each round all put points into a pot, which is multiplied and shared (docs/own-games.md)."""

from collections.abc import Generator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, create_model

from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST, Ask, Game, GameParameters, Group, Outcome, OutcomeClass, Reply, Seat
from parley.games.prompts import Phase, Prompts
from parley.policies import Sampling
from parley.policies.kinds import LLM, PolicyParameters, scripted_kind
from parley.policies.reply_text import ReplyModel

from .public_goods_evidence import PublicGoodsEvidence

PARTS = {part: Path(__file__).parent / "prompts" / f"{part}.txt" for part in ("system", "user")}
AIMS = {
    HONEST: "Your aim is to earn as many points as you can over all rounds.",
    BYZANTINE: "Your aim is that the other players earn as few points as possible.",
}
PROMPTS = {"plain": {f"{role}_{part}": file for role in AIMS for part, file in PARTS.items()}}


class PublicGoodsParameters(GameParameters):
    """What a study may set; all of it has a default."""

    rounds: int = Field(default=10, ge=1, le=1_000, description="Rounds; all are played.")
    endowment: int = Field(default=20, ge=1, le=10_000, description="Points of each agent in each round.")
    multiplier: float = Field(default=1.6, gt=0, le=100, description="What the pot is multiplied by.")
    contribute: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=200), description="Contributions.")


@cache
def reply_model(endowment: int) -> type[BaseModel]:
    """Return what a reply must look like; the reasoning comes first, so that a model thinks before it chooses."""
    reasoning = (Annotated[str, Field(max_length=200)], ...)
    contribution = (Annotated[int, Field(ge=0, le=endowment)], ...)
    return create_model("Contribution", __base__=ReplyModel, reasoning=reasoning, contribution=contribution)


def cooperate(view: Mapping[str, Any], rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute everything in every round."""
    return {"reasoning": "", "contribution": view["endowment"]}


def free_ride(view: Mapping[str, Any], rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute nothing in any round."""
    return {"reasoning": "", "contribution": 0}


def match_others(view: Mapping[str, Any], rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute everything at first, then what the others did on average in the round before, rounded down."""
    if not view["history"]:
        return cooperate(view, rng, given)
    others = [value for name, value in view["history"][-1].items() if name != view["you"]]
    return {"reasoning": "", "contribution": sum(others) // len(others)}


POLICIES = {kind.name: kind for kind in (LLM, *map(scripted_kind, (cooperate, free_ride, match_others)))}


class PublicGoodsPrompts(Prompts[PublicGoodsParameters]):
    """The same two templates for each role; what differs is the aim."""

    phases = (Phase("contribute"),)
    variants = PROMPTS


class PublicGoods(Game[PublicGoodsParameters]):
    """The rules."""

    does = "In every round agents choose how much to give to a common good, which pays all of them alike."
    Parameters = PublicGoodsParameters
    outcomes = (
        OutcomeClass("cooperation", "all honest agents contribute everything in the last round", "#0072B2", ""),
        OutcomeClass("some_cooperation", "honest agents contribute something in the last round", "#56B4E9", "\\\\"),
        OutcomeClass("free_riding", "no honest agent contributes anything in the last round", "#D9D9D9", ".."),
    )
    policies = POLICIES
    prompts = PublicGoodsPrompts()
    evidence = PublicGoodsEvidence()

    @classmethod
    def check(cls, parameters: PublicGoodsParameters, groups: Sequence[Group]) -> None:
        """Refuse what this game does not know."""
        super().check(parameters, groups)
        if parameters.topology.kind != "complete" or parameters.reply_format != "json":
            raise UsageError("the public goods game knows neither topology nor reply_format; remove them")
        if sum(group.count for group in groups) < 2 or all(group.role != HONEST for group in groups if group.count):
            raise UsageError("the public goods game needs two agents, one of them honest; raise n or lower b")

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Ask all agents at once in each round, and share the pot."""
        trace: list[dict[str, Any]] = []
        for number in range(1, self.parameters.rounds + 1):
            replies = yield [self._ask(seat, number, trace) for seat in self.seats]
            trace.append({"round": number, **self._shared(replies)})
        return self._outcome(trace)

    def _shared(self, replies: list[Reply]) -> dict[str, Any]:
        """Give each agent what it kept and its share of the pot; one without a usable reply contributes nothing."""
        p, said = self.parameters, [getattr(reply.value, "contribution", 0) for reply in replies]
        given = dict(zip((seat.name for seat in self.seats), said, strict=True))
        honest = [given[seat.name] for seat in self.seats if seat.role == HONEST]
        share = p.multiplier * sum(said) / len(said)
        earned = {name: round(p.endowment - value + share, 6) for name, value in given.items()}
        return {
            "contributions": given,
            "earned": earned,
            "told": "; ".join(f"{name} put in {value} and earned {earned[name]:g}" for name, value in given.items()),
            "measures": {"contribution": sum(honest) / len(honest) / p.endowment},
            "silent": sum(reply.value is None for reply in replies),
        }

    def _outcome(self, trace: Sequence[Mapping[str, Any]]) -> Outcome:
        p, byzantine = self.parameters, [seat.name for seat in self.seats if seat.role == BYZANTINE]
        earned = [entry["earned"][seat.name] for entry in trace for seat in self.seats if seat.role == HONEST]
        last = trace[-1]["measures"]["contribution"]
        return Outcome(
            name="cooperation" if last == 1 else "some_cooperation" if last else "free_riding",
            rounds=len(trace),
            metrics={
                "earned": sum(earned) / len(earned),
                "most_earned": p.endowment * max(p.multiplier, 1 + p.multiplier * len(byzantine) / len(self.seats)),
                "silent": sum(entry["silent"] for entry in trace),
                "byzantine": byzantine,
            },
            trace=tuple(trace),
        )

    def _ask(self, seat: Seat, number: int, trace: Sequence[Mapping[str, Any]]) -> Ask:
        p = self.parameters
        values = {**p.model_dump(), "n": len(self.seats), "you": seat.name, "round": number, "aim": AIMS[seat.role]}
        told = [f"Round {e['round']}: {e['told'].replace(f'{seat.name} put', 'you put')}" for e in trace]
        values["history"] = "\n".join(told) or "(this is the first round)"
        view = {**values, "history": [entry["contributions"] for entry in trace]}  # for scripted policies
        return self.ask(seat, number, "contribute", values, reply_model(p.endowment), view)
