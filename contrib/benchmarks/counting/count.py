#!/usr/bin/env python3
"""Counts the allocations (with allocations.c) and instructions (with callgrind) of larderd for single operations.

Only the instructions of threads that serve clients count, because the work of the other threads depends on the disk. The
figures do not depend on the speed or load of the machine. The script compares them with contrib/benchmarks/counts.json. A
figure that exceeds the recorded one by more than its tolerance is a regression, and the script exits with status 1. If a
figure is lower by more than its tolerance, record it with --record, so that later regressions are found.

  count.py --larderd FILE --counter allocations.so [--record] [--no-instructions]
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

CONTRIB = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CONTRIB), str(CONTRIB / "python" / "src")]

import test_origin  # noqa: E402
from larder_client.testing import AgentProcess, Connection, Died  # noqa: E402

RECORD = pathlib.Path(__file__).resolve().parent.parent / "counts.json"
# The permitted difference from the recorded figure: a fraction of that figure, or an absolute value if that is more. Timers
# and background threads cause smaller differences; another compiler may cause larger ones.
TOLERANCE = {"allocations": (0.05, 0.2), "instructions": (0.08, 50), "bytes": (0.08, 100)}
# Figures whose tolerance differs from TOLERANCE.
TOLERANCE_OF = {
    # These figures include background work, whose amount depends on the speed of the disk and of the event loops.
    ("allocations", "set"): (0.15, 0), ("allocations", "publication to 1"): (0.15, 0),
    ("allocations", "publication to 100"): (0.15, 0),
    # The number of changes per snapshot varies slightly with the speed of the disk.
    ("instructions", "set, 50 writers"): (0.15, 0), ("allocations", "set, 50 writers"): (0.15, 0),
    ("instructions", "event delivered"): (0.15, 0),
    # The agent enlarges its tables of connections, and releases memory, at varying times.
    ("instructions", "connect, get, close"): (0.2, 0),
}


# valgrind counts `rep movsb` as one instruction per byte. With this setting, memcpy(3) copies large blocks with vector
# instructions instead.
NO_REPEATED_MOVES = ":".join(f"glibc.cpu.x86_rep_{kind}_threshold=1000000000" for kind in ("movsb", "stosb"))


class Client(Connection):
    """A connection that sends encoded lines, and adds the line feed."""

    def send(self, line):
        super().send(line + b"\n")

    def exchange(self, line):
        """Sends a line and returns the next line from the agent. Raises RuntimeError if that is an error."""
        self.send(line)
        reply = self.line()
        if b'"error":' in reply:
            raise RuntimeError(f"larderd replied with an error: {reply[:300]}")
        return reply


def request(method, identifier=100, **parameters):
    return json.dumps({"jsonrpc": "2.0", "id": identifier, "method": method, "params": parameters},
                      separators=(",", ":")).encode()


class Origin(test_origin.Origin):
    """An origin with one image that stays fresh for a day."""

    def __init__(self):
        super().__init__(self.respond)
        self.requests = 0
        self.url = f"{self.address}/image.png"

    def respond(self, path, fields):
        self.requests += 1
        return 200, {"Content-Type": "image/png", "Cache-Control": "max-age=86400"}, test_origin.png(1, 1)


# A schema of 200 properties in ten groups, and a configuration that satisfies it.
KINDS = ({"type": "integer", "minimum": 0}, {"type": "string", "maxLength": 200}, {"type": "boolean"},
         {"enum": ["off", "on", "auto"]})
VALUES = (100, "a text of a usual length", True, "auto")
SCHEMA = {"type": "object", "additionalProperties": False, "properties": {
    f"group{group}": {"type": "object", "additionalProperties": False, "required": ["option0"], "properties": {
        f"option{number}": KINDS[number % 4] for number in range(20)}} for group in range(10)}}
CONFIGURATION = {f"group{group}": {f"option{number}": VALUES[number % 4] for number in range(20)} for group in range(10)}


class Agent(AgentProcess):
    """A larderd in a separate directory, with an origin of images."""

    connection = Client

    def __init__(self, program, directory, before=(), environment=None, settings=None):
        settings = {
            "images": {"allowNetworks": ["127.0.0.0/8"]},
            "namespaces": {name: {"durability": "relaxed"} for name in ("default", "overrides", "plain", "validated", "many")},
            **(settings or {})}
        schema = pathlib.Path(directory, "schema.json")
        schema.write_text(json.dumps(SCHEMA))
        settings["namespaces"]["validated"]["schema"] = {"path": str(schema)}
        super().__init__(program, directory, settings, prefix=before, arguments=["--log-level", "warning"],
                         environment=environment)
        self.origin = Origin()
        # The number of overrides in the namespace `overrides`.
        self.overrides = 0
        try:
            self.control = self.start(120)
        except (Died, TimeoutError) as problem:
            sys.exit(f"count: {problem}")
        self.control.exchange(request("config.set", path="search.limit", value=22))

    def connections(self):
        return json.loads(self.control.exchange(request("agent.stats")))["result"]["connections"]["open"]

    @contextlib.contextmanager
    def stopped(self):
        """Stops the process while the caller sends requests, so that the process receives all of them together."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def settle(self):
        """Waits until the process has used no processor time for 0.4 s: background work of earlier requests is complete."""
        used, since = None, time.monotonic()
        while time.monotonic() - since < 0.4:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            # utime and stime, proc_pid_stat(5).
            if fields[11:13] != used:
                used, since = fields[11:13], time.monotonic()
            time.sleep(0.02)

    def stop(self):
        self.control.close()
        super().stop()
        self.origin.close()


# The functions below prepare an agent for one operation. They return the function to measure, the number of times that it
# performs the operation (about `scale`), and the clients to close afterwards.

def same_line(agent, line, times, each=1):
    """Sends the same line `times` times. Each performs the operation `each` times."""
    client = Client(agent.socket)
    client.exchange(line)

    def run():
        for _ in range(times):
            client.exchange(line)
    return run, times * each, [client]


def get(agent, scale):
    return same_line(agent, request("config.get", path="search.limit"), scale)


def get_pipelined(agent, scale):
    client = Client(agent.socket)
    lines = b"\n".join(request("config.get", 100 + number, path="search.limit") for number in range(16))

    def get_sixteen():
        client.exchange(lines)
        for _ in range(15):
            client.line()

    def run():
        for _ in range(scale // 16):
            get_sixteen()
    get_sixteen()
    return run, scale // 16 * 16, [client]


def get_batch(agent, scale):
    """Gets sixteen values with one JSON-RPC batch."""
    line = b"[" + b",".join(request("config.get", 100 + number, path="search.limit") for number in range(16)) + b"]"
    return same_line(agent, line, scale // 16, each=16)


def image_hit(agent, scale):
    """Requests an image that is cached and fresh."""
    line = request("image.get", url=agent.origin.url)
    run, count, clients = same_line(agent, line, scale)
    reply = clients[0].exchange(line)
    if agent.origin.requests != 1:
        raise RuntimeError(f"the image was not served from the cache: {reply[:300]}")
    return run, count, clients


def get_uncached(agent, scale):
    """Adds different white space to each request, so that none of them is in the request cache."""
    client, line = Client(agent.socket), request("config.get", path="search.limit")
    lines = [line + bytes(b" \t"[number >> bit & 1] for bit in range(14)) for number in range(scale)]
    client.exchange(line)

    def run():
        for each in lines:
            client.exchange(each)
    return run, scale, [client]


def connect(agent, scale):
    scale //= 10
    line = request("config.get", path="search.limit")

    def connect_once():
        client = Client(agent.socket)
        client.exchange(line)
        client.close()

    def run():
        for _ in range(scale):
            connect_once()
        while agent.connections() > 1:
            time.sleep(0.001)
    for _ in range(20):
        connect_once()
    return run, scale, []


def subscribers(agent, count):
    clients = []
    for _ in range(count):
        client = Client(agent.socket)
        client.exchange(request("config.subscribe", path="bench.event"))
        # The first event.
        client.line()
        clients.append(client)
    return clients


def publications(agent, scale, count):
    clients = subscribers(agent, count)
    publish(agent, clients, 5)
    return (lambda: publish(agent, clients, scale)), scale, clients


NUMBER = iter(range(100_000_000, 900_000_000))


def publish(agent, clients, count):
    for _ in range(count):
        agent.control.exchange(request("config.set", path="bench.event", value=next(NUMBER)))
        # Wait for each event, so that the agent does not skip any.
        for client in clients:
            client.line()


def set_override(agent, scale, count):
    """Changes one of `count` overrides of 30 bytes each, with relaxed durability."""
    client = Client(agent.socket)

    def set_request(number, value):
        return request("config.set", namespace="overrides", path=f"bench.overrides.override{number:07}", value=value)

    for first in range(agent.overrides, count, 100):
        lines = [set_request(number, next(NUMBER)) for number in range(first, min(first + 100, count))]
        client.send(b"\n".join(lines))
        for _ in lines:
            if b'"error":' in client.line():
                raise RuntimeError("larderd rejected an override")
    agent.overrides = count

    def run():
        for _ in range(scale):
            client.exchange(set_request(count // 2, next(NUMBER)))
    run()
    return run, scale, [client]


def set_property(agent, scale, namespace):
    """Changes one of 200 properties, in the namespace `validated` with a schema, or in `plain` without one."""
    client = Client(agent.socket)
    client.exchange(request("config.push", namespace=namespace, document=CONFIGURATION))

    def run():
        for _ in range(scale):
            client.exchange(request("config.set", namespace=namespace, path="group5.option8", value=next(NUMBER)))
    run()
    return run, scale, [client]


def writers(agent, scale, count):
    """Changes values with `count` clients, each of which waits for its reply before the next change."""
    clients = [Client(agent.socket) for _ in range(count)]

    def run(rounds=scale // count):
        for _ in range(rounds):
            with agent.stopped():
                for number, client in enumerate(clients):
                    client.send(request("config.set", path=f"bench.writers.w{number}", value=next(NUMBER)))
            for client in clients:
                if b'"error":' in client.line():
                    raise RuntimeError("larderd rejected a change")
    run(2)
    return run, scale // count * count, clients


# The maximum ratio of the allocations of a request in a namespace with 100,000 overrides and in one with 10: no request that
# returns little may visit all overrides.
MAX_RATIO = 1.5
SMALL_REQUESTS = {
    "get of a missing path": request("config.get", namespace="many", path="group0.missing"),
    "get with maximum age": request("config.get", namespace="many", path="group0.n0", maximumAgeSeconds=60),
    "status": request("config.status", namespace="many"),
    "status of all": request("config.status"),
    "stats": request("agent.stats"),
    "refresh": request("config.refresh", namespace="many"),
}


def set_many(agent, numbers):
    """Sets overrides of the namespace `many`, 1,000 with each request."""
    for first in range(numbers.start, numbers.stop, 1000):
        changes = [{"op": "set", "path": [f"group{number % 100}", f"n{number}"], "value": number}
                   for number in range(first, min(first + 1000, numbers.stop))]
        agent.control.exchange(request("config.apply", namespace="many", changes=changes))


def repeat(agent, scale, line):
    """Sends the same request, whose reply may be an error."""
    client = Client(agent.socket)

    def run(rounds=scale):
        for _ in range(rounds):
            client.send(line)
            client.line()
    run(2)
    return run, scale, [client]


def ratios(counter, scale):
    """Returns the ratios of the allocations of SMALL_REQUESTS. A visit of all overrides allocates memory for each."""
    set_many(counter.agent, range(10))
    few = {name: counter.measure(repeat, scale, line) for name, line in SMALL_REQUESTS.items()}
    set_many(counter.agent, range(10, 100_000))
    return {name: counter.measure(repeat, scale, line) / max(few[name], 1) for name, line in SMALL_REQUESTS.items()}


class Allocations:
    """Counts allocations with the library allocations.so."""

    def __init__(self, program, counter, directory):
        self.file = pathlib.Path(directory) / "counts"
        self.file.write_bytes(bytes(24))
        self.agent = Agent(program, directory, environment={"LD_PRELOAD": counter, "LARDER_ALLOCATIONS": str(self.file)})

    def read(self):
        calls, _, allocated = struct.unpack("qqq", self.file.read_bytes())
        if calls == 0:
            sys.exit("count: no allocations were counted; check that larderd is linked with glibc")
        return calls, allocated

    def measure(self, operation, *arguments):
        run, count, clients = operation(self.agent, *arguments)
        self.agent.settle()
        before = self.read()
        run()
        after = self.read()
        close(self.agent, clients)
        return (after[0] - before[0]) / count

    def bytes_per_subscriber(self, count):
        close(self.agent, subscribers(self.agent, 200))
        before = self.read()
        clients = subscribers(self.agent, count)
        after = self.read()
        close(self.agent, clients)
        return (after[1] - before[1]) / count


class Instructions:
    """Counts instructions with callgrind. Counting starts once the agent is running."""

    def __init__(self, program, directory):
        self.directory = pathlib.Path(directory)
        self.agent = Agent(program, directory, before=[
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet", "--separate-threads=yes",
            f"--callgrind-out-file={self.directory}/out", f"--vgdb-prefix={self.directory}/vgdb"],
            environment={"GLIBC_TUNABLES": NO_REPEATED_MOVES})
        # From here on, callgrind instruments each piece of code before its first execution.
        self.control("instrumentation", "on")
        self.dumps = 0

    def control(self, *command):
        # Runs vgdb directly, because callgrind_control finds the pipes of vgdb only in their default directory.
        return subprocess.run(["vgdb", f"--vgdb-prefix={self.directory}/vgdb", f"--pid={self.agent.process.pid}", *command],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout

    def threads(self, is_counted):
        """Returns valgrind's numbers of the threads whose names `is_counted` accepts."""
        tasks = pathlib.Path(f"/proc/{self.agent.process.pid}/task")
        threads = []
        for number, task in re.findall(r"^Thread (\d+): .*\(lwpid (\d+)\)$", self.control("v.info", "scheduler"), re.M):
            with contextlib.suppress(FileNotFoundError):  # The thread has exited.
                if is_counted((tasks / task / "comm").read_text().strip()):
                    threads.append(int(number))
        return threads or sys.exit("count: valgrind reports no thread with a matching name")

    def measure(self, operation, *arguments):
        """Counts the instructions of the threads that serve clients."""
        return self.measure_threads(lambda name: name.startswith("clients-"), operation, *arguments)

    def measure_in_any_thread(self, operation, *arguments):
        """Counts all threads except for those that do disk work, because the task pool resolves large configurations."""
        return self.measure_threads(lambda name: not name.startswith(("disk", "files", "TP-", "NIO")), operation, *arguments)

    def measure_threads(self, is_counted, operation, *arguments):
        run, count, clients = operation(self.agent, *arguments)
        self.agent.settle()
        self.control("zero")
        run()
        threads = self.threads(is_counted)
        self.control("dump")
        self.dumps += 1
        files = [self.directory / f"out.{self.dumps}-{thread:02}" for thread in threads]
        dumps = [file.read_text() for file in files if file.exists()]
        close(self.agent, clients)
        return sum(int(re.search(r"^(?:totals|summary): (\d+)", dump, re.M).group(1)) for dump in dumps) / count


def close(agent, clients):
    for client in clients:
        client.close()
    while agent.connections() > 1:
        time.sleep(0.001)


def repeated(unit, measure, recorded):
    """Returns a function that measures a figure by its name. If the figure exceeds the recorded one, it is measured up to two
    more times, and the least value counts, because the background work of a busy machine only adds to it."""
    def figure(name, operation, *arguments):
        value = measure(operation, *arguments)
        for _ in range(2):
            known = recorded.get(unit, {}).get(name, float("inf"))
            if value - known <= tolerance(unit, name, known):
                break
            value = min(value, measure(operation, *arguments))
        return value
    return figure


def count(figure, scale):
    """Returns all figures, measured with a function that `repeated` returned."""
    # `many` is large, so that differences in the background work of publications have little effect per event.
    few, many = 10, 310
    operations = {"get": (get, scale), "get, 16 in one write": (get_pipelined, scale), "get, batch of 16": (get_batch, scale),
                  "get, uncached": (get_uncached, scale // 2), "image hit": (image_hit, scale),
                  "connect, get, close": (connect, scale), "set": (publications, scale // 10, 0),
                  "publication to 1": (publications, scale // 10, 1), "publication to 100": (publications, scale // 20, 100),
                  "set, 50 writers": (writers, scale, 50)}
    figures = {name: figure(name, *operation) for name, operation in operations.items()}
    publication = figure("publication to few", publications, scale // 20, few)
    figures["event delivered"] = (figure("publication to many", publications, scale // 20, many) - publication) / (many - few)
    return figures


def tolerance(unit, name, known):
    """The permitted difference from a recorded figure."""
    fraction, minimum = TOLERANCE_OF.get((unit, name), TOLERANCE[unit])
    return max(abs(known) * fraction, minimum)


def compare(found, recorded):
    """Prints a line for each figure. Returns False if one is missing from the record or exceeds its tolerance."""
    passed = True
    for unit, figures in found.items():
        for name, value in figures.items():
            known = recorded.get(unit, {}).get(name)
            verdict = "not recorded; use --record"
            if known is not None:
                verdict = ("as recorded" if abs(value - known) <= tolerance(unit, name, known)
                           else "MORE than recorded" if value > known else "less than recorded; use --record")
            passed = passed and known is not None and not verdict.startswith("MORE")
            print(f"{unit:<13} {name:<22} {value:>12,.2f} {'-' if known is None else f'{known:,.2f}':>12}  {verdict}")
    return passed


def compare_ratios(found):
    """Prints a line for each ratio. Returns False if one exceeds MAX_RATIO."""
    for name, value in found.items():
        verdict = "within the limit" if value <= MAX_RATIO else "MORE than the limit"
        print(f"{'ratio':<13} {name:<22} {value:>12,.2f} {MAX_RATIO:>12,.2f}  {verdict}")
    return all(value <= MAX_RATIO for value in found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larderd", required=True)
    parser.add_argument("--counter", required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--no-instructions", action="store_true")
    options = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    found = {}
    root = tempfile.mkdtemp(prefix="larder-count.")
    try:
        for name in ("allocations", "instructions"):
            os.mkdir(f"{root}/{name}")
        counter = Allocations(options.larderd, options.counter, f"{root}/allocations")
        try:
            found["allocations"] = count(repeated("allocations", counter.measure, recorded), 10_000)
            found["bytes"] = {"idle subscriber": counter.bytes_per_subscriber(1000)}
            found_ratios = ratios(counter, 100)
        finally:
            counter.agent.stop()
        if not options.no_instructions:
            counter = Instructions(options.larderd, f"{root}/instructions")
            try:
                # Fewer operations, because valgrind is about fifty times slower.
                figure = repeated("instructions", counter.measure, recorded)
                found["instructions"] = count(figure, 1000)
                operations = {"set, 10 overrides": (set_override, 100, 10), "set, 200 plain": (set_property, 200, "plain"),
                              "set, 200 validated": (set_property, 200, "validated")}
                found["instructions"] |= {name: figure(name, *operation) for name, operation in operations.items()}
                figure = repeated("instructions", counter.measure_in_any_thread, recorded)
                for number in (1000, 10_000):
                    name = f"set, {number:,} overrides"
                    found["instructions"][name] = figure(name, set_override, 100, number)
            finally:
                counter.agent.stop()
    finally:
        shutil.rmtree(root)
    if options.record:
        rounded = {unit: {name: round(value, 2 if unit == "allocations" else 0) for name, value in figures.items()}
                   for unit, figures in found.items()}
        RECORD.write_text(json.dumps(rounded, indent=2) + "\n")
        recorded = rounded
    passed = compare(found, recorded)
    return 0 if compare_ratios(found_ratios) and passed else 1


if __name__ == "__main__":
    sys.exit(main())
