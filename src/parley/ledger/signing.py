"""Who said it: Ed25519 keys that follow from the simulation and the agent, and the utterances and blocks they sign.

The keys are reproducible, and therefore not secret: a signature shows that an utterance is what this agent said in
this round of this simulation, not that nobody else could have signed it (docs/reference/ledger.md).

The author's signature of a chain's head is by a key of the author's own, which nobody can derive: the 64 bytes of RFC
8032 over the bytes of head.json, in head.json.sig. Other programs check it too (`openssl pkeyutl -verify -rawin -pubin
-inkey KEY.pub.pem -in head.json -sigfile head.json.sig`).
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley import paths
from parley.errors import RecordError, UsageError
from parley.files import open_regular, write_atomically
from parley.identity import canonical_json
from parley.text import one_line

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


_MAX_BYTES = 1 << 16  # of a key, a head, a signature: what is longer is none


def sign_head(chain: Path, key: Path) -> str:
    """Sign the head of a chain with the private key in a file, and return the public key as a line of OpenSSH.

    Whether the chain is whole is not checked. Raises UsageError for what is no such key, RecordError without a head.
    """
    private = _private_key(key)
    head = _read(paths.ledger_head(chain), RecordError)
    write_atomically(paths.ledger_signature(chain), lambda file: file.write(private.sign(head)))
    return _line_of(private.public_key())


def check_signature(chain: Path, public_key: Path) -> None:
    """Check the signature of the head of a chain with the public key in a file.

    Raises UsageError for what is no such key, RecordError if the head is not signed, or not by this key.
    """
    from cryptography.exceptions import InvalidSignature

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


def _private_key(path: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    remedy = "an Ed25519 private key without a passphrase; make one: openssl genpkey -algorithm ed25519 -out KEY.pem"

    def load(text: bytes) -> Any:
        return (load_ssh_private_key if b"OPENSSH" in text else load_pem_private_key)(text, password=None)

    found: Ed25519PrivateKey = _key(path, load, Ed25519PrivateKey, remedy)
    return found


def _public_key(path: Path) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

    remedy = "an Ed25519 public key (parley ledger sign prints it; openssl pkey -in KEY.pem -pubout gives it as PEM)"

    def load(text: bytes) -> Any:
        return (load_pem_public_key if b"-----BEGIN" in text else load_ssh_public_key)(text.strip())

    found: Ed25519PublicKey = _key(path, load, Ed25519PublicKey, remedy)
    return found


def _key(path: Path, load: Callable[[bytes], Any], wanted: type, remedy: str) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm

    text = _read(path, UsageError)
    try:
        key = load(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # the reasons quote nothing of a key, and help nobody
        key = None
    if not isinstance(key, wanted):
        raise UsageError(f"{path}: not {remedy}")
    return key


def _line_of(key: "Ed25519PublicKey") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def _read(path: Path, error: type[Exception]) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(_MAX_BYTES)
    except OSError as problem:
        raise error(f"{path}: cannot be read: {one_line(str(problem.strerror), 100)}") from None
