"""Seeds that grow: what a study file may say, and how many seeds a condition has by now."""

from typing import Any

import pytest

from parley import paths
from parley.errors import UsageError
from parley.study.condition import GrowingSeeds, decide
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("Seeds grow until an interval is narrow enough.")

UNTIL = {"outcome": "valid_consensus", "width": 0.3}
GROWING: dict[str, Any] = {"from": 4, "by": 3, "to": 9, "until": UNTIL}


def seeds(make: StudyFactory) -> int:
    return len(make(seeds=GROWING).conditions[0].seeds)


def test_a_study_begins_with_the_least_and_then_has_what_was_decided(study_factory: StudyFactory) -> None:
    [condition] = study_factory(seeds=GROWING).conditions
    assert list(condition.seeds) == [0, 1, 2, 3]
    assert condition.identity == study_factory(seeds=4).conditions[0].identity
    for decisions, number in (({condition.folder: 7}, 7), ({condition.folder: 9}, 9), ({"another": 9}, 4)):
        decide("small", decisions)
        assert seeds(study_factory) == number
    study = study_factory({"n": 3, "seeds": GROWING}, {"n": 4}, seeds=2)
    assert [len(condition.seeds) for condition in study.conditions] == [4, 2]


def test_seeds_grow_in_steps_and_never_beyond_the_most() -> None:
    growing = GrowingSeeds.model_validate(GROWING)
    assert [growing.next_after(number) for number in (4, 7, 9)] == [7, 9, 9]


def test_a_damaged_file_of_decisions_decides_nothing(study_factory: StudyFactory) -> None:
    place = study_factory(seeds=GROWING).conditions[0].folder
    paths.seeds("small").parent.mkdir(parents=True)
    for content in (b"", b"[1]", b'{"a": "b"}', b"\xff", b'{"%s": true}' % place.encode(), b"[" * 100_000):
        paths.seeds("small").write_bytes(content)
        assert seeds(study_factory) == 4, content[:20]


def test_without_decisions_the_records_tell(study_factory: StudyFactory) -> None:
    folder = next(study_factory(seeds=GROWING).simulations()).record("small").parent
    folder.mkdir(parents=True)
    for name in ("seed=x.parquet", ".seed=99.parquet.1.tmp", "seed=98.jsonl"):
        (folder / name).touch()
    for last, number in ((0, 4), (3, 4), (4, 7), (6, 7), (7, 9), (8, 9), (30, 9)):
        (folder / f"seed={last}.parquet").touch()
        assert seeds(study_factory) == number, last


def test_what_cannot_be_is_refused_with_its_key(study_factory: StudyFactory) -> None:
    for changes, said in (
        ({"to": 3}, r"seeds: .*to is 3, .*from \(4\)"),
        ({"by": 0}, r"seeds.by: 0: "),
        ({"until": UNTIL | {"width": 0}}, r"seeds.until.width: 0"),
        ({"until": UNTIL | {"outcome": "valid"}}, "seeds.until.outcome: 'valid'.* choose one of"),
    ):
        with pytest.raises(UsageError, match=f"^small.yaml: .*{said}") as raised:
            study_factory(seeds=GROWING | changes)
        assert "\n" not in str(raised.value)
