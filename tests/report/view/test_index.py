"""The index: a line for each simulation, whatever state it is in, and what the page needs to know of the study."""

import pytest

from parley.play.simulate import simulate
from parley.report.view.chosen import chosen
from parley.report.view.index import Known, index_content, read_rows
from parley.study import Study
from parley.view_links import simulations_link
from support import REPOSITORY
from support.answering import record_with_model
from support.forging import edit
from support.hunting import HUNTERS
from support.studies import StudyFactory
from support.viewed import Json


def played(study: Study) -> Study:
    for simulation in study.simulations():
        simulate(study, simulation.record(study.name), [], 0.0)
    return study


def index_of(study: Study, known: Known | None = None, served: bool = False) -> Json:
    shown = chosen(study, {}, 1000, journals=False)
    return index_content(shown, read_rows(shown.parts, known), served)


def test_simulations_are_in_columns_with_their_conditions(study_factory: StudyFactory) -> None:
    study = played(study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 4}, title="Some <agents>"))
    index = index_of(study)
    rows = index["simulations"]
    assert {len(column) for column in rows.values()} == {4}
    assert rows["id"] == [
        s.id for condition in study.conditions for s in study.simulations() if s.condition is condition
    ]
    assert (rows["condition"], rows["seed"], rows["part"]) == ([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4)
    assert rows["replies"] == [number * 2 * n for number, n in zip(rows["rounds"], [3, 3, 4, 4], strict=True)]
    assert set(rows["failed"]) == {0}
    assert [c["label"] for c in index["conditions"]] == ["n=3", "n=4"]
    assert (index["axes"][0]["name"], index["axes"][0]["values"]) == ("n", [3, 4])
    assert index["title"] == "Some <agents>"
    assert set(rows["outcome"]) <= {outcome["name"] for outcome in index["outcomes"]}
    assert (index["running"], index["unfinished"], index["left_out"]) == (False, 0, None)


def test_simulations_of_one_seed_and_material_are_pairs(study_factory: StudyFactory) -> None:
    grid = {"model": "solver", "n": [3, 4], "prompt": "improve"}
    index = index_of(played(study_factory(grid, game="deliberation", seeds=2, parameters={"turns": 1})))
    keys = index["pairs"]["key"]
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
    assert all(key.startswith(f"{seed} ") and len(key) > 2 for key, seed in zip(keys, [0, 1] * 2, strict=True))


def test_indicators_stand_beside_the_simulations(study_factory: StudyFactory) -> None:
    grid = HUNTERS | {"model": "grim_trigger"}
    index = index_of(played(study_factory(grid, game="stag_hunt", parameters={"rounds": 4})))
    found = {indicator["name"]: indicator["values"] for indicator in index["indicators"]}
    assert found["retreated"] == [None, True]
    assert found["last_round_cooperative"] == [True, False]


def test_numbers_that_are_compared_stand_beside_the_simulations_with_six_digits(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "majority", "n": [3, 4], "b": 1}, seeds=2, parameters={"max_rounds": 3})
    index = index_of(played(study))
    found = {quantity["name"]: quantity for quantity in index["quantities"]}
    assert found["rounds"]["values"] == index["simulations"]["rounds"]
    assert found["value_position"]["values"].count(None) < len(index["simulations"]["id"])
    share = found["final_honest_share"]
    assert share["share"]
    assert len(share["values"]) == len(index["simulations"]["id"])
    assert all(value == float(f"{value:.6g}") for value in share["values"])


def test_repeats_are_an_axis(study_factory: StudyFactory) -> None:
    index = index_of(played(study_factory({"model": "random"}, repeats=2, parameters={"max_rounds": 1})))
    assert index["simulations"]["repeat"] == [0, 1]
    assert [c["label"] for c in index["conditions"]] == ["repeat=0", "repeat=1"]
    assert index["pairs"]["key"] == ["0", "0"]


def test_fractions_of_axes_are_named_as_links_name_them(
    study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "examples" / "own_game")
    grid = {"model": "cooperate", "prompt": "plain", "vary": {"multiplier": [1, 1.6, 0.00001]}}
    study = played(study_factory(grid, game="public_goods:PublicGoods", parameters={"rounds": 1}))
    shown = chosen(study, {}, 1000, journals=False)
    [(_, values)] = [(a["name"], a["values"]) for a in index_of(study)["axes"] if a["name"] == "multiplier"]
    assert values == ["1.0", "1.6", "1e-05"]
    for part in shown.parts:  # the page reads 1.0 as 1
        value = part.condition.axes["multiplier"]
        assert simulations_link({"multiplier": value}).endswith(f"axis.multiplier={values[part.number - 1]}")


def test_a_damaged_record_is_named_in_its_place(study_factory: StudyFactory) -> None:
    study = played(study_factory(seeds=3, parameters={"max_rounds": 1}))
    bad = [simulation.record(study.name) for simulation in study.simulations()][1]
    edit(bad, lambda rows: rows[0].update(text="{}"))
    rows = index_of(study)["simulations"]
    assert [told is None for told in rows["damaged"]] == [True, False, True]
    assert str(bad) in rows["damaged"][1]
    assert (rows["outcome"][1], rows["rounds"][1]) == (None, None)


def test_what_is_known_is_not_read_again(study_factory: StudyFactory) -> None:
    study = played(study_factory(seeds=2, parameters={"max_rounds": 1}))
    known: Known = {}
    first = index_of(study, known)
    for row in known.values():
        row["outcome"] = "as remembered"
    assert index_of(study, known)["simulations"]["outcome"] == ["as remembered"] * 2
    bad = next(study.simulations()).record(study.name)
    bad.write_bytes(b"other")
    assert index_of(study, known)["simulations"]["damaged"][0]
    assert first["simulations"]["damaged"] == [None, None]


def test_the_same_records_give_the_same_index_unless_it_is_served(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny"}, parameters={"max_rounds": 1})
    for simulation in study.simulations():
        record_with_model(simulation)
    assert index_of(study) == index_of(study)
    assert index_of(study)["written"] == ""  # such a record does not say when it ended
    assert index_of(study, served=True)["written"] > "2020"
