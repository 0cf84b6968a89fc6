"""Records that unpack to gigabytes: they are refused before that, in a process that stays small."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parley.errors import RecordError
from parley.play import parquet
from parley.play.record import read_record, write_record
from parley.play.record_content import SCHEMA
from support import REPOSITORY
from support.playing import play_of
from support.records import with_metadata
from support.studies import StudyFactory

pytestmark = pytest.mark.promise("A record that would unpack to gigabytes is refused by a small process.")

MAX_MIB = 500  # of a process that has imported what reads records, which alone takes a third of it


@pytest.fixture
def path(study_factory: StudyFactory) -> Path:
    simulation = next(study_factory(parameters={"max_rounds": 2}).simulations())
    write_record(simulation.record("small"), simulation, play_of(simulation), {})
    return simulation.record("small")


def with_pages(path: Path, rows: pa.Table, to: Path | None = None, **how: Any) -> Path:
    """Give a record other rows, stored in a way that ours are not, and checksums that are right."""
    found = pq.read_schema(path).metadata

    def stored(metadata: dict[bytes, bytes]) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(rows.replace_schema_metadata(metadata), sink, compression="zstd", **how)
        content: bytes = sink.getvalue().to_pybytes()
        start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        return content[:start] + parquet._seal(content[start:]) + content[start:]

    meta = json.loads(found[b"parley"])
    meta["rows"] = {"bytes_sha256": hashlib.sha256(parquet.open_parquet(stored({})).pages).hexdigest()}
    metadata = {b"parley": json.dumps(meta).encode(), b"parley_trace": found[b"parley_trace"]}
    to = to or path
    to.write_bytes(stored(metadata))
    return to


def with_texts(path: Path, texts: pa.Array) -> pa.Table:
    """Return the first row of a record as often as there are texts, each with one of them."""
    table = pq.read_table(path, partitioning=None).slice(0, 1)
    repeated = table.take(pa.array([0] * len(texts), pa.int64()))
    return repeated.set_column(SCHEMA.get_field_index("text"), SCHEMA.field("text"), texts).cast(SCHEMA)


def make_hostile(path: Path) -> dict[str, str]:
    """Write files beside a record that unpack to much more than they are; return what each is refused for."""
    trace = b"parley_trace"
    delta = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    pages: dict[str, tuple[str, pa.Table, dict[str, Any]]] = {
        # Held once by the file, and by who reads it.
        "repeated": (
            "no such reply",
            with_texts(path, pa.array(["x" * 2**20] * 600)),
            {"dictionary_pagesize_limit": 2**22},
        ),
        "zeros": ("unpacks to more than", with_texts(path, pa.array(["x" * 3 * 10**8])), {"use_dictionary": False}),
        # Each text says only how much of the one before it begins with.
        "delta": (
            "'text' is encoded in a way that is not read",
            with_texts(path, pa.array(["x" * 2**20] * 150)),
            delta,
        ),
    }
    metadata = {
        "deep trace": (trace, b"[" * 15_000 + b"]" * 15_000, "damaged metadata"),
        "many values": (trace, b"[" + b"{}," * 2_000_000 + b"{}]", "more than 4,000,000 values"),
        "large": (b"parley", b'["' + b"x" * 9_000_000 + b'"]', "9,000,004 bytes"),
    }
    found = {}
    for name, (words, rows, how) in pages.items():
        found[str(with_pages(path, rows, path.with_name(f"{name}.parquet"), **how))] = words
    for name, (key, text, words) in metadata.items():
        found[str(with_metadata(path, key, text, name))] = words
    content = path.read_bytes()
    footer = path.with_name("footer.parquet")
    footer.write_bytes(content[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1")
    return {**found, str(footer): "cut short or not Parquet"}


# Says what each file was refused for, and each time how large the process had been, in MiB.
CHILD = """
import re, sys
from pathlib import Path
from parley.errors import RecordError
from parley.play.replay import replay
for path in sys.argv[1:]:
    try:
        print(f"{path}: {replay(Path(path)).difference}")
    except RecordError as error:
        print(error)
    print(int(re.search("VmHWM: +([0-9]+)", Path("/proc/self/status").read_text().replace("\t", " "))[1]) // 1024)
"""


@pytest.mark.rare
def test_records_that_unpack_to_gigabytes_are_read_or_refused_by_a_small_process(path: Path) -> None:
    expected = make_hostile(path)
    files = sorted(expected, key=lambda file: Path(file).stat().st_size)
    command = [sys.executable, "-c", CHILD, *files]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.splitlines()
    for file, refusal, size in zip(files, told[::2], told[1::2], strict=True):
        assert refusal.startswith(f"{file}: ")
        assert expected[file] in refusal
        assert int(size) < MAX_MIB + 5 * Path(file).stat().st_size // 2**20, file  # a footer is not packed


def test_what_declares_more_than_the_bounds_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = path.read_bytes()
    for bound, words in (("_MAX_ROWS", "rows, and may have 1"), ("_LEAST_UNPACKED", "it unpacks to more than")):
        path.write_bytes(whole)
        assert read_record(path)[1]
        with_pages(path, with_texts(path, pa.array(["x" * 10**7, ""])), use_dictionary=False)
        with monkeypatch.context() as patch:
            patch.setattr(f"parley.play.parquet.{bound}", 1)
            with pytest.raises(RecordError, match=words):
                read_record(path)


def test_a_record_that_is_cut_anywhere_is_called_cut_short(path: Path) -> None:
    content = path.read_bytes()
    # Also where the bytes that are now the last ones, read as the length of a footer, are a large number.
    for end in [*range(0, len(content), 499), *(len(content) - by for by in (1, 4, 8))]:
        path.write_bytes(content[:end])
        with pytest.raises(RecordError, match="cut short or not Parquet") as caught:
            read_record(path)
        assert "larger than" not in str(caught.value), end


@pytest.mark.slow
def test_the_limit_that_the_page_names_has_room_for_the_libraries() -> None:
    [most] = re.findall(r"`ulimit -v (\d+)`", (REPOSITORY / "docs" / "data.md").read_text())
    command = f"ulimit -v {most}; {sys.executable} -c 'import parley.analysis.summarize'"
    many = {**os.environ, "OPENBLAS_NUM_THREADS": "64"}  # each reserves memory
    subprocess.run(["sh", "-c", command], env=many, check=True, timeout=200)
