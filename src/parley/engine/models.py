"""Model entries (`config/models.yaml`): what a study may name, and what of it can change a reply.

Sources: a Hugging Face repository at a pinned revision, a local folder, a GGUF file inside an installed Python package
or in parts in several (all four prepared by `weights.py`), or a service that somebody else runs.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from parley.engine.terms import Price, ServiceLimits
from parley.errors import UsageError
from parley.identity import canonical_json
from parley.text import last_part, without_folders
from parley.yamlfile import Slug, load_yaml, tag, validated

_SERVICE_URL = re.compile(r"https?://[^\s/?#@\\]+(?:/[^\s?#@\\]+)?/v1", re.ASCII)
# Stands for the URL where a record is all that is known of a service; the name resolves nowhere (RFC 2606).
_UNKNOWN_URL = "http://service.invalid/v1"


_Gguf = Annotated[str, Field(max_length=200, pattern=r"^[^/\\]+\.gguf$")]


class PackageSource(BaseModel):
    """A GGUF file inside an installed Python package."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    package: str = Field(max_length=100, description="Name of the distribution on PyPI.")
    gguf: _Gguf = Field(description="File name of the GGUF file in the package.")


class PartsSource(BaseModel):
    """A GGUF file cut into parts, each inside an installed Python package of its own.

    A kind of its own rather than optional keys of `PackageSource`: those would change the identity of all its results.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    packages: tuple[Annotated[str, Field(max_length=100)], ...] = Field(
        min_length=2, max_length=100, description="Names of the distributions on PyPI, in the order of their parts."
    )
    gguf: _Gguf = Field(description="File name of the whole; each package has one part of it, NAME.gguf.partNN.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the whole file, 64 hexadecimal digits.")


class HubSource(BaseModel):
    """A Hugging Face repository at a pinned revision."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repo: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", description="Repository, as OWNER/NAME.")
    revision: str = Field(
        pattern=r"^[0-9a-f]{40}$", description="Commit, 40 hexadecimal digits; a branch would not be pinned."
    )


class FolderSource(BaseModel):
    """A local folder in Hugging Face's layout, with safetensors weights."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str = Field(description="Path of the folder; relative paths start at the models file.")


def _check_url(url: str) -> str:
    if not _SERVICE_URL.fullmatch(url):
        raise ValueError("must be http://HOST:PORT/v1 or https://HOST/v1, without user, password, query or fragment")
    return url


class ServiceSource(BaseModel):
    """An OpenAI-compatible service that somebody else runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_check_url)] = Field(
        description="Where it answers, ending in /v1; not part of the identity."
    )
    served: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,199}$",
        description="The model's name there. One that is a path needs --served-model-name at the service.",
    )
    key_variable: str | None = Field(
        default=None,
        pattern=r"^[A-Z][A-Z0-9_]*$",
        description="Environment variable that holds the API key; not part of the identity.",
    )


def _source_kind(value: Any) -> str | None:
    """Return which source is meant: the first of their leading keys that is there."""
    keys = value if isinstance(value, dict) else vars(value) if isinstance(value, BaseModel) else {}
    return next((tag(key) for key in ("package", "packages", "repo", "folder", "url") if key in keys), None)


# What may stand in a partition, an account or a constraint such as "a100&ib|h100"; never a space or an option.
_ClusterWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:&|()*\[\]-]{0,99}$")]

Source = Annotated[
    Annotated[PackageSource, Tag(tag("package"))]
    | Annotated[PartsSource, Tag(tag("packages"))]
    | Annotated[HubSource, Tag(tag("repo"))]
    | Annotated[FolderSource, Tag(tag("folder"))]
    | Annotated[ServiceSource, Tag(tag("url"))],
    Discriminator(
        _source_kind,
        custom_error_type="source",
        custom_error_message=(
            "Give package and gguf, or packages, gguf and sha256, or repo and revision, or folder, or url and served"
        ),
    ),
]


class ClusterRequest(BaseModel):
    """What the job of one shard asks a cluster for, where the model needs other than the profile's defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_mb: int | None = Field(default=None, ge=256, le=16_777_216, description="Memory of the job, in MB.")
    minutes: int | None = Field(default=None, ge=1, le=43_200, description="Time limit of the job, in minutes.")
    gpu_model: _ClusterWord | None = Field(default=None, description="Model of the GPUs, as the cluster names it.")
    partition: _ClusterWord | None = Field(default=None, description="Partition that the job is sent to.")
    account: _ClusterWord | None = Field(default=None, description="Account that is charged.")
    constraint: _ClusterWord | None = Field(default=None, description="Features that the node must have.")


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        canonical_json(value)
    except (ValueError, TypeError):
        raise ValueError("must be what JSON can say: no dates, no NaN, no infinity") from None
    return value


def _check_argument(value: Any) -> Any:
    if isinstance(value, str) and (value.startswith("-") or "\0" in value):
        raise ValueError("may not begin with '-' (vLLM would take it for another argument) or hold NUL")
    if isinstance(value, int) and abs(value) > 10**18:
        raise ValueError("must be a number of at most 18 digits")
    return value


_Argument = Annotated[str | int | Annotated[float, Field(allow_inf_nan=False)] | bool, AfterValidator(_check_argument)]


class ModelEntry(BaseModel):
    """One model, as a study names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: Source
    dtype: Literal["bfloat16", "float16", "float32"] = Field(default="bfloat16", description="Data type.")
    max_model_len: int = Field(default=8192, ge=256, le=100_000_000, description="Context window, in tokens.")
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(_check_json)] = Field(
        default_factory=dict, description="Arguments of the model's chat template."
    )
    engine_args: dict[Slug, _Argument] = Field(
        default_factory=dict,
        description="Arguments of the vLLM server that may change replies; part of a result's identity.",
    )
    server_args: dict[Slug, _Argument] = Field(
        default_factory=dict,
        description="Arguments of the vLLM server that only concern the machine; not part of the identity.",
    )
    gpus: int = Field(
        default=1, ge=0, le=64, description="GPUs that one server uses (tensor parallel); 0 serves on the CPU."
    )
    cluster: ClusterRequest = Field(
        default=ClusterRequest(), description="What a shard asks a cluster for; not part of the identity."
    )
    limits: ServiceLimits = Field(
        default=ServiceLimits(), description="How much of a service may be used; not part of the identity."
    )
    price: Price | None = Field(
        default=None, description="What its tokens cost, for the budget of a study; not part of the identity."
    )
    note: str = Field(default="", max_length=300, description="What readers of its results should know.")
    deterministic: bool = Field(
        default=False,
        strict=True,
        description="Replies that do not depend on the batch: float32 on a CPU, batch-invariant kernels on a GPU.",
    )

    @model_validator(mode="after")
    def _leaves_ours_alone(self) -> "ModelEntry":
        for args in (self.engine_args, self.server_args):
            for key, value in args.items():
                # As vLLM's parser reads a name: '_' is '-', a beginning stands for the whole, '.' sets a part.
                name = key.split(".")[0].replace("_", "-").lower()
                if any(own.startswith(name) for own in _OWN_ARGUMENTS):
                    raise ValueError(
                        f"argument {key!r} is Parley's own, or would reach beyond its private socket or run code; "
                        "remove it"
                    )
                if not isinstance(value, bool) and not _SECRETS.isdisjoint(name.split("-")):
                    raise ValueError(f"argument {key!r} looks like a secret, and records are shared; remove it")
        return self

    @model_validator(mode="after")
    def _leaves_a_service_alone(self) -> "ModelEntry":
        if self.is_service:
            for key in ("engine_args", "server_args", "deterministic"):
                if getattr(self, key):
                    raise ValueError(f"{key} is for a server that Parley starts, not for a service; remove it")
            if self.gpus != ModelEntry.model_fields["gpus"].default:
                raise ValueError("gpus is for a server that Parley starts, a service has its own; remove it")
            for key in ("gpu_model", "memory_mb"):
                if getattr(self.cluster, key) is not None:
                    raise ValueError(
                        f"cluster.{key} is for a server that Parley starts, not for jobs that ask a service; remove it"
                    )
        elif self.limits != ServiceLimits():
            raise ValueError(
                "limits are for a service; a server that Parley starts takes what it can and queues the rest; "
                "remove them"
            )
        return self

    @property
    def is_service(self) -> bool:
        """Whether somebody else serves it: then no engine is started."""
        return isinstance(self.source, ServiceSource)

    @property
    def gpus_served(self) -> int:
        """GPUs of its server; none for a service."""
        return 0 if self.is_service else self.gpus

    def identity(self) -> dict[str, Any]:
        """Return what can change a reply: it goes into the spec hash of every simulation, and into its record.

        Of a local folder, and of paths among the arguments, only the last part: the rest names a place on one machine,
        and perhaps a person. Of a service only the model's name there, for the same reason.
        """
        found = self.model_dump(mode="json", exclude=_NO_IDENTITY)
        if isinstance(self.source, FolderSource):
            found["source"] = {"folder": last_part(self.source.folder)}
        elif isinstance(self.source, ServiceSource):
            found["source"] = {"served": self.source.served}
        found["engine_args"] = {
            key: without_folders(value) if isinstance(value, str) else value
            for key, value in found["engine_args"].items()
        }
        return {**found, "deterministic": True} if self.deterministic else found


def recorded_entry(identity: Mapping[str, Any]) -> ModelEntry:
    """Return the entry that an identity describes; a service has a URL that stands for the one it does not name.

    Raises pydantic's ValidationError if it describes none.
    """
    source = identity.get("source")
    if isinstance(source, Mapping) and set(source) == {"served"}:
        return ModelEntry.model_validate({**identity, "source": {"url": _UNKNOWN_URL, **source}})
    return ModelEntry.model_validate(identity)


# What only concerns the machine, the reader or the bill; `deterministic` is identity only where it is true.
_NO_IDENTITY = {"server_args", "gpus", "cluster", "limits", "price", "note", "deterministic"}
_SECRETS = {"key", "token", "secret", "password", "credentials"}
_OWN_ARGUMENTS = {
    "model",
    "uds",
    "host",
    "port",
    "served-model-name",
    "dtype",
    "max-model-len",
    "trust-remote-code",
    "config",  # a file with any of the others
    # What listens for, or on, other machines.
    "data-parallel-address",
    "data-parallel-rpc-port",
    "data-parallel-supervisor-port",
    "ec-transfer-config",
    "grpc",
    "grpc-port",
    "kv-events-config",
    "kv-transfer-config",
    "master-addr",
    "master-port",
    "nnodes",
    "weight-transfer-config",
    # What runs code, or reads pickled weights.
    "load-format",
    "logits-processors",
    "middleware",
    "reasoning-parser-plugin",
    "tool-parser-plugin",
    "worker-cls",
    "worker-extension-cls",
}

_Entries = dict[Slug, ModelEntry]


class ModelsFile(BaseModel):
    """The content of a models file."""

    model_config = ConfigDict(extra="forbid")
    models: Annotated[_Entries, Field(min_length=1)]


def load_models(path: Path) -> Mapping[str, ModelEntry]:
    """Read the model entries; raises UsageError naming file, key and remedy.

    Folders are resolved against the file's own place; the identity has their last part.
    """
    return validated(ModelsFile, load_yaml(path), str(path)).models


def model_entry(name: str, models_file: Path) -> ModelEntry:
    """Return one entry of a models file; raises UsageError naming those that are there."""
    entries = load_models(models_file)
    if name not in entries:
        raise UsageError(f"{models_file}: {name!r}: unknown model; choose one of: {', '.join(entries)}")
    return entries[name]
