"""Model entries (`config/models.yaml`): what a study may name, and what of it can change a reply.

A command line may name a model that has none. Where its weights come from is in `sources.py`; `weights.py` prepares
them.
"""

import operator
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from parley.engine.arguments import argument_name, check_arguments, check_concern_the_machine, tensor_parallel
from parley.engine.grammar import LATEST, OF_OWN_SERVERS, GrammarVersion, grammar_version
from parley.engine.service.dialect import (
    MAX_REASONING,
    OWN_SECONDS,
    PLAIN,
    PRESETS,
    SERVICE_SECONDS,
    DialectField,
    Price,
    ServiceLimits,
)
from parley.engine.sources import FolderSource, HubSource, PathPlace, ServiceSource, Source
from parley.errors import UsageError, located, without_keys
from parley.identity import canonical_json
from parley.policies.reply_text import Reading
from parley.text import choose, one_line, without_folders
from parley.text.yamlfile import FileModel, Slug, load_yaml, validated, yaml_text
from parley.trust import MAKERS, names_own_code

# Stands for the URL where a record is all that is known of a service; the name resolves nowhere (RFC 2606).
UNKNOWN_URL = "http://service.invalid/v1"
# Stands for the places where a record is all that is known of a GGUF file.
UNKNOWN_PATH = "unknown.gguf"

# What may stand in a partition, an account or a constraint such as "a100&ib|h100"; never a space or an option.
_ClusterWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:&|()*\[\]-]{0,99}$")]


def _check_gres(value: str) -> str:
    if re.search(r":\d{1,2}$", value):
        raise ValueError("may not end in a number, which is that of the shard's gpus; leave it out")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(:[A-Za-z0-9_.-]+)?", value):
        raise ValueError("must be a name and perhaps a kind, such as gpu:a100")
    return value


class ClusterRequest(FileModel):
    """What the job of one shard asks a cluster for, where the model needs other than the profile's defaults."""

    memory_mb: int | None = Field(default=None, ge=256, le=16_777_216, description="Memory of the job, in MB.")
    minutes: int | None = Field(default=None, ge=1, le=43_200, description="Time limit of the job, in minutes.")
    gpu_model: _ClusterWord | None = Field(default=None, description="Model of the GPUs, as the cluster names it.")
    shards_per_job: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Shards that one job plays side by side, each with a server and GPUs of its own: for sites that "
        "give out whole nodes.",
    )
    partition: _ClusterWord | None = Field(default=None, description="Partition that the job is sent to.")
    account: _ClusterWord | None = Field(default=None, description="Account that is charged.")
    constraint: _ClusterWord | None = Field(default=None, description="Features that the node must have.")
    qos: _ClusterWord | None = Field(default=None, description="Quality of service, as the cluster names it.")
    gres: Annotated[str, AfterValidator(_check_gres)] | None = Field(
        default=None,
        description="For clusters that know no `--gpus`: what stands before the number in `--gres`, such as "
        "`gpu:a100`. The number is that of the shard's GPUs.",
    )
    exclusive: bool = Field(default=False, strict=True, description="Whether the job has its node for itself.")

    @model_validator(mode="after")
    def _asks_once_for_gpus(self) -> "ClusterRequest":
        if self.gres is not None and self.gpu_model is not None:
            raise ValueError("gpu_model goes with --gpus, which gres replaces; name the model in gres alone")
        return self


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    try:
        canonical_json(value)
    except (ValueError, TypeError):
        raise ValueError("must be plain JSON: no dates, NaN or infinity") from None
    return value


def _check_argument(value: Any) -> Any:
    if isinstance(value, str) and (value.startswith("-") or "\0" in value):
        raise ValueError("may not begin with '-' (vLLM would take it for another argument) or hold NUL")
    return value


_Argument = Annotated[str | int | Annotated[float, Field(allow_inf_nan=False)] | bool, AfterValidator(_check_argument)]


_OF_OWN_SERVERS = (
    *("engine_args", "server_args", "reasoning_tokens", "deterministic", "quantization", "grammar", "gpus"),
    *("cluster.gpu_model", "cluster.gres", "cluster.memory_mb"),
)
_OF_SERVICES = ("dialect", "limits")
_NO_PARSER = (
    "its thoughts would be part of its replies; add engine_args: {reasoning-parser: ...}, such as qwen3 or deepseek_r1"
)


# Sampling beyond temperature, which vLLM takes; nothing else of a request to a server of ours is an entry's.
_SAMPLED = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
# What Parley sends itself, or what would make another exchange of one question and one reply.
_NOT_EXTRA = frozenset(
    (
        *("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "seed", "response_format"),
        *("reasoning_effort", "thinking_token_budget", "chat_template_kwargs", "cache_salt", "structured_outputs"),
        *("system", "input", "instructions", "max_output_tokens", "previous_response_id", "background"),
        *("random_seed", "max_new_tokens", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        *("stream", "stream_options", "n", "best_of", "tools", "tool_choice", "functions", "function_call", "store"),
    )
)


class ModelEntry(FileModel):
    """One model, as a study names it."""

    # What is not excluded from its dump is its identity. Keys that came later are left out while they are not set.

    source: Source
    dtype: Literal["bfloat16", "float16", "float32"] = Field(default="bfloat16", description="Data type.")
    quantization: Literal["int8"] | None = Field(
        exclude_if=lambda given: given is None,
        default=None,
        description="int8: weights are rounded to 8 bits when they are prepared (a scale per channel), activations "
        "when they are served (a scale per token). For GGUF files.",
    )
    max_model_len: int = Field(default=8192, ge=256, le=100_000_000, description="Context window, in tokens.")
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(_check_json)] = Field(
        default_factory=dict, description="Arguments of the model's chat template."
    )
    reasoning_tokens: int = Field(
        exclude_if=operator.not_,
        default=0,
        ge=0,
        le=MAX_REASONING,
        description="Tokens that a model on a server of Parley's may think before its reply, added to those of the "
        "longest reply; engine_args needs its reasoning-parser. Part of the identity.",
    )
    extra: Annotated[dict[str, Any], AfterValidator(_check_json)] = Field(
        exclude_if=operator.not_,
        default_factory=dict,
        description="Fields that are sent with each request besides Parley's own: of a service any (`top_p`, "
        "`provider`, `thinking`, ...), of a server of Parley's " + ", ".join(f"`{name}`" for name in _SAMPLED) + ". "
        "Part of the identity.",
    )
    engine_args: dict[Slug, _Argument] = Field(
        default_factory=dict,
        description="Arguments of the vLLM server that may change replies; part of a result's identity.",
    )
    server_args: dict[Slug, _Argument] = Field(
        exclude=True,
        default_factory=dict,
        description="Arguments of the vLLM server that concern the machine alone (memory, parallelism, scheduling, "
        "logging; docs/reference/models.md lists them); not part of the identity.",
    )
    gpus: int = Field(
        exclude=True,
        default=1,
        ge=0,
        le=64,
        description="GPUs that one server uses, all for one copy of the model (tensor parallel) unless server_args "
        "name data-parallel-size; 0 serves on the CPU.",
    )
    cluster: ClusterRequest = Field(
        exclude=True,
        default=ClusterRequest(),
        description="What a shard asks a cluster for; not part of the identity.",
    )
    limits: ServiceLimits = Field(
        exclude=True,
        default=ServiceLimits(),
        description="How much of a service may be used; not part of the identity.",
    )
    dialect: DialectField = Field(
        exclude=True,
        default=PLAIN,
        description="What a service takes of a request: the name of a known one, or keys. What changes the question "
        "is part of the identity.",
        json_schema_extra={"default": "vllm"},
    )
    request_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = Field(
        exclude=True,
        default=None,
        description=f"How long a request may take until its whole reply is there; by default {SERVICE_SECONDS:.0f} "
        f"for a service and {OWN_SECONDS:.0f} for a server that Parley starts. Not part of the identity.",
    )
    price: Price | None = Field(
        exclude=True,
        default=None,
        description="What its tokens cost, for the budget of a study; not part of the identity.",
    )
    license: str = Field(
        exclude=True,
        default="",
        max_length=200,
        description="Name of the license of the weights; not part of the identity.",
    )
    download_bytes: int | None = Field(
        exclude=True,
        default=None,
        ge=1,
        le=10**14,
        description="Size of the weights before they are prepared, of a GGUF file exactly; not part of the identity.",
    )
    note: str = Field(exclude=True, default="", max_length=300, description="What readers of its results should know.")
    grammar: GrammarVersion = Field(
        exclude=True,  # each player's identity has its name
        default=LATEST,
        description="Version of the grammar of its replies. 2 leaves the length of texts to the parser, which cuts "
        "them. 1 bounds it, which makes a GPU wait for its CPU: the findings were played so. Part of the identity.",
    )
    deterministic: bool = Field(
        exclude_if=operator.not_,
        default=False,
        strict=True,
        description="Replies that do not depend on the batch: float32 on a CPU, batch-invariant kernels on a GPU.",
    )

    @model_validator(mode="after")
    def _leaves_ours_alone(self) -> "ModelEntry":
        free = ("engine_args", "server_args", "chat_template_kwargs", "extra")
        sent = {"source": {"served": self.served}, **{place: getattr(self, place) for place in free}}
        for place, fields in sent.items():
            for key, value in fields.items():
                if without_keys({key: value}) != {key: value}:
                    raise ValueError(f"{place}.{key}: looks like a key, and records are shared; remove it")
        check_arguments(self.engine_args)
        check_arguments(self.server_args)
        check_concern_the_machine(self.server_args)
        tensor_parallel(self.gpus, {**self.engine_args, **self.server_args})
        return self

    @model_validator(mode="after")
    def _has_keys_of_its_kind(self) -> "ModelEntry":
        own, service = "a server that Parley starts", "a service"
        keys, kinds = (_OF_OWN_SERVERS, (own, service)) if self.is_service else (_OF_SERVICES, (service, own))
        for key in keys:
            part, last = (self.cluster, key.removeprefix("cluster.")) if "." in key else (self, key)
            if getattr(part, last) != type(part).model_fields[last].get_default(call_default_factory=True):
                raise ValueError(f"{key}: only for {kinds[0]}, not for {kinds[1]}; remove it")
        if self.quantization is not None and isinstance(self.source, FolderSource | HubSource):
            raise ValueError(
                "quantization is made from GGUF files only; name a folder or repository whose weights are "
                "quantized, or remove it"
            )
        for name, value in self.extra.items():
            if name in _NOT_EXTRA:
                raise ValueError(f"extra.{name}: is Parley's own, or would change what one reply is; remove it")
            if not self.is_service and (name not in _SAMPLED or type(value) not in (int, float)):
                raise ValueError(f"extra.{name}: must be a number, and one of {', '.join(_SAMPLED)}")
        if self.reasoning_tokens and not self._parses_thoughts:
            raise ValueError(f"reasoning_tokens: {_NO_PARSER}")
        if self.cluster.gres is not None and self.gpus == 0:
            raise ValueError("cluster.gres asks for GPUs, and gpus is 0; remove one of them")
        return self

    @property
    def is_service(self) -> bool:
        """Whether somebody else serves it: then no engine is started."""
        return isinstance(self.source, ServiceSource)

    @property
    def _parses_thoughts(self) -> bool:
        return "reasoning-parser" in map(argument_name, self.engine_args)

    def check_thoughts(self) -> None:
        """Raise ValueError if its template is told to let it think, and nobody takes the thoughts off its replies."""
        thinks = any(map(self.chat_template_kwargs.get, ("enable_thinking", "thinking")))  # Qwen3's and DeepSeek's
        if thinks and not (self.is_service or self._parses_thoughts):
            raise ValueError(_NO_PARSER)

    @property
    def served(self) -> str | None:
        """The model's name at its service; None for a server that Parley starts, which gives it that of its entry."""
        return self.source.served if isinstance(self.source, ServiceSource) else None

    @property
    def context(self) -> int | None:
        """Its context window in tokens; None for a service whose entry does not say."""
        return self.max_model_len if not self.is_service or "max_model_len" in self.model_fields_set else None

    @property
    def deadline(self) -> float:
        """Seconds that a request may take, its whole reply included."""
        return self.request_seconds or (SERVICE_SECONDS if self.is_service else OWN_SECONDS)

    @property
    def grammar_name(self) -> str:
        """What holds its replies to their form, as identities and records say it."""
        return self.dialect.structured if self.is_service else OF_OWN_SERVERS[self.grammar]

    @property
    def reading(self) -> Reading:
        """How its replies are read: texts are cut to their fields where the grammar leaves their length open."""
        return Reading(not self.is_service and self.grammar == 2, self.dialect.code_fence)

    @property
    def gpus_served(self) -> int:
        """GPUs of its server; none for a service."""
        return 0 if self.is_service else self.gpus

    def identity(self) -> dict[str, Any]:
        """Return what can change a reply: it goes into the spec hash of every simulation, and into its record.

        Of a local folder, and of paths among the arguments, only the last part: the rest names a place on one machine,
        and perhaps a person. Of a service only the model's name there, for the same reason. Of a GGUF file its hash.
        """
        identity = self.model_dump(mode="json") | {"source": self.source.identity()}
        identity["engine_args"] = {
            key: without_folders(value) if isinstance(value, str) else value
            for key, value in identity["engine_args"].items()
        }
        dialect = self.dialect.identity()
        return {**identity, "dialect": dialect} if dialect else identity


def recorded_entry(identity: Mapping[str, Any], grammar: str | None) -> ModelEntry:
    """Return the entry that an identity and the name of a grammar describe.

    Stand-ins are for what they do not say: where a service answers, and where a GGUF file can be had.

    Raises pydantic's ValidationError if it describes none.
    """
    version, source = grammar_version(grammar), identity.get("source")
    unknown: Mapping[str, Any] = {"served": {"url": UNKNOWN_URL}, "sha256": {"from": [{"path": UNKNOWN_PATH}]}}
    if isinstance(source, Mapping) and len(source) == 1:
        source = {**source, **unknown.get(next(iter(source)), {})}
    return ModelEntry.model_validate({**identity, "source": source} | ({"grammar": version} if version else {}))


class ModelsFile(FileModel):
    """The content of a models file."""

    models: Annotated[dict[Slug, ModelEntry], Field(min_length=1)]


class ModelEntries(dict[str, ModelEntry]):
    """The valid entries by name. Who looks for another one with `in` gets the UsageError of what is wrong with it."""

    def __init__(self, entries: Mapping[str, ModelEntry], problems: Mapping[str, UsageError] = MappingProxyType({})):
        super().__init__(entries)
        self.problems = problems

    def __contains__(self, name: object) -> bool:
        if name in self.problems:
            raise self.problems[str(name)]
        return super().__contains__(name)


def load_models(path: Path) -> ModelEntries:
    """Read the model entries; raises UsageError naming file, key and remedy for what is no file of them.

    What is wrong with one entry is of no concern to who uses others. Folders are resolved against the file's own
    place; the identity has their last part.
    """
    content = load_yaml(path)
    written = content.get("models") if isinstance(content, dict) else None
    if not isinstance(written, dict) or not written:
        return ModelEntries(validated(ModelsFile, content, str(path)).models)
    entries, problems = dict[str, ModelEntry](), dict[str, UsageError]()
    for name, entry in written.items():
        try:
            [[name, entry]] = validated(ModelsFile, {**content, "models": {name: entry}}, str(path)).models.items()
            entry.check_thoughts()
            entries[name] = entry
        except UsageError as error:
            problems[name] = error
        except ValueError as error:
            problems[name] = UsageError(f"{path}: models.{name}.chat_template_kwargs: {error}")
    return ModelEntries(entries, problems)


def known_models(path: Path) -> Mapping[str, ModelEntry]:
    """Return the model entries of a file; none if there is no such file."""
    return load_models(path) if path.is_file() else {}


def model_entry(name: str, models_file: Path) -> ModelEntry:
    """Return one entry of a models file; raises UsageError naming those that are there."""
    entries = load_models(models_file)
    if name not in entries:
        raise UsageError(f"{models_file}: {name!r}: unknown model; {choose(name, entries)}")
    return entries[name]


# Models that a command line names, without an entry in a file


_API_PATHS = {"deepinfra": "v1/openai", "gemini": "v1beta/openai", "groq": "openai/v1", "openrouter": "api/v1"}
_URL_AND_NAME = re.compile(r"(https?://([^/\s@]+)/[^:\s]*):(.+)")


def named_model(text: str) -> tuple[str, ModelEntry, str] | None:
    """Return what `openai:NAME`, `ollama:NAME`, `URL:NAME`, `hf:OWNER/NAME@COMMIT` or `gguf:PATH` stands for.

    That is a name, the entry, and the models file that would have it; None for a name without a colon, or that of own
    code. Raises UsageError, or EngineError, for what is no model, or not here.
    """
    kind, _, rest = text.partition(":")
    variable = f"{kind.upper()}_API_KEY"
    source: dict[str, Any]
    if kind == "ollama":  # which lists models with their tags
        source = {"url": "http://127.0.0.1:11434/v1", "served": rest if ":" in rest else f"{rest}:latest"}
    elif kind == kind.lower() and kind.isascii() and variable in MAKERS:
        url = f"https://{MAKERS[variable]}/{_API_PATHS.get(kind, 'v1')}"
        source = {"url": url, "served": rest, "key_variable": variable}
    elif found := _URL_AND_NAME.fullmatch(text):
        source, kind, rest = {"url": found[1], "served": found[3]}, found[2], found[3]
    elif kind == "hf":
        rest, _, revision = rest.partition("@")
        if not revision:  # a branch would not be pinned
            raise UsageError("--model hf:...: no revision; write hf:OWNER/NAME@COMMIT, with 40 hexadecimal digits")
        source = {"repo": rest, "revision": revision}
    elif kind == "gguf":
        from parley.engine.gguf_files import sha256_of  # slow to import

        with located("--model gguf"):
            [path] = PathPlace(path=rest).local(Path("models.yaml"))
        source, rest = {"sha256": sha256_of([path], "checking the file"), "from": [{"path": str(path)}]}, path.stem
    elif ":" in text and not names_own_code(text):
        services = [name.removesuffix("_API_KEY").lower() for name in MAKERS]
        known = [*services, "ollama", "hf", "gguf", "http://HOST:PORT/v1"]
        raise UsageError(f"--model {one_line(kind, 60)!r}:...: {choose(kind, known)}")
    else:
        return None
    dialect = {"anthropic": "anthropic-messages"}.get(kind, kind)
    content = {"source": source} | ({"dialect": dialect} if dialect in PRESETS else {})
    name = re.sub(r"[^A-Za-z0-9._-]+|\.\.+", "-", f"{kind}-{rest}")[:64].strip("._-")
    models = {"models": {name: content}}
    return name, validated(ModelsFile, models, "--model").models[name], yaml_text(models)


Answered = Literal["same", "version", "other"]
# What services append to an alias: gpt-4o-2024-08-06, gpt-4-0613, claude-3-5-haiku-20241022, gemini-1.5-flash-002.
_VERSION = re.compile(r"[-@](?:preview-)?(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}|\d{3,8})(?:-v\d+(?::\d+)?)?")


def compare_names(asked: str, answered: str) -> Answered:
    """Return what an answer's name of the model means: the same model, a dated version of it, or another one.

    Upper and lower case are one, and an owner's name before "/" counts only where both have one. `asked` may end in
    "-latest".
    """
    first, second = asked.lower(), answered.lower()
    if ("/" in first) != ("/" in second):
        first, second = first.rpartition("/")[2], second.rpartition("/")[2]
    if first == second:
        return "same"
    stem = first.removesuffix("-latest")
    return "version" if second.startswith(stem) and _VERSION.fullmatch(second[len(stem) :]) else "other"
