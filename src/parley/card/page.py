"""A card for people: one sheet of HTML, Markdown for a model's README, and two cards compared."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parley.card.content import FOLDER, Axis, Card, Result, card_text, definition, read_card
from parley.card.measures import BySeed
from parley.errors import ParleyError, UsageError
from parley.files import write_atomically
from parley.report.html import interval_text, page
from parley.statistics.differences import NUMBER, RATE, SHARE, SamplePair, compare
from parley.statistics.stats import CONFIDENCE
from parley.text import one_line, table


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


def number_text(axis: Axis, result: Result) -> str:
    """Return the number of an axis with its limits, in percent, points or votes."""
    if result.value is None:
        return "no number"
    estimate = (result.value, result.low, result.high)
    if axis.unit:
        return interval_text(estimate, ".1f")
    return interval_text(
        estimate, "+.0f" if axis.against else ".0f", scale=100, unit=" points" if axis.against else " %"
    )


def sentence(axis: Axis, result: Result) -> str:
    """Return what the number of an axis means."""
    if result.value is None:
        return f"Nothing can be said: {result.reason}."
    number = _end(axis, result.value) + "%" * (not axis.unit and not axis.against)
    note = f" ({result.note})" if result.note else ""
    return f"{axis.means.format(value=number)}{note}"


def about(card: Card) -> str:
    """Return in a line what the card is of, and how it was made."""
    source = card.model.get("source", {})
    model = (
        ", ".join(f"{key} {value}" for key, value in source.items()) if source else "scripted, the same for everybody"
    )
    games = sum(each.games for each in card.axes if each.axis == "form")
    quick = ", quick: few games, wide intervals" if card.quick else ""
    answered = f"; answered by {', '.join(card.answered)}" if card.answered else ""
    played = f"{games} games{f', {card.missing} more are missing' if card.missing else ''}{quick}"
    return one_line(f"Card {card.card}, {card.date}, {played}; {model}{answered}; Parley {card.parley}", 400)


def _listed(card: Card) -> Iterator[tuple[Axis, Result]]:
    axes = {axis.name: axis for axis in definition().axes}
    yield from ((axes[each.axis], each) for each in card.axes if each.axis in axes)


def markdown(card: Card) -> str:
    """Return a card as Markdown, for the README of a model."""
    lines = [f"## Parley card of {card.name}", "", about(card), ""]
    lines += ["| axis | 95% interval | low end | high end |", "|---|---|---|---|"]
    for axis, result in _listed(card):
        ends = (_end(axis, each) for each in (result.chance, result.best))
        mark = " (**a control failed**)" if result.failed else ""
        shown = number_text(axis, result) if result.value is not None else f"no number: {result.reason}"
        lines.append(f"| {axis.label}{mark} | {shown} | {' | '.join(ends)} |")
    lines += ["", "Shares in percent, differences in points. There is no total: the axes measure different things."]
    return "\n".join(lines) + "\n"


def _end(axis: Axis, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if axis.unit else f"{100 * value + 0.0:{'+' if axis.against else ''}.0f}"


def html(card: Card, others: Sequence[Card]) -> str:
    """Return a card as a page: a row an axis, on which other cards are gray marks."""
    rows = [
        {
            "axis": axis,
            "result": result,
            "number": number_text(axis, result),
            "sentence": sentence(axis, result),
            "place": {
                name: _place(axis, getattr(result, name)) for name in ("value", "low", "high", "chance", "best")
            },
            "zero": _place(axis, 0.0) if axis.against else None,
            "others": [
                (other.name, _place(axis, each.value))
                for other in others
                for each in other.axes
                if each.axis == axis.name and each.value is not None
            ],
            "from": _end(axis, axis.limits[0]),
            "to": _end(axis, axis.limits[1]),
        }
        for axis, result in _listed(card)
    ]
    names = ", ".join(other.name for other in others)
    return page(
        "card/card.html", "card", title=f"Card of {card.name}", card=card, rows=rows, about=about(card), names=names
    )


def _place(axis: Axis, value: float | None) -> float | None:
    """Return where a value stands on its axis, from 0 to 100."""
    least, most = axis.limits
    return None if value is None else round(100 * (value - least) / (most - least), 2)


def comparison_lines(first: Card, second: Card) -> list[str]:
    """Return which axes of two cards differ, second less first: paired by seed, corrected by Holm over all axes.

    Raises UsageError for cards of another version.
    """
    for card in (first, second):
        if card.card != definition().card:
            raise UsageError(
                f"--compare: {card.name}: card {card.card}, and this Parley asks card {definition().card}; cards of "
                "different versions are not compared"
            )
    others = {each.axis: each.by_seed for each in second.axes}
    samples = [
        _samples(axis, one.by_seed, others.get(one.axis, {}))
        for axis, one in _listed(first)
        if one.by_seed.keys() & others.get(one.axis, {}).keys()
    ]
    rows: list[list[Any]] = []
    for row in compare(samples).to_dict("records"):
        axis = row["axis"]
        difference = interval_text(
            (row["difference"], row["low"], row["high"]),
            "+.1f" if axis.unit else "+.0f",
            scale=1 if axis.unit else 100,
        )
        sides = (_end(axis, row[side]) for side in ("value_from", "value_to"))
        answer = "differs" if row["p_holm"] < 1 - CONFIDENCE else "open"
        rows.append([axis.name, row["pairs"], *sides, difference, f"{row['p_holm']:.3f}", answer])
    there = {row[0] for row in rows}
    unlike = [axis.name for axis in definition().axes if axis.name not in there]
    lines = table(("axis", "seeds", first.name, second.name, "difference", "p (Holm)", ""), rows)
    lines += [f"no number of both on one seed: {', '.join(unlike)}"] if unlike else []
    for card in (first, second):
        lines += [f"{card.name}: {card.missing} games are missing"] if card.missing else []
        lines += [f"{card.name}: a control failed: do not trust {', '.join(card.failed)}"] if card.failed else []
    return lines


def _samples(axis: Axis, first: BySeed, second: BySeed) -> SamplePair:
    seeds = sorted(first.keys() & second.keys())
    x, y = (np.array([by_seed[seed] for seed in seeds]) for by_seed in (first, second))
    if axis.unit:
        return SamplePair({"axis": axis}, x, y, NUMBER, family="card")
    kind = SHARE if axis.against or not np.isin([x, y], (0, 1)).all() else RATE
    return SamplePair({"axis": axis}, x, y, kind, family="card", most=axis.limits[1] - axis.limits[0])
