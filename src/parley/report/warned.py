"""The warnings of a report: what readers should know before they use a number."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from parley.analysis.conditions import degenerate_warnings
from parley.analysis.made_by import MadeBy, answered_warnings
from parley.play.degenerate import REMEDIES
from parley.play.pausing import paused_lines
from parley.policies import FAILURE_CLASSES
from parley.report.methods import counted_values, engine_warnings
from parley.report.overview import short
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.condition import axes_text
from parley.study.frozen import CHANGED, frozen_state

Warn = tuple[str, str, Sequence[str]]  # what it is, why it matters, and where it is so
WARN_FAILED = 0.05  # share of calls without a usable reply

_FROZEN = "Who declares a question or a condition anew after a look at the games can find what is not there."
_PART = (
    "{} Short games end first, so rates and times will change. Intervals and p values are for one look: who goes on, "
    "or stops, because of them finds differences where there are none."
)
_MIXED = (
    "A difference between engines may pass for one between simulations. Run these again with one engine, or say so "
    "wherever the numbers are used."
)
_DAMAGED = "They are in no number of this page. To have them played again, delete the files and run the study."
_OTHER_MODEL = "A service named another model than the one that was asked for, or changed it meanwhile."
_DEGENERATE = (
    "The format of the replies, or the sampling, may shape what these models write. Read some of their games (parley "
    "view), and compare formats as config/formats.yaml does."
)
_NOTES = "Read before you take their results for those of language models in general."
_FAILED = "Agents without a usable reply are silent, and the game goes on by its rule for silence."
_NOISE = (
    "{} of {} differences with p below {:.2f} are no larger than what the same seeds, played again, differ by from "
    "themselves."
)


def warnings(
    study: Study, made: Mapping[str, pd.DataFrame], made_by: MadeBy, left_out: Mapping[Path, str]
) -> Iterator[Warn]:
    """Yield the warnings of a study with these tables; `left_out` are damaged records, and why."""
    by, conditions, state = study.axes, made["conditions"], frozen_state(study.whole)
    if CHANGED in state or "edited" in state:
        yield "not as it was frozen", _FROZEN, [state]
    if study.shortfall:
        yield "not all is played", _PART.format(study.shortfall), short(_unplayed(study))
    for title, text, lines in (
        ("conditions that mix engines", _MIXED, list(_mixed(made["simulations"], by))),
        ("damaged records are left out", _DAMAGED, short(list(left_out.values()))),
        ("deterministic inference, imports", "What engines and imports said:", engine_warnings(made_by)),
        ("models that answered", _OTHER_MODEL, list(answered_warnings(study, made_by.answered))),
        ("degenerate replies", _DEGENERATE, short(degenerate_warnings(conditions, by))),
        ("paused models", "Hardly any of their replies could be used.", paused_lines(study)),
        ("what these models are", _NOTES, [f"{name}: {note}" for name, note in study.notes().items()]),
        ("replies that failed", _FAILED, short(_failed(conditions, by))),
    ):
        if lines:
            yield title, text, lines
    known = made["contrasts"]
    known = known[known["noise"].notna() & (known["p"] < 1 - CONFIDENCE)]
    if below := int((known["difference"].abs() <= known["noise"]).sum()):
        yield "differences below the noise floor", _NOISE.format(below, len(known), 1 - CONFIDENCE), []


def _unplayed(study: Study) -> list[str]:
    """Return the conditions of which nothing is there."""
    there = {condition.name for condition in study.conditions}
    missing = [each for each in study.whole.shown.conditions if each.name not in there]
    return [f"nothing yet of {axes_text(each.axes)}" for each in missing]


def _mixed(simulations: pd.DataFrame, by: Sequence[str]) -> Iterator[str]:
    """Yield the conditions whose simulations were answered by more than one engine, with how many by each."""
    for key, mine in simulations.groupby(list(by), sort=False):
        if mine["engine"].nunique() > 1:
            yield f"{axes_text(dict(zip(by, key, strict=True)))}: {'; '.join(counted_values(Counter(mine['engine'])))}"


def _failed(conditions: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return the conditions that lack usable replies to at least WARN_FAILED of their calls."""
    lines = []
    for row in conditions[conditions["failed_reply_rate"] >= WARN_FAILED].to_dict("records"):
        most = max(FAILURE_CLASSES, key=lambda name: row[name])
        lines.append(
            f"{axes_text({axis: row[axis] for axis in by})}: {row['failed_reply_rate']:.1%} of the calls, "
            f"{row['failed_replies']} replies, most of them {most} ({row[most]}); what helps: {REMEDIES[most]}"
        )
    return lines
