"""Conversions of arguments."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from typing import IO, Any

from .errors import InvalidArgument

Seconds = float | timedelta
log = logging.getLogger("larder_client")


def seconds_of(duration: Any) -> Any:
    """A duration in seconds; None for None."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def milliseconds(duration: Seconds | None) -> int | None:
    """A duration in whole milliseconds, at least 1; None for None."""
    return None if duration is None else max(1, round(float(seconds_of(duration)) * 1000))


def params(**given: object) -> dict[str, object]:
    """The parameters that are not None."""
    return {name: value for name, value in given.items() if value is not None}


def memory_file(content: bytes | IO[bytes]) -> IO[bytes]:
    """A file in memory with the content. The agent rejects a file that changes while it is read, which this one does not."""
    file = os.fdopen(os.memfd_create("larder-image", os.MFD_CLOEXEC), "w+b")
    try:
        if isinstance(content, (bytes, bytearray, memoryview)):
            file.write(content)
        else:
            while chunk := content.read(1 << 20):
                file.write(chunk)
        file.flush()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


class ChangeList:
    """Changes of an ``apply``, in their order."""

    def __init__(self) -> None:
        self.changes: list[dict[str, object]] = []

    def set(
        self, path: Any, value: object, *, ttl: Seconds | None = None, if_value: object = None, if_absent: bool = False
    ) -> None:
        """Overrides a value, as ``Client.set`` does."""
        change = params(op="set", path=path, ttlMilliseconds=milliseconds(ttl), ifValue=if_value, ifAbsent=if_absent or None)
        change["value"] = value
        self.changes.append(change)

    def unset(self, path: Any, *, if_value: object = None, if_absent: bool = False) -> None:
        """Removes an override, as ``Client.unset`` does."""
        self.changes.append(params(op="unset", path=path, ifValue=if_value, ifAbsent=if_absent or None))

    def test(self, path: Any, *, if_value: object = None, if_absent: bool = False) -> None:
        """Changes nothing, and makes all changes depend on a value."""
        if if_value is None and not if_absent:
            raise InvalidArgument("test needs if_value or if_absent")
        self.changes.append(params(op="test", path=path, ifValue=if_value, ifAbsent=if_absent or None))
