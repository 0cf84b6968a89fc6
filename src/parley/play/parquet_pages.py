"""The headers of a column's pages, which say how much each unpacks to, and how; pyarrow does not show them.

They are in Thrift's compact protocol (parquet-format, PageHeader). What a file's footer says of its pages is not
what they are unpacked by.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# Of Parquet's Encoding: what can unpack to no more than a page says, or to a number for each row.
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
ENCODINGS = frozenset({PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY})

# Of Thrift's types in the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_UNPACKED, _PACKED = 2, 3
# The header of a data page, of a dictionary, of the second kind of data page; and where the encoding stands in each.
_PLACES = ((5, 2), (7, 2), (8, 4))
_DEEPEST = 10  # a page header has two levels


@dataclass(frozen=True)
class Page:
    """One page: how many bytes it unpacks to, and the number of its encoding."""

    unpacked: int
    encoding: int


def pages(content: bytes, start: int, length: int) -> Iterator[Page]:
    """Yield the pages of a column from `start` on, `length` bytes of a file; raises ValueError for what is none."""
    at, end = start, start + length
    if not 0 <= start <= end <= len(content):
        raise ValueError("a column lies outside of its file")
    while at < end:
        reader = _Reader(content, at, end)
        header = reader.struct(0)
        unpacked, packed = header.get(_UNPACKED), header.get(_PACKED)
        encodings = [kind.get(place) for key, place in _PLACES if isinstance(kind := header.get(key), dict)]
        if not isinstance(unpacked, int) or not isinstance(packed, int) or min(unpacked, packed) < 0 or not encodings:
            raise ValueError("a page without its sizes")
        for encoding in encodings:
            yield Page(unpacked, encoding if isinstance(encoding, int) else -1)
        at = reader.at + packed


class _Reader:
    """Reads what is a few dozen bytes in an honest file."""

    def __init__(self, content: bytes, at: int, end: int) -> None:
        self.at = at
        self._content = content
        self._end = end

    def struct(self, depth: int) -> dict[int, object]:
        """Return the numbers and structs of a struct by their field; what else it has is skipped."""
        if depth > _DEEPEST:
            raise ValueError("a page header is nested too deeply")
        fields: dict[int, object] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._number()
            fields[field] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in (_I16, _I32, _I64):
            return self._number()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _BINARY:
            return self._skip(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise ValueError("a page header with a value of a kind that it cannot have")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a page header with a number that is too long")

    def _byte(self) -> int:
        if self.at >= self._end:
            raise ValueError("a page header that is cut short")
        self.at += 1
        return self._content[self.at - 1]

    def _skip(self, count: int) -> object:
        if count > self._end - self.at:
            raise ValueError("a page header that is cut short")
        self.at += count
        return None
