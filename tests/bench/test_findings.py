"""The findings' page: made from records alone, byte for byte, and of what was asked."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import findings
from benchmarks.findings import Answer, sync
from benchmarks.findings_text import ASKED, Asked
from parley.errors import RecordError
from parley.play.simulate import simulate_shard
from parley.study.condition import SCRIPTED

REPOSITORY = Path(__file__).parents[2]
PLAYERS = {"hunt": "{name: win_stay_lose_shift, aspiration: 4}", "consensus": "random", "delib": "solver"}


def with_scripted_players(folder: Path) -> None:
    """Put the studies of the findings into a folder, two seeds of each, with scripted players for the model."""
    (folder / "config/findings").mkdir(parents=True)
    (folder / "docs/images").mkdir(parents=True)
    shutil.copy(REPOSITORY / "config/models.yaml", folder / "config")
    for file in (REPOSITORY / "config/findings").glob("*.yaml"):
        text = re.sub(r"seeds: \d+", "seeds: 2", file.read_text())
        player = next(player for name, player in PLAYERS.items() if name in file.name)
        text = text.replace("model: qwen2.5-coder-1.5b", f"model: {player}")
        text = re.sub(r"problems:\n( {4}.*\n)+", "problems: arithmetic\n", text)
        (folder / "config/findings" / file.name).write_text(text)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with_scripted_players(tmp_path / "first")
    monkeypatch.chdir(tmp_path / "first")
    return tmp_path


def play(name: str) -> None:
    study = findings._study(name)
    sync(study)
    simulate_shard(study, SCRIPTED, 0)


def made(folder: Path) -> dict[str, bytes]:
    places = (folder / "docs", folder / "findings/tables")
    return {str(f.relative_to(folder)): f.read_bytes() for place in places for f in place.rglob("*") if f.is_file()}


@pytest.mark.slow
def test_the_records_alone_make_the_page_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hunt", "hunt-noise", "deliberation"):
        play(name)
    findings.main()
    page = Path("docs/findings.md").read_text()
    assert "**8 of 8 planned simulations** were played, and 2 of 2 repeats" in page
    assert "**0 of 6 planned simulations** were played, and 0 of 2 repeats that measure the noise. **Unf" in " ".join(
        page.split()
    )
    for asked in (*ASKED["hunt"].values(), *ASKED["deliberation"].values()):
        assert asked.text in " ".join(page.split())

    # In a clone there are the records, and nothing else that was played.
    with_scripted_players(home / "clone")
    shutil.copytree("findings/results", home / "clone/findings/results")
    monkeypatch.chdir(home / "clone")
    findings.main()
    assert made(home / "clone") == made(home / "first")
    study = findings._study("hunt")
    assert all(simulation.record(study.name).exists() for simulation in study.simulations())


@pytest.mark.slow
def test_a_record_that_replays_otherwise_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play("hunt")
    sync(findings._study("hunt"))
    monkeypatch.setattr("parley.games.stag_hunt.parameters.StagHuntParameters.hunters_needed", lambda *_: 1)
    with pytest.raises(RecordError, match="replaying it gives something else"):
        findings.results("hunt")


def test_answers_of_one_condition_and_of_two_by_hand() -> None:
    rows = [(3, 0, True, False), (3, 1, True, True), (3, 2, False, False), (7, 1, False, False), (7, 2, True, False)]
    simulations = pd.DataFrame(rows, columns=["n", "seed", "one", "other"])
    asked = Asked("", "", "", "", paired=((3, "one"), (3, "other")), smallest=0.1)
    row = findings._paired(simulations, asked)
    assert (row["pairs"], row["value_from"], row["value_to"]) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    row = findings._paired(simulations, Asked("", "", "", "", paired=((7, "one"), (3, "other"))))
    assert (row["pairs"], row["value_from"], row["value_to"], row["difference"]) == (2, 0.5, 0.5, 0)


def answer(difference: float, low: float, high: float, p: float, pairs: int = 10) -> Answer:
    nan = float("nan")
    return Answer("betrayal", pairs, 0.5, 0.5 + difference, difference, low, high, p, p, 0.2, nan, nan, nan, nan)


def test_answers_in_words() -> None:
    assert answer(0.3, 0.1, 0.5, 0.01).said == "More"
    assert answer(-0.3, -0.5, -0.1, 0.01).said == "Less"
    assert answer(0.0, -0.1, 0.1, 1.0).said == "No difference that matters"
    assert answer(0.0, -0.3, 0.1, 1.0).said == "Open"
    nan = float("nan")
    assert answer(nan, nan, nan, nan, pairs=0).said == "No pairs yet"
    assert answer(0.3, 0.1, 0.5, 0.01, pairs=9).said == "Too few pairs yet"
    said = findings._sentence("hunt", answer(-0.25, -0.5, 0.1, 0.0004))
    assert "50% without an adversary, 25% with one: -25.0 points [-50.0, +10.0] over 10 pairs, p < 0.001" in said
    assert "Noise" not in said
    assert "Control" not in said
