"""GGUF files on this machine, and what vLLM reads in their place.

A file is whole, or in parts inside installed Python packages, whose code is never run. It is dequantized into
safetensors, and rounded to 8 bits where asked for. Everything heavy (torch, transformers, compressed-tensors) is
imported in the functions: most commands need none.
"""

import importlib.metadata
import logging
import shutil
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from parley.engine.sources import Packages, PathPlace, Source, file_places
from parley.errors import EngineError
from parley.files import sha256 as sha256_of
from parley.text import one_line

_log = logging.getLogger(__name__)


def local_parts(source: Source, models_file: Path) -> list[Path]:
    """Return the file, or its parts in order, at the first place on this machine that has all of it.

    Of a package only what pip keeps beside it is read (its version, its list of files), and whether the file has its
    size. Raises EngineError saying what is missing.
    """
    reasons = []
    for place in file_places(source):
        try:
            if isinstance(place, Packages):
                return _installed_parts(place)
            if isinstance(place, PathPlace):
                return [_file_at(place, models_file)]
        except EngineError as error:
            reasons.append(str(error))
    raise EngineError("; ".join(reasons) or "it is not on this machine")


def _installed_parts(place: Packages) -> list[Path]:
    version = f" {place.pinned}" if place.pinned else ""
    missing = [package for package, _ in place.files() if not _is_installed(package)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise EngineError(f"package {missing[0]}{version}{others} not installed")
    return [_part(package, pattern, place.pinned) for package, pattern in place.files()]


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except (importlib.metadata.PackageNotFoundError, ValueError, OSError):  # the last two: no name at all
        return False
    return True


def _part(package: str, pattern: str, pinned: str | None) -> Path:
    version = importlib.metadata.version(package)
    if pinned not in (None, version):
        raise EngineError(f"package {package} is installed in version {version}, but version {pinned} is needed")
    for listed in importlib.metadata.files(package) or []:
        if fnmatchcase(listed.name, pattern):
            path = Path(str(listed.locate()))
            size = path.stat().st_size if path.is_file() else 0
            if listed.size is not None and size != listed.size:
                raise EngineError(f"package {package}: {listed.name} is incomplete: {size:,} of {listed.size:,} bytes")
            if size:
                return path
    raise EngineError(f"package {package} {version} has no file {pattern}")


def _file_at(place: PathPlace, models_file: Path) -> Path:
    try:
        path = (models_file.parent / Path(place.path).expanduser()).resolve()
        if path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # no path at all: NUL, too long, ~nobody
        pass
    raise EngineError(f"{place.path}: no such file")


def whole_file(parts: Sequence[Path], sha256: str | None, target: Path) -> None:
    """Make `target` the whole file: a link to the only part, or all of them joined.

    Raises EngineError if its SHA-256 is another one. Packages may bring a function that joins their parts, which is
    not called: a package of weights has no business running code.
    """
    if len(parts) == 1:
        target.symlink_to(parts[0].resolve())
    else:
        _log.info("joining %d parts", len(parts))
        with target.open("wb") as whole:
            for part in parts:
                with part.open("rb") as file:
                    shutil.copyfileobj(file, whole, 1 << 20)
    if sha256 is None:
        return
    _log.info("checking the file")
    if (found := sha256_of(target)) != sha256:
        raise EngineError(f"the SHA-256 of the file is {found}, and the entry says {sha256}")


CONVERSION = 1  # raise it when the same GGUF file gives other weights: they are then made anew


def convert(file: Path, target: Path, quantization: str | None) -> None:
    """Write the model of a GGUF file into the new folder `target`, in Hugging Face's layout.

    Weights are bfloat16; with `quantization` "int8" those of linear layers are integers with a scale per channel, in
    the format of compressed-tensors. Needs memory for all weights in bfloat16, and for the largest tensor three times
    in float32. Raises EngineError if transformers cannot read the file.
    """
    _log.info("loading transformers")
    import transformers

    _log.info("reading the file")
    try:
        model, tokenizer = _dequantized(file)
    except Exception as error:
        reason = one_line(str(error).replace(str(file.parent), "..."), 200) or type(error).__name__
        raise EngineError(
            f"transformers {transformers.__version__} cannot read this GGUF file: {reason}; choose another "
            "file, or name a folder with safetensors as source"
        ) from error
    compressor = _rounded(model) if quantization == "int8" else None
    _log.info("writing the weights")
    model.save_pretrained(target, safe_serialization=True)
    tokenizer.save_pretrained(target)
    if compressor is not None:
        compressor.update_config(str(target))


def _dequantized(file: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    # Each tensor is dequantized in float32 and rounded to bfloat16, the type that most engines compute in, which
    # halves the file; the weights had 4 bits.
    config = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=config, dtype=torch.bfloat16
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
    _log.info("rounding to 8 bits")
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
