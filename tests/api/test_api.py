"""The API at work: reading from anywhere, playing in a running event loop, errors of one line."""

import asyncio
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import parley
from parley import paths
from parley.api import frames
from parley.errors import EngineError, RecordError, UsageError
from parley.play.parquet import BadParquetError, parquet_file, read_rows
from parley.play.record_content import SCHEMA
from parley.study import load_study
from support.answering import record_with_model, standing_in
from support.demo_study import make_demo, play_study, summarize_study, write_study
from support.forging import edit, forge, make_former

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J\nand a second line " + 60 * "x"
MIXED: dict[str, Any] = {
    "grids": [
        {"model": ["majority", "stubborn"], "n": [3, 4], "b": 0, "prompt": "may_exist"},
        {"model": "majority", "n": 5, "b": 1, "byzantine": ["random", "silent"], "prompt": "may_exist"},
    ],
    "parameters": {"max_rounds": 2},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the study `demo`, its results and its tables, which no test changes."""
    folder = tmp_path_factory.mktemp("demo")
    make_demo(folder, **MIXED)
    return folder


@pytest.fixture
def results(root: Path) -> parley.Results:
    return parley.load("demo", root).results()


@pytest.fixture
def loose(tmp_path: Path) -> Path:
    """A folder with the study `demo` played and not summarized."""
    write_study(tmp_path, **MIXED)
    play_study(tmp_path)
    return tmp_path


def files_in(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# The import


@pytest.mark.slow
def test_the_import_is_cheap() -> None:
    heavy = "{'numpy', 'pandas', 'pyarrow', 'pydantic', 'matplotlib', 'asyncio', 'parley.api'}"
    code = f"import sys, parley; print(parley.__version__, sorted({heavy} & set(sys.modules)), 'load' in dir(parley))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == f"{parley.__version__} [] True"


def test_what_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        parley.lod  # type: ignore[attr-defined]  # noqa: B018


# Reading from anywhere


def test_studies_in_two_folders_are_open_at_once(root: Path, loose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    first, second = parley.load("demo", root), parley.load("demo", loose)
    for study, folder in ((first, root), (second, loose), (first, root)):
        assert study.results().records[0].path.is_relative_to(folder)
        assert study.results().records[0].path.is_file()
    with ThreadPoolExecutor(2) as threads:
        frames = list(threads.map(lambda study: study.results().simulations, [first, second] * 4))
    assert all(len(frame) == len(first.results().records) for frame in frames)
    assert Path.cwd() == Path("/")
    assert paths.root() == Path()


def test_a_study_stays_where_it_was_loaded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    study = parley.load("demo")
    monkeypatch.chdir("/")
    assert len(study.results().simulations) == 18


def test_a_path_names_a_study_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert parley.load(root / "config" / "demo.yaml", root).results().records[0].replay().identical


def test_tables_and_plans_are_the_same_wherever_they_are_read_from(root: Path, loose: Path) -> None:
    rooted = parley.load("demo", loose).results().table("manifest")
    written = pd.read_parquet(root / paths.table("demo", "manifest", ".parquet"))
    pd.testing.assert_frame_equal(rooted, written)
    assert rooted["path"].str.startswith("results/demo/simulations/").all()


def with_model(folder: Path) -> Path:
    """Make a record that a model played, and return the models file."""
    grid = {"model": "tiny", "n": 3, "b": 0, "prompt": "may_exist"}
    write_study(folder, grids=[grid], seeds=1)
    with chdir(folder):
        study = load_study(paths.study_file("demo"))
        for simulation in study.simulations():
            record_with_model(simulation, simulation.record("demo"))
    return folder / "config" / "models.yaml"


@pytest.mark.parametrize("entries", [None, f"models: {{other: {{source: {{repo: o/other, revision: {'b' * 40}}}}}}}"])
def test_results_are_read_without_the_entry_of_their_model(tmp_path: Path, entries: str | None) -> None:
    models = with_model(tmp_path)
    spec = parley.load("demo", tmp_path).conditions["spec"].tolist()
    models.unlink()
    if entries:
        models.write_text(entries)
    study = parley.load("demo", tmp_path)
    assert study.conditions["spec"].tolist() == spec
    assert study.results().simulations["model"].tolist() == ["tiny"]
    assert study.results().records[0].replay().identical
    assert set(study.results().attempts["player"]) == {"tiny"}
    with pytest.raises(UsageError, match="no entry 'tiny'; add it to play, or give endpoint="):
        parley.run(study.play())


def test_a_model_of_records_needs_no_price(tmp_path: Path) -> None:
    with_model(tmp_path).unlink()
    file = tmp_path / "config" / "demo.yaml"
    file.write_text(file.read_text() + "budget: {cost: 1}\n")
    assert len(parley.load("demo", tmp_path).results().simulations) == 1


def test_without_entry_and_without_records_the_mistake_is_told(tmp_path: Path) -> None:
    write_study(tmp_path, grids=[{"model": "tinny", "n": 3, "prompt": "may_exist"}])
    with pytest.raises(UsageError, match="'tinny': unknown model or policy; did you mean 'tiny'"):
        parley.load("demo", tmp_path)


def test_weights_are_looked_for_when_a_model_is_played(tmp_path: Path) -> None:
    models = with_model(tmp_path)
    models.write_text("models: {tiny: {source: {folder: nowhere}}}")
    study = parley.load("demo", tmp_path)
    with pytest.raises(UsageError, match="no model is there"):
        parley.run(study.play())
    with pytest.raises(EngineError, match="endpoint"):
        parley.run(study.play(endpoint=tmp_path / "no.json"))


# Results


def test_without_results_it_says_what_to_run(tmp_path: Path) -> None:
    write_study(tmp_path)
    told = f"no results yet in {tmp_path}/results/demo; run in {tmp_path}: snakemake --cores all --config study=demo"
    with pytest.raises(RecordError, match=re.escape(told)):
        parley.load("demo", tmp_path).results()
    with chdir(tmp_path), pytest.raises(RecordError, match="; run: snakemake"):
        parley.load("demo").results()


def test_results_beside_the_folder_of_a_study_file_are_pointed_to(root: Path, tmp_path: Path) -> None:
    with chdir(tmp_path), pytest.raises(RecordError, match=re.escape(f"load it with root='{root}'")):
        parley.load(root / "config" / "demo.yaml").results()


def test_tables_in_memory_are_those_that_are_written(root: Path, loose: Path) -> None:
    before = files_in(loose)
    written, made = (parley.load("demo", folder).results() for folder in (root, loose))
    for name in written.tables:
        tables = [found.table(name) for found in (made, written)]
        if name == "quantities":  # how long games took
            tables = [table[~table["quantity"].str.startswith("seconds")].reset_index(drop=True) for table in tables]
        timeless = [column for column in tables[0] if "seconds" not in column]
        pd.testing.assert_frame_equal(*(table[timeless] for table in tables), check_dtype=False)
    assert files_in(loose) == before


def test_an_unfinished_study_has_the_results_that_are_there(loose: Path) -> None:
    first, *_, last = parley.load("demo", loose).results().records
    last.path.unlink()
    paths.kept_record(last.path).unlink(missing_ok=True)
    results = parley.load("demo", loose).results()
    assert repr(results).splitlines()[0] == "Results of demo: 17 of 18 simulations"
    assert len(results.simulations) == len(results.records) == 17
    assert results.conditions["left_out"].sum() == 0
    assert results.figure("outcome_rates").axes
    assert first.id in set(results.rounds["id"])
    assert last.id not in set(results.attempts["id"])


def test_a_condition_without_records_is_one_of_the_study(loose: Path) -> None:
    for record in parley.load("demo", loose).results().records.where(byzantine="silent"):
        record.path.unlink()
        paths.kept_record(record.path).unlink(missing_ok=True)
    results = parley.load("demo", loose).results()
    assert len(results.records.where(byzantine="silent")) == 0
    with pytest.raises(UsageError, match="no records yet of b=1, byzantine=silent; "):
        results.frame("attempts", b=1, byzantine="silent")
    for level in ("simulations", "conditions"):
        frame = results.frame(level, byzantine="silent")  # type: ignore[arg-type]
        assert len(frame) == 0
        assert "byzantine" in frame
    with pytest.raises(UsageError, match="no condition has byzantine=oscillate"):
        results.records.where(byzantine="oscillate")


def test_a_record_that_is_not_there_names_how_many_are(results: parley.Results) -> None:
    for records, told in (
        (results.records, "demo: 18 records here; none at [99]"),
        (results.records.where(seed=99), "demo: 0 records here; none at [99]"),
    ):
        with pytest.raises(IndexError) as error:
            records[99]
        assert str(error.value) == told


def test_tables_of_records_that_are_gone_are_not_used(loose: Path) -> None:
    study = load_study(loose / "config" / "demo.yaml")
    summarize_study(loose, study)
    assert "read from the tables" in repr(parley.load("demo", loose).results())
    parley.load("demo", loose).results().records[0].path.unlink()
    assert len(parley.load("demo", loose).results().simulations) == 17


def test_a_damaged_record_is_left_out_with_a_warning(loose: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = parley.load("demo", loose).results().records[3]
    content = damaged.path.read_bytes()
    damaged.path.write_bytes(content[: len(content) // 2])
    levels = ("simulations", "attempts", "rounds")
    for first in levels:
        results = parley.load("demo", loose).results()
        for level in (first, *levels):
            frame = results.frame(level)  # type: ignore[arg-type]
            assert len(set(frame["id"])) == 17
            assert damaged.id not in set(frame["id"])
        assert sum(f"left out: {damaged.path}" in message for message in caplog.messages) == 1
        assert "warning:" not in caplog.text
        caplog.clear()
    assert results.conditions["left_out"].sum() == 1
    with pytest.raises(RecordError, match=r"seed=0\.parquet: "):
        damaged.outcome  # noqa: B018
    # Also where the tables know of it.
    summarize_study(loose, load_study(loose / "config" / "demo.yaml"))
    caplog.clear()
    known = parley.load("demo", loose).results()
    assert (len(known.records), len(known.simulations), len(known.attempts["id"].unique())) == (17, 17, 17)
    assert not caplog.text
    damaged.path.write_bytes(content)
    assert len(parley.load("demo", loose).results().simulations) == 18


def test_if_all_records_are_damaged_the_first_is_told(loose: Path) -> None:
    for record in parley.load("demo", loose).results().records:
        record.path.write_bytes(b"PAR1")
    results = parley.load("demo", loose).results()
    for level in ("attempts", "rounds", "simulations", "conditions"):
        with pytest.raises(RecordError, match="delete it and run the study again"):
            results.frame(level)  # type: ignore[arg-type]


def test_rows_that_were_changed_are_no_attempts(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    edit(record.path, lambda rows: rows[0].update(text="{}"))
    with pytest.raises(RecordError, match="its rows were changed"):
        record.transcript  # noqa: B018


def test_a_record_of_another_simulation_is_not_read(loose: Path) -> None:
    one, other = parley.load("demo", loose).results().records[:2]
    other.path.write_bytes(one.path.read_bytes())
    with pytest.raises(RecordError, match="holds another simulation"):
        other.transcript  # noqa: B018
    with pytest.raises(RecordError, match="holds another simulation"):
        other.outcome  # noqa: B018


def test_records_of_the_former_version_have_the_same_columns(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    now = record.transcript
    make_former(record.path)
    former = parley.load("demo", loose).results().records[0].transcript
    assert former.columns.tolist() == now.columns.tolist()
    pd.testing.assert_frame_equal(former, now, check_categorical=False, check_dtype=False)


# Frames


def test_the_levels_have_a_row_each(results: parley.Results) -> None:
    assert len(results.conditions) == 6
    assert len(results.simulations) == len(results.records) == 18
    assert len(results.rounds) == results.simulations["rounds"].sum()
    assert len(results.attempts) == results.simulations["calls"].sum()
    assert results.attempts.columns.tolist()[:6] == ["model", "n", "b", "prompt", "byzantine", "spec"]
    assert set(SCHEMA.names) <= set(results.attempts.columns)
    joined = results.attempts.groupby("id", observed=True)["completion_tokens"].count()
    assert len(joined) == 18


def test_attempts_are_those_of_the_records(results: parley.Results) -> None:
    attempts = results.attempts
    for record in results.records:
        own = attempts[attempts["id"] == record.id].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, record.transcript, check_categorical=False, check_dtype=False)
        stored = pd.read_parquet(record.path, partitioning=None)
        assert own["text"].tolist() == stored["text"].tolist()
        assert own["request_seed"].tolist() == stored["request_seed"].tolist()
        assert own["agent"].astype(str).tolist() == stored["agent"].astype(str).tolist()
        assert set(own["n"]) == {record.axes["n"]}


@pytest.mark.parametrize("level", ["attempts", "rounds", "simulations", "conditions"])
def test_a_part_of_a_frame_is_what_the_whole_has(root: Path, loose: Path, level: Any) -> None:
    columns = {"attempts": ["agent", "model", "text"], "rounds": ["n", "agreement"]}.get(level, ["n", "model"])
    for folder in (root, loose):
        results = parley.load("demo", folder).results()
        whole = results.frame(level)
        expected = whole[(whole["model"] == "majority") & whole["n"].isin([4, 5])][columns].reset_index(drop=True)
        found = results.frame(level, columns=columns, model="majority", n=[4, 5])
        assert len(found)
        pd.testing.assert_frame_equal(found, expected, check_categorical=False, check_dtype=False)


@pytest.mark.parametrize("level", ["attempts", "rounds", "simulations"])
def test_seeds_are_chosen_as_conditions_are(results: parley.Results, level: Any) -> None:
    seed = "simulation_seed" if level == "attempts" else "seed"
    assert set(results.frame(level, seed=1)[seed]) == {1}
    assert set(results.frame(level, [seed], seed=range(1, 9), b=1)[seed]) == {1, 2}


def test_only_chosen_records_and_columns_are_read(results: parley.Results, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, list[str]]] = []
    real = frames.read_attempts

    def noted(path: Path, names: list[str]) -> Any:
        read.append((path.name, list(names)))
        return real(path, names)

    monkeypatch.setattr(frames, "read_attempts", noted)
    frame = results.frame("attempts", ["model", "id", "text"], byzantine="silent", seed=[0, 2])
    assert sorted(read) == [("seed=0.parquet", ["text"]), ("seed=2.parquet", ["text"])]
    assert frame.columns.tolist() == ["model", "id", "text"]
    assert results.frame("attempts", ["id"], byzantine="silent", seed=0)["id"].nunique() == 1


def test_columns_that_are_not_asked_for_are_not_unpacked(results: parley.Results) -> None:
    file = parquet_file(results.records[0].path.read_bytes())
    assert read_rows(file, 1_000, 10**6, ["agent", "text"]).column_names == ["agent", "text"]
    with pytest.raises(BadParquetError, match="unpacks to more"):
        read_rows(file, 1_000, 500)
    assert read_rows(file, 1_000, 500, ["attempt"]).num_columns == 1


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"level": "attempt"}, "'attempt': no such level; did you mean 'attempts'"),
        ({"level": "turns"}, "'turns' is no level but a table: results.table('turns')"),
        ({"columns": ["texts"]}, "columns: 'texts': no such column; did you mean 'text'"),
        ({"columns": "text"}, "columns='text': give a list of names"),
        ({"columns": 3}, "columns=3: give a list of names"),
        ({"level": "simulations", "columns": 3}, "columns=3: give a list of names"),
        ({"modle": "majority"}, "modle: not an axis of this study; did you mean 'model'"),
        ({"model": "majorty"}, "did you mean model=majority"),
        ({"model": "stubborn", "b": 1}, "no condition has model=stubborn, b=1; `study.conditions` lists them"),
        ({"seed": "1"}, "seed=1: give a whole number from 0, or a list of them"),
        ({"seed": 99}, "demo: no records yet of seed=99; `results.sim"),
        ({"level": "simulations", "columns": ["sed"]}, "columns: 'sed': no such column; did you mean 'seed'"),
        ({"level": "conditions", "seed": 1}, "seed: a condition has many"),
    ],
)
def test_what_is_not_there_is_one_clear_line(results: parley.Results, chosen: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as error:
        results.frame(**{"level": "attempts", **chosen})
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_unknown_tables_and_figures_are_told(results: parley.Results) -> None:
    with pytest.raises(UsageError, match="'contrast': no such table; did you mean 'contrasts'"):
        results.table("contrast")
    with pytest.raises(UsageError, match="'outcome_rate': no figure of this study; did you mean 'outcome_rates'"):
        results.figure("outcome_rate")


def test_what_is_done_to_a_frame_changes_no_other(loose: Path) -> None:
    results = parley.load("demo", loose).results()
    frame = results.simulations
    frame["outcome"] = "mine"
    table = results.table("contrasts")
    table["kind"] = "mine"
    assert "mine" not in set(results.simulations["outcome"])
    assert "mine" not in set(results.table("contrasts")["kind"])


# Figures


@pytest.mark.slow
def test_every_figure_is_drawn_for_a_notebook_and_not_written(root: Path, loose: Path) -> None:
    for folder in (root, loose):
        before = files_in(folder)
        results = parley.load("demo", folder).results()
        assert len(results.figures) > 2
        for name in results.figures:
            figure = results.figure(name)
            assert figure.axes
            png = figure._repr_png_()  # type: ignore[attr-defined]
            assert png.startswith(b"\x89PNG")
        assert files_in(folder) == before


# Playing


def test_a_game_is_played_inside_a_running_loop(root: Path) -> None:
    study = parley.load("demo", root)

    async def cell() -> list[parley.Played]:
        first = await study.play(model="stubborn", n=3, seed=1)
        with_random = study.play(model="majority", b=1, byzantine="random")
        return [first, *await asyncio.gather(with_random, study.play(n=4, model="majority"))]

    before = files_in(root)
    games = asyncio.run(cell())
    assert [game.axes["n"] for game in games] == [3, 5, 4]
    assert files_in(root) == before


def test_a_played_game_is_that_of_the_record(root: Path) -> None:
    study = parley.load("demo", root)
    for record in study.results().records[:6]:
        game = parley.run(study.play(**record.axes, seed=record.seed))
        assert game.digest == record.digest
        assert game.outcome.as_json() == {**record.outcome, "trace": record.trace}
        assert game.trace == record.trace
        timeless = [column for column in game.transcript if column not in ("started", "seconds")]
        pd.testing.assert_frame_equal(game.transcript[timeless], record.transcript[timeless], check_categorical=False)


def test_a_running_engine_plays_where_its_endpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_model(tmp_path)
    monkeypatch.chdir("/")
    study = parley.load("demo", tmp_path)
    with standing_in(tmp_path) as (path, _):
        game = parley.run(study.play(endpoint=path))
        again = parley.run(study.condition(n=3).play(endpoint=[str(path)]))
    assert game.digest == again.digest == study.results().records[0].digest
    assert set(game.transcript["player"]) == {"tiny"}


def test_rows_of_frames_say_what_to_play(results: parley.Results, root: Path) -> None:
    study = parley.load("demo", root)
    axes = list(results.records[0].axes)
    for _, row in results.simulations.tail(2).iterrows():
        assert parley.run(study.play(seed=row["seed"], **row[axes])).digest == row["digest"]
        assert len(results.frame("simulations", seed=row["seed"], **row[axes])) == 1


def test_a_record_replays_inside_a_running_loop(results: parley.Results) -> None:
    async def cell() -> bool:
        return results.records[0].replay().identical

    assert asyncio.run(cell())


def test_a_replay_that_differs_says_so(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    forge(record.path, meta=lambda meta: meta.update(digest="0" * 64))
    replayed = record.replay()
    assert not replayed.identical
    assert replayed.difference == "the content digests differ"


def test_run_inside_a_loop_says_to_await(root: Path) -> None:
    playing = parley.load("demo", root).play(n=3)

    async def cell() -> None:
        parley.run(playing)

    with pytest.raises(UsageError, match="an event loop runs already"):
        asyncio.run(cell())
    assert inspect.getcoroutinestate(playing) == inspect.CORO_CLOSED  # else Python warns that nobody awaited it


def test_run_takes_what_play_returns(root: Path) -> None:
    with pytest.raises(UsageError, match="give it what play"):
        parley.run(parley.load("demo", root))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        (
            {},
            "demo has 6 conditions; choose one by: model (majority, stubborn); n (3, 4, 5); b (0, 1); ",
        ),
        ({"model": "majority"}, "demo: 4 conditions have model=majority; add a value of: n (3, 4, 5); b (0, 1); byz"),
        ({"model": "majority", "b": 1}, "2 conditions have model=majority, b=1; add a value of: byzantine (random, s"),
        ({"modle": "majority"}, "modle: not an axis of this study; did you mean 'model'?"),
        ({"n": 3, "model": "stuborn"}, "did you mean model=stubborn?"),
        ({"n": 17}, "no condition has n=17"),
        ({"n": 3, "model": "stubborn", "seed": -1}, "seed=-1: give a whole number from 0"),
        ({"n": 3, "model": "stubborn", "seed": True}, "seed=True: give a whole number from 0"),
        ({"n": 3, "model": "stubborn", "seed": "a\nb"}, "seed=a b: give a whole number from 0"),
    ],
)
def test_what_cannot_be_played_is_one_clear_line(root: Path, chosen: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as error:
        parley.run(parley.load("demo", root).play(**chosen))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", ["a\0b", None, 3, b"tiny", "\ud800"])
def test_what_is_no_path_is_one_clear_line(root: Path, wrong: Any) -> None:
    asked: dict[str, Callable[[], Any]] = {
        "study": lambda: parley.load(wrong, root),
        "root": lambda: parley.load("demo", root=wrong),
        "endpoint": lambda: parley.run(parley.load("demo", root).play(n=3, model="majority", endpoint=wrong)),
    }
    for argument, ask in asked.items():
        with pytest.raises(UsageError) as error:
            ask()
        assert str(error.value) == f"{argument}={wrong!r}: give a name or a path, as text"


@pytest.mark.parametrize("folder", ["", "deep/" * 2000])
@pytest.mark.parametrize("argument", ["study", "root"])
def test_a_path_that_is_too_long_is_one_clear_line(root: Path, argument: str, folder: str) -> None:
    with pytest.raises(UsageError) as error:
        parley.load(**{"study": "demo", "root": root, argument: folder + "a" * 5000})
    assert len(str(error.value)) < 500
    assert parley.load("demo", root, models="a" * 5000).name == "demo"  # which needs none


def test_a_study_can_be_sent_to_another_process(root: Path) -> None:
    study = pickle.loads(pickle.dumps(parley.load("demo", root)))
    assert parley.run(study.play(n=4, model="majority")).outcome.rounds == 2
    assert study.results().records[0].replay().identical


@pytest.mark.parametrize("seconds", ["900", None, True, 0, -1.0, float("nan")])
def test_a_wait_that_is_no_time_is_one_clear_line(root: Path, seconds: Any) -> None:
    with pytest.raises(UsageError, match=r"^engine_timeout=.*: give a number of seconds above 0$"):
        parley.run(parley.load("demo", root).play(n=3, model="majority", engine_timeout=seconds))


def test_the_text_of_a_game_is_what_the_terminal_shows(root: Path) -> None:
    game = parley.run(parley.load("demo", root).play(n=3, model="stubborn"))
    lines = game.text().splitlines()
    assert lines[0] == "Round 1, propose"
    assert lines[1].startswith("  agent_")
    assert lines[-1].startswith("Outcome: no_consensus")
    assert len(game.text(reasoning=True)) > len(game.text())


def test_messages_hold_nothing_that_a_terminal_obeys(root: Path, tmp_path: Path) -> None:
    study = parley.load("demo", root)
    hostile = tmp_path / "a\x1b[31mb\u202e.yaml"
    hostile.write_text("")
    wrong: list[Callable[[], Any]] = [
        lambda: parley.load("a\x1b[31mb", root),
        lambda: parley.load(hostile, root),
        lambda: parley.run(study.play(model="\x1b[31m")),
        lambda: parley.run(study.play(**{"a\x1b[1m": 1})),
    ]
    for ask in wrong:
        with pytest.raises(UsageError, match=r"\[\d+m") as error:
            ask()
        assert str(error.value).isprintable()
    assert str(UsageError("a\tb\nc\x1b é")) == "a b\nc é"


# How objects show themselves


def objects(folder: Path) -> list[Any]:
    study = parley.load("demo", folder)
    results = study.results()
    condition = study.condition(b=1)
    return [study, condition, parley.run(condition.play()), results, results.records, results.records[0]]


def test_objects_fit_on_three_lines_and_in_a_table(tmp_path: Path) -> None:
    make_demo(tmp_path, title=HOSTILE.replace("\n", " ").replace("\x1b", " "))
    for found in objects(tmp_path):
        text, page = repr(found), found._repr_html_()
        assert len(text.splitlines()) <= 3
        assert max(map(len, text.splitlines())) <= 110
        assert all(character.isprintable() for line in text.splitlines() for character in line)
        assert page.startswith("<table")
        assert "<script" not in page
        assert "\u202e" not in page
    assert "&lt;script&gt;" in objects(tmp_path)[0]._repr_html_()


def test_one_of_a_kind_is_told_as_one(tmp_path: Path) -> None:
    make_demo(tmp_path, grids=[{"model": "majority", "n": 3, "b": 0, "prompt": "may_exist"}], seeds=1)
    study = parley.load("demo", tmp_path)
    assert "consensus: 1 condition, 1 simulation\n" in repr(study)
    assert "1 of 1 simulation\n" in repr(study.results())
    assert repr(study.results().records) == "Records of demo: 1 in 1 condition"


def test_a_hostile_name_from_a_record_is_escaped(loose: Path) -> None:
    record = parley.load("demo", loose).results().records[0]
    forge(record.path, meta=lambda meta: meta["outcome"].update(name="<b>won</b>", detail=HOSTILE))
    shown = parley.load("demo", loose).results().records[0]
    assert "<b>" not in shown._repr_html_()
    assert "<script" not in shown._repr_html_()
    assert len(repr(shown).splitlines()) == 3
    assert "\x1b" not in repr(shown)


def test_the_conditions_are_a_frame(root: Path) -> None:
    study = parley.load("demo", root)
    conditions = study.conditions
    assert conditions.columns.tolist() == ["model", "n", "b", "prompt", "byzantine", "threat_model", "seeds", "spec"]
    assert conditions["seeds"].sum() == 18
    assert study.condition(byzantine="silent").axes == conditions.iloc[-1][:5].to_dict()
