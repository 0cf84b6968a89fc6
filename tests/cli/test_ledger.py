"""The commands of the ledger, from outside."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from parley import paths
from support.commands import Parley, one_line_error
from support.playing import recorded_study
from support.records import AGENTS, chain, forged, ordinary, session, write_chain
from support.studies import StudyFactory

pytestmark = pytest.mark.promise(
    "A ledger is made, checked, shown, exported and signed; what agents say does nothing to a terminal."
)

HOSTILE = "\x1b[2J\x07\u202e\u2028line\nblock 9: fine\r=1+1"


@pytest.fixture
def file(folder: Path) -> Path:
    return write_chain(folder / "chain.jsonl", ordinary())


def write_said(contents: list[dict[str, Any]], **changes: Any) -> Path:
    """Write a chain of one block, in which the agents say this."""
    one = session(**changes)
    said = tuple(replace(u, content=content) for u, content in zip(one.utterances, contents, strict=True))
    return write_chain(Path("chain.jsonl"), chain([replace(one, utterances=said)]))


def csv_rows(parley: Parley, path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(parley("ledger", "export", path, "--format", "csv").out)))


def write_key() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    Path("author.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.usefixtures("council")
@pytest.mark.slow
def test_a_study_has_its_ledger_made_checked_shown_exported_and_signed(
    parley: Parley, study_factory: StudyFactory
) -> None:
    study = recorded_study(study_factory)
    made = parley("ledger", "build", "small.yaml")
    assert (made.status, made.err) == (0, "")
    blocks = len(paths.ledger("small").read_bytes().splitlines())
    assert made.out.startswith(f"{paths.ledger('small')}: {blocks} blocks, ")
    assert paths.stamp("small", "ledger", study.ledger_plan).exists()

    checked = parley("ledger", "verify", "small.yaml")
    assert f" utterances in {blocks} blocks (" in checked.out
    whole = "chain whole, and that of the study's records"
    assert checked.out.endswith(f"{whole}\n")
    assert "study's records" not in parley("ledger", "verify", paths.ledger("small")).out
    assert len(parley("ledger", "show", "small.yaml").out.splitlines()) == blocks + 1
    exported = parley("ledger", "export", "small.yaml").out.splitlines()
    assert checked.out.startswith(f"{len(exported)} utterances")

    # It is signed only if the records give it.
    write_key()
    Path("author.pub").write_text(parley("ledger", "sign", "small.yaml", "--key", "author.pem").out)
    checked = parley("ledger", "verify", "small.yaml", "--public-key", "author.pub")
    assert checked.out.endswith(f"{whole}; its head is signed by the owner of author.pub\n")
    write_chain(paths.ledger("small"), ordinary())
    assert "not what" in one_line_error(parley("ledger", "sign", "small.yaml", "--key", "author.pem"), 1)


def test_a_bad_file_is_named_with_the_place_in_one_line(parley: Parley, file: Path) -> None:
    def change(block: dict[str, Any]) -> None:
        block["utterances"][1]["content"]["answer"] = 3

    assert one_line_error(parley("ledger", "show", file, "--block", 4), 2).endswith("has no block 4\n")
    write_chain(file, forged(ordinary(), 2, change))
    error = one_line_error(parley("ledger", "verify", file), 1)
    assert error == f"parley: {file}: block 2, utterance 1 (agent_2, round 2): bad signature\n"


@pytest.mark.parametrize("command", ["verify", "show", "export"])
@pytest.mark.usefixtures("folder")
def test_hostile_and_missing_files_end_in_one_line(parley: Parley, command: str) -> None:
    hostile = [b"\n", b"[" * 50_000, b"{}\n", b'{"a":NaN}\n', b'{"a":' + b"1" * 10_000 + b"}\n", b"\xff\x00\n"]
    for content in hostile:
        Path("x.jsonl").write_bytes(content)
        assert one_line_error(parley("ledger", command, "x.jsonl"), 1).startswith("parley: x.jsonl: block 0: ")
    Path("x.jsonl").write_bytes(b"")
    assert parley("ledger", command, "x.jsonl").status == (command == "verify")  # a chain of no blocks, and no head
    assert "none.jsonl: cannot be read" in one_line_error(parley("ledger", command, "none.jsonl"), 1)


def test_what_agents_say_does_nothing_to_a_terminal(
    parley: Parley, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parley.cli.ledger.sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    said = {"why": HOSTILE, HOSTILE: [HOSTILE]}
    path = write_said([said] * 3, verdict={"answer": HOSTILE}, subject={HOSTILE: HOSTILE}, parameters={"x": HOSTILE})
    for arguments in (
        ["show", path],
        ["show", path, "--block", 0],
        ["export", path],
        ["export", path, "--format", "csv"],
    ):
        ran = parley("ledger", *arguments)
        assert ran.status == 0
        assert not set(ran.out) & set("\x1b\x07\r\u202e\u2028")
        assert not any(line.startswith("block 9") for line in ran.out.splitlines())


def test_blocks_are_printed_as_json(parley: Parley, file: Path) -> None:
    blocks = json.loads(parley("ledger", "show", file, "--json").out)
    assert blocks == [json.loads(line) for line in file.read_text().splitlines()]
    assert json.loads(parley("ledger", "show", file, "--json", "--block", 1).out) == blocks[1:2]


def test_utterances_are_exported_flat(parley: Parley, file: Path) -> None:
    rows = [json.loads(line) for line in parley("ledger", "export", file).out.splitlines()]
    assert [(row["block"], row["utterance"], row["round"], row["agent"]) for row in rows[:4]] == [
        *((0, index, 1, agent) for index, agent in enumerate(AGENTS)),
        (2, 0, 2, "agent_1"),
    ]
    ran = parley("ledger", "export", file, "--format", "csv", "--output", "said.csv")
    assert (ran.out, ran.err) == ("", "said.csv\n")
    table = list(csv.DictReader(io.StringIO(Path("said.csv").read_text())))
    assert [(row["content.answer"], row["signature"]) for row in table] == [
        (str(row["content"]["answer"]), row["signature"]) for row in rows
    ]
    # An export of what cannot be read leaves nothing.
    file.write_bytes(b"".join(ordinary()[:2]) + b"x\n")
    assert "block 2" in one_line_error(parley("ledger", "export", file, "--output", "said.jsonl"), 1)
    assert not Path("said.jsonl").exists()


def test_csv_holds_what_utterances_do_not_share_and_no_formula(parley: Parley, folder: Path) -> None:
    table = csv_rows(parley, write_said([{"a": 'x,"y"\nz'}, {"b": [1, None]}, {"agent": "nobody"}]))
    found = [(row["agent"], row["content.a"], row["content.agent"]) for row in table]
    assert found == [("agent_1", 'x,"y"\nz', ""), ("agent_2", "", ""), ("agent_3", "", "nobody")]
    for said, cells in (
        (["=HYPERLINK(1)", "+1+1", "-2+3"], ["'=HYPERLINK(1)", "'+1+1", "'-2+3"]),
        (["@SUM(1)", "\tx", "-7/2"], ["'@SUM(1)", "'\tx", "-7/2"]),
        (["+18", "so = fine", "x"], ["+18", "so = fine", "x"]),
    ):
        table = csv_rows(parley, write_said([{"a": each} for each in said]))
        assert [row["content.a"] for row in table] == cells


def test_an_author_signs_and_readers_check(parley: Parley, file: Path) -> None:
    write_key()
    signed = parley("ledger", "sign", file, "--key", "author.pem")
    assert signed.status == 0
    assert signed.err.startswith(f"{file.with_name('head.json.sig')}: ")
    Path("author.pub").write_text(signed.out)
    verify = ("ledger", "verify", file, "--public-key", "author.pub")
    checked = parley(*verify)
    assert checked.status == 0
    assert "chain whole; its head is signed by the owner of author.pub" in checked.out
    write_chain(file, chain([session()]))
    assert "bad signature" in one_line_error(parley(*verify), 1)
    file.write_bytes(b"x\n")
    assert "block 0" in one_line_error(parley("ledger", "sign", file, "--key", "author.pem"), 1)
