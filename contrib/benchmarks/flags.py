#!/usr/bin/env python3
"""Measures the processor time of `flag.evaluate` and `flag.evaluateAll`, as ratios to `config.get` in the same run.

    contrib/benchmarks/flags.py [--requests N] [--rounds N] LARDERD

Prints one line for each figure: the median of the rounds, with its limit. Exits with status 1 if a figure exceeds its limit. Each
request differs from all others, so that no reply is cached. Measure a release build.

  config.get         a value of an object with all values
  flag.evaluate      a rule with three comparisons, and one with fractional, for a new context
  flag.evaluateAll   500 flags for a new context
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("larderd", type=pathlib.Path)
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
        finally:
            agent.kill()
    exceeded = False
    for kind, values in times.items():
        is_all = kind.startswith("flag.evaluateAll")
        ratio = statistics.median(value / base for value, base in zip(values, times["config.get"], strict=True))
        value, limit = (statistics.median(values), 300) if is_all else (ratio, 1.3)
        exceeded |= value > limit
        print(f"{kind:34} {statistics.median(values):8.2f} µs {ratio:8.2f} × config.get, at most {limit:g}", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
