"""The API at work: playing in a running event loop, and errors of one line."""

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import parley
from parley.errors import UsageError
from support.answering import standing_in
from support.studies import files_in, with_model

pytestmark = pytest.mark.promise(
    "Games are played and replayed inside a running event loop and outside of one; what cannot be played "
    "is one clear line."
)

# Playing


@pytest.fixture
def study(root: Path) -> parley.Study:
    return parley.load("demo", root)


@pytest.mark.slow
def test_games_are_played_and_replayed_inside_a_running_loop(root: Path, study: parley.Study) -> None:
    async def cell() -> list[parley.Played]:
        first = await study.play(model="stubborn", n=3, seed=1)
        with_random = study.play(model="majority", b=1, byzantine="random")
        assert study.results().records[0].replay().identical
        return [first, *await asyncio.gather(with_random, study.play(n=4, model="majority"))]

    before = files_in(root)
    games = asyncio.run(cell())
    assert [game.axes["n"] for game in games] == [3, 5, 4]
    assert files_in(root) == before


def test_a_played_game_is_that_of_the_record(study: parley.Study) -> None:
    results = study.results()
    for record in results.records[::6]:
        game = parley.run(study.play(**record.axes, seed=record.seed))
        assert game.digest == record.digest
        assert game.outcome.as_json() == {**record.outcome, "trace": record.trace}
        assert game.trace == record.trace
        timeless = [column for column in game.transcript if column not in ("started", "seconds")]
        pd.testing.assert_frame_equal(game.transcript[timeless], record.transcript[timeless], check_categorical=False)
    # Rows of frames say what to play.
    axes = list(results.records[0].axes)
    for _, row in results.simulations.tail(2).iterrows():
        assert parley.run(study.play(seed=row["seed"], **row[axes])).digest == row["digest"]


def test_a_running_engine_plays_where_its_endpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_model(tmp_path)
    monkeypatch.chdir("/")
    study = parley.load("demo", tmp_path)
    with standing_in(tmp_path) as (path, _):
        game = parley.run(study.play(endpoint=path))
        again = parley.run(study.play(n=3, endpoint=[str(path)]))
    assert game.digest == again.digest == study.results().records[0].digest
    assert set(game.transcript["player"]) == {"tiny"}


def test_run_takes_what_play_returns_outside_of_a_loop(study: parley.Study) -> None:
    playing = study.play(n=3)

    async def cell() -> None:
        parley.run(playing)

    with pytest.raises(UsageError, match="an event loop runs already"):
        asyncio.run(cell())
    assert inspect.getcoroutinestate(playing) == inspect.CORO_CLOSED  # else Python warns that nobody awaited it


def test_what_cannot_be_played_is_one_clear_line(study: parley.Study) -> None:
    one = {"n": 3, "model": "stubborn"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "6 conditions fit; choose one by: model, n, b"),
        ({"modle": "majority"}, "'modle': unknown axis; did you mean 'model'?"),
        ({"n": 17}, "'17': unknown n; choose one of"),
        (one | {"seed": -1}, "seed=-1: "),
        (one | {"seed": "a\nb"}, "seed=a b: "),
    ]
    for chosen, told in wrong:
        with pytest.raises(UsageError) as error:
            parley.run(study.play(**chosen))
        assert told in str(error.value)
        assert "\n" not in str(error.value)
