"""What answers an ask: a language model, a scripted rule, code of the user's own; and how replies are read."""

from parley.policies.contract import (
    FAILURE_CLASSES,
    REPLY_FORMATS,
    Ask,
    Completion,
    FailureClass,
    Policy,
    Reply,
    ReplyFormat,
    Sampling,
    Tokens,
    said_name,
    token_count,
    used_tokens,
)

__all__ = [
    "FAILURE_CLASSES",
    "REPLY_FORMATS",
    "Ask",
    "Completion",
    "FailureClass",
    "Policy",
    "Reply",
    "ReplyFormat",
    "Sampling",
    "Tokens",
    "said_name",
    "token_count",
    "used_tokens",
]
