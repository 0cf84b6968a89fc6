"""Who said it: Ed25519 keys that follow from the simulation and the agent, and the utterances and blocks they sign.

The keys are reproducible, and therefore not secret: a signature shows that an utterance is what this agent said in
this round of this simulation, not that nobody else could have signed it (docs/reference/ledger.md).
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.identity import canonical_json

_KEY_DOMAIN = "parley/key/1"
_UTTERANCE_DOMAIN = "parley/utterance/1"
_SIGNED_BLOCK_DOMAIN = "parley/block-signature/1"


class AgentKey:
    """The key pair of one agent in one simulation; `public` is the public key, 64 hexadecimal digits.

    A signature has 128 hexadecimal digits. Everybody can derive the key, and the same message has the same signature:
    whoever checks one makes it again.
    """

    def __init__(self, simulation: str, agent: str) -> None:
        self.simulation, self.agent = simulation, agent
        derived = canonical_json({"domain": _KEY_DOMAIN, "simulation": simulation, "agent": agent})
        self._private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(derived.encode("ascii")).digest())
        self.public = self._private.public_key().public_bytes_raw().hex()

    def sign(self, session: int, round_number: int, content: Mapping[str, Any]) -> str:
        """Return the signature of what the agent said."""
        place = {"simulation": self.simulation, "session": session, "round": round_number}
        return self._signed({"domain": _UTTERANCE_DOMAIN, **place, "content": content})

    def sign_block(self, signed: str) -> str:
        """Return the agent's signature of a block; `signed` is the hash of what it signs."""
        return self._signed({"domain": _SIGNED_BLOCK_DOMAIN, "block": signed})

    def _signed(self, message: Mapping[str, Any]) -> str:
        return self._private.sign(canonical_json({**message, "agent": self.agent}).encode("ascii")).hex()
