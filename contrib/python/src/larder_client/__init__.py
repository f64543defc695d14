"""A client for Larder, the local agent for configuration and images.

>>> with larder_client.Client() as client:
...     client.get("search.limit", default=10)
50
"""

from . import aio, schema, testing
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
from ._client import Apply, Client, Image, Watch
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

__version__ = "0.1.0"

__all__ = [
    "AgentError", "Apply", "Backoff", "CacheFull", "Cancelled", "Client", "Closed", "Config", "Conflict", "Denied",
    "Disconnected", "Error", "ForbiddenAddress", "Image", "ImageRejected", "InternalError", "InvalidArgument",
    "InvalidParams", "InvalidRequest", "InvalidValue", "LimitExceeded", "LineTooLong", "Loaded", "MappedSnapshot",
    "MethodNotFound", "NotFound", "Offline", "ParseError", "ProtocolError", "Rejected", "SchemaViolation",
    "ShuttingDown", "Snapshot", "StorageFailed", "Timeout", "Unavailable", "UnknownNamespace", "UnknownOutcome",
    "Unreachable", "UpstreamFailed", "Watch", "aio", "default_socket", "schema", "testing",
]  # fmt: skip
