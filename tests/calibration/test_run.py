"""Whole calibrations, against a stand-in for an engine."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from parley.analysis.stats import paired_difference, wilson_interval
from parley.calibration import run
from parley.calibration.arms import STYLES, Arm, all_arms, remedies
from parley.calibration.run import calibrate
from parley.engine.models import ModelEntry
from parley.errors import EngineError, RecordError, UsageError
from parley.games.problems.sources import Arithmetic
from parley.play.journal import journaled
from parley.policies import REPLY_FORMATS
from support.answering import SERVED, StandIn, completion, service, standing_in
from support.replies import RIGHT, answering, question_of
from support.studies import MODELS

pytestmark = pytest.mark.promise(
    "`parley calibrate` asks the same questions plainly and in each game's formats, goes on after a "
    "death, and pairs by question."
)

NUMBER = 12
JSON_ARMS = all_arms(STYLES, ("json",))
FIRST = next(iter(RIGHT))

Calibrate = Callable[..., dict[str, Any]]
Engine = Callable[..., Any]


@pytest.fixture
def models(folder: Path) -> Path:
    path = Path("config/models.yaml")
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(MODELS))
    return path


@pytest.fixture
def engine(models: Path, tmp_path: Path) -> Engine:
    """A stand-in that answers in a way; yields what calibrates by it, and the server."""

    @contextmanager
    def answered(answer: Any = None) -> Iterator[tuple[Calibrate, StandIn]]:
        with standing_in(tmp_path, answer or answering()) as (endpoint, server):
            yield lambda arms=JSON_ARMS: calibrated(models, endpoint, arms), server

    return answered


def calibrated(models: Path, endpoint: Path | None, arms: Sequence[Arm] = JSON_ARMS) -> dict[str, Any]:
    return calibrate("tiny", models, Arithmetic(), NUMBER, arms, endpoint, 5.0)


def rows_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["arm"]: row for row in found["arms"]}


@pytest.mark.slow
def test_a_model_that_is_always_right_is_right_in_every_arm(engine: Engine) -> None:
    with engine() as (calibrate_arms, server):
        rows = rows_of(calibrate_arms(all_arms(STYLES, REPLY_FORMATS)))
    assert list(rows) == [arm.name for arm in all_arms(STYLES, REPLY_FORMATS)]
    # Two steps are two requests, and what is answered first has none.
    total = NUMBER * (1 + 5 + 5 + 8 + 3 * 4)
    assert len(server.bodies) == total
    for name, row in rows.items():
        assert (row["right"], row["questions"], row["unreadable"]) == (NUMBER, NUMBER, 0.0), name
        assert row["accuracy"] == [1.0, *wilson_interval(NUMBER, NUMBER)]
        assert set(row["degenerate"].values()) == {0.0}
        steps = 2 if name.endswith("two_steps") else 1
        assert (row["prompt_tokens"], row["completion_tokens"]) == (100 * steps, 7 * steps)
    assert rows["plain"]["difference"] is None


@pytest.mark.slow
def test_the_difference_to_plain_is_paired_by_question(engine: Engine) -> None:
    wrong = list(RIGHT)[:3]

    def change(body: dict[str, Any], answer: str) -> str:
        return "1000" if "structured_outputs" in body and question_of(body) in wrong else answer

    with engine(answering(change)) as (calibrate_arms, _):
        rows = rows_of(calibrate_arms())
    low, high = paired_difference(NUMBER - 3, 3, 0, 0)
    for arm in JSON_ARMS[1:]:
        assert (rows[arm.name]["right"], rows[arm.name]["unreadable"]) == (NUMBER - 3, 0.0)
        assert rows[arm.name]["difference"] == [pytest.approx(-0.25), float(low), float(high)]


@pytest.mark.slow
def test_what_cannot_be_read_is_unreadable_and_not_asked_for_again(engine: Engine) -> None:
    right = answering(lambda body, answer: "?" if "word" in str(body.get("structured_outputs")) else answer)

    def sometimes(body: dict[str, Any]) -> Any:
        form = body.get("structured_outputs")
        first = form is not None and question_of(body) == FIRST
        return completion("no JSON") if first and "word" not in str(form) else right(body)

    with engine(sometimes) as (calibrate_arms, server):
        rows = rows_of(calibrate_arms())
    assert len(server.bodies) == 9 * NUMBER
    hunt = rows.pop("stag_hunt-json")
    assert (hunt["unreadable"], hunt["degenerate"]["no_letter"]) == (1.0, 1.0)  # degenerate replies have their class
    assert rows.pop("plain")["unreadable"] == 0.0
    assert [row["unreadable"] for row in rows.values()] == [pytest.approx(1 / NUMBER)] * len(rows)


@pytest.mark.slow
def test_an_interrupted_calibration_goes_on_and_comes_to_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.engine.client._LAST_WORDS_SECONDS", 0.0)
    right, asked = answering(), [0]

    def dying(body: dict[str, Any]) -> Any:
        asked[0] += 1
        return right(body) if asked[0] <= 30 else None

    with engine(dying) as (calibrate_arms, _), pytest.raises(EngineError, match="broke the connection"):
        calibrate_arms()
    [journal] = Path("results/calibrations/tiny").iterdir()
    kept = len(journal.read_bytes().splitlines()) - 1
    assert NUMBER <= kept <= 30
    with engine() as (calibrate_arms, server):
        found = calibrate_arms()
    assert len(server.bodies) == 9 * NUMBER - kept
    for path in paths.RESULTS.rglob("*.*"):
        path.unlink()
    with engine() as (calibrate_arms, _):
        again = calibrate_arms()
    assert [row | {"seconds": 0} for row in found["arms"]] == [row | {"seconds": 0} for row in again["arms"]]


@pytest.mark.slow
def test_what_was_found_is_in_files_and_finished_arms_are_not_asked_again(engine: Engine, models: Path) -> None:
    with engine() as (calibrate_arms, server):
        found = calibrate_arms()
        path = found.pop("path")
        assert path.parent == Path("results/calibrations/tiny")
        assert json.loads(path.read_text()) == found
        replies = journaled(path.with_suffix(".jsonl"))
        assert len(replies) == len(server.bodies) == 9 * NUMBER
        assert all(row["right"] == NUMBER for row in found["arms"])
        seeds = {(reply.phase, reply.agent): reply.seed for reply in replies}
        assert len(set(seeds.values())) == len(seeds)
        assert sorted(seeds.values()) == sorted(body["seed"] for body in server.bodies)

        assert calibrated(models, None)["arms"] == found["arms"]  # and no engine is started
        more = rows_of(calibrate_arms([Arm("consensus", "text")]))
        assert len(server.bodies) == 10 * NUMBER
        assert set(more) == {*rows_of(found), "consensus-text"}
        assert more["plain"] == rows_of(found)["plain"]
        # Without their journal there is nothing to go on from.
        path.with_suffix(".jsonl").unlink()
        for arms in (JSON_ARMS, all_arms(STYLES, ("text",))):
            with pytest.raises(RecordError, match=r"lacks replies of .*, which is finished; .*delete"):
                calibrate_arms(arms)
        assert len(server.bodies) == 10 * NUMBER


def test_bad_input_is_one_line_before_an_engine_is_started(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "temporary_engine", lambda *given: pytest.fail("an engine was started"))
    with pytest.raises(UsageError, match="unknown model"):
        calibrate("nobody", models, Arithmetic(), 3, [], None, 5.0)
    serving = standing_in(tmp_path, model="other")
    with serving as (endpoint, _), pytest.raises(UsageError, match="serves other, not tiny"):
        calibrated(models, endpoint)
    places = [{"path": "none.gguf"}, {"repo": "o/t", "revision": "a" * 40, "file": "t.gguf"}]
    models.write_text(yaml.safe_dump({"models": {"tiny": {"source": {"sha256": "0" * 64, "from": places}}}}))
    with pytest.raises(UsageError, match=r"none\.gguf: .*parley fetch-model tiny"):
        calibrated(models, None)
    assert not list(paths.RESULTS.rglob("*.jsonl"))


@pytest.mark.slow
def test_a_service_is_asked_without_an_engine_and_in_its_dialect(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"url": "http://127.0.0.1:1/v1", "served": "m", "key_variable": "NO_SUCH_KEY"}
    with monkeypatch.context() as patch:
        patch.setattr(run, "model_entry", lambda model, path: ModelEntry.model_validate({"source": source}))
        with pytest.raises(UsageError, match="NO_SUCH_KEY"):
            calibrated(models, None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with service(lambda body: completion(f"The answer is {RIGHT[question_of(body)]}.")) as server:
        dialect = {"preset": "deepinfra", "seed": False, "max_tokens_key": "max_completion_tokens"}
        entry = {"source": {"url": server.url, "served": SERVED}, "dialect": dialect}
        models.write_text(yaml.safe_dump({"models": {"tiny": entry}}))
        found = calibrated(models, None)
    rows = rows_of(found)
    assert rows.pop("plain")["right"] == NUMBER
    assert {row["unreadable"] for row in rows.values()} == {1.0}
    lines = list(remedies(found["arms"]))
    assert len(lines) == len(rows)
    assert all("100% cannot be used, most of it invalid_json; what helps: reply_format" in line for line in lines)
    assert found["identity"]["grammar"] == "json_object"
    formats = [body.get("response_format") for body in server.bodies]
    assert formats.count(None) == NUMBER
    assert all(form in (None, {"type": "json_object"}) for form in formats)
    assert not any("seed" in body or "max_tokens" in body for body in server.bodies)
