"""The budget of a study: it stops cleanly, can be raised, and counts all that records and journals have."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.engine.service import budget
from parley.engine.service.budget import Account
from parley.errors import BudgetError, JournalError
from parley.play.journal import Journal, journaled
from parley.play.record import read_record, read_summary
from parley.play.simulate import simulate_shard
from parley.play.spending import budget_of, count_spent, spending_line
from parley.progress.display import status
from parley.study import Study
from parley.study.condition import SERVICES
from support.answering import KEY, SERVED, VARIABLE, StandInService, as_recorded, completion
from support.commands import Parley, heard
from support.studies import StudyFactory, play_all, records_of, study_of

pytestmark = pytest.mark.promise(
    "A budget stops a study cleanly, can be raised, and counts all that records and journals have."
)

PRICE = {"prompt": 2.0, "completion": 8.0, "cached": 1.0}


Make = Callable[..., Study]


@pytest.fixture
def make(study_factory: StudyFactory, server: StandInService) -> Make:
    """Write a study that asks the stand-in, with a budget."""

    def made(
        budget: dict[str, float] | None = None, rounds: int = 2, seeds: int = 1, repeats: int = 1, **entry: Any
    ) -> Study:
        source = {"url": server.url, "served": SERVED, "key_variable": VARIABLE}
        models = {"tiny": {"source": source, "price": PRICE, **entry}}
        content: dict[str, Any] = {"parameters": {"max_rounds": rounds}, "seeds": seeds, "repeats": repeats}
        if budget is not None:
            content["budget"] = budget
        return study_factory({"model": "tiny", "n": 3, "prompt": "may_exist"}, models=models, **content)

    return made


def digests(study: Study) -> list[str]:
    return [read_summary(record).digest for record in records_of(study)]


def total(study: Study) -> int:
    return count_spent(study).total


@pytest.fixture
def undisturbed(make: Make, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of a study without a budget that nobody disturbs, played elsewhere."""
    with monkeypatch.context() as other:
        other.chdir(tmp_path_factory.mktemp("undisturbed"))
        study = make()
        play_all(study)
        return digests(study)


@pytest.mark.slow
def test_a_spent_budget_stops_and_a_raised_one_goes_on_to_the_same_end(
    make: Make, server: StandInService, undisturbed: list[str]
) -> None:
    asked = len(server.bodies)
    server.bodies.clear()
    study = make({"tokens": 3200})  # one request can use about 3000 tokens, and uses 107
    for _ in range(2):
        with pytest.raises(BudgetError) as caught:
            play_all(study)
    answered = len(server.bodies)
    assert 0 < answered < asked
    assert len(journaled(paths.journal(records_of(study)[0]))) == answered  # nothing was asked again, nor anything new
    told = str(caught.value)
    assert told.startswith(f"the budget of small is spent: {answered * 107:,} of 3,200 tokens spent")

    raised = make({"tokens": 100_000})
    with heard() as said:
        play_all(raised)
    assert said[0] == f"going on from the journal: {answered} replies"
    assert len(server.bodies) == asked
    assert digests(raised) == undisturbed
    assert total(raised) == asked * 107


@pytest.mark.slow
def test_money_is_counted_by_price_also_of_cached_tokens(make: Make, server: StandInService) -> None:
    server.answer = lambda body: completion(as_recorded(body)[1]["choices"][0]["message"]["content"], cached=40)
    study = make({"cost": 1.0, "tokens": 10**6})
    play_all(study)
    calls = len(server.bodies)
    money = calls * (60 * 2.0 + 40 * 1.0 + 7 * 8.0) / 1e6
    assert spending_line(study) == f"budget: {calls * 107:,} of 1,000,000 tokens and {money:.4f} of 1 in money spent"
    assert list(status(study))[1] == spending_line(study)
    cheaper = make({"cost": 1}, price={"prompt": 0, "completion": 0})
    assert "0.0000 of 1 in money" in str(spending_line(cheaper)), "prices of today count"
    little = make({"cost": money + 0.001}, seeds=2)
    with pytest.raises(BudgetError, match=r"of 0\.00\d+ in money spent, and the next request may cost 0\.00"):
        play_all(little)


def dearest(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Answer as the stand-in does, but use all that was set aside."""
    status_, answer = as_recorded(body)
    size = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
    return status_, answer | {"usage": {"prompt_tokens": size, "completion_tokens": body["max_tokens"]}}


def test_many_games_at_once_do_not_spend_more_than_there_is(make: Make, server: StandInService) -> None:
    """Each request uses all that it can, so what is set aside is just enough."""
    server.answer = dearest
    server.seconds = 0.02
    study = make({"tokens": 20_000}, rounds=6, seeds=2)
    with pytest.raises(BudgetError, match="the budget of small is spent"):
        simulate_shard(study, SERVICES, 0)
    tokens = [sum(dearest(body)[1]["usage"].values()) for body in server.bodies]
    assert sum(tokens) == total(study)
    assert 20_000 - 2 * max(tokens) < sum(tokens) <= 20_000


def test_nobody_else_spends_a_budget_meanwhile(
    make: Make, server: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "_LOCK_PATIENCE", 0.1)
    study = make({"tokens": 10**6})
    one, other = budget_of(study), budget_of(study)
    assert one is not None
    assert other is not None
    with one, pytest.raises(JournalError, match="another process spends the budget of small; wait for it or stop it"):
        other.__enter__()
    with other:
        pass


def test_what_is_in_flight_when_the_budget_ends_is_answered_and_journaled(make: Make, server: StandInService) -> None:
    """The first reply claims to have used it all, while the second is on its way."""
    ready = threading.Barrier(2)
    arrived: list[int] = []
    first_is_counted = threading.Event()

    def answer(body: dict[str, Any]) -> Any:
        with server.guard:
            arrived.append(body["seed"])
            first = len(arrived) == 1
        ready.wait(60)
        if first:
            return 200, as_recorded(body)[1] | {"usage": {"prompt_tokens": 10**6, "completion_tokens": 1}}
        assert first_is_counted.wait(60)
        return as_recorded(body)

    server.answer = answer
    study = make({"tokens": 7500})  # room for two requests of three

    def count(self: Account, *used: Any) -> None:
        counted(self, *used)
        threading.Timer(0.5, first_is_counted.set).start()  # the third is refused by then, or soon

    counted = Account.add
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Account, "add", count)
        with pytest.raises(BudgetError, match="1,000,001 of 7,500 tokens spent"):
            play_all(study)
    assert len(arrived) == 2
    kept = {entry.seed for entry in journaled(paths.journal(records_of(study)[0]))}
    assert set(arrived) <= kept


@pytest.mark.slow
def test_a_budget_that_comes_later_counts_what_was_spent_before(make: Make, server: StandInService) -> None:
    play_all(make())  # a record
    play_all(make(rounds=1))  # of a former configuration
    server.answer = lambda body: (400, {}) if len(server.bodies) % 5 == 0 else as_recorded(body)
    study = make(seeds=3)
    with pytest.raises(Exception, match="answered 400"):
        play_all(study)  # a journal
    server.answer = as_recorded
    journals = [journaled(path) for path in paths.journals("small").rglob("*.jsonl")]
    calls = [read_summary(path).telemetry["calls"] for path in paths.simulations("small").rglob("*.parquet")]
    spent = 107 * (sum(calls) + len(journals[0]))

    limited = make({"tokens": spent + 10, "cost": 1}, seeds=3)
    assert f"{spent:,} of {spent + 10:,} tokens" in str(spending_line(limited))
    with pytest.raises(BudgetError, match=f"{spent:,} of {spent + 10:,} tokens and"):
        play_all(limited)
    asked = len(server.bodies)
    raised = make({"tokens": 10**6}, seeds=3)
    play_all(raised)
    assert total(raised) == spent + 107 * (len(server.bodies) - asked)


@pytest.mark.slow
def test_a_record_counts_once_beside_its_journal_and_so_do_repeats_and_forks(
    make: Make, server: StandInService
) -> None:
    study = make()
    play_all(study)
    [record] = records_of(study)
    [simulation] = study.simulations()
    with Journal(paths.journal(record), simulation.id) as journal:  # its process died right after it wrote the record
        for entry in read_record(record)[1]:
            journal.append(entry)
    assert total(study) == 107 * len(server.bodies)
    play_all(make({"tokens": 10**6}, seeds=2))
    play_all(make(seeds=3))  # what is played without a budget counts when there is one again
    repeated = make({"tokens": 10**6}, seeds=4, repeats=2)
    play_all(repeated)
    asked = len(server.bodies)
    assert total(repeated) == 107 * asked
    fork = {"of": "small", "at": "1:vote", "change": "none", "repeats": 1}
    forks = study_of(name="forks", fork=fork, budget={"tokens": 10**6})
    play_all(forks)
    assert total(forks) == 107 * (len(server.bodies) - asked) > 0, "not for what was said in the recorded games"


def test_a_service_that_does_not_tell_what_was_used_is_counted_at_most(make: Make, server: StandInService) -> None:
    server.answer = lambda body: (200, {**as_recorded(body)[1], "usage": None})
    with pytest.raises(BudgetError) as caught:
        play_all(make({"tokens": 10_000}))
    most = sum(len(content) + json.loads(content)["max_tokens"] for content in server.contents)
    assert f" {most:,} of 10,000 tokens spent" in str(caught.value)


def test_the_key_is_in_no_file_and_no_message_of_a_run_that_waits_and_stops(
    make: Make, server: StandInService, parley: Parley
) -> None:
    failures = [None, (429, {"error": f"{KEY} is too fast"}, {"Retry-After": "0"})]
    server.answer = lambda body: failures.pop() if failures else as_recorded(body)
    study = make({"tokens": 6_000}, limits={"concurrent": 1})
    ran = parley("simulate", "small.yaml", records_of(study)[0])
    make({"tokens": 10**6}, limits={"concurrent": 1})
    again = parley("simulate", "small.yaml", records_of(study)[0])
    said = ran.out + ran.err + again.out + again.err
    assert (ran.status, again.status) == (1, 0)
    assert "[key] is too fast; trying again in" in said
    assert failures == []
    everything = {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    for name, content in {**everything, "what was said": said.encode()}.items():
        assert KEY.encode() not in content, name
