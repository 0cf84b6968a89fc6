"""Filters around agents: what an honest agent hears passes one before it becomes a prompt, or the view of a rule.

The remedy of resilient consensus, for any player: `trim` is what W-MSR does before it takes a mean (LeBlanc, Zhang,
Koutsoukos, Sundaram 2013; around language models in arXiv 2606.15024), `scored` is after Self-Anchored Consensus
(arXiv 2605.09076). Byzantine agents hear all: an adversary does not protect itself. Nobody's own message is dropped.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache
from operator import not_
from statistics import median_low
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from parley.errors import UsageError
from parley.games.parameters import HONEST, Count, Positive
from parley.games.prompts import Phase
from parley.policies import Ask, Reply
from parley.policies.reply_text import ReplyModel
from parley.text import by_number
from parley.text.yamlfile import StrictModel

SCORED = "scored"  # the filter whose agents are asked
SCORE = "score"  # the phase in which agents score what they heard
WORST, BEST = 0, 10  # of scores

Heard = Mapping[str, Any]  # by name, the value that was said to an agent in a round; None of who said nothing
_Kind = Literal["trim", "reputation", "scored"]


class Filter(StrictModel):
    """What an honest agent does not hear of a round as it was said; each kind but `none` has a number."""

    kind: Literal["none", _Kind] = Field(
        default="none",
        description="`trim` drops the largest of the values above one's own and the smallest of those below it, "
        "`reputation` what the peers of the lowest reputation said (who stood apart, and did not move), `scored` what "
        "the agent itself gives the lowest scores.",
    )
    f: Count = Field(default=0, exclude_if=not_, description="Most messages that are dropped (trim: a side).")

    @model_validator(mode="after")
    def _has_its_number(self) -> "Filter":
        if bool(self) != bool(self.f):
            raise ValueError(f"write {{{self.kind}: 1}}, or a larger number" if self else "none takes no number")
        return self

    def __bool__(self) -> bool:
        return self.kind != "none"

    @property
    def label(self) -> str:
        """A readable name for paths and tables: the kind and its number."""
        return f"{self.kind}-{self.f}" if self else "none"

    def __str__(self) -> str:
        return self.label


NO_FILTER = Filter()


def _written_out(value: Any) -> Any:
    """Return `{trim: 1}` as `{kind: trim, f: 1}`, `none` as `{kind: none}`; anything else as it is."""
    if isinstance(value, str):
        return {"kind": value}
    if isinstance(value, dict) and len(value) == 1 and "kind" not in value:
        [(kind, f)] = value.items()
        return {"kind": kind, "f": f}
    return value


_Short = Literal["none"] | Annotated[dict[_Kind, Positive], Field(min_length=1, max_length=1)]
FilterAsWritten = Annotated[Filter, BeforeValidator(_written_out, json_schema_input_type=_Short | Filter)]


def check_filter(chosen: Filter, n: int) -> None:
    """Raise UsageError if the filter of so many agents would leave nobody to be heard."""
    if chosen and chosen.f >= n - 1:
        fewer = f"lower f to {n - 2} or less" if n > 2 else "remove it"
        raise UsageError(f"filter: {chosen}: {n} agents hear {n - 1} others, and none would be left; {fewer}")


SCORING = Phase(SCORE, system="score_system", user="score_user", roles=(HONEST,), reply=SCORE)


def dropped(chosen: Filter, own: str, rounds: Sequence[Heard], scores: Mapping[str, int]) -> list[str]:
    """Return the peers whose messages `own` does not hear in the last of `rounds`.

    `rounds` are all up to now as they were said to it, its own value among them.
    `scores` are those that it gave now; none if its reply could not be used. Of equals the last by number go first.
    """
    now, f = rounds[-1], chosen.f
    mine = now[own]
    peers = [name for name, value in now.items() if name != own and value is not None]
    if chosen.kind == "trim" and mine is not None:
        above = _last((name for name in peers if now[name] > mine), lambda name: -now[name], f)
        return [*above, *_last((name for name in peers if now[name] < mine), now.__getitem__, f)]
    if chosen.kind == "reputation":
        return _last(peers, lambda name: reputation(name, rounds), f)
    if chosen.kind == SCORED:
        return _last((name for name in peers if name in scores), scores.__getitem__, f)
    return []


def apply_filters(
    chosen: Filter, received: Mapping[str, Sequence[Heard]], ask: Callable[[str, tuple[str, ...]], Ask]
) -> Generator[list[Ask], list[Reply], dict[str, list[str]]]:
    """Let what was said to agents pass their filters, who with `scored` are asked for scores first.

    `received` has the rounds of each agent up to now (`dropped`), `ask` makes the question of one about the messages
    of some. Returns whom agents do not hear, of those that miss somebody.
    """
    judged = {}
    for name, rounds in received.items() if chosen.kind == SCORED else ():
        if spoke := tuple(peer for peer, value in rounds[-1].items() if peer != name and value is not None):
            judged[name] = spoke
    replies = (yield [ask(name, peers) for name, peers in judged.items()]) if judged else []
    scores = {name: reply.value.model_dump() for name, reply in zip(judged, replies, strict=True) if reply.value}
    unheard = {name: dropped(chosen, name, of, scores.get(name, {})) for name, of in received.items()}
    return {name: peers for name, peers in unheard.items() if peers}


def _last(names: Iterable[str], key: Callable[[str], Any], f: int) -> list[str]:
    return sorted(sorted(names, key=by_number, reverse=True), key=key)[:f]


def _distance(value: float, others: Sequence[float]) -> float:
    return abs(value - median_low(others))


def reputation(name: str, rounds: Sequence[Heard]) -> float:
    """Return the reputation of a peer after `rounds`, as one agent heard them: higher is better.

    The mean, over the rounds r in which it said something, of m(r) - d(x(r), r): d(v, r) is the distance of the value
    v from the lower median of those that all others said in round r, the hearer among them; m(r) = d(x(r'), r') -
    d(x(r), r'), with the round r' in which it spoke before, is how far it moved towards where the others stood then
    (0 the first time). So it loses who is far from the others, and who does not come nearer. The formula is Parley's
    own, after the idea of resilient consensus with reputations: neighbors are weighed by how they behaved so far.
    """
    total, times = 0.0, 0
    before: tuple[Any, list[Any]] | None = None
    for heard in rounds:
        value = heard.get(name)
        others = [said for peer, said in heard.items() if peer != name and said is not None]
        if value is None or not others:
            continue
        if before is not None:
            total += _distance(*before) - _distance(value, before[1])
        total -= _distance(value, others)
        times += 1
        before = value, others
    return total / max(times, 1)


@cache
def scores_model(names: tuple[str, ...]) -> type[BaseModel]:
    """Return the model of a reply that scores the messages of `names`: each of them, and nobody else."""
    score: Any = (Annotated[int, Field(ge=WORST, le=BEST)], ...)
    model = create_model("Scores", __base__=ReplyModel, **dict.fromkeys(names, score))
    model.labels = {name: name for name in names}
    return model
