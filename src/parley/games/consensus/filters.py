"""Filters around agents: what an honest agent hears passes one before it becomes a prompt, or the view of a rule.

The remedy of resilient consensus, for any player: `trim` is what W-MSR does before it takes a mean (LeBlanc, Zhang,
Koutsoukos, Sundaram 2013; around language models in arXiv 2606.15024), `scored` is after Self-Anchored Consensus
(arXiv 2605.09076). Byzantine agents hear all: an adversary does not protect itself. Nobody's own message is dropped.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache
from operator import not_
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator

from parley.errors import UsageError
from parley.games.parameters import HONEST, Count, Positive
from parley.games.prompts import Phase, Template, for_roles
from parley.policies import Ask, Reply
from parley.policies.reply_text import ReplyModel
from parley.text import by_number
from parley.text.yamlfile import StrictModel

MEDIAN = "median_of_rounds"
SCORED = "scored"  # the filter whose agents are asked
SCORE = "score"  # the phase in which agents score what they heard
WORST, BEST = 0, 10  # of scores

_TOLD = Path(__file__).parent / "templates" / "filter"

Heard = Mapping[str, Any]  # by name, the value that was said to an agent in a round; None of who said nothing
_Kind = Literal["trim", "median_of_rounds", "reputation", "scored"]


class Filter(StrictModel):
    """What an honest agent does not hear of a round as it was said; each kind but `none` has one number."""

    kind: Literal["none", _Kind] = Field(
        default="none",
        description="`trim` drops the largest of the values above one's own and the smallest of those below it, "
        "`reputation` what the peers of the lowest reputation said (who stood apart, and did not move), `scored` what "
        "the agent itself gives the lowest scores. With `median_of_rounds` one hears, in place of a peer's value, the "
        "lower median of its last k values; its words stay.",
    )
    f: Count = Field(default=0, exclude_if=not_, description="Most messages that are dropped (trim: a side).")
    k: Count = Field(default=0, exclude_if=not_, description="Values of which the median is heard.")

    @model_validator(mode="after")
    def _has_its_number(self) -> "Filter":
        wanted = {"none": (), MEDIAN: ("k",)}.get(self.kind, ("f",))
        if tuple(name for name in ("f", "k") if getattr(self, name)) != wanted:
            raise ValueError(f"write {{{self.kind}: 1}}, or a larger number" if wanted else "none takes no number")
        return self

    def __bool__(self) -> bool:
        return self.kind != "none"

    @property
    def label(self) -> str:
        """A readable name for paths and tables: the kind and its number."""
        return f"{self.kind}-{self.f or self.k}" if self else "none"

    def __str__(self) -> str:
        return self.label


NO_FILTER = Filter()


def _written_out(value: Any) -> Any:
    """Return `{trim: 1}` as `{kind: trim, f: 1}`, `none` as `{kind: none}`; anything else as it is."""
    if isinstance(value, str):
        return {"kind": value}
    if isinstance(value, dict) and len(value) == 1 and "kind" not in value:
        [(kind, number)] = value.items()
        return {"kind": kind, "k" if kind == MEDIAN else "f": number}
    return value


_Short = Literal["none"] | Annotated[dict[_Kind, Positive], Field(min_length=1, max_length=1)]
FilterAsWritten = Annotated[Filter, BeforeValidator(_written_out, json_schema_input_type=_Short | Filter)]


def check_filter(chosen: Filter, n: int) -> None:
    """Raise UsageError if the filter of so many agents would leave nobody to be heard."""
    if chosen.f and chosen.f >= n - 1:
        fewer = f"lower f to {n - 2} or less" if n > 2 else "remove it"
        raise UsageError(f"filter: {chosen}: {n} agents hear {n - 1} others, and none would be left; {fewer}")


def told_of_filter(chosen: Filter) -> dict[str, Template]:
    """Return what honest agents are told of the filter, on lines of its own after their system prompts."""
    if not chosen:
        return {}
    text = chosen.kind if chosen.kind in (MEDIAN, SCORED) else "left_out"
    return for_roles({"filter": _TOLD / f"{text}.txt"}, [HONEST])


SCORING = Phase(SCORE, system="score_system", user="score_user", roles=(HONEST,), reply=SCORE)


def filtered(chosen: Filter, own: str, rounds: Sequence[Heard], scores: Mapping[str, int]) -> dict[str, Any]:
    """Return what `own` hears otherwise than it was said in the last of `rounds`, by peer; None: it is dropped.

    `rounds` are all up to now as they were said to it, its own value among them.
    `scores` are those that it gave now; none if its reply could not be used. Of equals the last by number go first.
    """
    now, f, k = rounds[-1], chosen.f, chosen.k
    mine = now[own]
    peers = [name for name, value in now.items() if name != own and value is not None]
    if chosen.kind == MEDIAN:
        medians = {name: median_low([r[name] for r in rounds if r.get(name) is not None][-k:]) for name in peers}
        return {name: value for name, value in medians.items() if value != now[name]}
    left_out: list[str] = []
    if chosen.kind == "trim" and mine is not None:
        above = _last((name for name in peers if now[name] > mine), lambda name: -now[name], f)
        left_out = [*above, *_last((name for name in peers if now[name] < mine), now.__getitem__, f)]
    elif chosen.kind == "reputation":
        left_out = _last(peers, lambda name: reputation(name, rounds), f)
    elif chosen.kind == SCORED:
        left_out = _last((name for name in peers if name in scores), scores.__getitem__, f)
    return dict.fromkeys(left_out)


def apply_filters(
    chosen: Filter, received: Mapping[str, Sequence[Heard]], ask: Callable[[str, tuple[str, ...]], Ask]
) -> Generator[list[Ask], list[Reply], dict[str, dict[str, Any]]]:
    """Let what was said to agents pass their filters, who with `scored` are asked for scores first.

    `received` has the rounds of each agent up to now (`filtered`), `ask` makes the question of one about the messages
    of some. Returns what an agent hears otherwise, of agents that do.
    """
    judged = {}
    if chosen.kind == SCORED:
        said = {name: rounds[-1].items() for name, rounds in received.items()}
        spoke = {name: tuple(p for p, value in now if p != name and value is not None) for name, now in said.items()}
        judged = {name: peers for name, peers in spoke.items() if peers}
    replies = (yield [ask(name, peers) for name, peers in judged.items()]) if judged else []
    scores = {name: reply.value.model_dump() for name, reply in zip(judged, replies, strict=True) if reply.value}
    changed = {name: filtered(chosen, name, of, scores.get(name, {})) for name, of in received.items()}
    return {name: heard for name, heard in changed.items() if heard}


def _last(names: Iterable[str], key: Callable[[str], Any], f: int) -> list[str]:
    return sorted(sorted(names, key=by_number, reverse=True), key=key)[:f]


def distance(value: float, others: Sequence[float]) -> float:
    """Return how far a value is from the lower median of others."""
    return abs(value - median_low(others))


def reputation(name: str, rounds: Sequence[Heard]) -> float:
    """Return the reputation of a peer after `rounds`, as one agent heard them: higher is better.

    The mean, over the rounds r in which it said something, of m(r) - d(x(r), r): d(v, r) is the distance of the value
    v from those that all others said in round r, the hearer among them; m(r) = d(x(r'), r') - d(x(r), r'), with the
    round r' in which it spoke before, is how far it moved towards where the others stood then (0 the first time). So
    it loses who is far from the others, and who does not come nearer. The formula is Parley's own, after the idea of
    resilient consensus with reputations: neighbors are weighed by how they behaved so far.
    """
    total, times = 0.0, 0
    before: tuple[Any, list[Any]] | None = None
    for heard in rounds:
        value = heard.get(name)
        others = [said for peer, said in heard.items() if peer != name and said is not None]
        if value is None or not others:
            continue
        if before is not None:
            total += distance(*before) - distance(value, before[1])
        total -= distance(value, others)
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
