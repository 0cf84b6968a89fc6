"""The commands of the ledger, from outside."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parley import paths
from support.commands import Parley, one_line_error
from support.playing import recorded_study
from support.records import chain, forged, ordinary, session, write_chain
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A ledger is made, checked and shown; what agents say does nothing to a terminal.")

HOSTILE = "\x1b[2J\x07\u202e\u2028line\nblock 9: fine\r=1+1"


@pytest.mark.usefixtures("council")
@pytest.mark.slow
def test_a_study_has_its_ledger_made_checked_and_shown(parley: Parley, study_factory: StudyFactory) -> None:
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


def test_a_bad_file_is_named_with_the_place_in_one_line(parley: Parley, folder: Path) -> None:
    def change(block: dict[str, Any]) -> None:
        block["utterances"][1]["content"]["answer"] = 3

    file = write_chain(folder / "chain.jsonl", ordinary())
    write_chain(file, forged(ordinary(), 2, change))
    error = one_line_error(parley("ledger", "verify", file), 1)
    assert error == f"parley: {file}: block 2: utterance 1 (agent_2, round 2): bad signature\n"


@pytest.mark.parametrize("command", ["verify", "show"])
@pytest.mark.usefixtures("folder")
def test_hostile_and_missing_files_end_in_one_line(parley: Parley, command: str) -> None:
    hostile = [b"\n", b"[" * 50_000, b"{}\n", b'{"a":NaN}\n', b'{"a":' + b"1" * 10_000 + b"}\n", b"\xff\x00\n"]
    for content in hostile:
        Path("x.jsonl").write_bytes(content)
        assert one_line_error(parley("ledger", command, "x.jsonl"), 1).startswith("parley: x.jsonl: block 0: ")
    Path("x.jsonl").write_bytes(b"")
    assert parley("ledger", command, "x.jsonl").status == (command == "verify")  # a chain of no blocks, and no head
    assert "none.jsonl: cannot be read" in one_line_error(parley("ledger", command, "none.jsonl"), 1)


def test_what_agents_say_does_nothing_to_a_terminal(parley: Parley, folder: Path) -> None:
    said = {"why": HOSTILE, HOSTILE: [HOSTILE]}
    one = session(verdict={"answer": HOSTILE}, subject={HOSTILE: HOSTILE}, parameters={"x": HOSTILE})
    utterances = tuple(replace(utterance, content=said) for utterance in one.utterances)
    path = write_chain(Path("chain.jsonl"), chain([replace(one, utterances=utterances)]))
    ran = parley("ledger", "show", path)
    assert ran.status == 0
    assert not set(ran.out) & set("\x1b\x07\r\u202e\u2028")
    assert not any(line.startswith("block 9") for line in ran.out.splitlines())
