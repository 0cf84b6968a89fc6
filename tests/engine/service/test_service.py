"""A service that somebody else runs: a real HTTP server on 127.0.0.1, which answers what it should and should not."""

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from parley.engine.client import Engine, LLMPolicy
from parley.engine.models import ModelEntry, recorded_entry
from parley.engine.service.service import Service, service_of
from parley.errors import EngineError, UsageError
from parley.policies import Completion
from support.answering import SERVED, StandInService, completion, service
from support.playing import new_consensus
from support.studies import StudyFactory

KEY = "sk-7f3a9c51d2e8"
VARIABLE = "TINY_API_KEY"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture
def server() -> Iterator[StandInService]:
    with service() as found:
        yield found


def entry(url: str, **keys: Any) -> ModelEntry:
    """Return an entry without patience: what its errors say is told at once."""
    source = {"url": url, "served": SERVED, "key_variable": VARIABLE}
    return ModelEntry.model_validate({"source": source, "limits": {"patience_seconds": 0}, **keys})


def place(url: str, **keys: Any) -> Service:
    found = service_of("tiny", entry(url, **keys))
    assert isinstance(found, Service)
    return found


def ask(url: str, arguments: dict[str, Any] | None = None, **keys: Any) -> tuple[Completion, dict[str, Any]]:
    """Wait for the service and ask it once; return the reply and the provenance."""

    async def run() -> tuple[Completion, dict[str, Any]]:
        async with Engine(place(url, **keys)) as engine:
            await engine.wait_ready(60)
            told = await engine.provenance()
            first = next(new_consensus("h").play())[0]
            return await LLMPolicy(engine, arguments or {}).answer(first, 11, 0), dict(told)

    return asyncio.run(run())


def error(url: str, **keys: Any) -> str:
    with pytest.raises(EngineError) as caught:
        ask(url, **keys)
    text = str(caught.value)
    assert text.startswith("the service for tiny ")
    assert "\n" not in text
    assert KEY not in text
    return text


def test_a_request_names_the_model_as_the_service_does_and_carries_the_key(server: StandInService) -> None:
    _, told = ask(server.url)
    [body] = server.bodies
    assert body["model"] == SERVED
    assert body["seed"] == 11
    assert body["response_format"]["json_schema"]["strict"] is True
    assert set(body) == {"model", "messages", "temperature", "max_tokens", "seed", "response_format"}
    assert server.heads == [(path, f"Bearer {KEY}") for path in ("/v1/models", "/version", "/v1/chat/completions")]
    assert told == {"engine": "service", "served": SERVED, "versions": {"vllm": "0.32.0"}}


def test_template_arguments_are_sent_where_the_entry_has_some(server: StandInService) -> None:
    ask(server.url, {"enable_thinking": False})
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_service_may_lie_below_a_path(server: StandInService) -> None:
    url = server.url.removesuffix("/v1") + "/team/llm/v1"
    server.pages["/team/llm/v1/models"] = server.pages["/v1/models"]
    ask(url)
    assert [path for path, _ in server.heads][::2] == ["/team/llm/v1/models", "/team/llm/v1/chat/completions"]


@pytest.mark.parametrize("page", [(404, {}), (200, b"no"), (200, []), (200, {"version": "on host-7"}), None])
def test_who_does_not_say_that_it_is_vllm_has_no_version(server: StandInService, page: Any) -> None:
    server.pages["/version"] = page
    assert ask(server.url)[1] == {"engine": "service", "served": SERVED}


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((401, {"error": "Unauthorized"}), f"answered 401: Unauthorized; check the key in {VARIABLE}"),
        ((403, {"error": {"message": "not yours"}}), f"answered 403: not yours; check the key in {VARIABLE}"),
        ((404, {"detail": "Not Found"}), "/v1 its URL?"),
        ((500, b"boom"), "answered 500: boom"),
        ((200, b"<html>\x1b[2Jhello"), "did not answer with a list of models"),
        ((200, {"data": [{"name": "x"}]}), "did not answer with a list of models"),
        ((200, {"data": []}), f"no model '{SERVED}'; set source.served to one that it has: none"),
        (
            (200, {"data": [{"id": "other/one"}, {"id": "more"}]}),
            "set source.served to one that it has: other/one, more",
        ),
        (None, "cannot be reached at http://127.0.0.1"),
    ],
)
def test_a_service_that_is_not_ready_says_why_at_once(server: StandInService, page: Any, words: str) -> None:
    server.pages["/v1/models"] = page
    assert words in error(server.url)
    assert server.bodies == []


def test_a_service_that_is_not_there_is_named() -> None:
    with service() as gone:
        url = gone.url
    assert f"cannot be reached at {url}" in error(url)


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(server: StandInService) -> None:
    with service() as other:
        server.pages["/v1/models"] = (307, f"{other.url}/models")
        assert "redirects are not followed" in error(server.url)
        assert other.heads == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirected_chat_is_not_followed_either(server: StandInService, status: int) -> None:
    with service() as other:
        server.answer = lambda _: (status, f"{other.url}/chat/completions")
        assert "redirects are not followed" in error(server.url)
        assert other.heads == []


class _Forwarding(BaseHTTPRequestHandler):
    """A proxy: sends what it gets on to the one server there is, whatever its name, and remembers for whom."""

    server: Any

    def log_message(self, format: str, *arguments: Any) -> None:
        return

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.server.heads = dict(self.headers)
        self.send_error(403)

    def _forward(self) -> None:
        self.server.asked.append(self.path)
        self.server.heads = dict(self.headers)
        if self.server.refusing:
            self.send_error(407)
            return
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = "/" + self.path.split("/", 3)[3]
        with httpx.Client(trust_env=False) as onward:
            got = onward.request(
                self.command,
                self.server.target + path,
                content=content,
                headers={"Authorization": self.headers["Authorization"]},
            )
        self.send_response(got.status_code)
        self.send_header("Content-Length", str(len(got.content)))
        self.end_headers()
        self.wfile.write(got.content)


@pytest.fixture
def proxy(server: StandInService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forwarding) as found:
        forwarding: Any = found
        forwarding.asked, forwarding.refusing = [], False
        forwarding.target = server.url.removesuffix("/v1")
        thread = threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{found.server_address[1]}")
        yield forwarding
        found.shutdown()
        thread.join()


def test_requests_go_through_the_proxy_of_the_environment(
    server: StandInService, proxy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("http://service.invalid/v1")  # a name that only the proxy knows
    paths = ("/v1/models", "/version", "/v1/chat/completions")
    assert proxy.asked == [f"http://service.invalid{path}" for path in paths]
    assert server.heads == [(path, f"Bearer {KEY}") for path in paths]

    proxy.asked.clear()
    ask(server.url)  # NO_PROXY names its host
    assert proxy.asked == []

    proxy.refusing = True
    monkeypatch.setenv("http_proxy", f"http://me:pass-word@127.0.0.1:{proxy.server_address[1]}")
    told = error("http://service.invalid/v1")
    assert "answered 407" in told
    assert "pass-word" not in told
    assert proxy.heads["Proxy-Authorization"] == f"Basic {base64.b64encode(b'me:pass-word').decode()}"


def test_a_proxy_learns_the_name_of_an_https_service_and_no_more(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_address[1]}")
    with pytest.raises(EngineError, match="403"):
        ask("https://service.invalid/v1", limits={})  # a proxy that forbids it is not asked again
    assert proxy.asked == ["service.invalid:443"]
    assert "Authorization" not in proxy.heads


@pytest.mark.parametrize("status", [401, 500])
@pytest.mark.parametrize("form", ["{}", "the key {} is wrong", "x" * 290 + "{}", "{0} or {0}"])
@pytest.mark.parametrize("hidden", [KEY, KEY[:5] + "\u200b\x07" + KEY[5:]])
def test_a_key_that_an_error_echoes_is_taken_out(server: StandInService, status: int, form: str, hidden: str) -> None:
    said = form.format(hidden)
    for body in ({"error": {"message": said}}, {"error": said}, {"detail": said}, said.encode()):
        server.answer = lambda _, body=body: (status, body)
        server.pages["/v1/models"] = (200, {"data": [{"id": SERVED}]})
        assert KEY[:9] not in error(server.url)
        server.pages["/v1/models"] = (status, body)
        assert KEY[:9] not in error(server.url)


@pytest.mark.parametrize("page", [{"data": [{"id": KEY}]}, {"data": KEY}, KEY.encode(), {KEY: 1}])
def test_a_key_in_place_of_models_is_taken_out(server: StandInService, page: Any) -> None:
    server.pages["/v1/models"] = (200, page)
    error(server.url)


@pytest.mark.parametrize("version", [KEY, "0" + KEY])
def test_a_key_in_place_of_a_version_is_not_recorded(
    server: StandInService, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, version)
    server.pages["/version"] = (200, {"version": version})
    assert "versions" not in ask(server.url)[1]


@pytest.mark.parametrize(
    "answer",
    [
        completion(f"the key is {KEY}"),
        completion("{}", KEY),
        (200, {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": KEY}}),
        (200, {"choices": KEY}),
    ],
)
def test_a_reply_that_holds_the_key_is_an_error_and_never_recorded(server: StandInService, answer: Any) -> None:
    server.answer = lambda _: answer
    error(server.url)


def test_a_service_that_hangs_up_in_the_middle_is_named(server: StandInService) -> None:
    def hang_up(body: dict[str, Any]) -> Any:
        raise ConnectionError

    server.answer = hang_up
    assert "broke the connection" in error(server.url)


def test_a_service_that_hangs_is_given_up(server: StandInService) -> None:
    server.seconds = 1.0
    assert "sent no complete answer within 0.2 s" in error(server.url, request_seconds=0.2)


def test_what_does_not_fit_the_context_is_an_unusable_reply(server: StandInService) -> None:
    server.answer = lambda _: (400, {"error": {"message": "the maximum context length is 8192 tokens"}})
    assert ask(server.url)[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, f"set the environment variable {VARIABLE}"),
        ("", f"set the environment variable {VARIABLE}"),
        ("short", "at least 8 ASCII characters"),
        (f"{KEY}\n", "no white space"),
        (f"{KEY}é", "ASCII"),
        (f'{KEY}"', "quotes"),
        (f"{KEY}\\", "backslashes"),
    ],
)
def test_a_key_that_is_missing_or_unusable_is_an_error_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
) -> None:
    monkeypatch.delenv(VARIABLE) if value is None else monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(UsageError, match=words) as caught:
        place("http://node17:8000/v1")
    assert not value or value.strip() not in str(caught.value)


def test_without_a_variable_no_key_is_sent(server: StandInService) -> None:
    source = {"url": server.url, "served": SERVED}
    found = service_of("tiny", ModelEntry.model_validate({"source": source}))
    assert isinstance(found, Service)

    async def run() -> None:
        async with Engine(found) as engine:
            await engine.wait_ready(1)

    asyncio.run(run())
    assert server.heads == [("/v1/models", None)]


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(place("http://node17:8000/v1"))


def test_place_and_key_of_a_service_are_no_identity() -> None:
    one = entry("http://node17:8000/v1")
    keys: dict[str, Any] = {"limits": {"concurrent": 3}, "price": {"prompt": 1, "completion": 2}}
    keys |= {"request_seconds": 5, "strict_model": True}
    two = entry("https://other.example/x/v1", cluster={"minutes": 5}, **keys)
    assert one.identity() == two.identity()
    assert one.identity()["source"] == {"served": SERVED}
    other = ModelEntry.model_validate({"source": {"url": "http://node17:8000/v1", "served": "another"}})
    assert other.identity() != one.identity()


def test_an_identity_gives_an_entry_with_that_identity() -> None:
    identity = json.loads(json.dumps(entry("http://node17:8000/v1").identity()))
    assert recorded_entry(identity).identity() == identity


@pytest.mark.parametrize(
    "url",
    [
        "node17:8000/v1",
        "ftp://node17/v1",
        "http://node17:8000",
        "http://node17:8000/v1/",
        "http:///v1",
        "http://alice:pw@node17/v1",
        "http://alice@node17/v1",
        "http://node17/v1?key=1/v1",
        "http://node17/#/v1",
        "http://node 17/v1",
        "http://node17/\n/v1",
    ],
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="must be http://HOST:PORT/v1"):
        entry(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1/v1",
        "http://[v1]/v1",
        "http://256.1.1.1/v1",
        "http://node17:99999/v1",
        "http://node17:0/v1",
        "http://node17:8x/v1",
        "http://\N{SNOWMAN}.example/v1",
        "http://xn--a/v1",
        "http://a..b/v1",
        f"http://{'a' * 64}.example/v1",
    ],
)
def test_a_host_or_port_that_cannot_be_is_an_error_of_expand(url: str, study_factory: StudyFactory) -> None:
    models = {"theirs": {"source": {"url": url, "served": SERVED}}}
    with pytest.raises(UsageError, match="impossible host or port") as caught:
        study_factory({"model": "theirs", "n": 3}, models=models)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://ex\xe4mple.com/v1", "http://a_b:65535/v1"])
def test_a_host_that_can_be_is_taken(url: str) -> None:
    assert entry(url).is_service


@pytest.mark.parametrize("served", ["", "/home/alice/model", "~/model", "../m", "two words", "x\n"])
def test_a_served_name_that_is_a_path_or_none_is_refused(served: str) -> None:
    with pytest.raises(ValidationError, match="served"):
        ModelEntry.model_validate({"source": {"url": "http://node17/v1", "served": served}})


@pytest.mark.parametrize(
    "keys",
    [
        {"engine_args": {"seed": 1}},
        {"server_args": {"max-num-seqs": 8}},
        {"deterministic": True},
        {"gpus": 2},
        {"gpus": 0},
        {"cluster": {"gpu_model": "a100"}},
        {"cluster": {"memory_mb": 1024}},
    ],
)
def test_what_is_for_a_server_of_ours_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"{next(iter(keys))}.* is for a server that Parley starts"):
        entry("http://node17/v1", **keys)


def test_the_gpus_that_every_entry_has_are_no_request() -> None:
    assert entry("http://node17/v1", gpus=1, cluster={"minutes": 5, "partition": "cpu"}).gpus == 1


def test_limits_of_a_server_of_ours_are_refused() -> None:
    hub = {"repo": "owner/tiny", "revision": "a" * 40}
    with pytest.raises(ValidationError, match="strict_model is for a service"):
        ModelEntry.model_validate({"source": hub, "strict_model": True})
    with pytest.raises(ValidationError, match="limits are for a service"):
        ModelEntry.model_validate({"source": hub, "limits": {"concurrent": 2}})
    assert ModelEntry.model_validate({"source": hub, "price": {"prompt": 1, "completion": 2}}).price is not None
