"""The protocol without input and output: requests, replies, events and subscriptions of one connection.

A link (``_link``, ``_aio_link``) owns a ``Core`` and a socket. It passes received bytes to :meth:`Core.feed`, writes the bytes
that the methods return, and wakes those who wait for the items that ``feed`` and ``end`` return.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

from ._agent_errors import CLASSES, Denied, LimitExceeded, LineTooLong, UnknownNamespace
from ._tables import RESULTS, RIGHTS
from .errors import AgentError, Disconnected, Error, InvalidArgument, ProtocolError, Unreachable

Path = str | Sequence[str]
Mode = Literal["snapshot", "patch", "revision"]

SYSTEM_SOCKET = "/run/larder/larder.sock"
# Requests of a connection that are written before replies arrive; those of long calls leave room for others.
MAX_IN_FLIGHT = 64
MAX_LONG_IN_FLIGHT = 48
MAX_SUBSCRIPTIONS = 64
MAX_LINE_BYTES = 64 << 20
MAX_NESTING = 128
EVENT_MEMBERS = (("subscription", int), ("sequence", int), ("revision", int), ("kind", str), ("epoch", str))
# Notifications of progress that are kept for a thread that does not take them; newer ones replace the oldest.
MAX_PROGRESS = 256
LONG_METHODS = frozenset({"config.wait", "config.refresh", "image.get", "image.prefetch", "image.pin"})
# The requests that change nothing, so that they can be repeated if it is unknown whether the agent has executed them.
REPEATABLE = frozenset(name for name, right in RIGHTS.items() if right in (None, "read", "images"))


def default_socket() -> str:
    """The path of the agent's socket: $LARDER_SOCKET, that of the user's own agent, or that of the system's agent."""
    if given := os.environ.get("LARDER_SOCKET"):
        return given
    own = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "larder/larder.sock")
    return own if own.startswith("/") and os.path.exists(own) else SYSTEM_SOCKET


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between attempts with full jitter: each is a random part of ``min(cap, base * 2**attempt)``, in seconds."""

    base: float = 0.05
    cap: float = 10.0

    def delay(self, attempt: int) -> float:
        """The delay before an attempt, 0 for the first one that follows a failure."""
        return random.random() * min(self.cap, self.base * 2.0 ** min(attempt, 32))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of the value at a path.

    value: the value; None if there is none, which ``exists`` tells from the revision mode of a watch.
    revision, epoch: the position in the history. Revisions only increase within an epoch.
    state: ``fresh``, or ``stale``, ``failed``, ``refreshing``, ``initializing``.
    skipped: the number of snapshots since the previous one that were left out because newer ones replaced them.
    """

    value: Any
    revision: int
    epoch: str
    state: str = "fresh"
    exists: bool = True
    skipped: int = 0


# --- JSON ---


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def long_int(text: str) -> int | float:
    """An integer of a JSON text, however long."""
    try:
        return int(text)
    except ValueError:  # more digits than Python converts (sys.set_int_max_str_digits)
        return float(text)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode = json.JSONDecoder(parse_constant=_reject).raw_decode
_decode_long = json.JSONDecoder(parse_constant=_reject, parse_int=long_int).raw_decode
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def encode(value: object) -> bytes:
    """The JSON text of a value in UTF-8. Raises InvalidArgument if JSON cannot express it."""
    try:
        return _encode(value).encode()
    except (
        TypeError,
        ValueError,
        RecursionError,
    ) as problem:  # UnicodeEncodeError, for a lone surrogate, is a ValueError
        raise InvalidArgument(f"the value cannot be sent as JSON ({problem}); pass another value") from None


def decode(text: str) -> Any:
    """The value of a JSON text without white space around it. Raises ProtocolError."""
    try:
        value, end = _decode(text)
    except RecursionError:
        raise ProtocolError("received JSON that is nested too deeply") from None
    except ValueError:
        try:
            value, end = _decode_long(text)
        except (ValueError, RecursionError) as problem:
            raise ProtocolError(f"received a line that is not JSON ({problem}); check what listens on the socket") from None
    if end != len(text):
        raise ProtocolError("received more than one JSON value on a line; check what listens on the socket")
    return value


def _check_nesting(line: bytes, method: str) -> None:
    """Rejects a request that the agent could not parse, because its reply would not name the request."""
    if line.count(b"[") + line.count(b"{") <= MAX_NESTING:
        return
    depth = deepest = 0
    for byte in _STRING.sub(b"", line).translate(None, _OTHERS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise InvalidArgument(
            f"the parameters of {method} are nested {deepest - 1} levels deep, and the limit is {MAX_NESTING - 1}; "
            "reduce the nesting of the value"
        )


def agent_error(error: object) -> Error:
    """The exception for the member ``error`` of a reply."""
    data = error.get("data") if isinstance(error, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        return ProtocolError("received an error without a name; check what listens on the socket")
    detail = str(data.get("detail", "the agent gave no detail"))
    if data["name"] in CLASSES:
        return CLASSES[data["name"]](detail, data)
    unknown = AgentError(detail, data)  # an agent that is newer than the client
    code = error.get("code") if isinstance(error, dict) else None
    unknown.name, unknown.retryable = data["name"], data.get("retryable") is True
    unknown.code = code if isinstance(code, int) else 0
    return unknown


def is_refusal(error: Error) -> bool:
    """Whether a person must change settings or permissions before the call can succeed."""
    return isinstance(error, (Denied, UnknownNamespace)) or (isinstance(error, Unreachable) and error.refused)


class DeadlinePassed(Exception):
    """The time to wait is over. It is no TimeoutError, because a signal handler may raise that."""


class Repeats:
    """The attempts of one call: whether and when to make the next one, and how long it may take.

    seconds: the time for which a call is repeated. It begins again after a connection that lasted, as that of a long call does.
    limit: the time for all attempts together, from ``began``.
    """

    LASTING = 1.0

    def __init__(self, backoff: Backoff, seconds: float, began: float, limit: float | None) -> None:
        self._backoff, self._seconds = backoff, seconds
        self._attempt_began, self._deadline = began, None if limit is None else began + limit
        self._since: float | None = None
        self._count = 0

    def delay(self, error: Error) -> float | None:
        """Counts a failure. Returns the delay before the next attempt; None if there is no time for one."""
        now = time.monotonic()
        lasted = not isinstance(error, Unreachable) and now - self._attempt_began >= self.LASTING
        if self._since is None or lasted:
            self._since, self._count = now, 0
        delay = self._backoff.delay(self._count)
        self._count += 1
        if now - self._since >= self._seconds or (self._deadline is not None and now + delay >= self._deadline):
            return None
        return delay

    def begin(self) -> float | None:
        """Begins an attempt. Returns the seconds that it may take; None for no limit."""
        self._attempt_began = time.monotonic()
        return None if self._deadline is None else max(0.001, self._deadline - self._attempt_began)


# --- Items that a caller waits for ---


class Item:
    """A call or a subscription. ``waiter`` belongs to the link: it wakes the thread or task that waits."""

    __slots__ = ("error", "waiter")

    def __init__(self) -> None:
        self.error: Error | None = None
        self.waiter: Any = None

    def is_ready(self) -> bool:
        """Whether the caller has something to do."""
        raise NotImplementedError


class Call(Item):
    """A request from its start until its reply."""

    __slots__ = (
        "done", "id", "is_abandoned", "is_sent", "method", "params", "progress", "reports", "result", "size", "subscription",
    )  # fmt: skip

    def __init__(self, method: str, params: bytes, subscription: Subscription | None = None, reports: bool = False) -> None:
        self.error = None
        self.waiter = None
        self.method, self.params, self.subscription = method, params, subscription
        self.id = self.size = 0
        self.done = self.is_sent = self.is_abandoned = False
        self.result: Any = None
        # Notifications of progress that the caller has not taken.
        self.reports = reports
        self.progress: deque[dict[str, Any]] = deque(maxlen=MAX_PROGRESS)

    def is_ready(self) -> bool:
        return self.done or bool(self.progress)


class Subscription(Item):
    """A subscription of one connection. Its events go to the follower, which outlives it."""

    __slots__ = ("follower", "is_withdrawn", "number", "sequence")

    def __init__(self, follower: Follower) -> None:
        super().__init__()
        self.follower, self.number, self.sequence = follower, 0, 0
        # Whether the settings ended it. The next attempt shows whether it can continue.
        self.is_withdrawn = False

    def is_ready(self) -> bool:
        return self.follower.pending is not None or self.error is not None


class Follower:
    """Turns the events of consecutive subscriptions into snapshots: none is older than the one before, none comes twice."""

    def __init__(self, path: Path, namespace: str, mode: Mode = "snapshot") -> None:
        self.path, self.namespace, self.mode = path, namespace, mode
        self.newest: tuple[int, str] | None = None  # revision and epoch
        self.pending: Snapshot | None = None
        self._base: tuple[tuple[int, str], Any] | None = None  # what the next patch applies to

    def parameters(self) -> dict[str, Any]:
        """The parameters of the next config.subscribe."""
        parameters: dict[str, Any] = {"path": self.path, "namespace": self.namespace, "mode": self.mode}
        since = (self._base[0] if self._base else None) if self.mode == "patch" else self.newest
        if since is not None:
            parameters["since"], parameters["epoch"] = since
        return parameters

    def receive(self, event: dict[str, Any]) -> None:
        """Receives an event of the kind snapshot, patch or revision. Raises ProtocolError if it cannot follow."""
        revision, epoch, state = event["revision"], event["epoch"], event["state"]
        skipped = event.get("skipped", 0)
        exists, value = event.get("exists") is not False, event.get("value")
        if type(skipped) is not int or type(state) is not str:
            raise ProtocolError("received an event with a member of the wrong type")
        if event["kind"] == "patch":
            if self._base is None or self._base[0] != (event.get("from"), epoch):
                self._base = None
                raise ProtocolError("received a patch for a revision that the client does not have")
            try:
                exists, value = True, merge_patch(self._base[1], event.get("patch"))
            except RecursionError:
                self._base = None
                raise ProtocolError("received a patch that is nested too deeply") from None
        if self.mode == "patch":
            self._base = ((revision, epoch), value)
        if self.newest is not None and self.newest[1] == epoch and revision <= self.newest[0]:
            return
        self.newest = (revision, epoch)
        if self.pending is not None:
            skipped += self.pending.skipped + 1
        self.pending = Snapshot(value, revision, epoch, state, exists, skipped)

    def take(self) -> Snapshot | None:
        """Removes and returns the pending snapshot."""
        snapshot, self.pending = self.pending, None
        return snapshot


def merge_patch(target: Any, patch: Any) -> Any:
    """Applies a JSON Merge Patch (RFC 7396) without changing the target."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


class Attempts:
    """Counts the failed attempts of a watch, and decides whether it goes on and what it reports."""

    def __init__(self, backoff: Backoff, fail_on_refusal: bool) -> None:
        self._backoff, self._fail_on_refusal = backoff, fail_on_refusal
        self._failures = 0
        self._is_interrupted = False
        self._refusal: str | None = None

    def fail(self, error: Error) -> tuple[float, bool]:
        """Counts a failure. Returns the delay before the next attempt, and whether to report the error.

        Raises the error if the watch ends with it. A refusal is reported once, until it has another reason.
        """
        refusal = str(error) if is_refusal(error) else None
        if self._fail_on_refusal if refusal else not (error.retryable or isinstance(error, ProtocolError)):
            raise error
        self._is_interrupted = True
        is_news = refusal is None or refusal != self._refusal
        self._refusal = refusal
        self._failures += 1
        return self._backoff.delay(self._failures - 1), is_news

    def withdraw(self) -> float:
        """Counts the end of a subscription by the settings. The first retry follows at once, to report its refusal."""
        self._failures += 1
        return 0.0 if self._failures == 1 else self._backoff.delay(self._failures - 2)

    def resume(self) -> bool:
        """Notes a success. Returns whether it ends an interruption."""
        was, self._is_interrupted, self._refusal = self._is_interrupted, False, None
        return was

    def restart(self) -> None:
        """Starts the count of failures again."""
        self._failures = 0


# --- A connection ---


class Core:
    """The state of one connection. It performs no input or output and needs a lock if several threads use it."""

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.ended: Error | None = None
        # False once the agent has announced that it will close the connection.
        self.is_usable = True
        self.subscriptions: dict[int, Subscription] = {}
        self._max_in_flight, self._max_line_bytes = max_in_flight, max_line_bytes
        self._max_long = max(1, max_in_flight - max_in_flight // 4)
        self._calls: dict[int, Call] = {}
        self._waiting: deque[Call] = deque()
        self._waiting_long: deque[Call] = deque()
        self.in_flight = self._long_in_flight = self._last_id = 0
        self._rest = bytearray()

    def start(self, call: Call) -> bytes:
        """Starts a call. Returns its line if it may be written now; else another method returns it later."""
        is_long = call.method in LONG_METHODS
        if is_long and self._long_in_flight >= self._max_long:
            self._waiting_long.append(call)
            return b""
        if self.in_flight >= self._max_in_flight:
            (self._waiting_long if is_long else self._waiting).append(call)
            return b""
        return self._line(call, is_long)

    def _line(self, call: Call, is_long: bool) -> bytes:
        self._last_id += 1
        call.id = self._last_id
        line = b'{"id":%d,"method":"%s","params":%s}\n' % (call.id, call.method.encode(), call.params)
        call.is_sent, call.size = True, len(line)
        self._calls[call.id] = call
        self.in_flight += 1
        if is_long:
            self._long_in_flight += 1
        return line

    def _next_lines(self) -> bytes:
        """The lines of the waiting calls that may be written now."""
        lines = []
        while self.in_flight < self._max_in_flight:
            if self._waiting:
                call, is_long = self._waiting.popleft(), False
            elif self._waiting_long and self._long_in_flight < self._max_long:
                call, is_long = self._waiting_long.popleft(), True
            else:
                break
            if not call.is_abandoned:
                lines.append(self._line(call, is_long))
        return b"".join(lines)

    @staticmethod
    def notification(method: str, **params: object) -> bytes:
        """The line of a request that is not answered."""
        return b'{"method":"%s","params":%s}\n' % (method.encode(), encode(params))

    def abandon(self, call: Call) -> bytes:
        """Gives a call up. Returns the line that asks the agent to cancel it."""
        if call.done or call.is_abandoned:
            return b""
        call.is_abandoned = True
        return self.notification("request.cancel", id=call.id) if call.is_sent and not self.ended else b""

    def unsubscribe(self, subscription: Subscription) -> bytes:
        """Ends a subscription. Returns the line to write."""
        if self.subscriptions.pop(subscription.number, None) is None or self.ended:
            return b""
        return self.notification("config.unsubscribe", subscription=subscription.number)

    def end(self, error: Error) -> list[Item]:
        """Ends the connection. Returns the items that ended with it."""
        if self.ended:
            return []
        self.ended, self.is_usable = error, False
        items: list[Item] = [*self._calls.values(), *self._waiting, *self._waiting_long, *self.subscriptions.values()]
        self._calls.clear()
        self.subscriptions.clear()
        for item in items:
            if isinstance(item, Call):
                item.done = True
            item.error = item.error or error
        return items

    def feed(self, data: bytes) -> tuple[list[Item], bytes]:
        """Receives bytes. Returns the items that became ready, and bytes to write. Raises ProtocolError."""
        if self._rest:
            searched = len(self._rest)
            self._rest += data
            if self._rest.find(b"\n", searched) < 0:
                return self._incomplete()
            data = bytes(self._rest)
            self._rest.clear()
        lines = data.split(b"\n")
        if lines[-1]:
            self._rest += lines[-1]
            self._incomplete()
        del lines[-1]
        ready: list[Item] = []
        output = b""
        for line in lines:
            output += self._receive(line, ready)
        if self._waiting or self._waiting_long:
            output += self._next_lines()
        return ready, output

    def _incomplete(self) -> tuple[list[Item], bytes]:
        if len(self._rest) > self._max_line_bytes:
            raise ProtocolError(f"received a line of more than {self._max_line_bytes} bytes")
        return [], b""

    def _receive(self, line: bytes, ready: list[Item]) -> bytes:
        try:
            message = decode(line.decode())
        except UnicodeDecodeError:
            raise ProtocolError("received a line that is not UTF-8; check what listens on the socket") from None
        if type(message) is not dict:
            raise ProtocolError("received a line that is not a message; check what listens on the socket")
        number = message.get("id")
        if type(number) is int:
            return self._reply(number, message, ready)
        method = message.get("method")
        if method == "config.event":
            self._event(message.get("params"), ready)
        elif method == "image.progress":
            self._progress(message.get("params"), ready)
        elif method is None:
            self._error_without_id(message, ready)
        return b""  # other notifications are those of newer agents

    def _reply(self, number: int, message: dict[str, Any], ready: list[Item]) -> bytes:
        call = self._calls.pop(number, None)
        if call is None:
            raise ProtocolError("received a reply to a request that was not sent")
        self.in_flight -= 1
        if call.method in LONG_METHODS:
            self._long_in_flight -= 1
        result = message.get("result")
        output = b""
        if type(result) is dict:
            for name, kind in RESULTS.get(call.method, ()):
                if name not in result or not isinstance(result[name], kind):
                    raise ProtocolError(f"received a result of {call.method} without {name}, or with another type of it")
            call.result = result
            if call.subscription is not None:
                call.subscription.number = result["subscription"]
                if call.is_abandoned:
                    return self.notification("config.unsubscribe", subscription=result["subscription"])
                self.subscriptions[result["subscription"]] = call.subscription
            elif call.is_abandoned and call.method == "image.get":
                output = self.notification("image.release", lease=result["lease"])
        elif "error" in message:
            call.error = agent_error(message["error"])
            if isinstance(call.error, ProtocolError):
                raise call.error
        else:
            raise ProtocolError("received a reply without a result or an error")
        call.done = True
        ready.append(call)
        return output

    def _error_without_id(self, message: dict[str, Any], ready: list[Item]) -> None:
        """Handles the error of a line whose id the agent did not read. It is assumed to be the longest one."""
        error = agent_error(message.get("error"))
        longest = max(self._calls.values(), key=lambda call: call.size, default=None)
        if not isinstance(error, (LineTooLong, LimitExceeded)):
            raise ProtocolError(f"the agent could not read a request ({error.detail})")
        if longest is None:  # the agent is about to close the connection
            ready += self.end(error)
            return
        del self._calls[longest.id]
        self.in_flight -= 1
        if longest.method in LONG_METHODS:
            self._long_in_flight -= 1
        longest.error, longest.done = error, True
        ready.append(longest)

    def _event(self, event: Any, ready: list[Item]) -> None:
        if type(event) is not dict:
            raise ProtocolError("received an event without members")
        for name, kind in EVENT_MEMBERS:
            if type(event.get(name)) is not kind:
                raise ProtocolError(f"received an event without {name}")
        subscription = self.subscriptions.get(event["subscription"])
        if subscription is None:
            return  # the client has just ended it
        subscription.sequence += 1
        if event["sequence"] != subscription.sequence:
            raise ProtocolError("received an event out of sequence")
        if event["kind"] == "end":
            del self.subscriptions[subscription.number]
            reason = event.get("reason")
            subscription.is_withdrawn = reason in ("denied", "namespaceRemoved")
            subscription.error = Disconnected(f"the agent ended the subscription ({reason})")
            if reason == "shutdown":
                self.is_usable = False
            ready.append(subscription)
        elif event["kind"] in ("snapshot", "patch", "revision"):
            if "state" not in event:
                raise ProtocolError("received an event without state")
            subscription.follower.receive(event)
            ready.append(subscription)

    def _progress(self, params: Any, ready: list[Item]) -> None:
        number = params.get("request") if type(params) is dict else None
        call = self._calls.get(number) if type(number) is int else None
        if call is not None and call.reports and not call.is_abandoned:
            call.progress.append(params)
            ready.append(call)


def request(method: str, params: Mapping[str, object], subscription: Subscription | None = None, reports: bool = False) -> Call:
    """A call with encoded parameters. Raises InvalidArgument."""
    text = encode(params)
    if len(text) > 2 * MAX_NESTING - 8:
        _check_nesting(b"{" + text + b"}", method)
    return Call(method, text, subscription, reports)


@functools.lru_cache(maxsize=1024)
def _get_parameters(path: str, namespace: str) -> bytes:
    return encode({"path": path, "namespace": namespace})


def get_request(path: Path, namespace: str) -> Call:
    """A call of config.get. Encoding its parameters would take longer than all else of the call."""
    if isinstance(path, str) and len(path) < 256:
        return Call("config.get", _get_parameters(path, namespace))
    return request("config.get", {"path": path, "namespace": namespace})


class SupportsClosed(Protocol):
    """A watch that another thread or task may close."""

    is_closed: bool
