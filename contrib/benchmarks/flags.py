#!/usr/bin/env python3
"""Measures the processor time of `flag.evaluate` and `flag.evaluateAll`, as ratios to `config.get` in the same run; and that of
the gateway, as a ratio to its empty route.

    contrib/benchmarks/flags.py [--requests N] [--rounds N] LARDERD [LARDER_HTTP]

Prints one line for each figure: the median of the rounds, with its limit. Exits with status 1 if a figure exceeds its limit. Each
request differs from all others, so that no reply is cached. Measure a release build.

  config.get         a value of an object with all values
  flag.evaluate      a rule with three comparisons, and one with fractional, for a new context
  flag.evaluateAll   500 flags for a new context
  larder-http        OFREP: the rule with three comparisons for a new context, over one connection; and resident memory
"""

import argparse
import json
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python" / "src"))

from larder_client.testing import AgentProcess

COMPARISONS = {
    "if": [
        {
            "and": [
                {"==": [{"var": "plan"}, "team"]},
                {">=": [{"var": "seats"}, 10]},
                {"ends_with": [{"var": "email"}, "@example.org"]},
            ]
        },
        "on",
        "off",
    ]
}
FRACTIONAL = {"fractional": [["on", 10], ["off", 90]]}


def flag(rule):
    return {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "off", "targeting": rule}


def context(number):
    return {"targetingKey": f"user-{number}", "plan": "team", "seats": 12, "email": f"user-{number}@example.org"}


def processor_time(pid):
    """Returns the time for which the threads of a process have run, in nanoseconds."""
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files)


def time_per_request(agent, client, method, parameters, numbers):
    """Returns the processor time of the agent for one request, in microseconds. Awaits each reply."""
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": parameters(n)}).encode() + b"\n" for n in numbers]
    before = processor_time(agent.process.pid)
    for line in lines:
        client.send(line)
        reply = client.line()
        if b'"error"' in reply[:40]:
            sys.exit(f"{method}: {reply.decode()}")
    return (processor_time(agent.process.pid) - before) / len(lines) / 1000


class Gateway:
    """A gateway of the agent, with one connection to it."""

    def __init__(self, program, agent, directory):
        listen = f"{directory}/http.sock"
        settings = pathlib.Path(directory, "http.json")
        settings.write_text(
            json.dumps({"listen": listen, "namespaces": {"default": {"flags": "flags"}}}),
            encoding="utf-8",
        )
        self.process = subprocess.Popen([program, "--settings", settings], env={"LARDER_SOCKET": str(agent.socket)})
        self.connection = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.connection.connect(listen)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        while self.exchange(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n") != 200:
            time.sleep(0.01)

    def exchange(self, request):
        """Sends a request, and returns the status of the response."""
        self.connection.sendall(request)
        received = self.connection.recv(1 << 16)
        while b"\r\n\r\n" not in received:
            received += self.connection.recv(1 << 16)
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
        while len(body) < length:
            body += self.connection.recv(1 << 16)
        return int(head.split()[1])

    def time_per_request(self, request, numbers):
        """Returns the processor time of the gateway for one request, in microseconds."""
        requests = [request(number) for number in numbers]
        before = processor_time(self.process.pid)
        for one in requests:
            if (status := self.exchange(one)) != 200:
                sys.exit(f"{one.decode()}: status {status}")
        return (processor_time(self.process.pid) - before) / len(requests) / 1000

    def resident_megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def end(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()


def evaluation(number):
    body = json.dumps({"context": context(number)}).encode()
    head = "POST /ofrep/v1/evaluate/flags/flag-1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def measure_gateway(gateway, options):
    """Prints the figures of the gateway. Returns whether one exceeds its limit."""
    memory = gateway.resident_megabytes()
    empty, flags = [], []
    for number in range(options.rounds):
        numbers = range(number * options.requests, (number + 1) * options.requests)
        empty.append(gateway.time_per_request(lambda _: b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", numbers))
        flags.append(gateway.time_per_request(evaluation, numbers))
    rate = statistics.median(base / value for value, base in zip(flags, empty, strict=True))
    print(f"{'larder-http, /healthz':34} {statistics.median(empty):8.2f} µs")
    print(f"{'larder-http, three comparisons':34} {statistics.median(flags):8.2f} µs {rate:8.2f} × its rate, at least 0.7")
    print(f"{'larder-http, memory with 500 flags':34} {memory:8.1f} MB, at most 25")
    return rate < 0.7 or memory > 25


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("larderd", type=pathlib.Path)
    parser.add_argument("larder_http", type=pathlib.Path, nargs="?")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    flags = {f"flag-{n}": flag(COMPARISONS if n % 2 else FRACTIONAL) for n in range(500)}
    kinds = {
        "config.get": ("config.get", lambda n: {"path": f"values.v{n}"}, 1),
        "flag.evaluate, three comparisons": ("flag.evaluate", lambda n: {"flag": "flag-1", "context": context(n)}, 1),
        "flag.evaluate, fractional": ("flag.evaluate", lambda n: {"flag": "flag-0", "context": context(n)}, 1),
        "flag.evaluateAll, 500 flags": ("flag.evaluateAll", lambda n: {"context": context(n)}, 50),
    }
    settings = {"namespaces": {"default": {"flags": {"member": "flags"}}}}
    times = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="larder-flags.") as directory:
        agent = AgentProcess(options.larderd, directory, settings)
        try:
            with agent.start() as client:
                client.call("config.set", path="flags", value=flags)
                client.call("config.set", path="values", value={f"v{n}": n for n in range(options.requests * options.rounds)})
                for number in range(options.rounds):
                    for kind, (method, parameters, share) in kinds.items():
                        first = number * options.requests
                        numbers = range(first, first + options.requests // share)
                        times[kind].append(time_per_request(agent, client, method, parameters, numbers))
                exceeded = False
                if options.larder_http:
                    gateway = Gateway(options.larder_http, agent, directory)
                    try:
                        exceeded = measure_gateway(gateway, options)
                    finally:
                        gateway.end()
        finally:
            agent.kill()
    for kind, values in times.items():
        is_all = kind.startswith("flag.evaluateAll")
        ratio = statistics.median(value / base for value, base in zip(values, times["config.get"], strict=True))
        value, limit = (statistics.median(values), 300) if is_all else (ratio, 1.3)
        exceeded |= value > limit
        print(f"{kind:34} {statistics.median(values):8.2f} µs {ratio:8.2f} × config.get, at most {limit:g}", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
