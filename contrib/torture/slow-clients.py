#!/usr/bin/env python3
"""Clients that are slow, deaf, many or gone, and what a well-behaved client notices of them.

    slow-loris          500 connections that send a request a byte at a time
    deaf subscribers    500 that never read what they subscribed to, while it changes
    deaf readers        500 that never read what they asked for
    connection storm    connections that are made and closed at once, with a request, without one, in the middle of one
    killed clients      500 processes that are killed while they write, or while they are written to
    busy processors     nobody asks for anything, and each processor computes: what the kernel's scheduler alone costs

Prints a line of each for the table, and what the 99th percentile of a get was beside it:
p99 TAB attack TAB quiet µs TAB under attack µs TAB ratio TAB the ratio of a bystander that nobody attacks TAB the agent's
work for a get, quiet µs TAB under attack µs TAB ratio TAB gets, and of several rounds TAB the three ratios of each: the get's,
its work's, the bystander's.
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
import time

import larder_agent
from larder_attack import Siege, line, parser, raw

SETTINGS = {
    "limits": {"stallSeconds": 2, "connections": 4096},
    "namespaces": {"default": {}, "relaxed": {"durability": "relaxed"}},
}
LARGE = 300_000  # bytes that no socket's buffer holds


def slow_loris(talk, path, count, seconds):
    """A byte a second on each connection; those whose line is complete are answered, the others finish theirs at the end."""
    requests = [line(number, "config.get", path="known.value") for number in range(count)]
    streams = [raw(path) for _ in range(count)]
    sent = [0] * count
    began = time.monotonic()
    # Not all at once: a byte comes somewhere every few milliseconds.
    while time.monotonic() - began < seconds:
        for number, stream in enumerate(streams):
            due = time.monotonic() - began - number / count
            if sent[number] < min(due, len(requests[number]) - 1):
                stream.send(requests[number][sent[number] : sent[number] + 1])
                sent[number] += 1
        time.sleep(0.002)
    right = 0
    for number, stream in enumerate(streams):
        stream.setblocking(True)
        stream.settimeout(larder_agent.PATIENCE)
        stream.sendall(requests[number][sent[number] :])
    for number, stream in enumerate(streams):
        reply = b""
        while not reply.endswith(b"\n"):
            data = stream.recv(4096)
            if not data:
                break
            reply += data
        answer = json.loads(reply or b"{}")
        right += answer.get("id") == number and answer.get("result", {}).get("value") == "as it was set"
        stream.close()
    return {"attempts": count, "survived": right, "note": f"{sum(sent)} single bytes"}


def dropped(streams):
    """How many connections the agent has closed: a hang-up, without anything being read."""
    poll = select.poll()
    for stream in streams:
        poll.register(stream, 0)
    return sum(1 for _, events in poll.poll(0) if events & (select.POLLHUP | select.POLLERR))


def deaf_subscribers(talk, path, count, seconds):
    """Each must be dropped by the stall timer; all others keep their events."""
    with larder_agent.Client(path) as writer, larder_agent.Client(path) as reader:
        writer.call("config.set", namespace="relaxed", path="large", value="x" * LARGE)
        streams = [raw(path) for _ in range(count)]
        for stream in streams:
            stream.send(line(1, "config.subscribe", namespace="relaxed", path="large"))
        reader.subscribe("large", namespace="relaxed")
        last, events, gone, number = 0, 0, 0, 0
        deadline = time.monotonic() + larder_agent.PATIENCE
        began = time.monotonic()
        while time.monotonic() < deadline and (gone < count or time.monotonic() - began < seconds):
            number += 1
            revision = writer.call("config.set", namespace="relaxed", path="large", value=f"{number}" + "x" * LARGE)["revision"]
            # The one that reads sees every revision that there is, in order, without a hole.
            while last < revision:
                event = reader.event()
                events += 1
                if event["sequence"] != events or event["revision"] <= last:
                    return {"attempts": count, "survived": 0, "note": f"event {events} is {str(event)[:100]}"}
                last = event["revision"]
            gone = dropped(streams)
            time.sleep(0.05)
        for stream in streams:
            stream.close()
        return {"attempts": count, "survived": gone, "note": f"{number} publications meanwhile"}


def deaf_readers(talk, path, count):
    """Each asks for much and reads nothing: it is dropped, and what it asked for after that was never looked at."""
    with larder_agent.Client(path) as client:
        client.call("config.set", namespace="relaxed", path="large", value="x" * LARGE)
        before = client.call("agent.stats")["requests"]["total"]
        streams = [raw(path) for _ in range(count)]
        # It is never taken, because what comes before it waits for the client.
        change = line("late", "config.set", namespace="relaxed", path="late", value=1)
        request = line(1, "config.get", namespace="relaxed", path="large")
        requests = request + change + request * 1000
        for stream in streams:
            stream.send(requests)
        deadline = time.monotonic() + larder_agent.PATIENCE
        gone = 0
        while gone < count and time.monotonic() < deadline:
            time.sleep(0.05)
            gone = dropped(streams)
        is_late = "late" in client.call("config.get", namespace="relaxed")["value"]
        taken = client.call("agent.stats")["requests"]["total"] - before
        for stream in streams:
            stream.close()
        note = f"{taken} requests were taken meanwhile" + ("; a change behind one that was never read was made" if is_late else "")
        return {"attempts": count, "survived": 0 if is_late else gone, "note": note}


def storm(talk, path, count, generator):
    """Connections that are over at once, in every way."""
    request = line(1, "config.get", path="known.value")
    survived = 0
    for number in range(count):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(larder_agent.PATIENCE)
        stream.connect(path)
        kind = number % 5
        if kind == 1:
            stream.send(request)
        elif kind == 2:
            stream.send(request[: generator.randrange(1, len(request) - 1)])
        elif kind == 3:
            stream.send(request)
            stream.shutdown(socket.SHUT_WR)
            reply = b""
            while data := stream.recv(4096):
                reply += data
            if b'"as it was set"' not in reply:
                break
        elif kind == 4:
            stream.send(line(1, "config.subscribe") + request)
        stream.close()
        survived += 1
    return {"attempts": count, "survived": survived}


def killed(talk, path, count, generator):
    """Processes that are killed: what they wrote in part has no effect, what was written to them goes nowhere."""
    with larder_agent.Client(path) as client:
        client.call("config.set", namespace="relaxed", path="large", value="x" * LARGE)
        for number in range(count):
            pid = os.fork()
            if pid == 0:
                try:
                    stream = raw(path)
                    whole = line(1, "config.set", namespace="relaxed", path=f"whole.k{number}", value=number)
                    half = line(2, "config.set", namespace="relaxed", path=f"half.k{number}", value=number)
                    if number % 2:
                        stream.send(line(0, "config.get", namespace="relaxed", path="large") * 3)
                    stream.send(whole + half[: generator.randrange(1, len(half) - 2)])
                finally:
                    os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(pid, 0)
        larder_agent.eventually(
            lambda: client.call("agent.stats")["requests"]["inFlight"] == 1, "what they handed over is done")
        document = client.call("config.get", namespace="relaxed")["value"]
        wrong = sum(document.get("whole", {}).get(f"k{number}", number) != number for number in range(count))
        half = len(document.get("half", {}))
        note = f"{len(document.get('whole', {}))} of their whole changes were taken, {half} of the others"
        return {"attempts": count, "survived": count - wrong - half, "note": note}


def busy(talk, path, seconds):
    """Computes on each processor, and asks for nothing."""
    children = []
    for processor in range(os.cpu_count()):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(OSError):  # One that this process may not have.
                os.sched_setaffinity(0, {processor})
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                pass
            os._exit(0)
        children.append(pid)
    survived = sum(os.waitpid(pid, 0)[1] == 0 for pid in children)
    return {"attempts": len(children), "survived": survived}


def main():
    words = parser(__doc__)
    words.add_argument("--seed", type=int, default=1, help="of what is done by chance")
    options = words.parse_args()
    quick, generator = options.quick, random.Random(options.seed)
    attacks = [
        ("500 slow-loris connections", slow_loris, 500, 6 if quick else 60, {"memory": 32 << 20}),
        ("500 deaf subscribers", deaf_subscribers, 500, 1 if quick else 20, {"memory": 96 << 20}),
        ("500 deaf readers", deaf_readers, 500, {"memory": 320 << 20}),
        ("connection storm", storm, 10_000 if quick else 50_000, generator, {"memory": 48 << 20}),
        ("500 clients killed", killed, 500, generator, {"memory": 96 << 20}),
        ("busy processors, for comparison", busy, 2 if quick else 10, {"memory": 8 << 20}),
    ]
    with Siege(options, SETTINGS) as siege:
        siege.all(attacks)
        siege.print_times()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
