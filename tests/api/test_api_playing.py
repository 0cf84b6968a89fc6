"""The API at work: playing in a running event loop, and errors of one line."""

import asyncio
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import parley
from parley.errors import UsageError
from support.answering import standing_in

# Playing
from support.demo_study import files_in, with_model
from support.forging import forge


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
