"""What differs in a study, in words and numbers: the answers to its questions, or else what differs most."""

from collections.abc import Iterator, Sequence

import pandas as pd

from parley.analysis.questions import ALIKE, DIFFERS, FEW, LINES, NO_PAIRS, OPEN, SMALLER
from parley.games.base import Game
from parley.report.html import Row, estimate, p_text
from parley.statistics.stats import CONFIDENCE
from parley.study import Study
from parley.study.comparisons import BOTH, labels_of, value_text
from parley.study.condition import axes_text
from parley.study.frozen import frozen_lacks
from parley.text import counted

MAX_DIFFERENCES = 3  # differences in words, of a study without questions
_COMPARED = {"quantity": ("as high", "higher", "lower"), "time": ("as soon", "later", "sooner")}
_WORDS = {
    DIFFERS: "They differ",
    OPEN: "Inconclusive",
    NO_PAIRS: "Inconclusive: there are no pairs",
    FEW: "Inconclusive: fewer than five seeds say too little of how much seeds differ",
    ALIKE: "Inconclusive: all pairs differ by the same, or none does, which says nothing of how much others would",
}


def largest_differences(contrasts: pd.DataFrame, by: Sequence[str], game: type[Game]) -> list[str]:
    """Return what differs most as sentences: of the game's first outcome, else of anything, by the smallest p."""
    sure = contrasts[contrasts["p_holm"] < 1 - CONFIDENCE]
    first = sure[sure["what"] == game.outcomes[0].name]
    chosen = (first if len(first) else sure).sort_values("p", kind="stable").head(MAX_DIFFERENCES)
    varying = [axis for axis in by if contrasts[axis].nunique() > 1]
    sentences = []
    for row in chosen.to_dict("records"):
        where = axes_text({axis: row[axis] for axis in varying if row[axis] != ""}).replace(" -> ", " → ")
        size = counted(row["pairs"], "pair") if row["pairs"] else "not paired"
        sentences.append(f"{difference_text(row, game)}{f', at {where}' if where else ''}; {size}.")
    return sentences


def difference_text(row: Row, game: type[Game]) -> str:
    """Return a row of `questions` or `contrasts` in words: `consensus is 16 points [4, 28] less often with ...`."""
    subject, first, second, verb = _sides(row, game)
    if pd.isna(row["difference"]):
        return f"nothing is known of {subject}{second} and{first}"
    number = is_number(row, game)
    alike, more, less = _COMPARED.get(row["kind"], ("as often", "more often", "less often"))
    scale, form, unit = (1, "z.4g", " rounds" * (row["kind"] == "time")) if number else (100, "z.0f", " points")
    sign = -1 if row["difference"] < 0 else 1
    low, high = sorted(sign * scale * row[name] for name in ("low", "high"))
    interval = "" if pd.isna([low, high]).any() else f" [{low:{form}}, {high:{form}}]"
    change = f"{abs(scale * row['difference']):{form}}{unit}{interval}"
    values = values_text(row, number) + " on a line" * (row.get("test") == LINES)
    if not row["difference"]:
        return f"{subject} {verb} {alike}{second} as{first}: a difference of {change} ({values})"
    return f"{subject} {verb} {change} {more if sign > 0 else less}{second} than{first} ({values})"


def _sides(row: Row, game: type[Game]) -> tuple[str, str, str, str]:
    """Return in words what is looked at, what follows for the first side and for the second, and the verb."""
    labels = labels_of(game)
    one, other = two_names(row["what"])
    first = second = ""
    if axis := row["axis"]:
        second = f" with {value_text(axis, str(row['to']))}"
        first = f" with {row['from'] if axis in ('n', 'b') else value_text(axis, str(row['from']))}"  # words follow
    if one == other:
        label = labels.get(one, one)
        label = f"“{label}”" if len(label.split()) > 3 else label  # it may be a sentence of its own
        return label, first, second, "comes" if row["kind"] == "time" else "is"
    verb = "is" if row["kind"] == "quantity" else "holds"
    return f"“{labels.get(other, other)}”{second}", f" “{labels.get(one, one)}”{first}", "", verb


def is_number(row: Row, game: type[Game]) -> bool:
    """Whether what is compared has a unit of its own, and is neither a rate nor a share."""
    quantities = (*game.evidence.quantities, *game.evidence.asked)
    return row["kind"] == "time" or two_names(row["what"])[0] in {each.name for each in quantities if not each.share}


def registered_text(row: Row, lacks: str) -> str:
    """Return as a sentence whether a row of the table `questions` is confirmatory, by what, and what that `lacks`."""
    if not row["confirmatory"]:
        return f"{row['registered'][0].upper()}{row['registered'][1:]}."
    return f"Confirmatory: {row['registered']}{lacks and f', but the frozen page is {lacks}'}."


def verdict(row: Row, game: type[Game]) -> str:
    """Return the answer of a row of the table `questions` in a few words."""
    answer = str(row["answer"])
    if answer in _WORDS:
        return _WORDS[answer]
    smallest = f"{row['smallest']:g}" if is_number(row, game) else f"{100 * row['smallest']:g} points"
    return (
        f"They differ, by less than {smallest}"
        if answer.startswith(DIFFERS)
        else f"No difference of {smallest} or more"
    )


def how_tested(row: Row, questions: pd.DataFrame) -> str:
    """Return the test that answers a row of the table `questions`, its p, and over how many that is corrected."""
    name, test = ("anytime_p", "at any time") if row["stopped"] else ("p", row["test"])
    if row["answer"].startswith(SMALLER):
        name, test = "p_equivalence", "two one-sided tests"
    text, tested = p_text(row[f"{name}_holm"]), questions.loc[questions[name].notna(), "question"]
    over = counted(len(tested), "question" if tested.is_unique else "comparison")
    return f"{test or 'no test'}: p {'' if text.startswith('<') else '= '}{text}, corrected over {over}"


def values_text(row: Row, number: bool) -> str:
    """Return both values of a comparison: numbers as they are, else percent; "-" for nothing."""
    form = ".4g" if number else ".0%"
    return "-" if pd.isna(row["difference"]) else f"{row['value_from']:{form}} → {row['value_to']:{form}}"


def change_text(row: Row, number: bool, low: str = "low", high: str = "high") -> str:
    """Return the difference with the limits in two columns: of numbers as it is, else in percentage points."""
    form, scale, unit = ("+.4g", 1, "") if number else ("+z.0f", 100, " points")
    return estimate("difference", form, low, high, scale=scale, unit=unit)(row)


def answer_lines(questions: pd.DataFrame, study: Study) -> Iterator[str]:
    """Yield each row of the table `questions` as a line: the answer in words, its test, and if it is confirmatory."""
    game, lacks = study.game, frozen_lacks(study.whole)
    for row in questions.to_dict("records"):
        found = filter(None, [difference_text(row, game), how_tested(row, questions), row["note"]])
        yield f"{row['question']}: {verdict(row, game)}: {'; '.join(found)}. {registered_text(row, lacks)}"


def discordant_text(row: Row) -> str:
    """Return how many pairs have what is compared on one side alone; "" for quantities, and where nothing is known."""
    if not row["pairs"] or row["kind"] == "quantity" or pd.isna(row["only_first"]):
        return ""
    return f"{row['only_first']:.0f} only first, {row['only_second']:.0f} only second"


def at_any_time(row: Row, game: type[Game]) -> str:
    """Return the difference with the limits and the p that hold for any number of seeds; "" where there are none."""
    text = with_limits(row, game, "anytime")
    return text and f"{text}, p {p_text(row['anytime_p'])}, corrected {p_text(row['anytime_p_holm'])}"


def with_limits(row: Row, game: type[Game], name: str) -> str:
    """Return the difference with other limits than its own; "" where there are none."""
    low, high = f"{name}_low", f"{name}_high"
    return "" if pd.isna(row[low]) else change_text(row, is_number(row, game), low, high)


def two_names(what: str) -> tuple[str, str]:
    """Return the names of what a question looks at on its first side and its second, from the column `what`."""
    first, _, second = what.partition(BOTH)
    return first, second or first
