"""Forks: what is given, what is asked, and that nothing else changes."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from parley import paths
from parley.errors import RecordError, UsageError
from parley.imports.import_games import import_games
from parley.play.forks import check_parents, forked_policies
from parley.play.journal import Journal
from parley.play.live import play_forks, study_of_record
from parley.play.record import read_record, read_summary
from parley.play.replay import replay
from parley.play.runner import play
from parley.play.simulate import simulate_shard
from parley.study import Study, load_study
from parley.study.condition import SCRIPTED
from parley.study.recorded import label
from parley.study.study_file import Change
from support.answering import SeedPolicy, StandInService, record_with_model
from support.commands import Parley, one_line_error
from support.records import cheap_talk, forge, write_cheap_talk
from support.studies import StudyFactory

DRAWING = {"model": "random", "n": 4, "b": 1, "byzantine": "random"}


def forks_of(record: Path, *changes: str, at: str = "2", repeats: int = 1) -> Study:
    return study_of_record(record, [at], changes, repeats, None)


def study_of_forks(change: Any = "none", game: str = "consensus", **fork: Any) -> Study:
    """Write a study of forks at round 2 of what `small` played, and load it."""
    content = {"of": "small", "at": 2, "change": change, "repeats": 1, **fork}
    Path("forks.yaml").write_text(yaml.safe_dump({"game": game, "fork": content}))
    return load_study(Path("forks.yaml"), needs_weights=False)


@pytest.fixture
def record(study_factory: StudyFactory) -> Path:
    """A game of agents that draw what they say, of four rounds at most."""
    study = study_factory(DRAWING, parameters={"max_rounds": 4, "stop_threshold": 1})
    simulate_shard(study, SCRIPTED, 0)
    return next(study.records(by_shard=True))


@pytest.mark.parametrize("at", ["1", "1:vote", "3"])
def test_an_unchanged_fork_is_its_parent_up_to_the_point(record: Path, at: str) -> None:
    recorded = read_record(record)[1]
    [(simulation, other)] = play_forks(forks_of(record, "none", at=at), [], 1.0)
    assert other.digest != read_summary(record).digest
    first = next(x for x in other.exchanges if x.entry.given is None).entry
    before = [x.entry for x in other.exchanges if x.entry.given]
    assert [entry.text for entry in before] == [entry.text for entry in recorded[: len(before)]]
    assert (first.round, first.phase) == (int(at[0]), "vote" if "vote" in at else "propose")
    assert simulation.condition.axes["at"] in (int(at[0]), at.replace(":", "-"))


@pytest.mark.promise("With the sampling seeds of its parent, a fork without a change is its parent, byte for byte.")
def test_a_model_is_asked_for_nothing_that_the_record_has(study_factory: StudyFactory) -> None:
    study = study_factory({"model": "tiny", "n": 3}, parameters={"max_rounds": 3, "stop_threshold": 1})
    [simulation] = study.simulations()
    record = record_with_model(simulation)
    [fork] = study_of_forks().simulations()

    asked: list[int] = []

    class Counting(SeedPolicy):
        async def answer(self, ask: Any, seed: int, attempt: int) -> Any:
            asked.append(ask.round)
            return await super().answer(ask, seed, attempt)

    policies = forked_policies(fork, dict.fromkeys(fork.players, Counting()))
    finished = play(fork.id, fork.game(), policies)
    assert min(asked) == 2
    assert {x.entry.round for x in finished.exchanges if x.entry.given == "parent"} == {1}
    # The engine answers by the seed: the one of the parent gives the parent again.
    same = play(simulation.id, fork.game(), policies)
    assert same.digest == read_summary(record).digest


CHANGES = [
    "none",
    "silence: byzantine",
    "silence: all",
    "silence_once: agent_1",
    "say: {seat: honest, value: 7}",
    "swap: {seat: agent_2, to: stubborn}",
    "swap: {seat: byzantine, to: honest}",
]


@pytest.mark.promise("A fork's record says what was given, and replays identically without the study or its parent.")
def test_records_of_forks_replay(record: Path) -> None:
    study = study_of_forks([yaml.safe_load(change) for change in CHANGES], repeats=2)
    simulate_shard(study, SCRIPTED, 0)
    parent = read_summary(record)
    record.unlink()
    ids = set()
    for simulation in study.simulations():
        path = simulation.record("forks")
        assert replay(path).difference is None, simulation.condition.name
        ids.add(simulation.id)
        rows = pq.read_table(path, columns=["round", "phase", "agent", "given", "text"]).to_pylist()
        assert {row["round"] for row in rows if row["given"] == "parent"} >= {1}
        assert {row["given"] for row in rows if row["round"] == 1} == {"parent"}
        by_change = [row for row in rows if row["given"] == "change"]
        label = str(simulation.condition.axes["change"])
        assert bool(by_change) == label.startswith(("silence", "say"))
        if label.startswith("say"):
            assert len(by_change) == 3
            assert all('"value": 7' in row["text"] for row in by_change)
        assert read_summary(path).telemetry["failed_replies"] == 0  # a silenced agent was not asked
        described = read_summary(path).simulation["fork"]
        assert described["parent"]["digest"] == parent.digest
    assert len(ids) == 2 * (len(CHANGES) + 1)  # `keep` beside what changes messages


def test_a_change_is_called_by_what_is_said() -> None:
    said = Change.model_validate({"say": {"seat": "byzantine", "action": "Hunt Stag"}})
    assert label(said, None) == "say-byzantine-Hunt_Stag"


@pytest.mark.parametrize(
    ("game", "player", "prompt", "phase", "parameters"),
    [
        ("consensus", "majority", "may_exist", "turn", {"protocol": "swarms", "max_rounds": 2}),
        ("deliberation", "solver", "improve", "reflect", {"order": "in_turn", "stop_when_unanimous": False}),
    ],
)
def test_those_who_heard_a_message_before_their_turn_are_asked_without_it(
    game: str, player: str, prompt: str, phase: str, parameters: dict[str, Any], study_factory: StudyFactory
) -> None:
    grid = {"model": player, "n": 3, "b": 0, "prompt": prompt}
    study = study_factory(grid, game=game, parameters=parameters, seeds=1)
    simulate_shard(study, SCRIPTED, 0)
    record = next(study.records(by_shard=True))
    forks = forks_of(record, "keep: true", "silence_once: agent_2", at=f"1:{phase}")
    given = [
        [x.entry.given for x in played.exchanges if x.entry.round == 1] for _, played in play_forks(forks, [], 1.0)
    ]
    assert given == [["parent"] * 3, ["parent", "change", None]]


def test_the_id_of_a_fork_follows_from_parent_point_change_and_repeat(record: Path) -> None:
    def ids(*changes: str, **more: Any) -> list[str]:
        return [simulation.id for simulation in forks_of(record, *changes, **more).simulations()]

    assert ids("none") == ids("none")
    others = [ids("none", repeats=2), ids("silence: byzantine"), ids("none", at="3"), ids("none", at="2:vote")]
    assert others[0][0] == ids("none")[0]
    assert len({each for found in others for each in found}) == 5
    forge(record, None, lambda meta: meta.update(digest="0" * 64))
    [other] = study_of_forks(of=str(record)).simulations()
    assert other.id not in others[0]
    with pytest.raises(RecordError, match="cannot be replayed"):
        forks_of(record, "none")


REFUSED: list[tuple[str, str, str]] = [
    ("9", "none", "rounds 1 to 4"),
    ("2:vtoe", "none", "did you mean 'vote'"),
    ("1", "silnce: byzantine", "did you mean 'silence'"),
    ("1", "silence: agent_9", "unknown agent or role"),
    ("1", "say: {seat: agent_1, value: many}", "cannot say this in round 1, propose"),
    ("1", "{silence: agent_1, silence_once: agent_1}", "is one change"),
    ("1", "{", "must be a mapping"),
]


@pytest.mark.parametrize(("at", "change", "said"), REFUSED)
def test_a_change_that_cannot_be_is_refused_in_one_line(
    record: Path, parley: Parley, at: str, change: str, said: str
) -> None:
    assert said in one_line_error(parley("fork", record, "--at", at, "--change", change), 2)


def test_replies_that_a_fork_keeps_of_its_phase_are_not_to_be_asked_for(record: Path) -> None:
    anew, kept = (next(forks_of(record, change, at="2:vote").simulations()) for change in ("none", "keep: true"))
    assert anew.parent
    assert kept.parent
    assert anew.parent.left - kept.parent.left == 4  # votes


def test_by_hand_both_ends_are_shown(record: Path, parley: Parley) -> None:
    silenced = parley("fork", record, "--at", 2, "--change", "silence: byzantine").out
    assert "silenced" in silenced
    assert "invalid_json" not in silenced
    assert " of 5 forks end as the recorded game did" in silenced


def test_a_game_that_others_played_has_no_forks(folder: Path) -> None:
    write_cheap_talk(folder / "raw", 1, cheap_talk(["sss", "ssh", "hhh"]))
    import_games("byzantine-cheap-talk", folder / "raw", "theirs")
    [record] = Path("results/theirs").rglob("seed=*.parquet")
    with pytest.raises(UsageError, match="was played elsewhere"):
        forks_of(record, "none")
    with pytest.raises(RecordError, match="without its prompts"):
        check_parents(forks_of(record, "swap: {seat: all, to: grim_trigger}", at="3"))


@pytest.mark.promise("A fork of a service's game goes on from its journal; it asks, and verifies, only what follows.")
def test_a_fork_of_a_service_goes_on_from_its_journal(study_factory: StudyFactory, server: StandInService) -> None:
    models = {"tiny": {"source": {"url": server.url, "served": "owner/Tiny-1B"}}}
    parameters = {"max_rounds": 4, "stop_threshold": 1}
    simulate_shard(study_factory({"model": "tiny", "n": 3}, models=models, parameters=parameters), "services", 0)
    study = study_of_forks()
    [simulation] = study.simulations()
    record = simulation.record("forks")
    before = len(server.bodies)
    simulate_shard(study, "services", 0)
    _, entries = read_record(record)
    new = [entry for entry in entries if entry.given is None]
    assert len(server.bodies) - before == len(new) < len(entries)
    record.unlink()
    with Journal(paths.journal(record), simulation.id) as journal:
        for entry in entries[:-4]:
            journal.append(entry)
    before = len(server.bodies)
    simulate_shard(study, "services", 0)
    assert len(server.bodies) - before == 4
    assert replay(record).difference is None
