"""Models whose replies nobody can use: their games pause after some twenty of them, since more would measure nothing.

Each process counts for itself, what its journals have included, and leaves a file that the others look for before they
ask. The next run removes it, and looks again.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from parley import paths
from parley.errors import PausedError
from parley.files import make_folder, write_atomically
from parley.play.runner import Exchange, Watcher
from parley.policies import Ask, FailureClass
from parley.study import Study
from parley.study.condition import Player
from parley.text import one_line

GO_ON = "PARLEY_GO_ON"
_FIRST = 20  # replies of a model before it is judged; then at twice as many, and so on
# What most often makes replies of a class usable.
REMEDIES: Mapping[FailureClass, str] = {
    "invalid_json": "reply_format: text in the study, or structured in the dialect of the model's entry",
    "out_of_range": "reply_format, or another model",
    "length": "max_tokens of the phase",
    "refused": "the prompt, or another model",
    "prompt_too_long": "max_model_len in the model's entry, history_rounds, or fewer agents",
    "thought_only": "reasoning-parser in engine_args, or reasoning_effort in the dialect of the model's entry",
    "thought_cut_off": "reasoning_tokens in the model's entry, or max_tokens of the phase",
    "tool_call": "reply_format, or another model",
}
_counted: dict[Path, Counter[str | None]] = {}  # failures of this process, by the file that would say so


def clear_pauses(study: str) -> None:
    """Forget which models of a study are paused: a new run looks again."""
    for path in paths.paused(study, "").parent.glob("*"):
        path.unlink()
    _counted.clear()


class PauseWatcher(Watcher):
    """Counts the replies of models in a game, and ends it before it asks more of a model that is paused."""

    def __init__(self, study: Study, players: Mapping[str, Player], inner: Watcher) -> None:
        self._study, self._inner = study, inner
        models = {name: player.model for name, player in players.items() if player.model is not None}
        self._files = {name: paths.paused(study.name, model).absolute() for name, model in models.items()}
        self._ask_all = study.most_unusable is None or bool(os.environ.get(GO_ON))

    def asking(self, asks: Sequence[Ask]) -> None:
        """Pass it on."""
        self._inner.asking(asks)

    def requesting(self, ask: Ask) -> None:
        """Raise PausedError if a paused model would be asked."""
        path = self._files.get(ask.agent)
        if path is not None and not self._ask_all and path.exists():
            raise PausedError(path.read_text(encoding="utf-8"))
        self._inner.requesting(ask)

    def answered(self, exchange: Exchange) -> None:
        """Count an attempt."""
        self._inner.answered(exchange)
        path = self._files.get(exchange.ask.agent)
        if path is None or self._ask_all:
            return
        counts = _counted.setdefault(path, Counter())
        counts[exchange.reply.failure] += 1
        asked = counts.total()
        unusable = asked - counts[None]
        if asked >= _FIRST and asked % _FIRST == 0 and unusable >= (self._study.most_unusable or 0) * asked:
            make_folder(path.parent)
            line = _line(path.stem, counts, exchange, self._study)
            write_atomically(path, lambda file: file.write(line.encode()))


def _line(model: str, counts: Counter[str | None], last: Exchange, study: Study) -> str:
    unusable = {name: counts[name] for name in REMEDIES}
    most = max(unusable, key=lambda name: unusable[name])
    said = one_line(last.entry.text or last.entry.reasoning or "", 80)
    return (
        f"{model}: paused: {sum(unusable.values())} of its first {counts.total()} replies cannot be used, "
        f"{unusable[most]} of them {most}, the last one begins {said!r}; change {REMEDIES[most]}, and run the same "
        f"command again; parley run {paths.study_argument(study.file)} --go-on plays on all the same"
    )
