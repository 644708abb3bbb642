"""SQLite's writes and syncs, in order: its own VFS, with the calls that change a disk recorded.

While a `Recorder` is entered, every database file that this process opens is recorded. SQLite's VFS is a
table of C functions (https://sqlite.org/vfs.html): a copy of the default one becomes the default, in
which opening a file swaps three of the file's functions for ours. Ours record the call and then do what
the original does, except for syncs: those are only recorded, because the power is not really cut here.
"""

from __future__ import annotations

import _sqlite3
import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

LIBRARY: Final = ctypes.CDLL(_sqlite3.__file__)


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes written into a file."""

    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file cut to a size."""

    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Delete:
    """A file removed."""

    file: str


@dataclass(frozen=True, slots=True)
class Sync:
    """All earlier changes of the file are on the disk for good."""

    file: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The program has reported this many batches as safe."""

    batches: int


Event = Write | Truncate | Delete | Sync | Confirmed

_WRITE: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE: Final = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC: Final = CFUNCTYPE(c_int, c_void_p, c_int)
# a name is passed on as the address that came: SQLite keeps it for as long as the file is open
_OPEN: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE: Final = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


class _Methods(Structure):
    """The functions of an open file: sqlite3_io_methods, version 3."""

    _fields_ = (
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", _WRITE),
        ("truncate", _TRUNCATE),
        ("sync", _SYNC),
        ("others", c_void_p * 13),
    )


class _File(Structure):
    _fields_ = (("methods", POINTER(_Methods)),)


class _Vfs(Structure):
    """The functions of a file system: sqlite3_vfs, version 3."""

    _fields_ = (
        ("version", c_int),
        ("file_size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", _OPEN),
        ("delete", _DELETE),
        ("others", c_void_p * 14),
    )


def _name(address: int) -> str:
    return Path(ctypes.string_at(address).decode()).name


def _copy(of: Structure) -> Structure:
    return type(of).from_buffer_copy(of)


class Recorder:
    """A context manager: the events of every database opened within it are in `events`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        LIBRARY.sqlite3_vfs_find.restype = POINTER(_Vfs)
        self._original: _Vfs = LIBRARY.sqlite3_vfs_find(None).contents
        self._vfs = _copy(self._original)
        self._vfs.name = b"recording"
        self._vfs.open = _OPEN(self._open)
        self._vfs.delete = _DELETE(self._delete)
        self._names: dict[int, str] = {}
        self._tables: dict[int, tuple[_Methods, _Methods]] = {}  # by address: theirs, ours

    def __enter__(self) -> Self:
        LIBRARY.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)
        return self

    def __exit__(self, *_: object) -> None:
        LIBRARY.sqlite3_vfs_register(ctypes.byref(self._original), 1)
        LIBRARY.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _open(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        result: int = self._original.open(vfs, name, file, flags, out)
        if result == 0 and name is not None:
            self._names[file] = _name(name)
            opened = _File.from_address(file)
            opened.methods = ctypes.pointer(self._ours(opened.methods.contents))
        return result

    def _ours(self, theirs: _Methods) -> _Methods:
        """Return the recording functions for a file that has `theirs`; made once for each table."""
        address = ctypes.addressof(theirs)
        if address not in self._tables:
            ours = _copy(theirs)
            ours.write = _WRITE(lambda *call: self._write(theirs, *call))
            ours.truncate = _TRUNCATE(lambda *call: self._truncate(theirs, *call))
            ours.sync = _SYNC(self._sync)
            self._tables[address] = theirs, ours
        return self._tables[address][1]

    def _delete(self, vfs: int, name: int, sync: int) -> int:
        self.events.append(Delete(_name(name)))
        result: int = self._original.delete(vfs, name, sync)
        return result

    def _write(self, theirs: _Methods, file: int, data: int, size: int, offset: int) -> int:
        self.events.append(Write(self._names[file], offset, ctypes.string_at(data, size)))
        result: int = theirs.write(file, data, size, offset)
        return result

    def _truncate(self, theirs: _Methods, file: int, size: int) -> int:
        self.events.append(Truncate(self._names[file], size))
        result: int = theirs.truncate(file, size)
        return result

    def _sync(self, file: int, _flags: int) -> int:
        self.events.append(Sync(self._names[file]))
        return 0
