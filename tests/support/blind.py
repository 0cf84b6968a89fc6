"""Players of the stag hunt who look at nothing, as policies of one's own: what they do is no reaction."""

import json
import random

from parley.games.base import Ask
from parley.policies import Completion


class Random:
    """Says and hunts by chance, one or the other in `SHARE` of the rounds, whatever it sees."""

    SHARE = 0.5

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply as a model would write it."""
        hare = random.Random(seed).random() < self.SHARE
        field, values = ("word", ("stag", "hare")) if ask.phase == "signal" else ("action", ("Hunt Stag", "Hunt Hare"))
        return Completion(json.dumps({"reasoning": "", field: values[hare]}), "stop")


class Rarely(Random):
    """Hunts the hare rarely, so that some of its games look as if it detected something, and others do not."""

    SHARE = 0.05
