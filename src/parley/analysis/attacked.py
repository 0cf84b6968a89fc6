"""Comparing numbers of Byzantine agents: which size is held fixed, and where the undisturbed games stand."""

from collections.abc import Sequence

import pandas as pd

from parley.study.condition import BYZANTINE_AXIS
from parley.study.expand import NOBODY


def with_group_size(table: pd.DataFrame, by: list[str], role: str) -> tuple[pd.DataFrame, list[str], str]:
    """Choose what is held fixed while b grows: all agents (n), or those that are not among the b.

    Both are fair comparisons; the one with fewer groups is that for which the study was laid out. `table` has rows
    of conditions, `by` are the axes that tell groups apart, n among them. Returns both as chosen, and a note on it.
    """
    size = f"{role} agents"
    sized = table.assign(**{size: table["n"] - table["b"]})
    swapped = [size if axis == "n" else axis for axis in by]
    if _groups(sized, swapped) < _groups(table, by):
        return sized, swapped, f"n = {size} + b, so n grows with b."
    return table, by, f"n counts all agents: {size} = n - b."


def beside_undisturbed(
    table: pd.DataFrame, others: list[str], role: str, notes: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the table for a comparison along b, and the axes that tell its groups apart, n or what replaces it.

    `table` may have several rows per condition; `others` are its axes but b, n among them, and `role` is that of the
    agents that are not among the b. Adds to `notes` what n counts.
    """
    table, others, note = with_group_size(table, others, role)
    notes.append(note)
    return with_undisturbed(table, others), others


def _groups(table: pd.DataFrame, by: Sequence[str]) -> int:
    """Return the number of groups; games without Byzantine agents belong to those that differ in these alone."""
    joined = with_undisturbed(table, by)
    return len(joined[list(by)].drop_duplicates())


def with_undisturbed(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the table with the conditions without Byzantine agents once for each adversary of their group.

    So they are the first of every comparison along b, whatever plays the Byzantine agents of the others. Where there
    is none to compare with, they stay as they are.
    """
    if BYZANTINE_AXIS not in by:
        return table
    others = [axis for axis in by if axis != BYZANTINE_AXIS]
    nobody = table[BYZANTINE_AXIS] == NOBODY
    undisturbed, attacked = table[nobody], table[~nobody]
    adversaries = attacked[[*others, BYZANTINE_AXIS]].drop_duplicates()
    if others:
        copies = undisturbed.drop(columns=BYZANTINE_AXIS).merge(adversaries, on=others)
        alone = undisturbed.merge(adversaries[others].drop_duplicates(), on=others, how="left", indicator=True)
        alone = alone[alone["_merge"] == "left_only"].drop(columns="_merge")
    else:
        copies = undisturbed.drop(columns=BYZANTINE_AXIS).merge(adversaries, how="cross")
        alone = undisturbed if adversaries.empty else undisturbed.iloc[:0]
    return pd.concat([alone, copies[list(table.columns)], attacked], ignore_index=True)
