"""The errors of the client. All are subclasses of :class:`Error`.

>>> try:
...     client.get("no.such")
... except larder_client.NotFound as error:
...     print(error.name, error.code, error.retryable)
notFound 1 False
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """An error of the client or of the agent.

    name: the kind of error: as in the protocol for an error of the agent.
    code: the number of the kind; 0 for an error of the client.
    retryable: whether the same call may succeed later without a change of settings, permissions or arguments.
    detail: what happened and what to do, in one line for people. Do not parse it.
    """

    name = "error"
    code = 0
    retryable = False

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}"


class InvalidArgument(Error, ValueError):
    """An argument cannot be sent to the agent, for example a value that JSON cannot express."""

    name = "invalidArgument"


class Closed(Error):
    """The client was closed."""

    name = "closed"

    def __init__(self, detail: str = "the client was closed; create another one") -> None:
        super().__init__(detail)


class Unreachable(Error, ConnectionError):
    """The client cannot connect to the agent, or permissions do not allow it."""

    name = "unreachable"
    retryable = True

    def __init__(self, detail: str, errno: int | None = None, refused: bool = False) -> None:
        super().__init__(detail)
        self.errno = errno
        # Whether a person must change permissions before the client can connect.
        self.refused = refused


class Disconnected(Error, ConnectionError):
    """The connection ended before the reply. The agent may have executed the request."""

    name = "disconnected"
    retryable = True


class UnknownOutcome(Disconnected):
    """The connection ended during a change that depends on the state, and the state has changed since, or cannot be read.

    The client cannot determine whether its own change was made.
    """

    name = "unknownOutcome"
    retryable = False


class ProtocolError(Error):
    """The peer sent something that is not part of the protocol, so it may not be an agent."""

    name = "protocolError"


class InvalidValue(Error, ValueError):
    """A value of the configuration does not fit the class that it is loaded into."""

    name = "invalidValue"


class AgentError(Error):
    """An error that the agent returned. There is a subclass for each name.

    data: the member ``data`` of the error, with the members that the protocol describes, such as ``reason``.
    """

    def __init__(self, detail: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.data = data or {}

    @property
    def reason(self) -> str | None:
        """The cause for programs; None unless the protocol lists causes for this error."""
        reason = self.data.get("reason")
        return reason if isinstance(reason, str) else None
