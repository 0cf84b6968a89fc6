"""Results are shared: nothing in them says who made them, where, or what was in the environment."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from parley.analysis.summarize import summarize
from parley.cli import commands
from parley.engine import endpoint, server
from parley.export import export
from parley.figures import make as figures
from parley.files import mark_done
from parley.play.simulate import simulate
from parley.report import page as report
from parley.study import Study, load_study
from support.answering import standing_in
from support.exports import run_beside
from support.pages import with_pictures
from support.studies import everything

pytestmark = pytest.mark.promise("Results and exports name no person, host, folder or secret.")

PERSON, HOST, SECRET = "zaphod", "heart-of-gold", "hf_Wg7t42secret"
MODEL = "tuned"


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """A study in the home of a person with secrets, whose model and arguments lie there too."""
    home = tmp_path / "home" / PERSON
    weights = home / "models" / "llama-tuned"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text("{}")
    monkeypatch.chdir(home)
    for name, value in (
        *(("HOME", str(home)), ("USER", PERSON), ("LOGNAME", PERSON), ("HOSTNAME", HOST)),
        *(("HF_TOKEN", SECRET), ("OPENAI_API_KEY", SECRET), ("VLLM_API_KEY", SECRET)),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(endpoint, "gethostname", lambda: HOST)
    entry = {
        "source": {"folder": str(weights)},
        "server_args": {"download-dir": f"/home/{PERSON}"},
        "engine_args": {
            "chat-template": f"{home}/templates/plain.jinja",
            "enforce-eager": True,
            "ssl-certfile": "~/certificates/mine.pem",
            "compilation-config": json.dumps({"shared": f"/scratch/{PERSON}/kv-cache", "also": f"/home/{PERSON}"}),
        },
        "deterministic": True,
    }
    Path("models.yaml").write_text(yaml.safe_dump({"models": {MODEL: entry}}))
    grid = {"model": MODEL, "n": 3, "prompt": "may_exist"}
    content = {"game": "consensus", "seeds": 2, "parameters": {"max_rounds": 2}, "grids": [grid]}
    file = home / "leaky.yaml"
    file.write_text(yaml.safe_dump(content))
    return load_study(file)


def play(study: Study, folder: Path) -> None:
    """Play by an engine that tells of itself what the real server tells."""
    entry = study.models[MODEL]
    marker = folder / "parley-model.json"
    source = entry.source.model_dump(mode="json")
    marker.write_text(json.dumps({"source": source, "weights_sha256": {"model.safetensors": "0" * 64}, "files": {}}))
    told = server.engine_provenance(MODEL, entry, marker)
    with standing_in(folder, model=MODEL, engine=told) as (path, _):
        for simulation in study.simulations():
            simulate(study, simulation.record(study.name), [path], 5.0)


@pytest.mark.slow
def test_results_name_no_person_host_folder_or_secret(study: Study, tmp_path: Path) -> None:
    play(study, tmp_path)
    summarize(study)
    figures.figures(study)
    report.report(study)
    found = dict(everything(study))
    assert {Path(name.split(" ")[0]).suffix for name in found} == {".parquet", ".csv", ".html", ".svg"}
    for name, content in found.items():
        assert not told(tmp_path, content), name
    shown = next(content for name, content in found.items() if name.endswith("shown"))
    for kept in ("llama-tuned", "plain.jinja", "mine.pem", "kv-cache"):
        assert kept in shown


def told(tmp_path: Path, *texts: str) -> list[str]:
    """Return which words of those that are private stand in texts."""
    words = (PERSON, HOST, SECRET, str(tmp_path), tmp_path.parent.name, "/home/", "/scratch", "~/")
    return [word for word in words for text in texts if word in text]


@pytest.mark.rare
def test_exports_name_no_person_host_folder_or_secret(study: Study, beside: Path, tmp_path: Path) -> None:
    play(study, tmp_path)
    summarize(study)
    mark_done(with_pictures(study).name, "figures", study.plan)
    ran = CliRunner().invoke(commands, ["report", str(study.file)])
    assert ran.exit_code == 0, ran.output
    for path in export(study, "folder").rglob("*"):
        if path.is_file():
            assert not told(tmp_path, path.read_bytes().decode("latin-1")), path
        if path.suffix == ".parquet":
            assert not told(tmp_path, json.dumps(pq.read_table(path, partitioning=None).to_pylist(), default=str))
    read = run_beside(beside, "inspect_reads.py", Path.cwd(), str(study.file))
    assert not told(tmp_path, read[str(study.file)]["text"])
