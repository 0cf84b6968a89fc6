import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from parley import paths
from parley.columns import table_names
from parley.paths import simulations_link
from support import REPOSITORY

pytestmark = pytest.mark.promise("Records have the documented path, and no two paths are the same.")

CONDITION = "model=majority/n=4/b=1/prompt=may_exist/spec=0a1b2c3d"
RECORD = Path("results/demo/simulations") / CONDITION / "seed=7.parquet"


def test_a_record_has_the_documented_path_and_its_journal_mirrors_it_outside_the_data_set() -> None:
    axes = {"model": "majority", "n": 4, "b": 1, "prompt": "may_exist", "byzantine": "random", "topology": "ring"}
    assert paths.condition(axes, "0a1b2c3d") == CONDITION, "whatever other axes there are"
    assert re.fullmatch(paths.CONDITION, CONDITION)
    assert paths.simulation("demo", CONDITION, 7) == RECORD
    assert paths.simulation("demo", CONDITION, "{seed}").name == "seed={seed}.parquet"
    journal = paths.journal(RECORD)
    assert journal == Path("results/demo/journals") / CONDITION / "seed=7.jsonl"
    assert paths.simulations("demo") not in journal.parents
    record = paths.simulation("simulations", CONDITION, 7)  # of a study that is called so
    assert paths.journal(record).is_relative_to(paths.results("simulations") / "journals")
    # One elsewhere has it beside it, hidden.
    assert paths.journal(Path("some/x.parquet")) == Path("some/.x.jsonl")


def test_no_two_paths_of_a_study_are_the_same() -> None:
    conditions = [CONDITION, CONDITION + "/stop_threshold=0.6", CONDITION + "/stop_threshold=0.66"]
    records = [paths.simulation("demo", place, seed) for place in conditions for seed in (1, 11)]
    served = [("tiny", 0, "tiny"), ("tiny", 1, "tiny"), ("other", 0, "other"), ("other+tiny", 0, "tiny")]
    found = [
        *(path for record in records for path in (record, paths.journal(record))),
        *(paths.endpoint("demo", *each) for each in [*served, ("other+tiny", 0, "other")]),
        *(paths.table("demo", n, s) for n in table_names() for s in (".parquet", ".csv")),
        *(paths.mark("demo", "played", e, r, s) for e in ("scripted", "other") for r in ("1", "2") for s in (0, 1)),
        *(paths.mark("demo", "shards", e, r, s) for e in ("scripted", "other") for r in ("1", "2") for s in (0, 1)),
        *(paths.figure("demo", "rates", s, page) for s in (".png", ".svg", ".pdf") for page in (1, 2)),
        *(paths.log("demo", "simulate", name) for name in conditions),
        *(paths.stamp("demo", *each) for each in (("tables", "11111111"), ("figures", "11111111"), ("tables", "2"))),
        paths.report("demo"),
        paths.conditions("demo"),
        paths.log("demo", "simulate", CONDITION, "seed=7"),
        paths.benchmark("demo", "simulate", CONDITION, "seed=7"),
    ]
    assert len(set(found)) == len(found)
    for path in found:
        assert "demo" in path.parts
        assert not path.is_absolute()


def test_the_home_of_a_study_follows_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.home(REPOSITORY / "config" / "demo.yaml") == REPOSITORY
    assert paths.home(REPOSITORY / "examples" / "own_game" / "x.yaml") == REPOSITORY
    assert paths.home(REPOSITORY / "findings" / "config" / "x.yaml") == REPOSITORY / "findings"
    assert paths.home(tmp_path / "lab" / "config" / "x.yaml") == tmp_path / "lab"
    assert paths.home(tmp_path / "config" / ".." / "own" / "x.yaml") == tmp_path / "own"
    Path("own.yaml").touch()
    assert paths.study_file("own") == Path("own.yaml")
    assert paths.study_file("other") == Path("config/other.yaml")
    assert paths.home(Path("own.yaml")) == paths.home(Path("config/other.yaml")) == Path()


def test_paths_lie_in_another_folder_within_it_alone(tmp_path: Path) -> None:
    with paths.rooted(tmp_path):
        assert paths.simulation("demo", CONDITION, 7) == tmp_path / RECORD
        assert paths.study_file("demo") == tmp_path / "config" / "demo.yaml"
        assert paths.study_file("some/x.yaml") == tmp_path / "some" / "x.yaml"
        assert paths.study_file("/abs/x.yaml") == Path("/abs/x.yaml")
        assert paths.models_file(Path("some/x.yaml")) == REPOSITORY / "config" / "models.yaml"
        every = [paths.results("demo"), paths.log("demo", "serve")]
        assert all(path.is_relative_to(tmp_path) for path in every)
        # Commands name a study file as it is found.
        assert paths.study_argument(tmp_path / "config" / "demo.yaml") == "demo"
        assert paths.study_argument(tmp_path / "config" / "deep" / "demo.yaml") == "config/deep/demo.yaml"
        assert paths.study_argument(tmp_path.parent / "secret" / "demo.yaml") == "demo.yaml"
        # Messages name it as it is found from the working directory.
        assert paths.study_command(tmp_path / "my studies" / "demo.yaml") == f"'{tmp_path}/my studies/demo.yaml'"
        assert paths.study_command(Path.cwd() / "deep" / "demo.yaml") == "deep/demo.yaml"
        with paths.rooted(Path()):
            assert paths.study_command(Path("config/demo.yaml")) == "demo"
            with pytest.MonkeyPatch.context() as patch:  # a run that was started in another folder than it plays in
                patch.setenv(paths.STARTED_IN, str(tmp_path))
                assert paths.study_command(Path("config/demo.yaml")) == f"{Path.cwd()}/config/demo.yaml"
            assert paths.simulation("demo", CONDITION, 7) == RECORD
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(paths.root).result() == Path()
    assert paths.results("demo") == Path("results/demo")


# Addresses of the explorer


def test_no_value_can_leave_its_place_in_the_address() -> None:
    value = 'a b&axis.n=9#"<+%é'
    link = simulations_link({"model": value})
    _, _, chosen = urlsplit(link).fragment.partition("?")
    assert parse_qsl(chosen) == [("axis.model", value)]
    assert not set(' "<>') & set(link)


def test_prepared_models_are_a_users_whatever_folder_a_study_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/jo")
    monkeypatch.delenv(paths.MODELS)
    with paths.rooted(tmp_path):
        for cache, folder in (("", "/home/jo/.cache"), ("relative", "/home/jo/.cache"), ("/scratch", "/scratch")):
            monkeypatch.setenv("XDG_CACHE_HOME", cache)
            assert paths.model_marker("m", "s") == Path(folder) / "parley/models/m-s/parley-model.json"
        monkeypatch.setenv(paths.MODELS, "~/models")
        assert paths.prepared_model("m", "s") == Path("/home/jo/models/m-s/model")
