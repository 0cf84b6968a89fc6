"""The index: a line for each simulation, whatever state it is in, and what the page needs to know of the study."""

from parley.paths import simulations_link
from parley.report.explorer.index import index_content, part_rows
from parley.report.explorer.selection import select
from parley.study import Study
from support.pages import Json, recorded
from support.records import edit
from support.studies import OWN_GAME, StudyFactory, bring


def index_of(study: Study) -> Json:
    shown = select(study, 1000)
    return index_content(shown, [part_rows(part) for part in shown.parts])


def test_simulations_are_in_columns_with_their_conditions(study_factory: StudyFactory) -> None:
    grid = {"n": [3, 4], "b": 1}
    study = recorded(study_factory(grid, seeds=2, parameters={"max_rounds": 3}))
    index = index_of(study)
    rows = index["simulations"]
    assert {len(column) for column in rows.values()} == {4}
    assert rows["id"] == [s.id for of in study.conditions for s in study.simulations() if s.condition is of]
    assert (rows["condition"], rows["seed"], rows["part"]) == ([0, 0, 1, 1], [0, 1, 0, 1], [0] * 4)
    assert rows["replies"] == [number * 2 * n for number, n in zip(rows["rounds"], [3, 3, 4, 4], strict=True)]
    assert set(rows["failed"]) == {0}
    assert [c["label"] for c in index["conditions"]] == ["n=3", "n=4"]


def test_simulations_of_one_seed_and_material_are_pairs(study_factory: StudyFactory) -> None:
    grid = {"model": "solver", "n": [3, 4], "prompt": "improve"}
    index = index_of(recorded(study_factory(grid, game="deliberation", seeds=2, parameters={"turns": 1})))
    keys = index["simulations"]["pair"]
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
    assert all(key.startswith(f"{seed} ") and len(key) > 2 for key, seed in zip(keys, [0, 1] * 2, strict=True))
    repeated = index_of(recorded(study_factory({"model": "random"}, repeats=2, parameters={"max_rounds": 1})))
    assert repeated["simulations"]["repeat"] == [0, 1]
    assert [c["label"] for c in repeated["conditions"]] == ["repeat=0", "repeat=1"]
    assert repeated["simulations"]["pair"] == ["0", "0"]


def test_fractions_of_axes_are_named_as_links_name_them(study_factory: StudyFactory) -> None:
    bring(OWN_GAME)
    grid = {"model": "cooperate", "prompt": "plain", "vary": {"multiplier": [1, 1.6, 0.00001]}}
    study = recorded(study_factory(grid, game="public_goods:PublicGoods", parameters={"rounds": 1}))
    [values] = [axis["values"] for axis in index_of(study)["axes"] if axis["name"] == "multiplier"]
    assert values == ["1.0", "1.6", "1e-05"]  # the page reads 1.0 as 1
    for condition, value in zip(study.conditions, values, strict=True):
        link = simulations_link({"multiplier": condition.axes["multiplier"]})
        assert link.endswith(f"axis.multiplier={value}")


def test_a_damaged_record_is_named_in_its_place(study_factory: StudyFactory) -> None:
    study = recorded(study_factory(seeds=3, parameters={"max_rounds": 1}))
    assert index_of(study)["simulations"]["damaged"] == [None] * 3
    bad = [simulation.record(study.name) for simulation in study.simulations()][1]
    edit(bad, lambda rows: rows[0].update(text="{}"))
    rows = index_of(study)["simulations"]
    assert [told is None for told in rows["damaged"]] == [True, False, True]
    assert str(bad) in rows["damaged"][1]
    assert (rows["outcome"][1], rows["rounds"][1]) == (None, None)
