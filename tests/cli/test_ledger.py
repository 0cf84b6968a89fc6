"""The commands of the ledger, from outside."""

import csv
import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from parley import paths
from support.chains import AGENTS, chain, forged, ordinary, session, write_chain
from support.commands import Parley, one_line_error
from support.council import recorded_study
from support.studies import StudyFactory

HOSTILE = "\x1b[2J\x07\u202e\u2028line\nblock 9: fine\r=1+1"


@pytest.fixture
def file(folder: Path) -> Path:
    return write_chain(folder / "chain.jsonl", ordinary())


@pytest.mark.usefixtures("council")
def test_a_study_has_its_ledger_made_checked_shown_and_exported(parley: Parley, study_factory: StudyFactory) -> None:
    study = recorded_study(study_factory)
    made = parley("ledger", "build", "small.yaml")
    assert (made.status, made.err) == (0, "")
    blocks = len(paths.ledger("small").read_bytes().splitlines())
    assert made.out.startswith(f"{paths.ledger('small')}: {blocks} blocks, ")
    assert paths.stamp("small", "ledger", study.ledger_plan).exists()

    checked = parley("ledger", "verify", "small.yaml")
    assert checked.status == 0
    assert f" utterances in {blocks} blocks (" in checked.out
    assert checked.out.endswith("hung, and empty): chain whole, and that of the study's records\n")
    alone = parley("ledger", "verify", "small.yaml", "--chain-only")
    unchecked = "; the author's signature was not checked (--public-key)"
    assert alone.out == checked.out.replace(", and that of the study's records", unchecked)

    assert len(parley("ledger", "show", "small.yaml").out.splitlines()) == blocks + 1
    history = parley("ledger", "show", "small.yaml", "--block", 0).out
    assert 'subject        {"problem":"a number"}' in history
    assert "utterance 0: round 1, agent_" in history

    exported = parley("ledger", "export", "small.yaml").out.splitlines()
    assert checked.out.startswith(f"{len(exported)} utterances")


def test_a_file_is_checked_in_one_line(parley: Parley, file: Path) -> None:
    checked = parley("ledger", "verify", file)
    assert (checked.status, checked.err) == (0, "")
    assert checked.out == (
        "11 utterances in 4 blocks (1 hung, and empty): chain whole; the author's signature was not checked "
        "(--public-key); 4 verdicts not compared with what was said (their game is not known here)\n"
    )
    paths.ledger_head(file).unlink()
    assert "head.json: missing: without it, " in one_line_error(parley("ledger", "verify", file), 1)
    alone = parley("ledger", "verify", file, "--no-head")
    assert "chain whole; without a head.json, its end may be missing; 4 verdicts" in alone.out
    for more in (["verify", "demo", "--no-head"], ["verify", file, "--no-head", "--public-key", "x"]):
        assert "--no-head is for a FILE" in parley("ledger", *more).err


def test_a_bad_file_is_named_with_the_place_in_one_line(parley: Parley, file: Path) -> None:
    def change(block: dict[str, object]) -> None:
        block["utterances"][1]["content"]["answer"] = 3  # type: ignore[index]

    write_chain(file, forged(ordinary(), 2, change))
    error = one_line_error(parley("ledger", "verify", file), 1)
    assert error == f"parley: {file}: block 2, utterance 1 (agent_2, round 2): bad signature\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"[" * 50_000, b"{}\n", b'{"a":NaN}\n', b'{"a":' + b"1" * 10_000 + b"}\n", b"\xff\x00\n", b"PAR1"],
)
@pytest.mark.parametrize("command", ["verify", "show", "export"])
def test_hostile_files_end_in_one_line(parley: Parley, folder: Path, content: bytes, command: str) -> None:
    Path("x.jsonl").write_bytes(content)
    ran = parley("ledger", command, "x.jsonl")
    if content:
        assert one_line_error(ran, 1).startswith("parley: x.jsonl: block 0: ")
    else:
        assert ran.status == (command == "verify")  # a chain of no blocks, and no head


@pytest.mark.parametrize("command", ["verify", "show", "export"])
def test_a_missing_file_and_a_study_without_a_ledger_are_one_line(
    parley: Parley, study_factory: StudyFactory, command: str
) -> None:
    assert "cannot be read: No such file" in one_line_error(parley("ledger", command, "none.jsonl"), 1)
    study_factory()
    ran = parley("ledger", command, "small.yaml")
    assert one_line_error(ran, 2 if command == "verify" else 1)


def test_a_block_that_is_not_there_is_told(parley: Parley, file: Path) -> None:
    assert one_line_error(parley("ledger", "show", file, "--block", 4), 2).endswith("has no block 4\n")


def test_what_agents_say_does_nothing_to_a_terminal(parley: Parley, folder: Path) -> None:
    one = session(verdict={"answer": HOSTILE}, subject={HOSTILE: HOSTILE}, parameters={"x": HOSTILE})
    said = tuple(type(u)(u.round, u.agent, {"why": HOSTILE, HOSTILE: [HOSTILE]}) for u in one.utterances)
    path = write_chain(folder / "chain.jsonl", chain([type(one)(**{**one.__dict__, "utterances": said})]))
    for arguments in (["show", path], ["show", path, "--block", 0], ["export", path]):
        ran = parley("ledger", *arguments)
        assert ran.status == 0
        assert not set(ran.out) & set("\x1b\x07\r\u202e\u2028")
        assert not any(line.startswith("block 9") for line in ran.out.splitlines())


def test_utterances_are_exported_flat(parley: Parley, file: Path) -> None:
    rows = [json.loads(line) for line in parley("ledger", "export", file).out.splitlines()]
    assert [(row["block"], row["utterance"], row["round"], row["agent"]) for row in rows[:4]] == [
        *((0, index, 1, agent) for index, agent in enumerate(AGENTS)),
        (2, 0, 2, "agent_1"),
    ]
    ran = parley("ledger", "export", file, "--format", "csv", "--output", "said.csv")
    assert (ran.out, ran.err) == ("", "said.csv\n")
    table = list(csv.DictReader(io.StringIO(Path("said.csv").read_text())))
    assert [(row["block"], row["content.answer"], row["content.why"]) for row in table] == [
        (str(row["block"]), str(row["content"]["answer"]), row["content"]["why"]) for row in rows
    ]
    assert [(row["key"], row["signature"]) for row in table] == [(row["key"], row["signature"]) for row in rows]


def test_csv_holds_what_utterances_do_not_share(parley: Parley, folder: Path) -> None:
    one = session()
    contents = [{"a": 'x,"y"\nz'}, {"b": [1, None]}, {"agent": "nobody"}]
    said = tuple(type(u)(u.round, u.agent, c) for u, c in zip(one.utterances, contents, strict=True))
    path = write_chain(folder / "chain.jsonl", chain([type(one)(**{**one.__dict__, "utterances": said})]))
    table = list(csv.DictReader(io.StringIO(parley("ledger", "export", path, "--format", "csv").out)))
    found = [(row["agent"], row["content.a"], row["content.b"], row["content.agent"]) for row in table]
    assert found == [
        ("agent_1", 'x,"y"\nz', "", ""),
        ("agent_2", "", "[1,null]", ""),
        ("agent_3", "", "", "nobody"),
    ]


@pytest.mark.parametrize(
    ("said", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\tx", "'\tx"),
        ("-7/2", "-7/2"),
        ("+18", "+18"),
        ("so = fine", "so = fine"),
    ],
)
def test_no_cell_of_the_csv_is_a_formula(parley: Parley, folder: Path, said: str, cell: str) -> None:
    one = session()
    utterances = tuple(type(u)(u.round, u.agent, {"a": said}) for u in one.utterances)
    path = write_chain(folder / "chain.jsonl", chain([type(one)(**{**one.__dict__, "utterances": utterances})]))
    table = list(csv.DictReader(io.StringIO(parley("ledger", "export", path, "--format", "csv").out)))
    assert {row["content.a"] for row in table} == {cell}


def test_an_export_that_cannot_be_written_or_read_leaves_nothing(parley: Parley, file: Path) -> None:
    error = one_line_error(parley("ledger", "export", file, "--output", "models.yaml/said.csv"), 1)
    assert "cannot be written" in error
    file.write_bytes(b"".join(ordinary()[:2]) + b"x\n")
    assert "block 2" in one_line_error(parley("ledger", "export", file, "--output", "said.jsonl"), 1)
    assert not Path("said.jsonl").exists()


@pytest.mark.parametrize("command", ["build", "sign", "verify", "show", "export"])
def test_every_command_of_the_ledger_has_help_with_an_example(parley: Parley, command: str) -> None:
    ran = parley("ledger", command, "--help")
    assert ran.status == 0
    assert f"parley ledger {command}" in ran.out
    assert "Example" in ran.out


def test_an_author_signs_and_readers_check(parley: Parley, file: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    Path("author.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signed = parley("ledger", "sign", file, "--key", "author.pem")
    assert (signed.status, signed.err) == (
        0,
        f"{file.with_name('head.json.sig')}: the head is signed; the public key is on standard output\n",
    )
    Path("author.pub").write_text(signed.out)
    checked = parley("ledger", "verify", file, "--public-key", "author.pub")
    assert checked.status == 0
    assert "chain whole; its head is signed by the owner of author.pub" in checked.out
    write_chain(file, chain([session()]))
    assert "bad signature: the head is not what" in one_line_error(
        parley("ledger", "verify", file, "--public-key", "author.pub"), 1
    )
    file.write_bytes(b"x\n")
    assert "block 0" in one_line_error(parley("ledger", "sign", file, "--key", "author.pem"), 1)


@pytest.mark.usefixtures("council")
def test_the_ledger_of_a_study_is_signed_only_if_its_records_give_it(
    parley: Parley, study_factory: StudyFactory
) -> None:
    recorded_study(study_factory)
    key = ed25519.Ed25519PrivateKey.generate()
    Path("author.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert parley("ledger", "build", "small.yaml").status == 0
    Path("author.pub").write_text(parley("ledger", "sign", "small.yaml", "--key", "author.pem").out)
    checked = parley("ledger", "verify", "small.yaml", "--public-key", "author.pub")
    assert checked.out.endswith(
        "chain whole, and that of the study's records; its head is signed by the owner of author.pub\n"
    )
    write_chain(paths.ledger("small"), ordinary())
    assert "not what" in one_line_error(parley("ledger", "sign", "small.yaml", "--key", "author.pem"), 1)
