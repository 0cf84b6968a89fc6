"""The author's signature of a chain's head: Ed25519, with a key of the author's own that nobody can derive.

The signature is the 64 bytes of RFC 8032 over the bytes of head.json, in head.json.sig: other programs check it too
(`openssl pkeyutl -verify -rawin -pubin -inkey KEY.pub.pem -in head.json -sigfile head.json.sig`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley import paths
from parley.errors import RecordError, UsageError
from parley.files import open_regular, write_atomically
from parley.text import one_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

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
