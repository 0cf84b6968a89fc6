"""GGUF files become weights that vLLM reads: a tiny model with random weights through the real transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from parley.engine.gguf_files import convert

# What torch warns of when compressed-tensors imports its fx package.
pytestmark = [
    pytest.mark.promise("Conversion to int8 is the same each time."),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),
]

WIDTH, INNER, VOCABULARY = 32, 64, 40
LAYER = "model.layers.0.mlp.down_proj"


def write(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Write a model of one layer, and return its tensors by their names in the file."""
    random = np.random.default_rng(7)
    half = WIDTH // 2
    matrices = dict.fromkeys(("attn_q", "attn_output"), (WIDTH, WIDTH))
    matrices |= dict.fromkeys(("attn_k", "attn_v"), (half, WIDTH))
    matrices |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCABULARY, WIDTH), "output_norm.weight": (WIDTH,)}
    shapes |= {f"blk.0.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
    shapes |= {f"blk.0.{name}.weight": shape for name, shape in matrices.items()}
    shapes |= {f"blk.0.{name}.bias": matrices[name][:1] for name in ("attn_q", "attn_k", "attn_v")}
    tensors = {name: random.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    pytest.importorskip("torch")  # here: it takes seconds to import
    import gguf

    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_name("tiny")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*"abcdefghijklmnopqrstuvwxyz0123456789.", "ab", "<|end|>", "<|pad|>"])
    writer.add_token_types([1] * 38 + [3, 3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(38)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def read(folder: Path, name: str) -> Any:
    with safe_open(folder / "model.safetensors", "pt") as file:
        return file.get_tensor(name)


def test_without_quantization_weights_are_bfloat16(tmp_path: Path) -> None:
    tensors = write(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "model", None)
    found = read(tmp_path / "model", f"{LAYER}.weight")
    assert str(found.dtype) == "torch.bfloat16"
    exact = tensors["blk.0.ffn_down.weight"]
    assert np.abs(found.float().numpy() - exact).max() <= np.abs(exact).max() * 2**-8
    assert "quantization_config" not in json.loads((tmp_path / "model" / "config.json").read_text())
    assert (tmp_path / "model" / "tokenizer.json").is_file()


def test_int8_has_a_scale_per_channel_is_nearest_and_the_same_each_time(tmp_path: Path) -> None:
    tensors = write(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", tmp_path / "model", "int8")
    weight, scale = read(tmp_path / "model", f"{LAYER}.weight"), read(tmp_path / "model", f"{LAYER}.weight_scale")
    assert (str(weight.dtype), tuple(scale.shape)) == ("torch.int8", (WIDTH, 1))
    import torch

    exact = torch.tensor(tensors["blk.0.ffn_down.weight"]).bfloat16().float().numpy()
    steps = np.abs(exact).max(axis=1, keepdims=True) / 127.5
    assert np.array_equal(scale.numpy(), steps)
    assert np.array_equal(weight.numpy(), np.clip(np.rint(exact / steps), -128, 127))
    assert str(read(tmp_path / "model", "model.embed_tokens.weight").dtype) == "torch.bfloat16"
    convert(tmp_path / "tiny.gguf", tmp_path / "again", "int8")
    again, first = (tmp_path / name / "model.safetensors" for name in ("again", "model"))
    assert again.read_bytes() == first.read_bytes()
    config = json.loads((tmp_path / "model" / "config.json").read_text())["quantization_config"]
    [group] = config["config_groups"].values()
    assert (config["format"], config["ignore"]) == ("int-quantized", ["lm_head"])
    assert (group["weights"]["strategy"], group["input_activations"]["strategy"]) == ("channel", "token")
    assert (group["weights"]["dynamic"], group["input_activations"]["dynamic"]) == (False, True)
