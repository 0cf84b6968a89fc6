"""The model with random weights: made without a network, and what transformers reads of it."""

from pathlib import Path

import pytest

from benchmarks.random_model import SHAPES, make_model, prompt_texts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("random") / "model"
    make_model(made, SHAPES["qwen3-8b"])
    return made


def test_the_config_is_of_the_asked_shape(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoConfig

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    assert (config.model_type, config.architectures) == ("qwen3", ["Qwen3ForCausalLM"])
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (36, 4096, 12_288)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (32, 8, 128)
    assert (config.vocab_size, config.tie_word_embeddings) == (151_936, False)
    assert str(config.dtype).endswith("bfloat16")
    assert SHAPES["qwen3-8b"].parameters == pytest.approx(8.19e9, rel=0.001)  # Qwen3-8B's model card: 8.2B
    assert SHAPES["qwen3-8b"].gigabytes == pytest.approx(16.4, abs=0.05)


def test_the_tokenizer_reads_prompts_as_real_ones_do(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "\n".join(prompt_texts())
    tokens = tokenizer.encode(text)
    assert 3.5 < len(text) / len(tokens) < 4.5
    assert tokenizer.decode(tokens) == text
    assert len(tokenizer) == 151_669  # as many as Qwen3's, so that grammars are as large
    assert tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id]
    said = [{"role": "user", "content": "Hi"}]
    chat = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    assert chat == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    # No token holds a control character but a line break: bytes below 33 are the characters from 256 on.
    written = {ord(character) - 256 for token in tokenizer.get_vocab() for character in token}
    assert {byte for byte in written if 0 <= byte < 32} == set(b"\n")
