"""What an entry says of a service: its dialect, how much it allows, what its tokens cost; and what a study may spend.

Services that call themselves OpenAI-compatible differ in what they take of a request, and in how they send reasoning.
What they refuse is not left out unseen: an entry says so, and what changes the question is part of the model's
identity. Limits and prices can change no reply.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from parley.policies import Sampling, Tokens
from parley.text import choose
from parley.text.yamlfile import FileModel

ApiName = Literal["chat", "messages", "responses"]
Structured = Literal["json_schema", "json_object", "tool", "none"]
JSON_SCHEMA: Structured = "json_schema"

# Read in 2026; each says where.
# platform.openai.com/docs: api-reference/chat (max_tokens is deprecated) and guides/structured-outputs, whose list of
# supported keywords has no lengths of strings ("'maxLength' is not permitted": jina-ai/node-DeepResearch#79).
_OPENAI = {"max_tokens_key": "max_completion_tokens", "schema_lengths": False}
# docs.anthropic.com/en/api/openai-sdk: seed is ignored, a temperature above 1 is capped. GET /v1/models wants headers
# of its own (docs.anthropic.com/en/api/models-list).
_ANTHROPIC = {"seed": False, "highest_temperature": 1.0, "lists_models": False}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "openai": _OPENAI,
    # learn.microsoft.com/azure/ai-services/openai/how-to/reasoning (no temperature, no max_tokens), and OpenAI's
    # guides/reasoning: room for 25,000 tokens to begin with, which are paid as a reply's.
    "openai-reasoning": {**_OPENAI, "temperature": False, "reasoning_tokens": 25_000},
    # platform.openai.com/docs, api-reference/responses: max_output_tokens, no seed, the form in text.format.
    "openai-responses": {**_OPENAI, "api": "responses", "seed": False},
    # docs.anthropic.com/en/api/openai-sdk: response_format is ignored, no reasoning is returned.
    "anthropic": {**_ANTHROPIC, "structured": "none"},
    # docs.claude.com/en/api/messages: the form of a reply is that of a tool's input.
    "anthropic-messages": {**_ANTHROPIC, "api": "messages", "structured": "tool"},
    # learn.microsoft.com/azure/ai-foundry/openai (api-version-lifecycle, v1): as OpenAI; its list has models and no
    # deployments, whose names are asked for.
    "azure": {**_OPENAI, "lists_models": False},
    # deepinfra.com/docs/advanced/json_mode: {"type": "json_object"} alone; some models write <think> into the reply.
    "deepinfra": {"structured": "json_object", "think_tags": True},
    # api-docs.deepseek.com, create-chat-completion and guides/json_mode: text or json_object, and no seed is named.
    "deepseek": {"structured": "json_object", "seed": False},
    # ai.google.dev/gemini-api/docs/openai names no seed; GET /models has other names of models (models/...).
    "gemini": {"seed": False, "lists_models": False},
    # console.groq.com/docs/openai and docs/structured-outputs: schemas in OpenAI's strict part, of some models.
    "groq": _OPENAI,
    # docs.mistral.ai/api, chat completions: random_seed in place of seed, temperatures up to 1.5.
    "mistral": {"seed_key": "random_seed", "highest_temperature": 1.5},
    # These take all that Parley sends: docs.ollama.com/openai, openrouter.ai/docs (api-reference/parameters),
    # docs.sglang.ai (basic_usage/openai_api), docs.together.ai (reference/chat-completions, docs/json-mode),
    # docs.vllm.ai (serving/openai_compatible_server). docs/how-to/services.md says what each does with it.
    **{name: {} for name in ("ollama", "openrouter", "sglang", "together", "vllm")},
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


class Dialect(FileModel):
    """What a service takes of a request, and how its replies are read."""

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
        description="Whether `<think>...</think>` and similar tags are taken off a reply as reasoning. By default "
        "they are. Part of the identity.",
    )
    code_fence: _Flag = Field(
        default=False,
        description="Whether the Markdown code fence that a whole reply stands in is taken off before it is read; the "
        "record keeps the reply as it came. Part of the identity.",
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
        if self.api == "messages" and self.structured not in ("tool", "none"):
            raise ValueError("structured: with api: messages one of tool and none")
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

        All before the last closing tag is thought: some templates write the first tag into the prompt. So is all after
        a tag that begins a line and is not closed. Tags in JSON are part of its texts.
        """
        if self.think_tags is False or _JSON.match(text):
            return None, text
        ends = [tag for tag in _TAG.finditer(text) if "/" in tag[0]]
        last = next((tag for tag in ends if _JSON.match(text, tag.end())), ends[-1] if ends else None)
        thoughts, rest = (text[: last.start()], text[last.end() :]) if last else ("", text)
        unclosed = None if _JSON.match(rest) else _FIRST_TAG.search(rest)
        if unclosed:
            thoughts, rest = f"{thoughts.strip()}\n\n{rest[unclosed.end() :]}", rest[: unclosed.start()]
        return _TAG.sub("", thoughts).strip() or None, rest.lstrip() if last or unclosed else text


# Of Qwen3 and DeepSeek-R1, Claude's prompts, Gemini and Gemma, Seed-OSS; Magistral; Kimi-VL.
_TAG = re.compile(r"</?(?:think(?:ing)?|thought|seed:think)>|\[/?THINK\]|◁/?think▷", re.IGNORECASE)
_FIRST_TAG = re.compile(rf"^[^\S\n]*(?:{_TAG.pattern})", re.IGNORECASE | re.MULTILINE)
_JSON = re.compile(r"\s*\{")
PLAIN = Dialect()


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
_PerMillion = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class ServiceLimits(FileModel):
    """How much of a service one process may use, which plays all of a study that asks it."""

    concurrent: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, description="Requests in flight at once."
    )
    patience_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0,
        description="How long a request that the service cannot answer for now (429, 5xx, a lost connection) is tried "
        "again; 0 gives up at once.",
    )


class Price(FileModel):
    """What a million tokens of a model cost, in whatever currency the study's budget has."""

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


class BudgetLimits(FileModel):
    """What the services of a study may spend; not part of any identity."""

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
