"""Pauses: games of a model whose replies nobody can use stop after some twenty, since more would measure nothing.

The processes of a study count together: each adds a letter for each reply to a file of the model, and leaves another
that all look for before they ask. The next run removes both, and looks again, first at what its first journal has.
"""

import os
import shutil
from collections import Counter
from collections.abc import Mapping

from parley import paths
from parley.errors import PausedError
from parley.files import make_folder, write_atomically
from parley.play.degenerate import REMEDIES
from parley.play.runner import Exchange, Watcher
from parley.policies import FAILURE_CLASSES, Ask
from parley.study import Study
from parley.study.condition import Player
from parley.text import one_line

GO_ON = "PARLEY_GO_ON"
_FIRST = 20  # replies of a model before it is judged, by all that it gave; then after each 20 more
_LETTERS: Mapping[str | None, str] = {
    name: chr(ord("a") + place) for place, name in enumerate((None, *FAILURE_CLASSES))
}


def clear_pauses(study: str) -> None:
    """Forget which models of a study are paused: a new run looks again, and of a finished one nothing is left."""
    shutil.rmtree(paths.paused(study, "").parent, ignore_errors=True)


def paused_lines(study: str) -> list[str]:
    """Return why models of a study are paused, a line for each."""
    return [path.read_text(encoding="utf-8") for path in sorted(paths.paused(study, "").parent.glob("*.txt"))]


class PauseWatcher(Watcher):
    """Counts the replies of models in a game, and ends it before it asks more of a model that is paused."""

    def __init__(self, study: Study, players: Mapping[str, Player]) -> None:
        self._study = study
        models = {name: player.model for name, player in players.items() if player.model is not None}
        self._files = {name: paths.paused(study.name, model).absolute() for name, model in models.items()}
        self._counts_journal = {path: not path.with_suffix(".count").exists() for path in self._files.values()}
        self._requested: set[str] = set()  # agents whose replies are no journal's
        self._ask_all = study.content.most_unusable is None or bool(os.environ.get(GO_ON))

    def requesting(self, ask: Ask) -> None:
        """Raise PausedError if a paused model would be asked."""
        path = self._files.get(ask.agent)
        if path is not None and not self._ask_all and path.exists():
            raise PausedError(path.read_text(encoding="utf-8"))
        self._requested.add(ask.agent)

    def answered(self, exchange: Exchange) -> None:
        """Count an attempt."""
        path = self._files.get(exchange.ask.agent)
        is_new = exchange.ask.agent in self._requested
        self._requested.discard(exchange.ask.agent)
        if path is None or self._ask_all or exchange.entry.given or not (is_new or self._counts_journal[path]):
            return
        make_folder(path.parent)
        with path.with_suffix(".count").open("ab+") as file:  # each knows which reply its own was
            file.write(_LETTERS[exchange.reply.failure].encode())
            file.flush()
            asked = file.tell()
            if asked % _FIRST:
                return
            file.seek(0)
            letters = Counter(file.read(asked).decode())
        counts = Counter({name: letters[letter] for name, letter in _LETTERS.items()})
        if asked - counts[None] >= (self._study.content.most_unusable or 0) * asked:
            line = _line(path.stem, counts, exchange, self._study)
            write_atomically(path, lambda file: file.write(line.encode()))


def _line(model: str, counts: Counter[str | None], last: Exchange, study: Study) -> str:
    unusable = {name: counts[name] for name in REMEDIES}
    most = max(unusable, key=lambda name: unusable[name])
    said = one_line(last.entry.text or last.entry.reasoning or "", 80)
    return (
        f"{model}: paused: {sum(unusable.values())} of its first {counts.total()} replies cannot be used, "
        f"{unusable[most]} of them {most}, the last one begins {said!r}; change {REMEDIES[most]}, and run the same "
        f"command again; parley run {paths.study_command(study.file)} --go-on plays on all the same"
    )
