"""Tables of what was seen besides the questions of the findings: exploratory, made from the tables of the results."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd

from findings.text import EXPLORED
from parley.api import Results
from parley.study import Study

_MOST = re.compile(r"\bmost\b", re.IGNORECASE)


@dataclass(frozen=True)
class Beside:
    """A table: a sentence about it, its rows as they are shown, and as they are written."""

    name: str
    about: str
    shown: str
    data: pd.DataFrame


def besides(name: str, study: Study, played: Results) -> Iterator[Beside]:
    """Yield the tables of a study of the findings."""
    if name in EXPLORED:
        yield _means(EXPLORED[name], study, played)
    for table in _MORE[name]:
        yield table(study, played)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; its cells hold no markup."""
    first, *others = (f"| {' | '.join(map(str, cells))} |" for cells in [header, *rows])
    return "\n".join([first, f"|{'---|' * len(header)}", *others])


def _shown(data: pd.DataFrame, axes: Sequence[str], cells: Mapping[str, str]) -> str:
    """Return a table in Markdown: `cells` has a format of a row by the heading; what a row lacks is a dash."""
    rows = [
        [*(row[axis] for axis in axes), *(_cell(form, row) for form in cells.values())]
        for row in data.to_dict("records")
    ]
    return markdown_table([*axes, *cells], rows)


def _cell(form: str, row: Mapping[Any, Any]) -> str:
    used = [row[name] for _, name, _, _ in Formatter().parse(form) if name]
    return "–" if any(map(pd.isna, used)) else form.format(**row)


def _means(columns: dict[str, str], study: Study, played: Results) -> Beside:
    shown = played.table("quantities")
    rates = played.table("rates").rename(columns={"indicator": "quantity", "rate": "mean"})
    ends = played.table("outcomes").rename(columns={"outcome": "quantity", "rate": "mean"})
    every = pd.concat([shown, rates, ends])
    axes = _axes(study, every)
    data = every[every["quantity"].isin(columns)][[*axes, "quantity", "simulations", "mean", "low", "high"]]
    reactions = played.table("reactions").reindex(columns=[*axes, "what", "value_without"]).dropna()
    shams = {tuple(row[:-1]): row[-1] for row in reactions.itertuples(index=False)}
    rows = []
    for key, group in data.groupby(axes, sort=False):
        by = group.set_index("quantity")
        means = [_mean(by.loc[column]) if column in by.index else "–" for column in columns]
        found = [shams.get((*_as_tuple(key), column)) for column in columns]
        means = [mean if sham is None else f"{mean}; sham {sham:.2f}" for mean, sham in zip(means, found, strict=True)]
        rows.append([*_as_tuple(key), int(group["simulations"].max()), *means])
    about = "Means with their 95% intervals, by condition."
    if any(column in set(reactions["what"]) for column in columns):
        about += " *Sham*: what the same players do from the same round on in the seed's game without an adversary."
    return Beside("conditions", about, markdown_table([*axes, "simulations", *columns.values()], rows), data)


def _changes(study: Study, played: Results) -> Beside:
    """Return what became of honest agents' first answers, by whether another honest agent's was right."""
    turns = played.table("turns").query("turns > 0 and not is_byzantine").sort_values("turn", kind="stable")
    axes = _axes(study, turns)
    agents = turns.assign(right=turns["correct"].eq(True)).groupby(["id", "agent"])
    # An answer that is missing or could not be read is not right, and is not replaced by the next one.
    first, last = (found.set_index(["id", "agent"]) for found in (agents.head(1), agents.tail(1)))
    told = first[axes].assign(
        first_right=first["right"],
        heard_right=first.groupby("id")["right"].transform("sum") > first["right"],
        kept=last["answer"].eq(first["answer"]),
        turned_right=last["right"] & ~first["right"],
        turned_wrong=~last["right"] & first["right"],
    )
    by = told.groupby([*axes, "first_right", "heard_right"])
    data = by.mean().assign(agents=by.size()).reset_index()
    names = {"first_right": {True: "right", False: "wrong"}, "heard_right": {True: "yes", False: "no"}}
    cells = {"first answer": "{first_right}", "heard a right one": "{heard_right}", "agents": "{agents}"}
    cells |= {share.replace("_", " "): f"{{{share}:.0%}}" for share in ("kept", "turned_right", "turned_wrong")}
    return Beside(
        "changes",
        "What became of honest agents' first answers, by whether they could hear a right one from another honest "
        "agent. Those who neither kept theirs nor turned gave another wrong one.",
        _shown(data.replace(names), axes, cells),
        data,
    )


_MOVED = (
    "What honest agents proposed: in the first round the value they were given or another; later the value they held, "
    "one that another agent held, or (the rest) one of nobody's. *Word for word*: later replies that repeat the "
    'agent\'s reply of the round before. Replies with the word "most", and votes, are those of all rounds.'
)
_PROTOCOL = (
    "What the groups reached, beside the best known protocol in the same seats, with the same values and the same "
    "words of the adversary ([how](how-to/achievable.md)). It knows how many agents may be Byzantine, models do not."
)


def _moves(study: Study, played: Results) -> Beside:
    """Return what honest agents proposed, beside what they and the others held before, and whether a reply was new."""
    turns = played.table("turns").sort_values(["id", "round"], kind="stable")
    axes = _axes(study, turns)
    replies = played.attempts
    usable = replies[(replies["phase"] == "propose") & replies["failure"].isna()]
    texts = usable.set_index(["id", "round", "agent"])["text"].to_dict()
    held = turns.set_index(["id", "round", "agent"])["value"].to_dict()
    together = turns.groupby(["id", "round"])["value"].agg(set).to_dict()
    rows = []
    for turn in turns[~turns["is_byzantine"]].to_dict("records"):
        here, before = ((turn["id"], turn["round"] - back, turn["agent"]) for back in (0, 1))
        first, value = turn["round"] == 1, turn["proposal"]
        row = {"id": turn["id"], "stop": _share(turn["vote"], partial(eq, "stop"))}
        row["most"] = _share(texts.get(here), _MOST.search)
        if first:
            row["began"] = _share(value, partial(eq, turn["initial_value"]))
        else:
            row["kept"] = _share(value, partial(eq, held[before]))
            row["taken"] = _share(value, (together[before[:2]] - {held[before]}).__contains__)
            row["again"] = _share(texts.get(here), partial(eq, texts.get(before)))
        rows.append({axis: turn[axis] for axis in axes} | row)
    shares = ["began", "kept", "taken", "again", "most", "stop"]
    by = pd.DataFrame(rows, columns=[*axes, *shares]).groupby(axes)
    data = by[shares].mean().assign(later=by["kept"].count()).reset_index()
    return Beside(
        "moves",
        _MOVED,
        _shown(
            data,
            axes,
            {
                "later proposals": "{later}",
                "first: the given": "{began:.0%}",
                "kept": "{kept:.0%}",
                "another's": "{taken:.0%}",
                "word for word": "{again:.0%}",
                '"most"': "{most:.0%}",
                "votes to stop": "{stop:.0%}",
            },
        ),
        data,
    )


def _achieved(study: Study, played: Results) -> Beside:
    """Return what was reached of valid agreement and the hull, beside the best known protocol in the same seats."""
    table = played.table("achievable").query("measure in ('validity', 'hull')")
    axes = _axes(study, table)
    data = table[[*axes, "measure", "simulations", "promised", "reached", "achievable", "lost", "low", "high"]]
    labels = {of.name: of.label for of in study.game.evidence.about("regret")}
    rows = []
    for row in data.replace({"measure": labels}).to_dict("records"):
        promised = {0.0: "no", 1.0: "yes"}.get(row["promised"], f"{row['promised']:.0%}")
        limits = "" if np.isnan(row["low"]) else f" [{row['low']:.0%}, {row['high']:.0%}]"
        told = [f"{row[name]:.0%}" for name in ("reached", "achievable")]
        rows.append([*(row[axis] for axis in axes), row["measure"], *told, promised, f"{row['lost']:.0%}{limits}"])
    return Beside(
        "achievable",
        _PROTOCOL,
        markdown_table([*axes, "of all games", "reached", "protocol", "promised by theory", "lost"], rows),
        data,
    )


def _rules(study: Study, played: Results) -> Beside:
    """Return what each rule would have decided, from first and from last answers, without a new reply."""
    table = played.table("decision_rates").query("voters == 'honest'")
    axes = _axes(study, table)
    data = table[[*axes, "answers", "rule", "simulations", "decided", "right", "low", "high", "difference", "p_holm"]]
    kept = ~data.duplicated([*axes, "answers", "decided", "right"])
    of = data["answers"].where(data["answers"] == "course", data["answers"] + " answers")
    shown = data.assign(rule=data["rule"].str.replace("_", " ") + ", " + of, points=100 * data["difference"])[kept]
    return Beside(
        "rules",
        "How often honest agents would have decided under each rule, and rightly ([how](explanation/talking.md)); the "
        "difference, in points, is from the plurality of first answers (p corrected by Holm over the rules of these "
        "games). A rule without a row decides as often, and as often rightly, as one before it.",
        _shown(
            shown,
            axes,
            {
                "rule": "{rule}",
                "decided": "{decided:.0%}",
                "right": "{right:.0%} [{low:.0%}, {high:.0%}]",
                "difference": "{points:+.0f} (p {p_holm:.2g})",
            },
        ),
        data,
    )


def _equal_cost(study: Study, played: Results) -> Beside:
    """Return what was right, and what it cost, by arm."""
    table = played.table("equal_cost")
    data = table[["arm", *table.columns[list(table.columns).index("simulations") :]]]
    shown = data.assign(arm=data["arm"].str.replace("_", " "), points=100 * data["difference"])
    short = table["short"].max()
    return Beside(
        "equal-cost",
        "What each arm takes and how often its plurality is right; *less talking*: the difference from talking on the "
        "same problems, in points, exploratory."
        + f" In {short:.0%} of the games all independent answers together cost less than talking."
        * bool(short > 0),
        _shown(
            shown,
            (),
            {
                "arm": "{arm}",
                "games": "{simulations}",
                "answers taken": "{answers:.1f}",
                "requests": "{requests:.0f}",
                "tokens a game": "{tokens:,.0f}",
                "cost": "{cost_ratio:.2f}",
                "right": "{right:.0%} [{low:.0%}, {high:.0%}]",
                "less talking": "{points:+.0f}",
            },
        ),
        data,
    )


def _filtered(_: Study, played: Results) -> Beside:
    """Return whose messages filters dropped where an agent is Byzantine, and how often scores name one worst."""
    rows = []
    for record in played.records:
        replies, chosen = record.transcript, record.axes["filter"]
        liars = set(replies.loc[replies["role"] == "byzantine", "agent"])
        if not liars or chosen == "none":
            continue
        scores = replies.loc[(replies["phase"] == "score") & replies["failure"].isna(), "text"]
        given = [list(json.loads(text).values()) for text in scores]
        rows += [(chosen, "one worst", each.count(min(each)) == 1) for each in given]
        dropped = [peer for told in record.trace for of in told.get("filtered", {}).values() for peer in of]
        rows += [(chosen, "byzantine", peer in liars) for peer in dropped]
    table = pd.DataFrame(rows, columns=["filter", "what", "yes"])
    data = table.groupby(["filter", "what"], sort=False)["yes"].agg(number="size", share="mean").reset_index()
    shown, named = data[data["what"] == "byzantine"], data[data["what"] == "one worst"]
    worst = "".join(
        f" Of {row['number']} scorings {row['share']:.0%} give one message the lowest score."
        for row in named.to_dict("records")
    )
    return Beside(
        "filtered",
        "Whose messages were dropped; by chance a quarter are those of the one Byzantine agent among four others."
        f"{worst} Messages of a game are not independent.",
        _shown(shown, (), {"filter": "{filter}", "dropped": "{number}", "the Byzantine agent's": "{share:.0%}"}),
        data,
    )


def _share(value: Any, holds: Callable[[Any], object]) -> float:
    """Return 1 or 0, or NaN where there is no value."""
    return float("nan") if pd.isna(value) else float(bool(holds(value)))


_MORE: dict[str, Sequence[Callable[[Study, Results], Beside]]] = {
    "hunt": [],
    "hunt-forks": [],
    "consensus": [_achieved, _moves],
    "filters": [_filtered],
    "deliberation": [_rules, _changes],
    "equal-cost": [_equal_cost],
}


def _axes(study: Study, table: pd.DataFrame) -> list[str]:
    return [axis for axis in study.axes if table[axis].nunique() > 1]


def _as_tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _mean(row: Any) -> str:
    if np.isnan(row["mean"]):
        return "–"
    limits = "" if np.isnan(row["low"]) else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:.2f}{limits}"
