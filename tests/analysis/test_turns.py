"""The table `turns`: a row per agent and round, from the traces."""

import csv
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis import traces as turns
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.columns import Column
from parley.errors import RecordError
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import GameColumns
from parley.play.record import read_summary, read_trace
from parley.study import Study
from support import figures
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("The table `turns` has a row for each agent and round.")


def played(study: Study) -> pd.DataFrame:
    figures.played(study)
    return read_table(study.name, "turns")


@pytest.mark.slow
def test_each_agent_has_a_row_in_each_round_with_what_the_trace_has(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_factory({"n": 4, "b": 1, "byzantine": ["random", "silent"]}, seeds=2, parameters={"max_rounds": 3})
    table, text = played(study), paths.table("small", "turns", ".csv").read_text()
    expected = []
    for simulation in study.simulations():
        record = simulation.record(study.name)
        initial = read_summary(record).outcome["metrics"]["initial_values"]
        for entry in read_trace(record):
            for agent, proposal in entry["proposals"].items():
                value, vote = entry["values"][agent], entry["votes"][agent]
                expected.append([simulation.id, entry["round"], agent, proposal, value, vote, initial.get(agent)])
    found = table[["id", "round", "agent", "proposal", "value", "vote", "initial_value"]].astype(object)
    assert found.where(found.notna(), None).to_numpy().tolist() == expected
    assert (table["is_byzantine"] == (table["role"] == "byzantine")).all()
    players = {role: sorted(set(names)) for role, names in table.groupby("role")["player"]}
    assert players == {"honest": ["majority"], "byzantine": ["random", "silent"]}
    assert set(table[table["silent"]]["player"]) == {"silent"}
    assert table["silent"].equals(table["proposal"].isna())
    # It is the same whatever the size of the pieces in which it is written.
    monkeypatch.setattr(turns, "_ROWS", 4)
    summarize(study)
    pd.testing.assert_frame_equal(read_table("small", "turns"), table)
    assert paths.table("small", "turns", ".csv").read_text() == text


def own(study: Study, rows: Any) -> Study:
    """Return the study of a game that tells these rows, with a column of its own."""

    class OwnEvidence(ConsensusEvidence):
        columns = GameColumns((), (Column("mood", "string", "its mood", "JSON"),), rows)

    class OwnGame(ConsensusGame):
        evidence = OwnEvidence()

    conditions = tuple(dataclasses.replace(condition, game=OwnGame) for condition in study.conditions)
    return dataclasses.replace(study, game=OwnGame, conditions=conditions)


@pytest.mark.slow
def test_a_game_of_ones_own_adds_columns_whose_texts_are_cleaned(study_factory: StudyFactory) -> None:
    said = {"role": "king", "message": "=HYPERLINK(1)\n\x1b[31mred\u202e", "mood": {"calm": 1}}

    def hostile(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        return [{"round": 1, "agent": agent, **said} for agent in trace[0]["values"]]

    plain = figures.played(study_factory(seeds=1))
    summarize(own(plain, hostile))
    table = read_table("small", "turns")
    cells = [set(table[name]) for name in ("message", "mood", "role")]
    assert cells == [{"=HYPERLINK(1) [31mred"}, {'{"calm": 1}'}, {"honest"}]
    with paths.table("small", "turns", ".csv").open() as file:
        assert {row["message"] for row in csv.DictReader(file)} == {"'=HYPERLINK(1) [31mred"}
    # What is no row is told, and the table stays.
    before = paths.table("small", "turns", ".parquet").read_bytes()
    with pytest.raises(RecordError, match="tells of no turns"):
        summarize(own(plain, lambda outcome, trace: [{"round": 1, "agent": "agent_99"}]))
    assert paths.table("small", "turns", ".parquet").read_bytes() == before
