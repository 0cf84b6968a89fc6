"""`parley new`: what it writes is right as it is, says what there is, and replaces nothing."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from parley.cli import commands
from parley.games.registry import GAMES
from parley.study import load_study
from support import REPOSITORY
from support.commands import Parley, one_line_error

pytestmark = pytest.mark.promise("`parley new` writes studies, games and policies that play as they are.")


@pytest.mark.parametrize("game", GAMES)
def test_a_study_of_each_game_is_right_with_each_of_its_parameters(parley: Parley, folder: Path, game: str) -> None:
    ran = parley("new", "mine.yaml", "--game", game, "--n", "4,6", "--b", "0,1", "--seeds", 3)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == ["wrote: mine.yaml", "play it: parley run mine.yaml"]
    study = load_study(Path("mine.yaml"))
    assert [(c.axes["n"], c.axes["b"], len(c.seeds)) for c in study.conditions] == [
        (4, 0, 3),
        (4, 1, 3),
        (6, 0, 3),
        (6, 1, 3),
    ]
    assert parley("play", "mine.yaml", "--b", 1, "--n", 4).status == 0
    two = parley("play", "mine.yaml", "--b", 1, "--where", "b=0")
    assert "--b says 1; give one of them" in one_line_error(two, 2)
    text = Path("mine.yaml").read_text()
    lines = re.findall(r"^#   (\w+: .*)$", text, flags=re.M)
    assert len(lines) >= len(study.game.Parameters.model_fields)
    for line in lines:
        Path("mine.yaml").write_text(text.replace("# parameters:", "parameters:").replace(f"#   {line}", f"  {line}"))
        assert load_study(Path("mine.yaml")).conditions[0].identity == study.conditions[0].identity, line


def test_a_terminal_asks_for_what_is_not_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    answers = "stag_hunt\nalways_stag, tiny\n3, 4\n\n\n"
    ran = CliRunner().invoke(commands, ["new", "hunt.yaml", "--seeds", "7"], answers, catch_exceptions=False)
    assert ran.exit_code == 0
    assert "grim_trigger" in ran.output
    found = yaml.safe_load(Path("hunt.yaml").read_text())
    assert (found["game"], found["seeds"]) == ("stag_hunt", 7)
    grid = found["grids"][0]
    assert (grid["model"], grid["n"], grid["b"]) == (["always_stag", "tiny"], [3, 4], [0])


def test_a_wrong_name_is_told_and_leaves_no_file(parley: Parley, folder: Path) -> None:
    for option, value, close in (
        ("--game", "consensys", "'consensus'"),
        ("--model", "majorty", "'majority'"),
        ("--prompt", "may_exits", "'may_exist'"),
    ):
        assert f"did you mean {close}?" in one_line_error(parley("new", "mine", option, value), 2)
    for arguments, words in (
        ((), "name one thing to write"),
        (("mine", "--policy", "low"), "name one thing to write"),
        (("--policy", "low", "--n", "4"), "--n: is of a study"),
        (("--policy", "random"), "a Python module of this name"),
        (("--policy", "my-policy"), "use letters, digits"),
    ):
        assert words in one_line_error(parley("new", *arguments), 2)
    assert "a name has no folder" in one_line_error(parley("new", "../x"), 2)
    assert list(folder.rglob("*")) == [folder / "models.yaml"]
    # Where there is no config, the models beside the study are those that it may name.
    assert parley("new", "own", "--model", "tiny").out.splitlines()[0] == "wrote: own.yaml"
    (folder / "config").mkdir()
    assert parley("new", "mine").out.splitlines()[0] == "wrote: config/mine.yaml"


@pytest.mark.parametrize(
    ("kind", "name", "page"), [("policy", "low", "tutorial/own-policy.md"), ("game", "guess", "own-games.md")]
)
def test_code_is_that_of_its_page_and_plays(
    parley: Parley, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, page: str
) -> None:
    blocks = re.findall(r"^```(?:python|yaml)\n(.*?)^```", (REPOSITORY / "docs" / page).read_text(), re.S | re.M)
    (folder / "code").mkdir()
    monkeypatch.delitem(sys.modules, name, raising=False)  # of a test that played the page
    ran = parley("new", f"--{kind}", f"code/{name}")
    assert ran.out.splitlines()[-1] == f"play it: parley play code/{name}.yaml"
    written = [(folder / "code" / f"{name}{suffix}").read_text() for suffix in (".py", ".yaml")]
    assert written == blocks[:2]
    assert "exists already" in one_line_error(parley("new", f"--{kind}", f"code/{name}"), 2)
    played = parley("play", f"code/{name}.yaml")
    assert (played.status, played.err) == (0, "")
    assert "Outcome: " in played.out
