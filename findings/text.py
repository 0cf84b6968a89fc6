"""What docs/findings.md says besides numbers: the questions in words, and what the page does not show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A question in words, what is measured, and the names of its two sides.

    A question of the study file needs no more. One that only the frozen plan has names a measure of the table
    `reactions`, or is `declared` here as a study file does it since.
    """

    text: str
    measured: str
    first: str
    second: str
    noise: str = ""  # what the noise study measures of one of its sides; nothing where none was played again
    reaction: str = ""
    declared: Mapping[str, Any] = field(default_factory=dict)
    smallest: float = 0.2  # nan where none was declared
    note: str = ""

    @property
    def in_prose(self) -> bool:
        """Whether it stands in the prose of the frozen page alone."""
        return bool(self.declared or self.reaction)


INTRODUCTION = """\
# Findings of our own

Made by `make findings` from the records in `findings/`; do not edit it. One small model plays,
Qwen2.5-Coder-1.5B-Instruct with 8-bit weights, on two cores of a CPU.

The difference is the second value minus the first, in percentage points, with its 95% interval, over pairs of
simulations with the same seed. With fewer than ten pairs there is no answer. Otherwise it is

- *more* or *less* if p is below 0.05 after Holm's correction over the questions of the study;
- *no difference that matters* if two one-sided tests with bounded limits, corrected as well, say that it is
  smaller than what was declared to matter;
- else *open*. Where a study was stopped, interval and p are those that hold at any time.

*Noise alone* is how far from 0 so many pairs lie in 95% of cases by the model's sampling alone, measured in one
condition that was played again. *Control* is the answer of scripted players, which is known
(`config/findings/findings-NAME-control.yaml`)."""

STUDIES = {
    "hunt": (
        "Stag hunt",
        "Four players of one model hunt by the published rules (*Byzantine Cheap Talk*), three rounds, at "
        "temperature 0.7. The adversary replaces one of them: it says a cooperative word and hunts the hare.",
    ),
    "hunt-forks": (
        "One betrayal taken back",
        "The 24 hunts above with an adversary go on from round 1 once more ([how](how-to/forks.md)): as it was, or as "
        "if the adversary had hunted the stag in that round. All replies after that action are new. Each game has two "
        "forks of either kind, whose mean counts.",
    ),
    "consensus": (
        "Consensus",
        "Four honest agents of one model propose values from 0 to 50, for at most eight rounds, by the rules of "
        "*Can AI Agents Agree?*. The Byzantine agent is a fifth, the same model.",
    ),
    "filters": (
        "Filters",
        "Four honest agents of one model play the same game for at most four rounds, alone and with a Byzantine agent "
        "of the same model; without a filter, or with one that drops messages before they become a prompt "
        "([how](how-to/filters.md)).",
    ),
    "deliberation": (
        "Deliberation",
        "Three agents of one model answer problems of GSM8K, hear each other's arguments once, and answer again. The "
        "adversary is a fourth, a script that insists on a wrong answer.",
    ),
    "equal-cost": (
        "What talking bought",
        "Three agents of one model answer other problems of GSM8K and talk for two turns. On the same problems they "
        "are compared with as many independent answers as cost no more tokens, three agents that go over their own "
        "answers, and three that hear reasons about another problem ([how](explanation/talking.md)).",
    ),
}

_ALONE, _FIRST, LAST, _ALL = (
    "single_correct",
    "first_majority_correct_honest",
    "last_majority_correct_honest",
    "consensus_correct",
)
_UNHEARD = "An adversary costs its players nothing, since they never leave a right answer: -17.5 is chance."

ASKED = {
    "hunt": {
        "betrayal": Asked(
            "Do the others hunt the stag less if one player betrays?",
            "stags among the honest players' actions",
            "without an adversary",
            "with one",
            "stag_share",
        ),
        "told": Asked(
            "Do players on a ring hunt the stag less if they are told whom they see, all else being equal?",
            "stags among actions",
            "untold",
            "told",
        ),
        "retreat": Asked(
            "Do betrayed stag hunters turn to the hare more often than the same players in the game of the same seed "
            "without an adversary (a sham betrayal)?",
            "games in which a stag hunter turns to the hare",
            "after the sham",
            "after a betrayal",
            reaction="retreated",
            smallest=float("nan"),
            note="Corrected in a table of its own. Control: players that never forgive turn after each betrayal, and "
            "never without.",
        ),
    },
    "hunt-forks": {
        "taken_back": Asked(
            "Do the others hunt the stag more if one betrayal is taken back?",
            "stags among the honest players' actions",
            "as it was",
            "with the betrayal of round 1 taken back",
            smallest=0.133,
        ),
    },
    "consensus": {
        "mention": Asked(
            "Is there more valid consensus if the prompt says that no agent is Byzantine?",
            "games with valid consensus",
            "where some may be Byzantine",
            "where none is",
            "valid_consensus",
        ),
        "mention_share": Asked(
            "Do more agents hold one value at the end if the prompt says that no agent is Byzantine?",
            "largest share of one value",
            "where some may be Byzantine",
            "where none is",
            "final_honest_share",
        ),
        "mention_stop": Asked(
            "Do games stop without agreement more often if the prompt says that no agent is Byzantine?",
            "games with a premature stop",
            "where some may be Byzantine",
            "where none is",
            "premature_stop",
        ),
        "byzantine": Asked(
            "Is there less valid consensus with one Byzantine agent?",
            "games with valid consensus",
            "without a Byzantine agent",
            "with one",
            "valid_consensus",
        ),
        "byzantine_share": Asked(
            "Do fewer honest agents hold one value at the end with one Byzantine agent?",
            "largest share of one value",
            "without a Byzantine agent",
            "with one",
            "final_honest_share",
        ),
    },
    "filters": {
        "trim": Asked(
            "Do more agents hold one value at the end if the smallest and the largest message are dropped?",
            "largest share of one value",
            "without a filter",
            "without the extremes",
        ),
        "reputation": Asked(
            "Do more agents hold one value at the end if the message farthest from the others so far is dropped?",
            "largest share of one value",
            "without a filter",
            "without the least reputed",
        ),
        "scored": Asked(
            "Do more agents hold one value at the end if the message is dropped that they score lowest?",
            "largest share of one value",
            "without a filter",
            "without the lowest score",
        ),
    },
    "deliberation": {
        "adversary": Asked(
            "Are three agents less often unanimous and right with an adversary?",
            "unanimous and right",
            "without an adversary",
            "with one",
            _ALL,
            note=_UNHEARD,
        ),
        "adversary_majority": Asked(
            "Is the majority of their last answers right less often with an adversary?",
            "last majority right",
            "without an adversary",
            "with one",
            LAST,
            note=_UNHEARD,
        ),
        "single": Asked(
            "Are three agents that deliberate unanimous and right more often than one agent's first answer is right?",
            "right answers:",
            "of one agent",
            "of all three, unanimously",
            declared={"outcomes": [_ALONE, _ALL], "where": {"n": 3}},
        ),
        "unanimity": Asked(
            "Are they unanimous and right more often than the majority of their first answers is right?",
            "right answers:",
            "of the first majority",
            "of all three, unanimously",
            declared={"outcomes": [_FIRST, _ALL], "where": {"n": 3}},
        ),
        "turn": Asked(
            "Is the majority of last answers right more often than that of first answers?",
            "right answers:",
            "of the first majority",
            "of the last majority",
            declared={"outcomes": [_FIRST, LAST], "where": {"n": 3}},
        ),
        "equal_compute": Asked(
            "Is the majority after deliberation right more often than the majority of seven first answers?",
            "right answers:",
            "of seven first answers",
            "of the last majority of three",
            LAST,
            declared={"outcomes": [_FIRST, LAST], "where": {"n": 7}},  # `with_last_of_three`
        ),
    },
    "equal-cost": {
        "independent": Asked(
            "Are three agents that talk right more often than independent answers of the same cost?",
            "right pluralities",
            "of independent answers",
            "after talking",
        ),
        "self_correction": Asked(
            "Are they right more often than three agents that each go over their own answer?",
            "right pluralities",
            "after self-correction",
            "after talking",
        ),
        "placebo": Asked(
            "Are they right more often than three agents that hear reasons about another problem?",
            "right pluralities",
            "after the placebo",
            "after talking",
        ),
        "talking": Asked(
            "Is the majority right more often after talking than before?",
            "right majorities",
            "of first answers",
            "of last answers",
        ),
    },
}

EXPLORED = {
    "hunt": {
        "stag_share": "stags",
        "honest_payoff": "points a round",
        "cooperation": "all hunt at the end",
        "detected": "detected",
        "retreated": "retreated",
        "kept_hunting": "kept hunting",
        "no_words": "no word",
    },
    "consensus": {
        "valid_consensus": "valid consensus",
        "premature_stop": "premature stop",
        "final_honest_share": "largest share",
        "value_changes": "changes of value",
        "rounds": "rounds",
    },
    "filters": {
        "final_honest_share": "largest share",
        "final_honest_spread": "spread at the end",
        "value_changes": "changes of value",
    },
    "deliberation": {
        "single_correct": "one agent",
        "first_majority_correct_honest": "first majority",
        "last_majority_correct_honest": "last majority",
        "consensus_correct": "unanimous and right",
        "final_participation": "largest agreement",
    },
}

IN_PROSE = "only in the prose of the frozen page: exploratory"
LIMITS = """\
## What this does not show

- One small model (1.5 billion parameters), tuned for code, with 8-bit weights: no answer here says that a paper is
  wrong.
- One language and one set of prompts. Games are shorter than the papers' (three rounds of five, eight of fifty).
  The stag hunt is played at temperature 0.7, not 0 as published: at 0, games of one model hardly differ.
- Half of the deliberations (seeds 0 to 9 and 20 to 29) were played on a CPU without AVX-512, all else with it. All
  conditions of a seed were played on the same CPU, so no answer rests on it, but *noise alone* of the deliberation
  holds the difference of arithmetic, too.
- Twenty pairs say little of valid consensus: one pair that differs rules out *no difference that matters*.
- Papers that report gains by filters (arXiv 2606.15024, 2605.09076) are neither confirmed nor contradicted: in the
  consensus games 1 to 2% of later proposals were another agent's value.
- What talking bought was stopped by time, after whole shards of four seeds.
- Replies depend on what shares the batch. Of 16 replies of four hunts asked again on
  the same CPU, 4 were identical one at a time, 12 with about as many requests at once as in the games, and 13 if the
  prompts were in the cache ([`parley verify`](../findings/verify.txt)).

## Check it

`make findings` [rebuilds](../findings/README.md) this page, its figures and tables byte for byte from the records, and
copies these to `results/`: `parley report config/findings/findings-hunt.yaml` goes on from there."""
