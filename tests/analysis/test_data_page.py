"""The three questions of the page on the data: pandas, DuckDB and R give the same answers."""

import io
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from parley.analysis.summarize import summarize
from parley.play.record import write_record
from parley.play.runner import play
from parley.policies import Ask, Completion
from parley.policies.kinds import ScriptedPolicy
from support import REPOSITORY
from support.studies import study_of

pytestmark = pytest.mark.promise(
    "The three questions of `docs/data.md` have the same answers in pandas, DuckDB and R."
)

PAGE = next(REPOSITORY.joinpath("docs").rglob("data.md"))
ANSWERS = ("rates", "changes", "tokens")
GRID = {"model": ["majority", "stubborn"], "n": [4, 5], "b": [0, 1], "byzantine": "random", "prompt": "may_exist"}


class Counting(ScriptedPolicy):
    """A scripted policy whose replies take tokens."""

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        said = await super().answer(ask, seed, attempt)
        return Completion(said.text, said.finish_reason, len(ask.user), len(said.text), 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of a small study called demo."""
    found = tmp_path_factory.mktemp("questions")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        study = study_of(GRID, name="demo", seeds=4, parameters={"max_rounds": 5})
        for simulation in study.simulations():
            game = simulation.game()
            policies = {}
            for name, player in simulation.players.items():
                assert player.policy.kind.rule is not None
                policies[name] = Counting(player.policy.rule)
            write_record(simulation.record("demo"), simulation, play(simulation.id, game, policies), {})
        summarize(study)
    return found


def blocks(language: str) -> str:
    """Return the code of the page in one language."""
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture
def in_pandas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
    monkeypatch.chdir(folder)
    names: dict[str, pd.DataFrame] = {}
    exec(blocks("python"), names)
    return {name: names[name].reset_index(drop=True) for name in ANSWERS}


def same(found: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame]) -> None:
    for name in ANSWERS:
        pd.testing.assert_frame_equal(found[name], expected[name], check_dtype=False)


def test_pandas_and_duckdb_give_the_answers_of_the_tables(in_pandas: dict[str, pd.DataFrame]) -> None:
    conditions = pd.read_parquet("results/demo/tables/conditions.parquet")
    for row in in_pandas["rates"].to_dict("records"):
        here = conditions[(conditions["n"] == row["n"]) & (conditions["b"] == row["b"])]
        assert row["rate"] == pytest.approx(here[f"{row['outcome']}_count"].sum() / here["simulations"].sum())
    assert len(in_pandas["rates"]) > 4
    changes = in_pandas["changes"].set_index("model")
    assert changes["agents"].to_list() == [4 * (4 + 5 + 3 + 4)] * 2
    assert changes.loc["stubborn", "changed"] == 0
    assert 0 < changes.loc["majority", "changed"] < 64
    assert in_pandas["tokens"]["model"].to_list() == ["majority"]  # stubborn agents never agree
    assert in_pandas["tokens"]["tokens"][0] > 1000
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    queries = [query for query in blocks("sql").split(";") if query.strip()]
    same({name: duckdb.sql(query).df() for name, query in zip(ANSWERS, queries, strict=True)}, in_pandas)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed: apt-get install r-base-core")
def test_r_gives_the_same_answers(in_pandas: dict[str, pd.DataFrame]) -> None:
    shown = "\n".join(f'cat("{name}\\n"); write.csv({name}, row.names = FALSE)' for name in ANSWERS)
    Path("questions.R").write_text(f"{blocks('r')}\n{shown}\n", encoding="utf-8")
    command = ["Rscript", "--vanilla", "questions.R"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr
    parts = re.split(rf"^(?:{'|'.join(ANSWERS)})\n", done.stdout, flags=re.MULTILINE)[1:]
    same({name: pd.read_csv(io.StringIO(part)) for name, part in zip(ANSWERS, parts, strict=True)}, in_pandas)
