"""What others need to use, cite and find the project agrees with what the project is."""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import yaml
from snakemake.cli import get_argument_parser

from parley.games.registry import GAMES
from support import REPOSITORY
from support.workflows import jobs, snakemake, write

pytestmark = pytest.mark.promise("License, notices, citation and package data agree with the project.")

PACKAGE = REPOSITORY / "src" / "parley"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
NOTICE = (REPOSITORY / "NOTICE").read_text()
# The text of https://www.apache.org/licenses/LICENSE-2.0.txt, as Debian has it.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
COMMON_FOLDERS = {"games", "prompts", "templates"}  # left out in the paths that NOTICE names
# Prompts that Parley's developers wrote. Any other prompt is quoted or adapted, and NOTICE must name its source.
OWN_PROMPTS = (
    "consensus/filter/*",
    "consensus/network/*",
    "consensus/score/*",
    "consensus/strategies/*",
    "consensus/swarms/vote_on_last_round.txt",
    "deliberation/*",
    "replies/*",
    "reply_templates/*",
)


def prompts() -> list[str]:
    paths = [*PACKAGE.rglob("*.txt"), *PACKAGE.glob("games/*/templates/**/*.yaml")]
    found = [path.relative_to(PACKAGE) for path in sorted(paths)]
    return ["/".join(part for part in path.parts if part not in COMMON_FOLDERS) for path in found]


def matches(path: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def test_license_is_the_standard_text_and_named_everywhere() -> None:
    assert hashlib.sha256((REPOSITORY / "LICENSE").read_bytes()).hexdigest() == APACHE_2
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert PROJECT["project"]["license-files"] == ["LICENSE", "NOTICE"]


def test_notice_names_the_source_of_every_quoted_prompt_and_nothing_that_is_not_there() -> None:
    named = [pattern for line in re.findall(r"^Files: (.+)$", NOTICE, re.MULTILINE) for pattern in line.split()]
    quoted = [path for path in prompts() if not matches(path, OWN_PROMPTS)]
    assert len(quoted) >= 14
    assert [path for path in quoted if not matches(path, named)] == []
    assert [pattern for pattern in named if not any(fnmatchcase(path, pattern) for path in quoted)] == []


def test_notice_says_the_license_of_every_quoted_text() -> None:
    quoted = NOTICE.split("Quoted and adapted texts")[1].split("Models and data")[0]
    sources = [text for text in quoted.split("\n\n") if "Files: " in text]
    assert len(sources) == 4
    assert [text for text in sources if not re.search(r"^License: \S", text, re.MULTILINE)] == []


def test_notice_and_models_file_agree_on_the_licenses_of_models() -> None:
    for model in yaml.safe_load((REPOSITORY / "config" / "models.yaml").read_text())["models"].values():
        if license := model.get("license"):
            assert license.split(" (")[0] in NOTICE
    for name in ("SmolLM2-135M", "Qwen2.5-Coder-1.5B", "Qwen2.5-Coder-0.5B", "Gemma 3 270M", "GSM8K", "DeliData"):
        assert name in NOTICE


def test_citation_has_the_version_of_the_package_and_the_papers() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
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
    papers = {(game.paper.title, game.paper.url) for game in GAMES.values() if game.paper}
    assert papers <= {(reference["title"], reference.get("url")) for reference in citation["references"]}


def test_zenodo_is_told_what_the_citation_says() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    deposit = json.loads((REPOSITORY / ".zenodo.json").read_text())
    same = ("version", "license", "keywords")
    assert {key: deposit[key] for key in same} == {key: citation[key] for key in same}
    assert deposit["description"] == citation["abstract"]
    assert deposit["creators"] == citation["authors"]
    papers = {reference.get("doi") for reference in citation["references"]}
    assert {related["identifier"] for related in deposit["related_identifiers"]} <= papers


def test_package_contains_all_its_data() -> None:
    package_data = PROJECT["tool"]["setuptools"]["package-data"]["parley"]
    packed = {path for pattern in package_data for path in PACKAGE.glob(pattern)}
    data = [p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")]
    assert len(data) > 40
    assert [str(path.relative_to(PACKAGE)) for path in data if path not in packed] == []


def test_the_catalog_of_workflows_finds_flags_that_snakemake_knows() -> None:
    usage = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "report", "software-stack-deployment"}
    known = get_argument_parser()._option_string_actions
    named = re.findall(r"--[a-z-]+", " ".join(usage["mandatory-flags"].values()))
    assert "--config" in named
    assert [flag for flag in named if flag not in known] == []
    methods = {part for key in usage["software-stack-deployment"] for part in key.split("+")}
    assert methods <= set(known["--sdm"].choices)


@pytest.mark.rare
def test_the_image_is_given_what_its_build_takes_a_source_and_a_destination_a_line(tmp_path: Path) -> None:
    text = (REPOSITORY / "envs" / "parley.def").read_text()
    sections = dict(re.findall(r"^%(\w+)\n((?:(?![%#]).*\n)+)", text, re.MULTILINE))
    for line in filter(str.strip, sections["files"].splitlines()):
        source, destination = line.split()  # Apptainer reads no more than two words
        (copied := tmp_path / destination.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-fLr", REPOSITORY / source, copied], check=True)  # as Apptainer does
    named = re.findall(r" /(opt/\S+)", sections["post"])
    assert [(tmp_path / path).exists() for path in named] == [True, True]
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    subprocess.run([*build, tmp_path / "opt" / "parley"], check=True, capture_output=True)
    packed = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert {str(path.relative_to(PACKAGE.parent)) for path in PACKAGE.rglob("*.py")} <= set(packed)
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in packed}


@pytest.mark.rare
def test_the_workflow_that_the_catalog_finds_has_the_same_jobs(folder: Path) -> None:
    write(folder)
    counts = []
    for file in ("Snakefile", "workflow/Snakefile"):
        planned = snakemake("--snakefile", str(REPOSITORY / file), "--dry-run", "--config", "study=small.yaml")
        assert planned.returncode == 0, planned.stderr
        counts.append(jobs(planned.stdout + planned.stderr))
    assert counts[0].pop("all") == counts[1].pop("everything") == counts[0]["summarize"] == 1
    assert counts[0] == counts[1]


def test_config_readme_names_every_study_and_nothing_else() -> None:
    readme = (REPOSITORY / "config" / "README.md").read_text()
    named = re.findall(r"^\| `([a-z-]+)` \|", readme, re.MULTILINE)
    assert sorted(named) == sorted(
        path.stem for path in (REPOSITORY / "config").glob("*.yaml") if path.stem != "models"
    )


def test_every_mutant_has_its_line_in_the_source() -> None:
    mutants = yaml.safe_load((REPOSITORY / "tests" / "mutants" / "mutants.yaml").read_text())
    counts = {mutant["id"]: (REPOSITORY / mutant["file"]).read_text().count(mutant["old"]) for mutant in mutants}
    assert {name: count for name, count in counts.items() if count != 1} == {}
