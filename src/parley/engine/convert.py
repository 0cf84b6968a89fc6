"""Weights that vLLM reads, out of a GGUF file: dequantized into safetensors, and rounded to 8 bits where asked for.

Everything heavy (torch, transformers, compressed-tensors) is imported in the functions: most commands need none.
"""

from pathlib import Path
from typing import Any

from parley.engine.steps import Step
from parley.errors import EngineError
from parley.text import one_line

CONVERSION = 1  # raise it when the same GGUF file gives other weights: they are then made anew


def convert(file: Path, target: Path, quantization: str | None) -> None:
    """Write the model of a GGUF file into the new folder `target`, in Hugging Face's layout.

    Weights are bfloat16; with `quantization` "int8" those of linear layers are integers with a scale per channel, in
    the format of compressed-tensors. Needs memory for all weights in bfloat16, and for the largest tensor three times
    in float32. Raises EngineError if transformers cannot read the file.
    """
    with Step("loading transformers"):
        import transformers
    with Step("reading the file", unit="tensors") as step:
        try:
            model, tokenizer = _dequantized(file, step)
        except Exception as error:
            reason = one_line(str(error).replace(str(file.parent), "..."), 200) or type(error).__name__
            raise EngineError(
                f"transformers {transformers.__version__} cannot read this GGUF file: {reason}; choose another "
                "file, or name a folder with safetensors as source"
            ) from error
    compressor = _rounded(model) if quantization == "int8" else None
    with Step("writing the weights"):
        model.save_pretrained(target, safe_serialization=True)
        tokenizer.save_pretrained(target)
        if compressor is not None:
            compressor.update_config(str(target))


def _dequantized(file: Path, step: Step) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, modeling_gguf_pytorch_utils
    from transformers.utils import logging

    logging.disable_progress_bar()
    # Its own bar says nothing to a log, and nothing before the first tensor.
    bar = modeling_gguf_pytorch_utils.tqdm
    modeling_gguf_pytorch_utils.tqdm = lambda tensors, **_: step.over(tensors)
    try:
        # Each tensor is dequantized in float32 and rounded to bfloat16, the type that most engines compute in, which
        # halves the file; the weights had 4 bits.
        config = GgufConfig(dequantize=True)
        model = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, quantization_config=config, dtype=torch.bfloat16
        )
    finally:
        modeling_gguf_pytorch_utils.tqdm = bar
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
    layers = [layer for layer in model.modules() if getattr(layer, "quantization_scheme", None) is not None]
    with Step("rounding to 8 bits", len(layers), "layers") as step, torch.no_grad():
        for layer in step.over(layers):
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
