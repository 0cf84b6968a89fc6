"""A study that is not played to its end: what is counted of it, and the sentences that say so wherever it is shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parley.text import counted

COLUMN = "unfinished"  # the last of each table of such a study


@dataclass(frozen=True)
class Unfinished:
    """How many simulations of `whole` are counted, and how many more are `waiting`: played, but not counted.

    `under_way` says that of some models games are counted although none of their shards is played to its end, and
    `damaged` how many records cannot be used.
    """

    whole: Any  # a Study, which has this as a part
    counted: int
    waiting: int = 0
    under_way: bool = False
    damaged: int = 0

    @property
    def label(self) -> str:
        """How much is there: `24 of 96 simulations`."""
        least = sum(len(condition.seeds) for condition in self.whole.conditions)
        most = sum(len(condition.most_seeds) for condition in self.whole.conditions)
        return f"{self.counted} of {'' if most == least else f'{least} to '}{counted(most, 'simulation')}"

    @property
    def sentence(self) -> str:
        """The sentence that nobody may miss."""
        waiting = f" of those played, {self.waiting} do not count yet;" if self.waiting else ""
        damaged = f" {counted(self.damaged, 'record')} damaged and left out;" if self.damaged else ""
        return f"UNFINISHED: {self.label};{waiting}{damaged} the rest is not played."

    def cautions(self) -> Iterator[str]:
        """Yield what a reader has to know, sentence by sentence."""
        yield (
            "A condition that is finished counts with all its seeds. Of the others, a seed counts when all of them "
            "that the same models play have finished it: so they are compared over the same seeds, and a long game is "
            "missing together with its pair. Games of a shard are played at once, and the short ones end first: those "
            "of a shard that is under way do not count."
        )
        if self.under_way:
            yield (
                "But of some models nothing else is there: no shard of theirs is finished yet, and the seeds that "
                "count are those whose games were short. Rates and times will change."
            )
        yield (
            "The intervals are of these seeds. The p values are those of a look in between: who goes on, or stops, "
            "because of them finds differences where there are none."
        )

    def planned(self, path: str) -> int:
        """Return how many simulations the condition with this path has in the whole study."""
        found: int = next(len(condition.seeds) for condition in self.whole.conditions if condition.name == path)
        return found
