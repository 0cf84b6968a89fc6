"""Services that refuse a key, with what they say then; each with the place where somebody quotes it."""

from collections.abc import Callable
from typing import Any

from support.answering import Answer, as_recorded

Asked = dict[str, Any]


def openai(message: str, param: str | None, code: str | None) -> tuple[int, Asked]:
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _structured(kind: str) -> Callable[[Asked], bool]:
    return lambda body: body.get("response_format", {}).get("type") == kind


def _has_lengths(body: Asked) -> bool:
    return "maxLength" in str(body.get("response_format"))


def _has(key: str) -> Callable[[Asked], bool]:
    return lambda body: key in body


# Name: which requests it refuses, the answer, and what of the dialect would do.
REFUSALS: dict[str, tuple[Callable[[Asked], bool], tuple[int, Any], str]] = {
    # OpenAI: ai_automation_suggester#38
    "openai max_tokens": (
        _has("max_tokens"),
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
            "instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        "max_tokens_key: max_completion_tokens",
    ),
    # OpenAI: Cursor-Azure-GPT-5#33
    "openai temperature": (
        _has("temperature"),
        openai(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
            "supported.",
            "temperature",
            "unsupported_value",
        ),
        "temperature: false",
    ),
    # OpenAI: node-DeepResearch#79
    "openai maxLength": (
        _has_lengths,
        openai(
            "Invalid schema for response_format 'propose': In context=('properties', 'internal_strategy'), "
            "'maxLength' is not permitted.",
            "response_format",
            None,
        ),
        "schema_lengths: false",
    ),
    # OpenAI: langchain#31490
    "openai json_schema": (
        _structured("json_schema"),
        openai(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more "
            "about supported models at the Structured Outputs guide: "
            "https://platform.openai.com/docs/guides/structured-outputs",
            None,
            None,
        ),
        "structured: json_object",
    ),
    # OpenAI: openai-php/client#259
    "openai json_object": (
        _structured("json_object"),
        openai(
            "Invalid parameter: 'response_format' of type 'json_object' is not supported with this model.",
            "response_format",
            None,
        ),
        "structured: none",
    ),
    # Anthropic's OpenAI-compatible endpoint: picoclaw#2939
    "anthropic temperature": (
        _has("temperature"),
        openai("temperature is deprecated for this model.", None, "invalid_request_error"),
        "temperature: false",
    ),
    # Anthropic: amrit110/oli#7
    "anthropic response_format": (
        _has("response_format"),
        openai("response_format: Extra inputs are not permitted", None, None),
        "structured: none",
    ),
    # DeepInfra: truefoundry/models#913
    "deepinfra json_object": (
        _structured("json_object"),
        (
            405,
            {
                "error": {
                    "message": "json_object response format is not supported for model: stepfun-ai/Step-3.5-Flash",
                    "type": "APIError",
                    "code": "405",
                }
            },
        ),
        "structured: none",
    ),
    # FastAPI, as behind DeepInfra, Mistral and older vLLM: langchain-azure#82
    "fastapi seed": (
        _has("seed"),
        (
            422,
            {
                "detail": [
                    {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}
                ]
            },
        ),
        "seed: false",
    ),
    # llama.cpp before September 2024: llama.cpp#9522
    "llama.cpp json_schema": (
        _structured("json_schema"),
        (
            500,
            {
                "error": {
                    "code": 500,
                    "message": 'response_format type must be one of "text" or "json_object", but got: json_schema',
                    "type": "server_error",
                }
            },
        ),
        "structured: json_object",
    ),
    # LM Studio 0.4.20: webai-at-home#219
    "lm studio json_object": (
        _structured("json_object"),
        (400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}),
        "structured: json_schema",
    ),
    # DeepSeek: deep-research#22
    "deepseek json_schema": (
        _structured("json_schema"),
        openai("Failed to deserialize: response_format.type: `json_schema` is unavailable now", None, None),
        "structured: json_object",
    ),
    # A server that knows the old key alone
    "max_completion_tokens": (
        _has("max_completion_tokens"),
        openai("Unrecognized request argument supplied: max_completion_tokens", None, None),
        "max_tokens_key: max_tokens",
    ),
}


def refusing(names: list[str], otherwise: Answer = as_recorded) -> Answer:
    """Return what a service answers that refuses these in turn, and otherwise replies."""

    def answer(body: Asked) -> Any:
        for name in names:
            refuses, said, _ = REFUSALS[name]
            if refuses(body):
                return said
        return otherwise(body)

    return answer
