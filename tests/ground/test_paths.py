from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parley import paths

CONDITION = "model=majority/n=4/b=1/prompt=may_exist"
RECORD = Path("results/demo/simulations") / CONDITION / "spec=0a1b2c3d/seed=7.parquet"


def test_a_record_has_the_documented_path() -> None:
    assert paths.simulation("demo", CONDITION, "0a1b2c3d", 7) == RECORD


def test_a_wildcard_may_stand_for_the_seed() -> None:
    assert paths.simulation("demo", CONDITION, "0a1b2c3d", "{seed}").name == "seed={seed}.parquet"


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ("demo", "config/demo.yaml"),
        ("my.study", "config/my.study.yaml"),
        ("demo.yaml", "demo.yaml"),
        ("some/where/x.yml", "some/where/x.yml"),
        ("/abs/x.yaml", "/abs/x.yaml"),
    ],
)
def test_a_study_is_named_or_any_yaml_path(given: str, file: str) -> None:
    assert paths.study_file(given) == Path(file)


def test_model_entries_are_those_beside_the_study(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    assert paths.models_file(study) == Path("config/models.yaml")
    (tmp_path / "models.yaml").touch()
    assert paths.models_file(study) == tmp_path / "models.yaml"


def test_journals_mirror_the_records_outside_the_data_set() -> None:
    journal = paths.journal(RECORD)
    assert journal == Path("results/demo/journals") / CONDITION / "spec=0a1b2c3d/seed=7.jsonl"
    assert paths.kept_record(RECORD) == journal.with_suffix(".parquet")
    assert paths.simulations("demo") not in journal.parents


def test_journals_of_a_study_that_is_called_simulations_stay_in_its_results() -> None:
    record = paths.simulation("simulations", CONDITION, "0a1b2c3d", 7)
    assert paths.journal(record).is_relative_to(paths.results("simulations") / "journals")


def test_journals_of_two_records_are_two_files() -> None:
    records = [
        paths.simulation("demo", CONDITION, spec, seed) for spec in ("aaaaaaaa", "bbbbbbbb") for seed in (1, 11)
    ]
    assert len({paths.journal(record) for record in records}) == 4


def test_a_record_elsewhere_has_its_journal_beside_it_hidden() -> None:
    assert paths.journal(Path("some/x.parquet")) == Path("some/.x.jsonl")
    assert paths.kept_record(Path("some/x.parquet")) == Path("some/.x.parquet")


def test_no_two_paths_of_a_study_are_the_same() -> None:
    found = [
        RECORD,
        paths.journal(RECORD),
        paths.kept_record(RECORD),
        paths.endpoint("demo", "tiny", 0, "tiny"),
        paths.endpoint("demo", "tiny", 1, "tiny"),
        paths.endpoint("demo", "other", 0, "other"),
        paths.endpoint("demo", "other+tiny", 0, "tiny"),
        paths.endpoint("demo", "other+tiny", 0, "other"),
        *(paths.table("demo", n, s) for n in paths.TABLES for s in (".parquet", ".csv")),
        *(paths.played_mark("demo", e, r, s) for e in ("scripted", "other") for r in ("1", "2") for s in (0, 1)),
        *(paths.shard_mark("demo", e, r, s) for e in ("scripted", "other") for r in ("1", "2") for s in (0, 1)),
        *(paths.figure("demo", "rates", s, page) for s in (".png", ".svg", ".pdf") for page in (1, 2)),
        *(paths.figure_list("demo", printed=printed) for printed in (False, True)),
        paths.metric("demo", CONDITION),
        paths.metric("demo", CONDITION + "/stop_threshold=0.6"),
        paths.metric("demo", CONDITION + "/stop_threshold=0.66"),
        paths.stamp("demo", "tables", "11111111"),
        paths.stamp("demo", "figures", "11111111"),
        paths.stamp("demo", "tables", "22222222"),
        paths.report("demo"),
        paths.log("demo", "simulate", CONDITION, "seed=7"),
        paths.benchmark("demo", "simulate", CONDITION, "seed=7"),
    ]
    assert len(set(found)) == len(found)
    for path in found:
        assert "demo" in path.parts
        assert not path.is_absolute()


def test_logs_of_seeds_with_dots_in_their_folders_stay_apart() -> None:
    names = [CONDITION + "/stop_threshold=0.6", CONDITION + "/stop_threshold=0.66"]
    assert len({paths.log("demo", "simulate", name) for name in names}) == 2
    assert paths.log("demo", "serve", "a.b").name == "a.b.log"
    assert paths.benchmark("demo", "serve", "a.b").name == "a.b.benchmark.tsv"


def test_a_prepared_model_lies_beside_its_marker() -> None:
    folder = paths.prepared_model("tiny", "0a1b2c3d")
    marker = paths.model_marker("tiny", "0a1b2c3d")
    assert folder.parent == marker.parent == Path("models/tiny-0a1b2c3d")
    assert folder != marker


def test_a_ledger_lies_beside_its_head_and_is_told_from_a_study() -> None:
    chain = paths.ledger("demo")
    assert chain == Path("results/demo/ledger/chain.jsonl")
    assert paths.ledger_head(chain) == Path("results/demo/ledger/head.json")
    assert [paths.is_ledger(name) for name in (str(chain), "x.jsonl", "demo", "demo.yaml", "config/demo.yml")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_paths_lie_in_another_folder_within_it_alone(tmp_path: Path) -> None:
    with paths.rooted(tmp_path):
        assert paths.simulation("demo", CONDITION, "0a1b2c3d", 7) == tmp_path / RECORD
        assert paths.study_file("demo") == tmp_path / "config" / "demo.yaml"
        assert paths.study_file("some/x.yaml") == tmp_path / "some" / "x.yaml"
        assert paths.study_file("/abs/x.yaml") == Path("/abs/x.yaml")
        assert paths.models_file(Path("some/x.yaml")) == tmp_path / "config" / "models.yaml"
        every = [paths.results("demo"), paths.logs("demo"), paths.log("demo", "serve"), paths.service_use("x")]
        every += [paths.prepared_model("m", "s"), paths.model_marker("m", "s"), paths.calibration("m", "k", ".json")]
        assert all(path.is_relative_to(tmp_path) for path in every)
        with paths.rooted(Path()):
            assert paths.simulation("demo", CONDITION, "0a1b2c3d", 7) == RECORD
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(paths.root).result() == Path()
    assert paths.results("demo") == Path("results/demo")


def test_commands_name_a_study_file_as_it_is_found(tmp_path: Path) -> None:
    with paths.rooted(tmp_path):
        assert paths.study_argument(tmp_path / "config" / "demo.yaml") == "demo"
        assert paths.study_argument(tmp_path / "config" / "deep" / "demo.yaml") == "config/deep/demo.yaml"
        assert paths.study_argument(tmp_path.parent / "secret" / "demo.yaml") == "demo.yaml"
