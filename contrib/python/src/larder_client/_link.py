"""Connections for threads.

There is no thread of the library's own. Of the threads that wait for replies or events of a connection, one reads from the socket
for all of them. When it has what it waits for, the next one continues.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import stat
import threading
import time
import weakref
from _thread import allocate_lock
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from ._agent_errors import Timeout
from ._core import MAX_SUBSCRIPTIONS, Backoff, Call, Core, DeadlinePassed, Item, Subscription, SupportsClosed
from .errors import Closed, Disconnected, Error, InvalidArgument, Unreachable

CHUNK = 1 << 16
MAX_ADDRESS = 107  # bytes of the address of a socket, unix(7)
# Connections for subscriptions; an agent permits 64 subscriptions on each.
MAX_SUBSCRIPTION_LINKS = 4


def unreachable(path: str, problem: OSError) -> Unreachable:
    """The error for a failed connect(2), with advice for its cause."""
    code = problem.errno
    advice = {
        errno.ENOENT: "start the agent (systemctl start larder.socket), or set LARDER_SOCKET to the path of its socket",
        errno.ENOTDIR: "set LARDER_SOCKET to the path of the agent's socket",
        errno.ECONNREFUSED: "start the agent again (systemctl restart larder)",
        errno.EMFILE: "this process has too many open files; close some, or raise the limit (ulimit -n)",
        errno.ENFILE: "the host has too many open files; close some, or raise the limit (sysctl fs.file-max)",
        errno.EAGAIN: "retry, and check the agent's log if the error persists",
    }.get(code or 0, "set LARDER_SOCKET to the path of the agent's socket")
    if code in (errno.EACCES, errno.EPERM):
        advice = "run as a user who may connect, or add the user to the group of the socket and log in again"
        try:
            status = os.stat(path)
            if stat.S_ISSOCK(status.st_mode) and status.st_gid != 0 and status.st_mode & stat.S_IWGRP:
                advice = f"add the user to the group {status.st_gid} of the socket (usermod -aG), and log in again"
        except OSError:
            pass
    text = problem.strerror or str(problem)
    return Unreachable(f"cannot connect to {path}: {text}; {advice}", code, code in (errno.EACCES, errno.EPERM))


def is_foreign(problem: OSError) -> bool:
    """Whether a signal handler has raised the exception, for example TimeoutError. Errors of the system have a number."""
    return problem.errno is None


def connect(path: str) -> socket.socket:
    """Connects to the agent. Raises Unreachable, with EAGAIN if the queue of the socket is full. The socket does not block."""
    address = "\0" + path[1:] if path.startswith("@") else path
    if len(os.fsencode(address)) > MAX_ADDRESS:
        raise unreachable(path, OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG)))
    stream = None
    try:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        stream.setblocking(False)
        stream.connect(address)
        return stream
    except BaseException as problem:
        if stream is not None:
            stream.close()
        if not isinstance(problem, OSError) or is_foreign(problem):
            raise
        raise unreachable(path, problem) from None


class Link:
    """A connection that several threads can use at the same time."""

    def __init__(self, stream: socket.socket, has_event: bool = False) -> None:
        """has_event: whether another thread can wake the one that reads, as :meth:`unsubscribe` has to."""
        self._socket, self._event = stream, -1
        # Only the thread that reads uses this object, and only if there is nothing to write.
        self._poll = select.poll()
        self._poll.register(stream, select.POLLIN)
        if has_event:
            self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._poll.register(self._event, select.POLLIN)
        self._lock = allocate_lock()
        self._core = Core()
        self._output = bytearray()  # what the socket has not accepted
        # Items by their IDs. An item stands for the thread that waits for it.
        self._reader: Item | None = None  # the thread that reads from the socket
        self._users: set[int] = set()  # the threads that use the socket, also outside of the lock
        self._waiting: dict[int, Item] = {}  # the threads that wait for the one that reads
        # Whether an exception, such as that of a signal handler, has interrupted the start of a call.
        self._is_torn = False
        # Subscriptions whose owner was collected, possibly while the lock was held.
        self.orphans: list[Subscription] = []

    @property
    def is_usable(self) -> bool:
        """Whether new calls may use the connection."""
        return self._core.is_usable

    @property
    def is_open(self) -> bool:
        """Whether the subscriptions and leases of the connection exist."""
        return self._core.ended is None

    @property
    def subscription_count(self) -> int:
        return len(self._core.subscriptions)

    def perform(self, call: Call, seconds: float | None, report: Callable[[dict[str, Any]], object] | None = None) -> Any:
        """Sends a request and returns its result. Raises the error of the agent, Timeout, Disconnected or Closed."""
        self.perform_all((call,), seconds, report)
        if call.error is not None:
            raise call.error
        return call.result

    def perform_all(
        self, calls: Iterable[Call], seconds: float | None, report: Callable[[dict[str, Any]], object] | None = None
    ) -> list[Any]:
        """Sends requests together. Returns their results; the error of a call takes the place of its result."""
        deadline = None if seconds is None else time.monotonic() + seconds
        calls = tuple(calls)
        try:
            with self._lock:
                if self._core.ended is not None:
                    raise self._core.ended.with_traceback(None)
                if self.orphans:
                    self._end_orphans()
                self._is_torn = True
                self._write(b"".join([self._core.start(call) for call in calls]))
                self._is_torn = False
            for call in calls:
                while not call.done and call.error is None:
                    self.wait(call, deadline)
                    while call.progress:
                        progress = call.progress.popleft()
                        if report is not None:
                            report(progress)
        except BaseException as problem:
            self._abandon(calls)
            if isinstance(problem, DeadlinePassed):
                raise Timeout(f"the agent did not reply to {calls[0].method} within {seconds:g} s") from None
            raise
        return [call.result if call.error is None else call.error for call in calls]

    def wait(self, item: Item, deadline: float | None) -> None:
        """Waits until an item is ready. Raises DeadlinePassed."""
        try:
            while self._takes_step(item, deadline):
                pass
        except BaseException:
            # The exception may be that of a signal handler, and may come at any point.
            with self._lock:
                self._waiting.pop(id(item), None)
                if id(item) in self._users:
                    self._users.discard(id(item))
                    self._end(Disconnected("an exception interrupted a thread that used the connection"))
                if self._reader is item:
                    self._reader = None
                self._pass_on()
            raise

    def _takes_step(self, item: Item, deadline: float | None) -> bool:
        """Reads, writes, or waits for the thread that reads. Returns whether the item is not ready yet."""
        with self._lock:
            self._waiting.pop(id(item), None)
            if self._core.ended is not None and not item.is_ready():
                item.error = item.error or self._core.ended
            if item.error is not None or item.is_ready():
                self._pass_on()
                return False
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise DeadlinePassed
            uses_socket = self._reader is None or bool(self._output)
            if uses_socket:
                self._users.add(id(item))
                self._reader = self._reader or item
            else:
                item.waiter = allocate_lock()
                item.waiter.acquire()
                self._waiting[id(item)] = item
        if uses_socket:
            return self._use_socket(item, remaining)
        item.waiter.acquire(timeout=-1 if remaining is None else min(remaining, threading.TIMEOUT_MAX))
        return True

    def _use_socket(self, item: Item, seconds: float | None) -> bool:
        """Waits for the socket, reads what has arrived, and writes what is left. Returns whether the item is not ready yet."""
        data: bytes | None = None
        problem: Error | None = None
        reads = self._reader is item
        milliseconds = None if seconds is None else min(seconds * 1000 + 1, 1 << 30)
        try:
            if self._output:
                # Also for input: the thread that reads may stop, and then this one has to read.
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT | select.POLLIN)
                poll.poll(milliseconds)
            elif reads:
                polled = self._poll.poll(milliseconds)
                if self._event >= 0 and (self._event, select.POLLIN) in polled:
                    os.eventfd_read(self._event)
            if reads:
                data = self._socket.recv(CHUNK, socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        except OSError as broken:
            if is_foreign(broken):
                raise
            problem = Disconnected(f"the connection to the agent broke: {broken.strerror or broken}")
        with self._lock:
            try:
                if problem is not None:
                    raise problem
                if data == b"":
                    raise Disconnected("the agent closed the connection")
                if data:
                    ready, output = self._core.feed(data)
                    for one in ready:
                        self._wake(one)
                    self._output += output
                if self._output:
                    self._write(b"")
                if self.orphans:
                    self._end_orphans()
            except Error as error:
                self._end(error)
            if self._reader is item:
                self._reader = None
            self._users.discard(id(item))
            if self._core.ended is not None and not self._users:
                self._close()
            if not item.is_ready():
                return True
            self._pass_on()
            return False

    def _close(self) -> None:
        self._socket.close()
        if self._event >= 0:
            os.close(self._event)
            self._event = -1

    def __del__(self) -> None:
        self._close()

    def _wake(self, item: Item) -> None:
        """Wakes the thread of an item, if it waits. That thread removes the item from the waiting ones."""
        if id(item) in self._waiting and item.waiter.locked():
            item.waiter.release()

    def _pass_on(self) -> None:
        """Lets another waiting thread read."""
        if self._waiting and self._reader is None:
            self._wake(next(iter(self._waiting.values())))

    def _write(self, data: bytes) -> None:
        """Writes what the socket accepts, and keeps the rest, which a waiting thread writes. Called with the lock."""
        start = b"\n"  # before each line
        if self._output:
            start = b""
            self._output += data
            data = bytes(self._output)
            self._output.clear()
        if not data:
            return
        try:
            count = self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            count = 0
        except OSError as problem:
            if is_foreign(problem):
                raise
            return self._end(Disconnected(f"the agent closed the connection ({problem.strerror})"), start + data)
        if count < len(data):
            self._output += data[count:]

    def _end(self, error: Error, unsent: bytes = b"") -> None:
        """Ends the connection. Called with the lock.

        unsent: what the socket refused. Calls whose whole request is in it can be made on another connection.
        """
        for item in self._core.end(error):
            if isinstance(item, Call) and item.is_sent and b'\n{"id":%d,' % item.id in unsent:
                item.is_sent = False
        # Also those whose replies have arrived: an exception may have kept the thread that read from waking them.
        for item in list(self._waiting.values()):
            self._wake(item)
        self._output.clear()
        if self._users:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes the threads that use the socket
            except OSError:
                pass
        else:
            self._close()

    def _abandon(self, calls: Iterable[Call]) -> None:
        with self._lock:
            if self._is_torn:
                self._is_torn = False
                self._end(Disconnected("an exception interrupted a thread that used the connection"))
            self._write(b"".join([self._core.abandon(call) for call in calls]))
            self._pass_on()

    def notify(self, method: str, **params: object) -> None:
        """Sends a request without a reply."""
        with self._lock:
            if self._core.ended is None:
                self._write(Core.notification(method, **params))

    def unsubscribe(self, subscription: Subscription, error: Error) -> None:
        """Ends a subscription. A thread that waits for it gets the error."""
        with self._lock:
            subscription.error = error
            self._write(self._core.unsubscribe(subscription))
            self._wake(subscription)
            if self._reader is not None and self._event >= 0:
                os.eventfd_write(self._event, 1)

    def orphan(self, subscription: Subscription) -> None:
        """Ends a subscription from a finalizer, in which no lock may be awaited."""
        self.orphans.append(subscription)
        if self._lock.acquire(blocking=False):
            try:
                self._end_orphans()
            finally:
                self._lock.release()

    def _end_orphans(self) -> None:
        while self.orphans:
            self._write(self._core.unsubscribe(self.orphans.pop()))

    def close(self, error: Error) -> None:
        """Ends the connection; calls that wait fail with the error."""
        with self._lock:
            self._end(error)

    def forget(self) -> None:
        """Closes the descriptors in a new process, without an effect on the connection of its parent."""
        self._close()
        self._lock = allocate_lock()
        self._users, self._reader = set(), None
        self._waiting.clear()
        self._core.end(Disconnected("the process was forked, and the connection belongs to its parent"))


class Connector:
    """The connections of a client: one for calls, and others for subscriptions, so that neither delays the other."""

    def __init__(self, path: str, backoff: Backoff) -> None:
        self.path, self.backoff = path, backoff
        # Whether the agent was ever reached. Calls are repeated only then.
        self.was_connected = False
        self.link: Link | None = None
        self._subscription_links: list[Link] = []
        self.is_closed = False
        self._lock = threading.Lock()
        self._woken = threading.Condition()
        # The connections that exchange() uses now.
        self._exchanging: set[socket.socket] = set()
        clients.add(self)

    def connected(self, seconds: float | None) -> Link:
        """Returns the connection for calls."""
        link = self.link
        if link is not None and link.is_usable:
            return link
        with self._lock:
            link = self.link
            if link is None or not link.is_usable:
                link = self.link = self._open(seconds)
        return link

    def subscribe(self, call: Call, subscription: Subscription, seconds: float | None) -> Link:
        """Sends a config.subscribe, and returns the connection of the subscription."""
        with self._lock:
            self._subscription_links = [link for link in self._subscription_links if link.is_usable]
            # A request in flight counts as a subscription only after its reply. The agent then refuses it.
            free = [link for link in self._subscription_links if link.subscription_count < MAX_SUBSCRIPTIONS]
            if free:
                link = free[0]
            elif len(self._subscription_links) >= MAX_SUBSCRIPTION_LINKS:
                raise InvalidArgument(
                    f"the client has {MAX_SUBSCRIPTIONS * MAX_SUBSCRIPTION_LINKS} watches; "
                    "watch a path above several others, or create another client"
                )
            else:
                link = self._open(seconds, has_event=True)
                self._subscription_links.append(link)
        link.perform(call, seconds)
        return link

    def _open(self, seconds: float | None, has_event: bool = False) -> Link:
        stream = self._connect(seconds)
        try:
            return Link(stream, has_event)
        except OSError as problem:
            stream.close()
            raise unreachable(self.path, problem) from None

    def _connect(self, seconds: float | None) -> socket.socket:
        """Connects. Waits while the queue of the socket is full."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        attempt = 0
        while True:
            if self.is_closed:
                raise Closed
            try:
                stream = connect(self.path)
                stream.setblocking(True)
                self.was_connected = True
                return stream
            except Unreachable as error:
                remaining = deadline - time.monotonic()
                if error.errno != errno.EAGAIN or remaining <= 0:
                    raise
            self.sleep(min(self.backoff.delay(attempt), remaining))
            attempt += 1

    def sleep(self, seconds: float, watch: SupportsClosed | None = None) -> None:
        """Waits. Raises Closed if the client or the watch is closed."""
        with self._woken:
            if self._woken.wait_for(lambda: self.is_closed or (watch is not None and watch.is_closed), seconds):
                raise Closed

    def wake(self) -> None:
        """Has those who sleep check whether they are closed."""
        with self._woken:
            self._woken.notify_all()

    def close(self) -> None:
        """Ends all connections. Later calls raise Closed."""
        self.is_closed = True
        self.wake()
        with self._lock:
            links, self.link, self._subscription_links = [self.link, *self._subscription_links], None, []
        for link in links:
            if link is not None:
                link.close(Closed())
        for stream in tuple(self._exchanging):
            try:
                stream.shutdown(socket.SHUT_RDWR)  # wakes the thread that uses it
            except OSError:
                pass

    def forget(self) -> None:
        """Forgets the connections in a new process."""
        self._lock, self._woken = threading.Lock(), threading.Condition()
        for link in (self.link, *self._subscription_links):
            if link is not None:
                link.forget()
        for stream in self._exchanging:
            stream.close()
        self.link, self._subscription_links, self._exchanging = None, [], set()

    def exchange(self, call: Call, seconds: float | None, descriptor: int | None = None) -> tuple[Any, int | None]:
        """Makes one call on a connection of its own, which can pass a descriptor with the request, or else with the reply."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        stream, core = self._connect(seconds), Core()
        received: list[int] = []
        self._exchanging.add(stream)
        try:
            if self.is_closed:
                raise Closed
            line = core.start(call)
            stream.settimeout(seconds)
            sent = socket.send_fds(stream, [line], [descriptor]) if descriptor is not None else 0
            stream.sendall(line[sent:])
            while not call.done:
                if deadline < math.inf:
                    if (remaining := deadline - time.monotonic()) <= 0:
                        raise DeadlinePassed
                    stream.settimeout(remaining)
                data, more, _, _ = socket.recv_fds(stream, CHUNK, 4, socket.MSG_CMSG_CLOEXEC)
                received += more
                while len(received) > (descriptor is None):
                    os.close(received.pop())  # the agent passes one at most
                if not data:
                    raise Closed if self.is_closed else Disconnected("the agent closed the connection")
                core.feed(data)
            if call.error is not None:
                raise call.error
            return call.result, received.pop() if received else None
        except (OSError, DeadlinePassed) as problem:
            if isinstance(problem, DeadlinePassed) or (isinstance(problem, TimeoutError) and time.monotonic() >= deadline):
                raise Timeout(f"the agent did not reply to {call.method} within {seconds:g} s") from None
            if isinstance(problem, Error) or is_foreign(problem):
                raise
            if self.is_closed:
                raise Closed from None
            raise Disconnected(f"the connection to the agent broke: {problem.strerror or problem}") from None
        finally:
            self._exchanging.discard(stream)
            stream.close()
            for one in received:
                os.close(one)


class Forgetful(Protocol):
    """A connector of this module or of ``_aio_link``."""

    def forget(self) -> None:
        """Forgets the connections in a new process."""


clients: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def _after_fork() -> None:
    for connector in list(clients):
        connector.forget()


os.register_at_fork(after_in_child=_after_fork)
