"""Records that unpack to gigabytes: they are refused before that, in a process that stays small."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parley.errors import RecordError
from parley.play import record
from parley.play.parquet import finished, parquet_file, rows_checksum
from parley.play.record import read_record, read_trace, write_record
from parley.play.record_content import SCHEMA
from parley.play.record_limits import META_VALUES, bounded_json, limits_of
from support.playing import play_of
from support.studies import StudyFactory

MAX_MIB = 500  # of a process that has imported what reads records, which alone takes a third of it


@pytest.fixture
def path(study_factory: StudyFactory) -> Path:
    simulation = next(study_factory(parameters={"max_rounds": 2}).simulations())
    write_record(simulation.record("small"), simulation, play_of(simulation), {})
    return simulation.record("small")


def with_pages(path: Path, rows: pa.Table, checksum: str = "0" * 64, **how: Any) -> None:
    """Give a record other rows, stored in a way that ours are not, and checksums that are right."""
    import hashlib

    table = pq.read_table(path, partitioning=None)
    meta = json.loads(table.schema.metadata[b"parley"])
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(None), sink, compression="zstd", **how)
    file = parquet_file(sink.getvalue().to_pybytes())
    meta["rows"] = {"sha256": checksum, "bytes_sha256": hashlib.sha256(file.data).hexdigest()}
    metadata = {b"parley": json.dumps(meta).encode(), b"parley_trace": table.schema.metadata[b"parley_trace"]}
    metadata[record.CHECK_KEY] = record.checksum(metadata)
    path.write_bytes(finished(bytes(file.data), file.footer, SCHEMA.with_metadata(metadata)))


def with_texts(path: Path, texts: pa.Array) -> pa.Table:
    """Return the first row of a record as often as there are texts, each with one of them."""
    table = pq.read_table(path, partitioning=None).slice(0, 1)
    repeated = table.take(pa.array([0] * len(texts), pa.int64()))
    return repeated.set_column(SCHEMA.get_field_index("text"), SCHEMA.field("text"), texts).cast(SCHEMA)


def many_rows(path: Path) -> None:
    with_pages(path, with_texts(path, pa.array([""] * 300_000)))


def one_text_again_and_again(path: Path) -> None:
    """Four gigabytes in a file of some kilobytes: 4,000 rows with one text of a megabyte."""
    rows = with_texts(path, pa.array(["x"] * 4_000))
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), pa.array(["x" * 2**20]))
    place = rows.schema.get_field_index("text")
    rows = rows.set_column(place, pa.field("text", codes.type, nullable=False), codes)
    with_pages(path, rows)


def zeros(path: Path) -> None:
    """A text of 1 GB that packs well."""
    with_pages(path, with_texts(path, pa.array(["x" * 10**9])), use_dictionary=False)


def one_text_from_the_one_before(path: Path) -> None:
    """Each text says only how much of the one before it begins with."""
    texts = pa.array(["x" * 2**20] * 150)
    with_pages(path, with_texts(path, texts), use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"})


def with_metadata(path: Path, key: bytes, text: bytes) -> None:
    table = pq.read_table(path, partitioning=None)
    metadata = {**table.schema.metadata, key: text}
    metadata[record.CHECK_KEY] = record.checksum(metadata)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def deep(path: Path) -> None:
    with_metadata(path, b"parley", b"[" * 5_000_000 + b"]" * 5_000_000)


def deep_trace(path: Path) -> None:
    with_metadata(path, b"parley_trace", b"[" * 15_000 + b"]" * 15_000)


def many_values(path: Path) -> None:
    with_metadata(path, b"parley_trace", b"[" + b"{}," * 8_000_000 + b"{}]")


def many_values_of_meta(path: Path) -> None:
    with_metadata(path, b"parley", b"[" + b"{}," * 2_600_000 + b"{}]")


def large_trace(path: Path) -> None:
    with_metadata(path, b"parley_trace", b'["' + b"x" * 90_000_000 + b'"]')


def huge_footer(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-8] + (2**31 - 1).to_bytes(4, "little") + b"PAR1")


CHILD = """
import re, sys
from pathlib import Path
from parley.errors import RecordError
from parley.play.replay import replay
from parley.play.record import read_summary
try:
    {"replay": replay, "summary": read_summary}[sys.argv[2]](Path(sys.argv[1]))
except RecordError as error:
    print(error)
print(int(re.search("VmHWM: +([0-9]+)", Path("/proc/self/status").read_text().replace("\t", " "))[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        (many_rows, "300,000 rows, and it may have"),
        (one_text_again_and_again, "4,000 rows, and it may have"),
        (zeros, "it unpacks to more than"),
        (one_text_from_the_one_before, "its column 'text' is encoded in a way that is not read"),
        (deep, "damaged metadata"),
        (deep_trace, "damaged metadata (nested too deeply)"),
        (many_values, "damaged metadata"),
        (many_values_of_meta, "damaged metadata (more than 1,000,000 values)"),
        (large_trace, "damaged metadata (90,000,004 bytes, and it can have"),
        (huge_footer, "cut short or not Parquet (its end is missing)"),
    ],
)
def test_a_record_that_unpacks_to_gigabytes_is_refused_by_a_small_process(
    path: Path, hostile: Callable[[Path], None], words: str
) -> None:
    hostile(path)
    told = replayed_by_a_child(path)
    assert told[0].startswith(f"{path}: ")
    assert words in told[0]
    assert int(told[-1]) < MAX_MIB + 5 * path.stat().st_size // 2**20, told  # a footer is not packed


def replayed_by_a_child(path: Path, how: str = "replay") -> list[str]:
    command = [sys.executable, "-c", CHILD, str(path), how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return ended.stdout.splitlines()


@pytest.mark.slow
def test_a_text_that_is_repeated_as_often_as_may_be_is_kept_once(path: Path) -> None:
    """Rows that are no more than their study allows, and a text of 16 MB in each: 3 GB, if each had its own."""
    count = 190
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 2**24]))
    table = with_texts(path, pa.array(["x"] * count))
    place = table.schema.get_field_index("text")
    coded = table.set_column(place, pa.field("text", codes.type, nullable=False), codes)
    with_pages(path, coded, rows_checksum(coded))
    assert path.stat().st_size < 50_000
    assert int(replayed_by_a_child(path)[-1]) < MAX_MIB
    assert len({id(entry.text) for entry in read_record(path)[1]}) == 1


def test_limits_are_those_of_the_study_that_the_record_is_of() -> None:
    parameters = {"max_rounds": 10, "retries": 1}
    described = {"game": "consensus", "parameters": parameters, "groups": [{"count": 4}, {"count": 1}]}
    assert limits_of(described, 0).rows == 5 * 10 * 2 * 8
    assert limits_of({**described, "parameters": {"max_rounds": 20, "retries": 1}}, 0).rows == 5 * 20 * 2 * 8
    anything = limits_of({}, 0)
    for foreign in ({"game": "chess"}, {**described, "groups": None}, {**described, "parameters": {"max_rounds": -1}}):
        assert limits_of(foreign, 0) == anything
    assert limits_of(described, 0).rows < anything.rows


def test_texts_are_bounded_by_the_size_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest record of 24 MB, of 100 agents, 60 rounds and a history of 50, unpacks to more than 256 MiB."""
    described = {"game": "consensus", "parameters": {"max_rounds": 60}, "groups": [{"count": 100}]}
    assert limits_of(described, 10_000).text_bytes == 256 * 2**20
    assert limits_of(described, 24_000_000).text_bytes == 64 * 24_000_000
    assert limits_of({}, 10**6).rows * 2**20 > limits_of({}, 10**6).text_bytes
    monkeypatch.setattr("parley.play.record_limits._LEAST_TEXT_BYTES", 1)
    assert read_record(path)[1]
    with_pages(path, with_texts(path, pa.array(["x" * 10**7])), use_dictionary=False)
    with pytest.raises(RecordError, match="it unpacks to more than"):
        read_record(path)


def test_a_trace_as_long_as_may_be_is_read(path: Path) -> None:
    """It stands twice in the file, once in base64: a footer of 64 MiB, as was allowed, had room for 27 MB."""
    trace = [{"text": "x" * 60_000_000}]
    table = pq.read_table(path, partitioning=None)
    meta = json.loads(table.schema.metadata[b"parley"])
    meta["simulation"] = {}  # whose limits are those of any
    path.write_bytes(record.packed(table, meta, trace))
    assert read_trace(path) == trace


def test_a_record_that_is_cut_anywhere_is_called_cut_short(path: Path) -> None:
    content = path.read_bytes()
    # Also where the bytes that are now the last ones, read as the length of a footer, are a large number.
    for end in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:end])
        with pytest.raises(RecordError, match="cut short or not Parquet") as caught:
            read_record(path)
        assert "larger than" not in str(caught.value), end


@pytest.mark.parametrize(
    "text", [b"[1,2,3]", b'"' + b"," * 1000 + b'"', rb'"\",\\",[]', b'{"a": ["' + b"[" * 99 + b'"]}']
)
def test_what_stands_in_texts_is_no_value(text: bytes) -> None:
    if text.endswith(b",[]"):
        with pytest.raises(ValueError, match="values"):
            bounded_json(text, 10_000, 1)
        return
    assert bounded_json(text, 10_000, 5) == json.loads(text)


def test_more_than_a_study_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="10 bytes, and it can have 9"):
        bounded_json(b"[1,2,3,45]", 9, META_VALUES)
    with pytest.raises(ValueError, match="more than 3 values"):
        bounded_json(b"[1,2,3,45]", 10, 3)


def test_a_trace_is_read_without_a_look_at_the_rows(path: Path) -> None:
    trace = read_trace(path)
    many_rows_of_nobody = read_record(path)
    assert trace
    assert many_rows_of_nobody[1]
    with_metadata(path, b"parley_trace", b"[1,")
    with pytest.raises(RecordError, match="damaged metadata"):
        read_trace(path)
