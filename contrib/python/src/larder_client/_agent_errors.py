"""The errors of the agent.

Protocol/generate.py writes this file.
"""

from .errors import AgentError


class ParseError(AgentError):
    """The line is not JSON in UTF-8, or is nested too deeply."""

    name = "parseError"
    code = -32700
    retryable = False


class LineTooLong(AgentError):
    """The line is longer than the limit and was discarded."""

    name = "lineTooLong"
    code = -32700
    retryable = False


class InvalidRequest(AgentError):
    """The JSON is not a request, or the batch is empty or too large."""

    name = "invalidRequest"
    code = -32600
    retryable = False


class MethodNotFound(AgentError):
    """The agent has no such method."""

    name = "methodNotFound"
    code = -32601
    retryable = False


class InvalidParams(AgentError):
    """A parameter is missing, has the wrong type or a value outside its range."""

    name = "invalidParams"
    code = -32602
    retryable = False


class InternalError(AgentError):
    """A bug in the agent. Its log has details."""

    name = "internalError"
    code = -32603
    retryable = False


class NotFound(AgentError):
    """There is no value at the path; the revision is not known; the connection has no such subscription; the
    origin does not have the image; or no usable image is cached, and the request forbids the network.
    """

    name = "notFound"
    code = 1
    retryable = False


class UnknownNamespace(AgentError):
    """The settings declare no such namespace. The detail lists the namespaces that the peer may see."""

    name = "unknownNamespace"
    code = 2
    retryable = False


class Denied(AgentError):
    """The peer is not permitted to do this."""

    name = "denied"
    code = 3
    retryable = False


class Timeout(AgentError, TimeoutError):
    """The time limit of the request has passed."""

    name = "timeout"
    code = 4
    retryable = True


class Cancelled(AgentError):
    """The request was cancelled. A cancelled write changed nothing. Images that a prefetch has completed stay
    cached, and a response of the source that other requests wait for is still applied.
    """

    name = "cancelled"
    code = 5
    retryable = True


class UpstreamFailed(AgentError):
    """The source could not be reached, or its response was not usable. The last good data stays."""

    name = "upstreamFailed"
    code = 6
    retryable = True


class Rejected(AgentError):
    """The document, or the configuration that would result from it, failed a check. The last good snapshot stays."""

    name = "rejected"
    code = 7
    retryable = False


class LimitExceeded(AgentError):
    """A limit on connections, subscriptions, requests, open files, leases or buffered bytes is reached, or the
    replies to the batch are too long.
    """

    name = "limitExceeded"
    code = 8
    retryable = True


class StorageFailed(AgentError):
    """The change could not be written to disk. Nothing was changed."""

    name = "storageFailed"
    code = 9
    retryable = True


class ShuttingDown(AgentError):
    """The agent is stopping."""

    name = "shuttingDown"
    code = 10
    retryable = True


class Unavailable(AgentError):
    """The remote source has not responded yet, and no copy is on disk; the image cache is disabled or cannot be
    used; or the agent waits for valid settings.
    """

    name = "unavailable"
    code = 11
    retryable = True


class Offline(AgentError):
    """The origin cannot be reached, and no usable image is cached."""

    name = "offline"
    code = 12
    retryable = True


class ForbiddenAddress(AgentError):
    """The host of the URL, or of a redirect, has an address that the settings do not allow."""

    name = "forbiddenAddress"
    code = 13
    retryable = False


class ImageRejected(AgentError):
    """The bytes are not an image that the agent accepts; `reason` says why."""

    name = "imageRejected"
    code = 14
    retryable = False


class CacheFull(AgentError):
    """The limits of the cache, or the disk, leave no room. The cached images stay."""

    name = "cacheFull"
    code = 15
    retryable = True


class Conflict(AgentError):
    """A comparison that the request asked for failed, or the result of an increment would be outside its bounds.
    Nothing was changed.
    """

    name = "conflict"
    code = 16
    retryable = False


class SchemaViolation(AgentError):
    """The resulting configuration would violate the schema of the namespace. Nothing was changed."""

    name = "schemaViolation"
    code = 17
    retryable = False


# The classes by the names of the errors.
CLASSES: dict[str, type[AgentError]] = {
    error.name: error
    for error in (
        ParseError,
        LineTooLong,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        NotFound,
        UnknownNamespace,
        Denied,
        Timeout,
        Cancelled,
        UpstreamFailed,
        Rejected,
        LimitExceeded,
        StorageFailed,
        ShuttingDown,
        Unavailable,
        Offline,
        ForbiddenAddress,
        ImageRejected,
        CacheFull,
        Conflict,
        SchemaViolation,
    )
}
