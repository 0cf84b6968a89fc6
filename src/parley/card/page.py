"""A card for people: one sheet of HTML, Markdown for a model's README, and two cards compared."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parley.card.content import FOLDER, Axis, Card, Result, card_text, definition, read_card
from parley.card.measures import samples
from parley.errors import ParleyError, UsageError
from parley.files import write_atomically
from parley.report.html import interval_text, p_text, page
from parley.statistics.differences import compare
from parley.statistics.stats import CONFIDENCE
from parley.text import one_line, table

_ENOUGH = 0.5  # power from which a difference is rather found than not
_NO_TOTAL = (
    "Shares are in percent, differences in points. What games find are differences between two such cards. There is "
    "no total: the axes measure different things."
)
_MARKUP = re.compile(r"[\\`*_~\[\]<>|&]")


def write_card(card: Card, folder: Path) -> list[Path]:
    """Write card.json, card.md and card.html, on which other cards are gray marks; return the paths."""
    texts = {"card.json": card_text(card), "card.md": markdown(card), "card.html": html(card, _others(card, folder))}
    for name, text in texts.items():
        write_atomically(folder / name, lambda file, text=text: file.write(text.encode()))  # type: ignore[misc]
    return [folder / name for name in texts]


def _others(card: Card, folder: Path) -> list[Card]:
    """Return the shipped cards, and those beside this one, of the same version; what is no card is left out."""
    found: dict[str, Card] = {}
    for file in [*sorted((FOLDER / "shipped").glob("*.json")), *sorted(folder.parent.glob("*/card.json"))]:
        try:
            other = read_card(file)
        except ParleyError:
            continue
        if other.card == card.card and other.name != card.name:
            found[other.name] = other
    return list(found.values())


def _shown(axis: Axis, value: float | None, *limits: float | None, unit: str = "") -> str:
    """Return a number of an axis, or its limits too, in percent, points or votes; "-" for none."""
    form = ".1f" if axis.unit else "+z.0f" if axis.against else ".0f"
    return interval_text((value, *(limits or (None, None))), form, scale=1 if axis.unit else 100, unit=unit)


def sentences(axis: Axis, result: Result, quick: bool) -> str:
    """Return what the number of an axis means, what else to know of it, and which difference a full card can find."""
    if result.value is None:
        said = [f"Nothing can be said: {result.reason}."]
    else:
        number = _shown(axis, result.value) + "%" * (not axis.unit and not axis.against)
        said = [axis.means.format(value=number), f"{result.note}." if result.note else "", axis.ends_say]
        said.append("" if quick else _power_text(axis, result))
    return " ".join(filter(None, [*said, *(f"Control: {why}." for why in result.failed)]))


def _power_text(axis: Axis, result: Result) -> str:
    size = _size(axis, result.smallest)
    alike = f" Two cards of one model differ by less than {_size(axis, result.noise)}." if result.noise else ""
    if result.power is None:
        return f"Whether these games find a difference of {size} is not known.{alike}"
    if result.power < _ENOUGH:
        return f"Too few games to find a difference of {size} (chance {result.power:.0%}).{alike}"
    return f"These games find a difference of {size} with a chance of {result.power:.0%}.{alike}"


def _size(axis: Axis, difference: float) -> str:
    """Return a difference between two cards as text."""
    return f"{difference:.1f} {axis.unit}" if axis.unit else f"{100 * difference:.0f} points"


def about(card: Card) -> str:
    """Return in a line what the card is of, and how it was made."""
    source = ", ".join(f"{key} {value}" for key, value in card.model.get("source", {}).items()) or "scripted"
    games = sum(each.games for each in card.axes if each.axis == "form")
    quick = ", quick: too few games to tell models apart" if card.quick else ""
    answered = f"; answered by {', '.join(card.answered)}" if card.answered else ""
    played = f"{games} games{f', {card.missing} more are missing' if card.missing else ''}{quick}"
    return one_line(f"Card {card.card}, {card.date}, {played}; {source}{answered}; Parley {card.parley}", 400)


def _rows(card: Card) -> Iterator[dict[str, Any]]:
    """Yield what a sheet says of each axis."""
    for axis, result in card.listed():
        unit = f" {axis.unit}" if axis.unit else " points" if axis.against else " %"
        ends = zip(axis.ends, (result.chance, result.best), strict=True)
        yield {
            "axis": axis,
            "result": result,
            "number": _shown(axis, result.value, result.low, result.high, unit=unit),
            "sentences": sentences(axis, result, card.quick),
            "limits": [_shown(axis, each) for each in axis.limits],
            "ends": [f"{name} {_shown(axis, value)}" for name, value in ends],
        }


def markdown(card: Card) -> str:
    """Return a card as Markdown, for the README of a model."""
    lines = [f"## Parley card of {card.name}", "", _plain(about(card)), ""]
    lines += ["| axis | 95% interval | low end | high end |", "|---|---|---|---|"]
    said = []
    for row in _rows(card):
        mark = " (**a control failed**)" if row["result"].failed else ""
        lines.append(f"| {row['axis'].label}{mark} | {row['number']} | {' | '.join(row['ends'])} |")
        said.append(f"- **{row['axis'].label}**: {row['axis'].question} {_plain(row['sentences'])}")
    lines += ["", *said, "", _NO_TOTAL]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Return text from outside as Markdown on one line, in which nothing is markup."""
    return _MARKUP.sub(r"\\\g<0>", one_line(text))


def html(card: Card, others: Sequence[Card]) -> str:
    """Return a card as a page: a row an axis, on which other cards are gray marks."""
    rows = list(_rows(card))
    return page("card/card.html", card=card, rows=rows, others=others, about=about(card), no_total=_NO_TOTAL)


def comparison_lines(first: Card, second: Card) -> list[str]:
    """Return which axes of two cards of this version differ, second less first, by seed, corrected by Holm."""
    asked = definition()
    for card in (first, second):
        if card.card != asked.card:
            said = f"card {card.card}, and this Parley asks card {asked.card}"
            raise UsageError(f"--compare: {card.name}: {said}; cards of different versions are not compared")
    others = {each.axis: each.by_seed for each in second.axes}
    pairs = [
        samples(axis, one.by_seed, others[one.axis], axis.limits[1] - axis.limits[0])
        for axis, one in first.listed()
        if one.by_seed.keys() & others.get(one.axis, {}).keys()
    ]
    rows: list[list[Any]] = []
    for row in compare(pairs).to_dict("records"):
        axis = row["axis"]
        limits = (row["difference"], row["low"], row["high"])
        difference = interval_text(limits, "+z.1f" if axis.unit else "+z.0f", scale=1 if axis.unit else 100)
        sides = (_shown(axis, row[side]) for side in ("value_from", "value_to"))
        answer = "differs" if row["p_holm"] < 1 - CONFIDENCE else "open"
        rows.append([axis.name, row["pairs"], *sides, difference, p_text(row["p_holm"]), answer])
    unlike = [axis.name for axis in asked.axes if axis.name not in [row[0] for row in rows]]
    names = [first.name, second.name]
    if first.name == second.name:
        names = [f"{first.name} (first)", f"{second.name} (second)"]
    lines = table(("axis", "seeds", *names, "difference", "p (Holm)", ""), rows)
    lines += [f"no number of both on one seed: {', '.join(unlike)}"] if unlike else []
    lines += ["one card is quick: only its few seeds are compared"] if first.quick != second.quick else []
    for name, card in zip(names, (first, second), strict=True):
        lines += [f"{name}: {card.missing} games are missing"] if card.missing else []
        lines += [f"{name}: a control failed: do not trust {', '.join(card.failed)}"] if card.failed else []
    return lines
