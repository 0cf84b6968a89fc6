"""Batches: a real HTTP server that speaks OpenAI's API for them, with delays, failures, expiry, cancel and deaths."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.cli.plan_text import Plan
from parley.engine.service import batches
from parley.engine.service.batches import BatchFile, read_batches, waiting_batches
from parley.engine.service.budget import read_databases
from parley.errors import BudgetError, EngineError, JournalError, ParleyError, UsageError
from parley.play.record import read_attempts, read_summary
from parley.play.simulate import simulate, simulate_shard
from parley.play.spending import spending_line
from parley.progress.screen import status, status_values
from parley.study import Study
from support.answering import SERVED, VARIABLE, StandInService, as_recorded
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "Games of a run ask in lock step, in batches; whatever a batch or a process comes to, nothing is asked twice."
)

PRICE = {"prompt": 2.0, "completion": 8.0}
Make = Callable[..., Study]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_STILL_SECONDS", 0.05)
    monkeypatch.setattr(batches, "_POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(batches, "_APPEARS_SECONDS", 0.2)


@pytest.fixture
def make(study_factory: StudyFactory, server: StandInService) -> Make:
    """Write a study that asks the stand-in in batches."""

    def made(seeds: int = 2, rounds: int = 2, grid: Any = None, of_study: Any = None, **entry: Any) -> Study:
        source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
        models = {"tiny": {"source": source, "price": PRICE, "batch": True, **entry}}
        content = {"parameters": {"max_rounds": rounds}, "seeds": seeds, **(of_study or {})}
        return study_factory(
            {"model": "tiny", "n": 3, "prompt": "may_exist", **(grid or {})}, models=models, **content
        )

    return made


def play(study: Study) -> list[str]:
    """Play all that is missing, and return the digests."""
    simulate_shard(study, "tiny", 0)
    return digests(study)


def digests(study: Study) -> list[str]:
    return [read_summary(simulation.record("small")).digest for simulation in study.simulations()]


def alone(study: Study) -> list[str]:
    """Play each request alone, and forget it: the digests, which are those of an undisturbed run."""
    for simulation in study.simulations():
        simulate(study, simulation.record("small"), [], 60.0)
    found = digests(study)
    for simulation in study.simulations():
        simulation.record("small").unlink()
    return found


def names(server: StandInService) -> list[list[str]]:
    """Return round, phase and attempt of the requests of each batch, each once."""
    found = []
    for batch in server.batches.batches:
        ids = [json.loads(line)["custom_id"] for line in server.batches.files[batch["input_file_id"]].splitlines()]
        found.append(sorted({"-".join(id.split("-")[i] for i in (1, 2, 4)) for id in ids}))
    return found


def test_all_games_that_wait_go_as_one_batch_and_end_as_alone(make: Make, server: StandInService) -> None:
    study = make(seeds=4)
    undisturbed = alone(study)
    bodies = {json.dumps(body, sort_keys=True) for body in server.bodies}
    assert play(study) == undisturbed
    assert {json.dumps(line["body"], sort_keys=True) for line in server.batches.lines} == bodies
    assert len(server.batches.asked) == len(set(server.batches.asked)) == len(bodies)
    first = names(server)[0]
    assert first == ["1-propose-0"]
    assert len(server.batches.files[server.batches.batches[0]["input_file_id"]].splitlines()) == 4 * 3
    assert "1-propose-1" in names(server)[1]  # what could not be used goes in the next one
    of_first = server.batches.batches[0]
    assert (of_first["endpoint"], of_first["completion_window"]) == ("/v1/chat/completions", "24h")
    told = read_summary(next(study.simulations()).record("small")).provenance["engines"]["tiny"]
    assert told["batches"][0] == "batch_0"
    assert not list(paths.batches("small").iterdir())


# What a batch can come to


def test_what_a_batch_did_not_answer_goes_into_the_next_one(make: Make, server: StandInService) -> None:
    study = make()
    undisturbed = alone(study)
    server.bodies.clear()
    tries: dict[str, int] = {}
    first = {0: None, 1: (429, {"error": {"message": "slow down"}}), 2: (200, {"choices": []})}

    def answer(body: dict[str, Any]) -> Any:
        tries[key] = tries.get(key := json.dumps(body), 0) + 1
        return first.get(len(tries) % 4, as_recorded(body)) if tries[key] == 1 else as_recorded(body)

    server.batches.answer = answer
    server.batches.ends = ["expired"]
    assert play(study) == undisturbed
    assert set(tries.values()) == {1, 2}
    for batch, lines in enumerate(names(server)[:2]):
        assert "1-propose-0" in lines, batch
    assert server.bodies == []


def test_an_answer_that_is_an_error_is_what_it_is_alone(make: Make, server: StandInService) -> None:
    study = make(seeds=1, of_study={"most_unusable": None})
    server.batches.answer = lambda body: (400, {"error": {"code": "content_filter", "message": "no"}})
    play(study)
    _, rows = read_attempts(next(study.simulations()).record("small"), ("finish_reason",))
    assert set(rows.column("finish_reason").to_pylist()) == {"content_filter"}

    next(study.simulations()).record("small").unlink()
    server.batches.answer = lambda body: (404, {"error": {"message": "no such model"}})
    with pytest.raises(EngineError, match="answered 404: no such model"):
        play(study)


def test_a_batch_that_the_service_has_no_more_is_named(make: Make, server: StandInService) -> None:
    study = make(seeds=1)
    server.batches.looks = 1
    server.batches.answer = lambda body: (401, {"error": {"message": "no"}})
    with pytest.raises(EngineError, match="answered 401"):
        play(study)
    server.batches.answer = as_recorded
    server.batches.files.clear()  # after a month
    server.batches.batches[0] |= {"output_file_id": "file_7"}
    assert play(study)

    next(study.simulations()).record("small").unlink()
    server.batches.step = lambda what, done: server.batches.batches.clear() if what == "GET /v1/batches/ID" else None
    with pytest.raises(
        EngineError, match=r"No batch; to ask again what batch_4 asked, move results/small/batches/.*jsonl"
    ):
        play(study)


def test_responses_have_batches_of_their_own(make: Make, server: StandInService) -> None:
    study = make(seeds=1, dialect={"api": "responses"}, of_study={"most_unusable": None})
    text = json.dumps({"internal_strategy": "s", "value": 7, "public_reasoning": "r"})
    usage = {"input_tokens": 100, "output_tokens": 7}
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    server.batches.answer = lambda body: (200, {"output": [message], "status": "completed", "usage": usage})
    play(study)
    assert server.batches.batches[0]["endpoint"] == "/v1/responses"
    _, rows = read_attempts(next(study.simulations()).record("small"), ("phase", "failure"))
    found = set(zip(rows.column("phase").to_pylist(), rows.column("failure").to_pylist(), strict=True))
    assert ("propose", None) in found
    assert not any(phase == "propose" and failure for phase, failure in found)
    with pytest.raises(UsageError, match="batch: the service's batches are not OpenAI's"):
        make(dialect={"api": "messages", "structured": "tool"})


def test_a_request_that_no_batch_answers_is_given_up(make: Make, server: StandInService) -> None:
    study = make(seeds=1)
    server.batches.answer = lambda body: None
    server.batches.ends = ["expired"] * 9
    with pytest.raises(EngineError, match=r"not executed; given up after 3 batches; run again"):
        play(study)
    assert len(server.batches.batches) == 3
    server.batches.answer = as_recorded
    assert play(study)


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_what_somebody_canceled_or_the_service_refused_waits_for_the_next_run(
    end: str, make: Make, server: StandInService
) -> None:
    study = make(of_study={"budget": {"tokens": 10**6}})
    undisturbed = alone(study)
    paths.spent("small").unlink()
    answered: list[str] = []

    def answer(body: dict[str, Any]) -> Any:
        answered.append(json.dumps(body))
        return as_recorded(body) if len(answered) % 2 else None

    server.batches.answer = answer
    server.batches.ends = [end]
    with pytest.raises(ParleyError) as caught:
        play(study)
    words = (
        "somebody canceled batch_0" if end == "cancelled" else "refused batch_0 of 6 requests: Enqueued token limit"
    )
    assert words in str(caught.value)
    assert len(server.batches.batches) == 1
    kept = answered[::2]
    server.batches.answer = as_recorded
    assert play(study) == undisturbed
    again = [json.dumps(line["body"]) for line in server.batches.lines[6:]]
    assert len(server.batches.asked) == len(set(server.batches.asked)) + 6 - len(kept)
    assert not set(kept).intersection(again)
    assert used(study) == spent()


def used(study: Study) -> int:
    tokens = [read_summary(each.record("small")).telemetry for each in study.simulations()]
    return sum(int(each["prompt_tokens"]) + int(each["completion_tokens"]) for each in tokens)


def spent() -> int:
    return read_databases([paths.spent("small")], {}, in_flight=True)[0].tokens


def test_a_batch_whose_beginning_got_no_answer_is_looked_for(make: Make, server: StandInService) -> None:
    study = make(seeds=1)
    undisturbed = alone(study)
    server.batches.step = lambda what, done: "hang up" if done and what == "POST /v1/batches" else None
    server.batches.refuses = [(503, {"error": {"message": "busy"}}), (429, {"error": {"message": "slow down"}})]
    assert play(study) == undisturbed
    assert len(server.batches.asked) == len(set(server.batches.asked))


def test_what_a_service_says_of_batches_is_not_trusted(make: Make, server: StandInService) -> None:
    study = make(seeds=1)
    for page in ({"id": "../models"}, {"id": 3}, [], {"id": "batch_0/../../models"}, b"<html>"):
        server.batches.refuses = [(200, page)]
        with pytest.raises(EngineError, match="not of the batch API"):
            play(study)
        assert [batch.id for batch in waiting_batches(paths.batches("small"))] == [""]  # it may have begun
    junk = b"\xff\n[]\n{}\n" + json.dumps({"custom_id": "x-1", "response": {"status_code": "a"}}).encode() + b"\n"
    whole = server.batches._end

    def end(batch: dict[str, Any], status: str = "") -> None:
        whole(batch, status)
        name = batch["output_file_id"]
        server.batches.files[name] = junk + server.batches.files[name] + junk

    server.batches._end = end  # type: ignore[method-assign]
    assert play(study)


# Deaths


def life(study: Study, die_at_write: int) -> None:
    """Play in a process that is killed, perhaps by itself: before or after it has written the file of a batch."""
    write, left = BatchFile.write, die_at_write

    def mortal(self: BatchFile, folder: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, folder)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    BatchFile.write = mortal  # type: ignore[method-assign]
    simulate_shard(study, "tiny", 0)


STEPS = ("POST /v1/files", "POST /v1/batches", "GET /v1/batches/ID", "GET /v1/files/ID/content")
DEATHS = [*((what, done) for what in STEPS for done in (False, True)), *range(1, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("death", DEATHS)
def test_no_death_asks_anything_twice(death: tuple[str, bool] | int, make: Make, server: StandInService) -> None:
    study = make(seeds=2, rounds=1, of_study={"budget": {"tokens": 10**6}})
    undisturbed = alone(study)
    paths.spent("small").unlink()
    context = get_context("fork")
    child = context.Process(target=life, args=(study, death if isinstance(death, int) else 0))
    seen = 0

    def kill(what: str, done: bool) -> str | None:
        nonlocal seen
        seen += (what, done) == death
        if (what, done) == death and seen == 2:  # of the second batch
            os.kill(child.pid or 0, signal.SIGKILL)
            return "hang up"
        return None

    server.batches.step = kill
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    server.batches.step = lambda what, done: None
    assert play(study) == undisturbed
    assert len(server.batches.asked) == len(set(server.batches.asked))
    # What was set aside when it died, before there was a file of the batch, counts as lost.
    assert spent() == used(study) if death not in [*DEATHS[:2], 1] else spent() > used(study)
    assert not list(paths.batches("small").iterdir())


@pytest.mark.slow
def test_a_run_that_is_stopped_leaves_the_batch_and_status_shows_it(make: Make, server: StandInService) -> None:
    study = make(seeds=1, of_study={"budget": {"cost": 1.0}})
    server.batches.looks = 10**6
    child = get_context("fork").Process(target=life, args=(study, 0))
    child.start()
    while not (waiting := waiting_batches(paths.batches("small"))) or not waiting[0].status:
        time.sleep(0.02)
    child.terminate()
    child.join()
    line = "batch: batch_0 of tiny: 0 of 3 requests answered, sent 0 s ago (in_progress)"
    assert line in [text.replace("1 s ago", "0 s ago") for text in status(study)]
    assert [each.startswith("batch_0 of tiny") for each in status_values(study)["batches"]] == [True]
    server.batches.looks = 1
    play(study)
    assert len(server.batches.asked) == len(set(server.batches.asked))
    assert waiting_batches(paths.batches("small")) == []


# Money


def test_batches_cost_half_and_a_budget_holds(make: Make, server: StandInService) -> None:
    study = make(seeds=1, of_study={"budget": {"cost": 0.004}})
    with pytest.raises(BudgetError, match="the budget of small is spent"):
        play(study)
    study = make(seeds=1, of_study={"budget": {"cost": 1.0}})
    play(study)
    tokens = read_summary(next(study.simulations()).record("small")).telemetry
    cost = (int(tokens["prompt_tokens"]) * 2 + int(tokens["completion_tokens"]) * 8) / 2e6
    assert f"{cost:.4f} of 1 in money spent" in (spending_line(study) or "")
    planned = Plan(study, None, None).values()["batches"][0]
    assert (planned["money_in_batches"], planned["money_alone"]) == pytest.approx((cost, 2 * cost))
    assert (planned["phases"], planned["hours_of_batch"], planned["hours_alone"]) == (2, 24, None)
    assert any("one after another, each within 24 hours; one by one" in x for x in Plan(study, None, None).lines())


def test_what_the_budget_has_no_room_for_beside_a_batch_waits_for_its_end(make: Make, server: StandInService) -> None:
    undisturbed = alone(make(seeds=1))
    most = [len(content) + 300 for content in server.contents]
    study = make(seeds=1, of_study={"budget": {"tokens": 107 * len(most) + max(most)}})
    assert play(study) == undisturbed
    assert len(server.batches.files["file_0"].splitlines()) == 1


POLICY = """
class Asks:
    def __init__(self, llm):
        self.llm = llm

    async def answer(self, ask, seed, attempt):
        return await self.llm.answer(ask, seed, attempt)
"""


# What batches cannot play, and who else reads them


def test_what_batches_cannot_play_is_refused_when_a_study_is_loaded(make: Make, folder: Path) -> None:
    Path("mine.py").write_text(POLICY)
    with pytest.raises(UsageError, match="tiny is asked in batches; remove its batch"):
        make(grid={"model": {"name": "mine:Asks", "model": "tiny"}})
    with pytest.raises(UsageError, match="time_limit counts how long replies take, and tiny is asked in batches"):
        make(grid={"prompt": "improve"}, of_study={"game": "deliberation", "parameters": {"time_limit": 5}})
    with pytest.raises(UsageError, match="batch: only for a service"):
        make(source={"repo": "owner/tiny", "revision": "a" * 40})


@pytest.mark.slow
def test_vllm_reads_the_file(make: Make, server: StandInService) -> None:
    code = (
        "import sys; from vllm.entrypoints.launchers.run_batch import BatchRequestInput as B\n"
        "for line in sys.stdin.read().splitlines(): print(B.model_validate_json(line).body.seed)"
    )
    play(make(seeds=1, rounds=1))
    found = subprocess.run(
        [sys.executable, "-c", code], input=server.batches.files["file_0"].decode(), capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert [int(line) for line in found.stdout.split()] == [line["body"]["seed"] for line in server.batches.lines[:3]]


def test_a_damaged_file_of_a_batch_is_named(folder: Path) -> None:
    file = paths.batches("small") / "one.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"{}")
    with pytest.raises(JournalError, match=r"one\.jsonl: cannot be read"):
        read_batches(file.parent)
