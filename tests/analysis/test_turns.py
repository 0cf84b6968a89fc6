"""The table `turns`: a row per agent and round, from the traces."""

import csv
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parley import paths
from parley.analysis import turns
from parley.analysis.columns import columns_of
from parley.analysis.summarize import summarize
from parley.analysis.tables import csv_text, read_table
from parley.columns import Column
from parley.errors import RecordError
from parley.games.consensus.evidence import ConsensusEvidence
from parley.games.consensus.game import ConsensusGame
from parley.games.evidence import GameColumns
from parley.games.registry import GAMES
from parley.play.record import read_summary, read_trace
from parley.play.simulate import simulate
from parley.study import Study

COMMON = ["seed", "id", "round", "agent", "role", "is_byzantine", "player", "silent", "message"]


def played(study: Study) -> pd.DataFrame:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    summarize(study)
    return read_table(study.name, "turns")


def test_each_agent_has_a_row_in_each_round_with_what_the_trace_has(study_factory: Callable[..., Study]) -> None:
    study = study_factory({"n": 4, "b": 1, "byzantine": ["random", "silent"]}, seeds=2, parameters={"max_rounds": 3})
    table = played(study)
    games = [column.name for game in GAMES.values() for column in game.evidence.columns.turns]
    assert list(table.columns) == [*study.axes, *COMMON, *games]
    expected = []
    for simulation in study.simulations():
        record = simulation.record(study.name)
        initial = read_summary(record).outcome["metrics"]["initial_values"]
        for entry in read_trace(record):
            for agent, proposal in entry["proposals"].items():
                value = entry["values"][agent]
                vote = entry["votes"][agent]
                row = [simulation.id, entry["round"], agent, proposal, value, vote, initial.get(agent)]
                expected.append([None if cell is None else cell for cell in row])
    found = table[["id", "round", "agent", "proposal", "value", "vote", "initial_value"]].astype(object)
    assert found.where(found.notna(), None).to_numpy().tolist() == expected
    assert (table["is_byzantine"] == (table["role"] == "byzantine")).all()
    by_role = table.groupby("role")["player"].unique()
    assert by_role["honest"].tolist() == ["majority"]
    assert sorted(by_role["byzantine"]) == ["random", "silent"]
    assert set(table[table["silent"]]["player"]) == {"silent"}
    assert table["silent"].equals(table["proposal"].isna())
    assert table[["action", "answer", "points", "message"]].isna().all().all()


def test_the_stag_hunt_has_words_actions_and_points(study_factory: Callable[..., Study]) -> None:
    grid = {"model": "always_stag", "n": 3, "b": 1, "byzantine": "betray", "prompt": "plain"}
    table = played(study_factory(grid, game="stag_hunt", seeds=1, parameters={"rounds": 2}))
    assert len(table) == 6
    assert set(table[table["is_byzantine"]]["action"]) == {"Hunt Hare"}
    assert set(table[~table["is_byzantine"]]["action"]) == {"Hunt Stag"}
    assert set(table["message"]) == {"stag"}
    assert table["points"].notna().all()
    assert table[["value", "vote", "answer"]].isna().all().all()


def test_a_deliberation_has_answers_and_whether_they_are_right(study_factory: Callable[..., Study]) -> None:
    grid = {"model": {"name": "solver", "accuracy": 0.5}, "n": 4, "prompt": "improve"}
    kinds = {"vary": {"problems": ["arithmetic", "policies"]}}
    study = study_factory({**grid, **kinds}, game="deliberation", seeds=3, parameters={"turns": 1})
    table = played(study)
    numbers, policies = (table[table["problems"] == kind] for kind in ("arithmetic", "policies"))
    assert {True, False} == set(numbers["correct"])
    assert policies["correct"].isna().all()
    assert policies["answer"].str.startswith("[").all()
    by_id = numbers.groupby("id")
    right = {s.id: read_summary(s.record("small")).outcome["metrics"]["right_answer"] for s in study.simulations()}
    assert all((part["correct"] == (part["answer"] == right[name])).all() for name, part in by_id)
    assert set(table["turn"]) <= {0, 1}
    assert not table["silent"].any()
    assert table["message"].notna().all()


def test_the_table_is_the_same_whatever_the_size_of_its_pieces(
    study_factory: Callable[..., Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_factory({"b": [0, 1], "byzantine": "random"}, seeds=3)
    whole, text = played(study), paths.table("small", "turns", ".csv").read_text()
    monkeypatch.setattr(turns, "_ROWS", 4)
    summarize(study)
    pd.testing.assert_frame_equal(read_table("small", "turns"), whole)
    assert paths.table("small", "turns", ".csv").read_text() == text
    metadata = pq.read_metadata(paths.table("small", "turns", ".parquet"))
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert set(sizes[:-1]) == {4}
    assert sum(sizes) == len(whole)


class OwnEvidence(ConsensusEvidence):
    """Agents who say what a hostile model would, in columns of the game's own."""

    @staticmethod
    def _rows(outcome: Mapping[str, Any], trace: Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
        for agent in trace[0]["values"]:
            yield {
                "round": 1,
                "agent": agent,
                "role": "king",
                "message": "=HYPERLINK(1)\n\x1b[31mred\u202e",
                "mood": {"calm": 1},
            }

    columns = GameColumns((), (Column("mood", "string", "its mood", "JSON"),), _rows)


class OwnGame(ConsensusGame):
    evidence = OwnEvidence()


def own(study: Study, game: type[ConsensusGame]) -> Study:
    conditions = tuple(dataclasses.replace(condition, game=game) for condition in study.conditions)
    return dataclasses.replace(study, game=game, conditions=conditions)


def test_texts_are_cleaned_and_a_game_of_ones_own_adds_columns(study_factory: Callable[..., Study]) -> None:
    study = study_factory(seeds=1)
    played(study)
    summarize(own(study, OwnGame))
    table = read_table("small", "turns")
    assert set(table["message"]) == {"=HYPERLINK(1) [31mred"}
    assert set(table["mood"]) == {'{"calm": 1}'}
    assert set(table["role"]) == {"honest"}
    with paths.table("small", "turns", ".csv").open() as file:
        assert {row["message"] for row in csv.DictReader(file)} == {"'=HYPERLINK(1) [31mred"}
    assert [c.name for c in columns_of("turns", [], OwnGame)][-1] == "mood"


def test_no_cell_of_a_csv_is_a_formula_or_a_true_that_r_does_not_read() -> None:
    texts = ["=1+1", "@x", "-2", "+1/2", "a=b", None]
    plain = pa.table({"declared": pa.array(texts), "other": pa.array(texts, pa.large_string())})
    assert csv_text(plain).splitlines()[1:] == [
        ",".join([cell, cell]) for cell in ("'=1+1", "'@x", "-2", "+1/2", "a=b", "")
    ]
    assert csv_text(pa.table({"a": [True, None, False], "b": [1, None, 2]}), header=False) == "TRUE,1\n,\nFALSE,2\n"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"round": 1}, "tells of no turns"),
        ({"round": 1, "agent": "agent_99"}, "tells of no turns"),
        ({"round": "first", "agent": "agent_1"}, "Could not convert"),
    ],
)
def test_what_is_no_row_is_told(study_factory: Callable[..., Study], row: dict[str, Any], told: str) -> None:
    class BrokenEvidence(ConsensusEvidence):
        columns = GameColumns(rows=lambda outcome, trace: [row], turns=OwnEvidence.columns.turns)

    class Broken(ConsensusGame):
        evidence = BrokenEvidence()

    study = study_factory(seeds=1)
    played(study)
    before = paths.table("small", "turns", ".parquet").read_bytes()
    with pytest.raises(RecordError, match=told):
        summarize(own(study, Broken))
    assert paths.table("small", "turns", ".parquet").read_bytes() == before
