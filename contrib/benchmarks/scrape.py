#!/usr/bin/env python3
"""Measures `agent.metrics` with many namespaces, and how long other clients wait while it runs.

    contrib/benchmarks/scrape.py [--namespaces N] [--rounds N] LARDERD [LARDER]

Prints one line for each figure, with its limit. Exits with status 1 if a figure of 1,000 namespaces exceeds its limit. Measure a
release build on an idle machine. LARDER is the command line; default: `larder` beside LARDERD.

  scrape     from the request to the reply: the median and the longest of the rounds
  memory     the growth of anonymous memory by all scrapes (RssAnon in proc_pid_status(5))
  text       the size of the output of `larder metrics`
  get        the longest `config.get` of another client, alone and while another process scrapes without a pause
"""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python" / "src"))

from larder_client.testing import AgentProcess  # noqa: E402

LIMITS = {"scrape, median": 20, "scrape, longest": 20, "text": 1.2}


def timed(action):
    """Returns the duration of an action in milliseconds."""
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def anonymous(pid):
    """Returns the anonymous memory of a process in MB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:")) * 1024 / 1e6


def measure(agent, larder, rounds):
    """Yields the name, the value and the unit of each figure."""
    with agent.connect() as client, agent.connect() as other:
        client.call("agent.metrics")
        before = anonymous(agent.process.pid)
        times = [timed(lambda: (client.request("agent.metrics"), client.line())) for _ in range(rounds)]
        yield "scrape, median", statistics.median(times), "ms"
        yield "scrape, longest", max(times), "ms"
        yield "memory", anonymous(agent.process.pid) - before, "MB"
        command = [larder, "metrics", "--socket", agent.socket]
        yield "text", len(subprocess.run(command, check=True, capture_output=True).stdout) / 1e6, "MB"

        def longest(ended):
            return max(timed(lambda: other.call("config.get")) for _ in iter(lambda: ended(), True))

        end = time.monotonic() + 2
        yield "get alone, longest", longest(lambda: time.monotonic() > end), "ms"
        loop = f'for _ in $(seq {rounds}); do "$0" "$@" >/dev/null || exit 1; done'
        with subprocess.Popen(["sh", "-c", loop, *command]) as scrapes:
            yield "get during scrapes, longest", longest(lambda: scrapes.poll() is not None), "ms"
        if scrapes.returncode:
            raise SystemExit("larder metrics failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("larderd", type=pathlib.Path)
    parser.add_argument("larder", type=pathlib.Path, nargs="?")
    parser.add_argument("--namespaces", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    larder = options.larder or options.larderd.with_name("larder")
    names = [f"kiosk-berlin-mitte-number-{number:04}" for number in range(options.namespaces)]
    exceeded = False
    with tempfile.TemporaryDirectory(prefix="larder-scrape.") as directory:
        agent = AgentProcess(options.larderd, directory, {"namespaces": {name: {} for name in names}, "images": {"enabled": True}})
        try:
            agent.start(120).close()
            for name, value, unit in measure(agent, larder, options.rounds):
                limit = LIMITS.get(name) if options.namespaces <= 1000 else None
                exceeded |= limit is not None and value > limit
                print(f"{name:28} {value:8.2f} {unit}" + (f", at most {limit:g}" if limit else ""), flush=True)
        finally:
            agent.kill()
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
