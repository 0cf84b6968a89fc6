"""A service that somebody else runs: a real HTTP server on 127.0.0.1, which answers what it should and should not."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from yarl import URL

from parley.engine.models import ModelEntry, recorded_entry
from parley.engine.service.fetch import _proxy_of
from parley.engine.service.service import Service, service_of
from parley.errors import UsageError
from support.answering import (
    KEY,
    SERVED,
    VARIABLE,
    StandInService,
    ask,
    completion,
    error,
    first_ask,
    service,
    service_entry,
)

pytestmark = pytest.mark.promise(
    "A service's key is in no file and no message; redirects are not followed; proxies of the environment hold."
)

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
NODE = "http://node17:8000/v1"
NO_KEY = {"key_variable": None}
HIDDEN = KEY[:5] + "\u200b\x07" + KEY[5:]  # what is shown of it is cleaned
LISTED = (200, {"data": [{"id": SERVED}]})


def test_a_request_names_the_model_as_the_service_does_and_carries_the_key(server: StandInService) -> None:
    _, told = ask(server.url, chat_template_kwargs={"enable_thinking": False})
    ask(server.url)
    with_template, body = server.bodies
    assert with_template.pop("chat_template_kwargs") == {"enable_thinking": False}
    assert body == with_template
    assert body["messages"] == first_ask().messages
    assert (body["model"], body["seed"], body["temperature"], body["max_tokens"]) == (SERVED, 11, 0.5, 300)
    assert body["response_format"]["json_schema"]["strict"] is True
    assert set(body) == {"model", "messages", "temperature", "max_tokens", "seed", "response_format"}
    assert [path for path, _ in server.heads] == [MODELS, CHAT, "/version"] * 2
    assert {key for _, key in server.heads} == {f"Bearer {KEY}"}
    assert told == {"engine": "service", "served": SERVED, "versions": {"vllm": "0.32.0"}}


def test_who_does_not_say_that_it_is_vllm_has_no_version(server: StandInService) -> None:
    for page in (200, []), (200, {"version": "on host-7"}), (200, {"version": f"0{KEY}"}), None:
        server.pages["/version"] = page
        assert ask(server.url)[1] == {"engine": "service", "served": SERVED}, page


def test_a_service_that_is_not_ready_says_why_at_once(server: StandInService) -> None:
    rows = [
        ((401, {"error": "Unauthorized"}), ["answered 401: Unauthorized", f"check the key in {VARIABLE}"]),
        ((404, {"detail": "Not Found"}), [f"{server.url} its URL?"]),
        ((200, b"<html>\x1b[2Jhello"), ["did not answer with a list of models", "hello"]),
        ((200, {"data": [{"id": "a/b"}, {"id": "more"}]}), ["source.served", "a/b, more", "lists_models: false"]),
        ((200, [{"id": "a/b"}, {"id": "more"}]), ["source.served", "a/b, more"]),  # Together
        (None, [f"cannot be reached at {server.url}"]),
    ]
    for page, words in rows:
        server.pages[MODELS] = page
        said = error(server.url)
        assert all(word in said for word in words), said
    assert server.bodies == []
    server.pages[MODELS] = (200, [{"id": "@cf/meta/llama-3.1-8b-instruct"}])  # as Cloudflare names them
    ask(server.url, of_source={"served": "@cf/meta/llama-3.1-8b-instruct"})


# Where a key could go


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(server: StandInService) -> None:
    with service() as other:
        for status in (301, 307):
            server.answer = lambda _, status=status: (status, f"{other.url}/chat/completions")
            assert "redirects are not followed" in error(server.url)
        server.pages[MODELS] = (308, f"{other.url}/models")
        assert "redirects are not followed" in error(server.url)
        assert other.heads == []


@pytest.fixture
def proxied(server: StandInService, monkeypatch: pytest.MonkeyPatch) -> StandInService:
    """A server that is the proxy of the environment, and knows a service by a name that nobody else knows."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    server.pages["http://service.invalid" + MODELS] = LISTED
    return server


def test_requests_go_through_the_proxy_of_the_environment(
    proxied: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_ALLOW_KEYS", f"{VARIABLE}=service.invalid, {VARIABLE}=127.0.0.1")
    ask("http://service.invalid/v1", of_source=NO_KEY)
    paths = [f"http://service.invalid{path}" for path in (MODELS, CHAT, "/version")]
    assert proxied.heads == [(path, None) for path in paths]
    proxied.heads.clear()
    monkeypatch.setenv("https_proxy", proxied.url.removesuffix("/v1"))
    assert "403" in error("https://service.invalid/v1", limits={})  # a proxy that forbids it is not asked again
    assert proxied.heads == [("service.invalid:443", None)]  # and learns no key

    with service() as direct:
        ask(direct.url)  # nothing for this machine leaves it
        assert len(direct.heads) == 3
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    said = error("http://service.invalid/v1", of_source=NO_KEY)
    assert "the proxy of the environment: Cannot connect to host 127.0.0.1:1" in said


def test_a_proxy_that_cannot_be_used_is_told_without_its_password(
    proxied: StandInService, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "me:pass-word@"
    for value in f"http://{secret}[::1", f"ftp://{secret}127.0.0.1", f"socks5h://{secret}127.0.0.1:1":
        monkeypatch.setenv("http_proxy", value)
        with pytest.raises(UsageError, match=r"^HTTP_PROXY holds no usable URL") as caught:
            ask("http://service.invalid/v1", of_source=NO_KEY)
        assert "pass-word" not in str(caught.value), value


def test_no_proxy_and_this_machine_take_none(proxied: StandInService, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, host, is_direct in [
        ("192.168.0.0/16", "192.168.0.1", True),
        ("lab.example, 192.168.0.1", "192.168.0.1", True),
        ("lab.example", "a.lab.example", True),
        ("10.0.0.0/8,*.lab.example", "192.168.0.1", False),
        ("", "localhost", True),
        ("", "[::1]", True),
        ("10.0.0.0/8,*.lab.example", "models.lab.example", True),
        ("10.0.0.0/8,*.lab.example", "lab.example", False),
    ]:
        monkeypatch.setenv("NO_PROXY", value)
        assert (_proxy_of(URL(f"http://{host}/v1")) is None) == is_direct, (value, host)


@settings(max_examples=50)
@given(st.text(max_size=300), st.text("\u200b\x07\u202e\ud800", max_size=3), st.integers(0, len(KEY)), st.text())
def test_no_text_is_shown_with_the_key_in_it(before: str, hiding: str, place: int, after: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, KEY)
        found = service_of("tiny", service_entry())
    shown = found.redacted(before + KEY[:place] + hiding + KEY[place:] + after, 300)
    assert KEY[:9] not in shown
    assert len(shown) <= 300


def test_a_key_that_an_error_echoes_is_taken_out(server: StandInService) -> None:
    said = "x" * 290 + HIDDEN
    pages: list[Any] = [(401, {"error": {"message": said}}), (500, KEY.encode())]
    for page in pages:
        server.answer = lambda _, page=page: page
        assert str(page[0]) in error(server.url)
    pages += [(200, {"data": [{"id": HIDDEN}]}), (200, {"data": KEY}), (200, {KEY: 1})]
    for server.pages[MODELS] in pages:
        error(server.url)


@pytest.mark.slow
@pytest.mark.promise("A key in a reply is taken out, and the game goes on.")
def test_a_key_in_a_reply_is_taken_out_and_never_recorded(
    server: StandInService, caplog: pytest.LogCaptureFixture
) -> None:
    for place in "content", "reasoning", "finish_reason", "model", "system_fingerprint", "usage":
        message = {"content": "{}", "reasoning": "Hm."}
        choice = {"message": message, "finish_reason": "stop"}
        body = {"choices": [choice], "model": SERVED}
        target = next((part for part in (message, choice) if place in part), body)
        target[place] = {"prompt_tokens": KEY} if place == "usage" else f"the key is {KEY}"
        server.answer = lambda _, body=body: (200, body)
        told = repr(ask(server.url)[0])
        assert KEY not in told, place
        assert ("[key]" in told) == (place != "usage"), place
    assert "put the API key into a reply; it was taken out" in caplog.text


@pytest.mark.promise("A key is taken out as it is, URL-encoded and JSON-escaped.")
def test_a_key_is_found_as_urls_and_json_write_it(server: StandInService, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk/7f+3a=9c51d2"
    monkeypatch.setenv(VARIABLE, key)
    escaped = "".join(f"\\u{ord(character):04X}" for character in key)
    math = "\\ud835\\udc2c" + "\U0001d42c"  # a letter outside of the first plane is one, however it is written
    for written in (
        key,
        "sk%2F7f%2b3a%3D9c51d2",
        "sk/7f%2B3a%3D9c51d2",
        "sk\\/7f+3a=9c51d2",
        escaped,
        "s" + escaped[6:],
    ):
        server.answer = lambda _, written=written: completion(f'{{"value": "{math}{written}."}}')
        assert ask(server.url)[0].text == f'{{"value": "{math}[key]."}}', written
        server.answer = lambda _, written=written: (401, {"error": {"message": f"no {written}!"}})
        assert "answered 401: no [key]!" in error(server.url), written


def test_a_key_that_is_missing_or_unusable_is_an_error_that_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in None, "short", f"{KEY}\n", f"{KEY}é", f'{KEY}"':
        monkeypatch.setenv(VARIABLE, value) if value else monkeypatch.delenv(VARIABLE, raising=False)
        with pytest.raises(UsageError, match=VARIABLE) as caught:
            service_of("tiny", service_entry())
        assert ("at least 8 ASCII characters" in str(caught.value)) == bool(value), value
        assert not value or value.strip() not in str(caught.value), value
    monkeypatch.setenv(VARIABLE, KEY)
    assert KEY not in repr(service_of("tiny", service_entry()))


@pytest.mark.promise("A models file sends a key only to its maker, or where the user said that it may go.")
def test_a_key_goes_where_its_owner_said_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_SECRET", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def made(variable: str, url: str) -> Service:
        source = {"url": url, "served": SERVED, "key_variable": variable}
        return service_of("tiny", ModelEntry.model_validate({"source": source}))

    assert made("OPENAI_API_KEY", "https://api.openai.com/v1").key == KEY
    evil = ("https://api.openai.com.evil.example/v1", "https://evil.example/api.openai.com/v1", "http://127.0.0.1/v1")
    evil += ("https://evil-api.openai.com/v1", "https://evil.api.openai.com/v1")
    for variable, url in [("OPENAI_API_KEY", each) for each in evil] + [("OTHER_SECRET", "https://a.example/v1")]:
        with pytest.raises(UsageError, match=f"export PARLEY_ALLOW_KEYS={variable}="):
            made(variable, url)
    places = ("A.Example", "b.example:8443", "c.example:443", "127.0.0.1", "[::1]:8000")
    monkeypatch.setenv("PARLEY_ALLOW_KEYS", ", ".join(f"OTHER_SECRET={place}" for place in places))
    for url in ("https://A.example:444", "https://b.example:8443", "https://c.example", "http://127.0.0.1:8000"):
        assert made("OTHER_SECRET", f"{url}/v1").key == made("OTHER_SECRET", "http://[::1]:8000/v1").key == KEY, url
    for url in ("https://b.example", "https://c.example:8443", "http://[::1]:8001", "https://127.0.0.1.example"):
        with pytest.raises(UsageError, match="export PARLEY_ALLOW_KEYS=OTHER_SECRET="):
            made("OTHER_SECRET", f"{url}/v1")
    for variable, host in (("OPENAI_API_KEY", "api.openai.com"), ("OTHER_SECRET", "a.example")):
        with pytest.raises(UsageError, match=f"{host} unencrypted; write https://"):
            made(variable, f"http://{host}/v1")
    with pytest.raises(UsageError, match=r"placeholder.* url and served"):
        made("OTHER_SECRET", "https://models.invalid/v1")


# Entries


def test_place_and_key_of_a_service_are_no_identity() -> None:
    one = service_entry(NODE).identity()
    keys: dict[str, Any] = {"limits": {"concurrent": 3}, "price": {"prompt": 1, "completion": 2}}
    keys |= {"request_seconds": 5, "cluster": {"minutes": 5, "partition": "cpu"}, "gpus": 1}
    assert service_entry("https://other.example/x/v1", **keys).identity() == one
    assert one["source"] == {"served": SERVED}
    assert service_entry(source={"url": NODE, "served": "another"}).identity() != one
    assert recorded_entry(json.loads(json.dumps(one)), "json_schema").identity() == one


@pytest.mark.promise("An entry's own fields go with each request, and replace nothing.")
def test_fields_of_an_entry_go_with_each_request_and_replace_nothing(server: StandInService) -> None:
    extra = {"top_p": 0.9, "provider": {"order": ["a"]}}
    ask(server.url, extra=extra)
    ask(server.url)
    with_extra, body = server.bodies
    assert {name: with_extra.pop(name) for name in extra} == extra
    assert with_extra == body
    plain, other = service_entry(NODE), service_entry(NODE, extra=extra)
    assert other.identity() != plain.identity()
    assert recorded_entry(other.identity(), None).identity() == other.identity()
    hub = {"source": {"repo": "owner/tiny", "revision": "a" * 40}}
    for keys, words in [
        ({"extra": {"seed": 1}}, "extra.seed: is Parley's own"),
        ({"extra": {"guided_json": {}}}, "extra.guided_json: is Parley's own"),  # vLLM's
        ({**hub, "limits": {}, "extra": {"chat_template": "x"}}, "extra.chat_template: must be a number"),
        ({**hub, "limits": {}, "extra": {"top_p": True}}, "extra.top_p: must be a number"),
    ]:
        with pytest.raises(ValidationError, match=words):
            service_entry(NODE, **keys)


def test_a_url_has_any_path(server: StandInService) -> None:
    root = server.url.removesuffix("/v1")
    for path in "/v1beta/openai", "/team/llm/v1", "":  # Gemini, below a path, a proxy of one's own
        server.pages[f"{path}/models"] = LISTED
        server.heads.clear()
        ask(f"{root}{path}/")
        assert [f"{path}/models", f"{path}/chat/completions"] == [path for path, _ in server.heads][:2], path


def test_what_cannot_be_a_service_is_refused() -> None:
    hub = {"repo": "owner/tiny", "revision": "a" * 40}
    own, calls = "only for a server that Parley starts", ("/chat/completions", "/messages")
    urls = {
        **dict.fromkeys(("node17:8000/v1", "ftp://node17/v1", "http://alice@node17/v1"), "must be as https://HOST/v1"),
        **dict.fromkeys(("http://[::1/v1", "http://node17:99999/v1", "http://a..b/v1"), "impossible host or port"),
        **{f"{NODE}{call}": f"before {call}; leave that out" for call in calls},
    }
    rows: list[tuple[dict[str, Any], str]] = [
        *(({"source": {"url": url, "served": SERVED}}, words) for url, words in urls.items()),
        *(({"source": {"url": NODE, "served": name}}, "served") for name in ("", "/home/m", "x\n")),
        ({"engine_args": {"seed": 1}}, f"engine_args: {own}"),
        ({"deterministic": True}, f"deterministic: {own}"),
        ({"gpus": 2}, f"gpus: {own}"),
        ({"cluster": {"gpu_model": "a100"}}, f"cluster.gpu_model: {own}"),
        ({"cluster": {"gres": "gpu"}}, f"cluster.gres: {own}"),
        ({"source": hub, "limits": {"concurrent": 2}}, "limits: only for a service"),
        ({"source": hub, "dialect": "openai", "limits": {}}, "dialect: only for a service"),
    ]
    for keys, words in rows:
        with pytest.raises(ValidationError, match=words):
            service_entry(NODE, **keys)
    for url in "http://[::1]:8000/v1", "https://ex\xe4mple.com/v1", "http://a_b:65535/v1":
        assert service_entry(url).is_service
