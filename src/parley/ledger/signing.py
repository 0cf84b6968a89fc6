"""Who said it: Ed25519 keys that follow from the simulation and the agent, and the utterances and blocks they sign.

The keys are reproducible, and therefore not secret: a signature shows that an utterance is what this agent said in
this round of this simulation, not that nobody else could have signed it (docs/reference/ledger.md).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from parley.identity import canonical_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_KEY_DOMAIN = "parley/key/1"
_UTTERANCE_DOMAIN = "parley/utterance/1"
_BLOCK_DOMAIN = "parley/block-signature/1"


@dataclass(frozen=True)
class AgentKey:
    """The key pair of one agent in one simulation (the id that names it, 64 hexadecimal digits)."""

    simulation: str
    agent: str

    @cached_property
    def _private(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # only a ledger pays for it

        derived = canonical_json({"domain": _KEY_DOMAIN, "simulation": self.simulation, "agent": self.agent})
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(derived.encode("ascii")).digest())

    @cached_property
    def _public(self) -> "Ed25519PublicKey":
        return self._private.public_key()

    @cached_property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._public.public_bytes_raw().hex()

    def sign(self, session: int, round_number: int, content: Mapping[str, Any]) -> str:
        """Return the signature of what the agent said, 128 hexadecimal digits; the same each time."""
        return self._private.sign(self._message(session, round_number, content)).hex()

    def sign_block(self, checked: str) -> str:
        """Return the agent's signature of a block, as that of an utterance; `checked` is the hash of what it signs."""
        return self._private.sign(self._block_message(checked)).hex()

    def verify(self, session: int, round_number: int, content: Mapping[str, Any], signature: str) -> bool:
        """Whether `signature` (128 hexadecimal digits) is the agent's, for this content in this place."""
        return self._holds(signature, self._message(session, round_number, content))

    def verify_block(self, checked: str, signature: str) -> bool:
        """Whether `signature` (128 hexadecimal digits) is the agent's, for a block of which this hash is signed."""
        return self._holds(signature, self._block_message(checked))

    def _holds(self, signature: str, message: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            self._public.verify(bytes.fromhex(signature), message)
        except InvalidSignature:
            return False
        return True

    def _block_message(self, checked: str) -> bytes:
        return canonical_json({"domain": _BLOCK_DOMAIN, "agent": self.agent, "block": checked}).encode("ascii")

    def _message(self, session: int, round_number: int, content: Mapping[str, Any]) -> bytes:
        message = {
            "domain": _UTTERANCE_DOMAIN,
            "simulation": self.simulation,
            "session": session,
            "round": round_number,
            "agent": self.agent,
            "content": content,
        }
        return canonical_json(message).encode("ascii")
