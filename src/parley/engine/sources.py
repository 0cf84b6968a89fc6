"""Where the weights of a model come from, as `config/models.yaml` says it, and which of that is on this machine.

A Hugging Face repository at a pinned revision, a local folder, a GGUF file (by its SHA-256, wherever it is had; in an
installed Python package; in parts in several), or a service that somebody else runs.
"""

import glob
import importlib.metadata
import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from parley.errors import EngineError
from parley.text import last_part
from parley.text.yamlfile import ByModel, FileModel

_SERVICE_URL = re.compile(r"https?://[^\s/?#@\\]+(?:/[^\s?#@\\]*)?", re.ASCII)
_CALLS = ("/chat/completions", "/completions", "/responses", "/messages")
_NUMBER = re.compile(r"\{(?::0(\d))?\}")  # {} or {:02}: the number of a part

_Gguf = Annotated[str, Field(max_length=200, pattern=r"^[^/\\]+\.gguf$")]


class _Strict(FileModel):
    def identity(self) -> dict[str, Any]:
        """Return what of a source is identity: nothing that names a place on one machine, or a person."""
        return self.model_dump(mode="json")


class Packages(_Strict):
    """Installed Python packages that hold a file: one of them the whole of it, or each a part."""

    def files(self) -> list[tuple[str, str]]:
        """Return package and pattern of the file's name (fnmatch) of each part, in order."""
        raise NotImplementedError

    def local(self, models_file: Path) -> list[Path]:
        """Return the file, or its parts in order; raises EngineError saying what is missing.

        Of a package only what pip keeps beside it is read (its version, its list of files), and whether the file has
        its size.
        """
        if missing := [package for package, _ in self.files() if not is_installed(package)]:
            raise EngineError(f"{self._named(missing)} not installed")
        return [_part(package, pattern, self.pinned) for package, pattern in self.files()]

    @property
    def label(self) -> str:
        """What messages call them."""
        return f"{self._named([package for package, _ in self.files()])} (PyPI)"

    @property
    def pinned(self) -> str | None:
        """The version that they have to have; None if any will do."""
        return None

    def _named(self, packages: Sequence[str]) -> str:
        version = f" {self.pinned}" if self.pinned else ""
        more = f" and {len(packages) - 1} more" if len(packages) > 1 else ""
        return f"package {packages[0]}{version}{more}"


def is_installed(package: str) -> bool:
    """Whether there is a Python package of this name."""
    try:
        importlib.metadata.distribution(package)
    except (importlib.metadata.PackageNotFoundError, ValueError, OSError):  # the last two: no name at all
        return False
    return True


def _part(package: str, pattern: str, pinned: str | None) -> Path:
    version = importlib.metadata.version(package)
    if pinned not in (None, version):
        raise EngineError(f"package {package} is installed in version {version}, but version {pinned} is needed")
    for listed in importlib.metadata.files(package) or []:
        if fnmatchcase(listed.name, pattern):
            path = Path(str(listed.locate()))
            size = path.stat().st_size if path.is_file() else 0
            if listed.size is not None and size != listed.size:
                raise EngineError(f"package {package}: {listed.name} is incomplete: {size:,} of {listed.size:,} bytes")
            if size:
                return path
    raise EngineError(f"package {package} {version} has no file {pattern}")


class PackageSource(Packages):
    """A GGUF file inside an installed Python package."""

    package: str = Field(max_length=100, description="Name of the distribution on PyPI.")
    gguf: _Gguf = Field(description="File name of the GGUF file in the package.")

    def files(self) -> list[tuple[str, str]]:
        """Return the package and its file."""
        return [(self.package, glob.escape(self.gguf))]


class PartsSource(Packages):
    """A GGUF file cut into parts, each inside an installed Python package of its own.

    A kind of its own rather than optional keys of `PackageSource`: those would change the identity of all its results.
    """

    packages: tuple[Annotated[str, Field(max_length=100)], ...] = Field(
        min_length=2, max_length=100, description="Names of the distributions on PyPI, in the order of their parts."
    )
    gguf: _Gguf = Field(description="File name of the whole; each package has one part of it, NAME.gguf.partNN.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the whole file, 64 hexadecimal digits.")

    def files(self) -> list[tuple[str, str]]:
        """Return package and pattern of the file's name of each part, in order."""
        return [(package, f"{glob.escape(self.gguf)}.part[0-9]*") for package in self.packages]


class HubSource(_Strict):
    """A Hugging Face repository at a pinned revision."""

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="Repository, as OWNER/NAME.")
    revision: str = Field(
        pattern=r"^[0-9a-f]{40}$", description="Commit, 40 hexadecimal digits; a branch would not be pinned."
    )

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.repo} at {self.revision[:8]} (Hugging Face Hub)"


def _numbered(pattern: str, number: int) -> str:
    """Return a pattern with the number of a part for each {} or {:02}."""
    return _NUMBER.sub(lambda found: f"{number:0{found[1] or 1}d}", pattern)


_Pattern = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9._-]|\{(?::0\d)?\})*$")]


class PackagesPlace(Packages):
    """Installed Python packages that hold a file: one of them the whole of it, or each a part."""

    packages: _Pattern = Field(
        description="Names of the distributions on PyPI: {} or {:02} is the number of the part."
    )
    parts: int = Field(default=1, ge=1, le=999, description="How many packages have a part.")
    first: int = Field(default=1, ge=0, le=999, description="Number of the first part.")
    version: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,49}$", description="Their version; in quotes if it is a number."
    )
    file: str = Field(
        pattern=r"^[^/\\{}](?:[^/\\{}]|\{(?::0\d)?\}){0,199}$",
        description="Name of the file that each holds; {} or {:02} is the number of the part.",
    )

    def files(self) -> list[tuple[str, str]]:
        """Return package and pattern of the file's name of each part, in order."""
        numbers = range(self.first, self.first + self.parts)
        return [(_numbered(self.packages, n), glob.escape(_numbered(self.file, n))) for n in numbers]

    @property
    def pinned(self) -> str:
        """Their version."""
        return self.version


def _below(path: str) -> str:
    if not {".", ".."}.isdisjoint(path.split("/")):
        raise ValueError("must be a path inside the repository")
    return path


class HubPlace(HubSource):
    """A file in a Hugging Face repository at a pinned revision."""

    file: Annotated[str, AfterValidator(_below)] = Field(
        max_length=200, pattern=r"^[^/\\.][^\\]*$", description="Path of the file in the repository."
    )


class PathPlace(_Strict):
    """A file on this machine."""

    path: str = Field(max_length=1000, description="Path of the file; relative paths start at the models file.")

    def local(self, models_file: Path) -> list[Path]:
        """Return the file; raises EngineError if it is not there."""
        with suppress(OSError, ValueError, RuntimeError):  # no path at all: NUL, too long, ~nobody
            path = (models_file.parent / Path(self.path).expanduser()).resolve()
            if path.is_file():
                return [path]
        raise EngineError(f"{self.path}: no such file")

    @property
    def label(self) -> str:
        """What messages call it; the path may name a person."""
        return "a file on this machine"


Place = Annotated[PackagesPlace | HubPlace | PathPlace, ByModel("place")]


class GgufSource(_Strict):
    """A GGUF file, which is the same wherever it is had: the SHA-256 of the whole file is its identity."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the whole file, 64 hexadecimal digits.")
    places: tuple[Place, ...] = Field(
        alias="from",
        min_length=1,
        max_length=20,
        description="Where it can be had; what is on this machine is taken first. Not part of the identity.",
    )

    def identity(self) -> dict[str, Any]:
        """Return the hash alone."""
        return {"sha256": self.sha256}


class FolderSource(_Strict):
    """A local folder in Hugging Face's layout, with safetensors weights."""

    folder: str = Field(description="Path of the folder; relative paths start at the models file.")

    def identity(self) -> dict[str, Any]:
        """Return the last part of the path."""
        return {"folder": last_part(self.folder)}


def _check_url(url: str) -> str:
    if not _SERVICE_URL.fullmatch(url):
        raise ValueError("must be as https://HOST/v1, without user, password, query or fragment")
    url = url.rstrip("/")
    if call := next(filter(url.endswith, _CALLS), None):
        raise ValueError(f"must be what stands before {call}; leave that out")
    with suppress(ValueError):
        parts = urlsplit(url)
        if (parts.hostname or "").encode("idna") and parts.port != 0:  # as a look-up of the name will
            return url
    raise ValueError("has an impossible host or port; write IPv6 in brackets, and a port from 1 to 65535")


_Variable = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]


def _no_path(served: Any) -> Any:
    if isinstance(served, str) and served.startswith(("/", "~", ".")):
        raise ValueError(
            "is a path, and records would have it: give the model a name at the service (--served-model-name), or "
            "start the service in the folder above, and write the folder's name alone (transformers serve)"
        )
    return served


class ServiceSource(_Strict):
    """An OpenAI-compatible service that somebody else runs."""

    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="Where it answers: what stands before /chat/completions; not part of the identity."
    )
    served: Annotated[str, BeforeValidator(_no_path)] = Field(
        pattern=r"^[A-Za-z0-9@][A-Za-z0-9._:@+/-]{0,199}$",
        description="The model's name there. One that is a path needs --served-model-name at the service.",
    )
    key_variable: _Variable | None = Field(
        default=None, description="Environment variable that holds the API key; not part of the identity."
    )

    def identity(self) -> dict[str, Any]:
        """Return the model's name there."""
        return {"served": self.served}


Source = Annotated[
    PackageSource | PartsSource | GgufSource | HubSource | FolderSource | ServiceSource, ByModel("source")
]


def file_places(source: Source) -> tuple[Packages | HubPlace | PathPlace, ...]:
    """Return where the GGUF file of a source can be had; nothing for a source that is none."""
    if isinstance(source, GgufSource):
        return source.places
    return (source,) if isinstance(source, Packages) else ()


def hub_place(source: Source) -> HubPlace | None:
    """Return the first place of a GGUF file on the Hugging Face Hub, if it has one."""
    return next((place for place in file_places(source) if isinstance(place, HubPlace)), None)


def local_parts(source: Source, models_file: Path) -> list[Path]:
    """Return the GGUF file, or its parts in order, at the first place on this machine that has all of it.

    Raises EngineError saying what is missing.
    """
    reasons = []
    for place in file_places(source):
        if not isinstance(place, HubPlace):
            try:
                return place.local(models_file)
            except EngineError as error:
                reasons.append(str(error))
    raise EngineError("; ".join(reasons) or "it is not on this machine")
