"""Who said it: Ed25519 keys that follow from the simulation and the agent, and the utterances and blocks they sign.

The keys are reproducible, and therefore not secret: a signature shows that an utterance is what this agent said in
this round of this simulation, not that nobody else could have signed it (docs/reference/ledger.md).

The author's signature of a chain's head is by a key of the author's own, which nobody can derive: the 64 bytes of RFC
8032 over the bytes of head.json, in head.json.sig. Other programs check it too (`openssl pkeyutl -verify -rawin -pubin
-inkey KEY.pub.pem -in head.json -sigfile head.json.sig`).
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from parley import paths
from parley.errors import RecordError, UsageError
from parley.files import open_regular, write_atomically
from parley.identity import canonical_json
from parley.text import one_line

_KEY_DOMAIN = "parley/key/1"
_UTTERANCE_DOMAIN = "parley/utterance/1"
_SIGNED_BLOCK_DOMAIN = "parley/block-signature/1"


@dataclass(frozen=True)
class AgentKey:
    """The key pair of one agent in one simulation (the id that names it, 64 hexadecimal digits).

    A signature has 128 hexadecimal digits. Everybody can derive the key, and the same message has the same signature:
    whoever checks one makes it again.
    """

    simulation: str
    agent: str

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        derived = canonical_json({"domain": _KEY_DOMAIN, "simulation": self.simulation, "agent": self.agent})
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(derived.encode("ascii")).digest())

    @cached_property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, session: int, round_number: int, content: Mapping[str, Any]) -> str:
        """Return the signature of what the agent said."""
        place = {"simulation": self.simulation, "session": session, "round": round_number}
        return self._signed({"domain": _UTTERANCE_DOMAIN, **place, "content": content})

    def sign_block(self, checked: str) -> str:
        """Return the agent's signature of a block; `checked` is the hash of what it signs."""
        return self._signed({"domain": _SIGNED_BLOCK_DOMAIN, "block": checked})

    def _signed(self, message: Mapping[str, Any]) -> str:
        return self._private.sign(canonical_json({**message, "agent": self.agent}).encode("ascii")).hex()


_MAX_BYTES = 1 << 16  # of a key, a head, a signature: what is longer is none
# Their reasons quote nothing of a key, and help nobody.
_NO_KEY = (ValueError, TypeError, UnsupportedAlgorithm)


def sign_head(chain: Path, key: Path) -> str:
    """Sign the head of a chain with the private key in a file, and return the public key as a line of OpenSSH.

    Whether the chain is whole is not checked. Raises UsageError for what is no such key, RecordError without a head.
    """
    private = _private_key(key)
    head = _read(paths.ledger_head(chain), RecordError)
    write_atomically(paths.ledger_signature(chain), lambda file: file.write(private.sign(head)))
    return private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def check_signature(chain: Path, public_key: Path) -> None:
    """Check the signature of the head of a chain with the public key in a file.

    Raises UsageError for what is no such key, RecordError if the head is not signed, or not by this key.
    """
    public = _public_key(public_key)
    signature = paths.ledger_signature(chain)
    if not signature.exists():
        raise RecordError(f"{signature}: missing: nobody signed this head; its author runs: parley ledger sign")
    try:
        public.verify(_read(signature, RecordError), _read(paths.ledger_head(chain), RecordError))
    except InvalidSignature:
        raise RecordError(
            f"{signature}: bad signature: the head is not what the owner of {public_key} signed, or somebody else "
            "signed it"
        ) from None


def _private_key(path: Path) -> Ed25519PrivateKey:
    text = _read(path, UsageError)
    with suppress(*_NO_KEY):
        key = (load_ssh_private_key if b"OPENSSH" in text else load_pem_private_key)(text, password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise UsageError(
        f"{path}: not an Ed25519 private key without a passphrase; make one: openssl genpkey -algorithm ed25519 -out "
        "KEY.pem"
    )


def _public_key(path: Path) -> Ed25519PublicKey:
    text = _read(path, UsageError)
    with suppress(*_NO_KEY):
        key = (load_pem_public_key if b"-----BEGIN" in text else load_ssh_public_key)(text.strip())
        if isinstance(key, Ed25519PublicKey):
            return key
    raise UsageError(
        f"{path}: not an Ed25519 public key (parley ledger sign prints it; openssl pkey -in KEY.pem -pubout gives it "
        "as PEM)"
    )


def _read(path: Path, error: type[Exception]) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(_MAX_BYTES)
    except OSError as problem:
        raise error(f"{path}: cannot be read: {one_line(str(problem.strerror), 100)}") from None
