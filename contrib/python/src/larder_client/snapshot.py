"""Snapshots that are mapped into memory. Protocol/snapshot-file.md describes the format of the file."""

from __future__ import annotations

import fcntl
import mmap
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ._core import decode
from .errors import ProtocolError

_SEALS = 0x0002 | 0x0008  # F_SEAL_SHRINK, F_SEAL_WRITE
_ABSENT: Final[Any] = object()


def split_path(path: str | Sequence[str]) -> list[str]:
    """The names of a path: dotted, a JSON Pointer, or names."""
    if not isinstance(path, str):
        return list(path)
    if path.startswith("/"):
        return [name.replace("~1", "/").replace("~0", "~") for name in path[1:].split("/")]
    return path.split(".") if path else []


class MappedSnapshot:
    """A snapshot in a file that is mapped into memory. A lookup parses only the value, and makes no system call.

    revision, epoch: the position of the snapshot.
    state: the state of the namespace when the file was opened.

    >>> with client.mapped() as snapshot:
    ...     snapshot.get("search.limit", 10)
    50
    """

    __slots__ = (
        "_entries", "_entry_count", "_file", "_mask", "_names", "_seed", "_slots", "_text", "epoch", "revision", "state",
    )  # fmt: skip

    def __init__(self, descriptor: int, state: str = "fresh") -> None:
        """Maps a file, whose descriptor may be closed afterwards. Raises ProtocolError if it is not a valid one."""
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError:  # not a file in memory
            seals = 0
        if seals & _SEALS != _SEALS:
            raise ProtocolError("the file of the snapshot is not sealed, so it could change while it is read")
        try:
            file = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as problem:
            raise ProtocolError(f"the file of the snapshot cannot be mapped: {problem}") from None
        if len(file) < 96 or file[:7] != b"LARDERS":
            raise ProtocolError("not a snapshot file")
        if file[7] != 1:
            raise ProtocolError(f"unknown version {file[7]} of the format of snapshot files; update the client")
        seed, length, self.revision, epoch = struct.unpack_from("<4Q", file, 16)
        entries, entry_count, slots, slot_count, names, name_bytes, text, text_bytes = struct.unpack_from("<8I", file, 48)
        ends = (entries + 32 * entry_count, slots + 4 * slot_count, names + name_bytes, text + text_bytes)
        if length != len(file) or max(ends) > length or min(entries, slots, names, text) < 96:
            raise ProtocolError("the file of the snapshot is damaged: a section extends beyond its end")
        if entry_count == 0 or slot_count == 0 or slot_count & (slot_count - 1):
            raise ProtocolError("the file of the snapshot is damaged: its index has an invalid size")
        self.epoch, self.state = f"{epoch:016x}", state
        self._file, self._seed, self._mask = file, seed, slot_count - 1
        self._entry_count = entry_count
        # Views of numbers: eight for each entry, one for each slot.
        self._entries = memoryview(file)[entries : ends[0]].cast("I")
        self._slots = memoryview(file)[slots : ends[1]].cast("I")
        self._names, self._text = (names, name_bytes), (text, text_bytes)

    def __enter__(self) -> MappedSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps the file. Without this call it is unmapped with the last reference. Has no effect the second time."""
        self._entries.release()
        self._slots.release()
        self._file.close()

    def get(self, path: str | Sequence[str] = "", default: Any = None) -> Any:
        """Returns the value at a path, or the default. Elements of arrays are part of the value of the array."""
        text = self.find(path)
        return default if text is None else _value(text)

    def __getitem__(self, path: str | Sequence[str]) -> Any:
        """Returns the value at a path. Raises KeyError if there is none."""
        text = self.find(path)
        if text is None:
            raise KeyError(path)
        return _value(text)

    def __contains__(self, path: str | Sequence[str]) -> bool:
        return self.find(path) is not None

    def find(self, path: str | Sequence[str]) -> bytes | None:
        """Returns the JSON text of the value at a path, or None."""
        try:
            if type(path) is str and path and path[0] != "/":
                key = b"\xff" + path.encode().replace(b".", b"\xff")
            else:
                key = b"".join([b"\xff" + name.encode() for name in split_path(path)])
        except UnicodeEncodeError:
            return None  # a lone surrogate, which no name contains
        value = self._seed
        for byte in key:
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        mask, slots, entries = self._mask, self._slots, self._entries
        low, high = value & 0xFFFFFFFF, value >> 32
        slot = (low ^ high) & mask
        for _ in range(mask + 1):
            number = slots[slot]
            if number == 0:
                return None
            first = (number - 1) * 8
            if number > self._entry_count:
                raise ProtocolError("the file of the snapshot is damaged: a slot refers to no entry")
            if entries[first] == low and entries[first + 1] == high and self._is_at(number - 1, key):
                start, count = entries[first + 5], entries[first + 6]
                offset, length = self._text
                if start + count > length:
                    raise ProtocolError("the file of the snapshot is damaged: a value extends beyond its section")
                return self._file[offset + start : offset + start + count]
            slot = (slot + 1) & mask
        return None

    def _is_at(self, number: int, key: bytes) -> bool:
        """Whether an entry and its parents have the names of a key."""
        entries, file, (offset, length) = self._entries, self._file, self._names
        end = len(key)
        while end:
            if not 0 < number < self._entry_count:
                return False
            first = number * 8
            start, count = entries[first + 3], entries[first + 4]
            begin = end - count
            if begin < 1 or start + count > length or key[begin - 1] != 0xFF:
                return False
            if file[offset + start : offset + start + count] != key[begin:end]:
                return False
            number, end = entries[first + 2], begin - 1
        return number == 0

    def check(self) -> int:
        """Looks up every value, except for elements of arrays. Returns their number. Raises ProtocolError."""

        def paths(names: list[str], value: Any) -> Iterator[tuple[list[str], Any]]:
            yield names, value
            if isinstance(value, dict):
                for name, member in value.items():
                    yield from paths([*names, name], member)

        count = 0
        for names, value in paths([], _value(self.find("") or b"")):
            if self.get(names, _ABSENT) != value:
                raise ProtocolError(f"the file of the snapshot is damaged: {names} is missing, or has another value")
            count += 1
        if count != self._entry_count:
            raise ProtocolError(f"the index of the snapshot has {self._entry_count} entries for {count} values")
        return count


def _value(text: bytes) -> Any:
    try:
        return decode(text.decode())
    except (UnicodeDecodeError, ProtocolError) as problem:
        raise ProtocolError(f"the file of the snapshot is damaged: {problem}") from None
