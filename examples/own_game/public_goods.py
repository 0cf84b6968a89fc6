"""A game of your own: the iterated public goods game. See docs/own-games.md.

In each round every agent puts some of its endowment into a pot, which is multiplied and shared equally among all.
"""

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, create_model

import public_goods_evidence as evidence
from parley.errors import UsageError
from parley.games.base import BYZANTINE, HONEST, Game, GameParameters, Group, Outcome, Seat, new_game
from parley.games.evidence import Timeline
from parley.games.network.topology import Complete
from parley.policies import Ask, Reply, Sampling
from parley.policies.kinds import LLM, PolicyParameters, scripted_kind, with_instructions
from parley.policies.reply_text import ReplyModel

# What a study may set, and what a reply looks like


class PublicGoodsParameters(GameParameters):
    """Parameters of the game; each has a default."""

    rounds: int = Field(default=10, ge=1, le=1_000, description="Rounds; all are played.")
    endowment: int = Field(default=20, ge=1, le=10_000, description="Points of each agent in each round.")
    multiplier: float = Field(default=1.6, gt=0, le=100, description="What the pot is multiplied by.")
    reasoning_chars: int = Field(default=300, ge=1, le=10_000, description="Longest reasoning.")
    contribute: Sampling = Field(default=Sampling(temperature=0.7, max_tokens=200), description="Contributions.")

    @property
    def longest(self) -> int:
        """Rounds of the longest possible game."""
        return self.rounds


@cache
def contribution_model(endowment: int, reasoning: int) -> type[BaseModel]:
    """Return the model of a reply; the reasoning comes first, so that a model thinks before it chooses."""
    return create_model(
        "Contribution",
        __base__=ReplyModel,
        reasoning=(Annotated[str, Field(max_length=reasoning)], ...),
        contribution=(Annotated[int, Field(ge=0, le=endowment)], ...),
    )


# What scripted agents see, and what they do


@dataclass(frozen=True)
class View:
    """What one agent may see, as data: the contributions of earlier rounds by name; None where one was silent."""

    you: str
    endowment: int
    history: tuple[Mapping[str, int | None], ...]


def _give(contribution: int) -> Mapping[str, Any]:
    return {"reasoning": "", "contribution": contribution}


def cooperate(view: View, rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute everything in every round."""
    return _give(view.endowment)


def free_ride(view: View, rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute nothing in any round."""
    return _give(0)


def match_others(view: View, rng: np.random.Generator, given: PolicyParameters) -> Mapping[str, Any]:
    """Contribute everything at first, then what the others did on average in the round before, rounded down."""
    if not view.history:
        return _give(view.endowment)
    others = [value or 0 for name, value in view.history[-1].items() if name != view.you]
    return _give(sum(others) // len(others))


# The rules


class PublicGoods(Game):
    """The iterated public goods game."""

    protocol_version = 1
    roles = (HONEST, BYZANTINE)
    outcomes = evidence.OUTCOMES
    figures = evidence.FIGURES
    measures = evidence.MEASURES
    quantities = evidence.QUANTITIES
    Parameters = PublicGoodsParameters
    policies = {kind.name: kind for kind in (LLM, *map(scripted_kind, (cooperate, free_ride, match_others)))}
    prompt_phases = ("contribute",)
    prompts = {
        "plain": {
            "honest_system": Path(__file__).parent / "prompts" / "honest_system.txt",
            "byzantine_system": Path(__file__).parent / "prompts" / "byzantine_system.txt",
            "honest_user": Path(__file__).parent / "prompts" / "user.txt",
            "byzantine_user": Path(__file__).parent / "prompts" / "user.txt",
        }
    }

    parameters: PublicGoodsParameters

    def set_up(self) -> None:
        """Begin without any rounds."""
        self.rounds: list[dict[str, Any]] = []
        self.honest = [seat.name for seat in self.seats if seat.role == HONEST]

    @classmethod
    def check(cls, parameters: GameParameters, groups: Sequence[Group]) -> None:
        """Refuse what this game does not know."""
        super().check(parameters, groups)
        if not isinstance(parameters.topology, Complete) or parameters.reply_format != "json":
            raise UsageError("a public goods game knows neither topology nor reply_format; remove them")
        if not any(group.role == HONEST and group.count for group in groups):
            raise UsageError("a public goods game needs an honest agent; raise n or lower b")
        if sum(group.count for group in groups) < 2:
            raise UsageError("a public goods game needs two agents; raise n")

    def play(self) -> Generator[list[Ask], list[Reply], Outcome]:
        """Ask all agents at once in each round, and share the pot."""
        for number in range(1, self.parameters.rounds + 1):
            replies = yield [self._ask(seat, number) for seat in self.seats]
            said = {seat.name: _contribution(reply) for seat, reply in zip(self.seats, replies, strict=True)}
            self._share(number, said)
        return self._outcome()

    def _share(self, number: int, said: Mapping[str, int | None]) -> None:
        """Give every agent what it kept and its share of the pot; one that was silent contributes nothing."""
        p, given = self.parameters, {name: value or 0 for name, value in said.items()}
        share = p.multiplier * sum(given.values()) / len(given)
        self.rounds.append(
            {
                "round": number,
                "contributions": dict(said),
                "earned": {name: round(p.endowment - value + share, 6) for name, value in given.items()},
                "measures": {
                    "contribution": sum(given[name] for name in self.honest) / len(self.honest) / p.endowment,
                    "free_riders": sum(given[name] == 0 for name in self.honest) / len(self.honest),
                },
            }
        )

    def _outcome(self) -> Outcome:
        p, n, honest = self.parameters, len(self.seats), len(self.honest)
        shares = [entry["measures"]["contribution"] for entry in self.rounds]
        name = {1.0: "cooperation", 0.0: "free_riding"}.get(shares[-1], "some_cooperation")
        earned = [entry["earned"][agent] for entry in self.rounds for agent in self.honest]
        # The honest agents earn most if all contribute everything, or only the others do.
        most = p.endowment * max(p.multiplier, 1 + p.multiplier * (n - honest) / n)
        return Outcome(
            name=name,
            detail=None,
            diagnosis=None,
            rounds=len(self.rounds),
            finished_early=False,
            metrics={
                "contribution": sum(shares) / len(shares),
                "earned": sum(earned) / len(earned),
                "most_earned": most,
                "endowment": p.endowment,
                "silent": sum(value is None for entry in self.rounds for value in entry["contributions"].values()),
                "byzantine": sorted(seat.name for seat in self.seats if seat.role == BYZANTINE),
            },
            trace=tuple(self.rounds),
        )

    # The prompts

    def _ask(self, seat: Seat, number: int) -> Ask:
        p = self.parameters
        values = {
            "rounds": p.rounds,
            "round": number,
            "n": len(self.seats),
            "others": len(self.seats) - 1,
            "endowment": p.endowment,
            "multiplier": f"{p.multiplier:g}",
            "you": seat.name,
            "history": "\n".join(self._told(entry, seat.name) for entry in self.rounds) or "(none: this is the first)",
        }
        return Ask(
            agent=seat.name,
            role=seat.role,
            round=number,
            phase="contribute",
            system=with_instructions(_filled(seat.role, "system", values), seat.policy),
            user=_filled(seat.role, "user", values),
            reply_model=contribution_model(p.endowment, p.reasoning_chars),
            sampling=p.contribute,
            view=View(seat.name, p.endowment, tuple(entry["contributions"] for entry in self.rounds)),
        )

    def _told(self, entry: Mapping[str, Any], you: str) -> str:
        others = [f"{name} {_points(value)}" for name, value in entry["contributions"].items() if name != you]
        own = _points(entry["contributions"][you])
        return f"Round {entry['round']}: you put in {own} and earned {entry['earned'][you]:g}; {', '.join(others)}"

    @classmethod
    def prompt_template(cls, prompt: str, role: str, phase: str, part: str) -> str:
        """Return the unfilled text of one prompt."""
        try:
            return cls.prompts[prompt][f"{role}_{part}"].read_text(encoding="utf-8").rstrip("\n")
        except KeyError:
            raise UsageError(f"no prompt for {prompt}, {role}, {phase}, {part}") from None

    @classmethod
    def sample_prompt(cls, prompt: str, role: str, phase: str, part: str, given: Mapping[str, Any]) -> str:
        """Return one prompt of the default game."""
        [ask, *_] = next(new_game(cls, cls.Parameters(), [Group(HONEST, 3), Group(role, 1)], prompt, 0).play())
        return ask.system if part == "system" else ask.user

    @classmethod
    def series(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the points of each measure by round."""
        names = [measure.name for measure in cls.measures]
        return {name: [(entry["round"], entry["measures"][name]) for entry in trace] for name in names}

    @classmethod
    def timeline(cls, outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Timeline:
        """Return what each agent contributed."""
        return evidence.timeline(outcome, trace)


def _filled(role: str, part: str, values: Mapping[str, object]) -> str:
    """Return a prompt with its places filled in, all in one pass."""
    text = PublicGoods.prompt_template("plain", role, "contribute", part)
    return re.sub(r"\{(\w+)\}", lambda place: str(values[place[1]]), text)


def _contribution(reply: Reply) -> int | None:
    return None if reply.value is None else int(reply.value.model_dump()["contribution"])


def _points(value: int | None) -> str:
    return "nothing (no reply)" if value is None else str(value)
