"""The real dvc.yaml: DVC, git and Snakemake on small scripted studies, with a remote on the same disk."""

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from parley import paths
from support import REPOSITORY
from support.preloaded import programs
from support.workflows import OWN_CODE, jobs

pytestmark = [
    pytest.mark.promise(
        "A pulled clone has nothing to do; a changed parameter plays what it touches; tables and figures are "
        "the same bytes."
    ),
    pytest.mark.rare,
]

PROJECT = ("Snakefile", "config", "dvc.yaml", "envs", "profiles", "src", "workflow", ".dvcignore", ".gitignore")
MAJORITY = {"model": "majority", "n": 3, "prompt": "may_exist"}
DEMO = {
    "game": "consensus",
    "seeds": 2,
    "parameters": {"max_rounds": 2},
    "grids": [MAJORITY, {**MAJORITY, "b": 1, "byzantine": "random"}],
}
OTHER = {"game": "consensus", "seeds": 1, "parameters": {"max_rounds": 2}, "grids": [MAJORITY]}
MADE = [Path("results") / name for name in ("demo/tables", "demo/figures", "demo/report", "demo/metrics")]


def call(*command: str, fails: bool = False) -> str:
    """Run a command in the working directory and return what it printed; its exit status has to be as expected."""
    if command[0] == "dvc":
        command = (sys.executable, "-m", *command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert bool(done.returncode) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def call_json(*command: str) -> Any:
    """Return the JSON on standard output: messages about studies that were never run go to standard error."""
    command = (sys.executable, "-m", *command, "--json")
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout)


def write_study(name: str, content: object) -> None:
    paths.study_file(name).write_text(yaml.safe_dump(content))


def contents(*folders: Path) -> dict[Path, bytes]:
    """Return all files but the states of processes, which tell of one run."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.parent.name != "processes"}


def inodes() -> dict[Path, int]:
    return {path: path.stat().st_ino for path in paths.simulations("demo").rglob("*.parquet")}


def skipped(stage: str, output: str) -> bool:
    return f"Stage '{stage}' didn't change, skipping" in output


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An author's repository whose two studies were played, committed and pushed; and a reader's clone, pulled."""
    root = tmp_path_factory.mktemp("dvc")
    author, reader = root / "author", root / "reader"
    author.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        environment(patch, root, author)
        for name in PROJECT:
            source, copy = REPOSITORY / name, shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, name, ignore=copy) if source.is_dir() else shutil.copy(source, name)
        shutil.copytree(REPOSITORY / ".dvc", ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "config.local"))
        write_study("demo", DEMO)
        write_study("other", OTHER)
        call("git", "init", "--quiet")
        stages = Path("dvc.yaml").read_text()
        Path("dvc.yaml").write_text(stages + stages.partition("stages:\n")[2].replace("demo", "other"))
        call("dvc", "remote", "add", "--default", "store", str(root / "store"))
        call("git", "add", "--all")
        call("git", "commit", "--quiet", "--message", "studies")
        played = call("dvc", "repro")
        assert played.count("simulate") > 0
        # Nothing but the lock file is for git: not the results, nor what DVC, Snakemake or Parley leave behind.
        assert call("git", "status", "--porcelain").split() == ["??", "dvc.lock"]
        call("git", "add", "--all")
        call("git", "commit", "--quiet", "--message", "results")
        call("dvc", "push")

        call("git", "clone", "--quiet", str(author), str(reader))
        environment(patch, root, reader)
        call("dvc", "pull")
    return {"root": root, "author": author, "reader": reader}


def environment(patch: pytest.MonkeyPatch, root: Path, folder: Path) -> None:
    """Work in `folder` with its own copy of Parley; nothing of the user's DVC or git matters, or is written."""
    patch.chdir(folder)
    patch.setenv("PYTHONPATH", str(folder / "src"))
    patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    patch.setenv("PATH", os.pathsep.join([str(programs()), os.environ["PATH"]]))
    patch.setenv("DVC_NO_ANALYTICS", "1")
    patch.setenv("PARLEY_PROGRESS", "snakemake")  # which prints its table of jobs
    for name in ("DVC_GLOBAL_CONFIG_DIR", "DVC_SYSTEM_CONFIG_DIR", "DVC_SITE_CACHE_DIR"):
        patch.setenv(name, str(root / name))
    patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for who in ("AUTHOR", "COMMITTER"):
        patch.setenv(f"GIT_{who}_NAME", "someone")
        patch.setenv(f"GIT_{who}_EMAIL", "someone@example.org")


@pytest.fixture
def reader(published: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pulled clone, as the working directory."""
    folder = tmp_path / "reader"
    shutil.copytree(published["reader"], folder, symlinks=True)
    environment(monkeypatch, published["root"], folder)
    return folder


def test_a_pulled_clone_holds_what_was_pushed_and_has_nothing_to_do(
    published: dict[str, Path], reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled = contents(Path("results"))
    monkeypatch.chdir(published["author"])
    assert pulled == contents(Path("results"))
    assert sum(path.suffix == ".parquet" and "simulations" in path.parts for path in pulled) == 5
    monkeypatch.chdir(reader)

    output = call("dvc", "repro")
    assert skipped("demo", output)
    assert skipped("other", output)
    assert "Running stage" not in output
    for study in ("demo", "other"):
        assert "Nothing to be done" in call("snakemake", "--dry-run", "--config", f"study={study}")
    assert call("git", "status", "--porcelain") == ""


def test_tables_figures_and_report_come_out_of_the_simulations_byte_for_byte(
    reader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))  # real ones
    before, lock, records = contents(*MADE), Path("dvc.lock").read_bytes(), inodes()
    kinds = {path.suffix for path in before}
    assert kinds == {".parquet", ".csv", ".png", ".svg", ".pdf", ".html", ".json", ""}  # "": lists of written files
    for path in before:
        path.write_text("spoiled")  # what is there is made anew as well: the code may have changed since
    paths.report("demo").unlink()
    output = call("dvc", "repro")
    assert not {"simulate", "simulate_shard"} & set(jobs(output))
    assert [jobs(output)[stage] for stage in ("summarize", "figures", "report", "view")] == [1] * 4
    assert contents(*MADE) == before
    assert inodes() == records
    assert Path("dvc.lock").read_bytes() == lock


def test_a_changed_parameter_plays_what_it_touches_and_the_old_value_plays_nothing(reader: Path) -> None:
    before, first = contents(*MADE), inodes()
    changed = json.loads(json.dumps(DEMO))
    changed["grids"][1]["byzantine"] = "stubborn"
    write_study("demo", changed)
    output = call("dvc", "repro")
    assert jobs(output)["simulate_shard"] == 1
    assert skipped("other", output)
    second = inodes()
    assert {path for path in second if "b=1" not in path.parts} == {path for path in first if "b=1" not in path.parts}
    assert len(second) == len(first) + 2
    assert {path: second[path] for path in first} == first
    assert contents(*MADE) != before
    assert "grids" in call("dvc", "params", "diff")

    # Back again, and a comment besides: DVC starts Snakemake, for any change of the file, and that plays nothing.
    paths.study_file("demo").write_text("# Said in words.\n" + yaml.safe_dump(DEMO))
    output = call("dvc", "repro")
    assert jobs(output) == {"summarize": 1, "figures": 1, "report": 1, "view": 1, "all": 1, "total": 5}
    assert inodes() == second
    assert contents(*MADE) == before

    # With git's files, DVC puts the simulations back as they were published, too.
    call("git", "checkout", "dvc.lock", "config/demo.yaml")
    call("dvc", "checkout")
    assert set(inodes()) == set(first)
    assert call("git", "status", "--porcelain") == ""


def test_a_failed_study_goes_on_where_it_was_and_dvc_takes_nothing_away(reader: Path) -> None:
    old = inodes()
    changed = json.loads(json.dumps(DEMO))
    changed["seeds"] = 4
    Path("config/keeps_agent.py").write_text(OWN_CODE)  # with a journal for each simulation
    changed["grids"].append({**MAJORITY, "model": "keeps_agent:Keeps"})
    write_study("demo", changed)
    planned = call(sys.executable, "-m", "parley.cli", "expand", "demo", "--paths").split()
    new = [Path(path) for path in planned if Path(path) not in old]
    assert len(new) == 8
    new.sort(key=lambda path: "keeps_agent" not in str(path))
    blocked = paths.journal(new[0])
    blocked.mkdir(parents=True)  # a journal that cannot be opened
    other = paths.journal(new[1]).with_name("seed=99.jsonl")
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text("a reply\n")

    output = call("dvc", "repro", fails=True)
    assert "failed to reproduce 'demo'" in output
    assert f"    parley: {blocked}: " in output  # the cause, not only the name of a log
    assert [path.exists() for path in new] == [False] + [True] * 7
    kept, finished = inodes(), contents(paths.simulations("demo"))
    assert {path: kept[path] for path in old} == old

    # DVC refuses to remove what nobody committed.
    for command in (("dvc", "checkout"), ("dvc", "pull")):
        assert "Can't remove the following unsaved files" in call(*command, fails=True)
    assert inodes() == kept
    assert other.read_text() == "a reply\n"

    blocked.rmdir()
    output = call("dvc", "repro")
    assert jobs(output)["simulate_shard"] == 1
    assert {path: path.read_bytes() for path in finished} == finished
    assert len(list(paths.simulations("demo").rglob("*.parquet"))) == 12
    assert other.read_text() == "a reply\n"


# Remotes


@pytest.fixture
def folder_remote(tmp_path: Path) -> dict[str, str]:
    return {"url": str(tmp_path / "store")}


@pytest.fixture
def s3_remote(beside_remotes: Path) -> Iterator[dict[str, str]]:
    """A bucket of a server that speaks S3's protocol."""
    with serving(str(beside_remotes), "-m", "moto.server", "--host", "127.0.0.1", "--port", "{port}") as port:
        url = f"http://127.0.0.1:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{url}/studies", method="PUT")).close()
        yield {
            "url": "s3://studies/parley",
            "endpointurl": url,
            "region": "us-east-1",
            "access_key_id": "someone",
            "secret_access_key": "secret",
        }


@pytest.fixture
def ssh_remote(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A folder behind OpenSSH's server."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None:
        pytest.skip("needs sshd (openssh-server)")
    for name in ("host", "user"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    settings = {
        "ListenAddress": "127.0.0.1",
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "Subsystem": "sftp internal-sftp",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    with serving(server, "-D", "-e", "-f", os.devnull, "-p", "{port}", *options) as port:
        yield {
            "url": f"ssh://127.0.0.1:{port}{tmp_path}/store",
            "user": getpass.getuser(),
            "keyfile": str(tmp_path / "user"),
        }


@contextmanager
def serving(*command: str) -> Iterator[int]:
    """Run a server on a free port of this machine, which stands for {port} in its command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    process = subprocess.Popen([part.format(port=port) for part in command], stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(300):
            assert process.poll() is None, process.communicate()[1]
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.communicate()


# moto answered DVC too late on a busy machine, twice.
_S3 = pytest.mark.skipif("PARLEY_TEST_S3" not in os.environ, reason="set PARLEY_TEST_S3 on a quiet machine")


@pytest.mark.promise("A push, a fresh clone and its pull, and a run of more seeds, with a folder and SSH.")
@pytest.mark.parametrize("kind", ["folder", pytest.param("s3", marks=_S3), "ssh"])
def test_a_clone_pulls_from_a_remote_and_plays_new_seeds_alone(
    published: dict[str, Path],
    beside_remotes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    kind: str,
) -> None:
    dvc = partial(call, str(beside_remotes), "-m", "dvc")
    options = request.getfixturevalue(f"{kind}_remote")
    author, clone = tmp_path / "author", tmp_path / "clone"
    shutil.copytree(published["author"], author, symlinks=True)
    environment(monkeypatch, tmp_path, author)
    dvc("remote", "add", "--force", "store", options.pop("url"))
    call("git", "commit", "--quiet", "--all", "--message", "remote")
    for name, value in options.items():
        dvc("remote", "modify", "--local", "store", name, value)
    dvc("push")

    call("git", "clone", "--quiet", str(author), str(clone))
    if options:
        shutil.copy(author / ".dvc" / "config.local", clone / ".dvc")
    environment(monkeypatch, tmp_path, clone)
    dvc("pull")
    assert "up to date" in dvc("status")
    assert "Nothing to be done" in call("snakemake", "--dry-run", "--config", "study=demo")
    old = inodes()
    write_study("demo", {**DEMO, "seeds": 3})
    dvc("repro", "demo")
    new = inodes()
    assert {path.name for path in set(new) - set(old)} == {"seed=2.parquet"}
    assert {path: new[path] for path in old} == old
    dvc("push")


def test_metrics_are_a_row_per_condition_and_compare_with_a_commit(reader: Path) -> None:
    shown = call_json("dvc", "metrics", "show")[""]["data"]
    for b in (0, 1):
        values = shown[f"results/demo/metrics/model=majority/n=3/b={b}/prompt=may_exist.json"]["data"]
        assert values["simulations"] == 2
        assert values["failed_reply_rate"] == 0
        limits = values["valid_consensus"]
        assert 0 <= limits["low"] <= limits["rate"] <= limits["high"] <= 1
    text = call("dvc", "metrics", "show")
    assert "valid_consensus.rate" in text.splitlines()[0]
    assert call_json("dvc", "metrics", "diff").get("diff", {}) == {}

    file = paths.metric("demo", "model=majority/n=3/b=0/prompt=may_exist")
    file.write_text(file.read_text().replace('"simulations": 2', '"simulations": 3'))
    row = next(line for line in call("dvc", "metrics", "diff").splitlines() if "simulations" in line)
    assert row.split() == [str(file), "simulations", "2", "3", "1"]
