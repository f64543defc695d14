"""The client of both kinds with a real agent."""

import asyncio
import os
import socket
import threading
import time
import warnings
from datetime import timedelta

import pytest

import larder_client
from larder_client import (
    Closed,
    Conflict,
    Denied,
    Disconnected,
    InvalidArgument,
    InvalidParams,
    NotFound,
    SchemaViolation,
    Timeout,
    UnknownNamespace,
    UnknownOutcome,
    Unreachable,
)
from larder_client.testing import AgentProcess


def test_values_are_set_read_and_removed(client):
    assert client.set("search", {"limit": 25, "hosts": ["a"]})["changed"] is True
    assert client.get("search.limit") == client.get("/search/limit") == client.get(["search", "limit"]) == 25
    assert client.get() == {"search": {"limit": 25, "hosts": ["a"]}}
    assert client.get_many(["search.limit", "search.hosts", "x"], None) == [25, ["a"], None]
    assert client.unset("search.hosts")["changed"] is False  # the override is at "search"
    client.unset("search")
    assert client.get("search", default=None) is None
    with pytest.raises(NotFound) as caught:
        client.get("search")
    assert (caught.value.name, caught.value.code, caught.value.retryable) == ("notFound", 1, False)
    with pytest.raises(NotFound):
        client.get_many(["search"])
    assert client.snapshot("search").exists is False


def test_more_values_than_requests_in_flight_are_read_at_once(client):
    with client.apply() as changes:
        for number in range(300):
            changes.set(f"many.n{number}", number)
    assert client.get_many([f"many.n{number}" for number in range(300)]) == list(range(300))


def test_conditions_dry_runs_reasons_and_lifetimes(client):
    before = client.set("a", 1, reason="first")
    with pytest.raises(Conflict) as caught:
        client.set("a", 2, if_value=3)
    assert caught.value.data["value"] == 1
    with pytest.raises(Conflict):
        client.set("a", 2, if_absent=True)
    with pytest.raises(Conflict):
        client.unset("a", if_revision=before["revision"] - 1, epoch=before["epoch"])
    dry = client.set("a", 2, if_value=1, dry_run=True)
    assert dry["changes"] == [{"path": ["a"], "kind": "changed", "old": 1, "new": 2}]
    assert client.get("a") == 1
    assert "expiresAt" in client.set("a", 3, ttl=timedelta(hours=1))
    assert client.set("a", 4, ttl=0.02)["changed"] is True
    assert client.wait("a", exists=False, timeout=20).exists is False
    causes = [cause for generation in client.history() for cause in generation["causes"]]
    assert any(cause.get("reason") == "first" for cause in causes)


def test_flags_are_evaluated_for_a_context(client):
    rule = {"if": [{"ends_with": [{"var": "email"}, "@example.org"]}, "on"]}
    checkout = {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "off", "targeting": rule}
    limit = {"state": "ENABLED", "variants": {"low": 10, "high": 20}, "defaultVariant": "low", "metadata": {"team": "search"}}
    client.set("flags", {"checkout": checkout, "limit": limit, "away": {**limit, "state": "DISABLED"}, "broken": {}})
    evaluated = client.flags.evaluate("checkout", False, context={"email": "a@example.org"})
    assert (evaluated["value"], evaluated["variant"], evaluated["reason"]) == (True, "on", "TARGETING_MATCH")
    assert client.flags.evaluate("checkout", True)["value"] is False
    evaluated = client.flags.evaluate("limit")
    assert (evaluated["value"], evaluated["reason"], evaluated["metadata"]) == (10, "STATIC", {"team": "search"})
    for default in (5, 1.5):
        assert client.flags.evaluate("limit", default)["value"] == 10
    for default in (True, "five", {"five": 5}, [5]):
        evaluated = client.flags.evaluate("limit", default)
        assert (evaluated["value"], evaluated["errorCode"]) == (default, "TYPE_MISMATCH")
    assert client.flags.evaluate("limit", "five", type="integer")["value"] == 10
    assert client.flags.evaluate("away", 5)["reason"] == "DISABLED"
    assert client.flags.evaluate("nothing").get("value") is None
    outcomes = client.flags.evaluate_all(context={"email": "a@example.org"})
    assert list(outcomes) == ["away", "broken", "checkout", "limit"]
    assert outcomes["checkout"]["value"] is True and outcomes["broken"]["errorCode"] == "PARSE_ERROR"
    assert list(client.flags.evaluate_all(["limit"])) == ["limit"]
    listed = {flag["flag"]: flag for flag in client.flags.list()["flags"]}
    assert listed["limit"]["variants"] == ["low", "high"] and "problem" in listed["broken"]
    with pytest.raises(NotFound):
        client.flags.evaluate("limit", namespace="shop")


def test_changes_are_made_together_or_not_at_all(client):
    client.set("a", 1)
    with client.apply(reason="both") as changes:
        changes.set("a", 2, if_value=1)
        changes.set("b", {"c": 3}, ttl=timedelta(minutes=1))
        changes.unset("nothing")
    assert changes.result["changed"] is True
    assert client.get_many(["a", "b.c"]) == [2, 3]
    with pytest.raises(Conflict), client.apply() as changes:
        changes.set("a", 3)
        changes.test("b.c", if_value=4)
    with pytest.raises(ZeroDivisionError), client.apply() as changes:
        changes.set("a", 4)
        raise ZeroDivisionError
    with client.apply() as changes:
        pass
    assert changes.result is None
    assert client.get("a") == 2
    with pytest.raises(InvalidArgument):
        changes.test("a")


def test_updates_and_increments(client):
    assert client.update("count", lambda count: count + 1, default=0) == 1
    assert client.update("count", lambda count: count + 1) == 2
    assert client.increment("count", 3, maximum=10) == 5
    with pytest.raises(Conflict):
        client.increment("count", 6, maximum=10)
    other = larder_client.Client(client.socket)

    def interfered(count):
        if count == 5:
            other.increment("count")
        return count * 2

    assert client.update("count", interfered) == 12
    other.close()


def test_the_other_methods(client):
    assert client.push({"remote": 1}, version="7")["changed"] in (True, False)
    client.set("remote", 2)
    assert client.explain("remote")["winner"] == "override"
    revision = client.set("remote", 3)["revision"]
    assert client.diff(revision - 1, path="remote")[0]["new"] == 3
    assert client.rollback(revision - 1, dry_run=True, reason="test")["dryRun"] is True
    assert client.status("default")[0]["state"] == "fresh"
    client.acknowledge(revision, False, reason="no")
    assert client.status("default")[0]["acknowledgements"]["rejections"] == 1
    client.acknowledge(revision)
    assert "shop" in client.info()["namespaces"]
    client.ping()
    assert client.call("config.get", {"path": "remote"})["value"] == 3
    assert client.get("remote", None, namespace="shop") is None
    with pytest.raises(UnknownNamespace):
        client.refresh(namespace="none")


def test_errors_have_classes(client):
    with pytest.raises(UnknownNamespace):
        client.get("a", namespace="none")
    with pytest.raises(InvalidParams):
        client.get("a..b")
    with pytest.raises(InvalidParams):
        client.call("config.get", {"nothing": 1})
    with pytest.raises(InvalidArgument):
        client.set("a", object())
    with pytest.raises(larder_client.MethodNotFound):
        client.call("no.method")
    with pytest.raises(Timeout) as caught:
        client.wait("a", exists=True, timeout=0.01)
    assert isinstance(caught.value, TimeoutError) and caught.value.retryable
    client.ping()


def test_giant_deep_and_unusual_values(client):
    text = "x" * 900_000 + "ä€😀\0"
    client.set("giant", text)
    assert client.get("giant") == text
    with pytest.raises(larder_client.LineTooLong):
        client.set("giant", "x" * 3_000_000)
    deep = 1
    for _ in range(120):
        deep = [deep]
    client.set("deep", deep)
    assert client.get("deep") == deep
    client.set(["a.b", "", "ä"], 2**80)
    assert client.get(["a.b", "", "ä"]) == 2**80
    assert client.mapped().get(["a.b", "", "ä"]) == 2**80
    client.set("e\u0301", 1)
    assert client.get("\u00e9", None) is None


def test_a_mapped_snapshot_has_every_value(client):
    client.set("a", {"b": {"c": [1, {"d": 2}]}, "e": "f"})
    with client.mapped() as snapshot:
        assert snapshot.get("a.b.c") == [1, {"d": 2}] and snapshot["/a/e"] == "f" and snapshot.get("") == client.get("")
        assert snapshot.get("a.b.x", 7) == 7 and "a.b" in snapshot and "a.b.c.0" not in snapshot and "\ud800" not in snapshot
        assert snapshot.get("b.c") is None and snapshot.get("a.b.c.d") is None and snapshot.get("c") is None
        with pytest.raises(KeyError):
            snapshot["x"]
        assert snapshot.check() >= 4
        assert (snapshot.revision, snapshot.epoch) == (client.snapshot().revision, client.snapshot().epoch)
    snapshot.close()


# --- Watches ---


def test_a_watch_has_the_current_value_and_each_new_one(client):
    client.set("search", {"limit": 1})
    with client.watch("search.limit") as watch:
        assert next(watch).value == 1
        client.set("search.limit", 2)
        assert watch.next(timeout=20).value == 2
        with pytest.raises(Timeout):
            watch.next(timeout=0.01)
        client.unset("", all=True)
        snapshot = watch.next(20)
        assert (snapshot.exists, snapshot.value) == (False, None)
    assert watch.next() is None
    assert list(watch) == []
    watch.close()


@pytest.mark.parametrize("mode", ["patch", "revision"])
def test_the_other_modes_of_a_watch(client, mode):
    client.set("a", {"b": 1, "c": 2})
    with client.watch("a", mode=mode) as watch:
        first = watch.next()
        client.set("a.b", 3)
        second = watch.next(20)
        assert second.revision > first.revision
        assert second.value == (None if mode == "revision" else {"b": 3, "c": 2})


def test_a_slow_watch_gets_the_newest_snapshot(client):
    with client.watch("n", namespace="relaxed") as watch:
        watch.next()
        for number in range(100):
            client.set("n", number, namespace="relaxed")
        seen, skipped = -1, 0
        while seen != 99:
            snapshot = watch.next(20)
            assert snapshot.value > seen
            seen, skipped = snapshot.value, skipped + snapshot.skipped
        assert skipped > 0
        client.unset("n", namespace="relaxed")


def test_more_watches_than_the_agent_permits_on_a_connection(client):
    watches = [client.watch(f"w{number}") for number in range(130)]
    assert all(watch.next() is not None for watch in watches)
    for watch in watches[::2]:
        watch.close()
    client.set("w1", 1)
    assert watches[1].next(20).value == 1
    for watch in watches:
        watch.close()
    with client.watch("w") as watch:
        assert watch.next() is not None


def test_a_watch_survives_a_restart_and_misses_nothing(both):
    client, agent = both
    events = []
    client.set("a", 1)
    with client.watch(
        "a", on_interruption=lambda error, delay: events.append(error), on_resumption=lambda: events.append("resumed")
    ) as watch:
        assert watch.next().value == 1
        agent.kill()
        agent.start().close()
        while "resumed" not in events:
            with pytest.raises(Timeout):  # the value is the same
                watch.next(0.1)
        assert isinstance(events[0], Disconnected) and events[-1] == "resumed"
        agent.stop()
        agent.start().close()
        client.set("a", 2)
        assert watch.next(20).value == 2


def test_a_watch_waits_until_the_agent_is_started(new_client, larderd):
    agent = AgentProcess(larderd)
    with new_client(agent.socket, backoff=larder_client.Backoff(0.01, 0.05)) as client:
        with pytest.raises(Unreachable, match="start the agent"):
            client.get("a")
        watch = client.watch("a")
        with pytest.raises(Timeout):
            watch.next(0.05)
        agent.start().close()
        assert watch.next(20).exists is False
        agent.stop()
    agent.remove()


def test_a_watch_reports_a_refusal_once_and_continues_when_it_is_lifted(new_client, larderd):
    with AgentProcess(larderd) as agent, new_client(agent.socket, backoff=larder_client.Backoff(0.01, 0.02)) as client:
        with pytest.raises(UnknownNamespace):
            client.watch("a", namespace="later", fail_on_refusal=True).next()
        errors = []
        with client.watch("a", namespace="later", on_interruption=lambda error, delay: errors.append(error)) as watch:
            while not errors:
                with pytest.raises(Timeout):
                    watch.next(0.1)
            with pytest.raises(Timeout):
                watch.next(0.2)
            assert [error.name for error in errors] == ["unknownNamespace"]
            agent.write_settings({"namespaces": {"later": {}}})
            agent.process.send_signal(1)
            assert watch.next(20).exists is False
            agent.write_settings({})
            agent.process.send_signal(1)
            while len(errors) < 2:
                with pytest.raises(Timeout):
                    watch.next(0.1)
            assert [error.name for error in errors] == ["unknownNamespace"] * 2
        with pytest.raises(InvalidParams):
            client.watch("a..b").next()


# --- Connections ---


def process_state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_reads_are_repeated_after_a_restart_and_writes_only_if_they_were_not_sent(both):
    client, agent = both
    client.set("a", 1)
    for _ in range(3):
        agent.kill()
        agent.start().close()
        client.set("a", 2)  # the socket of the killed agent refuses the request, so it is sent again
        assert client.get("a") == 2
    agent.kill()
    threading.Timer(0.2, lambda: agent.start().close()).start()
    assert client.get("a") == 2
    assert client.mapped().get("a") == 2


def test_an_update_whose_outcome_is_unknown_is_reported(both):
    client, agent = both
    client.set("a", 1)
    inner = client._inner if hasattr(client, "_inner") else client
    original, calls = inner._perform, []

    def broken(call, *more):
        calls.append(call.method)
        if call.method == "config.set" and calls.count("config.set") == 1:
            other.set("a", 7)
            raise Disconnected("gone")
        return original(call, *more)

    with larder_client.Client(agent.socket) as other:
        inner._perform = broken
        with pytest.raises(UnknownOutcome):
            client.update("a", lambda value: value + 1)
        assert client.get("a") == 7


def test_closing_is_idempotent_and_ends_what_waits(new_client, shared_agent):
    client = new_client(shared_agent.socket)
    watch = client.watch("a")
    watch.next()
    client.close()
    client.close()
    assert watch.next() is None
    for call in (lambda: client.get("a"), lambda: client.mapped(), lambda: client.set("a", 1)):
        with pytest.raises(Closed):
            call()


def test_a_dead_agent_leads_to_a_timeout(both):
    client, agent = both
    client.set("a", 1)
    watch = client.watch("a")
    watch.next()
    os.kill(agent.process.pid, 19)
    while process_state(agent.process.pid) != "T":
        pass
    try:
        with pytest.raises(Timeout):
            client.call("agent.ping", timeout=0.05)
        with pytest.raises(Timeout):
            watch.next(0.05)
    finally:
        os.kill(agent.process.pid, 18)
    client.ping()


@pytest.mark.parametrize(
    "answer", [b"\xff\xfe\n", b"{}\n", b'{"id":1,"result":{"value":1}}\n', b'{"id":99,"result":{}}\n', b"", b"[" * 99999 + b"\n"]
)
def test_a_peer_that_is_no_agent_leads_to_an_error(new_client, tmp_path, answer):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket"))
    server.listen()

    def serve():
        while True:
            try:
                stream, _ = server.accept()
            except OSError:
                return
            with stream:
                stream.recv(65536)
                stream.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with new_client(tmp_path / "socket", timeout=5, reconnect=0.05) as client:
            expected = Disconnected if answer == b"" else larder_client.ProtocolError
            for call in (lambda: client.get("a"), lambda: client.mapped(), lambda: client.get_many(["a", "b"], None)):
                with pytest.raises(expected):
                    call()
            errors = []
            watch = client.watch("a", on_interruption=lambda error, delay: errors.append(error))
            with pytest.raises(Timeout):
                watch.next(0.2)
            assert errors and all(isinstance(error, expected) for error in errors)
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(20)


def test_a_refused_connection_says_what_to_do(new_client, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "none", tmp_path / "file" / "none", "@larder-none", "x" * 200):
        with new_client(path) as client, pytest.raises((Unreachable, InvalidArgument)) as caught:
            client.ping()
        assert ";" in caught.value.detail
    monkeypatch.setenv("LARDER_SOCKET", "/given")
    assert larder_client.default_socket() == "/given"
    monkeypatch.delenv("LARDER_SOCKET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert larder_client.default_socket() == "/run/larder/larder.sock"
    (tmp_path / "larder").mkdir()
    (tmp_path / "larder" / "larder.sock").touch()
    assert larder_client.default_socket() == str(tmp_path / "larder" / "larder.sock")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_rights(new_client, larderd):
    settings = {"access": {"others": ["read"]}, "socket": {"mode": "0666"}}
    with AgentProcess(larderd, settings=settings) as agent, larder_client.Client(agent.socket) as root:
        root.set("a", 1)
        agent.directory.chmod(0o711)
        os.seteuid(65534)
        try:
            with new_client(agent.socket) as client:
                assert client.get("a") == 1
                with pytest.raises(Denied) as caught:
                    client.set("a", 2)
                assert caught.value.data["right"] == "write"
        finally:
            os.seteuid(0)


def test_a_schema_violation_lists_the_violations(new_client, larderd, tmp_path):
    (tmp_path / "schema.json").write_text('{"properties":{"limit":{"type":"integer"}}}')
    settings = {"namespaces": {"default": {"schema": {"path": str(tmp_path / "schema.json")}}}}
    with AgentProcess(larderd, settings=settings) as agent, new_client(agent.socket) as client:
        with pytest.raises(SchemaViolation) as caught:
            client.set("limit", "many")
        assert caught.value.data["errors"][0]["path"] == ["limit"]


# --- Only threads ---


def test_threads_share_a_client(shared_agent):
    with larder_client.Client(shared_agent.socket) as client:
        problems = []

        def work(number):
            try:
                for count in range(200):
                    client.set(f"t{number}", count, namespace="relaxed")
                    assert client.get(f"t{number}", namespace="relaxed") == count
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        waiter = threading.Thread(target=lambda: client.wait("t7", equals=199, namespace="relaxed"))
        for thread in [*threads, waiter]:
            thread.start()
        for thread in [*threads, waiter]:
            thread.join(60)
            assert not thread.is_alive()
        assert not problems
        client.unset("", all=True, namespace="relaxed")


def test_another_thread_ends_a_watch_and_a_client(shared_agent):
    client = larder_client.Client(shared_agent.socket)
    watch, other = client.watch("none"), client.watch("other")
    watch.next(), other.next()
    ends = []

    def follow(watch):
        ends.append(watch.next())

    threads = [threading.Thread(target=follow, args=(one,)) for one in (watch, other)]

    def wait():
        with pytest.raises(Closed):
            client.wait("none", exists=True)

    waiting = threading.Thread(target=wait)
    for thread in [*threads, waiting]:
        thread.start()
    time.sleep(0.05)
    watch.close()
    threads[0].join(20)
    assert ends == [None]
    client.close()
    threads[1].join(20)
    waiting.join(20)
    assert ends == [None, None] and not waiting.is_alive()


def test_a_large_request_and_a_large_reply_cross(shared_agent):
    """Neither side waits for the other, also if the buffers of the socket are full in both directions."""
    with larder_client.Client(shared_agent.socket) as client:
        client.set("large", "x" * 900_000)
        results = []

        def get():
            results.append(len(client.get("large")))

        def set(number):
            results.append(client.set(f"large{number}", "y" * 900_000)["changed"])

        for _ in range(5):
            results.clear()
            threads = [threading.Thread(target=get) for _ in range(6)]
            threads += [threading.Thread(target=set, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
            assert len(results) == 12
        client.unset("", all=True)


# --- Only asyncio ---


def test_tasks_share_a_client_and_are_cancelled(shared_agent):
    async def main():
        async with larder_client.aio.Client(shared_agent.socket) as client:
            waiting = asyncio.create_task(client.wait("none", exists=True))
            watch = client.watch("none")
            await watch.next()
            following = asyncio.create_task(watch.next())
            values = await asyncio.gather(*(client.get("none", number) for number in range(200)))
            assert values == list(range(200))
            waiting.cancel()
            following.cancel()
            results = await asyncio.gather(waiting, following, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results)
            await client.set("none", 1)
            assert (await watch.next(20)).value == 1
            following = asyncio.create_task(watch.next())
            await asyncio.sleep(0)
            watch.close()
            assert await following is None
            await client.unset("none")

    asyncio.run(main())


def test_a_client_is_used_in_one_event_loop_after_another(shared_agent):
    client = larder_client.aio.Client(shared_agent.socket, backoff=larder_client.Backoff(0.01, 0.02))
    watch = client.watch("none")

    async def first():
        await asyncio.gather(*(client.get("none", number) for number in range(10)))
        assert (await watch.next(20)).exists is False

    async def second():
        assert await asyncio.gather(*(client.get("none", number) for number in range(10))) == list(range(10))
        await client.set("none", 1)
        assert (await watch.next(20)).value == 1
        await client.unset("none")
        await client.close()

    asyncio.run(first())
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        asyncio.run(second())


def test_a_cancelled_call_keeps_no_descriptor(shared_agent):
    async def main():
        async with larder_client.aio.Client(shared_agent.socket) as client:
            await client.mapped()
            before = len(os.listdir("/proc/self/fd"))
            for delay in (0, 0.0005, 0.001, 0.002):
                for _ in range(10):
                    task = asyncio.create_task(client.mapped())
                    await asyncio.sleep(delay)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
            del task  # and its snapshot, which has a descriptor
            async with asyncio.timeout(30):
                while len(os.listdir("/proc/self/fd")) > before:
                    await asyncio.sleep(0.01)

    asyncio.run(main())
