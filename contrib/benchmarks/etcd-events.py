#!/usr/bin/env python3
"""Measures the latency of etcd events to a subscriber of an agent, and to `etcdctl watch` in the same run.

  contrib/benchmarks/etcd-events.py [--program .build/release/larderd] [--keys 100,1000,5000,20000] [--events 300]

For each number of keys the script starts etcd and an agent in a temporary directory, on the loopback interface, and puts new
values under an existing key. Both latencies start before the put, so the relevant figure is their difference.
Requires etcd, etcdctl and Python 3.11.
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from larder_client import AgentProcess  # noqa: E402


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Etcd:
    """An etcd process with its data in a directory, and a connection to its JSON gateway."""

    def __init__(self, directory):
        self.port, peer = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", f"{directory}/etcd", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
             "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
             "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--unsafe-no-fsync"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.gateway = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.transaction([("/ready", "1")])
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def transaction(self, pairs):
        """Puts all pairs in one revision."""
        self.begin(pairs)
        self.finish()

    def begin(self, pairs):
        """Sends a transaction. finish() reads the response."""
        encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        puts = [{"requestPut": {"key": encode(key), "value": encode(value)}} for key, value in pairs]
        self.gateway.request("POST", "/v3/kv/txn", json.dumps({"success": puts}))

    def finish(self):
        response = self.gateway.getresponse()
        if response.status != 200:
            raise RuntimeError(response.read().decode())
        response.read()


def processor_time(process):
    """Returns the processor time of a process in seconds."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(program, count, events, pause):
    with tempfile.TemporaryDirectory(prefix="larder-etcd-") as directory:
        etcd, agent, watch = Etcd(directory), None, None
        try:
            keys = [f"/c/group{number % 20}/key{number:06}" for number in range(count)]
            for start in range(0, count, 100):
                etcd.transaction([(key, str(number)) for number, key in enumerate(keys[start:start + 100], start)])
            settings = {"namespaces": {"default": {"remote": {"etcd": {"endpoints": [etcd.url], "prefix": "/c/"}}}}}
            agent = AgentProcess(program, directory, settings)
            connection = agent.start()
            target = keys[count // 2]
            path = target.removeprefix("/c/").replace("/", ".")
            connection.call("config.wait", path=path, exists=True)
            connection.call("config.subscribe", path=path)
            connection.event()
            watch = subprocess.Popen(["etcdctl", "--endpoints", etcd.url, "watch", target], stdout=subprocess.PIPE,
                                     env=os.environ | {"ETCDCTL_API": "3"})
            os.set_blocking(watch.stdout.fileno(), False)
            return times(etcd, agent, connection, watch, target, events, pause)
        finally:
            for process in (watch, agent and agent.process, etcd.process):
                if process:
                    process.kill()
                    process.wait()


def times(etcd, agent, connection, watch, target, events, pause):
    """Puts values and waits until both clients have received each.

    Before the measurement, a tenth of `events` is put as a warm-up. Returns the latencies of the clients in seconds, and the
    agent's processor use.
    """
    larder, other, seen, used, began = [], [], b"", 0, 0
    for number in range(events + events // 10):
        if number == events // 10:
            larder, other, used, began = [], [], processor_time(agent.process), time.monotonic()
        value = str(1_000_000 + number)
        start = time.monotonic()
        etcd.begin([(target, value)])
        waiting = {connection.socket: larder, watch.stdout: other}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 20)
            now = time.monotonic()
            if not ready:
                # etcdctl may not have started its watch before the first puts, and then never reports their events.
                if number < events // 10:
                    break
                raise TimeoutError("an event did not arrive")
            for source in ready:
                if source is watch.stdout:
                    seen += source.read() or b""
                    if not seen.endswith(value.encode() + b"\n"):
                        continue
                    seen = b""
                elif str(connection.event()["value"]) != value:
                    continue
                waiting.pop(source).append(now - start)
        etcd.finish()
        time.sleep(pause)
    return larder, other, (processor_time(agent.process) - used) / (time.monotonic() - began)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=".build/release/larderd")
    parser.add_argument("--keys", default="100,1000,5000,20000", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--events", default=300, type=int)
    parser.add_argument("--pause", default=0.01, type=float, help="seconds between events (default: %(default)s)")
    options = parser.parse_args()
    print("keys     larder p50  p99     etcdctl p50  p99     difference p50  p99     processor")
    for count in options.keys:
        larder, other, share = measure(options.program, count, options.events, options.pause)
        difference = [one - two for one, two in zip(larder, other)]
        print(f"{count:<8} {percentile(larder, .5):7.2f} ms {percentile(larder, .99):7.2f}  "
              f"{percentile(other, .5):8.2f} ms {percentile(other, .99):7.2f}  "
              f"{statistics.median(difference) * 1000:+11.2f} ms {percentile(difference, .99):+7.2f}  {share:8.0%}", flush=True)


if __name__ == "__main__":
    main()
