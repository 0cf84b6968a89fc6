"""The vote that may follow a deliberation: what an agent may reply under each rule, and what the ballots decide.

Rules that answers alone cannot tell, after "Voting or Consensus?" (arXiv:2502.19130). A tie decides nothing.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, count, product
from string import ascii_uppercase
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from parley.policies.reply_text import ReplyModel, reply_of_each

BALLOT = "ballot"  # the phase of the vote, and a style of prompt
OUTSIDER = "ballot_outside"  # the style for a judge who was not on the panel
POINTS = 10  # of a cumulative ballot
MAX_CONFIDENCE = 100


Ballot = Mapping[str, int]  # by letter of a candidate: a rank (1 is the best), points, or 1 for approved and chosen
_T = TypeVar("_T", bound=Hashable)


# Always text, so that an axis of it has one type.
_Ballots = Literal["none", "ranked", "approval", "cumulative", "confidence"]
Vote = Annotated[
    Literal[_Ballots, "judge_outside", "judge_one_of_them"],
    BeforeValidator(
        lambda value: f"judge_{value['judge']}" if isinstance(value, dict) and list(value) == ["judge"] else value,
        json_schema_input_type=_Ballots | dict[Literal["judge"], Literal["outside", "one_of_them"]],
    ),
]


def labels() -> Iterator[str]:
    """Yield A, B, ..., Z, AA, AB, ... without end."""
    return map("".join, chain.from_iterable(product(ascii_uppercase, repeat=size) for size in count(1)))


# What is replied


class _Ranking(ReplyModel):
    @model_validator(mode="after")
    def _each_rank_once(self) -> "_Ranking":
        ranks = sorted(self.model_dump().values())
        if ranks != list(range(1, len(ranks) + 1)):
            raise PydanticCustomError("out_of_range", "the ranks must be 1 to {most}, each once", {"most": len(ranks)})
        return self


class _Points(ReplyModel):
    @model_validator(mode="after")
    def _all_points(self) -> "_Points":
        if (total := sum(self.model_dump().values())) != POINTS:
            raise PydanticCustomError(
                "out_of_range", "the points must add up to {all}, not {total}", {"all": POINTS, "total": total}
            )
        return self


def kind_of(vote: str) -> str:
    """Return the kind of a ballot, of which there are instructions: both judges have the same."""
    return f"{BALLOT}_judge" if vote.startswith("judge_") else f"{BALLOT}_{vote}"


def style_of(vote: str) -> str:
    """Return the style of the prompt of a vote."""
    return OUTSIDER if vote == "judge_outside" else BALLOT


@cache
def ballot_model(vote: str, candidates: tuple[str, ...]) -> type[BaseModel]:
    """Return the model of a reply to a vote about lettered candidates."""
    match vote:
        case "ranked":
            return reply_of_each("Ranks", candidates, Annotated[int, Field(ge=1, le=len(candidates))], _Ranking)
        case "approval":
            return reply_of_each("Approvals", candidates, Literal["yes", "no"])
        case "cumulative":
            return reply_of_each("Points", candidates, Annotated[int, Field(ge=0, le=POINTS)], _Points)
        case "confidence":
            sure = Annotated[int, Field(ge=0, le=MAX_CONFIDENCE)]
            return create_model("Confidence", __base__=ReplyModel, confidence=(sure, ...))
    chosen: Any = Literal[candidates]
    return create_model("Choice", __base__=ReplyModel, choice=(chosen, ...))


def read_ballot(vote: str, own: str | None, reply: BaseModel) -> Ballot:
    """Return a reply as numbers by letter; a confidence is in one's `own` candidate."""
    said: dict[str, Any] = reply.model_dump()
    match vote:
        case "approval":
            return {letter: int(word == "yes") for letter, word in said.items()}
        case "confidence":
            return {str(own): said["confidence"]}
        case "judge_outside" | "judge_one_of_them":
            return {said["choice"]: 1}
    return said


# What is decided


def leading(points: Mapping[_T, int]) -> _T | None:
    """Return what has more points than anything else; None on a tie, and if nothing has any."""
    most = Counter(points).most_common(2)
    if not most or not most[0][1] or (len(most) == 2 and most[0][1] == most[1][1]):
        return None
    return most[0][0]


def most_points(ballots: Sequence[Ballot]) -> str | None:
    """Return the candidate with the most points over all ballots."""
    total: Counter[str] = Counter()
    for ballot in ballots:
        total.update(ballot)
    return leading(total)


def borda(ballots: Sequence[Ballot]) -> str | None:
    """Return the candidate that is ranked above the most others, over all ballots (Borda count)."""
    return most_points([{letter: len(ranks) - rank for letter, rank in ranks.items()} for ranks in ballots])


def instant_runoff(ballots: Sequence[Ballot]) -> str | None:
    """Return who is first on more than half of the ballots, once those that are first on the fewest have left.

    Several that are first on equally few leave together if together they have fewer first places than anyone who
    stays, so that their order would change nothing; else the tie decides nothing.
    """
    left = set(chain.from_iterable(ballots))
    while left:
        firsts = Counter(dict.fromkeys(left, 0))
        firsts.update(min(left, key=ballot.__getitem__) for ballot in ballots)
        [(first, number)] = firsts.most_common(1)
        if 2 * number > len(ballots):
            return first
        fewest = min(firsts.values())
        out = {letter for letter in left if firsts[letter] == fewest}
        left -= out
        if len(out) > 1 and len(out) * fewest >= min((firsts[letter] for letter in left), default=0):
            return None
    return None


# By vote: all rules that its ballots allow.
BALLOT_RULES: Mapping[str, Mapping[str, Callable[[Sequence[Ballot]], str | None]]] = {
    "ranked": {"borda": borda, "instant_runoff": instant_runoff},
    **{vote: {vote: most_points} for vote in ("approval", "cumulative", "confidence")},
    **{vote: {"judge": most_points} for vote in ("judge_outside", "judge_one_of_them")},
}
