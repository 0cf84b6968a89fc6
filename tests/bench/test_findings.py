"""The findings' page: made from records alone, byte for byte, and of what was asked."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from findings import besides
from findings import make as findings
from findings.data import study_of, sync, write_games
from parley.errors import RecordError
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED
from support import REPOSITORY

PLAYERS = {
    "hunt": "{name: win_stay_lose_shift, aspiration: 4}",
    **{"consensus": "random", "filters": "random", "delib": "solver", "equal-cost": "solver"},
}


def with_workflow(folder: Path) -> None:
    folder.mkdir()
    shutil.copy(REPOSITORY / "Snakefile", folder)
    shutil.copytree(REPOSITORY / "workflow", folder / "workflow")
    (folder / "docs/images").mkdir(parents=True)


def with_scripted_players(folder: Path) -> None:
    """Put the studies of the findings into a folder, two seeds of each, with scripted players for the model."""
    with_workflow(folder)
    (folder / "config/findings").mkdir(parents=True)
    shutil.copy(REPOSITORY / "config/findings/models.yaml", folder / "config/findings")
    own = (REPOSITORY / "config/findings").glob("findings-*.yaml")
    for file in [*own, *(REPOSITORY / f"config/{name}.yaml" for name in ("filters", "equal-cost"))]:
        text = re.sub(r"seeds: \d+", "seeds: 2", file.read_text())
        player = next(player for name, player in PLAYERS.items() if name in file.name)
        text = text.replace("model: qwen2.5-coder-1.5b", f"model: {player}")
        text = re.sub(r"problems:\n( {4}.*\n)+", "problems: arithmetic\n", text)
        (folder / file.relative_to(REPOSITORY)).write_text(text)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_scripted_players(tmp_path / "first")
    monkeypatch.chdir(tmp_path / "first")
    return tmp_path


def play(name: str) -> None:
    study = study_of(name)
    sync(study)
    simulate_shard(study, SCRIPTED, 0)


@pytest.mark.slow
def test_the_page_tells_what_is_finished_and_a_record_that_replays_otherwise_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hunt", "hunt-noise"):
        play(name)
    monkeypatch.setattr(findings, "STUDIES", {name: findings.STUDIES[name] for name in ("hunt", "consensus")})
    game = next(study_of("hunt").simulations())
    link = f"[a game](../findings/games/hunt-{game.id[:8]}.txt)"
    Path("docs/findings-read.md").write_text(f"## Read\n\nIn {link} somebody hunts.")
    findings.main()
    page = " ".join(Path("docs/findings.md").read_text().split())
    assert "**8 of 8 planned simulations** were played, and 2 of 2 repeats" in page
    assert "**0 of 6 planned simulations** were played, and 0 of 2 repeats that measure the noise. **Unf" in page
    assert "Round 1, signal" in Path(f"findings/games/hunt-{game.id[:8]}.txt").read_text()
    with pytest.raises(ValueError, match="no game hunt-00000000"):
        write_games("(../findings/games/hunt-00000000.txt)", ["hunt"])
    monkeypatch.setattr("parley.games.stag_hunt.parameters.StagHuntParameters.hunters_needed", lambda *_: 1)
    with pytest.raises(RecordError, match="replaying it gives something else"):
        findings.results("hunt")


@pytest.mark.promise(
    "The findings' page, figures and tables follow byte for byte from the records, each of which replays."
)
@pytest.mark.rare
def test_the_published_page_follows_from_the_published_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clone"
    with_workflow(folder)
    shutil.copytree(REPOSITORY / "config", folder / "config")
    shutil.copytree(REPOSITORY / "findings", folder / "findings", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "docs/findings-read.md", folder / "docs")
    monkeypatch.chdir(folder)
    findings.main()
    published = [REPOSITORY / "docs/findings.md", *(REPOSITORY / "docs/images").glob("findings*")]
    published += [file for part in ("games", "tables") for file in (REPOSITORY / "findings" / part).iterdir()]
    for file in published:
        assert (folder / file.relative_to(REPOSITORY)).read_bytes() == file.read_bytes(), file


def test_what_is_quoted_was_said() -> None:
    """In the game that the quotation's paragraph, or its section, links to."""
    games = {file.name: " ".join(file.read_text().split()) for file in (REPOSITORY / "findings/games").glob("*.txt")}
    quoted = 0
    for section in (REPOSITORY / "docs/findings-read.md").read_text().split("## ")[1:]:
        said = " ".join(games[name] for name in re.findall(r"games/([\w-]+\.txt)", section))
        for quotation in re.findall("“(.+?)”", " ".join(section.split())):
            for part in quotation.split(" ... "):
                assert part.strip() in said
                quoted += 1
    assert quoted > 15


# What the page may claim


def of_tables(**tables: pd.DataFrame) -> Any:
    return SimpleNamespace(table=tables.__getitem__)


def test_beside_a_reaction_stands_what_happens_without_a_reason() -> None:
    axes = {"model": "m", "n": 4, "prompt": "plain", "disclosure": "none", "topology": "complete"}
    measured = pd.DataFrame([{**axes, "b": b, "quantity": "detected", "simulations": 9, "mean": 1.0} for b in (0, 1)])
    reactions = pd.DataFrame([{**axes, "b": 1, "what": "detected", "value_without": 0.75}])
    none = measured.iloc[:0]
    tables = {"quantities": measured.assign(low=0.8, high=1.0), "rates": none, "outcomes": none}
    found = besides._means({"detected": "detected"}, study_of("hunt"), of_tables(**tables, reactions=reactions))
    assert [line.count("sham 0.75") for line in found.shown.splitlines()] == [0, 0, 0, 1]
