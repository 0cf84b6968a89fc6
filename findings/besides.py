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

from findings.text import BY_THE_CHANGE, EXPLORED
from parley.analysis.forks import AS_PARENT
from parley.api import Results
from parley.statistics.stats import holm
from parley.study import Study
from parley.text import one_line

FEWEST = 10  # games of which a share is told
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


def _words(_: Study, played: Results, most: int = 10) -> Beside:
    """Return the words that honest hunters said most, and how often they then hunted the stag."""
    turns = played.table("turns")
    honest = turns[~turns["is_byzantine"]]
    word, stag = honest["message"].str.lower(), honest["action"] == "Hunt Stag"
    said = stag.groupby(word).agg(["size", "mean"]).reset_index(names="word")
    said = said.sort_values(["size", "word"], ascending=[False, True])
    shown = said.head(most).assign(word=said["word"].map(_plain))
    return Beside(
        "words",
        f"The {most} words that honest players said most, of {len(said)}, and the stags among their next actions. "
        f"{word.isna().sum()} times they said none ({stag[word.isna()].mean():.0%} stags).",
        _shown(shown, (), {"word": "{word}", "said": "{size}", "then the stag": "{mean:.0%}"}),
        said.rename(columns={"size": "said", "mean": "then_stag"}),
    )


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


def _moves(study: Study, played: Results, about: str = _MOVED) -> Beside:
    """Return what honest agents proposed, beside what they and the others held before, and whether a reply was new."""
    turns = played.table("turns").sort_values(["id", "round"], kind="stable")
    axes = _axes(study, turns)
    replies = played.frame("attempts", columns=["id", "round", "agent", "phase", "failure", "text"])
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
        about,
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


def _votes(study: Study, played: Results) -> Beside:
    """Return how often honest agents vote to stop, by the number of values that they hold in that round."""
    honest = played.table("turns").query("not is_byzantine")
    held = honest.groupby(["id", "round"])["value"].nunique().rename("values")
    votes = honest[honest["vote"].notna()].join(held, on=["id", "round"])
    data = votes["vote"].eq("stop").groupby(votes["values"]).agg(["size", "mean"]).reset_index()
    data = data.rename(columns={"size": "votes", "mean": "stop"})
    data["games"] = votes.groupby("values")["id"].nunique().to_numpy()
    rows = [
        (number, games, size, round(size * stop), f"{stop:.0%}" if games >= FEWEST else "too few games")
        for number, size, stop, games in data.itertuples(index=False)
    ]
    return Beside(
        "votes",
        "How often honest agents vote to stop, by how many different values they hold in that round. Votes of a game "
        f"are not independent, so fewer than {FEWEST} games have no share.",
        markdown_table(["values held", "games", "votes", "to stop", "share"], rows),
        data,
    )


def _achieved(study: Study, played: Results, measures: Sequence[str] = (), about: str = _PROTOCOL) -> Beside:
    """Return what was reached of some measures (default: of all), beside the best known protocol in the same seats."""
    table = played.table("achievable")
    table = table[table["measure"].isin(measures)] if measures else table
    axes = _axes(study, table)
    data = table[[*axes, "measure", "simulations", "promised", "reached", "achievable", "lost", "low", "high"]]
    labels = {of.name: of.label for of in study.game.evidence.about("regret")}
    rows = []
    for row in data.replace({"measure": labels}).to_dict("records"):
        form, promised = ".0%", {0.0: "no", 1.0: "yes"}.get(row["promised"], f"{row['promised']:.0%}")
        if row["measure"] == labels["rounds"]:
            form, promised = ".1f", "–"
        limits = "" if np.isnan(row["low"]) else f" [{row['low']:{form}}, {row['high']:{form}}]"
        told = [f"{row[name]:{form}}" for name in ("reached", "achievable")]
        rows.append([*(row[axis] for axis in axes), row["measure"], *told, promised, f"{row['lost']:{form}}{limits}"])
    return Beside(
        "achievable",
        about,
        markdown_table([*axes, "of all games", "reached", "protocol", "promised by theory", "lost"], rows),
        data,
    )


def _rules(study: Study, played: Results) -> Beside:
    """Return what each rule would have decided, from first and from last answers, without a new reply."""
    table = played.table("decision_rates").query("voters == 'honest'")
    axes = _axes(study, table)
    data = table[[*axes, "answers", "rule", "simulations", "decided", "right", "low", "high", "difference", "p_holm"]]
    first = data.query("rule == 'plurality'").set_index([*axes, "answers"])
    kept = [row["rule"] == "plurality" or not _as_plurality(row, first, axes) for row in data.to_dict("records")]
    of = data["answers"].where(data["answers"] == "course", data["answers"] + " answers")
    shown = data.assign(rule=data["rule"].str.replace("_", " ") + ", " + of, points=100 * data["difference"])[kept]
    return Beside(
        "rules",
        "How often honest agents would have decided under each rule, and rightly ([how](explanation/talking.md)); the "
        "difference, in points, is from the plurality of first answers (p corrected by Holm over the rules of these "
        "games). Majorities and two thirds without a row are as often decided, and right, as the plurality of the "
        "same answers.",
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
        "same problems, in points (p corrected by Holm over the arms)."
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
                "less talking": "{points:+.0f} (p {p_holm:.2g})",
            },
        ),
        data,
    )


def _forks(study: Study, played: Results) -> Beside:
    """Return how far a change moves all that is compared of games, beside how far unchanged forks are apart."""
    game, table = study.game, played.table("forks")
    data = table[(table["base"] == "keep") & (table["change"] != "keep")]
    data = data.assign(p_rows=holm(data["p"]))
    measured = {AS_PARENT: "ends as recorded"}
    measured |= {each.name: each.label for each in (*game.outcomes, *game.evidence.indicators)}
    measured |= {each.name: each.label for each in game.evidence.quantities}
    few, fewer = int((data["p"] < 0.05).sum()), int((data["p_rows"] < 0.05).sum())
    by_itself = data[(data["p"] < 0.05) & data["what"].isin(BY_THE_CHANGE)]
    return Beside(
        "forks",
        f"Means over recorded games of all that is compared. {few} of {len(data)} rows have p below 0.05, {fewer} "
        f"once corrected over these rows (Holm); {len(by_itself)} of the {few} are marked (\\*): they move whatever "
        "players do, as one round instead of two follows the first betrayal, or as round 1 pays more. *Apart*: how "
        "far a changed fork is from one as it was; *by chance*: how far two as it was are from each other.",
        _shown(
            data.assign(what=[measured[w] + r" (\*)" * (w in BY_THE_CHANGE) for w in data["what"]]),
            (),
            {
                "measured": "{what}",
                "recorded games": "{parents}",
                "as it was": "{value_from:.2f}",
                "changed": "{value_to:.2f}",
                "difference": "{difference:+.2f} [{low:+.2f}, {high:+.2f}]",
                "p": "{p:.2g}",
                "corrected": "{p_rows:.2g}",
                "apart": "{differs:.2f}",
                "by chance": "{noise:.2f}",
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


def _as_plurality(row: dict[Any, Any], pluralities: pd.DataFrame, axes: Sequence[str]) -> bool:
    """Return whether a rule decides as often, and as often rightly, as the plurality of the same answers."""
    key = tuple(row[name] for name in (*axes, "answers"))
    return key in pluralities.index and all(row[name] == pluralities.loc[key, name] for name in ("decided", "right"))


def _share(value: Any, holds: Callable[[Any], object]) -> float:
    """Return 1 or 0, or NaN where there is no value."""
    return float("nan") if pd.isna(value) else float(bool(holds(value)))


_MORE: dict[str, Sequence[Callable[[Study, Results], Beside]]] = {
    "hunt": [_words],
    "hunt-forks": [_forks],
    "consensus": [_achieved, _moves, _votes],
    "filters": [
        partial(_achieved, measures=("hull",), about="What the groups reached, beside the [protocol](#consensus)."),
        _filtered,
        partial(_moves, about="What honest agents proposed, as in the [table above](#consensus)."),
    ],
    "deliberation": [_rules, _changes],
    "equal-cost": [_equal_cost],
}


def _axes(study: Study, table: pd.DataFrame) -> list[str]:
    return [axis for axis in study.axes if table[axis].nunique() > 1]


def _as_tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _plain(word: str) -> str:
    """Return a model's word without what Markdown would read as markup."""
    return re.sub(r"[^\w'() -]", "?", one_line(word, 30))


def _mean(row: Any) -> str:
    if np.isnan(row["mean"]):
        return "–"
    limits = "" if np.isnan(row["low"]) else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['mean']:.2f}{limits}"
