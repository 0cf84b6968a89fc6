"""Games of the user's own: how a study names them, what their identity covers, and what is told where one is none."""

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from parley import paths
from parley.analysis.summarize import summarize
from parley.errors import GameError, RecordError, UsageError
from parley.figures.make import figures
from parley.games.registry import GAMES, game_class
from parley.play.record import read_attempts, read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate_shard
from parley.report.page import report
from parley.study import Study, load_study
from parley.study.recorded import rebuilt
from support import REPOSITORY
from support.commands import Parley, one_line_error
from support.studies import OWN_GAME, Installer, bring, play_all, study_of

EXAMPLES = REPOSITORY / "examples" / "own_game"
SCRIPTED = EXAMPLES / "public_goods.yaml"
OWN = "public_goods:PublicGoods"
SYSTEM = "You are one of 3 players. Each chooses a number from 0 to 100.\nYou are one of 3."
BASE = "from parley.games.base import Game"
GRID = {"model": "cooperate", "n": 3, "prompt": "plain"}


@pytest.fixture(autouse=True)
def beside(folder: Path) -> None:
    """Put the example beside the studies."""
    bring(OWN_GAME)


def write(game: str = OWN, name: str = "goods", **grid: Any) -> Study:
    """Write a study of a game of one's own, and load it."""
    return study_of({**GRID, **grid}, game=game, name=name)


def module(name: str, *body: str, before: str = "") -> str:
    """Write a module with a game that is the example's but for `body`; return what a study calls it."""
    text = indent("\n".join(body) or "pass", "    ")
    source = f"from dataclasses import replace\nfrom .public_goods import *\n{before}\n"
    Path(f"{name}.py").write_text(f"{source}\n\nclass Broken(PublicGoods):\n{text}\n")
    return f"{name}:Broken"


def played(study: Study) -> Path:
    [record] = play_all(study)
    return record


def ids(study: Study) -> list[str]:
    return [simulation.id for simulation in study.simulations()]


def first_asked(study: Study) -> str:
    [simulation] = study.simulations()
    return next(simulation.game().play())[0].system


def refused(*body: str, before: str = "") -> str:
    """Return what is told of a broken game, by loading its study, or else by playing it."""
    with pytest.raises(GameError) as caught:
        played(write(module("mine", *body, before=before)))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


# The example: what it shows, and the numbers that theory says


@pytest.mark.slow
def test_the_example_has_tables_figures_a_report_and_an_explorer() -> None:
    study = load_study(SCRIPTED, Path("models.yaml"))
    simulate_shard(study, "scripted", 0)
    assert len(summarize(study)) == len(study.conditions) == 6
    drawn = {path.stem for path in figures(study) if path.suffix == ".svg"}
    own = {figure.name for figure in study.game.evidence.figures}
    assert drawn == own | {"outcomes_by_byzantine-wide"}
    assert own > {"contributions"}
    page = report(study).read_text()
    assert f"{OWN}, protocol version 1" in page
    assert "earnings of an honest agent per round" in page


@pytest.mark.promise("The public goods game of the examples gives what theory says.")
def test_earnings_are_those_of_theory() -> None:
    for model, honest, b, byzantine, earned, outcome in (
        ("free_ride", 3, 0, "free_ride", 20.0, "free_riding"),  # everyone keeps the endowment
        ("cooperate", 3, 0, "free_ride", 32.0, "cooperation"),  # multiplier x endowment: the most there is
        ("cooperate", 3, 1, "free_ride", 24.0, "cooperation"),  # 1.6 x 60 / 4: the free rider has 20 more
        ("match_others", 3, 1, "free_ride", 21.04, "free_riding"),  # they give 20, 13, 8, 5, 3, 2, 1, 0, 0, 0
        ("free_ride", 1, 2, "cooperate", 20 + 1.6 * 40 / 3, "free_riding"),  # the most that one can earn of two
    ):
        study = write(model=model, n=None, honest=honest, b=b, byzantine=byzantine)
        found = read_summary(played(study)).outcome
        assert (found["name"], found["rounds"]) == (outcome, 10)
        assert found["metrics"]["earned"] == pytest.approx(earned)


def test_the_game_on_the_page_plays_as_it_stands_there(parley: Parley) -> None:
    page = (REPOSITORY / "docs" / "own-games.md").read_text()
    for language, file in (("python", "guess.py"), ("yaml", "guess.yaml")):
        [code] = re.findall(rf"(?ms)^```{language}\n(.*?)^```", page)
        Path(file).write_text(code)
    found = read_summary(played(load_study(Path("guess.yaml")))).outcome
    assert (found["name"], found["metrics"]) == ("low", {"last_mean": 12.0})  # 50, 25, 12
    asked = parley("prompts", "guess.yaml", "--part", "user", "--round", 2)
    assert "Round 2. The means so far: [" in asked.out
    # A study may bring a prompt of its own.
    own = {"from": "plain", "append": {"honest_system": "You are one of {n}."}}
    content = {"game": "guess:Guess", "prompts": {"own": own}, "grids": [{"model": "lower", "n": 3, "prompt": "own"}]}
    Path("own.yaml").write_text(yaml.safe_dump(content))
    path = played(load_study(Path("own.yaml")))
    assert set(read_attempts(path, ["system"])[1].column("system").to_pylist()) == {SYSTEM}
    assert replay(path).identical
    own["append"] = {"honest_system": "It is round {round}."}
    Path("own.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match=r"prompts.own: honest_system, line 2: '{round}': no place of this template"):
        load_study(Path("own.yaml"))


# How it is named, and what its identity covers


def test_an_entry_point_is_a_shorter_name_of_the_same_simulations(install: Installer) -> None:
    install("parley.games", goods=OWN, consensus=OWN)
    short, long = write("goods"), write(OWN)
    assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]
    assert ids(short) == ids(long)
    assert game_class("consensus") is GAMES["consensus"]  # a shipped game comes before an installed one
    with pytest.raises(UsageError, match="unknown game 'good'; did you mean 'goods'"):
        write("good")


@pytest.mark.promise("The source of an own game is part of its identity.")
def test_a_change_of_the_source_is_another_simulation_and_one_of_the_evidence_is_not() -> None:
    before = write()
    assert "Think well." not in first_asked(before)
    with Path("public_goods_evidence.py").open("a") as file:
        file.write("# changed\n")
    assert ids(write()) == ids(before)
    with Path("prompts/system.txt").open("a") as file:
        file.write("Think well.\n")
    told = write()
    assert ids(told) != ids(before)
    assert "Think well." in first_asked(told)
    with Path("public_goods.py").open("a") as file:
        file.write("# said in words\n")
    assert ids(write()) == ids(told)
    with Path("public_goods.py").open("a") as file:
        file.write("CHANGED = True\n")
    assert ids(write()) not in (ids(before), ids(told))
    assert write().conditions[0].spec != before.conditions[0].spec


def test_of_a_package_every_source_and_text_counts() -> None:
    (Path("mine/texts")).mkdir(parents=True)
    files = {"rules.py": True, "texts/one.txt": True, "__init__.py": True, ".hidden.txt": False, "a.pyc": False}
    for name in files:
        (Path("mine") / name).write_text("")
    Path("mine/game.py").write_text("from ..public_goods import PublicGoods as Base\nclass Mine(Base):\n    pass\n")
    before = ids(write("mine.game:Mine"))
    for changed, counts in files.items():
        (Path("mine") / changed).write_text("CHANGED = True\n")
        assert (ids(write("mine.game:Mine")) != before) == counts, changed
        (Path("mine") / changed).write_text("")
    assert {game.code_sha256 for game in GAMES.values()} == {""}  # shipped games have no source in their identity


def test_a_record_of_another_source_says_so_and_runs_nothing(parley: Parley) -> None:
    study = write(module("mine"))
    record = played(study)
    with Path("mine.py").open("a") as file:
        file.write("# changed\n")
    assert replay(record).identical
    assert [rebuilt(record, read_summary(record).simulation).id] == ids(study)
    with Path("mine.py").open("a") as file:
        file.write("CHANGED = True\n")
    error = one_line_error(parley("replay", record), 1)
    assert "the source of mine:Broken changed since it was recorded (SHA-256 " in error
    assert "put the former one into the folder of the study, or into this one" in error
    Path("mine.py").unlink()
    with pytest.raises(RecordError, match="mine:Broken"):
        replay(record)
    assert read_summary(record).outcome["name"] == "cooperation"  # reading needs no source


# What is no game, or breaks the contract: what is written, and what the message must name

NO_GAME: list[tuple[str, str, int]] = [
    ("", "its module has no Game1", 2),
    ("from .public_goods import PublicGoods as Game2", "did you mean 'Game2'?", 2),
    ("1 / 0", "ZeroDivisionError: division by zero (own.py, line 1)", 1),
    ("class Game1: ...", ".own.Game1'> is no game; name a class derived from parley.games.bas", 1),
    (f"{BASE}\nclass Game1(Game): ...", "it lacks play", 1),
    (f"{BASE}\nclass Game1(Game):\n    def play(self): ...", "outcomes: missing", 1),
]


def test_what_is_no_game_is_told_in_one_line(parley: Parley) -> None:
    Path("goods.yaml").write_text(yaml.safe_dump({"game": "own:Game1", "grids": [GRID]}))
    for source, named, status in NO_GAME:
        Path("own.py").write_text(source + "\n")
        error = one_line_error(parley("expand", "goods.yaml"), status)
        assert error.startswith("parley: goods.yaml: game: own:Game1: ")
        assert "frozen" not in error
        assert named in error, source


BEFORE = """
from parley.games.evidence import FigureSpec
class Needy(GameParameters):
    secret: int
def Spec(name, kind, *of):
    made = PublicGoodsEvidence()
    made.figures = (FigureSpec(name, kind, '', '', of=of),)
    return made
"""
OF_ITSELF: list[tuple[str, str]] = [
    ("outcomes = PublicGoods.outcomes * 2", "outcomes: 'cooperation': give each a name of its own"),
    (
        "outcomes = (OutcomeClass('a', 'a', 'rainbow', ''),)",
        "cannot be imported: ValidationError: 2: 'rainbow': write a color",
    ),
    ("Parameters = Needy", "Parameters: give each a default: ValidationError: secret: missing"),
    ("evidence = Spec('x', 'curves', 'votes')", "figures: x: 'votes': none of its measures; choose one of: con"),
]


def test_what_it_says_of_itself_is_checked() -> None:
    for body, named in OF_ITSELF:
        assert refused(body, before=BEFORE).startswith(f"goods.yaml: game: mine:Broken: {named}"), body


# Of a game of two rounds, which is sound but for what it does before the second round's asks.
BROKEN_PLAY = """
@classmethod
def seat_names(cls, parameters, roles, rng):
    return [f'agent_{place + 1}' for place in range(len(roles))]
def _ended(self, **changes):
    return replace(self._outcome(self.trace), **changes)
def _with(self, **metrics):
    return self._ended(metrics={**self._ended().metrics, **metrics})
Parameters = Short
def play(self):
    asks = [self._ask(seat, 1, []) for seat in self.seats]
    replies = yield asks
    trace = self.trace = [{'round': 1, **self._shared(replies)}]
    asks = [self._ask(seat, 2, trace) for seat in self.seats]
    BODY
    yield asks
    return self._outcome(trace)
"""
SHORT = "class Short(PublicGoodsParameters):\n    longest = property(lambda self: self.rounds)"
AFTER = "after round 1, contribute: "
IN_PLAY: list[tuple[str, str]] = [
    ("raise SystemExit(0)", AFTER + "SystemExit: 0 (mine.py, line 22)"),
    ("asks = []", AFTER + "yields []"),
    ("asks.append(asks[0])", "round 2, contribute, agent_1: asks the agent twice"),
    ("asks = [replace(a, phase='a b') for a in asks]", "one phase of letters"),
    ("asks = [replace(a, round=0) for a in asks]", "comes after round 1"),
    ("{}['value']", AFTER + "KeyError: 'value' (mine.py, line 22)"),
    ("return self._ended(name='draw')", "'draw' is none of its outcomes; choose one of: cooperation"),
    ("return self._with(mean=float('nan'))", "{'mean': nan} is no JSON"),
    ("return self._with(**{'=cmd|x': 1})", "metrics: '=cmd|x': must be letters, digits"),
    ("return self._with(seed=99)", "metrics: seed: is a column of Parley's; take another name than b, cached_tokens"),
    (
        "asks = [replace(a, reply_format='text') for a in asks]",
        "asks honest in text, and the study wants honest in json",
    ),
    ("self.evidence.paired_by = ('luck',)", "metrics: luck: simulations are paired by it; add it"),
    ("return self._with(earned=99)", "earned: 99: must be from 0 to most_earned (32.0)"),
]


@pytest.mark.promise("An own game that breaks its contract is one line that says where.")
def test_what_breaks_the_contract_in_mid_play_is_told_in_one_line_and_leaves_no_record() -> None:
    for body, named in IN_PLAY:
        message = refused(BROKEN_PLAY.replace("BODY", body), before=SHORT)
        assert message.startswith("mine:Broken: ")
        assert named in message, body
    assert list(paths.results("goods").rglob("seed=*.parquet")) == []


AT_ITS_ENDS: list[tuple[str, str]] = [
    ("def play(self):\n    return self._outcome([])", "play(): IndexError: list index out of range (public_goods.py"),
    ("def play(self):\n    return 3\n    yield", "before its first question: it asks nothing"),
    ("def set_up(self):\n    1 / 0", "set_up: ZeroDivisionError: division by zero (mine.py, line 8)"),
    # An error names the user's file, not the one that it called.
    ("def set_up(self):\n    from . import broken_helper", "division by zero (broken_helper.py, line 2)"),
]


def test_a_game_that_does_not_begin_or_end_as_it_must_says_so() -> None:
    Path("broken_helper.py").write_text("\n1 / 0\n")
    for body, named in AT_ITS_ENDS:
        assert named in refused(body), body
