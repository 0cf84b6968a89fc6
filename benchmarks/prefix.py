"""How much of the prompts an engine has in its prefix cache; replies are words of usual length, without an engine."""

import asyncio
import random
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.measure import REPOSITORY, Row, temporary_folder
from benchmarks.random_model import made_tokenizer
from parley.play.runner import play_async
from parley.policies import Ask, Completion
from parley.policies.reply_text import schema_of
from parley.study import load_study
from parley.study.condition import Simulation

GAMES, BLOCK, SMALL = 16, 16, 46_592  # at once; tokens of a block, and of 2 GiB of SmolLM2-135M's in float32
STUDIES = {  # and which of their conditions is played
    **{"config/paper.yaml": 8, "config/memory.yaml": -1, "config/swarms.yaml": -1, "config/stag-hunt.yaml": 0},
    **{"config/deliberation.yaml": 0, "src/parley/card/studies/hidden.yaml": 0},
}
_WORDS = ["we", "value", "agree", "group", "round", "last", "should", "keep", "move", "toward", "others", "stop"]
_json = TypeAdapter(dict[str, object]).dump_json


class _Writer:
    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        rng = random.Random(seed)
        text = " ".join(rng.choices(_WORDS, k=40))
        fields: dict[str, object] = {}
        for name, either in schema_of(ask.reply_model).items():
            schema = either.get("anyOf", [either])[0]
            is_text = schema.get("maxLength", 0) > 100
            words = [text[:200]] if is_text else schema.get("enum", _WORDS)
            is_number = schema.get("type") == "integer"
            fields[name] = rng.randint(schema["minimum"], schema["maximum"]) if is_number else rng.choice(words)
        return Completion(text if ask.reply_format == "free" else _json(fields).decode(), "stop")


def rows() -> Iterator[Row]:
    """Yield the shares of each study: games at once, one after the other, and a cache that forgets nothing."""
    for name, place in STUDIES.items():
        with temporary_folder():
            file = Path(Path(name).name)
            text = (REPOSITORY / name).read_text(encoding="utf-8")
            file.write_text(text.replace("model: MODEL", "model: qwen3-8b"), encoding="utf-8")
            study = load_study(file)
            of_condition = [each for each in study.simulations() if each.condition == study.conditions[place]]
            games = [_phases(each) for each in of_condition[:GAMES]]
        at_once = list(chain.from_iterable(chain.from_iterable(zip_longest(*games, fillvalue=()))))
        in_turn = list(chain.from_iterable(chain.from_iterable(games)))
        shares = (_cached(at_once, SMALL), _cached(in_turn, SMALL), _cached(at_once, 10**9))
        measured = ", ".join(f"{share:.0%}" for share in shares)
        yield Row(f"`{name}`, {len(of_condition[0].players)} agents", measured)


def _phases(simulation: Simulation) -> list[list[tuple[list[int], list[int]]]]:
    """Return the tokens of each prompt of a game and of its reply, by phase."""
    game = simulation.game()
    played = asyncio.run(play_async(simulation.id, game, {seat.name: _Writer() for seat in game.seats}))
    phases: dict[tuple[int, str], list[tuple[list[int], list[int]]]] = {}
    for x in played.exchanges:
        chat = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in x.ask.messages)
        texts = (f"{chat}<|im_start|>assistant\n", x.entry.text)
        prompt, reply = (made_tokenizer().encode(text).ids for text in texts)
        phases.setdefault((x.ask.round, x.ask.phase), []).append((prompt, reply))
    return list(phases.values())


def _cached(asked: Iterable[tuple[list[int], list[int]]], size: int) -> float:
    """Return the share of the prompts' tokens in a cache like vLLM's; what was not used longest goes first."""
    kept: dict[int, None] = {}
    hits = total = 0
    for prompt, reply in asked:
        total += len(prompt)
        tokens, blocks, is_hit = prompt + reply, [0], True
        for end in range(BLOCK, len(tokens) + 1, BLOCK):
            blocks.append(hash((blocks[-1], *tokens[end - BLOCK : end])))
            is_hit = is_hit and blocks[-1] in kept and end < len(prompt)
            hits += BLOCK * is_hit
        for block in reversed(blocks[1:]):  # the end of a prompt goes before its beginning
            kept.pop(block, None)
            kept[block] = None
        while len(kept) * BLOCK > size:
            del kept[next(iter(kept))]
    return hits / total
