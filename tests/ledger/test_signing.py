"""The author's signature: a key that nobody can derive, which other programs check too."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from parley import paths
from parley.errors import RecordError, UsageError
from parley.ledger.signing import check_signature, sign_head
from support.records import chain, ordinary, session, write_chain

pytestmark = pytest.mark.promise("The author's signature is also checked by OpenSSL.")


def keys(folder: Path, name: str = "author", form: PrivateFormat = PrivateFormat.PKCS8) -> tuple[Path, Path]:
    """Return the files of a new private and public key."""
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = folder / name, folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" me@home\n")
    return private, public


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write_chain(tmp_path / "chain.jsonl", ordinary())


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_a_signed_head_is_that_of_its_author_and_of_nobody_else(
    stored: Path, tmp_path: Path, form: PrivateFormat
) -> None:
    private, public = keys(tmp_path, form=form)
    assert public.read_text() == f"{sign_head(stored, private)} me@home\n"
    check_signature(stored, public)
    with pytest.raises(RecordError, match=r"head\.json\.sig: bad signature: .*stranger\.pub signed"):
        check_signature(stored, keys(tmp_path, "stranger")[1])
    # The keys of agents follow from the simulation: the author's key is what a forger lacks.
    for lines in (chain([session(verdict={"answer": 41})]), ordinary()[:3]):
        write_chain(stored, lines)
        with pytest.raises(RecordError, match="bad signature"):
            check_signature(stored, public)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_checks_it_too(stored: Path, tmp_path: Path) -> None:
    private, _ = keys(tmp_path)
    sign_head(stored, private)
    pem = tmp_path / "public.pem"
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", pem], check=True)
    files = ["-in", paths.ledger_head(stored), "-sigfile", paths.ledger_signature(stored)]
    verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", pem, *files]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    check_signature(stored, pem)
    paths.ledger_head(stored).write_bytes(b"{}\n")
    assert subprocess.run(verify, capture_output=True, check=False).returncode != 0


def test_what_is_no_key_and_what_is_not_signed_is_named(stored: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    other, junk = tmp_path / "ec.pem", tmp_path / "junk"
    curve = ec.generate_private_key(ec.SECP256R1())
    other.write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    junk.write_bytes(b"\x00" * 100)
    with pytest.raises(RecordError, match=r"head\.json\.sig: missing"):
        check_signature(stored, public)
    for bad in (public, other, junk):
        with pytest.raises(UsageError, match=rf"{bad.name}: .*Ed25519 private key.*openssl"):
            sign_head(stored, bad)
    sign_head(stored, private)
    for bad in (private, other, junk):
        with pytest.raises(UsageError, match=rf"{bad.name}: .*Ed25519 public key"):
            check_signature(stored, bad)
