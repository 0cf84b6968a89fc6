"""The author's signature: a key that nobody can derive, which other programs check too."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from parley import paths
from parley.errors import RecordError, UsageError
from parley.ledger.author import check_signature, sign_head
from support.chains import chain, ordinary, session, write_chain

FORMS = [(Encoding.PEM, PrivateFormat.PKCS8), (Encoding.PEM, PrivateFormat.OpenSSH)]


def keys(folder: Path, name: str, form: tuple[Encoding, PrivateFormat] = FORMS[0]) -> tuple[Path, Path]:
    """Return the files of a new private and public key."""
    key = ed25519.Ed25519PrivateKey.generate()
    private, public = folder / name, folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(*form, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" me@home\n")
    return private, public


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return write_chain(tmp_path / "chain.jsonl", ordinary())


@pytest.mark.parametrize("form", FORMS, ids=["pem", "openssh"])
def test_a_signed_head_is_that_of_its_author_and_of_nobody_else(
    stored: Path, tmp_path: Path, form: tuple[Encoding, PrivateFormat]
) -> None:
    private, public = keys(tmp_path, "author", form)
    line = sign_head(stored, private)
    assert public.read_text() == f"{line} me@home\n"
    check_signature(stored, public)
    with pytest.raises(RecordError, match=r"head\.json\.sig: bad signature: .*stranger\.pub signed"):
        check_signature(stored, keys(tmp_path, "stranger")[1])


def test_a_chain_made_anew_with_all_agents_keys_is_not_what_the_author_signed(stored: Path, tmp_path: Path) -> None:
    """The keys of agents follow from the simulation: the author's key is what a forger lacks."""
    private, public = keys(tmp_path, "author")
    sign_head(stored, private)
    write_chain(stored, chain([session(verdict={"answer": 41})]))
    with pytest.raises(RecordError, match="bad signature"):
        check_signature(stored, public)
    write_chain(stored, ordinary()[:3])  # cut, with a head that counts three blocks
    with pytest.raises(RecordError, match="bad signature"):
        check_signature(stored, public)
    write_chain(stored, ordinary())
    check_signature(stored, public)


def test_every_changed_bit_of_the_signature_is_found(stored: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "author")
    sign_head(stored, private)
    file = paths.ledger_signature(stored)
    whole = file.read_bytes()
    assert len(whole) == 64
    changed = [whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(64) for bit in range(8)]
    for content in [*changed, b"", whole[:-1], whole + b"\n"]:
        file.write_bytes(content)
        with pytest.raises(RecordError, match="bad signature"):
            check_signature(stored, public)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_checks_it_too(stored: Path, tmp_path: Path) -> None:
    private, _ = keys(tmp_path, "author")
    sign_head(stored, private)
    pem = tmp_path / "public.pem"
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", pem], check=True)
    files = ["-in", paths.ledger_head(stored), "-sigfile", paths.ledger_signature(stored)]
    verify = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", pem, *files]
    assert subprocess.run(verify, capture_output=True, check=False).returncode == 0
    check_signature(stored, pem)
    paths.ledger_head(stored).write_bytes(b"{}\n")
    assert subprocess.run(verify, capture_output=True, check=False).returncode != 0


def test_what_is_no_key_is_told_in_one_line(stored: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "author")
    other = tmp_path / "ec.pem"
    other.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (tmp_path / "junk").write_bytes(b"\x00" * 100)
    for bad in (public, other, tmp_path / "junk"):
        with pytest.raises(UsageError, match="not an Ed25519 private key without a passphrase; make one: openssl"):
            sign_head(stored, bad)
    sign_head(stored, private)
    for bad in (private, other, tmp_path / "junk"):
        with pytest.raises(UsageError, match="not an Ed25519 public key"):
            check_signature(stored, bad)
    with pytest.raises(UsageError, match="none: cannot be read: No such file"):
        sign_head(stored, tmp_path / "none")


def test_a_head_that_is_missing_or_not_signed_is_told(stored: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path, "author")
    with pytest.raises(RecordError, match=r"head\.json\.sig: missing: nobody signed this head"):
        check_signature(stored, public)
    paths.ledger_head(stored).unlink()
    with pytest.raises(RecordError, match=r"head\.json: cannot be read"):
        sign_head(stored, private)
