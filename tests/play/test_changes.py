"""`parley diff`: which keys changed, and what is played again, kept or left over."""

import pytest

from parley.play.changes import changes_of, diff, former_lines
from parley.progress.screen import status
from parley.study import Study
from support.answering import record_with_model
from support.studies import StudyFactory, play_all

pytestmark = pytest.mark.promise("`parley diff` says which keys changed, and what is kept, to be played or left over.")


@pytest.fixture
def before(study_factory: StudyFactory) -> Study:
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 5})
    play_all(study)
    return study


def told(study: Study) -> list[str]:
    return list(former_lines(changes_of(study)))


def table(study: Study) -> dict[str, list[str]]:
    """Return the words of the lines that `diff` prints, by the first of each."""
    return {words[0]: words[1:] for line in diff(study) if (words := line.replace("to play", "missing").split())}


def numbers(study: Study) -> tuple[int, int]:
    """Return how many simulations have their record, and how many are to be played."""
    changes = changes_of(study)
    return changes.kept, changes.missing


def test_a_changed_parameter_is_told_with_both_values(before: Study, study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=3, parameters={"max_rounds": 4, "value_max": 40})
    former = "4 records of a former configuration (max_rounds 5, now 4, value_max 50, now 40)"
    assert told(study) == [former]
    found = table(study)
    assert [found[key] for key in ("max_rounds", "value_max")] == [["5", "4", "4"], ["50", "40", "4"]]
    assert (found["kept"][0], found["missing"][0], found["left"][1]) == ("0", "6", "4")
    assert "parley prune small.yaml" in " ".join(found["left"])
    play_all(study)
    assert numbers(study) == (6, 0)
    assert told(study)[0].startswith(former), "they are still there"
    assert list(status(study))[1].startswith(former)


def test_another_name_of_a_model_is_told(study_factory: StudyFactory) -> None:
    source = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
    before = study_factory({"model": "tiny"}, models={"tiny": source})
    record_with_model(next(before.simulations()))
    renamed = study_factory({"model": "other"}, models={"other": source})
    assert told(renamed) == ["1 records of a former configuration (model tiny, now other)"]
    assert numbers(renamed) == (0, 1)


def test_a_prompt_whose_words_changed_is_named_once(study_factory: StudyFactory) -> None:
    groups = [{"role": "honest", "count": 1, "model": "tiny"}]
    groups += [{**groups[0], "prompt": "watched"}]
    grid = {"groups": groups, "prompt": ["may_exist", "watched"], "model": None, "n": None}

    def study(line: str) -> Study:
        return study_factory(grid, prompts={"watched": {"from": "may_exist", "append": {"honest_vote_system": line}}})

    for simulation in study("A person reads it.").simulations():
        record_with_model(simulation)
    rows = [line.split() for line in diff(study("Somebody reads it.")) if "honest_vote_system" in line]
    assert [row[:3] + row[-1:] for row in rows] == [["prompt", "watched", "honest_vote_system", "2"]]


def test_where_nothing_changed_all_is_kept_or_new(before: Study, study_factory: StudyFactory) -> None:
    assert "nothing changed" in next(diff(before))
    assert told(before) == []
    assert numbers(before) == (4, 0)
    assert numbers(study_factory(name="other", seeds=2)) == (0, 2)


def test_what_is_gone_or_varied_is_told_with_all_its_values(before: Study, study_factory: StudyFactory) -> None:
    fewer = study_factory({"n": [3, 4]}, seeds=1, parameters={"max_rounds": 5})
    assert told(fewer) == ["2 records of seeds that the study no longer has"]
    more = study_factory({"n": [3, 4], "byzantine": ["random"]}, seeds=1, parameters={"max_rounds": 5})
    assert numbers(more) == (2, 0)
    gone = study_factory({"n": [3, 5]}, seeds=2, parameters={"max_rounds": 5})
    assert told(gone) == ["2 records of a former configuration (n 4, now 5)"]
    varied = study_factory({"n": [3, 4], "vary": {"max_rounds": [6, 7]}}, seeds=2)
    assert told(varied) == ["4 records of a former configuration (max_rounds 5, now 6)"]


def test_two_grids_are_compared_condition_by_condition(study_factory: StudyFactory) -> None:
    majority = {"model": "majority", "n": [3, 4]}
    play_all(study_factory(majority, {"model": "stubborn", "n": [3, 4]}, seeds=2))
    changed = study_factory(majority, {"model": "stubborn", "n": [3, 5]}, seeds=2)
    assert told(changed) == ["2 records of a former configuration (n 4, now 5)"]
    found = table(changed)
    assert found["n"] == ["4", "5", "2"]
    assert "condition" not in found, "the new one is told by its n"
    assert numbers(changed) == (6, 2)
    # One that differs in two axes was not changed into the new one.
    other = study_factory(majority, {"model": "stubborn", "n": 3}, {"model": "random", "n": 6}, seeds=2)
    rows = [line.split() for line in diff(other) if line.startswith("condition ")]
    former, new = (f"model={model}/n={n}/b=0/prompt=may_exist" for model, n in (("stubborn", 4), ("random", 6)))
    assert rows == [["condition", former, "-", "2"], ["condition", "-", new, "2"]]


def test_seeds_without_a_record_are_told(before: Study, study_factory: StudyFactory) -> None:
    more = study_factory({"n": [3, 4]}, seeds=5, parameters={"max_rounds": 5})
    assert not any("nothing changed" in line for line in diff(more))
    assert table(more)["seeds"] == ["2", "played", "5", "6"]
    assert numbers(more) == (4, 6)


def test_a_record_that_cannot_be_read_is_told(before: Study, study_factory: StudyFactory) -> None:
    for record in {simulation.record("small") for simulation in before.simulations()}:
        record.write_text("no record")
    study = study_factory({"n": [3, 4]}, seeds=2, parameters={"max_rounds": 4})
    assert told(study) == ["4 records of a former configuration (record cannot be read, now -)"]
