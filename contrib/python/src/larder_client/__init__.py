"""A client for Larder, the local agent for configuration and images.

>>> with larder_client.Client() as client:
...     client.get("search.limit", default=10)
50
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._agent_errors import (
    CacheFull,
    Cancelled,
    Conflict,
    Denied,
    ForbiddenAddress,
    ImageRejected,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LimitExceeded,
    LineTooLong,
    MethodNotFound,
    NotFound,
    Offline,
    ParseError,
    Rejected,
    SchemaViolation,
    ShuttingDown,
    StorageFailed,
    Timeout,
    Unavailable,
    UnknownNamespace,
    UpstreamFailed,
)
from ._client import Apply, Client, Flags, Image, Watch
from ._core import Backoff, Snapshot, default_socket
from .config import Config, Loaded
from .errors import (
    AgentError,
    Closed,
    Disconnected,
    Error,
    InvalidArgument,
    InvalidValue,
    ProtocolError,
    UnknownOutcome,
    Unreachable,
)
from .snapshot import MappedSnapshot

if TYPE_CHECKING:
    from . import aio, schema, testing

__version__ = "0.1.0"

__all__ = [
    "AgentError", "Apply", "Backoff", "CacheFull", "Cancelled", "Client", "Closed", "Config", "Conflict", "Denied",
    "Disconnected", "Error", "Flags", "ForbiddenAddress", "Image", "ImageRejected", "InternalError", "InvalidArgument",
    "InvalidParams", "InvalidRequest", "InvalidValue", "LimitExceeded", "LineTooLong", "Loaded", "MappedSnapshot",
    "MethodNotFound", "NotFound", "Offline", "ParseError", "ProtocolError", "Rejected", "SchemaViolation",
    "ShuttingDown", "Snapshot", "StorageFailed", "Timeout", "Unavailable", "UnknownNamespace", "UnknownOutcome",
    "Unreachable", "UpstreamFailed", "Watch", "aio", "default_socket", "schema", "testing",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Most programs do not need these modules, which take longer to import than all others.
    if name in ("aio", "schema", "testing"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
