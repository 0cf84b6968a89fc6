"""Studies of the swarms protocol: what they may say, their axes, and that their records replay."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from parley.errors import UsageError
from parley.games.consensus.game import ConsensusGame, ConsensusParameters
from parley.games.consensus.prompts import PROMPTS
from parley.play.record import read_summary, read_trace
from parley.play.replay import replay
from parley.play.show import study_files, write_study
from parley.play.simulate import simulate
from parley.study import load_study
from support.studies import StudyFactory
from support.turns import ALL

SWARMS: dict[str, Any] = {"protocol": "swarms"}


def test_what_a_study_does_not_say_is_as_published() -> None:
    given = ConsensusParameters(protocol="swarms")
    assert (given.stop_threshold, given.max_rounds, given.history_rounds) == (Fraction(2, 3), 10, 3)
    assert (given.value_min, given.value_max, given.leaks) == (0, 50, ())
    assert given.task == "Agree on a confidence score from 0 to 50 for a deployment decision."
    own = ConsensusParameters(protocol="swarms", max_rounds=8, stop_threshold=Fraction(1, 2), task="Own.")
    assert (own.max_rounds, own.stop_threshold, own.task) == (8, Fraction(1, 2), "Own.")
    paper = ConsensusParameters()
    assert (paper.stop_threshold, paper.max_rounds, paper.history_rounds) == (Fraction(66, 100), 50, 1)
    assert (paper.protocol, paper.task, paper.leaks) == ("paper", None, ())


SAMPLING = {"temperature": 0.1, "max_tokens": 9}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"leaks": ["names"]}, "leaks has no effect with protocol paper"),
        ({"task": "Agree."}, "task has no effect with protocol paper"),
        ({"turn": SAMPLING}, "turn has no effect with protocol paper"),
        ({**SWARMS, "propose": SAMPLING}, "propose has no effect with protocol swarms; turn samples both"),
        ({**SWARMS, "vote": SAMPLING}, "vote has no effect with protocol swarms; turn samples both"),
        ({**SWARMS, "leaks": ["roles"]}, "leaks: .*must be a list of some of: names, missing_value, early_vote"),
        ({**SWARMS, "leaks": 3}, "leaks: 3: must be a list"),
        ({**SWARMS, "leaks": ["names", "names"]}, "leaks: .*repeated"),
        ({**SWARMS, "task": ""}, "task: "),
        ({**SWARMS, "task": None}, "needs a task"),
        ({**SWARMS, "task": "x" * 501}, "task: .*500"),
        ({**SWARMS, "task": "two\nlines"}, "task: .*one line"),
        ({**SWARMS, "history_rounds": 0}, "needs history_rounds >= 1"),
        ({**SWARMS, "rules": "published_code"}, "rules: published_code: that code has no protocol swarms"),
        ({"rules": "published_code", "equivocation": True}, "rules: published_code: that code has no equivocation"),
        ({"rules": "code"}, "rules: 'code'"),
        ({"protocol": "swarm"}, "protocol: 'swarm'"),
    ],
)
def test_mistakes_are_one_line(study_factory: StudyFactory, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        study_factory(parameters=parameters)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("small.yaml: parameters")


def test_leaks_are_an_axis_with_readable_names(study_factory: StudyFactory) -> None:
    values = [[], ["names"], ["missing_value"], ["early_vote"], ["names", "missing_value", "early_vote"]]
    study = study_factory({"vary": {"leaks": values}}, parameters=SWARMS)
    assert [condition.axes["leaks"] for condition in study.conditions] == [
        "none",
        "names",
        "missing_value",
        "early_vote",
        "early_vote+missing_value+names",
    ]
    assert len({condition.identity for condition in study.conditions}) == 5
    again = study_factory({"vary": {"leaks": [["early_vote", "names", "missing_value"]]}}, parameters=SWARMS)
    assert again.conditions[0].identity == study.conditions[4].identity  # whatever the order


def test_tasks_are_an_axis_named_by_their_last_words(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"task": ["Agree on a TIP!", "Agree on a well-known price."]}}, parameters=SWARMS)
    assert [condition.axes["task"] for condition in study.conditions] == ["a-tip", "well-known-price"]
    with pytest.raises(UsageError, match="duplicate condition"):
        study_factory({"vary": {"task": ["Agree on a tip.", "Disagree on a tip."]}}, parameters=SWARMS)


def test_the_protocol_can_be_an_axis(study_factory: StudyFactory) -> None:
    study = study_factory({"vary": {"protocol": ["paper", "swarms"]}})
    assert [c.axes["protocol"] for c in study.conditions] == ["paper", "swarms"]
    assert [c.parameters.model_dump()["max_rounds"] for c in study.conditions] == [50, 10]
    only = study_factory({"vary": {"protocol": ["swarms"]}}, parameters={"leaks": ["names"]})
    assert only.conditions[0].parameters.model_dump()["leaks"] == ["names"]
    with pytest.raises(UsageError, match=r"parameters: .*leaks has no effect"):
        study_factory({"vary": {"protocol": ["paper", "swarms"]}}, parameters={"leaks": ["names"]})
    with pytest.raises(UsageError, match="parameters: max_rounds: 0"):
        study_factory({"vary": {"protocol": ["swarms"]}}, parameters={"max_rounds": 0})


def test_a_changed_template_changes_the_identity_where_it_is_used(
    study_factory: StudyFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identities() -> list[str]:
        study = study_factory({"vary": {"protocol": ["paper", "swarms"]}})
        return [condition.identity for condition in study.conditions]

    before = identities()
    texts = {name: dict(files) for name, files in PROMPTS.variants.items()}
    other = tmp_path / "round_prompt.txt"
    other.write_bytes(texts["may_exist"]["honest_turn_user"].read_bytes() + b"changed\n")
    texts["may_exist"]["honest_turn_user"] = other
    monkeypatch.setattr(PROMPTS, "variants", texts)
    after = identities()
    assert [a == b for a, b in zip(after, before, strict=True)] == [True, False]


@pytest.mark.parametrize("leaks", [[], ALL])
def test_a_recorded_game_replays_and_its_study_can_be_written_again(
    study_factory: StudyFactory, leaks: list[str]
) -> None:
    vary = {"leaks": [leaks], "protocol": ["swarms"], "task": ["Agree on a tip."]}
    study = study_factory({"honest": 3, "b": 1, "byzantine": "random", "vary": vary}, parameters={"max_rounds": 4})
    [simulation] = study.simulations()
    record = simulation.record(study.name)
    simulate(study, record, (), 1.0)
    assert replay(record).difference is None
    summary = read_summary(record)
    assert set(summary.simulation["prompt_digests"]) >= {"honest_turn_system", "byzantine_turn_user"}
    assert len(read_trace(record)) == summary.outcome["rounds"]
    [written, *_] = write_study(study_files(record, summary), Path("again.yaml"))
    [again] = load_study(written).simulations()
    assert again.id == simulation.id
    assert again.condition.path == simulation.condition.path


@pytest.mark.parametrize(("name", "conditions", "simulations"), [("swarms", 7, 70), ("swarms-demo", 14, 68)])
def test_the_studies_that_come_with_parley_are_read(name: str, conditions: int, simulations: int) -> None:
    study = load_study(paths.study_file(name))
    assert (len(study.conditions), len(list(study.simulations()))) == (conditions, simulations)
    assert {type(c.parameters) for c in study.conditions} == {ConsensusGame.Parameters}
