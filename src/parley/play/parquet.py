"""Parquet files that may come from anyone: what they unpack to is bounded before it is unpacked.

A file of a few kilobytes can unpack to gigabytes: a long text that is repeated a million times, zeros that were
compressed, text by text as long as the one before. So texts are kept once each (as dictionaries), only the plain
encodings are read, and the sizes of all pages are looked at first.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from parley.play.parquet_pages import ENCODINGS, pages

# Not packed, so no more than the file has; metadata stands in it twice, once in base64: of 64 MiB it makes 150.
MAX_FOOTER_BYTES = 256 * 2**20
_MAX_OF_A_LIST = 100  # columns, row groups, pairs of metadata: Parquet's own limit is a million of each
_FOOTER_END = 8  # the footer's length and the closing magic
_MAGIC = b"PAR1"
# Before the footer, with its SHA-256: pyarrow may end the process over a footer with a wrong bit, so none is parsed.
_SEAL = b"parley-footer:"
_SEAL_BYTES = len(_SEAL) + hashlib.sha256().digest_size


class BadParquetError(ValueError):
    """What a file has that is not unpacked."""


@dataclass(frozen=True)
class ParquetFile:
    """A file in memory, of which only the footer was unpacked."""

    content: bytes
    footer: pq.FileMetaData
    schema: pa.Schema
    data_bytes: int

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """The pairs that who wrote the file has put into it."""
        return self.footer.metadata or {}

    @property
    def data(self) -> memoryview:
        """All of the file before its footer: the pages."""
        return memoryview(self.content)[: self.data_bytes]


def parquet_file(content: bytes) -> ParquetFile:
    """Return the file that `content` is; raises ValueError or pyarrow's exceptions if it is none.

    The footer of one that `finished` made must be as it was written. Others are parsed as they are.
    """
    footer = int.from_bytes(content[-_FOOTER_END:-4], "little")
    if content[-4:] != _MAGIC or footer + _FOOTER_END > len(content):
        raise BadParquetError("its end is missing")
    if footer > MAX_FOOTER_BYTES:
        raise BadParquetError(f"its footer is larger than {MAX_FOOTER_BYTES // 2**20} MiB")
    end = len(content) - _FOOTER_END - footer
    seal = content[max(0, end - _SEAL_BYTES) : end]
    if seal.startswith(_SEAL):
        if seal != _seal(memoryview(content)[end:]):
            raise BadParquetError("its footer is damaged")
        end -= _SEAL_BYTES
    file = pq.ParquetFile(
        pa.BufferReader(content),
        thrift_string_size_limit=MAX_FOOTER_BYTES,
        thrift_container_size_limit=_MAX_OF_A_LIST,
    )
    return ParquetFile(content, file.metadata, file.schema_arrow, end)


def _seal(footer: bytes | memoryview) -> bytes:
    return _SEAL + hashlib.sha256(footer).digest()


def write_parquet(table: pa.Table) -> tuple[bytes, pq.FileMetaData]:
    """Return the pages of a table as a file begins with them, and what `finished` needs besides."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    file = parquet_file(sink.getvalue().to_pybytes())
    return bytes(file.data), file.footer


def finished(data: bytes, footer: pq.FileMetaData, schema: pa.Schema) -> bytes:
    """Return the file with these pages, whose footer has the metadata of `schema`: it can tell of the pages."""
    empty, whole = pa.BufferOutputStream(), pa.BufferOutputStream()
    pq.write_metadata(schema, empty)
    own = pq.read_metadata(pa.BufferReader(empty.getvalue()))
    own.append_row_groups(footer)
    own.write_metadata_file(whole)
    end = bytes(whole.getvalue().to_pybytes()[4:])  # without the magic of a file that is a footer alone
    return data + _seal(end) + end


def read_rows(file: ParquetFile, most_rows: int, most_bytes: int, names: Sequence[str] | None = None) -> pa.Table:
    """Return all rows, each text once, in dictionaries; the checksums of the pages are verified.

    Of the columns with these `names` alone, if they are given.

    Raises BadParquetError if there are more rows, or pages of more bytes, than may be, ValueError or pyarrow's
    exceptions for a damaged file.
    """
    check_size(file, most_rows, most_bytes, names)
    texts = [field.name for field in file.schema if is_text(field.type)]
    reader = pq.ParquetFile(
        pa.BufferReader(file.content),
        metadata=file.footer,
        read_dictionary=texts,
        page_checksum_verification=True,
    )
    rows = reader.read(columns=names, use_threads=False)
    rows.validate(full=True)  # no checksum covers how many texts a dictionary has
    return rows.unify_dictionaries().combine_chunks()


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds texts, as they are or in a dictionary."""
    return bool(pa.types.is_string(kind.value_type if pa.types.is_dictionary(kind) else kind))


def values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column; texts that are alike are one object, however often they stand there."""
    found = column.combine_chunks()
    if not pa.types.is_dictionary(found.type):
        return list(found.to_pylist())
    texts = found.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in found.indices.to_pylist()]


def check_size(file: ParquetFile, most_rows: int, most_bytes: int, names: Sequence[str] | None = None) -> None:
    """Raise BadParquetError if a file has more rows than `most_rows`, or unpacks to more than `most_bytes`.

    Only the columns with these `names` are looked at, if they are given.
    """
    footer = file.footer
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    if max(footer.num_rows, sum(group.num_rows for group in groups)) > most_rows:
        raise BadParquetError(f"{footer.num_rows:,} rows, and it may have {most_rows:,}")
    unpacked = 0
    for group in groups:
        for number in range(group.num_columns):
            column = group.column(number)
            if names is not None and column.path_in_schema not in names:
                continue
            for page in pages(file.content, _start(column), column.total_compressed_size):
                unpacked += page.unpacked
                if page.encoding not in ENCODINGS:
                    raise BadParquetError(f"its column {column.path_in_schema!r} is encoded in a way that is not read")
            if unpacked > most_bytes:
                raise BadParquetError(f"it unpacks to more than {most_bytes:,} bytes")


def data_end(footer: pq.FileMetaData) -> int:
    """Return the offset at which the last column chunk ends."""
    end = 4  # the opening magic
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        last = group.column(group.num_columns - 1)
        end = max(end, _start(last) + last.total_compressed_size)
    return end


def _start(column: pq.ColumnChunkMetaData) -> int:
    """Return the offset of the first page of a column, as pyarrow finds it."""
    dictionary = column.dictionary_page_offset if column.has_dictionary_page else None
    return int(min(dictionary or column.data_page_offset, column.data_page_offset))


def rows_checksum(table: pa.Table) -> str:
    """Return the SHA-256 over the content of a table, however a file stores it: names, order, values, gaps."""
    whole = hashlib.sha256()
    for name in table.column_names:
        whole.update(f"{name}\n".encode())
        for part in _column_bytes(table.column(name)):
            whole.update(part)
    return whole.hexdigest()


def _column_bytes(column: pa.ChunkedArray) -> Iterator[bytes]:
    """Yield the content of a column: for each text its own SHA-256, for each number eight bytes."""
    values = column.combine_chunks()
    present, numbers = _unpacked(values.indices if pa.types.is_dictionary(values.type) else values)
    yield (~present).astype(np.int8).tobytes()
    if pa.types.is_dictionary(values.type):
        hashes = [hashlib.sha256(text.encode()).digest() for text in values.dictionary.to_pylist()]
        table = np.frombuffer(b"".join([*hashes, bytes(32)]), dtype="V32")
        yield table[np.where(present, numbers, len(hashes))].tobytes()
    elif is_text(values.type):
        yield b"".join(
            bytes(32) if text is None else hashlib.sha256(text.encode()).digest() for text in values.to_pylist()
        )
    else:
        yield np.where(present, numbers, 0).astype("<f8" if numbers.dtype.kind == "f" else "<i8").tobytes()


# pyarrow.compute and pandas, which pa.array imports to ask whether a list is one of its own, are a third of the start
# of a process that plays one game: so these two do without them.


def _unpacked(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return where an array has values, and its numbers, which mean something there; of texts nothing that does."""
    valid, data = values.buffers()[:2]
    part = slice(values.offset, values.offset + len(values))
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little") if valid else np.ones(part.stop)
    return bits[part].astype(bool), np.frombuffer(data or b"", _number_type(values.type))[part]


def packed_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers, times as numbers, or texts as an array; raises OverflowError for what has no room."""
    if pa.types.is_dictionary(kind):
        places = {value: place for place, value in enumerate(dict.fromkeys(v for v in values if v is not None))}
        found = packed_array([None if v is None else places[v] for v in values], kind.index_type)
        return pa.DictionaryArray.from_arrays(found, packed_array(list(places), kind.value_type))
    valid = np.packbits([value is not None for value in values], bitorder="little") if None in values else None
    buffers = [None if valid is None else pa.py_buffer(valid)]
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = np.array([0, *accumulate(map(len, texts))], np.int32)
        buffers += [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    else:
        buffers.append(pa.py_buffer(np.array([0 if value is None else value for value in values], _number_type(kind))))
    return pa.Array.from_buffers(kind, len(values), buffers)


def _number_type(kind: pa.DataType) -> str:
    return "i4" if pa.types.is_string(kind) else f"{'f' if pa.types.is_floating(kind) else 'i'}{kind.bit_width // 8}"
