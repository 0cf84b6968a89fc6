"""Games of the user's own: how a study names them, what their identity covers, and what is told where one is none."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from parley import paths
from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.errors import GameError, RecordError, UsageError
from parley.figures.make import figures
from parley.games import plugin
from parley.games.registry import GAMES, game_class
from parley.play.record import read_summary
from parley.play.replay import replay
from parley.play.simulate import simulate, simulate_shard
from parley.report.page import report
from parley.study import Study, load_study
from parley.study.schema import schemas
from support import REPOSITORY
from support.commands import Parley, one_line_error
from support.viewed import data_of

EXAMPLES = REPOSITORY / "examples" / "own_game"
SCRIPTED = EXAMPLES / "public_goods.yaml"
OWN = "public_goods:PublicGoods"
BASE = "from parley.games.base import Game"
GRID = {"model": "cooperate", "n": 3, "prompt": "plain"}

Write = Callable[..., Study]


@pytest.fixture(autouse=True)
def on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the example and the working directory on Python's path; what is imported from them is forgotten after."""
    for place in (EXAMPLES, folder):
        monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(plugin, "_loaded", {})
    before = {*sys.modules}
    yield
    for module in {*sys.modules} - before:
        if any(
            Path(getattr(sys.modules[module], "__file__", None) or "/").is_relative_to(p) for p in (EXAMPLES, folder)
        ):
            del sys.modules[module]


@pytest.fixture
def write(folder: Path) -> Write:
    """Write a study of a game of one's own, and load it."""

    def make(game: str = OWN, name: str = "goods", models: Path | None = None, **content: Any) -> Study:
        grids = [{**GRID, **grid} for grid in content.pop("grids", [{}])]
        grids = [{key: value for key, value in grid.items() if value is not None} for grid in grids]
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"game": game, "grids": grids, **content}))
        return load_study(Path(f"{name}.yaml"), models)

    return make


def module(name: str, *body: str, base: str = "PublicGoods", before: str = "") -> str:
    """Write a module with a game that is the example's but for `body`; return what a study calls it."""
    text = indent("\n".join(body) or "pass", "    ")
    source = f"from dataclasses import replace\nfrom public_goods import *\n{before}\n"
    Path(f"{name}.py").write_text(f"{source}\n\nclass Broken({base}):\n{text}\n")
    return f"{name}:Broken"


def played(study: Study) -> Path:
    [simulation] = study.simulations()
    record = simulation.record(study.name)
    simulate(study, record, [], 1.0)
    return record


def ids(study: Study) -> list[str]:
    return [simulation.id for simulation in study.simulations()]


def first_asked(study: Study) -> str:
    [simulation] = study.simulations()
    return next(simulation.game().play())[0].system


# The explorer


def test_the_explorer_shows_what_the_game_tells_of_itself(write: Write) -> None:
    study = write(grids=[{"model": "cooperate", "n": None, "honest": 2, "b": 1, "byzantine": "free_ride"}])
    played(study)
    [game] = data_of(study)
    [liar] = [agent["name"] for agent in game["agents"] if agent["framed"]]
    assert {place[0]: cell[:2] for place, cell in game["cells"].items() if place[1] == 1} == {
        agent["name"]: ("keeps", "0") if agent["name"] == liar else ("gives", "20") for agent in game["agents"]
    }
    assert (game["results"]["1"], game["results_label"]) == ("40", "pot")


@pytest.mark.parametrize("raised", ["1 / 0", "assert False", "raise SystemError('odd')"])
def test_the_explorer_shows_replies_where_a_game_cannot_tell(write: Write, raised: str) -> None:
    evidence = f"class Odd(PublicGoodsEvidence):\n    def timeline(self, outcome, trace):\n        {raised}\n"
    study = write(module("odd", "evidence = Odd()", before=evidence))
    played(study)
    [game] = data_of(study)
    assert {cell[1] for cell in game["cells"].values()} == {"20"}


# The numbers that theory says


@pytest.mark.parametrize(
    ("model", "honest", "b", "earned", "outcome"),
    [
        ("free_ride", 3, 0, 20.0, "free_riding"),  # everyone keeps the endowment
        ("cooperate", 3, 0, 32.0, "cooperation"),  # multiplier x endowment
        ("cooperate", 3, 1, 24.0, "cooperation"),  # 1.6 x 60 / 4: the free rider has 20 more
        ("match_others", 3, 0, 32.0, "cooperation"),
        ("match_others", 3, 1, 21.04, "free_riding"),  # they give 20, 13, 8, 5, 3, 2, 1, 0, 0, 0
    ],
)
def test_earnings_are_those_of_theory(
    write: Write, model: str, honest: int, b: int, earned: float, outcome: str
) -> None:
    study = write(grids=[{"model": model, "n": None, "honest": honest, "b": b, "byzantine": "free_ride"}])
    found = read_summary(played(study)).outcome
    assert (found["name"], found["rounds"]) == (outcome, 10)
    assert found["metrics"]["earned"] == pytest.approx(earned)


def test_what_honest_agents_can_earn_at_most_is_what_they_do_earn_then(write: Write) -> None:
    """All contribute everything, or the two others alone do: 20 + 1.6 x 40 / 3."""
    for honest, b, model, most in ((3, 0, "cooperate", 32.0), (1, 2, "free_ride", 20 + 1.6 * 40 / 3)):
        study = write(grids=[{"model": model, "n": None, "honest": honest, "b": b, "byzantine": "cooperate"}])
        metrics = read_summary(played(study)).outcome["metrics"]
        assert metrics["earned"] == pytest.approx(metrics["most_earned"]) == pytest.approx(most)


def test_a_silent_agent_contributes_nothing_and_is_counted(write: Write) -> None:
    Path("silent.py").write_text(
        "from parley.policies import Completion\n"
        "class Silent:\n"
        "    async def answer(self, ask, seed, attempt):\n"
        "        return Completion('{}', 'stop')\n"
    )
    study = write(grids=[{"model": "silent:Silent"}], parameters={"retries": 0, "rounds": 2})
    found = read_summary(played(study)).outcome
    assert (found["name"], found["metrics"]["silent"], found["metrics"]["earned"]) == ("free_riding", 6, 20.0)


# How it is named, and what is made of it


def test_the_example_has_tables_figures_and_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    study = load_study(SCRIPTED, Path("models.yaml"))
    simulate_shard(study, "scripted", 0)
    table = summarize(study, strict=True)
    assert len(table) == len(study.conditions) == 6
    drawn = {path.stem for path in figures(study) if path.suffix == ".svg"}
    own = {figure.name for figure in study.game.evidence.figures}
    assert drawn == own | {"effects"} > {"contributions", "timeline"}
    page = report(study).read_text()
    assert f"{OWN}, protocol version 1" in page
    assert "earnings of an honest agent per round" in page


def test_the_example_has_ten_games_of_a_model() -> None:
    study = load_study(EXAMPLES / "public_goods_model.yaml", EXAMPLES.parents[1] / "config" / "models.yaml")
    assert len(ids(study)) == 10
    assert {model for condition in study.conditions for model in condition.models} == {"smollm2-135m"}


def test_the_commands_in_the_studies_of_the_example_are_right() -> None:
    for file in EXAMPLES.glob("*.yaml"):
        command = re.search(r"(?m)^#   PYTHONPATH=examples/own_game (.*)$", file.read_text())
        assert command is not None
        assert f"examples/own_game/{file.name}" in command[1]


def test_the_example_is_at_most_two_hundred_lines() -> None:
    files = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("prompts/*.txt")]
    assert sum(len(file.read_text().splitlines()) for file in files) <= 200


def test_the_game_on_the_page_plays_as_it_stands_there(parley: Parley) -> None:
    page = (REPOSITORY / "docs" / "own-games.md").read_text()
    for language, file in (("python", "guess.py"), ("yaml", "guess.yaml")):
        [code] = re.findall(rf"(?ms)^```{language}\n(.*?)^```", page)
        Path(file).write_text(code)
    found = read_summary(played(load_study(Path("guess.yaml")))).outcome
    assert (found["name"], found["metrics"]) == ("low", {"last_mean": 12.0})  # 50, 25, 12
    asked = parley("prompts", "--game", "guess:Guess", "--part", "user", "--round", 2)
    assert "Round 2. The means so far: [" in asked.out


def test_an_entry_point_is_a_shorter_name_of_the_same_simulations(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = folder / "site" / "theirs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[parley.games]\ngoods = {OWN}\nconsensus = {OWN}\nnone = public_goods\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    short, long = write("goods"), write(OWN)
    assert [s.record("x") for s in short.simulations()] == [s.record("x") for s in long.simulations()]
    assert ids(short) == ids(long)
    assert game_class("consensus") is GAMES["consensus"]  # a shipped game comes before an installed one
    with pytest.raises(
        UsageError, match=r"'none': installed as 'public_goods'; an entry point of parley.games is a mod"
    ):
        write("none")
    with pytest.raises(UsageError, match="unknown game 'good'; did you mean 'goods'"):
        write("good")


def test_prompts_and_policies_of_it_are_printed(parley: Parley) -> None:
    where = ("--models", "models.yaml", "--part", "user", "--round", "2", "--where", "model=free_ride")
    sent = parley("prompts", "--study", SCRIPTED, *where)
    assert sent.status == 0
    assert "; agent_2 put in 0 and earned 20" in sent.out
    listed = parley("policies", "--game", OWN).out
    assert "match_others  (any agents, scripted)" in listed
    assert "module:attribute  (any agents)" in listed  # a game without a threat model says nothing of it
    assert "{multiplier}" in parley("prompts", "--game", OWN, "--template").out
    alone = parley("prompts", "--game", OWN, "--part", "user", "--round", 2)
    assert "Round 1: you put in 20 and earned 32" in alone.out
    refused = parley("prompts", "--game", OWN, "--reply-format", "text")
    assert "print what a study of other agents or parameters sends" in one_line_error(refused, 2)


def test_the_schema_of_studies_takes_it_and_still_finds_a_misspelled_parameter() -> None:
    check = Draft202012Validator(schemas()["study"])
    own = yaml.safe_load((EXAMPLES / "public_goods_model.yaml").read_text())
    assert list(check.iter_errors(own)) == []
    assert len(list(check.iter_errors({**own, "game": "consensus"}))) == 1


# What its identity covers


def test_a_change_of_the_source_is_another_simulation_and_one_of_the_evidence_is_not(write: Write) -> None:
    for name in ("public_goods", "public_goods_evidence"):
        Path(f"{name}.py").write_bytes((EXAMPLES / f"{name}.py").read_bytes())
    (Path("prompts")).mkdir()
    for file in EXAMPLES.glob("prompts/*"):
        (Path("prompts") / file.name).write_bytes(file.read_bytes())
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
        file.write("# changed\n")
    assert ids(write()) not in (ids(before), ids(told))
    assert write().conditions[0].spec != before.conditions[0].spec


@pytest.mark.parametrize(
    ("changed", "counts"),
    [("rules.py", True), ("texts/one.txt", True), ("__init__.py", True), (".hidden.txt", False), ("a.pyc", False)],
)
def test_of_a_package_every_source_and_text_counts(write: Write, changed: str, counts: bool) -> None:
    (Path("mine/texts")).mkdir(parents=True)
    for name in ("__init__.py", "rules.py", "texts/one.txt", ".hidden.txt", "a.pyc"):
        (Path("mine") / name).write_text("")
    Path("mine/game.py").write_text("from public_goods import PublicGoods as Base\nclass Mine(Base):\n    pass\n")
    before = ids(write("mine.game:Mine"))
    (Path("mine") / changed).write_text("# changed\n")
    assert (ids(write("mine.game:Mine")) != before) == counts


def test_a_changed_source_is_what_is_played_in_the_same_process(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are as long and written in the same second, which is all that Python's own cache looks at."""
    for share, outcome in ((1, "cooperation"), (0, "free_riding")):
        rule = f"def it(view, rng, given):\n    'It.'\n    return {{'reasoning': '', 'contribution': {share} * 20}}"
        game = module("mine", "policies = {kind.name: kind for kind in (LLM, scripted_kind(it))}", before=rule)
        os.utime("mine.py", (1e9, 1e9))
        monkeypatch.setattr(sys, "dont_write_bytecode", False)
        study = write(game, name=outcome, grids=[{"model": "it"}])
        assert read_summary(played(study)).outcome["name"] == outcome


def test_shipped_games_have_no_source_in_their_identity() -> None:
    assert {game.code_sha256 for game in GAMES.values()} == {""}


# Replay


def test_a_record_replays_and_tells_its_study(write: Write, parley: Parley) -> None:
    record = played(write())
    assert replay(record).difference is None
    assert parley("show", record, "--study", "again.yaml").status == 0
    assert ids(load_study(Path("again.yaml"), Path("models.yaml"))) == ids(write())


def test_a_record_of_another_source_says_so_and_runs_nothing(write: Write, parley: Parley) -> None:
    record = played(write(module("mine")))
    plugin._loaded.clear()
    del sys.modules["mine"]
    with Path("mine.py").open("a") as file:
        file.write("# changed\n")
    error = one_line_error(parley("replay", record), 1)
    assert "the source of mine:Broken changed since it was recorded (SHA-256 " in error
    assert "put the former one on Python's path" in error
    Path("mine.py").unlink()
    with pytest.raises(RecordError, match="mine:Broken: no module mine on Python's path"):
        replay(record)
    assert "mine" not in sys.modules
    assert read_summary(record).outcome["name"] == "cooperation"  # reading needs no source


# What is no game


@pytest.mark.parametrize(
    ("source", "words", "status"),
    [
        ("", "own:Game1: own has no Game1; there is none", 2),
        ("from public_goods import PublicGoods as Game2", "own has no Game1; did you mean 'Game2'?", 2),
        ("1 / 0", "own:Game1: cannot be imported: ZeroDivisionError: division by zero (own.py, line 1)", 1),
        ("def Game1(): ...", "own:Game1: <function Game1 at", 1),
        (
            "class Game1: ...",
            "own:Game1: <class 'own.Game1'> is no game; name a class derived from parley.games.bas",
            1,
        ),
        ("from parley.games.base import Game as Game1", "is no game; name a class derived from", 1),
        ("x = (", "own:Game1: cannot be imported: SyntaxError: '(' was never closed (own.py, line 1)", 1),
        ("raise SystemExit", "own:Game1: cannot be imported: SystemExit (own.py, line 1)", 1),
        (f"{BASE}\nclass Game1(Game): ...", "own:Game1: is no game: it lacks play; write it", 1),
        (
            "from parley.games.base import Game\nclass Game1(Game):\n    def play(self): ...",
            "outcomes: missing; add it",
            1,
        ),
    ],
)
def test_what_is_no_game_is_told_in_one_line(
    write: Write, parley: Parley, source: str, words: str, status: int
) -> None:
    Path("own.py").write_text(source + "\n")
    Path("goods.yaml").write_text(yaml.safe_dump({"game": "own:Game1", "grids": [GRID]}))
    error = one_line_error(parley("expand", "goods.yaml"), status)
    assert error.startswith("parley: goods.yaml: game: own:Game1: ")
    assert "frozen" not in error
    assert words in error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("protocol_version = 0", "protocol_version: 0: input should be greater than or equal to 1"),
        ("roles = ()", "roles: (): tuple should have at least 2 items"),
        ('outcomes = ("won",)', "outcomes.0: 'won': input should be an instance of OutcomeClass"),
        ("outcomes = PublicGoods.outcomes * 2", "outcomes: 'cooperation': give each a name of its own"),
        (
            "outcomes = (OutcomeClass('a', 'a', 'rainbow', ''),)",
            "outcomes: 'a': color: 'rainbow': write one as matplo",
        ),
        (
            "outcomes = (OutcomeClass('a', 'a', 'red', '~'),)",
            r"outcomes: 'a': hatch: '~': write some of /\|-+xXoO.*, ",
        ),
        (
            "prompts = PublicGoodsPrompts",
            "prompts: <class 'public_goods.PublicGoodsPrompts'>: is a class; write PublicGo",
        ),
        (
            "evidence = PublicGoodsEvidence",
            "evidence: <class 'public_goods_evidence.PublicGoodsEvidence'>: is a class",
        ),
        ("prompts = Prompts(); prompts.variants = PROMPTS", "prompts: phases: (): name the phases that the templates"),
        ("Parameters = dict", "Parameters: <class 'dict'>: input should be a subclass of GameParameters"),
        ("Parameters = Needy", "Parameters: secret: missing; add it; give it a default"),
        ("policies = {}", "policies: lacks llm; add parley.policies.kinds.LLM"),
        ('policies = {**PublicGoods.policies, "x": LLM}', "policies: 'x': its policy is called 'llm'; name it alike"),
        ("prompts = 3", "prompts: 3: input should be a valid dictionary or object to extract fields from"),
        (
            "prompts = Prompts(); prompts.asked_in = {'a': 'b'}",
            "prompts.asked_in.a: 'b': input should be a valid tuple",
        ),
        ("prompts = Prompts(); prompts.variants = {}", "prompts.variants: {}: dictionary should have at least 1 item"),
        (
            "prompts = Prompts(); prompts.variants = {'a': {'user': 'x'}}",
            "prompts: a: 'user': begin its name with the",
        ),
        (
            "prompts = Prompts(); prompts.variants = {'a': {'honest_user': Path('x')}}",
            "prompts: a: honest_user: x: no",
        ),
        ("evidence = Spec('../x', 'rates')", "figures: '../x': give each a name of its own, of letters, digits, "),
        (
            "evidence = Spec('x', 'curves', 'votes')",
            "figures: x: 'votes': none of its measures; choose one of: con",
        ),
        ("evidence = Spec('x', 'scatter')", "figures: x: is drawn from the two metrics in regressed of its evidence"),
        ("evidence = Spec('x', 'sweep')", "figures: x: is drawn from sweep() of its evidence; write it"),
    ],
)
def test_what_it_says_of_itself_is_checked(write: Write, body: str, words: str) -> None:
    before = (
        "from parley.games.evidence import FigureSpec\n"
        "class Needy(GameParameters):\n    secret: int\n"
        "def Spec(name, kind, *of):\n"
        "    made = PublicGoodsEvidence()\n"
        "    made.figures = (FigureSpec(name, kind, '', '', of=of),)\n"
        "    return made\n"
    )
    with pytest.raises(GameError) as caught:
        write(module("mine", body, before=before))
    assert str(caught.value).startswith(f"goods.yaml: game: mine:Broken: {words}")
    assert len(str(caught.value).splitlines()) == 1


REGRESSED = """
class Regressed(PublicGoodsEvidence):
    regressed = ('first', 'earned')
    def derived(self, metrics):
        return {'first': 1.5}
"""


def test_what_its_agents_began_with_and_ended_with_has_a_quality(write: Write) -> None:
    study = write(module("mine", "evidence = Regressed()", before=REGRESSED))
    played(study)
    summarize(study)
    [row] = read_table(study.name, "quality").to_dict("records")
    [simulation] = read_table(study.name, "simulations").to_dict("records")
    assert simulation["first"] == 1.5
    assert (row["simulations"], row["bias"]) == (1, simulation["earned"] - 1.5)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("return {'other': 1.5}", "first: '': what is regressed must be there, and be a number or None"),
        ("return metrics['gone']", "evidence.derived: KeyError: 'gone'"),
    ],
)
def test_what_follows_from_a_record_is_checked_in_play(write: Write, line: str, words: str) -> None:
    study = write(module("mine", "evidence = Regressed()", before=REGRESSED.replace("return {'first': 1.5}", line)))
    with pytest.raises(GameError) as caught:
        played(study)
    assert words in str(caught.value)


# What breaks the contract in mid-play


def broken_play(*body: str) -> str:
    """Return a game of two rounds, which is sound but for `body`: what it does before the second round's asks."""
    return "\n".join(
        [
            "def play(self):",
            "    asks = [self._ask(seat, 1, []) for seat in self.seats]",
            "    replies = yield asks",
            "    trace = self.trace = [{'round': 1, **self._shared(replies)}]",
            "    asks = [self._ask(seat, 2, trace) for seat in self.seats]",
            *(f"    {line}" for line in body),
            "    yield asks",
            "    return self._outcome(trace)",
        ]
    )


AFTER = "after round 1, contribute: "


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("asks = []", AFTER + "yields []; yield a list of the asks of one phase, one at least"),
        ("asks = None", AFTER + "yields None; "),
        ("asks[1] = 'agent_1'", AFTER + "yields 'agent_1' among its asks; yield Asks alone"),
        ("asks.append(asks[0])", "round 2, contribute, agent_1: asks the agent twice in this phase; ask once"),
        (
            "asks = [self._ask(self.seats[0], 1, [])]",
            "round 1, contribute, agent_1: asks the agent twice",
        ),
        (
            "asks[0] = replace(asks[0], agent='bob')",
            "round 2, contribute, bob: asks an unknown agent; choose one of: a",
        ),
        ("asks[0] = replace(asks[0], role='boss')", "agent_1: has the role 'boss', and the agent is honest"),
        (
            "asks[1] = replace(asks[1], phase='vote')",
            "vote, agent_2: is yielded with round 2, contribute; yield the asks",
        ),
        ("asks = [replace(a, phase='a b') for a in asks]", "a round is a number from 0 on, and a phase a name of"),
        ("asks = [replace(a, round='2') for a in asks]", "a round is a number from 0 on, and a phase a name of"),
        ("asks = [replace(a, round=0) for a in asks]", "comes after round 1: rounds count up, and at most Para"),
        ("asks = [replace(a, round=11) for a in asks]", "comes after round 1: rounds count up, and at most Para"),
        ("asks[0] = replace(asks[0], system=None)", "its prompts must be texts"),
        ("asks[0] = replace(asks[0], reply_model=dict)", "reply_model: <class 'dict'>: must be a pydantic model"),
        ("asks[0] = replace(asks[0], sampling=None)", "sampling: None: must be a parley.policies.Sampling"),
        (
            "asks[0] = replace(asks[0], reply_format='text')",
            "asks in 'text', and the study for 'json'; ask in p",
        ),
        ("{}['value']", AFTER + "KeyError: 'value' (mine.py, line 13)"),
        ("raise SystemExit(0)", AFTER + "SystemExit: 0 (mine.py, line 13)"),
        ("return 'won'", "outcome after round 1, contribute: returns 'won'; return an Outcome"),
        (
            "return self._ended(name='draw')",
            "'draw' is none of its outcomes; choose one of: cooperation, ",
        ),
        ("return self._ended(rounds=-1)", "rounds must be a number from 0 on"),
        ("return self._ended(detail=3)", "detail and diagnosis must be texts or None"),
        ("return self._ended(metrics=[])", "metrics: []: must be a dict"),
        ("return self._ended(trace=3)", "trace must be a tuple or a list, with a dict for each round"),
        ("return self._with(seen={1})", "metrics: {'seen': {1}} is no JSON: Object of type set is not JSON"),
        (
            "return self._with(mean=float('nan'))",
            "metrics: {'mean': nan} is no JSON: Out of range float values are not",
        ),
        (
            "return self._ended(trace=({'round': 1, 'measures': {'contribution': 1.5}},))",
            "measure contribution, round 1: 1.5: must be from 0 to 1",
        ),
        ("return self._ended(trace=({'round': 1},))", "evidence.series: KeyError: 'measures'"),
        ("return self._with(earned='all')", "earned: 'all': a quantity must be there, and be a number or None"),
        ("return self._with(earned=99)", "earned: 99: must be from 0 to most_earned (32.0)"),
        ("return self._ended(metrics={})", "a quantity must be there"),
        ("return self._ended(trace=({'a': {1}},))", "trace, entry 0: {'a': {1}} is no JSON"),
    ],
)
def test_what_breaks_the_contract_in_mid_play_is_told_in_one_line(
    write: Write, parley: Parley, body: str, words: str
) -> None:
    more = (
        "@classmethod",
        "def seat_names(cls, parameters, roles, rng):",
        "    return [f'agent_{place + 1}' for place in range(len(roles))]",
        "def _ended(self, **changes):",
        "    return replace(self._outcome(self.trace), **changes)",
        "def _with(self, **metrics):",
        "    return self._ended(metrics={**self._ended().metrics, **metrics})",
        "Parameters = Short",
    )
    before = "class Short(PublicGoodsParameters):\n    longest = property(lambda self: self.rounds)"
    game = module("mine", broken_play(body), *more, before=before)
    study = write(game)
    [simulation] = study.simulations()
    error = one_line_error(parley("simulate", "goods.yaml", simulation.record(study.name)), 1)
    assert error.startswith("parley: mine:Broken: ")
    assert words in error
    assert list(paths.results(study.name).rglob("*.parquet")) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "def play(self):\n    return self._outcome([])",
            "play(): IndexError: list index out of range (public_goods.py, line ",
        ),
        ("def play(self):\n    return 3", "play() is no generator; it must yield the asks of each phase"),
        ("def play(self):\n    return 3\n    yield", "before its first question: ends; yield the asks of a phase"),
        ("def set_up(self):\n    1 / 0", "set_up: ZeroDivisionError: division by zero (mine.py, line 8)"),
        ("def play(self):\n    raise SystemExit", "play(): SystemExit (mine.py, line 8)"),
        (
            "@classmethod\ndef possible_outcomes(cls, *given):\n    return {'free_riding'}",
            "none of its possible_outcomes()",
        ),
    ],
)
def test_a_game_that_does_not_begin_or_end_as_it_must_says_so(write: Write, body: str, words: str) -> None:
    with pytest.raises(GameError) as caught:
        played(write(module("mine", body)))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (mine.py, line 9)"),
        ("import broken_helper", "ZeroDivisionError: division by zero (broken_helper.py, line 2)"),
        ("Path('none').read_text()", "No such file or directory: 'none' (mine.py, line 9)"),
        (
            "Sampling(temperature=3, max_tokens=0)",
            "set_up: ValidationError: temperature: 3: input should be less than or equal to 2 (mine.py, line 9)",
        ),
    ],
)
def test_an_error_names_the_users_file_not_the_one_that_it_called(write: Write, line: str, words: str) -> None:
    Path("broken_helper.py").write_text("\n1 / 0\n")
    with pytest.raises(GameError) as caught:
        played(write(module("mine", "def set_up(self):", "    super().set_up()", f"    {line}")))
    assert str(caught.value).endswith(words)


def test_an_error_names_the_file_of_a_game_that_is_installed(
    write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = folder / "site-packages" / "installed"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    module("site-packages/installed/game", "def set_up(self):", "    rules.broken()", before="from . import rules")
    (package / "rules.py").write_text("def broken():\n    1 / 0\n")
    monkeypatch.syspath_prepend(str(package.parent))
    with pytest.raises(GameError, match=r"\(rules.py, line 2\)"):
        played(write("installed.game:Broken"))


def test_a_rule_that_raises_is_named(write: Write) -> None:
    before = "def clever(view, rng, given):\n    'Is too clever.'\n    return view['history'][0]"
    game = module("mine", 'policies = {**PublicGoods.policies, "clever": scripted_kind(clever)}', before=before)
    with pytest.raises(GameError, match=r"mine:Broken: policy clever: IndexError: .* \(mine.py, line 5\)"):
        played(write(game, grids=[{"model": "clever"}]))


@pytest.mark.parametrize(
    ("broken", "words"), [("1 / 0", "ZeroDivisionError"), ("raise SystemExit(0)", "SystemExit: 0")]
)
def test_one_broken_simulation_of_a_shard_leaves_the_others(write: Write, broken: str, words: str) -> None:
    body = ("    super().set_up()", "    if self.rng.random() < 0.5:", f"        {broken}")
    game = module("mine", "def set_up(self):", *body)
    study = write(game, seeds=8)
    with pytest.raises(GameError, match=f"of 8 simulations failed: mine:Broken: set_up: {words}"):
        simulate_shard(study, "scripted", 0)
    assert 0 < len(list(paths.results(study.name).rglob("*.parquet"))) < 8


def test_its_author_gets_the_traceback_with_parley_debug(
    write: Write, parley: Parley, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(module("mine", broken_play("1 / 0")))
    monkeypatch.setenv("PARLEY_DEBUG", "1")
    with pytest.raises(GameError) as caught:
        parley("play", "goods.yaml")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_journal_keeps_what_was_said_before_it_broke(write: Write) -> None:
    Path("generous.py").write_text(
        "from parley.policies import Completion\n"
        "class Generous:\n"
        "    async def answer(self, ask, seed, attempt):\n"
        '        return Completion(\'{"reasoning": "", "contribution": 7}\', \'stop\')\n'
    )
    study = write(module("mine", broken_play("1 / 0")), grids=[{"model": "generous:Generous"}])
    [simulation] = study.simulations()
    record = simulation.record(study.name)
    with pytest.raises(GameError):
        simulate(study, record, [], 1.0)
    assert paths.journal(record).read_text().count('contribution\\": 7') == 3
    assert not record.exists()


def test_evidence_that_raises_is_named(write: Write, parley: Parley) -> None:
    before = (
        "class Worse(PublicGoodsEvidence):\n    def timeline(self, outcome, trace):\n        return trace[0]['votes']"
    )
    played(write(module("mine", "evidence = Worse()", before=before)))
    assert parley("summarize", "goods.yaml").status == 0
    error = one_line_error(parley("figures", "goods.yaml"), 1)
    assert "mine:Broken: evidence.timeline: KeyError: 'votes' (mine.py, line 5)" in error


def test_a_state_of_a_timeline_that_cannot_be_drawn_is_told_in_one_line(write: Write, parley: Parley) -> None:
    before = (
        "class Worse(PublicGoodsEvidence):\n"
        "    def timeline(self, outcome, trace):\n"
        "        made = super().timeline(outcome, trace)\n"
        "        return replace(made, states=[replace(state, color='rainbow') for state in made.states])"
    )
    played(write(module("mine", "evidence = Worse()", before=before)))
    assert parley("summarize", "goods.yaml").status == 0
    error = one_line_error(parley("figures", "goods.yaml"), 1)
    assert "mine:Broken: evidence.timeline: 'gives': color: 'rainbow': write one as matplotlib does" in error
