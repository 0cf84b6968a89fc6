"""The wheel: what is in it plays a study in an empty folder, far from any clone."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from support import REPOSITORY

pytestmark = [
    pytest.mark.promise("The installed wheel writes, plays and reports a study in an empty folder."),
    pytest.mark.rare,
]

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run `parley` of the wheel in an empty folder, with the packages of this environment, but for its Parley."""
    made = tmp_path_factory.mktemp("wheel")
    source, empty = made / "source", made / "empty"
    empty.mkdir()
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listing, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.splitlines()
    for file in (REPOSITORY / name for name in files if not name.startswith(("tests/", "docs/", "findings/"))):
        if file.is_file():
            (copy := source / file.relative_to(REPOSITORY)).parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    uv = Path(sys.executable).with_name("uv")
    # By way of the source distribution, which so has what the wheel needs.
    build = [uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", made]
    subprocess.run(build, cwd=source, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made / "venv"], check=True)
    wheel = next(made.glob("parley_agreement-*.whl"))
    python = made / "venv" / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel], check=True)
    # On this path no .pth file counts, so the clone's Parley is not found there.
    variables = {"PATH": f"{python.parent}{os.pathsep}{os.defpath}", "PYTHONPATH": sysconfig.get_path("purelib")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}

    def run(*words: str) -> str:
        ran = subprocess.run(["parley", *words], cwd=empty, env=kept | variables, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert str(REPOSITORY) not in ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    assert (
        str(made)
        in subprocess.run(
            [python, "-c", "import parley; print(parley.__file__)"], env=variables, capture_output=True, text=True
        ).stdout
    )
    return run


def test_a_study_of_ones_own_is_written_played_and_reported(run: Run) -> None:
    run("new", "mine", "--model", "majority", "--seeds", "2")
    assert "simulations" in run("run", "mine")
    assert "report.html" in run("report", "mine")
    assert "seed" in run("play", "findings/findings-hunt-control")  # a shipped study, by its name
