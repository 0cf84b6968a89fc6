"""GGUF files, and what vLLM reads in their place.

A file is whole, or in parts inside installed Python packages, whose code is never run. It is dequantized into
safetensors, and rounded to 8 bits where asked for. Everything heavy (torch, transformers, compressed-tensors) is
imported in the functions: most commands need none.
"""

import hashlib
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from rich.console import Console
from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from parley.errors import EngineError
from parley.text import one_line

_QUIET_SECONDS = 10.0  # between two lines where no terminal is
_Item = TypeVar("_Item")


class Step(Progress):
    """One step, shown on stderr from its beginning to its end: `with Step("joining", total_bytes) as step`."""

    def __init__(self, title: str, total: int | None = None, unit: str = "") -> None:
        """`total` is in bytes unless it has a unit; None if it is unknown."""
        counts = [MofNCompleteColumn(), TextColumn(unit)] if unit else [DownloadColumn()] * (total is not None)
        shown = (TextColumn("{task.description}", markup=False), *counts, TimeElapsedColumn())
        super().__init__(*shown, console=Console(stderr=True, soft_wrap=True))
        self._task = self.add_task(title, total=total)
        self._ended = threading.Event()

    def start(self) -> None:
        """Show it from now on; where no terminal is, in a line now and then."""
        super().start()
        if not self.console.is_terminal:
            threading.Thread(target=self._tell, daemon=True).start()

    def stop(self) -> None:
        """Show it for the last time."""
        self._ended.set()
        super().stop()

    def _tell(self) -> None:
        tell = Console(stderr=True, soft_wrap=True)  # another one: that of a display keeps what it is told to its end
        tell.print(self.get_renderable())
        while not self._ended.wait(_QUIET_SECONDS):
            tell.print(self.get_renderable())

    def blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield a file's content, and count its bytes."""
        while block := file.read(1 << 20):
            yield block
            self.advance(self._task, len(block))

    def over(self, items: Sequence[_Item]) -> Iterable[_Item]:
        """Yield the items and count them: they are the total of this step from now on."""
        return self.track(items, task_id=self._task)


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
    """Return the SHA-256 of a file in parts, in hexadecimal; `write` gets its content, and a display has the title."""
    hashed = hashlib.sha256()
    with Step(title, sum(part.stat().st_size for part in parts)) as step:
        for part in parts:
            with part.open("rb") as file:
                for block in step.blocks(file):
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
    for weights in target.glob("*.safetensors"):  # written for their owner alone, and users may share the folder
        shutil.copymode(target / "config.json", weights)


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
