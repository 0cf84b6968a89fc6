"""How games ask a question that is not theirs, for calibrations: what their own form costs a model."""

from dataclasses import dataclass, replace
from typing import Any

from parley.games.base import HONEST, Game, GameParameters, Group, new_game
from parley.policies import Ask, ReplyFormat

_AGENTS = 4
_TASK = "=== YOUR TASK ===\n"


@dataclass(frozen=True)
class Question(Ask):
    """A question without a system prompt."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The chat messages, in OpenAI's form."""
        return [message for message in super().messages if message["content"]]


def first_ask(game: type[Game], parameters: GameParameters, prompt: str, material: Any = None) -> Ask:
    """Return what the first of four honest agents is asked first."""
    return next(new_game(game, parameters, [Group(HONEST, _AGENTS)], prompt, 0, material).play())[0]


def in_form_of(ask: Ask, question: str, told: str, reply_format: ReplyFormat) -> Ask:
    """Return a question with what `ask` says of the form of its reply, at the end of its task, and nothing else of it.

    `told` says what of the reply is the answer.
    """
    form = ask.user.rpartition(_TASK)[2].partition("\n")[2]
    plain = Question(
        "", ask.role, 1, ask.phase, "", f"{question}\n\n{told}\n{form}", ask.reply_model, ask.sampling, None
    )
    return replace(plain, reply_format=reply_format, follow_up=ask.follow_up)
