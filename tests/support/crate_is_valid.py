"""Validates RO-Crates against Workflow Run Crate without a network, and prints what is wrong with each, as JSON."""

import json
import sys
from importlib.resources import files

from rocrate_validator import models, services
from rocrate_validator.utils import document_loader

# What the crate's context is on the web, but for the names of Bioschemas' terms, which changed since: rocrate has it.
_CONTEXT = json.loads((files("rocrate") / "data" / "ro-crate.jsonld").read_text(encoding="utf-8"))
_TERMS = "https://bioschemas.org/"
_CONTEXT["@context"] |= {
    "ComputationalWorkflow": f"{_TERMS}ComputationalWorkflow",
    "FormalParameter": f"{_TERMS}FormalParameter",
    "input": f"{_TERMS}ComputationalWorkflow#input",
    "output": f"{_TERMS}ComputationalWorkflow#output",
}


def problems(crate: str) -> list[str]:
    document_loader._fetch_json_ld = lambda url: _CONTEXT
    settings = services.ValidationSettings(
        rocrate_uri=crate,
        profile_identifier="workflow-run-crate",
        requirement_severity=models.Severity.REQUIRED,
        skip_checks=["ro-crate-1.1_3.1", "ro-crate-1.1_3.2"],  # that the context can be fetched
        offline=True,
    )
    found = services.validate(settings)
    return [f"{issue.check.identifier}: {issue.message}" for issue in found.get_issues()]


if __name__ == "__main__":
    print(json.dumps([problems(crate) for crate in sys.argv[1:]]))
