"""The requests behind a reply, where they are other ones than the game's question: what a record says was sent.

Code of the user's own may ask its model something else, and more than once; the second of two steps has the first
before it. Without any, what was sent is the game's question.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from parley.engine.grammar import json_schema
from parley.play.journal import Entry
from parley.policies import Ask, Completion, Request, Sampling
from parley.text import valid_unicode


def requests_json(ask: Ask, requests: Sequence[Request]) -> str | None:
    """Return requests that left while `ask` was answered, and what came back, as JSON; None if `ask` says it all.

    The schema is there where it is not the game's. A request without a reply failed; of the game's own question with
    messages before it, seed and reply stand in the row.
    """
    sent = requests or ([Request(ask, None)] if ask.earlier else [])
    described = [
        {
            "messages": [[message["role"], message["content"]] for message in each.ask.messages],
            **each.ask.sampling.model_dump(),
            "format": each.ask.reply_format,
            "schema": None if each.ask.reply_model is ask.reply_model else json_schema(each.ask.reply_model),
            "seed": each.seed,
            "text": each.reply and each.reply.text,
            "finish_reason": each.reply and each.reply.finish_reason,
        }
        for each in sent
    ]
    return valid_unicode(json.dumps(described, ensure_ascii=False)) if sent else None


def requests_of(ask: Ask, sent: str | None) -> list[Request]:
    """Return the requests that a record or a journal has behind the reply to `ask`; none if `ask` is what was sent.

    Raises LookupError, TypeError or ValueError for what is no such text.
    """
    return [_request(ask, described) for described in json.loads(sent)] if sent else []


def _request(ask: Ask, described: dict[str, Any]) -> Request:
    (_, system), *earlier, (_, user) = described["messages"]
    model, schema = ask.reply_model, described["schema"]
    if schema is not None:
        model = type("Recorded", (BaseModel,), {"model_json_schema": classmethod(lambda cls: schema)})
    sent = replace(
        ask,
        system=system,
        user=user,
        earlier=tuple((role, text) for role, text in earlier),
        sampling=Sampling(temperature=described["temperature"], max_tokens=described["max_tokens"]),
        reply_model=model,
        reply_format=described["format"],
    )
    text = described["text"]
    return Request(sent, described["seed"], None if text is None else Completion(text, described["finish_reason"]))


def last_sent(ask: Ask, entry: Entry) -> Ask:
    """Return what was sent last for a reply: the game's question, unless the entry has others."""
    requests = requests_of(ask, entry.sent)
    return requests[-1].ask if requests else ask
