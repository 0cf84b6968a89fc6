"""Policies of one's own whose effect is known: players of the stag hunt who look at nothing."""

import json
import random

from parley.policies import Ask, Completion


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


class Talker:
    """Plans, speaks and hunts by chance: its private text says what it plans, or nothing that is clear."""

    PLANS = (
        ("I should say stag, while I plan to hunt the hare.", "Hunt Hare"),
        ("Trust pays, so I will hunt the stag.", "Hunt Stag"),
        ("If they do, I will hunt the stag. The word says that I will hunt hare.", None),
    )
    WORDS = ("stag", "hare", "perhaps", "two words")  # the last is no reply
    HUNTED = ("Hunt Stag", "Hunt Hare")

    async def answer(self, ask: Ask, seed: int, attempt: int) -> Completion:
        """Return the reply as a model would write it."""
        chance = random.Random(seed)
        plan, word, hunted = map(chance.choice, (self.PLANS, self.WORDS, self.HUNTED))
        said = {"word": word} if ask.phase == "signal" else {"action": hunted}
        return Completion(json.dumps({"reasoning": plan[0], **said}), "stop")


class Liar(Talker):
    """Promises the stag, hunts the hare, and had planned to."""

    PLANS, WORDS, HUNTED = Talker.PLANS[:1], ("stag",), ("Hunt Hare",)


class Mute(Liar):
    """Never says a word."""

    WORDS = ("two words",)


class Turncoat(Liar):
    """Promises the stag and means it, and hunts the hare."""

    PLANS = Talker.PLANS[1:2]
