"""What the metadata of a record must look like before anything reads it: its checksums show no forger's intent.

Keys that came later may be missing, keys of a later version may be there, and what only people read may be anything.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parley.text import one_line

_Count = Annotated[int, Field(ge=0, lt=2**53)]  # beyond that no table holds it exactly
_Answer = Annotated[tuple[str | None, str | None, _Count], Field(strict=False)]  # in JSON, it is a list
_Seconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Outcome(_Shape):
    name: str
    detail: str | None
    diagnosis: str | None
    rounds: _Count
    finished_early: bool
    metrics: dict[str, Any]


class _Telemetry(_Shape):
    calls: _Count
    failed_replies: _Count
    invalid_json: _Count
    out_of_range: _Count
    length: _Count
    refused: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    cached_tokens: _Count
    request_seconds: _Seconds
    wall_seconds: _Seconds = 0
    phase_seconds: dict[str, _Seconds] = {}
    degenerate: dict[str, _Count] | None = None
    answered: dict[str, list[_Answer]] = {}


class _Engine(_Shape):
    engine: str = ""
    versions: dict[str, Any] = {}
    deterministic: dict[str, Any] | None = None


class _Imported(_Shape):
    format: str
    source: str
    license: str
    file: str
    sha256: str
    defects: list[str]


class _Provenance(_Shape):
    git: dict[str, Any] | None = None
    imported: _Imported | None = None
    engines: dict[str, _Engine] = {}


class _Rows(_Shape):
    sha256: str = ""
    bytes_sha256: str = ""


class _Meta(_Shape):
    simulation: dict[str, Any]
    outcome: _Outcome
    telemetry: _Telemetry
    digest: str
    provenance: _Provenance
    rows: _Rows


def problem_of(meta: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the metadata of a record, in a few words; None for nothing."""
    try:
        _Meta.model_validate(meta)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        said = first["msg"].split(" or instance of")[0].replace("Input should", "should")
        return f"{key} is missing" if first["type"] == "missing" else one_line(f"{key} {said}", 150)
    return None
