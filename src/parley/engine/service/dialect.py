"""What an entry says of a service: its dialect, how much it allows, what its tokens cost; and what a study may spend.

Services that call themselves OpenAI-compatible differ in what they take of a request, and in how they send reasoning.
What they refuse is not left out unseen: an entry says so, and what changes the question is part of the model's
identity. Limits and prices can change no reply.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from parley.policies import Sampling, Tokens
from parley.text import choose

ApiName = Literal["chat", "messages", "responses"]
Structured = Literal["json_schema", "json_object", "tool", "none"]
JSON_SCHEMA: Structured = "json_schema"

# Read in 2026; each says where.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # platform.openai.com/docs: api-reference/chat (max_tokens is deprecated) and guides/structured-outputs, whose list
    # of supported keywords has no lengths of strings ("'maxLength' is not permitted": jina-ai/node-DeepResearch#79).
    "openai": {"max_tokens_key": "max_completion_tokens", "schema_lengths": False},
    # learn.microsoft.com/azure/ai-services/openai/how-to/reasoning (no temperature, no max_tokens), and OpenAI's
    # guides/reasoning: room for 25,000 tokens to begin with, which are paid as a reply's.
    "openai-reasoning": {
        "max_tokens_key": "max_completion_tokens",
        "schema_lengths": False,
        "temperature": False,
        "reasoning_tokens": 25_000,
    },
    # platform.openai.com/docs, api-reference/responses: max_output_tokens, no seed, the form in text.format.
    "openai-responses": {
        "api": "responses",
        "max_tokens_key": "max_completion_tokens",
        "schema_lengths": False,
        "seed": False,
    },
    # docs.anthropic.com/en/api/openai-sdk: response_format and seed are ignored, a temperature above 1 is capped, and
    # no reasoning is returned. Its GET /v1/models wants headers of its own (docs.anthropic.com/en/api/models-list).
    "anthropic": {"structured": "none", "seed": False, "highest_temperature": 1.0, "lists_models": False},
    # docs.claude.com/en/api/messages: no seed, temperatures up to 1; the form of a reply is that of a tool's input.
    "anthropic-messages": {
        "api": "messages",
        "structured": "tool",
        "seed": False,
        "highest_temperature": 1.0,
        "lists_models": False,
    },
    # learn.microsoft.com/azure/ai-foundry/openai (api-version-lifecycle, v1): as OpenAI; its list has models and no
    # deployments, whose names are asked for.
    "azure": {"max_tokens_key": "max_completion_tokens", "schema_lengths": False, "lists_models": False},
    # deepinfra.com/docs/advanced/json_mode: {"type": "json_object"} alone; some models write <think> into the reply.
    "deepinfra": {"structured": "json_object", "think_tags": True},
    # api-docs.deepseek.com, create-chat-completion and guides/json_mode: text or json_object, and no seed is named.
    "deepseek": {"structured": "json_object", "seed": False},
    # ai.google.dev/gemini-api/docs/openai names no seed; GET /models has other names of models (models/...).
    "gemini": {"seed": False, "lists_models": False},
    # console.groq.com/docs/openai and docs/structured-outputs: schemas in OpenAI's strict part, of some models.
    "groq": {"max_tokens_key": "max_completion_tokens", "schema_lengths": False},
    # docs.mistral.ai/api, chat completions: random_seed in place of seed, temperatures up to 1.5.
    "mistral": {"seed_key": "random_seed", "highest_temperature": 1.5},
    # docs.ollama.com/openai: takes all that Parley sends. A prompt beyond its context is cut there without a word.
    "ollama": {},
    # openrouter.ai/docs (api-reference/parameters): what a provider does not take is left out without a word, unless
    # extra has provider: {require_parameters: true}.
    "openrouter": {},
    # docs.sglang.ai (basic_usage/openai_api): takes all of it; a seed counts with --enable-deterministic-inference.
    "sglang": {},
    # docs.together.ai (reference/chat-completions, docs/json-mode): takes all of it; schemas with some models.
    "together": {},
    # docs.vllm.ai, serving/openai_compatible_server: takes all that Parley sends; features/reasoning_outputs.
    "vllm": {},
    # github.com/ggml-org/llama.cpp, tools/server/README.md: takes all of it; with --reasoning-format none the
    # thoughts stay in the reply.
    "llama.cpp": {"think_tags": True},
}


def _known(name: str) -> str:
    if name not in PRESETS:
        raise ValueError(f"unknown preset; {choose(name, PRESETS)}")
    return name


Preset = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*PRESETS]})]
MAX_REASONING = 1_000_000
_Flag = Annotated[bool, Field(strict=True)]


class Dialect(BaseModel):
    """What a service takes of a request, and how its replies are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Preset | None = Field(default=None, description="A known service, whose keys count where none are given.")
    api: ApiName = Field(
        default="chat",
        description="OpenAI's chat completions, Anthropic's Messages, or OpenAI's Responses. Part of the identity.",
    )
    structured: Structured = Field(
        default=JSON_SCHEMA,
        description="What holds a reply in JSON to its form: a schema, any JSON object, the input of a `tool` (with "
        "`api: messages`), or nothing. It is parsed as strictly in any case. Part of the identity.",
    )
    schema_lengths: _Flag = Field(
        default=True,
        description="Whether the schema says how long texts may be, which OpenAI refuses. Part of the identity.",
    )
    seed: _Flag = Field(default=True, description="Whether it takes a seed. Part of the identity.")
    temperature: _Flag = Field(
        default=True,
        description="Whether it takes a temperature; without, the model's own counts. Part of the identity.",
    )
    highest_temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None, description="A higher one ends the simulation, where the service would lower it unseen."
    )
    max_tokens_key: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="What it calls the longest reply."
    )
    seed_key: Literal["seed", "random_seed"] = Field(default="seed", description="What it calls the seed.")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        default=None, description="How much the model is asked to reason. Part of the identity."
    )
    reasoning_tokens: int = Field(
        default=0,
        ge=0,
        le=MAX_REASONING,
        description="Tokens for reasoning, added to those of the longest reply. Part of the identity.",
    )
    think_tags: _Flag | None = Field(
        default=None,
        description="Whether `<think>...</think>`, and the like, are taken off a reply as reasoning. Without "
        "the key it is, with a warning. Part of the identity.",
    )
    lists_models: _Flag = Field(
        default=True, description="Whether `GET /models` is asked before the first request, for the model's name."
    )

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(preset := value.get("preset"), str):
            return {**PRESETS.get(preset, {}), **value}
        return value

    @model_validator(mode="after")
    def _is_one_that_there_is(self) -> "Dialect":
        of_messages = ("tool", "none")
        if self.api == "messages" and self.structured not in of_messages:
            raise ValueError(f"structured: with api: messages one of {' and '.join(of_messages)}")
        if self.api != "messages" and self.structured == "tool":
            raise ValueError("structured: tool is for api: messages alone; write json_schema")
        return self

    def identity(self) -> dict[str, Any]:
        """Return what changes the question, or what is taken for the reply; nothing for a service that takes all."""
        unasked = {"preset", "highest_temperature", "max_tokens_key", "seed_key", "lists_models"}
        if self.structured not in (JSON_SCHEMA, "tool"):
            unasked.add("schema_lengths")
        return self.model_dump(mode="json", exclude=unasked, exclude_defaults=True)

    def fields(self, sampling: Sampling, seed: int) -> dict[str, Any]:
        """Return the fields of a request that say how a reply is sampled."""
        return {
            **({"temperature": sampling.temperature} if self.temperature else {}),
            self.max_tokens_key: self.longest(sampling),
            **({self.seed_key: seed} if self.seed else {}),
            **({} if self.reasoning_effort is None else {"reasoning_effort": self.reasoning_effort}),
        }

    def longest(self, sampling: Sampling) -> int:
        """Return the most tokens that a reply may have, with its reasoning; one token, as fills a cache, has none."""
        return sampling.max_tokens + (self.reasoning_tokens if sampling.max_tokens > 1 else 0)

    def split(self, text: str) -> tuple[str | None, str]:
        """Return the thoughts in the tags of a reply, if they are looked for, and the rest of it.

        Some chat templates write the first tag into the prompt; a thought without an end is all of the rest. Tags in
        JSON are part of its texts.
        """
        thoughts: list[str] = []
        kept, rest = "", text
        while self.think_tags is not False and len(thoughts) < _THOUGHTS and not _JSON.match(rest):
            begins, end, depth = None, None, 0
            for tag in _TAG.finditer(rest):
                is_end = "/" in tag[0]
                begins = tag.start() if begins is None and not is_end else begins
                end, depth = (tag, depth - 1) if is_end else (end, depth + 1)
                if is_end and (depth <= 0 or _JSON.match(rest, tag.end())):
                    break
            if end is None and (begins is None or rest[:begins].rpartition("\n")[2].strip()):
                break  # no tag, or its word within a line
            start = begins or 0 if thoughts or end is None else 0  # what stood before the first thought is part of it
            stop, after = end.span() if end else (len(rest), len(rest))
            thoughts.append(_TAG.sub("", rest[start:stop]).strip())
            kept, rest = kept + rest[:start], rest[after:]
        return "\n\n".join(filter(None, thoughts)) or None, (kept + rest).lstrip() if thoughts else text

    def remedy(self, message: str, param: str = "") -> str | None:
        """Return what to change in the entry where a service refuses a key, in words; None if it refuses none.

        `message` is what it said, and `param` the key that it named, if it did so apart.
        """
        if not _REFUSAL.search(message):
            return None
        named = {key: place for key, words in _NAMES.items() if (place := _place(words, message, param)) is not None}
        for key in sorted(named, key=lambda name: named[name]):
            if found := self._instead(key, message):
                return found
        return None

    def _instead(self, key: str, message: str) -> str | None:
        if key == "chat_template_kwargs":
            return "it takes no chat_template_kwargs: remove them from its entry"
        if key == "system":
            return "it takes no system prompt: write system: fold in its entry"
        if key == "reasoning_effort" and self.reasoning_effort is not None:
            return "it does not take this reasoning_effort: give another one in its dialect, or none"
        if key == self.max_tokens_key and self.api == "chat":
            return self._put(key, max_tokens_key=next(other for other in _LIMITS if other != key))
        if key in ("temperature", "seed") and getattr(self, key):
            return self._put(key, **{key: False})
        if key == "response_format" and self.structured not in ("tool", "none"):
            return self._other_format(message)
        return None

    def _other_format(self, message: str) -> str:
        """Return the next best that holds a reply to its form, by what the service says of response_format."""
        if self.structured == JSON_SCHEMA:
            if self.schema_lengths and re.search(r"(?:max|min)Length|parse grammar|JSON schema contains", message):
                return self._put("length in a schema", schema_lengths=False)
            named = re.search(r"json_schema|json_object|invalid schema", message, re.IGNORECASE)
            return self._put("json_schema", structured="json_object" if named else "none")
        if "json_schema" in message:
            return self._put("json_object", structured="json_schema")
        return self._put("json_object", structured="none")

    def _put(self, key: str, **change: Any) -> str:
        """Return in words that a key is refused, and the dialect that would do, as its entry writes it."""
        changed = {**self.model_dump(mode="json"), **change}
        usual = {**_PLAIN, **PRESETS.get(self.preset or "", {})}
        other = {name: value for name, value in changed.items() if value != usual[name]}
        remedy = [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in other.items()]
        return f"it takes no {key}: write dialect: {{{', '.join(remedy)}}} in its entry"


_THOUGHTS = 100  # at most, of one reply
# Of Qwen3 and DeepSeek-R1, Claude's prompts, Gemini and Gemma, Seed-OSS; Magistral; Kimi-VL.
_TAG = re.compile(r"</?(?:think(?:ing)?|thought|seed:think)>|\[/?THINK\]|◁/?think▷", re.IGNORECASE)
_JSON = re.compile(r"\s*\{")
_LIMITS = ("max_tokens", "max_completion_tokens")
_PLAIN = Dialect().model_dump(mode="json")
PLAIN = Dialect()
# The words of: OpenAI ("Unsupported parameter: 'max_tokens' is not supported with this model", "Unrecognized request
# argument supplied: ...": langchain_dart#712), Anthropic ("`temperature` is deprecated for this model": picoclaw#2939;
# "response_format: Extra inputs are not permitted": amrit110/oli#7), DeepInfra ("json_object response format is not
# supported for model": truefoundry/models#913), pydantic behind vLLM and others ("extra_forbidden":
# langchain-azure#82), llama.cpp ("response_format type must be one of": llama.cpp#9522), LM Studio, DeepSeek, xAI,
# Moonshot ("only 1 is allowed"), Gemini ("Developer instruction is not enabled"), templates ("roles must alternate").
_REFUSAL = re.compile(
    r"unsupported|not (?:be )?support|not permitted|not allowed|does not support|un(?:recognized|known|expected)|"
    r"unavailable|deprecated|may only be|forbidden|must be (?:one of|'json_schema')|invalid (?:schema|value)|"
    r"not enabled|only .{0,40}(?:is|are) (?:allowed|supported|enabled)|enabled only|must alternate|parse grammar",
    re.IGNORECASE,
)
_NAMES = {
    "max_tokens": r"max_tokens",
    "max_completion_tokens": r"max_completion_tokens",
    "temperature": r"temperature",
    "seed": r"seed",
    "response_format": r"response[_ ](?:format|schema)|json_schema|json_object|JSON schema|(?i:json mode)|"
    r"(?:max|min)Length|parse grammar",
    "reasoning_effort": r"reasoning_effort",
    "chat_template_kwargs": r"chat_template_kwargs",
    "system": r"['\"]system['\"]|[Ss]ystem (?:role|prompt|message|instruction)s?|Developer instruction|"
    r"assistant roles|roles must alternate",
}


def _place(words: str, message: str, param: str) -> int | None:
    """Return where a message names a key; before it all if the service named the key apart."""
    if re.match(words, param):
        return -1
    found = re.search(rf"(?<!\w)(?:{words})(?!\w)", message)
    return found.start() if found else None


def _of_name(value: Any) -> Any:
    """Return the dialect that the name of a preset stands for."""
    if not isinstance(value, str | Mapping | Dialect):
        raise ValueError("must be the name of a preset, or a mapping of keys")
    return {"preset": _known(value)} if isinstance(value, str) else value


DialectField = Annotated[Dialect, BeforeValidator(_of_name, json_schema_input_type=Dialect | Preset)]


# How long a request may take, its whole answer included, where its model's entry does not say.
SERVICE_SECONDS = 1800.0
OWN_SECONDS = 7200.0  # a request waits behind all others of the shard; on a slow CPU that can be most of an hour
DEFAULT_CONCURRENT = 64  # requests that are worth having in flight where nothing says how many may be
_PerMinute = Annotated[int, Field(strict=True, ge=1, le=10**12)]
_PerMillion = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class ServiceLimits(BaseModel):
    """How much of a service one process may use, which plays all of a study that asks it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrent: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, description="Requests in flight at once."
    )
    requests_per_minute: _PerMinute | None = Field(default=None, description="Requests begun in any minute.")
    tokens_per_minute: _PerMinute | None = Field(
        default=None, description="Tokens of prompts and replies of the requests begun in any minute."
    )
    patience_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0,
        description="How long a request that the service cannot answer for now (429, 5xx, a lost connection) is tried "
        "again; 0 gives up at once, and after 30 s a service that never answered.",
    )

    @property
    def any(self) -> bool:
        """Whether requests have to wait for their turn."""
        bounds = (self.concurrent, self.requests_per_minute, self.tokens_per_minute)
        return any(bound is not None for bound in bounds)


class Price(BaseModel):
    """What a million tokens of a model cost, in whatever currency the study's budget has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: _PerMillion = Field(description="A million tokens of prompts.")
    completion: _PerMillion = Field(description="A million tokens of replies.")
    cached: _PerMillion | None = Field(
        default=None, description="A million tokens of prompts that the service had in its cache; default: `prompt`."
    )

    def of(self, tokens: Tokens) -> float:
        """Return what `tokens` cost."""
        cached = self.prompt if self.cached is None else self.cached
        from_cache = min(tokens.cached, tokens.prompt)
        fresh = (tokens.prompt - from_cache) * self.prompt + tokens.completion * self.completion
        return (fresh + from_cache * cached) / 1e6

    def most(self, tokens: Tokens) -> float:
        """Return what `tokens` cost at most, wherever the service takes the prompt from."""
        return max(self.of(tokens), self.of(Tokens(tokens.prompt, tokens.completion, tokens.prompt)))


class BudgetLimits(BaseModel):
    """What the services of a study may spend; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: Annotated[int, Field(strict=True, ge=1, le=10**15)] | None = Field(
        default=None, description="Tokens of prompts and replies."
    )
    cost: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        default=None, description="Money, by the `price` of the services' entries and in its currency."
    )

    @model_validator(mode="after")
    def _says_something(self) -> "BudgetLimits":
        if self.tokens is None and self.cost is None:
            raise ValueError("give tokens, or cost, or both")
        return self
