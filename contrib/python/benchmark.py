"""Compares the client with redis-py, in one run on this machine: check.sh --benchmark runs it.

Prints the median of interleaved rounds, and the ratio, of:

- get: reads per second on one connection
- get_many: values per second, 100 at once; of redis-py a pipeline without a transaction
- delay: microseconds from the call of a relaxed set in one process until a watch in another has the value; of redis-py from PUBLISH
- mapped: microseconds of a lookup in a mapped snapshot, of a path of 12 bytes

Exit status 1 if a ratio misses its goal. Needs redis-server.
"""

import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import redis

import larder_client
from larder_client.testing import AgentProcess

ROUNDS, SECONDS, DELAYS = 9, 0.3, 100
PATHS = [f"many.k{number}" for number in range(100)]


def rate(function):
    """Calls per second."""
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS:
        for _ in range(10):
            function()
        count += 10
    return count / passed


def follow(kind, address, times):
    """A process that sends the time of each value that arrives. The value is the time at which it was sent."""
    if kind == "larder":
        values = (snapshot.value for snapshot in larder_client.Client(address).watch("delay"))
    else:
        subscription = redis.Redis(unix_socket_path=address).pubsub()
        subscription.subscribe("delay")
        values = (message["data"] for message in subscription.listen())
    for value in values:
        now = time.perf_counter()
        times.send(None if value in (None, 1) else now - float(value))


def delay(send, times):
    """The median delay of some values in microseconds."""
    found = []
    for _ in range(DELAYS):
        send(time.perf_counter())
        found.append(times.recv() * 1e6)
    return statistics.median(found)


def main():
    program = os.environ.get("LARDERD") or pathlib.Path(__file__).parents[2] / ".build" / "release" / "larderd"
    directory = tempfile.TemporaryDirectory()
    address = directory.name + "/redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", address, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    settings = {"namespaces": {"default": {"durability": "relaxed"}}}
    followers = []
    try:
        with AgentProcess(program, settings=settings) as agent, larder_client.Client(agent.socket) as client:
            peer = redis.Redis(unix_socket_path=address)
            while not os.path.exists(address):
                time.sleep(0.01)
            for path in ("search.limit", *PATHS):
                client.set(path, 25)
                peer.set(path, 25)
            context = multiprocessing.get_context("spawn")
            arrivals = {}
            for kind, socket in (("larder", str(agent.socket)), ("redis", address)):
                arrivals[kind], sender = context.Pipe(duplex=False)
                followers.append(context.Process(target=follow, args=(kind, socket, sender), daemon=True))
                followers[-1].start()
                arrivals[kind].recv()  # it has subscribed

            def pipeline():
                batch = peer.pipeline(transaction=False)
                for path in PATHS:
                    batch.get(path)
                return batch.execute()

            pairs = {
                "get": (lambda: rate(lambda: client.get("search.limit")), lambda: rate(lambda: peer.get("search.limit"))),
                "get_many": (lambda: 100 * rate(lambda: client.get_many(PATHS)), lambda: 100 * rate(pipeline)),
                "delay": (
                    lambda: delay(lambda now: client.set("delay", now), arrivals["larder"]),
                    lambda: delay(lambda now: peer.publish("delay", now), arrivals["redis"]),
                ),
            }
            goals = {"get": 1.2, "get_many": 1.3, "delay": 1.0}
            figures = {name: ([], []) for name in pairs}
            lookups = []
            for _ in range(ROUNDS):
                for name, functions in pairs.items():
                    for function, found in zip(functions, figures[name], strict=True):
                        found.append(function())
                with client.mapped() as snapshot:
                    start = time.process_time()
                    for _ in range(20_000):
                        snapshot.get("search.limit")
                    lookups.append((time.process_time() - start) / 20_000 * 1e6)
            missed = []
            for name, (own, other) in figures.items():
                ratio = statistics.median(one / two for one, two in zip(own, other, strict=True))
                good = ratio <= goals[name] if name == "delay" else ratio >= goals[name]
                missed += [] if good else [name]
                print(f"{name:10} {statistics.median(own):10.1f} redis-py {statistics.median(other):10.1f} ratio {ratio:5.2f}")
            print(f"{'mapped':10} {statistics.median(lookups):10.2f}")
            missed += ["mapped"] if statistics.median(lookups) > 3 else []
            print("missed: " + ", ".join(missed) if missed else "all goals reached")
            return 1 if missed else 0
    finally:
        for follower in followers:
            follower.kill()
        server.terminate()
        server.wait()
        directory.cleanup()


if __name__ == "__main__":
    sys.exit(main())
