"""Filters around agents: what an honest agent hears passes one before it becomes a prompt, or the view of a rule.

The remedy of resilient consensus, for any player: `trim` is what W-MSR does before it takes a mean (LeBlanc, Zhang,
Koutsoukos, Sundaram 2013; around language models in arXiv 2606.15024), `scored` is after Self-Anchored Consensus
(arXiv 2605.09076). Byzantine agents hear all: an adversary does not protect itself. Nobody's own message is dropped.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, Tag

from parley.errors import UsageError
from parley.games.parameters import GameParameters, Positive, newer_field
from parley.games.prompts import fill, text_of
from parley.policies import Ask, Reply, Sampling
from parley.policies.reply_text import reply_of_each
from parley.text import by_number
from parley.text.yamlfile import StrictModel, kind_spelled_out, kind_tag, kinds_of, tag

SCORE = "score"  # the phase in which agents score what they heard, and the kind of reply to it
WORST, BEST = 0, 10  # of scores

_TOLD = Path(__file__).parent / "filter_templates"

Heard = Mapping[str, Any]  # by name, what was said to an agent in a round; None of who said nothing
Distance = Callable[[Any, Sequence[Any]], float]  # how far a value is from what others said, 0 or more


class _Filter(StrictModel):
    """What every filter has; the other field of a kind is its number."""

    kind: str

    @property
    def label(self) -> str:
        """A readable name for paths and tables: the kind and its number."""
        return "-".join(str(getattr(self, name)) for name in type(self).model_fields)

    def __str__(self) -> str:
        return self.label


class NoFilter(_Filter):
    """Agents hear all that is said to them."""

    kind: Literal["none"] = "none"


class Trim(_Filter):
    """In each round, drops the f largest of the values above one's own, and the f smallest of those below it."""

    kind: Literal["trim"] = "trim"
    f: Positive = Field(description="Most values that are dropped on each side.")


class MedianOfRounds(_Filter):
    """In place of a peer's value, one hears the lower median of its last k values; its words stay."""

    kind: Literal["median_of_rounds"] = "median_of_rounds"
    k: Positive = Field(description="Values of a peer of which the median is heard.")


class Reputation(_Filter):
    """In each round, drops the messages of the f peers of the lowest reputation: who stood apart, and did not move."""

    kind: Literal["reputation"] = "reputation"
    f: Positive = Field(description="Peers that are dropped.")


class Scored(_Filter):
    """In each round, agents score each message that they hear, and the f worst are dropped."""

    kind: Literal["scored"] = "scored"
    f: Positive = Field(description="Messages that are dropped.")


_Kind = (
    Annotated[NoFilter, Tag(tag("none"))]
    | Annotated[Trim, Tag(tag("trim"))]
    | Annotated[MedianOfRounds, Tag(tag("median_of_rounds"))]
    | Annotated[Reputation, Tag(tag("reputation"))]
    | Annotated[Scored, Tag(tag("scored"))]
)
_KINDS = kinds_of(_Kind)
_Short = Annotated[
    dict[Literal["trim", "median_of_rounds", "reputation", "scored"], Positive], Field(min_length=1, max_length=1)
]


def _written_out(value: Any) -> Any:
    """Return `{trim: 1}` as `{kind: trim, f: 1}`; anything else as it is."""
    if not isinstance(value, dict) or len(value) != 1 or "kind" in value:
        return value
    [(kind, number)] = value.items()
    written: dict[str, Any] = kind_spelled_out(_KINDS, "filter", kind)
    return written | dict.fromkeys([name for name in _KINDS[kind].model_fields if name != "kind"] or ["f"], number)


Filter = Annotated[
    _Kind,
    Discriminator(kind_tag),
    BeforeValidator(partial(kind_spelled_out, _KINDS, "filter")),
    BeforeValidator(_written_out, json_schema_input_type=Literal["none"] | _Short | _Kind),
]

_SCORES = Sampling(temperature=0.3, max_tokens=300)


class FilteredParameters(GameParameters):
    """Parameters of games whose agents may hear through a filter."""

    filter: Filter = newer_field(
        default=NoFilter(),
        description="What honest agents do not hear of what is said to them: none, {trim: f}, {median_of_rounds: k}, "
        "{reputation: f} or {scored: f}.",
    )
    filter_told: bool = newer_field(
        default=False, description="Whether the prompts of honest agents say that there is a filter."
    )
    score: Sampling = newer_field(default=_SCORES, description="Scores (filter scored).")

    @property
    def told_of_filter(self) -> Path | None:
        """The text that tells honest agents of the filter; None if they are not told, or there is none."""
        if not self.filter_told or isinstance(self.filter, NoFilter):
            return None
        return _TOLD / f"{self.filter.kind if isinstance(self.filter, MedianOfRounds | Scored) else 'left_out'}.txt"


def check_filter(parameters: FilteredParameters, n: int) -> None:
    """Raise UsageError if the filter of so many agents would leave nobody to be heard."""
    f = getattr(parameters.filter, "f", 0)
    if f and f >= n - 1:
        fewer = f"lower f to {n - 2} or less" if n > 2 else "remove it"
        raise UsageError(
            f"filter: {parameters.filter}: {n} agents hear {n - 1} others, and none would be left; {fewer}"
        )


def told_text(parameters: FilteredParameters) -> str:
    """Return what follows the system prompts of honest agents, on lines of its own; "" for nothing."""
    told = parameters.told_of_filter
    return "" if told is None else f"\n{fill(text_of(told), {'k': getattr(parameters.filter, 'k', 0)})}"


def filtered(
    chosen: Filter,
    own: str,
    rounds: Sequence[Heard],
    distance: Distance,
    scores: Mapping[str, int],
) -> dict[str, Any]:
    """Return what `own` hears otherwise than it was said in the last of `rounds`, by peer; None: it is dropped.

    `rounds` are all up to now as they were said to it, its own value among them.
    `scores` are those that it gave now; none if its reply could not be used. Of equals the last by number go first.
    """
    now = rounds[-1]
    peers = [name for name, value in now.items() if name != own and value is not None]
    match chosen:
        case Trim(f=f) if (mine := now[own]) is not None:
            above = _last((name for name in peers if now[name] > mine), lambda name: -now[name], f)
            return dict.fromkeys([*above, *_last((name for name in peers if now[name] < mine), now.__getitem__, f)])
        case MedianOfRounds(k=k):
            medians = {name: median_low([r[name] for r in rounds if r.get(name) is not None][-k:]) for name in peers}
            return {name: value for name, value in medians.items() if value != now[name]}
        case Reputation(f=f):
            return dict.fromkeys(_last(peers, lambda name: reputation(name, rounds, distance), f))
        case Scored(f=f):
            return dict.fromkeys(_last((name for name in peers if name in scores), scores.__getitem__, f))
    return {}


def passed(
    chosen: Filter,
    received: Mapping[str, Sequence[Heard]],
    distance: Distance,
    ask: Callable[[str, tuple[str, ...]], Ask],
) -> Generator[list[Ask], list[Reply], tuple[dict[str, dict[str, Any]], Sequence[Reply]]]:
    """Let what was said to agents pass their filters, who with `scored` are asked for scores first.

    `received` has the rounds of each agent up to now (`filtered`), `ask` makes the question of one about the messages
    of some. Returns by agent what it hears otherwise, and the replies with scores.
    """
    judged = {}
    if isinstance(chosen, Scored):
        said = {name: rounds[-1].items() for name, rounds in received.items()}
        spoke = {name: tuple(p for p, value in now if p != name and value is not None) for name, now in said.items()}
        judged = {name: peers for name, peers in spoke.items() if peers}
    replies = (yield [ask(name, peers) for name, peers in judged.items()]) if judged else []
    scores = {name: reply.value.model_dump() for name, reply in zip(judged, replies, strict=True) if reply.value}
    changed = {name: filtered(chosen, name, of, distance, scores.get(name, {})) for name, of in received.items()}
    return changed, replies


def _last(names: Iterable[str], key: Callable[[str], Any], f: int) -> list[str]:
    return sorted(sorted(names, key=by_number, reverse=True), key=key)[:f]


def reputation(name: str, rounds: Sequence[Heard], distance: Distance) -> float:
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
    return reply_of_each("Scores", names, Annotated[int, Field(ge=WORST, le=BEST)])
