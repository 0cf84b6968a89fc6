"""Signatures of agents, which none of them can forge: what authenticated protocols take for granted."""

import hashlib
import hmac
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs as one agent, and checks what others signed.

    The secret is the game's, so that rules that are asked by agents can sign for their own agent alone, as the model
    of signatures has it (Dolev and Strong, 1983, section 2). A ledger signs what was said with keys of its own.
    """

    agent: str
    _secret: str = field(repr=False, compare=False)

    def sign(self, text: str) -> str:
        """Return the agent's signature of a text: 16 hexadecimal digits."""
        return self._signature(self.agent, text)

    def signed(self, agent: str, text: str, signature: str) -> bool:
        """Return whether `agent` signed this text so."""
        # A hostile signature may be any text, also one that is not Unicode.
        return hmac.compare_digest(self._signature(agent, text).encode(), signature.encode(errors="replace"))

    def _signature(self, agent: str, text: str) -> str:
        found = hmac.new(self._secret.encode(), f"{agent}\n{text}".encode(), hashlib.sha256)
        return found.hexdigest()[:16]
