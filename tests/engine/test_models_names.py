"""Names of models, as they were asked for and as they answered."""

import pytest

from parley.engine.models import compare_names


@pytest.mark.parametrize(
    ("asked", "answered", "expected"),
    [
        ("local-model", "local-model", "same"),
        ("owner/Tiny-1B", "owner/tiny-1b", "same"),
        ("owner/Tiny-1B", "Tiny-1B", "same"),
        ("gpt-4o", "openai/gpt-4o", "same"),
        ("gpt-4o", "gpt-4o-2024-08-06", "version"),
        ("gpt-4", "gpt-4-0613", "version"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", "version"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022", "version"),
        ("mistral-large-latest", "mistral-large-2411", "version"),
        ("gemini-1.5-flash", "gemini-1.5-flash-002", "version"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06", "version"),
        ("anthropic.claude-3-5-sonnet", "anthropic.claude-3-5-sonnet-20241022-v2:0", "version"),
        ("gpt-4o", "gpt-4o-mini", "other"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", "other"),
        ("gpt-4", "gpt-4o", "other"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", "other"),
        ("gpt-4o-2024-05-13", "gpt-4o", "other"),
        ("owner/Tiny-1B", "other/Tiny-1B", "other"),
        ("owner/Tiny-1B", "owner/Tiny-1B-Instruct", "other"),
        ("llama-3", "llama-3-70b", "other"),
        ("llama3:8b", "llama3:70b", "other"),
        ("qwen2", "qwen25", "other"),
        ("tiny", "tiny/", "other"),
    ],
)
def test_a_dated_version_is_told_from_another_model(asked: str, answered: str, expected: str) -> None:
    assert compare_names(asked, answered) == expected
