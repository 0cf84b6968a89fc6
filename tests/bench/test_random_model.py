"""The model with random weights: made without a network, and what transformers reads of it."""

from pathlib import Path

import pytest

from benchmarks.random_model import SHAPES, make_model, prompt_texts


@pytest.mark.slow
def test_transformers_reads_the_asked_shape_and_a_tokenizer_like_real_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoConfig, AutoTokenizer

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "model"
    make_model(folder, SHAPES["qwen3-8b"])
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    assert (config.num_hidden_layers, config.hidden_size, config.intermediate_size) == (36, 4096, 12_288)
    assert (config.num_attention_heads, config.num_key_value_heads, config.head_dim) == (32, 8, 128)
    assert (config.vocab_size, config.tie_word_embeddings) == (151_936, False)
    assert SHAPES["qwen3-8b"].parameters == pytest.approx(8.19e9, rel=0.001)  # Qwen3-8B's model card: 8.2B

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    text = "\n".join(prompt_texts())
    tokens = tokenizer.encode(text)
    assert 3.5 < len(text) / len(tokens) < 4.5
    assert tokenizer.decode(tokens) == text
    assert len(tokenizer) == 151_669  # as many as Qwen3's, so that grammars are as large
    # No token holds a control character but a line break: bytes below 33 are the characters from 256 on.
    written = {ord(character) - 256 for token in tokenizer.get_vocab() for character in token}
    assert {byte for byte in written if 0 <= byte < 32} == set(b"\n")
