"""What services say in place of a reply, in their own words: from their documents, and from public bug reports."""

import json
from typing import Any

import pytest

from parley.engine.service.fetch import Response
from parley.policies.reply_text import read_reply
from support.answering import StandInService, ask, completion, error, first_ask


def said(message: str, code: object = None, kind: str = "invalid_request_error", **more: object) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code, **more}}


TOO_LONG = [
    (400, said("This model's maximum context length is 8192 tokens. However, you requested 9000.", 400)),  # vLLM
    (400, said("The decoder prompt (length 9000) is longer than the maximum model length of 8192.", 400)),  # vLLM
    (400, said("Input tokens exceed the configured limit of 272000 tokens.", "context_length_exceeded")),  # GPT-5
    (400, said("Input tokens exceed the configured limit of 272000 tokens.")),
    (400, said("the request exceeds the available context size", 400, "exceed_context_size_error")),  # llama.cpp
    (400, {"type": "error", **said("prompt is too long: 203000 tokens > 199999 maximum")}),  # Anthropic
    (400, said("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")),  # Anthropic
    (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),  # Anthropic
    (400, [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "The input token count (1200000) exceeds "
                      "the maximum number of tokens allowed (1048576)."}}]),  # Gemini
    (400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
           "32768 maximum context length", "type": "invalid_request_message_order", "code": 3051}),  # Mistral
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 "
           "`inputs` tokens and 300 `max_new_tokens`", "error_type": "validation"}),  # TGI, Together
    (400, said("The input (9000 tokens) is longer than the model's context length (8192 tokens).")),  # SGLang
    (500, {"error": "the input length exceeds the context length"}),  # Ollama
    (400, said("Please reduce the length of the messages or completion.", "context_length_exceeded")),  # Cerebras
    (400, said("Provider returned error", 400, metadata={"raw": json.dumps(said("prompt is too long"))})),
    (400, {"message": "Input is too long for requested model."}),  # Bedrock
    (400, said("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)")),  # Moonshot
    (400, said("Prompt exceeds max length", "1261")),  # Zhipu
    (400, said("invalid params, context window exceeds limit (2013)")),  # MiniMax
    (413, said("Request body too large for gpt-4o model. Max size: 8000 tokens.", "tokens_limit_reached")),  # GitHub
    (400, {"error": "prompt too long; exceeded max context length by 12 tokens"}),  # Ollama
    (422, {"error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"}),  # TGI
    (400, said("Unable to submit request because the input token count is 40000 but model only supports up to 32768.",
               400, status="INVALID_ARGUMENT")),  # Vertex
    (400, said("Total tokens of image and text exceed max message tokens.", "InvalidParameter")),  # Volcengine
    (400, said("prompt tokens too long", "336007")),  # Baidu
    (413, {"errors": [{"message": "AiError: The estimated number of input and maximum output tokens (9000) exceeded "
                       "this model context window limit (8192).", "code": 5021}], "success": False}),  # Cloudflare
    (400, said("the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model")),  # watsonx
    (400, said("Prompt length (9000) exceeds maximum input length (8192).")),  # TensorRT-LLM
    (500, said("Context size has been exceeded.")),  # llama.cpp
    (400, {"error": "The number of tokens to keep from the initial prompt is greater than the context length."}),
    (400, said("Invalid 'messages[1].content': string too long.", "string_above_max_length")),  # OpenAI
    (413, "<html><h1>413 Request Entity Too Large</h1></html>"),  # nginx
]  # fmt: skip
FILTERED = [
    (400, said("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
               "content_filter", innererror={"code": "ResponsibleAIPolicyViolation"})),  # Azure
    (400, said("Invalid prompt: your prompt was flagged as violating our usage policy.", "invalid_prompt")),  # OpenAI
    (400, said("Content Exists Risk")),  # DeepSeek
    (403, said("openai/gpt-4o requires moderation. Your input was flagged for 'violence'.", 403)),  # OpenRouter
    (400, said("Input data may contain inappropriate content.", "data_inspection_failed")),  # DashScope
    (200, {"error": {"code": 403, "message": "Your input was flagged"}}),
    (400, said("Output blocked by content filtering policy")),  # Anthropic
    (400, said("System detected potentially unsafe or sensitive content in input or generation.", "1301")),  # Zhipu
    (400, said("The request was rejected because it was considered high risk", kind="content_filter")),  # Moonshot
    (403, {"code": "The caller does not have permission to execute the specified operation",
           "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}),  # xAI
    (400, said("The request failed because the input text may contain sensitive information.",
               "InputTextSensitiveContentDetected")),  # Volcengine
    (400, said("This prompt contains sensitive words that violate Google's Responsible AI practices.", 400)),  # Vertex
    (400, {"message": "blocked input: please try again with a different prompt"}),  # Cohere
    (400, said("input new_sensitive (1026)", "1026")),  # MiniMax
    (400, said("Request was blocked due to PROHIBITED_CONTENT", 400)),  # Gemini
]  # fmt: skip
NO_SCHEMA = [
    (400, said("Failed to generate JSON. Please adjust your prompt.", "json_validate_failed", failed_generation="{")),
    (400, said("Failed to call a function.", "tool_use_failed")),
    (500, said("The model produced output that does not match the expected peg-native format", 500, "server_error")),
    (500, said("Failed to parse input at pos 49: <|channel|>analysis", 500, "server_error")),  # llama.cpp, both
    (400, said("Provider returned error", 400, metadata={"raw": json.dumps(said("x", "json_validate_failed"))})),
]
PASSING = [
    *((status, said("later")) for status in (408, 409, 425, 429, 498, 500, 502, 503, 507, 520, 522, 524, 529, 530)),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),  # Anthropic
    (429, said("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000", "rate_limit_exceeded", "tokens")),
    (200, {"error": {"code": 502, "message": "Provider returned error"}}),  # OpenRouter
    (200, {"choices": [{"finish_reason": "error", "message": {"content": ""}, "error": {"code": 502}}]}),
    (200, {"id": "x", "choices": []}),  # Azure, Gemini
    (200, {"id": "x", "choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),  # MiniMax
    (200, ""),
    (200, {"object": "error", "message": "NETWORK ERROR DUE TO HIGH TRAFFIC.", "code": 50001}),  # FastChat
    *((200, {"choices": [{"finish_reason": why, "message": {"content": ""}}]})
      for why in ("insufficient_system_resource", "network_error", "abort")),  # DeepSeek, Zhipu, SGLang
    (500, said("context deadline exceeded")),  # servers written in Go
    (424, {"error": "Request failed during generation: Server error: CUDA", "error_type": "generation"}),  # TGI
    (429, [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota, "
                      "please check your plan and billing details."}}]),  # Gemini, of a minute
    (429, said("The engine is currently overloaded, please try again later", kind="engine_overloaded_error")),
    (200, {"error": "upstream hung up"}),
    (503, "<html>no JSON</html>"),
]  # fmt: skip
LASTING = [
    (401, said("Incorrect API key provided", "invalid_api_key")),
    (402, said("Insufficient Balance", kind="unknown_error")),  # DeepSeek
    (403, said("Project does not have access to model gpt-5", "model_not_found")),
    (404, said("The model `gpt-9` does not exist", "model_not_found")),  # OpenAI
    (404, {"detail": "Not Found"}),  # FastAPI
    (413, said("Request too large for model `x` on tokens per minute (TPM): Limit 6000", "rate_limit_exceeded")),
    (429, said("You exceeded your current quota", "insufficient_quota", "insufficient_quota")),
    (400, said("max_tokens is too large: 32768. This model supports at most 16384 completion tokens.")),
    (400, said("Unsupported parameter: 'seed' is not supported with this model.", param="seed")),
    (200, {"error": {"code": 401, "message": "No auth credentials found"}}),  # OpenRouter
    (400, {"message": "The maximum tokens you requested exceeds the model limit of 4096."}),  # Bedrock
    (400, said("max_tokens (32768) exceeds the model's maximum output tokens limit (8192)")),
    (422, {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be at most 8192"}]}),  # FastAPI
    (400, said("Unknown model: model names are case sensitive, see the list")),
]  # fmt: skip
# No money left, which most say with status 402.
UNPAID = [
    (429, said("You exceeded your current quota", "insufficient_quota")),
    (429, said("Your account is suspended", kind="exceeded_current_quota_error")),  # Moonshot
    (429, said("Insufficient balance or no resource package. Please recharge.", "1113")),  # Zhipu
    (429, {"code": "Some resource has been exhausted", "error": "Your team has either used all available credits or "
           "reached its monthly spending limit."}),  # xAI
    (400, said("Your credit balance is too low to access the Anthropic API.")),
]  # fmt: skip
REPLIES = [
    (200, {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}),
    (200, {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}], "error": None}),
    (200, {"data": [{"id": "m"}]}),
]


def response(status: int, body: object) -> Response:
    return Response(status, {}, (body if isinstance(body, str) else json.dumps(body)).encode())


@pytest.mark.promise(
    "An error of a service answers the question, passes or does not, in the words of a dozen services."
)
def test_errors_by_class() -> None:
    rows = [
        *((answer, ("prompt_too_long", False)) for answer in TOO_LONG),
        *((answer, ("content_filter", False)) for answer in FILTERED),
        *((answer, ("no_schema", False)) for answer in NO_SCHEMA),
        *((answer, (None, True)) for answer in PASSING),
        *((answer, (None, False)) for answer in LASTING),
    ]
    for (status, body), (answers, passes) in rows:
        found = response(status, body).error
        assert found is not None, body
        assert found.answers == answers, body
        assert answers or found.passes == passes, body
    assert [response(*reply).error for reply in REPLIES] == [None] * len(REPLIES)
    hostile = (
        [],
        [[]],
        [[], []],
        {"error": []},
        {"error": {"message": {}}},
        {"choices": [5]},
        {"choices": {}},
        7,
        None,
    )
    for body in hostile:
        assert all(response(status, body).error or status == 200 for status in (400, 200)), body


def test_an_error_in_an_answer_is_what_it_says(server: StandInService, pauses: list[float]) -> None:
    server.answer = lambda body: FILTERED[0]
    assert ask(server.url)[0].finish_reason == "content_filter"
    left = [*PASSING[-4:-1], completion('{"decision":"stop"}')]
    server.answer = lambda body: left.pop(0)
    # What passes is asked again, and is never the agent's.
    assert ask(server.url, limits={"patience_seconds": 60})[0].finish_reason == "stop"
    assert len(pauses) == 3
    server.answer = lambda body: LASTING[3]
    assert "its name for the model?" in error(server.url)
    for answer in UNPAID:
        server.answer = lambda _, answer=answer: answer
        assert "it wants money" in error(server.url, limits={"patience_seconds": 60}), answer
    assert len(pauses) == 3
    server.pages["/v1/models"] = (404, {"detail": "Not Found"})
    assert "lists_models: false" in error(server.url)


THOUGHT = "Let me think."
PADDED = '{"value": 5}' + "\n" * 500
FORMS = [  # a message, its finish reason, and the text, the thought and the failure that it is
    ({"content": [{"type": "text", "text": "{}"}]}, "stop", "{}", None, "invalid_json"),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
                  {"type": "text", "text": "a"}]}, "stop", "a", THOUGHT, "invalid_json"),  # Mistral
    ({"content": [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "a"}]}, "stop", "a", THOUGHT,
     "invalid_json"),  # Anthropic
    ({"content": None, "reasoning": THOUGHT}, "stop", "", THOUGHT, "thought_only"),
    ({"content": "", "reasoning_content": THOUGHT}, "length", "", THOUGHT, "thought_cut_off"),
    ({"content": f"<think>{THOUGHT}"}, "length", "", THOUGHT, "thought_cut_off"),
    ({"content": f"<think>{THOUGHT}"}, "stop", "", THOUGHT, "thought_only"),
    ({"content": f"<think>{THOUGHT}</think>a"}, "stop", "a", THOUGHT, "invalid_json"),
    ({"content": [{"type": "thinking", "thinking": THOUGHT}]}, "stop", "", THOUGHT, "thought_only"),  # Mistral
    ({"content": [{"type": "thinking", "thinking": THOUGHT}]}, "max_tokens", "", THOUGHT, "thought_cut_off"),
    ({"content": None, "tool_calls": [{"id": "x"}]}, "tool_calls", "", None, "tool_call"),
    ({"content": "", "tool_calls": [{"function": {"name": "vote"}}]}, "stop", "", None, "tool_call"),  # Ollama
    ({"content": None, "function_call": {"name": "vote"}}, "function_call", "", None, "tool_call"),  # OpenAI, once
    ({"content": None, "refusal": "No."}, "stop", "No.", None, "refused"),
    ({"content": [{"type": "refusal", "refusal": "No."}]}, "stop", "No.", None, "refused"),
    ({"content": f"<think>a<think>b</think>c</think>{THOUGHT}"}, "stop", THOUGHT, "abc", "invalid_json"),
    ({"content": f"<think>a</think>say\n<think>{THOUGHT}"}, "stop", "say\n", f"a\n\n{THOUGHT}", "invalid_json"),
    ({"content": f"say\n<think>{THOUGHT}</think>a"}, "stop", "a", f"say\n{THOUGHT}", "invalid_json"),
    ({"content": f"say\n<think>{THOUGHT}"}, "length", "say\n", THOUGHT, "length"),
    ({"content": f"<think>a</think>b <think>{THOUGHT}</think>c"}, "stop", "c", f"ab {THOUGHT}", "invalid_json"),
    ({"content": "<think></think>\n\na"}, "stop", "a", None, "invalid_json"),
    ({"content": "I <think> not"}, "stop", "I <think> not", None, "invalid_json"),
    ({"content": '{"x": "</think>"}'}, "stop", '{"x": "</think>"}', None, "invalid_json"),
    ({"content": '<think>a</think>{"x": "</think>"}'}, "stop", '{"x": "</think>"}', "a", "invalid_json"),
    *(({"content": f"{begin}{THOUGHT}{end}a"}, "stop", "a", THOUGHT, "invalid_json") for begin, end in (
        ("<thought>", "</thought>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"), ("", "</think>"))),
    ({"content": [{"text": "a"}]}, "stop", "a", None, "invalid_json"),  # Bedrock
    (None, "content_filter: PROHIBITED_CONTENT", "", None, "refused"),  # Gemini
    ({"content": ""}, "function_call_filter: MALFORMED_FUNCTION_CALL", "", None, "tool_call"),  # Gemini
    ({"content": "a"}, "MAX_TOKENS", "a", None, "length"),
    ({"content": "a"}, "length", "a", None, "length"),
    ({"content": "a"}, "model_length", "a", None, "length"),  # Mistral
    ({"content": PADDED}, "length", PADDED, None, "white_space"),  # llama.cpp and others, with json_object
    ({"content": ""}, "SAFETY", "", None, "refused"),
    ({"content": "a"}, None, "a", None, "invalid_json"),
    ({"content": {"value": 5}}, "stop", "", None, "invalid_json"),
]  # fmt: skip


@pytest.mark.promise("Thoughts, parts, calls of tools and refusals are told apart.")
def test_replies_by_form(server: StandInService) -> None:
    for message, ended, text, thought, failure in FORMS:
        choice = {"message": message, **({} if ended is None else {"finish_reason": ended})}
        server.answer = lambda body, choice=choice: (200, {"choices": [choice]})
        reply, _ = ask(server.url)
        assert (reply.text, reply.reasoning) == (text, thought), message
        assert read_reply(first_ask(), reply.text, reply.finish_reason).failure == failure, message


def test_think_tags_are_taken_off_unless_the_entry_leaves_them(server: StandInService) -> None:
    server.answer = lambda body: completion(left)
    left = "<think>no</think>{}"
    for think_tags, text in ((None, "{}"), (True, "{}"), (False, left)):
        assert ask(server.url, dialect={"think_tags": think_tags})[0].text == text
