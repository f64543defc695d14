"""Connections for asyncio. A connection belongs to the event loop on which it was opened."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import select
import time
from collections.abc import Callable, Iterable
from typing import Any

from . import _link
from ._agent_errors import Timeout
from ._core import MAX_SUBSCRIPTIONS, Backoff, Call, Core, DeadlinePassed, Item, Subscription, SupportsClosed
from .errors import Closed, Disconnected, Error, InvalidArgument, Unreachable


class Link(asyncio.Protocol):
    """A connection that the tasks of an event loop can use at the same time."""

    def __init__(self) -> None:
        self._core = Core()
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()

    @property
    def is_usable(self) -> bool:
        """Whether new calls may use the connection."""
        return self._core.is_usable and not self._loop.is_closed()

    @property
    def is_open(self) -> bool:
        """Whether the subscriptions and leases of the connection exist."""
        return self._core.ended is None

    @property
    def subscription_count(self) -> int:
        return len(self._core.subscriptions)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._poll.register(transport.get_extra_info("socket"), 0)  # reports only the end of the connection

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            ready, output = self._core.feed(data)
        except Error as violation:
            return self.close(violation)
        for item in ready:
            self._wake(item)
        self._write(output)

    def connection_lost(self, problem: Exception | None) -> None:
        """Called by the event loop."""
        text = f"the connection to the agent broke: {problem}" if problem else "the agent closed the connection"
        self.close(Disconnected(text))

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and self._core.ended is None:
            self._transport.write(data)

    @staticmethod
    def _wake(item: Item) -> None:
        if item.waiter is not None and not item.waiter.done():
            item.waiter.set_result(None)

    async def perform(self, call: Call, seconds: float | None, report: Callable[[dict[str, Any]], object] | None = None) -> Any:
        """Sends a request and returns its result. Raises the error of the agent, Timeout, Disconnected or Closed."""
        await self.perform_all((call,), seconds, report)
        if call.error is not None:
            raise call.error
        return call.result

    async def perform_all(
        self, calls: Iterable[Call], seconds: float | None, report: Callable[[dict[str, Any]], object] | None = None
    ) -> list[Any]:
        """Sends requests together. Returns their results; the error of a call takes the place of its result."""
        deadline = None if seconds is None else time.monotonic() + seconds
        calls = tuple(calls)
        if not self._core.in_flight and self._core.ended is None and self._poll.poll(0):
            # Noticed before the request counts as sent, so that it is sent on another connection.
            self.connection_lost(None)
        if self._core.ended is not None:
            raise self._core.ended.with_traceback(None)
        try:
            self._write(b"".join([self._core.start(call) for call in calls]))
            for call in calls:
                while not call.done and call.error is None:
                    await self.wait(call, deadline)
                    while call.progress:
                        progress = call.progress.popleft()
                        if report is not None:
                            report(progress)
        except BaseException as problem:
            self._write(b"".join([self._core.abandon(call) for call in calls]))
            if isinstance(problem, DeadlinePassed):
                raise Timeout(f"the agent did not reply to {calls[0].method} within {seconds:g} s") from None
            raise
        return [call.result if call.error is None else call.error for call in calls]

    async def wait(self, item: Item, deadline: float | None) -> None:
        """Waits until an item is ready. Raises DeadlinePassed."""
        while not item.is_ready():
            if self._loop.is_closed():
                self._core.end(Disconnected("the event loop of the connection was closed"))
            if self._core.ended is not None:
                item.error = item.error or self._core.ended
                return
            item.waiter = self._loop.create_future()
            timer = None
            if deadline is not None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise DeadlinePassed
                timer = self._loop.call_later(remaining, self._wake, item)
            try:
                await item.waiter
            finally:
                item.waiter = None
                if timer is not None:
                    timer.cancel()

    def notify(self, method: str, **params: object) -> None:
        """Sends a request without a reply."""
        self._write(Core.notification(method, **params))

    def unsubscribe(self, subscription: Subscription, error: Error) -> None:
        """Ends a subscription. A task that waits for it gets the error."""
        subscription.error = error
        self._write(self._core.unsubscribe(subscription))
        self._wake(subscription)

    def orphan(self, subscription: Subscription) -> None:
        """Ends a subscription from a finalizer, which may run in any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.unsubscribe, subscription, Closed())

    def close(self, error: Error) -> None:
        """Ends the connection; calls that wait fail with the error."""
        for item in self._core.end(error):
            self._wake(item)
        if self._transport is not None and not self._loop.is_closed():
            self._transport.close()

    def forget(self) -> None:
        """Releases the connection in a new process, without an effect on its parent."""
        self._core.end(Disconnected("the process was forked, and the connection belongs to its parent"))
        stream = self._transport.get_extra_info("socket") if self._transport is not None else None
        if stream is not None and stream.fileno() >= 0:
            # The transport owns the number of the descriptor, so the number stays in use.
            null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(null, stream.fileno(), inheritable=False)
            os.close(null)


class Connector:
    """The connections of a client: one for calls, and others for subscriptions, so that neither delays the other."""

    def __init__(self, path: str, backoff: Backoff) -> None:
        self.path, self.backoff = path, backoff
        self.was_connected = False
        self.link: Link | None = None
        self._subscription_links: list[Link] = []
        self._opening: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
        self._sleepers: set[asyncio.Future[None]] = set()
        # The connectors, in other threads, that exchange() uses now.
        self._exchanging: set[_link.Connector] = set()
        self.is_closed = False
        _link.clients.add(self)

    async def connected(self, seconds: float | None) -> Link:
        """Returns the connection for calls."""
        link = self.link
        if link is not None and link.is_usable:
            return link
        async with self._lock():
            link = self.link
            if link is None or not link.is_usable:
                link = self.link = await self._open(seconds)
        return link

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._opening is None or self._opening[0] is not loop:
            self._opening = (loop, asyncio.Lock())
        return self._opening[1]

    async def subscribe(self, call: Call, subscription: Subscription, seconds: float | None) -> Link:
        """Sends a config.subscribe, and returns the connection of the subscription."""
        async with self._lock():
            self._subscription_links = [link for link in self._subscription_links if link.is_usable]
            free = [link for link in self._subscription_links if link.subscription_count < MAX_SUBSCRIPTIONS]
            if free:
                link = free[0]
            elif len(self._subscription_links) >= _link.MAX_SUBSCRIPTION_LINKS:
                raise InvalidArgument(
                    f"the client has {MAX_SUBSCRIPTIONS * _link.MAX_SUBSCRIPTION_LINKS} watches; "
                    "watch a path above several others, or create another client"
                )
            else:
                link = await self._open(seconds)
                self._subscription_links.append(link)
        await link.perform(call, seconds)
        return link

    async def _open(self, seconds: float | None) -> Link:
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        attempt = 0
        while True:
            if self.is_closed:
                raise Closed
            try:
                # asyncio would take a socket whose queue is full for a connected one.
                stream = _link.connect(self.path)
                break
            except Unreachable as error:
                remaining = deadline - time.monotonic()
                if error.errno != errno.EAGAIN or remaining <= 0:
                    raise
            await self.sleep(min(self.backoff.delay(attempt), remaining))
            attempt += 1
        _, link = await asyncio.get_running_loop().create_unix_connection(Link, sock=stream)
        self.was_connected = True
        if self.is_closed:
            link.close(Closed())
            raise Closed
        return link

    async def sleep(self, seconds: float, watch: SupportsClosed | None = None) -> None:
        """Waits. Raises Closed if the client or the watch is closed."""
        deadline = time.monotonic() + seconds
        while not self.is_closed and not (watch is not None and watch.is_closed):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return
            sleeper = asyncio.get_running_loop().create_future()
            self._sleepers.add(sleeper)
            try:
                await asyncio.wait((sleeper,), timeout=remaining)
            finally:
                self._sleepers.discard(sleeper)
        raise Closed

    def wake(self) -> None:
        """Has those who sleep check whether they are closed."""
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    async def close(self) -> None:
        """Ends all connections. Later calls raise Closed."""
        self.is_closed = True
        self.wake()
        links, self.link, self._subscription_links = [self.link, *self._subscription_links], None, []
        for link in links:
            if link is not None:
                link.close(Closed())
        for connector in tuple(self._exchanging):
            connector.close()

    def forget(self) -> None:
        """Forgets the connections in a new process."""
        for link in (self.link, *self._subscription_links):
            if link is not None:
                link.forget()
        self.link, self._subscription_links, self._opening, self._sleepers = None, [], None, set()
        self._exchanging = set()

    async def exchange(self, call: Call, seconds: float | None, descriptor: int | None = None) -> tuple[Any, int | None]:
        """Makes one call on a connection of its own, which can pass a descriptor with the request and with the reply."""
        if self.is_closed:
            raise Closed
        blocking = _link.Connector(self.path, self.backoff)
        self._exchanging.add(blocking)
        exchange = asyncio.get_running_loop().run_in_executor(None, blocking.exchange, call, seconds, descriptor)
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            exchange.add_done_callback(_close_descriptor)
            blocking.close()  # so that the thread ends, for which the end of the event loop waits
            raise
        finally:
            self.was_connected = self.was_connected or blocking.was_connected
            self._exchanging.discard(blocking)


def _close_descriptor(exchange: asyncio.Future[tuple[Any, int | None]]) -> None:
    """Closes the descriptor that a call has received after its task was cancelled."""
    if not exchange.cancelled() and exchange.exception() is None and (descriptor := exchange.result()[1]) is not None:
        os.close(descriptor)
