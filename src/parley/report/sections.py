"""The tables of the report: which rows and columns each has."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from parley.analysis.conditions import RATE, outcomes_of
from parley.analysis.forks import AS_PARENT, UNCHANGED
from parley.analysis.paper import paper_lines
from parley.analysis.rates import all_quantities
from parley.analysis.simulations import ALL, COLUMNS
from parley.games.base import Game
from parley.games.evidence import ANY as ANY_BEHAVIOR
from parley.games.evidence import NONE, OutcomeClass, Quantity
from parley.policies import FAILURE_CLASSES
from parley.report.answers import change_text, discordant_text, is_number, values_text
from parley.report.html import (
    HtmlColumn,
    HtmlTable,
    ReportLinks,
    Row,
    estimate,
    p_column,
    table,
    words,
)
from parley.report.overview import simulations_text
from parley.study import Study
from parley.study.comparisons import labels_of

MAX_CONTRASTS = 60  # rows; the table on the disk has all


def all_tables(study: Study, made: Mapping[str, pd.DataFrame], links: ReportLinks) -> dict[str, HtmlTable]:
    """Return the tables of the page by name, from those on the disk; `study` has the simulations that they are of."""
    by, game = study.axes, study.game
    return {
        "conditions": condition_table(made["conditions"], by, outcomes_of(made["conditions"], game), links),
        "endings": ending_table(made["simulations"], by),
        "rates": rate_table(made["rates"], by, game),
        "means": mean_table(made["quantities"], by, game),
        "contrasts": contrast_table(made["contrasts"], by, game),
        "forks": _fork_table(made["forks"], game),
        "noise": _noise_table(made["noise"], by, game),
        "paper": table("paper", [{"line": line} for line in paper_lines(made["paper"], game)], words("what", "line")),
        "players": player_table(made["players"], by, game),
        "behaviors": behavior_table(made["behaviors"], by, game),
        "reactions": reaction_table(made["reactions"], by, game),
    }


# Conditions, and how their simulations ended


def condition_table(
    conditions: pd.DataFrame, by: Sequence[str], outcomes: Sequence[OutcomeClass], links: ReportLinks
) -> HtmlTable:
    """Return how the simulations of each condition ended."""
    several = conditions["threat_model"].nunique() > 1 or conditions["threat_model"].iloc[0] != "none"
    of_models = partial(_replies, number=ALL, rate=RATE)
    degenerate = HtmlColumn("degenerate replies", of_models, partial(_classes, columns=COLUMNS))
    rows = []
    for row in conditions.to_dict("records"):
        values = [row[axis] for axis in by]
        for name in (outcome.name for outcome in outcomes):  # where none ended so a link leads nowhere
            row[f"{name}_link"] = links.simulations(values, name) if row[f"{name}_rate"] > 0 else ""
        rows.append({**row, "link": links.simulations(values)})
    return table(
        "conditions",
        rows,
        *([words("threat model", "threat_model")] if several else []),
        HtmlColumn("simulations", simulations_text, link="link"),
        *(
            HtmlColumn(
                o.label,
                estimate(f"{o.name}_rate", ".0%", f"{o.name}_low", f"{o.name}_high"),
                partial(_rate_count, of=o.name),
                f"{o.name}_link",
            )
            for o in outcomes
        ),
        HtmlColumn("median rounds", lambda row: "-" if pd.isna(row["median_rounds"]) else f"{row['median_rounds']:g}"),
        HtmlColumn(
            "unusable replies",
            partial(_replies, number="failed_replies", rate="failed_reply_rate"),
            partial(_classes, columns=dict(zip(FAILURE_CLASSES, FAILURE_CLASSES, strict=True))),
        ),
        *([degenerate] if RATE in conditions else []),
        by=by,
    )


def _rate_count(row: Row, of: str) -> str:
    return "cannot be" if pd.isna(row[f"{of}_rate"]) else f"{row[f'{of}_count']} of {row['simulations']}"


def _replies(row: Row, number: str, rate: str) -> str:
    return "-" if pd.isna(row[rate]) else f"{row[number]} ({row[rate]:.1%})"


def _classes(row: Row, columns: Mapping[Any, str]) -> str:
    return ", ".join(f"{name}: {row[of]}" for name, of in columns.items() if not pd.isna(row[of]) and row[of])


def ending_table(simulations: pd.DataFrame, by: Sequence[str]) -> HtmlTable:
    """Return for each condition how many simulations have each diagnosis and each detail; only where there are any."""
    rows = []
    for key, group in simulations.groupby(list(by), sort=False):
        counts = {kind: Counter(group[kind].dropna()) for kind in ("diagnosis", "detail")}
        if any(counts.values()):
            texts = {kind: "; ".join(f"{v}: {n}" for v, n in sorted(of.items())) for kind, of in counts.items()}
            rows.append({**dict(zip(by, key, strict=True)), "simulations": len(group), **texts})
    return table(
        "endings",
        rows,
        HtmlColumn("simulations", "simulations"),
        words("diagnosis: why there was no good end", "diagnosis"),
        words("detail of the outcome", "detail"),
        by=by,
    )


def rate_table(rates: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return each indicator in each condition where it has an answer."""
    known = {indicator.name: indicator for indicator in game.evidence.indicators}
    count = HtmlColumn("rate", estimate("rate", ".0%"), lambda row: f"{row['count']} of {row['simulations']}")
    return _measure_table("rates", rates, "indicator", known, count, by)


def mean_table(quantities: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return each quantity in each condition where it has values."""
    known = {each.name: each for each in all_quantities(quantities["quantity"], game)}

    def mean(row: Row) -> str:
        return estimate("mean", ".0%" if known[row["quantity"]].share else ".4g")(row)

    def median(row: Row) -> str:
        form = ".0%" if known[row["quantity"]].share else ".4g"
        return f"median {row['median']:{form}}, of {row['simulations']}"

    return _measure_table("means", quantities, "quantity", known, HtmlColumn("mean", mean, median), by)


def _measure_table(
    id: str, rows: pd.DataFrame, name: str, known: Mapping[str, Any], value: HtmlColumn, by: Sequence[str]
) -> HtmlTable:
    """Return the rows that are of any simulation, those of one measure together."""
    there = rows[rows["simulations"] > 0]
    together = [row for each in known for row in there[there[name] == each].to_dict("records")]
    return table(id, together, words("what", lambda row: _label(known[row[name]])), value, by=by, first=1)


def _label(measure: Any) -> str:
    """Return what is measured, with its unit if it has one."""
    return f"{measure.label} ({measure.unit})" if getattr(measure, "unit", "") else str(measure.label)


# What differs


def contrast_table(contrasts: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return the contrasts with the smallest p, at most MAX_CONTRASTS; `total` says how many there are."""
    order = contrasts.sort_values("p", kind="stable", na_position="last").head(MAX_CONTRASTS)
    labels = labels_of(game)

    def pairs(row: Row) -> str:
        sizes = f"{row['simulations_from']}, {row['simulations_to']} unpaired"
        return f"{row['pairs']} pairs" if row["pairs"] else sizes

    def of_all(row: Row) -> str:
        """Return the rates or means of all simulations, where the pairs are only some of them."""
        sizes, form = (row["simulations_from"], row["simulations_to"]), ".4g" if is_number(row, game) else ".0%"
        if not row["pairs"] or sizes == (row["pairs"], row["pairs"]):
            return ""
        return f"all: {row['all_from']:{form}} of {sizes[0]} → {row['all_to']:{form}} of {sizes[1]}"

    def noise(row: Row) -> str:
        """Return how much sampling alone explains, where seeds were played again."""
        if pd.isna(row["difference"]) or pd.isna(row.get("noise")):
            return ""
        size = f"{row['noise']:.4g}" if is_number(row, game) else f"{100 * row['noise']:.0f} points"
        return f"{'within the noise' if abs(row['difference']) <= row['noise'] else 'noise'}: ±{size}"

    return table(
        "contrasts",
        order.to_dict("records"),
        words("what", lambda row: labels.get(row["what"], row["what"])),
        words("compared", lambda row: f"{row['axis']}: {row['from']} → {row['to']}"),
        HtmlColumn("pairs", pairs, discordant_text),
        HtmlColumn("from → to", partial(values_text, game=game), of_all),
        HtmlColumn("difference", partial(change_text, game=game), noise),
        p_column("p", "p", "test"),
        p_column("p (Holm)", "p_holm"),
        by=[axis for axis in by if contrasts[axis].nunique() > 1],
        first=2,
        total=len(contrasts),
    )


def _noise_table(noise: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return how much each condition differs from itself in each outcome."""
    labels = {outcome.name: outcome.label for outcome in game.outcomes}
    return table(
        "noise",
        noise[noise["kind"] == "outcome"].to_dict("records"),
        words("outcome", lambda row: labels[row["what"]]),
        HtmlColumn("pairs", "pairs"),
        HtmlColumn("again less first", lambda row: f"{100 * row['difference']:+z.0f}"),
        HtmlColumn("noise", lambda row: f"±{100 * row['band']:.0f}"),
        by=by,
    )


# Forks, players, reactions


def _fork_table(forks: pd.DataFrame, game: type[Game]) -> HtmlTable:
    """Return what changes at points do to how recorded games end; differences in percentage points."""
    labels = {AS_PARENT: "ends as recorded", game.outcomes[0].name: game.outcomes[0].label}
    forks = forks[(forks["kind"] == "outcome") & forks["what"].isin(labels) & ~forks["change"].isin(UNCHANGED)]
    shown = forks.sort_values("p_holm", kind="stable").head(MAX_CONTRASTS).sort_index()
    return table(
        "forks",
        shown.to_dict("records"),
        HtmlColumn("how often", lambda row: labels[row["what"]]),
        HtmlColumn("recorded games", "parents"),
        HtmlColumn("unchanged", lambda row: f"{row['value_from']:.0%}".replace("nan%", "not played")),
        HtmlColumn("changed", lambda row: f"{row['value_to']:.0%}"),
        HtmlColumn("difference", estimate("difference", "+z.0f", "low", "high", scale=100)),
        p_column("p corrected", "p_holm"),
        HtmlColumn("noise", lambda row: "-" if pd.isna(row["noise"]) else f"{100 * row['noise']:.0f}"),
        by=["at", "change"],
        total=len(forks),
    )


def player_table(players: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return the shares of players that play beside others, in percent, and differences in percentage points."""
    labels = labels_of(game) | {measure.name: measure.label for measure in game.evidence.measures}
    together = players.groupby([*by, "quantity"])["player"].transform("size")
    return table(
        "players",
        players[together > 1].to_dict("records"),
        words("share", lambda row: labels[row["quantity"]]),
        words("player", "player"),
        HtmlColumn("simulations", "simulations"),
        HtmlColumn("mean", estimate("mean", ".0%")),
        HtmlColumn("to the first", estimate("difference", "+z.0f", "difference_low", "difference_high", scale=100)),
        by=by,
    )


def behavior_table(behaviors: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return the behaviors that somebody shows; shares are in percent."""
    labels = {each.name: each.label for each in game.evidence.about("behaviors")}

    def share(row: Row) -> str:
        return "" if row["behavior"] == ANY_BEHAVIOR else estimate("share", ".0%")(row)

    return table(
        "behaviors",
        behaviors[behaviors["shown"] > 0].to_dict("records"),
        words("player", "player"),
        words("behavior", lambda row: labels.get(row["behavior"], row["behavior"])),
        HtmlColumn("games", "simulations"),
        HtmlColumn("share", share),
        HtmlColumn("payoff per round", estimate("payoff", ".2f", "payoff_low", "payoff_high")),
        HtmlColumn("cost per round", estimate("cost", ".2f", "cost_low", "cost_high")),
        by=by,
    )


def reaction_table(reactions: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return the reactions in all conditions that can be compared; shares in percent and percentage points."""
    measures: dict[str, Any] = {each.name: each for each in game.evidence.about("reactions")}
    compared = reactions[(reactions["without"] != NONE) & (reactions["simulations_without"] > 0)]

    def value(name: str) -> Any:
        return lambda row: f"{row[name]:.3g}" if of_number(row) else f"{100 * row[name]:.0f}%"

    def of_number(row: Row) -> bool:
        measure = measures[row["what"]]
        return isinstance(measure, Quantity) and not measure.share

    def difference(row: Row) -> str:
        form, scale = ("+.3g", 1) if of_number(row) else ("+z.0f", 100)
        return estimate("difference", form, scale=scale)(row)

    return table(
        "reactions",
        compared.to_dict("records"),
        words("measure", lambda row: _label(measures[row["what"]])),
        words("compared with", "without"),
        HtmlColumn(
            "pairs",
            lambda row: row["pairs"] or f"unpaired, {row['simulations']} and {row['simulations_without']}",
        ),
        HtmlColumn("with", value("value_with")),
        HtmlColumn("without", value("value_without")),
        HtmlColumn("difference", difference),
        p_column("p", "p"),
        p_column("p corrected (Holm)", "p_holm"),
        by=by,
    )
