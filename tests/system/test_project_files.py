"""What others need to use, cite and find the project agrees with what the project is."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.cli import get_argument_parser

from parley.study import load_study

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
PACKAGE = ROOT / "src" / "parley"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOTICE = (ROOT / "NOTICE").read_text()
CATALOG = ROOT / ".snakemake-workflow-catalog.yml"
# The text of https://www.apache.org/licenses/LICENSE-2.0.txt, as Debian has it.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
COMMON_FOLDERS = {"games", "prompts", "templates"}  # left out in the paths that NOTICE names
# Prompts that Parley's developers wrote. Any other prompt is quoted or adapted, and NOTICE must name its source.
OWN_PROMPTS = (
    "consensus/network/*",
    "consensus/strategies/*",
    "consensus/swarms/vote_on_last_round.txt",
    "deliberation/*",
    "replies/*",
    "reply_templates/*",
)


def prompts() -> list[str]:
    found = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.txt"))]
    return ["/".join(part for part in path.parts if part not in COMMON_FOLDERS) for path in found]


def matches(path: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def test_license_is_the_standard_text_and_named_everywhere() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert PROJECT["project"]["license-files"] == ["LICENSE", "NOTICE"]
    assert all((ROOT / name).is_file() for name in PROJECT["project"]["license-files"])


def test_notice_names_the_source_of_every_quoted_prompt_and_nothing_that_is_not_there() -> None:
    named = [pattern for line in re.findall(r"^Files: (.+)$", NOTICE, re.MULTILINE) for pattern in line.split()]
    quoted = [path for path in prompts() if not matches(path, OWN_PROMPTS)]
    assert len(quoted) >= 14
    assert [path for path in quoted if not matches(path, named)] == []
    assert [pattern for pattern in named if not any(fnmatchcase(path, pattern) for path in quoted)] == []


def test_notice_says_the_license_of_every_quoted_text() -> None:
    quoted = NOTICE.split("Quoted and adapted texts")[1].split("Models and data")[0]
    sources = [text for text in quoted.split("\n\n") if "Files: " in text]
    assert len(sources) == 3
    assert [text for text in sources if not re.search(r"^License: \S", text, re.MULTILINE)] == []


def test_notice_and_models_file_agree_on_the_licenses_of_models() -> None:
    for model in yaml.safe_load((ROOT / "config" / "models.yaml").read_text())["models"].values():
        if license := model.get("license"):
            assert license.split(" (")[0] in NOTICE
    for name in ("SmolLM2-135M", "Qwen2.5-Coder-1.5B", "Qwen2.5-Coder-0.5B", "Gemma 3 270M", "GSM8K", "DeliData"):
        assert name in NOTICE


def test_citation_has_the_version_of_the_package_and_the_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert str(citation["version"]) == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["authors"] == [{"name": author["name"]} for author in PROJECT["project"]["authors"]]
    titles = [reference["title"] for reference in citation["references"]]
    for title in re.findall(r'^"([^"]+)", [A-Z].*?arXiv:', NOTICE, re.MULTILINE | re.DOTALL):
        assert " ".join(title.split()) in titles
    for reference in citation["references"]:
        for number in [i["value"].removeprefix("arXiv:") for i in reference.get("identifiers", [])]:
            assert reference["url"] == f"https://arxiv.org/abs/{number}"
            assert reference["doi"] == f"10.48550/arXiv.{number}"


def test_package_contains_all_its_data() -> None:
    package_data = PROJECT["tool"]["setuptools"]["package-data"]["parley"]
    packed = {path for pattern in package_data for path in PACKAGE.glob(pattern)}
    data = [p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert len(data) > 40
    assert [str(path.relative_to(PACKAGE)) for path in data if path not in packed] == []


@pytest.fixture
def usage() -> dict[str, Any]:
    content = yaml.safe_load(CATALOG.read_text())
    assert set(content) == {"usage"}
    return dict(content["usage"])


def test_catalog_file_has_the_keys_that_the_catalog_reads(usage: dict[str, Any]) -> None:
    assert set(usage) == {"mandatory-flags", "report", "software-stack-deployment"}
    assert set(usage["mandatory-flags"]) <= {"desc", "flags"}
    assert isinstance(usage["report"], bool)
    assert all(isinstance(works, bool) for works in usage["software-stack-deployment"].values())


def test_catalog_file_names_only_flags_that_snakemake_knows(usage: dict[str, Any]) -> None:
    known = get_argument_parser()._option_string_actions
    mandatory = usage["mandatory-flags"]
    named = re.findall(r"--[a-z-]+", f"{mandatory.get('desc', '')} {mandatory.get('flags', '')}")
    assert "--config" in named
    assert [flag for flag in named if flag not in known] == []
    methods = {part for key in usage["software-stack-deployment"] for part in key.split("+")}
    assert methods <= set(known["--sdm"].choices)


def test_repository_has_what_the_catalog_looks_for() -> None:
    readme = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in readme
    assert "workflow" in readme
    assert (ROOT / "workflow" / "Snakefile").is_file()
    assert list((ROOT / "workflow" / "rules").glob("*.smk"))


@pytest.mark.slow
def test_the_workflow_that_the_catalog_finds_has_the_same_jobs(tmp_path: Path) -> None:
    grid = {"model": "majority", "n": 3, "prompt": "may_exist"}
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({"game": "consensus", "seeds": 2, "grids": [grid]}))
    shutil.copy(ROOT / "config" / "models.yaml", tmp_path)
    counts = [jobs(ROOT / file, tmp_path) for file in ("Snakefile", "workflow/Snakefile")]
    assert counts[0]["summarize"] == counts[0].pop("all") == 1
    assert counts[1].pop("everything") == 1
    assert counts[0] == counts[1]


def jobs(snakefile: Path, folder: Path) -> dict[str, int]:
    """Return how many jobs of each rule a dry run has."""
    profile = ("--workflow-profile", str(ROOT / "profiles" / "default"))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile), "--dry-run", "--cores", "1", *profile]
    done = subprocess.run(
        [*command, "--config", "study=tiny.yaml"],
        cwd=folder,
        env={**os.environ, "PARLEY_PROGRESS": "snakemake"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        rule: int(count)
        for rule, count in re.findall(r"^([a-z_]+) +([0-9]+)$", done.stdout + done.stderr, re.MULTILINE)
    }


def test_config_readme_names_every_study_and_nothing_else() -> None:
    readme = (ROOT / "config" / "README.md").read_text()
    named = re.findall(r"^\| `([a-z-]+)` \|", readme, re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in (ROOT / "config").glob("*.yaml") if path.stem != "models")


def test_study_in_the_config_readme_is_one(tmp_path: Path) -> None:
    readme = (ROOT / "config" / "README.md").read_text()
    block = next(block for block in re.findall(r"(?:^    .*\n)+", readme, re.MULTILINE) if "grids:" in block)
    (tmp_path / "mine.yaml").write_text(textwrap.dedent(block))
    study = load_study(tmp_path / "mine.yaml", ROOT / "config" / "models.yaml")
    assert len(study.conditions) == 8


def test_contributing_names_every_room_of_the_package() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 120
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert [room for room in sorted(rooms) if f"`{room}`" not in text] == []
