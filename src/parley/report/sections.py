"""The tables of the report: which rows and columns each has."""

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
from parley.games.evidence import NONE, OutcomeClass
from parley.paths import simulations_link
from parley.policies import FAILURE_CLASSES
from parley.report.answers import change_text, discordant_text, is_number, values_text
from parley.report.html import HtmlColumn, HtmlTable, Row, estimate, p_column, table, words
from parley.study import Study
from parley.study.comparisons import labels_of

MAX_CONTRASTS = 60  # rows; tables on the disk have all


def all_tables(study: Study, made: Mapping[str, pd.DataFrame]) -> dict[str, HtmlTable]:
    """Return the tables of the page by name, from those on the disk; `study` has the simulations that they are of."""
    by, game = study.axes, study.game
    return {
        "conditions": condition_table(made["conditions"], study, outcomes_of(made["conditions"], game)),
        "rates": rate_table(made["rates"], by, game),
        "means": mean_table(made["quantities"], by, game),
        "contrasts": contrast_table(made["contrasts"], by, game),
        "forks": _fork_table(made["forks"], game),
        "paper": table("paper", [{"line": line} for line in paper_lines(made["paper"], game)], words("what", "line")),
        "reactions": reaction_table(made["reactions"], by, game),
    }


# Conditions


def condition_table(conditions: pd.DataFrame, study: Study, outcomes: Sequence[OutcomeClass]) -> HtmlTable:
    """Return how the simulations of each condition ended, with links to them in the explorer."""
    threats = conditions["threat_model"].ne("none").any()
    of_models = partial(_replies, number=ALL, rate=RATE)
    degenerate = HtmlColumn("degenerate replies", of_models, partial(_classes, columns=COLUMNS))
    rows = []
    for row in conditions.to_dict("records"):
        axes = {axis: row[axis] for axis in study.axes} | study.first_time
        for name in (outcome.name for outcome in outcomes):  # where none ended so a link leads nowhere
            row[f"{name}_link"] = simulations_link(axes, name) if row[f"{name}_rate"] > 0 else ""
        rows.append({**row, "link": simulations_link(axes)})
    return table(
        "conditions",
        rows,
        *([words("threat model", "threat_model")] if threats else []),
        HtmlColumn("simulations", _simulations, link="link"),
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
        by=study.axes,
    )


def _simulations(row: Row) -> str:
    number, planned = row["simulations"], row["planned"]
    return str(number) if number == planned else f"{number} of {planned}"


def _rate_count(row: Row, of: str) -> str:
    return "cannot be" if pd.isna(row[f"{of}_rate"]) else f"{row[f'{of}_count']} of {row['simulations']}"


def _replies(row: Row, number: str, rate: str) -> str:
    return "-" if pd.isna(row[rate]) else f"{row[number]} ({row[rate]:.1%})"


def _classes(row: Row, columns: Mapping[Any, str]) -> str:
    return ", ".join(f"{name}: {row[of]}" for name, of in columns.items() if not pd.isna(row[of]) and row[of])


def rate_table(rates: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return each indicator in each condition where it has an answer."""
    known = {indicator.name: indicator for indicator in game.evidence.indicators}
    count = HtmlColumn("rate", estimate("rate", ".0%"), lambda row: f"{row['count']} of {row['simulations']}")
    return _measure_table("rates", rates, "indicator", known, count, by)


def mean_table(quantities: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return each quantity in each condition where it has values."""
    known = {each.name: each for each in all_quantities(quantities["quantity"], game)}

    def form(row: Row) -> str:
        return ".0%" if known[row["quantity"]].share else ".4g"

    mean = HtmlColumn(
        "mean",
        lambda row: estimate("mean", form(row))(row),
        lambda row: f"median {row['median']:{form(row)}}, of {row['simulations']}",
    )
    return _measure_table("means", quantities, "quantity", known, mean, by)


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
    number = partial(is_number, game=game)

    def pairs(row: Row) -> str:
        sizes = f"{row['simulations_from']}, {row['simulations_to']} unpaired"
        return f"{row['pairs']} pairs" if row["pairs"] else sizes

    def of_all(row: Row) -> str:
        """Return the rates or means of all simulations, where the pairs are only some of them."""
        sizes, form = (row["simulations_from"], row["simulations_to"]), ".4g" if number(row) else ".0%"
        if not row["pairs"] or sizes == (row["pairs"], row["pairs"]):
            return ""
        return f"all: {row['all_from']:{form}} of {sizes[0]} → {row['all_to']:{form}} of {sizes[1]}"

    def noise(row: Row) -> str:
        """Return how much sampling alone explains, where seeds were played again."""
        if pd.isna(row["difference"]) or pd.isna(row.get("noise")):
            return ""
        size = f"{row['noise']:.4g}" if number(row) else f"{100 * row['noise']:.0f} points"
        return f"{'within the noise' if abs(row['difference']) <= row['noise'] else 'noise'}: ±{size}"

    return table(
        "contrasts",
        order.to_dict("records"),
        words("what", lambda row: labels.get(row["what"], row["what"])),
        words("compared", lambda row: f"{row['axis']}: {row['from']} → {row['to']}"),
        HtmlColumn("pairs", pairs, discordant_text),
        HtmlColumn("from → to", lambda row: values_text(row, number(row)), of_all),
        HtmlColumn("difference", lambda row: change_text(row, number(row)), noise),
        p_column("p", "p", "test"),
        p_column("p (Holm)", "p_holm"),
        by=[axis for axis in by if contrasts[axis].nunique() > 1],
        first=2,
        total=len(contrasts),
    )


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
        HtmlColumn("difference", lambda row: change_text(row, number=False)),
        p_column("p (Holm)", "p_holm"),
        HtmlColumn("noise", lambda row: "-" if pd.isna(row["noise"]) else f"{100 * row['noise']:.0f}"),
        by=["at", "change"],
        total=len(forks),
    )


def reaction_table(reactions: pd.DataFrame, by: Sequence[str], game: type[Game]) -> HtmlTable:
    """Return the reactions in all conditions that can be compared."""
    measures = {each.name: each for each in game.evidence.about("reactions")}
    compared = reactions[(reactions["without"] != NONE) & (reactions["simulations_without"] > 0)]
    sides = {"value_without": "value_from", "value_with": "value_to"}

    def number(row: Row) -> bool:
        return not getattr(measures[row["what"]], "share", True)  # an indicator is none

    def pairs(row: Row) -> str:
        return row["pairs"] or f"unpaired, {row['simulations']} and {row['simulations_without']}"

    return table(
        "reactions",
        compared.rename(columns=sides).to_dict("records"),
        words("measure", lambda row: _label(measures[row["what"]])),
        words("compared with", "without"),
        HtmlColumn("pairs", pairs),
        HtmlColumn("without → with", lambda row: values_text(row, number(row))),
        HtmlColumn("difference", lambda row: change_text(row, number(row))),
        p_column("p", "p"),
        p_column("p (Holm)", "p_holm"),
        by=by,
    )
