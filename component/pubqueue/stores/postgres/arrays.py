"""Columns as PostgreSQL takes them: whole arrays in binary form, each of a fixed type whatever it contains.

psycopg would look at every element to choose a type, and a column with only NULLs would need another prepared statement.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.abc import Buffer
    from psycopg.adapt import AdaptersMap

_HEAD: Final = Struct(">iiIii")
_LENGTH: Final = Struct(">i")
_INT: Final = Struct(">iq")
_FLAG: Final = Struct(">i?")
_NULL: Final = _LENGTH.pack(-1)


def _integer(value: int) -> bytes:
    return _INT.pack(8, value)


def _flag(value: object) -> bytes:
    return _FLAG.pack(1, bool(value))


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _byte_count(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


class Column:
    """The values of one column; its subclasses are PostgreSQL's types."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values


class _Integers(Column):
    pass


class _Texts(Column):
    pass


class _Bytes(Column):
    pass


class _Flags(Column):
    pass


class _ColumnDumper(Dumper):
    """Writes an array of one dimension with lower bound 1; a NULL is a length of -1."""

    format = Format.BINARY
    element: int
    write: Callable[[Any], bytes]

    def dump(self, obj: Column) -> Buffer | None:
        """Return the array."""
        write = type(self).write
        values = obj.values
        head = _HEAD.pack(1, 1, self.element, len(values), 1)
        return head + b"".join([_NULL if value is None else write(value) for value in values])


class _IntegersDumper(_ColumnDumper):
    oid, element, write = 1016, 20, staticmethod(_integer)


class _TextsDumper(_ColumnDumper):
    oid, element, write = 1009, 25, staticmethod(_text)


class _BytesDumper(_ColumnDumper):
    oid, element, write = 1001, 17, staticmethod(_byte_count)


class _FlagsDumper(_ColumnDumper):
    oid, element, write = 1000, 16, staticmethod(_flag)


COLUMNS: Final[dict[str, Callable[[Sequence[Any]], Column]]] = {
    "bigint": _Integers,
    "text": _Texts,
    "bytea": _Bytes,
    "boolean": _Flags,
}
"""The array types that statements take, by name."""


def register(adapters: AdaptersMap) -> None:
    """Register columns with a connection, and let every number be a bigint, so that each statement is prepared once."""
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(_Integers, _IntegersDumper)
    adapters.register_dumper(_Texts, _TextsDumper)
    adapters.register_dumper(_Bytes, _BytesDumper)
    adapters.register_dumper(_Flags, _FlagsDumper)


def columns(kinds: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Column]:
    """Return rows as columns of these types."""
    turned = zip(*rows, strict=True)
    return [COLUMNS[kind](values) for kind, values in zip(kinds, turned, strict=True)]
