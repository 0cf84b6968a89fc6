"""Seeds that grow: what a study file may say, and how many seeds a condition has by now."""

from typing import Any

import pytest

from parley import paths
from parley.errors import UsageError
from parley.study.growing import GrowingSeeds, decide
from support.studies import StudyFactory

UNTIL = {"outcome": "valid_consensus", "width": 0.3}
GROWING: dict[str, Any] = {"from": 4, "by": 3, "to": 9, "until": UNTIL}


def test_a_study_begins_with_the_least(study_factory: StudyFactory) -> None:
    study = study_factory(seeds=GROWING)
    assert [list(condition.seeds) for condition in study.conditions] == [[0, 1, 2, 3]]
    assert study.conditions[0].identity == study_factory(seeds=4).conditions[0].identity


def test_it_has_what_was_decided(study_factory: StudyFactory) -> None:
    place = study_factory(seeds=GROWING).conditions[0].place
    decide("small", {place: 7})
    assert len(study_factory(seeds=GROWING).conditions[0].seeds) == 7
    decide("small", {place: 9})
    assert len(study_factory(seeds=GROWING).conditions[0].seeds) == 9
    decide("small", {"another": 9})
    assert len(study_factory(seeds=GROWING).conditions[0].seeds) == 4


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": "b"}', b"\xff", b'{"PLACE": true}', b"[" * 100_000])
def test_a_damaged_file_of_decisions_decides_nothing(study_factory: StudyFactory, content: bytes) -> None:
    study = study_factory(seeds=GROWING)
    paths.seeds("small").parent.mkdir(parents=True)
    paths.seeds("small").write_bytes(content.replace(b"PLACE", study.conditions[0].place.encode()))
    assert len(study_factory(seeds=GROWING).conditions[0].seeds) == 4


@pytest.mark.parametrize(("last", "number"), [(0, 4), (3, 4), (4, 7), (6, 7), (7, 9), (8, 9), (30, 9)])
def test_without_decisions_the_records_tell(study_factory: StudyFactory, last: int, number: int) -> None:
    simulation = next(study_factory(seeds=GROWING).simulations())
    folder = simulation.record("small").parent
    folder.mkdir(parents=True)
    for name in (f"seed={last}.parquet", "seed=x.parquet", ".seed=99.parquet.1.tmp", "seed=98.jsonl"):
        (folder / name).write_text("")
    assert len(study_factory(seeds=GROWING).conditions[0].seeds) == number


def test_the_numbers_that_can_be() -> None:
    growing = GrowingSeeds.model_validate(GROWING)
    assert [growing.step(number) for number in range(11)] == [4] * 5 + [7] * 3 + [9] * 3
    assert [growing.next_after(number) for number in (4, 7, 9)] == [7, 9, 9]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"to": 3}, r"seeds: .*: to is 3, which is below from \(4\); raise it"),
        ({"by": 0}, r"seeds.by: 0: "),
        ({"by": 1.5}, r"seeds.by: 1.5: "),
        ({"until": UNTIL | {"width": 0}}, r"seeds.until.width: 0"),
        ({"until": UNTIL | {"width": 1}}, r"seeds.until.width: 1"),
        ({"until": UNTIL | {"p": 0.05}}, r"seeds.until.p: .*unknown key|seeds.until.p"),
        ({"until": UNTIL | {"outcome": "valid"}}, "seeds.until.outcome: 'valid': unknown outcome; choose one of"),
    ],
)
def test_what_cannot_be(study_factory: StudyFactory, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        study_factory(seeds=GROWING | changes)
    assert "\n" not in str(raised.value)


def test_a_grid_may_have_its_own(study_factory: StudyFactory) -> None:
    study = study_factory({"n": 3, "seeds": GROWING}, {"n": 4}, seeds=2)
    assert [len(condition.seeds) for condition in study.conditions] == [4, 2]


def test_a_condition_that_cannot_end_so_is_refused(study_factory: StudyFactory) -> None:
    until = {"outcome": "premature_stop", "width": 0.3}
    with pytest.raises(
        UsageError, match=r"seeds.until.outcome: premature_stop: .* cannot end so; give its grid seeds"
    ):
        study_factory({"n": 2, "b": 1, "byzantine": "random"}, seeds=GROWING | {"until": until})
