"""The client for asyncio."""

from __future__ import annotations

import math
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Literal, cast

from ._agent_errors import Conflict, NotFound, ShuttingDown, Timeout
from ._aio_link import Connector, Link
from ._core import (
    REPEATABLE,
    Attempts,
    Backoff,
    Call,
    DeadlinePassed,
    Follower,
    Mode,
    Path,
    Repeats,
    Snapshot,
    Subscription,
    default_socket,
    get_request,
    is_refusal,
    request,
)
from ._values import ChangeList, Seconds, log, memory_file, milliseconds, params, seconds_of
from .errors import Closed, Disconnected, Error, InvalidArgument, ProtocolError, UnknownOutcome, Unreachable
from .snapshot import MappedSnapshot

if TYPE_CHECKING:
    from . import _schema

_REQUIRED: Final[Any] = object()
Policy = Literal["default", "cacheFirst", "networkFirst", "cacheOnly", "networkOnly", "staleWhileRevalidate"]
Report = Callable[[dict[str, Any]], object]


class Client:
    """A client of the agent of this host.

    It connects when it is first used, and again after a restart of the agent. A call that reads is repeated on the new connection
    for ``reconnect`` seconds. A call that writes is repeated only if the agent cannot have executed it; otherwise it raises
    Disconnected. If the agent was never reached, a call raises Unreachable at once.

    socket: the path of the agent's socket, ``@NAME`` for an abstract one; None for the default one.
    namespace: the namespace of calls that name no other.
    timeout: the seconds after which a call raises Timeout, or the error of the connection; None for no limit.
    reconnect: the seconds for which a call is repeated while the agent restarts, within its timeout; 0 for never.
    backoff: the delays between attempts to connect.

    >>> (await client.set("search.limit", 25))["changed"]
    True
    >>> await client.get("search.limit", default=10)
    25
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        namespace: str = "default",
        timeout: Seconds | None = 30.0,
        reconnect: Seconds = 5.0,
        backoff: Backoff | None = None,
    ) -> None:
        self.backoff = backoff or Backoff()
        self.namespace, self.timeout = namespace, seconds_of(timeout)
        self._reconnect = seconds_of(reconnect)
        self._connector = Connector(os.fspath(socket) if socket is not None else default_socket(), self.backoff)

    @property
    def socket(self) -> str:
        """The path of the agent's socket."""
        return self._connector.path

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. Calls and watches end with Closed. Has no effect the second time."""
        await self._connector.close()

    # --- Calls ---

    async def call(
        self,
        method: str,
        parameters: Mapping[str, object] | None = None,
        *,
        timeout: Seconds | None = None,
        on_progress: Report | None = None,
    ) -> Any:
        """Calls any method of the protocol. Returns its result.

        parameters: by their names in the protocol; the module ``larder_client.schema`` has their types.
        timeout: in seconds; None for the timeout of the client.
        on_progress: called with each notification of progress, in this thread or task.

        >>> await client.call("agent.ping")
        {'pong': True}
        """
        limit = self.timeout if timeout is None else seconds_of(timeout)
        return await self._call(method, parameters or {}, limit, on_progress)

    async def _call(
        self, method: str, parameters: Mapping[str, object], limit: float | None, on_progress: Report | None = None
    ) -> Any:
        return (await self._perform(request(method, parameters, reports=on_progress is not None), limit, on_progress))[0]

    async def _perform(self, call: Call, limit: float | None, on_progress: Report | None = None) -> tuple[Any, Link]:
        """Makes a call, and repeats it if that is safe. Returns the result and the connection that it came from."""
        began, seconds = time.monotonic(), limit
        repeats: Repeats | None = None
        while True:
            try:
                link = self._connector.link
                if link is None or not link.is_usable:
                    link = await self._connector.connected(seconds)
                return await link.perform(call, seconds, on_progress), link
            except (Unreachable, Disconnected, ShuttingDown) as error:
                repeats = repeats or Repeats(self.backoff, self._reconnect, began, limit)
                delay = repeats.delay(error) if self._may_repeat(call, error) else None
                if delay is None:
                    raise
            await self._connector.sleep(delay)
            seconds = repeats.begin()
            call = Call(call.method, call.params, reports=call.reports)

    def _may_repeat(self, call: Call, error: Error) -> bool:
        if not self._connector.was_connected or is_refusal(error):
            return False
        return isinstance(error, (Unreachable, ShuttingDown)) or not call.is_sent or call.method in REPEATABLE

    async def ping(self) -> None:
        """Checks that the agent replies."""
        await self._call("agent.ping", {}, self.timeout)

    async def info(self) -> _schema.AgentInfoResult:
        """Returns the version, settings and limits of the agent, and the rights of this process."""
        return cast("_schema.AgentInfoResult", await self._call("agent.info", {}, self.timeout))

    # --- Values ---

    async def get(
        self,
        path: Path = "",
        default: Any = _REQUIRED,
        *,
        namespace: str | None = None,
        max_age: Seconds | None = None,
        stale_if_error: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """Returns the value at a path.

        path: ``"search.limit"``, ``"/search/limit"`` or ``["search", "limit"]``; "" for the whole document.
        default: returned if there is no value. Without it, NotFound is raised.
        max_age: the source is polled first if it has not confirmed its document for that long.
        stale_if_error: if that poll fails, the maximum time for which the value is returned nevertheless.

        >>> await client.get("no.such", default=10)
        10
        """
        if max_age is None and stale_if_error is None:
            call = get_request(path, namespace or self.namespace)
        else:
            parameters = params(
                path=path,
                namespace=namespace or self.namespace,
                maximumAgeSeconds=seconds_of(max_age),
                staleIfErrorSeconds=seconds_of(stale_if_error),
            )
            call = request("config.get", parameters)
        try:
            result, _ = await self._perform(call, self.timeout if timeout is None else seconds_of(timeout))
        except NotFound:
            if default is _REQUIRED:
                raise
            return default
        return result["value"]

    async def get_many(self, paths: Sequence[Path], default: Any = _REQUIRED, *, namespace: str | None = None) -> list[Any]:
        """Returns the values at several paths, with one exchange. They may belong to different snapshots.

        default: takes the place of each value that does not exist. Without it, NotFound is raised.

        >>> await client.get_many(["search.limit", "no.such"], default=0)
        [25, 0]
        """
        if not paths:
            return []
        calls = [get_request(path, namespace or self.namespace) for path in paths]
        try:
            link = await self._connector.connected(self.timeout)
            replies = await link.perform_all(calls, self.timeout)
        except (Unreachable, Disconnected):
            if not self._connector.was_connected:
                raise
            replies = [None] * len(calls)
        values = []
        for path, reply in zip(paths, replies, strict=True):
            if isinstance(reply, dict):
                values.append(reply["value"])
            elif isinstance(reply, NotFound) and default is not _REQUIRED:
                values.append(default)
            elif isinstance(reply, Error) and not reply.retryable:
                raise reply
            else:
                values.append(await self.get(path, default, namespace=namespace))
        return values

    async def snapshot(self, path: Path = "", *, namespace: str | None = None, timeout: Seconds | None = None) -> Snapshot:
        """Returns the value at a path with its revision, epoch and state. ``exists`` is False if there is no value.

        >>> (await client.snapshot("search")).value
        {'limit': 25}
        """
        limit = self.timeout if timeout is None else seconds_of(timeout)
        where: dict[str, object] = {"path": path, "namespace": namespace or self.namespace}
        try:
            result = await self._call("config.get", where, limit)
        except NotFound:  # the error has no revision; this condition holds at once
            result = await self._call("config.wait", where | {"revisionAtLeast": 0}, limit)
        exists = result.get("exists", True)
        return Snapshot(result.get("value"), result["revision"], result["epoch"], result["state"], exists)

    async def set(
        self,
        path: Path,
        value: object,
        *,
        ttl: Seconds | None = None,
        if_revision: int | None = None,
        epoch: str | None = None,
        if_value: object = None,
        if_absent: bool = False,
        reason: str | None = None,
        dry_run: bool = False,
        replace_all: bool = False,
        namespace: str | None = None,
        timeout: Seconds | None = None,
    ) -> _schema.ConfigSetResult:
        """Overrides the value at a path. An object merges with the values of lower layers; None hides them.

        ttl: the time until the override expires; None for never. An override that it has replaced does not return.
        if_revision, epoch, if_value, if_absent: conditions; Conflict is raised unless they hold.
        reason: shown in the history and in the log.
        dry_run: change nothing, and return the differences in ``changes``.
        replace_all: replace all overrides; only for the path "".
        Returns ``revision``, ``epoch``, ``changed`` and, if it expires, ``expiresAt``.

        >>> (await client.set("jobs.owner", "host-7", if_absent=True, ttl=timedelta(minutes=5)))["changed"]
        True
        >>> (await client.set("search.limit", 50, if_value=25, dry_run=True))["changes"]
        [{'path': ['search', 'limit'], 'kind': 'changed', 'old': 25, 'new': 50}]
        """
        parameters = params(
            path=path,
            namespace=namespace or self.namespace,
            ttlMilliseconds=milliseconds(ttl),
            replaceAll=replace_all or None,
            ifRevision=if_revision,
            epoch=epoch,
            ifValue=if_value,
            ifAbsent=if_absent or None,
            reason=reason,
            dryRun=dry_run or None,
        )
        parameters["value"] = value
        result = await self._call("config.set", parameters, self.timeout if timeout is None else seconds_of(timeout))
        return cast("_schema.ConfigSetResult", result)

    async def unset(
        self,
        path: Path,
        *,
        all: bool = False,
        if_revision: int | None = None,
        epoch: str | None = None,
        if_value: object = None,
        if_absent: bool = False,
        reason: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
    ) -> _schema.Change:
        """Removes the override at a path, so that lower layers show through.

        all: remove all overrides; only for the path "".

        >>> (await client.unset("jobs.owner"))["changed"]
        True
        """
        parameters = params(
            path=path,
            namespace=namespace or self.namespace,
            all=all or None,
            ifRevision=if_revision,
            epoch=epoch,
            ifValue=if_value,
            ifAbsent=if_absent or None,
            reason=reason,
            dryRun=dry_run or None,
        )
        return cast("_schema.Change", await self._call("config.unset", parameters, self.timeout))

    def apply(
        self,
        *,
        if_revision: int | None = None,
        epoch: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
    ) -> Apply:
        """Collects changes, and makes all or none of them at the end of the block.

        >>> async with client.apply(reason="more results") as changes:
        ...     changes.set("search.limit", 50, if_value=25)
        ...     changes.unset("search.hosts")
        >>> changes.result["changed"]
        True
        """
        parameters = params(
            namespace=namespace or self.namespace,
            ifRevision=if_revision,
            epoch=epoch,
            reason=reason,
            dryRun=dry_run or None,
        )
        return Apply(self, parameters)

    async def update(
        self,
        path: Path,
        function: Callable[[Any], object],
        *,
        default: Any = None,
        ttl: Seconds | None = None,
        reason: str | None = None,
        namespace: str | None = None,
        timeout: Seconds | None = None,
    ) -> Any:
        """Replaces the value at a path by a function of it, without losing a change of another client.

        function: gets the current value, or ``default`` if there is none. It is called again after each conflict.
        Returns the new value. Raises UnknownOutcome if the connection broke, and the document has another revision since or the
        agent did not return; and Timeout if other clients change the document all the time.

        >>> await client.update("visits", lambda count: count + 1, default=0)
        1
        """
        limit = self.timeout if timeout is None else seconds_of(timeout)
        deadline = math.inf if limit is None else time.monotonic() + limit
        attempt = 0

        def remaining() -> float | None:
            return None if limit is None else max(0.001, deadline - time.monotonic())

        while True:
            before = await self.snapshot(path, namespace=namespace, timeout=remaining())
            value = function(before.value if before.exists else default)
            if value is None:
                raise InvalidArgument("the function of an update returned None; return the new value, or call unset")
            is_unknown = False
            while True:
                try:
                    await self.set(
                        path,
                        value,
                        ttl=ttl,
                        reason=reason,
                        namespace=namespace,
                        if_revision=before.revision,
                        epoch=before.epoch,
                        timeout=remaining(),
                    )
                    return value
                except Conflict:
                    if is_unknown:
                        raise UnknownOutcome(
                            "the connection broke during an update, and the document has changed since; "
                            "read the value to find out whether the update was made"
                        ) from None
                    break
                except Disconnected:
                    # With the same condition, the change cannot be made twice.
                    is_unknown = True
                    if time.monotonic() > deadline:
                        raise
                    await self._connector.sleep(self.backoff.delay(attempt))
                    attempt += 1
                except (Unreachable, Timeout) as error:
                    if is_unknown:
                        raise UnknownOutcome(
                            "the connection broke during an update, and the agent did not return in time; "
                            "read the value to find out whether the update was made"
                        ) from error
                    raise
            if time.monotonic() > deadline:
                raise Timeout(f"other clients changed the document {attempt + 1} times during the update; retry")
            await self._connector.sleep(Backoff(0.002, 0.1).delay(attempt))
            attempt += 1

    async def increment(
        self,
        path: Path,
        by: int = 1,
        *,
        minimum: int | None = None,
        maximum: int | None = None,
        reason: str | None = None,
        namespace: str | None = None,
    ) -> int:
        """Adds to an integer, which is 0 if there is no value. Returns the sum.

        minimum, maximum: bounds of the sum; Conflict is raised if it would be outside.

        >>> await client.increment("tickets", maximum=100)
        1
        """
        parameters = params(
            path=path,
            by=by,
            namespace=namespace or self.namespace,
            minimum=minimum,
            maximum=maximum,
            reason=reason,
        )
        return cast(int, (await self._call("config.increment", parameters, self.timeout))["value"])

    async def wait(
        self,
        path: Path = "",
        *,
        equals: object = None,
        not_equals: object = None,
        exists: bool | None = None,
        revision_at_least: int | None = None,
        epoch: str | None = None,
        timeout: Seconds | None = None,
        namespace: str | None = None,
    ) -> Snapshot:
        """Waits until a value meets a condition. Returns the snapshot that meets it.

        timeout: raises Timeout after that time; None for no limit, whatever the timeout of the client is.

        >>> (await client.wait("search.limit", equals=50, timeout=5)).value
        50
        """
        limit = seconds_of(timeout)
        parameters = params(
            path=path,
            namespace=namespace or self.namespace,
            equals=equals,
            notEquals=not_equals,
            exists=exists,
            revisionAtLeast=revision_at_least,
            epoch=epoch,
        )
        result = await self._call("config.wait", parameters, limit)
        return Snapshot(result.get("value"), result["revision"], result["epoch"], result["state"], result["exists"])

    def watch(
        self,
        path: Path = "",
        *,
        namespace: str | None = None,
        mode: Mode = "snapshot",
        fail_on_refusal: bool = False,
        on_interruption: Callable[[Error, float], object] | None = None,
        on_resumption: Callable[[], object] | None = None,
    ) -> Watch:
        """Returns an iterator over the snapshots at a path: the current one, then each new one.

        It survives restarts of the agent, never returns an older snapshot, and returns none twice. A slow consumer gets the newest
        snapshot, with the number of ``skipped`` ones. It keeps trying until it is closed, also if the settings refuse it.

        mode: ``patch`` transfers only changes; ``revision`` only the revisions, so that the snapshots have no value.
        fail_on_refusal: raise Denied, UnknownNamespace, or Unreachable for lack of permission, instead of waiting.
        on_interruption: called with the error, and the seconds until the next attempt.
        on_resumption: called when the watch is connected again.

        >>> async with client.watch("search.limit") as limits:
        ...     async for snapshot in limits:
        ...         print(snapshot.value)
        ...         break
        50
        """
        follower = Follower(path, namespace or self.namespace, mode)
        return Watch(self._connector, self.timeout, follower, fail_on_refusal, on_interruption, on_resumption)

    async def mapped(self, *, namespace: str | None = None) -> MappedSnapshot:
        """Returns the current snapshot as a file in memory that the processes of the host share.

        >>> (await client.mapped()).get("search.limit")
        50
        """
        call = request("config.open", {"namespace": namespace or self.namespace})
        result, descriptor = await self._exchange(call, self.timeout)
        if descriptor is None:
            raise ProtocolError("the reply came without a file; connect to the agent's socket directly, not through a relay")
        try:
            snapshot = MappedSnapshot(descriptor, state=result["state"])
        finally:
            os.close(descriptor)
        if (snapshot.revision, snapshot.epoch) != (result["revision"], result["epoch"]):
            raise ProtocolError("the agent passed the file of another snapshot than its reply names")
        return snapshot

    async def _exchange(self, call: Call, limit: float | None, descriptor: int | None = None) -> tuple[Any, int | None]:
        """Makes a call that passes a descriptor. Repeats it as ``_perform`` does."""
        repeats = Repeats(self.backoff, self._reconnect, time.monotonic(), limit)
        while True:
            try:
                return await self._connector.exchange(call, repeats.begin(), descriptor)
            except (Unreachable, Disconnected, ShuttingDown) as error:
                delay = repeats.delay(error) if self._may_repeat(call, error) else None
                if delay is None:
                    raise
            await self._connector.sleep(delay)
            call = Call(call.method, call.params)

    # --- History and administration ---

    async def explain(self, path: Path = "", *, namespace: str | None = None) -> _schema.ConfigExplainResult:
        """Returns which layers have a value at a path, where the values come from, and which one wins.

        >>> (await client.explain("search.limit"))["winner"]
        'override'
        """
        parameters = {"path": path, "namespace": namespace or self.namespace}
        return cast("_schema.ConfigExplainResult", await self._call("config.explain", parameters, self.timeout))

    async def history(self, limit: int | None = None, *, namespace: str | None = None) -> list[_schema.Generation]:
        """Returns the snapshots that the agent has kept, newest first, with the causes of each."""
        parameters = params(namespace=namespace or self.namespace, limit=limit)
        return cast("list[_schema.Generation]", (await self._call("config.history", parameters, self.timeout))["generations"])

    async def diff(
        self, revision: int, to: int | None = None, path: Path = "", *, namespace: str | None = None
    ) -> list[_schema.Difference]:
        """Returns the paths at which two revisions differ. to: the second revision; None for the current one."""
        parameters = params(to=to, namespace=namespace or self.namespace, path=path)
        result = await self._call("config.diff", {"from": revision, **parameters}, self.timeout)
        return cast("list[_schema.Difference]", result["changes"])

    async def rollback(
        self,
        revision: int | None = None,
        *,
        release: bool = False,
        hold: Literal["untilNewer", "untilReleased"] | None = None,
        if_revision: int | None = None,
        epoch: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
    ) -> _schema.ConfigRollbackResult:
        """Returns to a revision, and holds the source so that it does not undo that.

        revision: a revision of the history.
        hold: how long; None for until the source has a document that is newer than the present one.
        release: end the hold, instead of a revision.
        """
        parameters = params(
            revision=revision,
            namespace=namespace or self.namespace,
            release=release or None,
            hold=hold,
            ifRevision=if_revision,
            epoch=epoch,
            reason=reason,
            dryRun=dry_run or None,
        )
        return cast("_schema.ConfigRollbackResult", await self._call("config.rollback", parameters, self.timeout))

    async def refresh(self, *, force: bool = False, namespace: str | None = None) -> _schema.ConfigRefreshResult:
        """Polls the source now. force: accept also an older document, or one that removes most members."""
        parameters = params(namespace=namespace or self.namespace, force=force or None)
        return cast("_schema.ConfigRefreshResult", await self._call("config.refresh", parameters, self.timeout))

    async def push(
        self,
        document: Mapping[str, object],
        *,
        version: str | None = None,
        force: bool = False,
        if_revision: int | None = None,
        epoch: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        namespace: str | None = None,
    ) -> _schema.Change:
        """Replaces the document of the remote layer.

        >>> (await client.push({"search": {"pages": 20}}, reason="release 7"))["changed"]
        True
        """
        parameters = params(
            document=document,
            namespace=namespace or self.namespace,
            version=version,
            force=force or None,
            ifRevision=if_revision,
            epoch=epoch,
            reason=reason,
            dryRun=dry_run or None,
        )
        return cast("_schema.Change", await self._call("config.push", parameters, self.timeout))

    async def status(self, namespace: str | None = None) -> list[_schema.NamespaceStatus]:
        """Returns the state of a namespace, or of all that this process may read: sources, failures, acknowledgements.

        >>> [status["state"] for status in await client.status("default")]
        ['fresh']
        """
        result = await self._call("config.status", params(namespace=namespace), self.timeout)
        return cast("list[_schema.NamespaceStatus]", result["namespaces"])

    async def acknowledge(
        self,
        revision: int,
        accepted: bool = True,
        *,
        reason: str | None = None,
        epoch: str | None = None,
        namespace: str | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        """Reports that this program runs with a revision, or has rejected it and why.

        The agent drops the report with the connection. ``Config(acknowledge=True)`` repeats it after each restart.
        """
        parameters = params(revision=revision, accepted=accepted, reason=reason, namespace=namespace or self.namespace, epoch=epoch)
        await self._call("config.acknowledge", parameters, self.timeout if timeout is None else seconds_of(timeout))

    # --- Feature flags ---

    @property
    def flags(self) -> Flags:
        """The feature flags of a namespace; ``larder_client.Flags`` has the methods."""
        return Flags(self)

    # --- Images ---

    def image(
        self,
        url: str,
        *,
        policy: Policy | None = None,
        max_age: Seconds | None = None,
        digest: str | None = None,
        cache_key: str | None = None,
        priority: Literal["low", "normal", "high"] | None = None,
        lease: Seconds | None = None,
        deadline: Seconds | None = None,
        descriptor: bool = False,
        on_progress: Report | None = None,
    ) -> Image:
        """Gets an image at the begin of a block, and releases it at the end.

        policy: see guides/images.md; None for the rules of HTTP.
        max_age: an older image is validated first.
        digest: the SHA-256 that the image must have.
        cache_key: takes the place of the query of the URL.
        lease: how long the file is kept at most; None for 300 s.
        deadline: raises Timeout after that time; None for the timeout of the client.
        descriptor: have the agent pass an open file, for a user who may not enter the directory of the cache. Without a lease.
        on_progress: called with ``receivedBytes`` and, if known, ``totalBytes``.

        >>> async with client.image(logo, policy="cacheFirst") as image:
        ...     with image.open() as file:
        ...         print(image.info["mediaType"], len(file.read()) == image.info["bytes"])
        image/png True
        """
        whole_age, whole_lease = seconds_of(max_age), seconds_of(lease)
        parameters = params(
            url=url,
            policy=policy,
            maximumAgeSeconds=None if whole_age is None else int(whole_age),
            expectedDigest=digest,
            cacheKey=cache_key,
            priority=priority,
            leaseSeconds=None if whole_lease is None else max(1, int(whole_lease)),
            deadlineMilliseconds=milliseconds(deadline),
            progress=True if on_progress is not None else None,
        )
        if descriptor:
            parameters["as"] = "descriptor"
        limit = self.timeout if deadline is None else cast(float, seconds_of(deadline)) + 5
        return Image(self, parameters, limit, on_progress)

    async def prefetch(
        self,
        urls: Sequence[str],
        *,
        concurrency: int | None = None,
        on_progress: Report | None = None,
        timeout: Seconds | None = None,
    ) -> _schema.ImagePrefetchResult:
        """Downloads images into the cache. Images that fail are listed in ``failures`` of the result.

        urls: at most 10,000.
        on_progress: called with ``done``, ``failed``, ``bytes`` and ``total``.
        timeout: in seconds; None for no limit.

        >>> (await client.prefetch([logo]))["failed"]
        0
        """
        parameters = params(urls=list(urls), concurrency=concurrency, progress=None if on_progress else False)
        result = await self._call("image.prefetch", parameters, seconds_of(timeout), on_progress)
        return cast("_schema.ImagePrefetchResult", result)

    async def put_image(
        self,
        url: str,
        content: bytes | IO[bytes],
        *,
        cache_key: str | None = None,
        digest: str | None = None,
        lifetime: Seconds | None = None,
    ) -> _schema.ImagePutResult:
        """Stores bytes, or the content of an open file, as the image of a URL.

        lifetime: how long the image is fresh.

        >>> (await client.put_image("https://img.example.org/dot.png", dot))["mediaType"]
        'image/png'
        """
        whole = seconds_of(lifetime)
        parameters = params(
            url=url,
            descriptor=True,
            cacheKey=cache_key,
            expectedDigest=digest,
            lifetimeSeconds=None if whole is None else int(whole),
        )
        with memory_file(content) as file:
            result, _ = await self._exchange(request("image.put", parameters), self.timeout, file.fileno())
        return cast("_schema.ImagePutResult", result)


class Flags:
    """The feature flags of a namespace; see :meth:`Client.flags`. The agent evaluates them.

    context: an object with the facts that rules refer to. Its member ``targetingKey``, a string, identifies the user, device or
        session.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def evaluate(
        self,
        name: str,
        default: Any = None,
        *,
        context: Mapping[str, object] | None = None,
        type: Literal["boolean", "string", "integer", "double", "object"] | None = None,
        namespace: str | None = None,
    ) -> _schema.FlagEvaluateResult:
        """Evaluates a flag. Returns its value, the name of the variant, and the reason.

        default: the value if the flag has none: if it is missing, malformed, disabled or of another type, or if no variant is
            selected. Without it, the result then has no ``value``.
        type: the type of the value; None for the type of the default, or for any type if there is no default.

        >>> (await client.flags.evaluate("new-checkout", False, context={"targetingKey": "user-1"}))["reason"]
        'ERROR'
        """
        parameters = params(
            flag=name,
            default=default,
            context=context,
            type=type or _flag_type(default),
            namespace=namespace or self._client.namespace,
        )
        return cast("_schema.FlagEvaluateResult", await self._client.call("flag.evaluate", parameters))

    async def evaluate_all(
        self,
        names: Sequence[str] | None = None,
        *,
        context: Mapping[str, object] | None = None,
        namespace: str | None = None,
    ) -> dict[str, _schema.FlagOutcome]:
        """Evaluates several flags of one snapshot. names: None for all. Returns the outcomes by the names of the flags.

        >>> await client.flags.evaluate_all(context={"targetingKey": "user-1"})
        {}
        """
        flags = None if names is None else [*names]
        parameters = params(flags=flags, context=context, namespace=namespace or self._client.namespace)
        result = cast("_schema.FlagEvaluateAllResult", await self._client.call("flag.evaluateAll", parameters))
        return {outcome["flag"]: outcome for outcome in result["flags"]}

    async def list(self, namespace: str | None = None) -> _schema.FlagListResult:
        """Returns the flags with the names of their variants, and what is wrong with those that are malformed."""
        parameters = {"namespace": namespace or self._client.namespace}
        return cast("_schema.FlagListResult", await self._client.call("flag.list", parameters))


def _flag_type(default: object) -> str | None:
    """The type of a flag with a default."""
    if isinstance(default, bool):
        return "boolean"
    kinds: list[tuple[Any, str]] = [(str, "string"), (int, "integer"), (float, "double"), ((Mapping, list, tuple), "object")]
    return next((name for kind, name in kinds if isinstance(default, kind)), None)


class Apply(ChangeList):
    """Changes that are made as one at the end of the block; see :meth:`Client.apply`."""

    def __init__(self, client: Client, parameters: dict[str, object]) -> None:
        super().__init__()
        self._client, self._parameters = client, parameters
        # The result, after the block; None if there were no changes.
        self.result: _schema.Change | None = None

    async def __aenter__(self) -> Apply:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self.changes:
            parameters = {**self._parameters, "changes": self.changes}
            self.result = cast("_schema.Change", await self._client.call("config.apply", parameters))


class Watch:
    """An iterator over snapshots; see :meth:`Client.watch`. One thread or task uses it; any may close it."""

    def __init__(
        self,
        connector: Connector,
        timeout: float | None,
        follower: Follower,
        fail_on_refusal: bool,
        on_interruption: Callable[[Error, float], object] | None,
        on_resumption: Callable[[], object] | None,
    ) -> None:
        self._connector, self._timeout, self._follower = connector, timeout, follower
        self._attempts = Attempts(connector.backoff, fail_on_refusal)
        self._on_interruption, self._on_resumption = on_interruption, on_resumption
        self._link: Link | None = None
        self._subscription: Subscription | None = None
        self._began = self._pause_until = 0.0
        self.backoff = connector.backoff
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[Snapshot]:
        return self

    async def __anext__(self) -> Snapshot:
        snapshot = await self.next()
        if snapshot is None:
            raise StopAsyncIteration
        return snapshot

    async def __aenter__(self) -> Watch:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if self._link is not None and self._subscription is not None and not self.is_closed:
            self._link.orphan(self._subscription)

    def close(self) -> None:
        """Ends the watch: a thread or task that waits for the next snapshot gets none. Has no effect the second time."""
        self.is_closed = True
        link, subscription = self._link, self._subscription
        if link is not None and subscription is not None:
            link.unsubscribe(subscription, Closed())
        self._connector.wake()

    async def pause(self, seconds: float) -> None:
        """Waits, but not longer than until the watch or its client is closed."""
        try:
            await self._connector.sleep(seconds, self)
        except Closed:
            self.is_closed = True

    async def next(self, timeout: Seconds | None = None) -> Snapshot | None:
        """Waits for the next snapshot. Returns None once the watch or its client is closed.

        timeout: raises Timeout after that time. The watch can still be used.
        """
        limit = seconds_of(timeout)
        deadline = None if limit is None else time.monotonic() + limit
        while not self.is_closed:
            try:
                if self._pause_until:
                    await self._sleep(deadline)
                if self._subscription is None:
                    await self._subscribe(deadline)
                if self._link is not None and self._subscription is not None:
                    await self._link.wait(self._subscription, deadline)
                snapshot = self._follower.take()
                if snapshot is not None:
                    self._attempts.restart()
                    return snapshot
                self._check_end()
            except Closed:
                self.is_closed = True
            except Error as error:
                if isinstance(error, Timeout) and deadline is not None and time.monotonic() >= deadline:
                    raise
                self._fail(error)
            except DeadlinePassed:
                raise Timeout(f"no snapshot arrived within {limit:g} s") from None
        return None

    async def _sleep(self, deadline: float | None) -> None:
        """Waits until the next attempt is due."""
        remaining = self._pause_until - time.monotonic()
        if remaining <= 0:
            self._pause_until = 0.0
            return
        if deadline is not None and deadline < self._pause_until:
            await self._connector.sleep(max(0.0, deadline - time.monotonic()), self)
            raise DeadlinePassed
        await self._connector.sleep(remaining, self)

    async def _subscribe(self, deadline: float | None) -> None:
        subscription = Subscription(self._follower)
        call = request("config.subscribe", self._follower.parameters(), subscription)
        limit = self._timeout
        if deadline is not None:
            remaining = max(0.0, deadline - time.monotonic())
            limit = remaining if limit is None else min(limit, remaining)
        self._link = await self._connector.subscribe(call, subscription, limit)
        self._subscription, self._began = subscription, time.monotonic()
        if self.is_closed:
            self._link.unsubscribe(subscription, Closed())
        if self._attempts.resume() and self._on_resumption is not None:
            self._on_resumption()

    def _check_end(self) -> None:
        """Handles the end of the subscription, if that is why no snapshot is pending."""
        subscription = self._subscription
        if subscription is None or subscription.error is None:
            return
        self._subscription = None
        if subscription.is_withdrawn:
            # The settings have changed. The reply to the next attempt shows whether the watch can continue.
            self._pause_until = time.monotonic() + self._attempts.withdraw()
            return
        if time.monotonic() - self._began > self.backoff.cap:
            self._attempts.restart()
        raise subscription.error

    def _fail(self, error: Error) -> None:
        """Schedules the next attempt. Raises the error if there is none."""
        self._subscription = None
        delay, is_news = self._attempts.fail(error)
        self._pause_until = time.monotonic() + delay
        if not is_news:
            return
        if self._on_interruption is not None:
            self._on_interruption(error, delay)
        elif is_refusal(error):
            log.warning("%s; the watch keeps trying", error)


class Image:
    """An image of the cache; see :meth:`Client.image`. Its file is kept while the block runs.

    path: the absolute path of the file. It is valid only until the end of the block.
    info: properties such as ``mediaType``, ``width``, ``height``, ``bytes``, ``digest`` and ``freshness``.
    """

    def __init__(self, client: Client, parameters: dict[str, object], limit: float | None, on_progress: Report | None) -> None:
        self._client, self._parameters, self._limit, self._on_progress = client, parameters, limit, on_progress
        self._link: Link | None = None
        self._descriptor: int | None = None
        self.path = ""
        self.info: _schema.ImageGetResult = cast("_schema.ImageGetResult", {})

    async def __aenter__(self) -> Image:
        if "as" in self._parameters:
            self.info, self._descriptor = await self._client._exchange(request("image.get", self._parameters), self._limit)
            if self._descriptor is None:
                raise ProtocolError("the reply came without a file; connect to the agent's socket directly, not through a relay")
        else:
            call = request("image.get", self._parameters, reports=self._on_progress is not None)
            self.info, self._link = await self._client._perform(call, self._limit, self._on_progress)
        self.path = self.info["path"]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    @property
    def is_valid(self) -> bool:
        """Whether the file is kept: the image was not released, and the connection that holds its lease is open."""
        return self._descriptor is not None or (self._link is not None and self._link.is_open)

    def open(self) -> IO[bytes]:
        """Opens the file for reading. It can be read also after the end of the block."""
        if self._descriptor is not None:
            # A descriptor of its own, with its own position.
            return open(f"/proc/self/fd/{self._descriptor}", "rb")
        if not self.is_valid:
            raise Disconnected("the image was released, or its lease ended with the connection; request it again")
        return open(self.path, "rb")

    def fileno(self) -> int:
        """The descriptor that the agent passed. Raises ValueError unless the image was requested with ``descriptor``."""
        if self._descriptor is None:
            raise ValueError("the image was requested without descriptor=True")
        return self._descriptor

    def release(self) -> None:
        """Ends the lease. Has no effect the second time."""
        link, self._link = self._link, None
        descriptor, self._descriptor = self._descriptor, None
        if link is not None:
            link.notify("image.release", lease=self.info["lease"])
        if descriptor is not None:
            os.close(descriptor)
