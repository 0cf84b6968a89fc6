"""Whole calibrations, against a stand-in for an engine."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from parley import paths
from parley.analysis.stats import paired_difference, wilson_interval
from parley.calibration import run
from parley.calibration.arms import STYLES, Arm, all_arms
from parley.calibration.run import calibrate
from parley.engine.models import ModelEntry
from parley.errors import EngineError, RecordError, UsageError
from parley.games.problems.sources import Arithmetic
from parley.policies import REPLY_FORMATS
from parley.text.logs import RateLimit
from support.answering import SERVED, completion, service, standing_in
from support.calibrating import RIGHT, answering, question_of
from support.hearing import heard
from support.studies import MODELS

NUMBER = 12
JSON_ARMS = all_arms(STYLES, ("json",))


@pytest.fixture
def models(folder: Path) -> Path:
    path = Path("config/models.yaml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(MODELS))
    return path


def calibrated(
    models: Path,
    endpoint: Path | None,
    arms: Sequence[Arm] = JSON_ARMS,
    number: int = NUMBER,
) -> dict[str, Any]:
    return calibrate("tiny", models, Arithmetic(), number, arms, endpoint, 5.0)


def rows_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["arm"]: row for row in found["arms"]}


def test_a_model_that_is_always_right_is_right_in_every_arm(models: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, answering()) as (endpoint, server):
        found = calibrated(models, endpoint, all_arms(STYLES, REPLY_FORMATS))
    rows = rows_of(found)
    assert list(rows) == [arm.name for arm in all_arms(STYLES, REPLY_FORMATS)]
    assert len(server.bodies) == NUMBER * (
        1 + 4 + 4 + 6
    )  # two steps are two requests, and what is answered first has none
    for name, row in rows.items():
        assert (row["right"], row["questions"], row["unreadable"]) == (NUMBER, NUMBER, 0.0), name
        assert row["accuracy"] == [1.0, *wilson_interval(NUMBER, NUMBER)]
        assert set(row["degenerate"].values()) == {0.0}
        steps = 2 if name.endswith("two_steps") else 1
        assert (row["prompt_tokens"], row["completion_tokens"]) == (100 * steps, 7 * steps)
    assert rows["plain"]["difference"] is None


def test_the_difference_to_plain_is_paired_by_question(models: Path, tmp_path: Path) -> None:
    wrong = list(RIGHT)[:3]

    def change(body: dict[str, Any], answer: str) -> str:
        in_json = "structured_outputs" in body
        return "1000" if in_json and question_of(body) in wrong else answer

    with standing_in(tmp_path, answering(change)) as (endpoint, _):
        rows = rows_of(calibrated(models, endpoint))
    low, high = paired_difference(NUMBER - 3, 3, 0, 0)
    for arm in JSON_ARMS[1:]:
        assert (rows[arm.name]["right"], rows[arm.name]["unreadable"]) == (NUMBER - 3, 0.0)
        assert rows[arm.name]["difference"] == [pytest.approx(-0.25), float(low), float(high)]


def test_what_cannot_be_read_is_unreadable_and_degenerate_replies_have_their_class(
    models: Path, tmp_path: Path
) -> None:
    def change(body: dict[str, Any], answer: str) -> str:
        asks_word = "structured_outputs" in body and "word" in str(body["structured_outputs"])
        return "?" if asks_word and question_of(body) == next(iter(RIGHT)) else answer

    with standing_in(tmp_path, answering(change)) as (endpoint, _):
        rows = rows_of(calibrated(models, endpoint))
    assert rows["stag_hunt-json"]["unreadable"] == pytest.approx(1 / NUMBER)
    assert rows["stag_hunt-json"]["degenerate"]["no_letter"] == pytest.approx(1 / NUMBER)
    assert rows["consensus-json"]["unreadable"] == 0.0


def test_a_reply_that_is_no_reply_is_not_asked_for_again(models: Path, tmp_path: Path) -> None:
    right = answering()

    def sometimes(body: dict[str, Any]) -> Any:
        in_json = "structured_outputs" in body
        return completion("no JSON") if in_json and question_of(body) == next(iter(RIGHT)) else right(body)

    with standing_in(tmp_path, sometimes) as (endpoint, server):
        rows = rows_of(calibrated(models, endpoint))
    assert len(server.bodies) == 5 * NUMBER
    assert all(rows[arm.name]["unreadable"] == pytest.approx(1 / NUMBER) for arm in JSON_ARMS[1:])


def test_an_interrupted_calibration_goes_on_and_comes_to_the_same(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.engine.client._LAST_WORDS_SECONDS", 0.0)
    right, asked = answering(), [0]

    def dying(body: dict[str, Any]) -> Any:
        asked[0] += 1
        return right(body) if asked[0] <= 30 else None

    with standing_in(tmp_path, dying) as (endpoint, _), pytest.raises(EngineError, match="broke the connection"):
        calibrated(models, endpoint)
    [journal] = Path("results/calibrations/tiny").iterdir()
    kept = len(journal.read_bytes().splitlines()) - 1
    assert NUMBER <= kept <= 30
    monkeypatch.setattr(RateLimit, "filter", lambda limit, record: True)
    with standing_in(tmp_path, answering()) as (endpoint, server), heard() as said:
        found = calibrated(models, endpoint)
    assert len(server.bodies) == 5 * NUMBER - kept
    assert said[0].endswith(f": 1 of {5 * NUMBER - kept} replies")
    for path in paths.RESULTS.rglob("*.*"):
        path.unlink()
    with standing_in(tmp_path, answering()) as (endpoint, _):
        again = calibrated(models, endpoint)
    assert [row | {"seconds": 0} for row in found["arms"]] == [row | {"seconds": 0} for row in again["arms"]]


def test_finished_arms_are_not_asked_again_and_stay(models: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, answering()) as (endpoint, _):
        first = calibrated(models, endpoint)
    assert calibrated(models, None)["arms"] == first["arms"]  # and no engine is started
    with standing_in(tmp_path, answering()) as (endpoint, server):
        more = calibrated(models, endpoint, [Arm("consensus", "text")])
    assert len(server.bodies) == NUMBER
    assert set(rows_of(more)) == {*rows_of(first), "consensus-text"}
    assert rows_of(more)["plain"] == rows_of(first)["plain"]


def test_finished_arms_without_their_journal_are_told(models: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, answering()) as (endpoint, server):
        path = calibrated(models, endpoint)["path"]
        path.with_suffix(".jsonl").unlink()
        asked = len(server.bodies)
        for arms in (JSON_ARMS, all_arms(STYLES, ("text",))):
            with pytest.raises(
                RecordError, match=r"lacks replies of .*, which is finished; restore the file, or delete"
            ):
                calibrated(models, endpoint, arms)
        assert len(server.bodies) == asked


def test_what_was_found_is_in_files(models: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, answering()) as (endpoint, server):
        found = calibrated(models, endpoint)
    path = found.pop("path")
    assert path.parent == Path("results/calibrations/tiny")
    assert json.loads(path.read_text()) == found
    replies = pq.read_table(path.with_suffix(".parquet")).to_pylist()
    assert len(replies) == len(server.bodies) == 5 * NUMBER
    assert all(reply["right"] and reply["answer"] == reply["right_answer"] for reply in replies)
    seeds = {(reply["arm"], reply["problem"]): reply["seed"] for reply in replies}
    assert len(set(seeds.values())) == len(seeds)
    assert sorted(seeds.values()) == sorted(body["seed"] for body in server.bodies)


def test_seeds_are_fixed_by_question_whatever_the_model_and_the_number(models: Path, tmp_path: Path) -> None:
    seeds = []
    for model, number in (("tiny", 3), ("other", 5)):
        with standing_in(tmp_path, answering(), model) as (endpoint, server):
            calibrate(model, models, Arithmetic(), number, [], endpoint, 5.0)
        seeds.append({question_of(body): body["seed"] for body in server.bodies})
    assert seeds[0].items() < seeds[1].items()


def test_bad_input_is_one_line_before_an_engine_is_started(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "temporary_engine", lambda *given: pytest.fail("an engine was started"))
    with pytest.raises(UsageError, match="unknown model"):
        calibrate("nobody", models, Arithmetic(), 3, [], None, 5.0)
    with pytest.raises(UsageError, match="lower it"):
        calibrate("tiny", models, Arithmetic(first=2), 3, [], None, 5.0)
    with (
        standing_in(tmp_path, model="other") as (endpoint, _),
        pytest.raises(UsageError, match="serves other, not tiny"),
    ):
        calibrated(models, endpoint)
    with pytest.raises(EngineError, match="no endpoint file"):
        calibrated(models, Path("none.json"))
    places = [{"path": "none.gguf"}, {"repo": "o/t", "revision": "a" * 40, "file": "t.gguf"}]
    models.write_text(yaml.safe_dump({"models": {"tiny": {"source": {"sha256": "0" * 64, "from": places}}}}))
    with pytest.raises(UsageError, match=r"none\.gguf: no such file; run: parley fetch-model tiny \(from o/t\)"):
        calibrated(models, None)
    assert not list(paths.RESULTS.rglob("*.jsonl"))


def test_progress_is_told_with_the_time_left(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RateLimit, "filter", lambda limit, record: True)
    with standing_in(tmp_path, answering()) as (endpoint, _), heard() as said:
        calibrated(models, endpoint, [Arm("consensus", "two_steps")])
    assert said[0] == f"plain: 1 of {3 * NUMBER} replies"
    assert said[9].startswith(f"plain: 10 of {3 * NUMBER} replies, about ")
    assert said[-1] == f"consensus-two_steps: {3 * NUMBER} of {3 * NUMBER} replies, about 0 s left"


def test_what_is_in_flight_is_bounded(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_AT_ONCE", 4)
    with standing_in(tmp_path, answering(), seconds=0.02) as (endpoint, server):
        calibrated(models, endpoint, [])
    assert max(server.most) <= 4


def test_a_service_is_asked_without_an_engine(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ModelEntry.model_validate(
        {"source": {"url": "http://127.0.0.1:1/v1", "served": "m", "key_variable": "NO_SUCH_KEY"}}
    )
    monkeypatch.setattr(run, "model_entry", lambda model, path: entry)
    with pytest.raises(UsageError, match="set the environment variable NO_SUCH_KEY"):
        calibrated(models, None)
    with pytest.raises(UsageError, match="leave it out"):
        calibrated(models, Path("endpoint.json"))


def test_a_service_is_asked_in_its_dialect(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with service(lambda body: completion(f"The answer is {RIGHT[question_of(body)]}.")) as server:
        dialect = {"preset": "deepinfra", "seed": False, "max_tokens_key": "max_completion_tokens"}
        entry = {"source": {"url": server.url, "served": SERVED}, "dialect": dialect}
        models.write_text(yaml.safe_dump({"models": {"tiny": entry}}))
        found = calibrated(models, None)
    assert rows_of(found)["plain"]["right"] == NUMBER
    assert {row["unreadable"] for name, row in rows_of(found).items() if name != "plain"} == {1.0}
    assert found["identity"]["grammar"] == "json_object"
    formats = [body.get("response_format") for body in server.bodies]
    assert formats.count(None) == NUMBER
    assert all(form in (None, {"type": "json_object"}) for form in formats)
    assert not any("seed" in body or "max_tokens" in body for body in server.bodies)
