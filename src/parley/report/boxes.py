"""The boxes of a report: a question in words, its answer as a sentence and a picture, and games that show it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from rich.text import Text

from parley.analysis.paper import paper_lines, rows_beside, sides_told
from parley.analysis.questions import Pairs
from parley.paths import compared_link, single_link
from parley.report.answers import (
    at_any_time,
    difference_text,
    discordant_text,
    how_tested,
    is_number,
    registered_text,
    two_names,
    verdict,
    with_limits,
)
from parley.report.html import Row, interval_text
from parley.study import Study
from parley.study.comparisons import Comparison, labels_of, question_text, value_text
from parley.study.frozen import frozen_lacks
from parley.study.prompt_sent import ADDED, REMOVED, word_diff
from parley.text import counted

_MARKS = {REMOVED: Markup("<del>{}</del>"), ADDED: Markup("<ins>{}</ins>")}
_FEW_PAIRS = 10  # of a stratum: below, the tests are liberal (docs/explanation/statistics.md)
_SHOWING, _NOT_SHOWING = 2, 1  # pairs of games that a box leads to


def boxes(
    study: Study,
    tables: Mapping[str, pd.DataFrame],
    compared: Iterable[tuple[Comparison, Pairs | None]],
) -> list[dict[str, Any]]:
    """Return for each question its text, what each row of the table `questions` answers, and what agents read.

    `compared` has for each row what it compares, and the pairs of games that are shown as examples.
    """
    asked, lacks = defaultdict[str, list[Any]](list), frozen_lacks(study.whole)
    table, lines = tables["questions"], paper_lines(tables["paper"], study.game)
    for row, (comparison, pairs) in zip(table.to_dict("records"), compared, strict=True):
        answer = {
            "verdict": verdict(row, study.game),
            "sentence": f"{difference_text(row, study.game)}.",
            "note": f"{row['note'][0].upper()}{row['note'][1:]}." if row["note"] else "",
            "size": counted(row["pairs"], "pair") + " of games with the same seed" * (comparison.axis != ""),
            "registered": registered_text(row, lacks),
            "test": how_tested(row, table),
            "at_any_time": "" if study.part_of is None and row["seeds_fixed"] else at_any_time(row, study.game),
            "few": 0 < row["pairs"] < _FEW_PAIRS * row["strata"],
            "picture": picture(row, study, sides_told(study, comparison)),
            "paper": [lines[place] for place in rows_beside(study, comparison, tables["paper"])],
            "games": list(_examples(pairs)) if pairs else [],
            "discordant": discordant_text(row),
            "together": with_limits(row, study.game, "together"),
        }
        asked[row["question"]].append((answer, comparison))
    made = []
    for question in study.content.questions:
        answers, comparisons = zip(*asked[question.name], strict=True)
        read = dict.fromkeys(pair for comparison in comparisons for pair in comparison.prompts)
        made.append(
            {
                "name": question.name,
                "text": question_text(question, comparisons),
                "answers": answers,
                "reads": [(*pair, [_marked(line) for line in word_diff(study, *pair)]) for pair in read],
            }
        )
    return made


def picture(row: Row, study: Study, paper: Sequence[Any] = ((), ())) -> dict[str, Any] | None:
    """Return how a row of the table `questions` is drawn: a line for each side; None where there is no number.

    `sides` has a name, the number as text, the places of low limit, value and high limit in percent of the line, and
    those of a paper's numbers of the side (`paper` has their places in the study); `band` is where the second may be
    without a difference that matters, `ends` says what the line's ends are.
    """
    if pd.isna(row["difference"]):
        return None
    labels, number = labels_of(study.game), is_number(row, study.game)
    values = {end: [row[f"{part}_{end}"] for part in ("value", "low", "high")] for end in ("from", "to")}
    band = [row["value_from"] - row["smallest"], row["value_from"] + row["smallest"]]
    told = [[study.content.paper[place].value for place in side] for side in paper]
    known = [*values["from"], *values["to"], *(band if number else (0, 1)), *told[0], *told[1]]
    known = [value for value in known if not pd.isna(value)]
    least, most, form = min(known), max(known), ".4g" if number else ".0%"

    def place(value: float) -> float:
        return round(float(np.clip(100 * (value - least) / (most - least), 0, 100)), 2)

    sides = []
    for end, name, marks in zip(values, two_names(row["what"]), told, strict=True):
        said = value_text(row["axis"], row[end]) if row["axis"] else labels.get(name, name)
        value, low, high = values[end]
        places = [place(value if pd.isna(at) else at) for at in (low, value, high)]
        sides.append((said, interval_text(values[end], form), places, list(map(place, marks))))
    return {"sides": sides, "band": list(map(place, band)), "ends": (f"{least:{form}}", f"{most:{form}}")}


# What stands beside an answer


def _marked(line: Text) -> Markup:
    parts = line.divide(sorted({place for span in line.spans for place in (span.start, span.end)}))
    forms = [_MARKS[str(part.spans[0].style)] if part.spans else Markup("{}") for part in parts]
    return Markup("").join(form.format(part.plain) for form, part in zip(forms, parts, strict=True))


def _examples(pairs: Pairs) -> Iterator[tuple[str, str]]:
    """Yield two pairs of games that show the difference the most, and one that does not, as words and an address."""
    differences = pairs.second - pairs.first
    sign = -1.0 if differences.sum() < 0 else 1.0
    order = np.argsort(-sign * differences, kind="stable")
    showing = [at for at in order[:_SHOWING] if sign * differences[at] > 0]
    without = [at for at in np.argsort(abs(differences), kind="stable") if at not in showing][:_NOT_SHOWING]
    for at in [*showing, *without]:
        differs = "differs" if at in showing else "does not"
        one, other = pairs.games[:, at]
        address = single_link(one) if one == other else compared_link(one, other)
        yield f"seed {pairs.seeds[at]} ({differs})", address
