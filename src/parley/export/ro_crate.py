"""RO-Crate: a study with its file, workflow, records, tables and figures, as a Workflow Run RO-Crate."""

import logging
import mimetypes
import shutil
from collections.abc import Iterable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity, Person, SoftwareApplication
from rocrate.rocrate import ROCrate

from parley import paths
from parley.export.about import About, with_progress
from parley.files import sha256
from parley.play.record_store import UsableRecords
from parley.text import counted, one_line, without_folders

_log = logging.getLogger(__name__)
_RUN = "https://w3id.org/ro/wfrun"
_PROFILES = {
    f"{_RUN}/process/0.5": ("Process Run Crate", "0.5"),
    f"{_RUN}/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
_SHA256 = "https://w3id.org/ro/terms/workflow-run#sha256"
_PARAMETER = "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"
_KINDS = {".parquet": "application/vnd.apache.parquet", ".yaml": "application/yaml", ".smk": "text/plain"}
# What is computed from the records, by folder.
_MADE = {"tables": "Table", "figures": "Figure", "report": "Report", "ledger": "Ledger"}
_README = """# {title}

{description}

This folder is an RO-Crate: `ro-crate-metadata.json` says what each file is. It was written by Parley.

- `config/{name}.yaml`: the study, prompts of its own beside it; `Snakefile` and `workflow/`: how it was played
- `results/{name}/report/report.html`: start here
- `results/{name}/tables/`: tables; `results/{name}/figures/`: figures
- `results/{name}/simulations/`: a Parquet file for each simulation, with every reply

License: {license}
"""


def write_crate(records: UsableRecords, known: About, folder: Path) -> None:
    """Write the crate: copies of all its files, where they lie in a checkout, and ro-crate-metadata.json."""
    study = records.study
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms["sha256"] = _SHA256
    root = crate.root_dataset
    crate.name, crate.description = known.title, known.description
    crate.datePublished = known.ended
    crate.license = _license(crate, known)
    root["conformsTo"] = [
        crate.add(ContextEntity(crate, url, {"@type": "CreativeWork", "name": name, "version": version}))
        for url, (name, version) in _PROFILES.items()
    ]
    root["keywords"] = f"LLM agents, multi-agent systems, {study.game.name.replace('_', ' ')}"
    author = crate.add(Person(crate, "#author", {"name": known.author})) if known.author else None
    if author:
        root["author"] = author
    if known.paper:
        article = {"@type": "ScholarlyArticle", "name": known.paper.title}
        root["citation"] = crate.add(ContextEntity(crate, known.paper.url, article))
    workflow = _workflow(crate, known)
    study_file = _study_file(crate, records)
    parameter = _parameter(crate, "#study", "study", "The study: game, conditions, seeds", study_file)
    workflow["input"] = parameter
    simulations = crate.add_dataset(
        dest_path=_place(paths.simulations(study.name)) + "/",
        properties={
            "name": "Records",
            "description": f"{counted(len(records.simulations), 'Parquet file')}, one a simulation: every attempt "
            "with its messages and reply, outcome, provenance, checksums. tables/manifest.parquet names them.",
        },
    )
    made = [simulations, *_made(crate, study.name)]
    workflow["output"] = _parameter(crate, "#records", "records", "What was played", simulations, "Dataset")
    templates = [
        _file(crate, path, f"Template {path.stem}", (paths.CONFIG / path.relative_to(study.file.parent)).as_posix())
        for folder in (study.own_prompts.folders if study.own_prompts else [])
        for path in sorted(folder.glob("*.txt"))
    ]
    inputs = [study_file, *templates, *_models(crate, known), *_sources(crate, known)]
    action = crate.add_action(
        workflow,
        identifier="#run",
        object=inputs if len(inputs) > 1 else study_file,
        result=made,
        properties={
            "name": f"Run of {study.name}",
            "description": f"{known.description} The time is that from the first simulation to the last.",
            "startTime": known.started.isoformat(),
            "endTime": known.ended.isoformat(),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    if author:
        action["agent"] = author
    root["mentions"] = action
    readme = _README.format(title=known.title, description=known.description, license=known.license, name=study.name)
    about = {"name": "README", "encodingFormat": "text/markdown", "about": root}
    crate.add_file(StringIO(readme), "README.md", properties=about)
    for simulation in with_progress(records.simulations, len(records.simulations), "record"):
        source = simulation.record(study.name)
        target = folder / _place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    crate.write(folder)


def _license(crate: ROCrate, known: About) -> Any:
    name = known.license.rpartition("/")[2] if known.license.startswith("https://spdx.org/") else known.license
    url = known.license if known.license.startswith(("https://", "http://")) else "#license"
    return crate.add(ContextEntity(crate, url, {"@type": "CreativeWork", "name": name, "description": known.license}))


def _workflow(crate: ROCrate, known: About) -> Any:
    about = {
        "name": "Parley's workflow",
        "description": "Plays every simulation of a study, and makes tables, figures and a report of the records.",
        "version": known.software.get("parley", ""),
        "license": "https://spdx.org/licenses/Apache-2.0",
        "encodingFormat": "text/plain",
        "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
    }
    main = paths.CHECKOUT / paths.SNAKEFILE
    workflow = crate.add_workflow(main, paths.SNAKEFILE.name, main=True, lang="snakemake", properties=about)
    if version := known.software.get("snakemake"):
        workflow["programmingLanguage"]["version"] = version
    workflow["hasPart"] = [
        _file(crate, rule, "Rules of the workflow", rule.relative_to(paths.CHECKOUT).as_posix())
        for rule in sorted((paths.CHECKOUT / paths.WORKFLOW).rglob("*.smk"))
    ]
    workflow["softwareRequirements"] = [
        crate.add(SoftwareApplication(crate, _home(name), {"name": name, "softwareVersion": version}))
        for name, version in known.software.items()
        if version
    ]
    return workflow


def _home(software: str) -> str:
    own = {"python": "https://www.python.org/", "parley": "#parley"}
    return own.get(software, f"https://pypi.org/project/{software}/")


def _study_file(crate: ROCrate, records: UsableRecords) -> Any:
    """Add the study file, without the folders of this machine."""
    study = records.study
    text = study.file.read_text(encoding="utf-8")
    lines = [without_folders(line) for line in text.splitlines(keepends=True)]
    if "".join(lines) != text:
        _log.warning("%s: paths of this machine stand in it; the copy in the crate has their last parts", study.file)
    place = f"{paths.CONFIG}/{study.file.name}"
    about = {"name": f"Study {study.name}", "encodingFormat": _KINDS[".yaml"], "description": one_line(study.title)}
    return crate.add_file(StringIO("".join(lines)), place, properties=about)


def _parameter(crate: ROCrate, name: str, title: str, text: str, example: Any, kind: str = "File") -> Any:
    about = {"name": title, "description": text, "additionalType": kind, "workExample": example, "valueRequired": True}
    about |= {"@type": "FormalParameter", "conformsTo": {"@id": _PARAMETER}}
    found = crate.add(ContextEntity(crate, name, about))
    example["exampleOfWork"] = found
    return found


def _made(crate: ROCrate, study: str) -> Iterator[Any]:
    results = paths.results(study)
    yield _file(crate, paths.conditions(study), "What each spec=... of the records stands for, a row a condition")
    for folder, name in _MADE.items():
        for path in sorted((results / folder).rglob("*")):
            if path.is_file() and not path.name.startswith((".", "plan-")):
                yield _file(crate, path, f"{name} {path.stem}")


def _file(crate: ROCrate, path: Path, name: str, place: str | None = None) -> Any:
    kind = _KINDS.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    about = {"name": name, "encodingFormat": kind, "contentSize": str(path.stat().st_size), "sha256": sha256(path)}
    return crate.add_file(path, place or _place(path), properties=about)


def _place(path: Path) -> str:
    return path.relative_to(paths.root()).as_posix()


def _models(crate: ROCrate, known: About) -> Iterable[Any]:
    for name, (terms, note) in known.models.items():
        about = {"name": name, **({"license": terms} if terms else {}), **({"description": note} if note else {})}
        yield crate.add(ContextEntity(crate, f"#model-{name}", {"@type": "SoftwareApplication", **about}))


def _sources(crate: ROCrate, known: About) -> Iterable[Any]:
    for number, each in enumerate(known.sources, 1):
        about = {"name": f"Games played elsewhere: {each['source']}", "license": each["license"]}
        about["description"] = f"Imported from the format {each['format']}. Source: {each['source']}."
        yield crate.add(ContextEntity(crate, f"#imported-{number}", {"@type": "CreativeWork", **about}))
