"""Parquet files that may come from anyone: what they declare is compared with bounds before anything is unpacked.

pyarrow checks the pages by their checksums. A file whose page headers belie its footer can still take memory
(docs/data.md, "What the checks do not stop").
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MAX_BYTES = 512 * 2**20  # of a file
_MAX_FOOTER_BYTES = 256 * 2**20  # metadata stands in it twice, once in base64: of 64 MiB it makes 150
_MAX_OF_A_LIST = 100  # columns, row groups, pairs of metadata: Parquet's own limit is a million of each
_MAX_ROWS = 2_000_000
_LEAST_UNPACKED = 256 * 2**20  # bytes that a file may unpack to, however small it is
_MAX_UNPACKED = 64  # bytes for each byte of a larger file: long histories, which stand in each question, pack well
# Before the footer, with its SHA-256: nothing else would show a wrong bit there, such as in the number of rows.
_SEAL = b"parley-footer:"
_ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY"}  # others unpack to more than they declare


@dataclass(frozen=True)
class ParquetFile:
    """A file in memory, of which only the footer was unpacked."""

    content: bytes
    footer: pq.FileMetaData
    pages: memoryview  # what the columns take of the file

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; who reads the metadata alone need not wait for them."""
        return self.footer.schema.to_arrow_schema()

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """The pairs that who wrote the file has put into it."""
        return self.footer.metadata or {}


def open_parquet(content: bytes) -> ParquetFile:
    """Return the file that `write_parquet` made; a footer that is not as it was written is not parsed.

    Raises ValueError, OSError or pyarrow's exceptions for anything else.
    """
    start = _footer_start(content)
    end = max(start - len(_seal(b"")), 0)
    if content[end : max(start, 0)] != _seal(content[start:]):
        raise ValueError("its footer is damaged, or another program wrote it")
    reader = pq.ParquetFile(
        pa.BufferReader(content),
        thrift_string_size_limit=_MAX_FOOTER_BYTES,
        thrift_container_size_limit=_MAX_OF_A_LIST,
    )
    return ParquetFile(content, reader.metadata, memoryview(content)[:end])


def _footer_start(content: bytes) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # its length stands last


def write_parquet(rows: pa.Table, describe: Callable[[bytes], Mapping[bytes, bytes]]) -> bytes:
    """Return rows as a file; `describe` is given its pages, and returns its metadata."""
    first, last, whole = pa.BufferOutputStream(), pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(None), first, compression="zstd", write_page_checksum=True)
    content: bytes = first.getvalue().to_pybytes()
    pages = content[: _footer_start(content)]
    pq.write_metadata(rows.schema.with_metadata(describe(pages)), last)
    footer = pq.read_metadata(pa.BufferReader(last.getvalue()))
    footer.append_row_groups(pq.read_metadata(pa.BufferReader(content)))
    footer.write_metadata_file(whole)
    end: bytes = whole.getvalue().to_pybytes()[4:]  # without the magic of a file that is a footer alone
    return pages + _seal(end) + end


def _seal(footer: bytes) -> bytes:
    return _SEAL + hashlib.sha256(footer).digest()


def read_rows(file: ParquetFile, names: Sequence[str] | None = None) -> pa.Table:
    """Return all rows, or some columns of them, each text once, in dictionaries; the pages' checksums are verified.

    Raises ValueError, OSError or pyarrow's exceptions for what is damaged, or declares more than the bounds.
    """
    _check_size(file.footer, len(file.content))
    reader = pq.ParquetFile(
        pa.BufferReader(file.content),
        metadata=file.footer,
        read_dictionary=[field.name for field in file.schema if _is_text(field.type)],
        page_checksum_verification=True,
    )
    rows = reader.read(columns=names, use_threads=False)
    rows.validate(full=True)  # no checksum covers how many texts a dictionary has
    return rows.unify_dictionaries().combine_chunks()


def _check_size(footer: pq.FileMetaData, size: int) -> None:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    columns = [group.column(number) for group in groups for number in range(group.num_columns)]
    if max(footer.num_rows, sum(group.num_rows for group in groups)) > _MAX_ROWS:
        raise ValueError(f"it has {footer.num_rows:,} rows, and may have {_MAX_ROWS:,}")
    most = max(_LEAST_UNPACKED, _MAX_UNPACKED * size)
    if sum(column.total_uncompressed_size for column in columns) > most:
        raise ValueError(f"it unpacks to more than {most:,} bytes")
    for column in columns:
        if not _ENCODINGS.issuperset(column.encodings):
            raise ValueError(f"its column {column.path_in_schema!r} is encoded in a way that is not read")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind.value_type if pa.types.is_dictionary(kind) else kind))


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; texts that are alike are one object, however often they stand there."""
    array = column.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        return list(array.to_pylist())
    texts = array.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in array.indices.to_pylist()]


def packed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers, times as numbers, truth values or texts as an array; raises OverflowError for what has no room.

    pa.array would import pandas and pyarrow.compute: a third of the start of a process that plays one game.
    """
    if pa.types.is_dictionary(kind):
        places = {value: place for place, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
        coded = packed_array([None if v is None else places[v] for v in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(coded, packed_array(list(places), kind.value_type))
    valid = np.packbits([value is not None for value in values], bitorder="little") if None in values else None
    buffers = [None if valid is None else pa.py_buffer(valid)]
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.array([0, *accumulate(map(len, texts))], np.int32)
        buffers += [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    elif pa.types.is_boolean(kind):
        buffers.append(pa.py_buffer(np.packbits([bool(value) for value in values], bitorder="little")))
    else:
        number = f"{'f' if pa.types.is_floating(kind) else 'i'}{kind.bit_width // 8}"
        buffers.append(pa.py_buffer(np.array([0 if value is None else value for value in values], number)))
    return pa.Array.from_buffers(kind, len(values), buffers)
