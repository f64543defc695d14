"""What goes wrong at the edges: peers that misbehave, limits of time, exceptions of signal handlers, and lack of descriptors."""

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import threading
import time

import pytest

import larder_client
from larder_client import Backoff, Closed, Disconnected, InvalidArgument, ProtocolError, Timeout, UnknownOutcome, Unreachable
from larder_client._core import Repeats

QUICK = Backoff(0.005, 0.05)


class Peer:
    """Listens on a socket. Each connection is given to a function, in a thread of its own."""

    def __init__(self, path, serve, backlog=16):
        self.path, self.serve = path, serve
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(path))
        self.server.listen(backlog)
        self.streams = []
        if serve is not None:
            self.thread = threading.Thread(target=self._accept, daemon=True)
            self.thread.start()

    def _accept(self):
        while True:
            try:
                stream, _ = self.server.accept()
            except OSError:
                return
            self.streams.append(stream)
            threading.Thread(target=self._handle, args=(stream,), daemon=True).start()

    def _handle(self, stream):
        try:
            self.serve(stream, stream.makefile("rb"))
        except OSError:
            pass
        stream.close()

    def close(self):
        try:
            self.server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.server.close()
        for stream in self.streams:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


@pytest.fixture
def peer(tmp_path):
    peers = []

    def start(serve, backlog=16):
        peers.append(Peer(tmp_path / f"peer{len(peers)}", serve, backlog))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


def reply(stream, message, **result):
    stream.sendall(json.dumps({"id": message["id"], "result": result}).encode() + b"\n")


def silent(stream, lines):
    for _ in lines:
        pass


VALUE = {"value": 1, "revision": 1, "epoch": "e", "state": "fresh"}


def test_a_single_value_has_its_default(client):
    assert client.get_many(["no.such"], default=7) == [7]
    assert client.get_many(["no.such"], None) == [None]


def test_a_wait_survives_restarts_however_long_it_lasts(new_client, peer, monkeypatch):
    """The time for which a call is repeated begins again after a connection that lasted."""
    monkeypatch.setattr(Repeats, "LASTING", 0.3)
    replies = []

    def serve(stream, lines):
        message = json.loads(next(lines))
        replies.append(message)
        if len(replies) <= 3:
            time.sleep(0.35)
            return
        reply(stream, message, exists=True, **VALUE)

    with new_client(peer(serve).path, backoff=QUICK, reconnect=0.25) as client:
        assert client.wait("a", exists=True).value == 1
    assert len(replies) == 4


def test_a_timeout_limits_all_attempts_together(new_client, larderd, peer):
    dead = peer(lambda stream, lines: reply(stream, json.loads(next(lines)), **VALUE))
    with new_client(dead.path, backoff=QUICK, reconnect=20) as client:
        assert client.get("a") == 1
        dead.close()
        start = time.monotonic()
        with pytest.raises((Unreachable, Disconnected)):
            client.get("a", timeout=0.2)
        assert time.monotonic() - start < 5


def test_an_update_keeps_its_timeout(new_client, peer):
    with new_client(peer(silent).path) as client:
        start = time.monotonic()
        with pytest.raises(Timeout):
            client.update("a", lambda value: 1, timeout=0.2)
        assert time.monotonic() - start < 5


def test_an_update_whose_agent_does_not_come_back_has_an_unknown_outcome(new_client, peer):
    def serve(stream, lines):
        for line in lines:
            message = json.loads(line)
            if message["method"] == "config.set":
                own.close()  # after the request was read, so that the change may have been made
                return
            reply(stream, message, **VALUE)

    own = peer(serve)
    with new_client(own.path, backoff=QUICK, reconnect=0.2) as client, pytest.raises(UnknownOutcome):
        client.update("a", lambda value: value + 1)


def test_a_function_that_returns_nothing_does_not_remove_the_value(client):
    client.set("hosts", ["a"])
    with pytest.raises(InvalidArgument, match="returned None"):
        client.update("hosts", lambda hosts: hosts.append("b"))
    assert client.get("hosts") == ["a"]


# --- Connecting ---


def test_a_full_queue_of_the_socket_is_waited_for_and_nothing_counts_as_sent(new_client, peer):
    full = peer(None, backlog=0)
    blockers = []
    while True:
        stream = socket.socket(socket.AF_UNIX)
        stream.setblocking(False)
        try:
            stream.connect(str(full.path))
        except BlockingIOError:
            stream.close()
            break
        blockers.append(stream)
    with new_client(full.path, backoff=QUICK, timeout=0.3, reconnect=0) as client, pytest.raises(Unreachable):
        client.set("a", 1)
    for stream in blockers:
        stream.close()


def test_closing_ends_a_thread_that_waits_for_the_queue_of_the_socket(peer):
    full = peer(None, backlog=0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(str(full.path))
    client = larder_client.Client(full.path, backoff=Backoff(30, 30), timeout=None)
    ends = []

    def get():
        try:
            client.get("a")
        except larder_client.Error as error:
            ends.append(error)

    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    time.sleep(0.1)
    closer = threading.Thread(target=client.close, daemon=True)
    closer.start()
    closer.join(5)
    thread.join(5)
    assert not closer.is_alive() and not thread.is_alive()
    assert isinstance(ends[0], Closed)
    first.close()


def test_closing_ends_calls_that_transfer_a_descriptor(peer):
    client = larder_client.Client(peer(silent).path, timeout=None)
    ends = []

    def map():
        try:
            client.mapped()
        except larder_client.Error as error:
            ends.append(error)

    thread = threading.Thread(target=map, daemon=True)
    thread.start()
    time.sleep(0.1)
    client.close()
    thread.join(5)
    assert not thread.is_alive() and isinstance(ends[0], Closed)


def test_the_event_loop_ends_although_a_cancelled_call_waits_for_a_descriptor(peer):
    own = peer(silent)

    async def main():
        client = larder_client.aio.Client(own.path, timeout=None)
        task = asyncio.create_task(client.mapped())
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_client_for_asyncio_that_only_maps_survives_a_restart(agent):
    async def main():
        async with larder_client.aio.Client(agent.socket, backoff=QUICK, reconnect=30) as client:
            await client.mapped()
            agent.kill()
            threading.Timer(0.2, lambda: agent.start().close()).start()
            await client.mapped()

    asyncio.run(main())


def test_a_lack_of_descriptors_is_an_error_that_passes(new_client, agent):
    errors = []
    with new_client(agent.socket, backoff=QUICK, reconnect=0) as client:
        watch = client.watch("a", on_interruption=lambda error, delay: errors.append(error))
        watch.next()
        client.set("a", 1)
        assert watch.next(20).value == 1
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        agent.kill()
        agent.start().close()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            with pytest.raises(Timeout):
                watch.next(0.1)
            assert any(isinstance(error, Unreachable) for error in errors)
            with pytest.raises((Unreachable, Disconnected)):
                client.get("a", None)
            with pytest.raises(Unreachable, match="open files"):
                client.get("a", None)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        client.set("a", 2)
        assert watch.next(20).value == 2


# --- Signals ---


@pytest.mark.parametrize("kind", [TimeoutError, ConnectionError, OSError])
@pytest.mark.parametrize("method", ["wait", "watch", "mapped", "connect"])
def test_an_exception_of_a_signal_handler_arrives_as_it_is(peer, kind, method):
    def interrupt(*_):
        raise kind("from the handler")

    def subscribe(stream, lines):
        for line in lines:
            message = json.loads(line)
            if message.get("method") == "config.subscribe":
                reply(stream, message, subscription=1, revision=1, epoch="e", state="fresh")

    before = signal.signal(signal.SIGALRM, interrupt)
    first = socket.socket(socket.AF_UNIX)
    try:
        if method == "connect":
            full = peer(None, backlog=0)
            first.connect(str(full.path))
            client = larder_client.Client(full.path, timeout=None)
            call = client.ping
        else:
            client = larder_client.Client(peer(subscribe).path, timeout=None)
            call = {"wait": lambda: client.wait("a", exists=True), "watch": client.watch("a").next, "mapped": client.mapped}[method]
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(kind, match=r"^from the handler$") as caught:
            call()
        assert type(caught.value) is kind
        client.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        first.close()


# --- Hostile peers ---


@pytest.mark.parametrize("depth", [200, 400, 600, 800, 900, 950, 980])
def test_a_patch_that_is_nested_deeply_is_applied_or_a_violation(depth):
    from test_core import Core, event, subscribed

    core = Core()
    subscription = subscribed(core, "patch")
    core.feed(event(value={"a": 1}))
    subscription.follower.take()
    text = '{"a":' * depth + "1" + "}" * depth
    line = event(sequence=2, revision=3, kind="patch", **{"from": 2}, patch=0).replace(b'"patch": 0', b'"patch":' + text.encode())
    try:
        core.feed(line)
    except ProtocolError:
        pass


def test_progress_that_nobody_takes_is_limited():
    from test_core import Core, line, request

    core = Core()
    call = request("image.prefetch", {"urls": []}, reports=True)
    core.start(call)
    for done in range(10_000):
        core.feed(line({"method": "image.progress", "params": {"request": call.id, "done": done}}))
    assert len(call.progress) <= 1000 and call.progress[-1]["done"] == 9_999


def passes(descriptors, **result):
    """A peer that replies to each request with some descriptors."""

    def serve(stream, lines):
        message = json.loads(next(lines))
        text = json.dumps({"id": message["id"], "result": result}).encode() + b"\n"
        socket.send_fds(stream, [text], descriptors)
        next(lines, None)

    return serve


OPENED = {"namespace": "default", "revision": 1, "epoch": "e", "state": "fresh", "bytes": 1, "descriptor": True, "secretPaths": []}


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_file_that_is_no_snapshot_is_a_violation_and_surplus_descriptors_are_closed(new_client, peer, tmp_path):
    (tmp_path / "file").write_bytes(bytes(200))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    ends = os.pipe()
    try:
        for passed in ([descriptor], [ends[0]], [ends[0], *[descriptor] * 3]):
            with new_client(peer(passes(passed, **OPENED)).path, timeout=5) as client, pytest.raises(ProtocolError):
                client.mapped()
        put = {"digest": "x", "mediaType": "image/png", "width": 1, "height": 1, "bytes": 1}
        with new_client(peer(passes([descriptor], **put)).path, timeout=5) as client:
            client.put_image("https://img.example.org/a.png", b"x")
            time.sleep(0.05)
            before = open_descriptors()
            client.put_image("https://img.example.org/a.png", b"x")
            deadline = time.monotonic() + 5
            while open_descriptors() > before + 1 and time.monotonic() < deadline:  # the peer has one more connection
                time.sleep(0.01)
            assert open_descriptors() <= before + 1
    finally:
        os.close(descriptor)
        for end in ends:
            os.close(end)


def test_a_peer_that_sends_byte_by_byte_does_not_exceed_the_timeout(new_client, peer):
    def drip(stream, lines):
        next(lines)
        while True:
            stream.sendall(b" ")
            time.sleep(0.005)

    with new_client(peer(drip).path, timeout=0.3, reconnect=0) as client:
        for call in (lambda: client.get("a"), lambda: client.mapped()):
            start = time.monotonic()
            with pytest.raises(Timeout):
                call()
            assert time.monotonic() - start < 5


def test_an_image_as_a_descriptor_has_its_deadline(new_client, peer):
    def slow(stream, lines):
        message = json.loads(next(lines))
        time.sleep(0.5)
        result = dict.fromkeys(("width", "height", "bytes", "ageSeconds", "lease"), 1)
        result |= dict.fromkeys(("path", "digest", "mediaType", "freshness", "source"), "x")
        with open(os.devnull, "rb") as file:
            text = json.dumps({"id": message["id"], "result": result}).encode() + b"\n"
            socket.send_fds(stream, [text], [file.fileno()])

    with (
        new_client(peer(slow).path, timeout=0.2, reconnect=0) as client,
        client.image("http://a/", descriptor=True, deadline=20) as image,
    ):
        assert image.fileno() >= 0


def test_a_client_for_asyncio_that_is_closed_while_it_connects_stays_closed(peer):
    own = peer(silent)

    async def main():
        client = larder_client.aio.Client(own.path)
        task = asyncio.create_task(client.get("a"))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(Closed):
            async with asyncio.timeout(5):
                await task
        assert client._connector.link is None

    asyncio.run(main())


def test_nothing_is_logged_about_transports(caplog, new_client, agent):
    with caplog.at_level(logging.WARNING), new_client(agent.socket, backoff=QUICK) as client:
        client.get("a", None)
        agent.kill()
        agent.start().close()
        client.get("a", None)
    assert not [record for record in caplog.records if record.name == "asyncio"]
