"""Restarts, several processes, fork, signals and the end of the interpreter."""

import asyncio
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import larder_client
from larder_client import Backoff, Config, Conflict, Disconnected, UnknownOutcome
from larder_client.testing import AgentProcess

# The full numbers are 1000 and 10000; contrib/torture/python.py runs them.
KILLS = int(os.environ.get("LARDER_KILLS", "20"))
TICKETS = int(os.environ.get("LARDER_TICKETS", "400"))
QUICK = Backoff(0.005, 0.1)


class Order:
    """Checks that what a watch delivers is never older than what was delivered or written before, and never repeated."""

    def __init__(self):
        self.position = None
        self.value = None

    def check(self, snapshot):
        if self.position is not None:
            assert snapshot.epoch == self.position[1], "another epoch"
            assert snapshot.revision > self.position[0], f"{snapshot.revision} after {self.position[0]}"
        self.position = (snapshot.revision, snapshot.epoch)
        self.value = snapshot.value


def test_nothing_is_lost_repeated_or_older_while_the_agent_is_killed(larderd):
    """8 threads and 8 tasks watch, read and update their own counters while the agent is killed again and again."""
    done, connected = threading.Event(), threading.Event()
    problems, orders = [], [Order() for _ in range(16)]
    written = [0] * 16  # the last value of each counter whose update was acknowledged

    def finished(number):
        return done.is_set() and written[number] > 0

    with AgentProcess(larderd) as agent, larder_client.Client(agent.socket, backoff=QUICK, timeout=200, reconnect=200) as client:

        def guarded(function, *arguments):
            try:
                function(*arguments)
            except BaseException as problem:
                problems.append(problem)

        def work(number):
            path = f"n{number}"
            while not finished(number):
                try:
                    value = client.update(path, lambda value: (value or 0) + 1)
                    assert value > written[number], "an update was lost"
                    written[number] = value
                except (UnknownOutcome, Disconnected):
                    pass
                read = client.get(path, 0)
                assert read >= written[number], "an older value was read"

        def follow(number, watch):
            for snapshot in watch:
                orders[number].check(snapshot)

        async def tasks():
            async with larder_client.aio.Client(agent.socket, backoff=QUICK, timeout=200, reconnect=200) as client:
                await client.ping()
                connected.set()

                async def work(number):
                    path = f"n{number}"
                    while not finished(number):
                        try:
                            value = await client.update(path, lambda value: (value or 0) + 1)
                            assert value > written[number], "an update was lost"
                            written[number] = value
                        except (UnknownOutcome, Disconnected):
                            pass
                        assert await client.get(path, 0) >= written[number], "an older value was read"

                async def follow(number, watch):
                    async for snapshot in watch:
                        orders[number].check(snapshot)

                watches = [client.watch(f"n{number}") for number in range(8, 16)]
                followers = [asyncio.create_task(follow(8 + index, watch)) for index, watch in enumerate(watches)]
                await asyncio.gather(*(work(number) for number in range(8, 16)))
                final = await client.get()
                async with asyncio.timeout(30):
                    while any(orders[number].value != final[f"n{number}"] for number in range(8, 16)):
                        await asyncio.sleep(0.01)
                for watch in watches:
                    watch.close()
                await asyncio.gather(*followers)

        watches = [client.watch(f"n{number}") for number in range(8)]
        followers = [threading.Thread(target=guarded, args=(follow, number, watches[number])) for number in range(8)]
        workers = [threading.Thread(target=guarded, args=(work, number)) for number in range(8)]
        workers.append(threading.Thread(target=guarded, args=(asyncio.run, tasks())))
        client.ping()
        for thread in [*followers, *workers]:
            thread.start()
        assert connected.wait(60)  # a client that was never connected does not repeat calls
        for _ in range(KILLS):
            time.sleep(0.1)
            agent.kill()
            agent.start().close()
        done.set()
        for thread in workers:
            thread.join(240)
            assert not thread.is_alive(), "a worker hangs"
        final = client.get()
        deadline = time.monotonic() + 30
        while any(orders[number].value != final[f"n{number}"] for number in range(16)) and not problems:
            assert time.monotonic() < deadline, "a watch has missed the last value"
            time.sleep(0.01)
        for watch in watches:
            watch.close()
        for thread in followers:
            thread.join(60)
            assert not thread.is_alive(), "a watch hangs"
        if problems:
            raise problems[0]
        for number in range(16):
            # Each update that was acknowledged has increased the counter.
            assert written[number] <= final[f"n{number}"]


def sell(socket, kind, count, queue):
    """Takes tickets by a compare-and-set, or by an increment, until none is left."""
    sold = []

    def take(left):
        if left == 0:
            raise StopIteration
        return left - 1

    try:
        with larder_client.Client(socket) as client:
            while True:
                if kind == "update":
                    sold.append(client.update("left", take, timeout=120) + 1)
                else:
                    sold.append(client.increment("taken", maximum=count))
    except (StopIteration, Conflict):
        pass
    finally:
        queue.put(sold)


@pytest.mark.parametrize("kind", ["update", "increment"])
def test_no_ticket_is_sold_twice(larderd, kind):
    settings = {"namespaces": {"default": {"durability": "relaxed"}}}
    context = multiprocessing.get_context("spawn")
    with AgentProcess(larderd, settings=settings) as agent:
        with larder_client.Client(agent.socket) as client:
            client.set("left", TICKETS)
        queue = context.Queue()
        sellers = [context.Process(target=sell, args=(str(agent.socket), kind, TICKETS, queue)) for _ in range(8)]
        for seller in sellers:
            seller.start()
        sold = [ticket for _ in sellers for ticket in queue.get(timeout=300)]
        for seller in sellers:
            seller.join(60)
        assert sorted(sold) == list(range(1, TICKETS + 1))


# --- fork ---


def in_child(function):
    """Runs a function in a forked process. Returns its exit status."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            function()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_a_watch_and_a_configuration_continue_on_both_sides_of_a_fork(shared_agent):
    with larder_client.Client(shared_agent.socket) as client, Config(client) as config:
        client.set("fork", 1)
        changes, arrived = [], threading.Event()
        config.on_change("fork", lambda value: (changes.append(value), value == 3 and arrived.set()))
        watch = client.watch("fork")
        assert watch.next().value == 1
        blocked = client.watch("other")
        blocked.next()
        thread = threading.Thread(target=blocked.next)  # holds the connection of the watches while the process is forked
        thread.start()

        def child():
            assert client.get("fork") == 1
            client.set("fork", 2)
            assert watch.next(10).value == 2
            client.set("fork", 3)
            assert watch.next(10).value == 3
            assert arrived.wait(10)
            assert config["fork"] == 3
            config.close()
            client.close()

        assert in_child(child) == 0
        assert client.get("fork") == 3
        assert watch.next(10).value in (2, 3)
        blocked.close()
        thread.join(20)
        assert not thread.is_alive()
        client.unset("fork")


def test_a_client_for_asyncio_is_used_by_a_child(shared_agent):
    client = larder_client.aio.Client(shared_agent.socket)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.get("none", 1))
    assert in_child(lambda: asyncio.run(client.get("none", 1))) == 0
    assert loop.run_until_complete(client.get("none", 2)) == 2
    loop.run_until_complete(client.close())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


# --- Signals and the end of the interpreter ---


def test_a_signal_interrupts_what_waits_and_the_client_can_be_used_afterwards(shared_agent):
    class Interruption(Exception):
        pass

    def interrupt(*_):
        raise Interruption

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with larder_client.Client(shared_agent.socket) as client:
            watch = client.watch("none")
            watch.next()
            for wait in (lambda: client.wait("none", exists=True), watch.next):
                timer = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
                timer.start()
                with pytest.raises(Interruption):
                    wait()
                timer.join()
                assert client.get("none", 3) == 3
            client.set("none", 1)
            assert watch.next(20).value == 1
            client.unset("none")
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_raises_at_any_point_leaves_a_client_that_works(shared_agent):
    """Signals interrupt the calls of the main thread, wherever they are, while another thread uses the same client."""

    class Interruption(Exception):
        pass

    def interrupt(*_):
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    stop, problems, interrupted = threading.Event(), [], 0
    delays = random.Random(1)
    with larder_client.Client(shared_agent.socket, timeout=20, backoff=QUICK, reconnect=20) as client:

        def read():
            while not stop.is_set():
                try:
                    assert client.get("none", 7) == 7
                except BaseException as problem:
                    problems.append(problem)
                    return

        thread = threading.Thread(target=read)
        thread.start()
        try:
            for _ in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, delays.uniform(0.0001, 0.004))
                    for number in range(10_000):
                        assert client.get("none", number) == number
                except Interruption:
                    interrupted += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            stop.set()
        thread.join(30)
        assert not thread.is_alive() and not problems, problems
        assert client.get("none", 8) == 8
        assert interrupted > 250  # Python ignores an exception in a finalizer


def test_signals_that_raise_nothing_do_not_disturb(shared_agent):
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with larder_client.Client(shared_agent.socket) as client:
            for number in range(500):
                assert client.get("none", number) == number
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "body",
    [
        "client.get('a', 1)",
        "watch = client.watch('a'); watch.next()",
        "config = larder_client.Config(client)",
        "import threading; watch = client.watch('a'); watch.next(); threading.Thread(target=watch.next, daemon=True).start()",
        "import asyncio\nasync def main():\n    c = larder_client.aio.Client(client.socket)\n    await c.get('a', 1)\n"
        "    await c.watch('a').next()\nasyncio.run(main())",
        "watch = iter(client.watch('a')); next(watch); raise SystemExit(0)",
    ],
)
def test_the_interpreter_exits_without_a_close(shared_agent, body):
    code = f"import larder_client\nclient = larder_client.Client({str(shared_agent.socket)!r})\n{textwrap.dedent(body)}\n"
    environment = {
        **os.environ,
        "PYTHONPATH": os.path.dirname(os.path.dirname(larder_client.__file__)),
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr, done.stderr
