"""What a study found, in words and numbers: the answers to its questions, or else what differs most."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup
from rich.text import Text

from parley.analysis.questions import ALIKE, DIFFERS, FEW, LINES, NO_PAIRS, OPEN
from parley.analysis.stats import CONFIDENCE
from parley.analysis.tables import read_table
from parley.errors import ParleyError
from parley.games.base import Game
from parley.report.html import ReportLinks, Row, estimate, p_text
from parley.study import Study
from parley.study.comparisons import BOTH, labels_of_rates
from parley.study.condition import Condition, axes_text
from parley.study.load import companions
from parley.study.prompt_sent import ADDED, REMOVED, word_diff
from parley.study.questions import question_text, where_text
from parley.text import counted

MAX_DIFFERENCES = 3  # differences in words, of a study without questions
_WORDS = {
    DIFFERS: "They differ",
    OPEN: "Inconclusive",
    NO_PAIRS: "Inconclusive: there are no pairs",
    FEW: "Inconclusive: fewer than five seeds say too little of how much seeds differ",
    ALIKE: "Inconclusive: all pairs differ by exactly the same, which says nothing of how much others would",
}
_AGENTS = {"n": "agent", "b": "Byzantine agent"}
_MARKS = {REMOVED: Markup("<del>{}</del>"), ADDED: Markup("<ins>{}</ins>")}
_FEW_PAIRS = 10  # of a stratum: below, the tests are liberal (docs/explanation/statistics.md)


def answers(study: Study, questions: pd.DataFrame, links: ReportLinks) -> list[dict[str, Any]]:
    """Return for each row of the table `questions` its numbers as text, the answer as a sentence, and links."""
    controls = _controls(study)
    return [
        {
            **numbers,
            "sentence": f"{difference_text(row, study.game)}{_among(study, row)}; {counted(row['pairs'], 'pair')}.",
            "verdict": f"{_verdict(row, _is_number(row, study.game))} (p {_p(row['p_holm'])}, corrected)."
            + (f" {row['note'][0].upper()}{row['note'][1:]}." if row["note"] else ""),
            "few": row["pairs"] < _FEW_PAIRS * row["strata"],
            "registered": registered_text(row),
            "control": controls.get((row["question"], row["what"], row["from"], row["to"]), controls.get(None, "")),
            "may_grow": study.unfinished is not None or not row["seeds_fixed"],
            "reads": list(_reads(study, *comparison.strata[0])),
            "links": links.question(comparison),
        }
        for row, numbers, comparison in zip(
            questions.to_dict("records"), question_rows(study, questions), study.comparisons, strict=True
        )
    ]


def _controls(study: Study) -> dict[Any, str]:
    """Return what the positive control says by the same rule, by question and what it compares (None: any other)."""
    try:
        control = next((each.study for each in companions(study) if each.kind == "control"), None)
        if control is None:
            return {}
        table = read_table(control.name, "questions")
    except ParleyError:  # the page says elsewhere what is wrong with a companion
        return {None: "Its control has no tables yet: nothing shows that it could have been answered."}
    said: dict[Any, str] = {None: "It has no control: nothing shows that it could have been answered."}
    for row in table.to_dict("records"):
        verdict = _verdict(row, _is_number(row, control.game)).lower()
        lost = (
            "" if row["answer"].startswith(DIFFERS) else ", so nothing shows that a difference would have been found"
        )
        key = (row["question"], row["what"], row["from"], row["to"])
        said[key] = f"Its control, by the same rule: {verdict} (p {_p(row['p_holm'])}, corrected){lost}."
    return said


def _reads(study: Study, *compared: Condition) -> Iterator[tuple[str, str, list[Markup]]]:
    """Yield each two prompts in which the groups of two conditions differ, with the lines of the words that differ."""
    prompts = zip(*([group.player.prompt or each.prompt for group in each.groups] for each in compared), strict=False)
    for one, other in dict.fromkeys(pair for pair in prompts if pair[0] != pair[1]):
        yield one, other, [_marked(line) for line in word_diff(study, one, other)]


def _marked(line: Text) -> Markup:
    parts = line.divide(sorted({place for span in line.spans for place in (span.start, span.end)}))
    forms = [_MARKS[str(part.spans[0].style)] if part.spans else Markup("{}") for part in parts]
    return Markup("").join(form.format(part.plain) for form, part in zip(forms, parts, strict=True))


def largest_differences(
    contrasts: pd.DataFrame, by: Sequence[str], game: type[Game], links: ReportLinks
) -> list[dict[str, str]]:
    """Return what differs most as sentences: of the game's first outcome, else of anything, by the smallest p."""
    sure = contrasts[(contrasts["p_holm"] < 1 - CONFIDENCE) & (contrasts["kind"] != "comparison")]
    first = sure[sure["what"] == game.outcomes[0].name]
    chosen = (first if len(first) else sure).sort_values("p", kind="stable").head(MAX_DIFFERENCES)
    varying = [axis for axis in by if contrasts[axis].nunique() > 1]
    sentences = []
    for row in chosen.to_dict("records"):
        where = axes_text({axis: row[axis] for axis in varying if row[axis] != ""}).replace(" -> ", " → ")
        size = counted(row["pairs"], "pair") if row["pairs"] else "not paired"
        sentence = f"{difference_text(row, game)}{f', at {where}' if where else ''}; {size}."
        sentences.append({"sentence": sentence, "link": links.contrast(row)})
    return sentences


def difference_text(row: Mapping[Any, Any], game: type[Game]) -> str:
    """Return a row of `questions` or `contrasts` in words: `consensus is 16 points [4, 28] less often with ...`."""
    subject, first, second, verb = _sides(row, game)
    if pd.isna(row["difference"]):
        return f"nothing is known of {subject}{second} and{first}"
    number, share = _is_number(row, game), row["kind"] == "quantity"
    scale, form, unit = (1, ".4g", "") if number else (100, ".0f", " points")
    sign = -1 if row["difference"] < 0 else 1
    low, high = sorted(sign * scale * row[name] for name in ("low", "high"))
    interval = "" if pd.isna([low, high]).any() else f" [{_plain(low, form)}, {_plain(high, form)}]"
    change = f"{_plain(abs(scale * row['difference']), form)}{unit}{interval}"
    percent = ".4g" if number else ".0%"
    values = f"{row['value_from']:{percent}} → {row['value_to']:{percent}}"
    values += " on a line" * (row.get("test") == LINES)
    if not row["difference"]:
        alike = "as high" if share else "as often"
        return f"{subject} {verb} {alike}{second} as{first}: a difference of {change} ({values})"
    more, less = ("higher", "lower") if share else ("more often", "less often")
    return f"{subject} {verb} {change} {more if sign > 0 else less}{second} than{first} ({values})"


def _sides(row: Mapping[Any, Any], game: type[Game]) -> tuple[str, str, str, str]:
    """Return in words what is looked at, what follows for the first side and for the second, and the verb."""
    labels, _ = labels_of(game)
    one, other = two_names(row["what"])
    first, second = (f" with {value_text(row, end)}" if row["axis"] else "" for end in ("from", "to"))
    if one == other:
        label = labels.get(one, one)
        label = f"“{label}”" if len(label.split()) > 3 else label  # it may be a sentence of its own
        return label, first, second, "is"
    verb = "is" if row["kind"] == "quantity" else "holds"
    return f"“{labels.get(other, other)}”{second}", f" “{labels.get(one, one)}”{first}", "", verb


def _is_number(row: Mapping[Any, Any], game: type[Game]) -> bool:
    """Whether what is compared has a unit of its own, and is neither a rate nor a share."""
    return two_names(row["what"])[0] in labels_of(game)[1]


def _among(study: Study, row: Mapping[Any, Any]) -> str:
    question = next(each for each in study.content.questions if each.name == row["question"])
    where = where_text(question.where)
    over = f"pooled over {', '.join(question.over)}" if question.over else ""
    scope = "; ".join(text for text in (where, over) if text)
    return f", where {scope}" if where else f", {scope}" if scope else ""


def registered_text(row: Mapping[Any, Any]) -> str:
    """Return as a sentence whether a row of the table `questions` is confirmatory, and by what."""
    text = f"confirmatory: {row['registered']}" if row["confirmatory"] else str(row["registered"])
    return f"{text[0].upper()}{text[1:]}."


def _verdict(row: Mapping[Any, Any], number: bool) -> str:
    answer = str(row["answer"])
    if answer in _WORDS:
        return _WORDS[answer]
    smallest = f"{row['smallest']:g}" if number else f"{100 * row['smallest']:g} points"
    return (
        f"They differ, by less than {smallest}"
        if answer.startswith(DIFFERS)
        else f"No difference of {smallest} or more"
    )


def _p(value: float) -> str:
    text = p_text(value)
    return text if text.startswith("<") else f"= {text}"


def _plain(value: float, form: str) -> str:
    """Return a number without the sign of a zero that rounding leaves."""
    text = f"{value:{form}}"
    return text.removeprefix("-") if float(text) == 0 else text


def labels_of(game: type[Game]) -> tuple[dict[str, str], set[str]]:
    """Return the labels of all that is compared, and the names of what is a number and no share."""
    quantities = (*game.evidence.quantities, *game.evidence.lost)
    labels = labels_of_rates(game) | {quantity.name: quantity.label for quantity in quantities}
    return labels, {quantity.name for quantity in quantities if not quantity.share}


def contrast_texts(row: Row, labels: Mapping[str, str], number: bool) -> dict[str, str]:
    """Return the texts of a contrast or a question: of numbers as they are, else in percent and percentage points."""
    within = row["kind"] == "comparison"
    form, signed, scale, unit = (".4g", "+.4g", 1, "") if number else (".0%", "+.0f", 100, " points")
    known = not pd.isna(row["difference"])
    pairs, sizes = row["pairs"], (row["simulations_from"], row["simulations_to"])
    compared = [labels.get(row[end], row[end]) if within else row[end] for end in ("from", "to")]
    noise = row.get("noise")
    texts = {
        "what": "indicators of one condition" if within else labels.get(row["what"], row["what"]),
        "compared": f"{'' if within else row['axis'] + ': '}{compared[0]} → {compared[1]}",
        "pairs": f"{pairs} pairs" if pairs else f"{sizes[0]}, {sizes[1]} unpaired",
        "discordant": "",
        "values": f"{row['value_from']:{form}} → {row['value_to']:{form}}" if known else "-",
        "all": "",  # rates or means of all simulations, where the pairs are only some of them
        "difference": estimate("difference", signed, scale=scale, unit=unit)(row),
        **{"together": "", "anytime": ""},
        "noise_text": "",  # how much sampling alone explains, where seeds were played again
    }
    for name in ("together", "anytime"):  # with other intervals: for all questions at once, for any number of seeds
        if f"{name}_low" in row and not pd.isna(row[f"{name}_low"]):
            ends = (f"{name}_low", f"{name}_high")
            texts[name] = estimate("difference", signed, *ends, scale=scale, unit=unit)(row)
    if pairs and row["kind"] != "quantity" and not pd.isna(row["only_first"]):
        texts["discordant"] = f"{row['only_first']:.0f} only first, {row['only_second']:.0f} only second"
    if pairs and sizes != (pairs, pairs):
        texts["all"] = f"all: {row['all_from']:{form}} of {sizes[0]} → {row['all_to']:{form}} of {sizes[1]}"
    if known and noise is not None and not pd.isna(noise):
        size = f"{scale * noise:{form if number else '.0f'}}{unit}"
        texts["noise_text"] = f"{'within the noise' if abs(row['difference']) <= noise else 'noise'}: ±{size}"
    return texts


def question_rows(study: Study, questions: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what the questions of a study were answered, as text, in their order."""
    labels, numbers = labels_of(study.game)
    texts = {question.name: question_text(question) for question in study.content.questions}
    return [
        {
            **contrast_texts(
                row | dict.fromkeys(("simulations_from", "simulations_to"), row["pairs"]),
                labels,
                two_names(row["what"])[0] in numbers,
            ),
            "p": p_text(row["p"]),
            "p_holm": p_text(row["p_holm"]),
            "test": row["test"],
            "what": " → ".join(dict.fromkeys(labels[name] for name in two_names(row["what"]))),
            "compared": compared_text(row, labels),
            "name": row["question"],
            "text": texts[row["question"]],
            "strata": "1 stratum" if row["strata"] == 1 else f"{row['strata']} strata",
            "anytime_p": f"{p_text(row['anytime_p'])}, corrected {p_text(row['anytime_p_holm'])}",
            "equivalence": f"{p_text(row['p_equivalence'])}, corrected {p_text(row['p_equivalence_holm'])}",
            "answer": row["answer"],
            "note": row["note"],
        }
        for row in questions.to_dict("records")
    ]


def two_names(what: str) -> tuple[str, str]:
    """Return the names of what a question looks at on its first side and its second, from the column `what`."""
    first, _, second = what.partition(BOTH)
    return first, second or first


def compared_text(row: Mapping[Any, Any], labels: Mapping[str, str]) -> str:
    """Return what a row of the table `questions` compares: values of an axis, or two sides."""
    axis, values = row["axis"], (row["from"], row["to"])
    names = two_names(row["what"])
    if names[0] == names[1]:
        return f"{axis}: {values[0]} → {values[1]}" if "," not in axis else f"{values[0]} → {values[1]}"
    sides = [value_text(row, end) if axis else "" for end in ("from", "to")]
    return " → ".join(", ".join(filter(None, (labels[n], s))) for n, s in zip(names, sides, strict=True))


def value_text(row: Mapping[Any, Any], end: str) -> str:
    """Return the value of the compared axis at one `end` ("from" or "to") in words: `4 Byzantine agents`."""
    axis, value = row["axis"], str(row[end])
    if axis in _AGENTS and value.isdecimal():
        return value if end == "from" else counted(int(value), _AGENTS[axis])
    return value if axis == "model" or "," in axis else f"{axis}={value}"
