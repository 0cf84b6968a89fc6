"""The documentation: links lead somewhere, studies and code in it work, and the site is built without a warning."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from markdown_it import MarkdownIt
from markdown_it.token import Token

from parley.analysis.summarize import summarize
from parley.analysis.tables import read_table
from parley.cli import commands
from parley.engine.arguments import MACHINE_ARGUMENTS
from parley.engine.models import ModelsFile
from parley.play.simulate import simulate_shard
from parley.study import load_study
from parley.study.condition import SCRIPTED
from support import REPOSITORY
from support.commands import in_terminal
from support.studies import Drawn

pytestmark = pytest.mark.promise(
    "Links lead somewhere, commands and tests that pages name are there, and the site is built without a warning."
)

DOCS = REPOSITORY / "docs"
BUILDER = REPOSITORY / ".venv-docs" / "bin" / "sphinx-build"
FOLDERS = ("docs", "envs", "examples", "benchmarks", "config", "findings")
PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    *(
        page
        for name in FOLDERS
        for page in sorted((REPOSITORY / name).rglob("*.md"))
        if "_generated" not in page.parts
    ),
]
# What names a page in a comment or a message.
NAMING = ("src", "tests", "config", "envs", "examples", "benchmarks", "workflow", "slurm", "profiles", "gpu")


sys.path.append(str(DOCS / "_extensions"))
NAMES = ("schema_tables", "reference", "site_links", "promises")
schema_tables, reference, site_links, promises = (importlib.import_module(name) for name in NAMES)


# Links


def tokens(page: Path) -> Iterator[Token]:
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        yield token
        yield from token.children or ()


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    heading = False
    result = set()
    for token in tokens(page):
        if token.type == "inline" and heading:
            text = "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            result.add(slug + (f"-{found[slug]}" if slug in found else ""))
            found[slug] = found.get(slug, 0) + 1
        heading = token.type == "heading_open"
    return result


def broken_links(page: Path) -> list[str]:
    """Return what is linked from a page and is not there."""
    broken = []
    for token in tokens(page):
        target = str(token.attrs.get("href") or token.attrs.get("src") or "")
        if not target or re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.slow
def test_every_link_leads_to_a_file_and_a_heading() -> None:
    broken = {str(page.relative_to(REPOSITORY)): broken_links(page) for page in PAGES}
    assert {page: links for page, links in broken.items() if links} == {}


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# One\n\n## What it `costs`, twice\n\n## One\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#what-it-costs-twice) [b](other.md#one-1) [c](https://x.example/y) [d](#own)\n\n# Own\n\n"
        "[e](other.md#two) [f](gone.md) ![g](gone.png)\n\n| h |\n|---|\n| [i](gone.md#h) |\n"
    )
    assert broken_links(page) == ["other.md#two", "gone.md", "gone.png", "gone.md#h"]


def test_every_page_that_a_file_names_is_there() -> None:
    files = [REPOSITORY / name for name in ("Makefile", "Snakefile", "dvc.yaml", "CHANGELOG.md", "pyproject.toml")]
    files += [
        file for name in NAMING for file in (REPOSITORY / name).rglob("*") if file.suffix != ".pyc" and file.is_file()
    ]
    missing = [
        (str(file.relative_to(REPOSITORY)), name)
        for file in (*files, *PAGES)
        for name in re.findall(r"(?<![\w/])docs/[\w/-]+\.md", file.read_text(encoding="utf-8", errors="replace"))
        if not (REPOSITORY / name).exists()
    ]
    assert missing == []


def test_every_test_that_the_page_of_faults_names_is_there() -> None:
    text = (DOCS / "explanation" / "reliability.md").read_text(encoding="utf-8")
    named = {name.removeprefix("tests/") for name in re.findall(r"[\w/]*\btest_\w+\.py", text)}
    assert len(named) > 10
    assert {name for name in named if not (REPOSITORY / "tests" / name).exists()} == set()


# What is shown works


def code(page: Path) -> list[str]:
    return [token.content for token in tokens(page) if token.type in ("code_block", "fence")]


def study_in(page: Path) -> str:
    [text] = [block for block in code(page) if block.startswith("game: ")][:1]
    return text


def test_the_readme_is_one_screen_with_both_commands() -> None:
    lines = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert [line.split("#")[0].strip() for line in lines if line.startswith("make ")] == ["make demo", "make test"]


def test_the_study_in_the_readme_has_the_simulations_that_it_says(folder: Path) -> None:
    text = study_in(REPOSITORY / "README.md")
    file = folder / "my-study.yaml"
    file.write_text(text)
    assert len(list(load_study(file).simulations())) == 1300
    assert "1,300 simulations" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == yaml.safe_load(study_in(DOCS / "tutorial" / "first-study.md"))


def test_the_question_of_the_tutorial_has_a_prompt_that_is_sent(folder: Path) -> None:
    (folder / "watched.yaml").write_text(study_in(DOCS / "tutorial" / "your-question.md"))
    study = load_study(folder / "watched.yaml")
    assert [comparison.label for comparison in study.comparisons] == ["watching: prompt may_exist -> watched"]
    assert {condition.prompt for condition in study.conditions} == {"may_exist", "watched"}


@pytest.mark.promise(
    "The model over all axes that the guide of Python fits finds the effect of a prompt, in R too where that is."
)
def test_the_model_over_all_axes_says_what_a_prompt_changes(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    drawn = Drawn(np.random.default_rng(1), 60, 0.3)
    for n, (before, after) in {4: (0.3, 0.5), 8: (0.4, 0.6)}.items():
        drawn.play(before, n=n, prompt="may_exist")
        drawn.play(after, n=n, prompt="none_exist")
    right = drawn.rows.assign(right=drawn.rows["outcome"] == "valid_consensus").groupby("prompt")["right"].mean()
    change = right["none_exist"] - right["may_exist"]
    in_python, in_r = (block for block in code(DOCS / "python.md") if "exchangeable" in block.lower())
    exec(in_python, {"results": SimpleNamespace(simulations=drawn.rows)})
    assert float(capfd.readouterr().out.splitlines()[-1]) == pytest.approx(change, abs=0.01)
    if shutil.which("Rscript"):
        table = Path("results/my-study/tables/simulations.csv")
        table.parent.mkdir(parents=True)
        drawn.rows.to_csv(table, index=False)
        subprocess.run(["Rscript", "-e", in_r], check=True)
        assert float(capfd.readouterr().out.split()[-1]) == pytest.approx(change, abs=0.01)


@pytest.mark.promise("The tutorial of forks has shipped records, and its numbers are those that it shows.")
@pytest.mark.slow
def test_the_tutorial_of_forks_says_what_its_forks_give(folder: Path) -> None:
    page = DOCS / "tutorial" / "why-not.md"
    told = re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))
    [game] = re.findall(r"GAME=(findings\S+)", told)

    def run(*command: str) -> str:
        return CliRunner().invoke(commands, list(command), catch_exceptions=False).output

    for at, outcome in (("1", "valid_consensus, after 2 rounds"), ("8", "invalid_consensus, foreign_value")):
        change = "swap: {seat: all, to: majority}"
        assert outcome in run("fork", str(REPOSITORY / game), "--at", at, "--change", change, "--repeats", "1")
        assert outcome in told
    studies = [yaml.safe_load(block) for block in code(page) if block.startswith("game: ")]
    studies[0]["fork"]["of"] = str(REPOSITORY / studies[0]["fork"]["of"])
    studies[0]["fork"]["at"] = [1, 2]
    for name, study in zip(("too-late", "pulled", "which"), studies, strict=True):
        Path(f"{name}.yaml").write_text(yaml.safe_dump(study))
        simulate_shard(load_study(Path(f"{name}.yaml")), SCRIPTED, 0)
    for name in ("too-late", "which"):
        summarize(load_study(Path(f"{name}.yaml")))
    effects = read_table("too-late", "forks").query("what == 'valid_consensus'").set_index("at")
    for at in ("1", "2"):
        row = effects.loc[at]
        assert f"| {at} | {row['parents']} | {row['value_to']:.0%} |" in told
    influences = read_table("which", "influences").query("change.str.startswith('silence')")
    assert f"Of {len(influences)} messages" in told
    for number, phase, agent, size, low, high, p in influences.query("influence != 0")[
        ["round", "phase", "agent", "influence", "low", "high", "p_holm"]
    ].itertuples(index=False):
        assert f"| {number} | {phase} | {agent} | {size:+.2f} | {low:.2f} to {high:.2f} | {p:.2g} |" in told


def write_own_code(folder: Path) -> None:
    """Write the modules and studies of the pages about code of one's own, and install what they call `middle`."""
    pages = [DOCS / "own-games.md", DOCS / "tutorial" / "own-policy.md"]
    for page, name, part in zip(pages, ("guess", "low"), ("class Guess(", "class Low"), strict=True):
        [module] = [block for block in code(page) if part in block]
        (folder / f"{name}.py").write_text(module)
        (folder / f"{name}.yaml").write_text(study_in(page))
    [grids] = [block for block in code(DOCS / "own-policies.md") if block.startswith("grids:")]
    [point] = [block for block in code(DOCS / "own-policies.md") if "parley.policies" in block]
    (folder / "median.yaml").write_text(f"game: consensus\n{grids}")
    shutil.copy(REPOSITORY / "examples" / "own_policy.py", folder)
    info = folder / "own_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own_policy\nVersion: 1.0\n")
    points = point.replace('project.entry-points."parley.policies"', "parley.policies").replace('"', "")
    (info / "entry_points.txt").write_text(points)


@pytest.mark.slow
@pytest.mark.promise("The examples of the pages about code of one's own run, in a terminal and in a pipe.")
@pytest.mark.parametrize(
    ("arguments", "terminal", "outcome"),
    [
        (["guess.yaml"], True, "low, after 3 rounds"),
        (["low.yaml", "--model", "Low", "--b", "0"], False, "valid_consensus, after 2"),
        (["median.yaml", "--model", "Median-faults-1"], True, "after"),
        (["median.yaml", "--model", "Median", "--b", "0"], False, "valid_consensus"),
    ],
)
def test_examples_of_own_code_play_in_a_terminal_and_in_a_pipe(
    folder: Path, arguments: list[str], terminal: bool, outcome: str
) -> None:
    write_own_code(folder)
    environment = os.environ | {"PYTHONPATH": str(folder)}  # where `middle` is installed
    command = [sys.executable, "-m", "parley.cli", "play", *arguments]
    if terminal:
        status, said = in_terminal(command, environment)
        assert status == 0, said
        assert outcome in said.rpartition("Outcome: ")[2].lower()
        return
    piped = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")
    assert outcome in piped.stdout.splitlines()[-1]


def test_the_page_of_the_models_file_has_every_argument_that_concerns_the_machine() -> None:
    page = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    table = page.split("| what | arguments |\n")[1].split("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", table)) == set(MACHINE_ARGUMENTS)


# What is generated


def test_every_key_of_a_schema_has_a_row() -> None:
    for name in ("study", "models"):
        schema = json.loads((REPOSITORY / "config" / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
        page = schema_tables.markdown(schema)
        tables = [schema, *(d for d in schema["$defs"].values() if "properties" in d)]
        assert page.count("\n| `") == sum(len(table["properties"]) for table in tables)
        for link in re.findall(r"\]\(#(\w+)\)", page):
            assert f"## {link}\n" in page.lower()


@pytest.mark.promise("Keys, columns, commands and promises stand in pages and schemas as they are in the code.")
def test_what_is_made_of_the_code_is_that_of_the_code() -> None:
    pages = {f"{name}.md" for name in ("study", "models", "commands", "own-policies", "data", "verification")}
    schemas = {f"{name}.schema.json" for name in ("study", "models", "card")}
    made = reference.made()
    assert {file.name for file in made} == pages | schemas
    for file, text in made.items():
        assert file.read_text(encoding="utf-8") == text, "run: make reference"
    assert len(list(promises.promises())) > 100


def test_the_entries_of_services_can_be_pasted() -> None:
    texts = [block for block in code(DOCS / "how-to" / "services.md") if block.startswith("models:")]
    assert len(texts) == 3
    for text in texts:
        assert all(entry.is_service for entry in ModelsFile.model_validate(yaml.safe_load(text)).models.values())


def test_links_to_pages_outside_lead_to_their_copies_and_back(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    copied = ["envs/README.md"]
    text = "[e](../../envs/README.md#models) [s](run.md) [w](https://x.example) [`f`](../../examples)"
    there = site_links.relinked(text, "docs/how-to/models.md", "docs/how-to/models.md", copied, tmp_path)
    assert there == "[e](../_generated/project/envs.md#models) [s](run.md) [w](https://x.example) `f`"
    copy = f"docs/{site_links.place('envs/README.md')}"
    back = site_links.relinked("[c](../docs/how-to/cluster.md)", "envs/README.md", copy, copied, tmp_path)
    assert back == "[c](../../how-to/cluster.md)"


@pytest.mark.rare
@pytest.mark.skipif(not BUILDER.exists(), reason="needs the site's generator; make docs installs it")
def test_the_site_is_built_without_a_warning_and_without_a_network(tmp_path: Path) -> None:
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", str(tmp_path / "read")]
    command = [str(BUILDER), *options, "docs", str(tmp_path / "site")]
    environment = os.environ | {"PYTHONPATH": "src"}
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 30
    loading = re.compile(r"<(?:script|img|link)[^>]* (?:src|href)=\"(?:https?:)?//")
    assert [page for page, text in pages.items() if loading.search(text)] == []
    text = pages[tmp_path / "site" / "reference" / "commands.html"]
    assert {name for name in commands.commands if f'id="parley-{name}"' not in text} == set()
