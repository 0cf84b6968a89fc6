"""GGUF files, and what vLLM reads in their place.

A file is whole, or in parts inside installed Python packages, whose code is never run. It is dequantized into
safetensors, and rounded to 8 bits where asked for. Everything heavy (torch, transformers, compressed-tensors) is
imported in the functions: most commands need none.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parley.errors import EngineError
from parley.text import one_line


def say_step(title: str) -> None:
    """Say on stderr what is done from now on."""
    print(f"{one_line(title)} ...", file=sys.stderr, flush=True)


def whole_file(parts: Sequence[Path], sha256: str | None, target: Path) -> None:
    """Make `target` the whole file: a link to the only part, or all of them joined.

    Raises EngineError if its SHA-256 is another one. Packages may bring a function that joins their parts, which is
    not called: a package of weights has no business running code.
    """
    if len(parts) > 1:
        with target.open("wb") as whole:
            actual: str | None = sha256_of(parts, f"joining {len(parts)} parts", whole.write)
    else:
        target.symlink_to(parts[0].resolve())
        actual = None if sha256 is None else sha256_of(parts, "checking the file")
    if sha256 is not None and actual != sha256:
        raise EngineError(f"the SHA-256 of the file is {actual}, and the entry says {sha256}")


def sha256_of(parts: Sequence[Path], title: str, write: Callable[[bytes], object] = len) -> str:
    """Return the SHA-256 of a file in parts, in hexadecimal; `write` gets its content, and stderr the title."""
    say_step(title)
    hashed = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                write(block)
                hashed.update(block)
    return hashed.hexdigest()


CONVERSION = 1  # raise it when the same GGUF file gives other weights: they are then made anew


def convert(file: Path, target: Path, quantization: str | None) -> None:
    """Write the model of a GGUF file into the new folder `target`, in Hugging Face's layout.

    Weights are bfloat16; with `quantization` "int8" those of linear layers are integers with a scale per channel, in
    the format of compressed-tensors. Needs memory for all weights in bfloat16, and for the largest tensor three times
    in float32. Raises EngineError if transformers cannot read the file.
    """
    say_step("loading transformers")
    import transformers

    say_step("reading the file")
    try:
        model, tokenizer = _dequantized(file)
    except Exception as error:
        reason = one_line(str(error).replace(str(file.parent), "..."), 200) or type(error).__name__
        raise EngineError(
            f"transformers {transformers.__version__} cannot read this GGUF file: {reason}; choose another "
            "file, or name a folder with safetensors as source"
        ) from error
    compressor = _rounded(model) if quantization == "int8" else None
    say_step("writing the weights")
    model.save_pretrained(target, safe_serialization=True)
    tokenizer.save_pretrained(target)
    if compressor is not None:
        compressor.update_config(str(target))
    for weights in target.glob("*.safetensors"):  # written for their owner alone, and users may share the folder
        shutil.copymode(target / "config.json", weights)


def _dequantized(file: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # Each tensor is dequantized in float32 and rounded to bfloat16, the type that most engines compute in, which
    # halves the file; the weights had 4 bits.
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    return model.bfloat16(), AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def _rounded(model: Any) -> Any:
    """Round the weights of linear layers to 8 bits, in place; return what writes that into the model's config."""
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.compressors.base import compress_module
    from compressed_tensors.quantization import (
        QuantizationArgs,
        QuantizationConfig,
        QuantizationScheme,
        QuantizationStatus,
        apply_quantization_config,
    )
    from compressed_tensors.quantization.utils import calculate_qparams

    weights = QuantizationArgs(num_bits=8, type="int", symmetric=True, strategy="channel", dynamic=False)
    inputs = QuantizationArgs(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
    scheme = QuantizationScheme(targets=["Linear"], weights=weights, input_activations=inputs)
    # The last layer chooses the token: its rounding would cost most, and it is often the embedding as well.
    config = QuantizationConfig(config_groups={"int8": scheme}, ignore=["lm_head"], format="int-quantized")
    apply_quantization_config(model, config)
    say_step("rounding to 8 bits")
    with torch.no_grad():
        for layer in model.modules():
            if getattr(layer, "quantization_scheme", None) is None:
                continue
            # In float32: divided in bfloat16, large weights would be rounded twice.
            exact = layer.weight.float()
            scale, _ = calculate_qparams(exact.amin(1, keepdim=True), exact.amax(1, keepdim=True), weights)
            layer.weight = torch.nn.Parameter(exact, requires_grad=False)
            layer.weight_scale = torch.nn.Parameter(scale, requires_grad=False)
            compress_module(layer)
    compressor = ModelCompressor.from_pretrained_model(model)
    if compressor.quantization_config is not None:
        compressor.quantization_config.quantization_status = QuantizationStatus.COMPRESSED
    return compressor
