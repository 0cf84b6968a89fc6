"""A model with random weights, made here: a configuration and a tokenizer, no download.

vLLM fills the weights in itself (`--load-format dummy`), so that speed and memory are those of a real model of the
same shape, and replies are nonsense. `python -m benchmarks.random_model ENTRY.json ENDPOINT` serves one.
"""

import itertools
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import REPOSITORY
from parley.engine import supervisor
from parley.engine.models import ModelEntry

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "random-weights"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Learned from the prompts: all that occur twice, which gives about 4 characters a token there.
_LEARNED = 2_000
# Tokens of Qwen3's tokenizer: grammars are compiled for, and mask, as many. The rest of the vocabulary is padding.
TOKENS = 151_669
_CONTROL = set(range(32)) - set(b"\n")  # prompts are made of lines


@dataclass(frozen=True)
class Shape:
    """What of a model's size matters for speed; the names are those of its config.json."""

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int = 151_936

    @property
    def parameters(self) -> int:
        """Number of weights, norms left out."""
        heads = self.num_attention_heads + self.num_key_value_heads
        attention = 2 * self.hidden_size * self.head_dim * heads
        layer = attention + 3 * self.hidden_size * self.intermediate_size
        return self.num_hidden_layers * layer + 2 * self.vocab_size * self.hidden_size

    @property
    def gigabytes(self) -> float:
        """Memory of the weights in bfloat16."""
        return 2 * self.parameters / 1e9


SHAPES = {"qwen3-8b": Shape(36, 4096, 32, 8, 128, 12_288), "tiny": Shape(2, 64, 2, 1, 64, 128)}


def make_model(folder: Path, shape: Shape) -> None:
    """Write config.json and a tokenizer into `folder`; takes some seconds, needs no network."""
    from transformers import PreTrainedTokenizerFast, Qwen3Config

    folder.mkdir(parents=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made_tokenizer(), eos_token=SPECIAL[2], pad_token=SPECIAL[0], model_max_length=40_960
    )
    tokenizer.chat_template = _TEMPLATE
    tokenizer.save_pretrained(folder)
    config = Qwen3Config(
        **vars(shape),
        architectures=["Qwen3ForCausalLM"],
        max_position_embeddings=40_960,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.convert_tokens_to_ids(SPECIAL[2]),
        dtype="bfloat16",
    )
    config.save_pretrained(folder)


def prompt_texts() -> list[str]:
    """Return the texts that the tokenizer is made from: Parley's own prompts."""
    return [file.read_text(encoding="utf-8") for file in sorted((REPOSITORY / "src/parley/games").rglob("*.txt"))]


@cache
def made_tokenizer() -> "Tokenizer":
    """Return a byte-level BPE tokenizer: learned tokens, then pairs of them that no text is ever cut into.

    The pairs make replies read like text of as many characters a token as real ones, and make grammars as large.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # No control characters, which xgrammar lets into strings and JSON does not: random replies would be full of them.
    alphabet = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - {chr(256 + byte) for byte in _CONTROL})
    trainer = trainers.BpeTrainer(vocab_size=_LEARNED, initial_alphabet=alphabet, show_progress=False)
    learned.train_from_iterator(prompt_texts(), trainer)
    model = json.loads(learned.to_str())["model"]
    vocabulary: dict[str, int] = model["vocab"]
    words = [token for token in vocabulary if len(token) > 1 and token.lstrip("Ġ").isalpha() and token.isascii()]
    words += [token for token in vocabulary if token.startswith("Ġ") and token[1:].isalpha() and token not in words]
    for first, second in itertools.product(words, words):
        if len(vocabulary) == TOKENS - len(SPECIAL):
            break
        vocabulary.setdefault(first + second, len(vocabulary))
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(pair) for pair in model["merges"]]))
    made.pre_tokenizer = learned.pre_tokenizer
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(list(SPECIAL))
    return made


def main() -> None:
    entry_file, endpoint = map(Path, sys.argv[1:3])
    entry = ModelEntry.model_validate_json(entry_file.read_text(encoding="utf-8"))
    folder = entry_file.parent / entry.source.folder  # type: ignore[union-attr]
    marker = folder / "parley-model.json"
    marker.write_text('{"weights_sha256": {}}\n', encoding="utf-8")
    supervisor.serve(NAME, entry, lambda: (folder, marker), endpoint, exit_with_parent=True, random_weights=True)


if __name__ == "__main__":
    main()
