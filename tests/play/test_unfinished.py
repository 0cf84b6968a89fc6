"""What counts of a study that is not finished: whole seeds, and finished conditions."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from parley import paths
from parley.errors import RecordError, UsageError
from parley.play.record_store import finished_part, require_finished, unfinished_part
from parley.study import Study
from parley.study.condition import Simulation
from parley.study.study import Unfinished
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Interim tables use complete seeds only, a fair sample of lengths.")


@pytest.fixture(autouse=True)
def _records_are_empty_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path, simulation: Simulation) -> None:
        if path.is_file() and path.read_bytes():
            raise RecordError(f"{path}: damaged")

    monkeypatch.setattr("parley.play.record_store.read_own", read)


def play(study: Study, *played: tuple[int, Iterable[int]]) -> None:
    """Make records, as empty files, of the seeds of each condition that is named by its place."""
    for place, seeds in played:
        condition = study.conditions[place]
        for seed in seeds:
            record = paths.simulation(study.name, condition.folder, seed)
            record.parent.mkdir(parents=True, exist_ok=True)
            record.touch()


def counted(study: Study) -> dict[int, list[int]]:
    places = [condition.name for condition in study.conditions]
    return {places.index(each.name): list(each.seeds) for each in finished_part(study).conditions}


def known(study: Study) -> Unfinished:
    found = finished_part(study).unfinished
    assert found is not None
    return found


def test_a_seed_counts_when_all_conditions_that_are_begun_have_it(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4, 5]}, seeds=4)
    play(study, (0, [0, 1, 2]), (1, [0, 2]))
    assert counted(study) == {0: [0, 2], 1: [0, 2]}
    found = known(study)
    assert (found.label, found.waiting, found.planned(study.conditions[1].name)) == ("4 of 12 simulations", 1, 4)
    assert found.sentence == (
        "UNFINISHED: 4 of 12 simulations; of those played, 1 do not count yet; the rest is not played."
    )


def test_the_seed_of_a_damaged_record_counts_in_no_condition_that_is_unfinished(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=4)
    play(study, (0, [0, 1, 2]), (1, [0, 1, 2]))
    condition = study.conditions[0]
    paths.simulation(study.name, condition.folder, 1).write_text("cut")
    assert counted(study) == {0: [0, 1, 2], 1: [0, 2]}  # the damaged one is left to those who read it
    assert (known(study).counted, known(study).damaged, known(study).waiting) == (4, 1, 1)


def test_a_finished_condition_counts_whole_and_models_do_not_wait_for_each_other(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=3)
    play(study, (0, [0, 1, 2]), (1, [1]))
    assert counted(study) == {0: [0, 1, 2], 1: [1]}
    study = study_factory({"model": ["tiny", "other"], "n": [3, 4]}, name="other", seeds=3)
    play(study, (0, [0, 1]), (1, [0, 1]), (2, [0, 2]), (3, [2]))
    assert counted(study) == {0: [0, 1], 1: [0, 1], 2: [2], 3: [2]}


def test_a_shard_under_way_counts_only_where_none_is_finished(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": [3, 4]}, {"model": "other"}, seeds=4, shard_size=4)
    play(study, (0, [0]), (1, [0]))
    assert counted(study) == {0: [0], 1: [0]}
    assert known(study).under_way
    assert "those whose games were short" in " ".join(known(study).cautions())
    play(study, (0, [1, 2]), (1, [1, 2]))
    assert counted(study) == {0: [0, 1], 1: [0, 1]}
    assert (known(study).under_way, known(study).waiting) == (False, 2)
    assert "those whose games were short" not in " ".join(known(study).cautions())
    play(study, (2, [3]))  # another model, in a shard of its own
    assert counted(study) == {0: [0, 1], 1: [0, 1], 2: [3]}
    assert known(study).under_way


@pytest.mark.slow
def test_what_counts_is_a_fair_sample_of_lengths(study_factory: StudyFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Games of 1 to 8 rounds; all of a shard at once, one shard after the other, and a look at any time."""
    study = study_factory({"model": "tiny", "n": [3, 4, 5, 6]}, seeds=24, shard_size=32)
    shards, random = study.shards(), np.random.default_rng(1)
    there: set[Path] = set()
    monkeypatch.setattr(Path, "exists", lambda path: path in there)
    every, counting, all_lengths = list[float](), list[float](), list[float]()
    for _ in range(100):
        lengths = dict(zip(shards, np.minimum(random.geometric(0.2, len(shards)), 8), strict=True))
        ends = [max(lengths[r] for r, (_, of) in shards.items() if of == number) for number in range(3)]
        begins = np.cumsum([0, *ends])
        look = random.uniform(begins[1], begins[3])
        there |= {record for record, (_, of) in shards.items() if begins[of] + lengths[record] <= look}
        part = finished_part(study)
        counting.append(np.mean([lengths[s.record(study.name)] for s in part.simulations()]))
        every.append(np.mean([lengths[record] for record in there]))
        all_lengths.append(np.mean(list(lengths.values())))
        there.clear()
    assert np.mean(every) < 0.93 * np.mean(all_lengths)
    assert np.mean(counting) == pytest.approx(np.mean(all_lengths), rel=0.03)


def test_a_finished_study_and_one_without_a_seed_are_refused(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2)
    with pytest.raises(RecordError, match="0 of 4 simulations are played: nothing is played yet"):
        finished_part(study)
    play(study, (0, [0]), (1, [1]))
    with pytest.raises(RecordError, match=r"2 of 4 .* played: no seed is .* parley view small\.yaml --serve"):
        finished_part(study)
    with pytest.raises(RecordError, match=r"2 of 4 .* played; .*: parley report small\.yaml --unfinished$"):
        require_finished(study)
    play(study, (0, [1]), (1, [0]))
    with pytest.raises(UsageError, match="all of its 4 simulations are played"):
        finished_part(study)
    require_finished(study)


def test_what_is_made_of_it_lies_elsewhere_and_is_emptied_before(study_factory: StudyFactory) -> None:
    study = study_factory({"n": [3, 4]}, seeds=2)
    play(study, (0, [0]), (1, [0]))
    old = Path("results/small/unfinished/report/report.html")
    old.parent.mkdir(parents=True)
    old.touch()
    with unfinished_part(study):
        assert not old.exists()
        for made in (
            paths.table("small", "turns", ".csv"),
            paths.report("small"),
            paths.stamp("small", "tables", "1"),
        ):
            assert made.is_relative_to("results/small/unfinished")
        assert paths.simulations("small") == Path("results/small/simulations")
    assert paths.report("small") == Path("results/small/report/report.html")
