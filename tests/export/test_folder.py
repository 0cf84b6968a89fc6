"""`parley export --format folder`: whole, and of use where nothing else of its author's is."""

import os
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from huggingface_hub import DatasetCard

import parley as package
from parley import paths
from parley.cli import commands
from parley.engine.models import ModelEntry
from parley.errors import UsageError
from parley.export import export, folder
from parley.export.data_card import NO_LICENSE
from parley.files import mark_done
from parley.games.registry import GAMES
from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.import_games import import_games
from parley.study import Study, load_study
from parley.study.frozen import write_frozen
from parley.study.own_prompts import write_templates
from support import REPOSITORY
from support.pages import with_pictures
from support.records import cheap_talk, write_cheap_talk
from support.studies import make_study

pytestmark = [
    pytest.mark.promise(
        "A study exported as a folder replays and reports where nothing else of it is, with its code and frozen plan."
    ),
    pytest.mark.slow,  # each export has a process look at its folder
]

GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"
TERMS = ("--license", "CC-BY-4.0")


def called(*arguments: str) -> str:
    """Run a command in this process and return what it prints."""
    ran = CliRunner().invoke(commands, arguments)
    assert ran.exit_code == 0, ran.output
    return str(ran.stdout).strip()


def reported(study: Study) -> Study:
    """Put pictures in the places of figures, and write the report."""
    with_pictures(study)
    mark_done(study.name, "figures", study.plan)
    called("report", str(study.file))
    return study


def exported(study: Study, *options: str) -> Path:
    return Path(called("export", str(reported(study).file), "--format", "folder", *options))


def alone(folder: Path, *arguments: str) -> str:
    """Run `parley` in a process that has this folder for its working directory, and no other on Python's path."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env["PYTHONPATH"] = str(Path(package.__file__).parent.parent)
    command = [sys.executable, "-P", "-m", "parley.cli", *arguments]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_game_of_ones_own_replays_and_reports_in_another_place(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shutil.copytree(REPOSITORY / "examples" / "own_game", "config")
    text = Path("config/public_goods.yaml").read_text().replace("seeds: 5", "seeds: 1")
    asked = "{name: rides, compare: b, values: [0, 1], where: {model: cooperate}, outcome: cooperation, smallest: 0.2}"
    Path("config/mine.yaml").write_text(f"{text}\nquestions:\n  - {asked}\n")
    study = load_study(Path("config/mine.yaml"))
    write_frozen(study)
    called("simulate-shard", "mine", "0")
    called("summarize", "mine")
    place = tmp_path_factory.mktemp("elsewhere") / "data"
    exported(study, "--output", str(place))
    report = (place / "results/mine/report/report.html").read_bytes()
    assert b"the study is as it was frozen" in report
    shutil.rmtree(home)
    home.mkdir()
    alone(place, "report", "mine")
    assert (place / "results/mine/report/report.html").read_bytes() == report
    records = [str(path.relative_to(place)) for path in place.rglob("seed=*.parquet")]
    assert len(records) == 6
    assert alone(place, "replay", *records).count("identical") == 6
    tables = {path.stem for path in (place / "results/mine/tables").glob("*.csv")}
    assert {"simulations", "questions"} <= tables


def test_a_study_that_needs_what_the_folder_lacks_is_refused(home: Path) -> None:
    Path("data.json").write_text("1")
    Path("mine.py").write_text(
        "from pathlib import Path\nfrom parley.games.stag_hunt.game import StagHuntGame as Base\n"
        "TEXT = (Path(__file__).parent / 'data.json').read_text()\nclass Mine(Base): pass\n"
    )
    Path("small.yaml").write_text("game: mine:Mine\ngrids: [{model: tit_for_tat, n: 3, prompt: plain}]\n")
    study = load_study(Path("small.yaml"))
    Path("out").mkdir()
    folder._write_study(study, Path("out"))
    with pytest.raises(UsageError, match=r"cannot be loaded from the folder alone: .*data\.json"):
        folder._check(study, Path("out").absolute())


def test_prompts_that_a_study_brings_travel_with_it_and_paths_of_this_machine_do_not(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_templates(GAMES["consensus"], "may_exist", Path("config/prompts/mine"))
    extra = "prompts: {mine: prompts/mine}\n# notes: /home/zaphod/secret/notes.txt\n"
    study = make_study("[{model: majority, n: 3, prompt: mine}]", extra=extra)
    place = exported(study, *TERMS)
    assert place == Path("results/tiny/exports/folder")
    with chdir(place):
        again = load_study(Path("config/tiny.yaml"))
        assert [s.id for s in again.simulations()] == [s.id for s in study.simulations()]
    text = (place / "config/tiny.yaml").read_text()
    assert ["zaphod" in text, "notes.txt" in text] == [False, True]
    assert "paths of this machine stand in it" in caplog.text


def test_its_readme_is_a_data_card(home: Path) -> None:
    place = exported(make_study(GRIDS, title="Do they agree?"), *TERMS, "--output", "data")
    card = DatasetCard((place / "README.md").read_text())
    assert (card.data.license, card.data.pretty_name) == ("cc-by-4.0", "Do they agree?")
    assert "- License: CC-BY-4.0" in card.text
    patterns = {each["config_name"]: each["data_files"] for each in card.data.configs}
    rows = {name: [pq.read_metadata(path).num_rows for path in place.glob(at)] for name, at in patterns.items()}
    assert all(map(all, rows.values()))
    assert len(rows["replies"]) == rows["simulations"][0] == 4
    files = {path.relative_to(place).parts[0] for path in place.rglob("*") if path.is_file()}
    assert files == {"README.md", "config", "results"}


def test_games_played_elsewhere_keep_their_license_and_without_one_that_is_said(home: Path) -> None:
    write_cheap_talk(Path("raw"), 1, cheap_talk(["ss", "hh"]))
    import_games("byzantine-cheap-talk", Path("raw"), "theirs")
    called("summarize", "theirs")
    text = (exported(load_study(Path("config/theirs.yaml"))) / "README.md").read_text()
    assert DatasetCard(text).data.license == "other"
    assert f"{FORMAT.source} (license: {FORMAT.license})" in text
    own = make_study(GRIDS)
    card = DatasetCard((exported(own) / "README.md").read_text())
    assert (card.data.license, f"License: {NO_LICENSE}" in card.text) == ("other", True)
    url = "https://example.org/terms"
    linked = export(own, "folder", Path("linked"), url) / "README.md"
    assert DatasetCard(linked.read_text()).data.license_link == url


def test_own_code_brings_what_it_imports_from_its_folder_and_no_more(home: Path) -> None:
    files = {
        "mine_rules.py": "import json, numpy, parley\nfrom .mine_pack.part import one\n",
        "mine_pack/__init__.py": "from . import part\n",
        "mine_pack/part.py": "from .. import mine_rules\nfrom ..mine_last import x\n",
        "mine_pack/words.txt": "word",
        "mine_pack/.hidden.txt": "secret",
        "mine_last.py": "",
        "other.py": "",
        "parley/secret.py": "",
        "numpy.txt": "",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    found = {path.relative_to(home).as_posix() for path in folder._imported(home, "mine_rules")}
    assert found == {*list(files)[:4], "mine_last.py"}


SHA = "a" * 64
GGUF = {"sha256": SHA, "from": [{"path": "/home/zaphod/it.gguf"}]}


@pytest.mark.parametrize(
    "entry",
    [
        {"source": {"repo": "owner/model", "revision": "a" * 40}, "dtype": "float16", "license": "MIT"},
        {"source": {"folder": "/home/zaphod/llama"}, "server_args": {"download-dir": "/home/zaphod"}},
        {"source": GGUF, "engine_args": {"chat-template": "/home/zaphod/plain.jinja"}, "quantization": "int8"},
        {
            "source": {"url": "https://zaphod.example/v1", "served": "m", "key_variable": "ZAPHOD_KEY"},
            **{"dialect": "openai", "price": {"prompt": 1, "completion": 2}, "max_model_len": 8192},
        },
    ],
)
def test_a_models_entry_has_the_same_identity_and_names_no_place(entry: dict[str, Any]) -> None:
    before = ModelEntry.model_validate(entry)
    text = yaml.safe_dump(folder.public_entry(before))
    after = ModelEntry.model_validate(yaml.safe_load(text))
    assert (after.identity(), after.grammar_name) == (before.identity(), before.grammar_name)
    assert (after.price, after.license, after.context) == (before.price, before.license, before.context)
    assert "zaphod" not in text.lower()


def test_forks_bring_the_games_that_they_are_of(home: Path) -> None:
    make_study("[{model: majority, n: 3, prompt: may_exist}]", name="whole")
    change = {"fork": {"of": "whole", "at": [2], "change": [{"swap": {"seat": "agent_1", "to": "random"}}]}}
    file = Path("config/forks.yaml")
    file.write_text(yaml.safe_dump({"game": "consensus", **change}))
    study = load_study(file)
    called("simulate-shard", "forks", "0")
    called("summarize", "forks")
    with chdir(exported(study)):
        assert [s.id for s in load_study(file).simulations()] == [s.id for s in study.simulations()]
        assert len(list(paths.simulations("whole").rglob("seed=*.parquet"))) == 2
