"""Logs of inspect_ai, read by its own readers."""

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parley import paths
from parley.analysis.summarize import summarize
from parley.imports.byzantine_cheap_talk import FORMAT
from parley.imports.import_games import import_games
from parley.study import Study, load_study
from support.exports import read_beside
from support.records import cheap_talk, write_cheap_talk
from support.studies import make_study

pytestmark = [
    pytest.mark.promise("Logs open in inspect_ai, with every attempt, outcome and metric."),
    pytest.mark.rare,  # needs the second environment (`make exports`)
]
GRIDS = "[{model: majority, n: 4, b: [0, 1], byzantine: random, prompt: may_exist}]"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a scripted study, one of which a record is damaged, and imported games with a failed reply."""
    folder = tmp_path_factory.mktemp("home")
    with chdir(folder):
        broken = make_study(GRIDS, name="broken")
        record = next(iter(broken.simulations())).record("broken")
        record.write_bytes(record.read_bytes()[:-30])
        content = cheap_talk(["ss", "hh"])
        said = content["rounds_data"][0]["full_decisions"]["Agent_1"]
        said |= {"action": None, "reasoning": "no JSON \u202e</script>"}
        write_cheap_talk(Path("raw"), 1, content)
        import_games("byzantine-cheap-talk", Path("raw"), "theirs")
        summarize(load_study(Path("config/theirs.yaml")))
        make_study("[{model: random, n: 3, prompt: may_exist}]", name="again", extra="repeats: 2\n")
        yield folder


@pytest.fixture(scope="module")
def study(home: Path) -> Study:
    return make_study(GRIDS, title="Do they agree?")


@pytest.fixture(scope="module")
def read(study: Study, home: Path, beside: Path) -> Any:
    """What one process finds in the logs of four studies."""
    return read_beside(beside, home, {"inspect_reads": ["tiny", "broken", "theirs", "again"]})["inspect_reads"]


def test_each_repeat_of_a_seed_is_an_epoch_of_its_sample(read: Any) -> None:
    samples = [(sample["id"], sample["epoch"]) for log in read["again"]["logs"] for sample in log["samples"]]
    assert sorted(samples) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_a_log_is_a_condition_and_a_sample_a_simulation(read: Any, study: Study) -> None:
    logs = {log["task"]: log for log in read["tiny"]["logs"]}
    assert set(logs) == {f"tiny/model=majority,n={n},b={b},prompt=may_exist" for n, b in ((4, 0), (4, 1))}
    samples = [sample for log in logs.values() for sample in log["samples"]]
    assert {sample["uuid"] for sample in samples} == {simulation.id for simulation in study.simulations()}
    table = pd.read_parquet(paths.table("tiny", "simulations", ".parquet")).set_index("id")
    for sample in samples:
        row = table.loc[sample["uuid"]]
        scores = sample["scores"]
        assert (sample["id"], scores["outcome"]) == (row["seed"], row["outcome"])
        assert (scores["value_changes"], len(sample["models"])) == (row["value_changes"], row["calls"])
    for log in logs.values():
        assert log["status"] == "success"
        assert sum(log["scores"]["outcome"].values()) == pytest.approx(1)
    assert sum(len(log["samples"]) for log in read["broken"]["logs"]) == 3  # a damaged record is left out
    # Its data frames open the logs.
    calls = sum(len(sample["models"]) for sample in samples)
    frames = read["tiny"]["frames"]
    assert [frames[name]["rows"] for name in ("evals", "samples", "events")] == [2, len(samples), calls]


def test_attempts_are_events_in_the_span_of_their_agent(read: Any, study: Study) -> None:
    sample = read["tiny"]["logs"][0]["samples"][0]
    simulation = next(simulation for simulation in study.simulations() if simulation.id == sample["uuid"])
    rows = pd.read_parquet(simulation.record("tiny"), partitioning=None)
    assert sorted(model["text"] for model in sample["models"]) == sorted(rows["text"])
    assert sample["messages"] == list(rows["text"])
    by_text = {(row.agent, row.user): row for row in rows.itertuples()}
    spans = {span[2]: span for span in sample["spans"]}
    for model in sample["models"]:
        row = by_text[model["agent"], model["input"][-1]]
        assert (model["input"], model["seed"]) == ([row.system, row.user], row.request_seed)
        assert model["seconds"] == pytest.approx(row.seconds)
        kind, name, _, parent = spans[model["span"]]
        assert (kind, name) == ("agent", row.agent)
        assert spans[parent][:2] == ["phase", row.phase]
        assert spans[spans[parent][3]][:2] == ["round", f"round {row.round}"]


def test_imported_games_keep_failed_replies_hostile_text_source_and_license(read: Any) -> None:
    [log] = read["theirs"]["logs"]
    [sample] = log["samples"]
    failed = next(model for model in sample["models"] if model["error"])
    assert failed["text"] == "no JSON \u202e</script>"
    assert failed["error"].startswith("invalid_json")
    told = {"format": "byzantine-cheap-talk", "source": FORMAT.source, "license": FORMAT.license}
    assert log["metadata"]["imported"] == told
    assert told.items() <= sample["metadata"]["imported"].items()


def test_reasoning_and_tokens_are_where_its_readers_look(read: Any) -> None:
    reasoned = read["reasoned"]
    assert (reasoned["reasoning"], reasoned["text"]) == (["Let me think."], "the reply")
    assert (reasoned["error"], reasoned["stop"]) == ("length: cut off", "max_tokens")
    # Of 100 tokens of the question 60 were in the cache: inspect_ai counts those apart.
    usage = {"input_tokens": 40, "input_tokens_cache_read": 60, "output_tokens": 30, "reasoning_tokens": 20}
    assert reasoned["usage"] == usage | {"total_tokens": 130}
