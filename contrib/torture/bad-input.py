#!/usr/bin/env python3
"""Sends invalid or excessive input to an agent, and file descriptors that no request needs.

    long lines          10 MB each, with and without a line feed
    notifications       a million (100,000 with --quick), which the agent must process without a reply
    changes             config.set as notifications
    deep nesting        nested arrays and objects, up to 500,000 levels
    malformed lines     requests with random bytes changed, inserted, removed and combined
    descriptors         passed with requests, within lines, and on a connection whose output is blocked

During each attack another client repeatedly reads a value, which must be correct. After each attack the agent must still be
running, without a crash in its log and without additional open descriptors. Its memory must have stayed below a limit.
"""

import array
import contextlib
import json
import os
import random
import select
import socket
import sys
import threading
import time

import larder_agent
from larder_agent import Connection

SETTINGS = {"namespaces": {"default": {}, "relaxed": {"durability": "relaxed"}}}
KNOWN = {"path": "known.value", "value": "unchanged"}
PING = b'{"id":"ping","method":"agent.ping"}\n'


def line(id, method, /, **params):
    """Returns a request as a line; a notification if `id` is None."""
    message = {} if id is None else {"id": id}
    return json.dumps({**message, "method": method, "params": params}, separators=(",", ":")).encode() + b"\n"


def long_lines(path, count):
    """Checks that each long line gets one lineTooLong error and that the connection stays open."""
    survived = 0
    for number in range(count):
        with Connection(path) as client:
            piece = (b"[1,", b'{"id":1,"method":"', b"\xff\x00", b'"')[number % 4] * 4096
            for _ in range(10_000_000 // len(piece)):
                client.send(piece)
            first = client.message()
            if number % 8 == 7:
                client.shut_down()
                survived += first["error"]["data"]["name"] == "lineTooLong" and client.ended() == []
                continue
            client.send(b"\n" + PING)
            second = client.message()
            survived += first["error"]["data"]["name"] == "lineTooLong" and second.get("result") == {"pong": True}
    return {"attempts": count, "survived": survived, "note": f"{count * 10} MB"}


def notifications(path, count):
    """Checks that the agent processes all notifications and replies to none."""
    with Connection(path) as client, Connection(path) as observer:
        block = b"".join(
            line(None, "config.get", path="known.value")
            if number % 2
            else b'{"method":"agent.ping"}\n'
            for number in range(1000)
        )
        for _ in range(count // 1000):
            client.send(block)
        client.send(PING)
        answered = client.line() == b'{"jsonrpc":"2.0","id":"ping","result":{"pong":true}}'
        processed = next(one for one in observer.call("agent.clients")["clients"] if one["requests"] > count // 2)["requests"] - 1
        return {"attempts": count, "survived": processed if answered else 0}


def changes(path, count):
    """Sends changes as notifications and checks that the last one takes effect."""
    with Connection(path) as client:
        for start in range(0, count, 500):
            client.send(b"".join(
                line(None, "config.set", namespace="relaxed", path="n", value=number)
                for number in range(start, start + 500)
            ))
        client.send(PING)
        client.line()
        # The reply to the ping shows that the agent has read all changes, but not that it has committed them.
        with Connection(path) as reader:
            result = reader.call("config.wait", namespace="relaxed", path="n", equals=count - 1, timeoutMilliseconds=60000)
        return {"attempts": count, "survived": count if result["value"] == count - 1 else 0}


def nesting(path, count, generator):
    """Checks that more than 128 levels are a parseError, and that up to 128 levels are not."""
    survived = 0
    with Connection(path) as client:
        for number in range(count):
            depth = generator.choice((127, 128, 129, 130, 1000, 100_000, 500_000))
            kind = number % 3
            if kind == 0:
                text = b"[" * depth + b"]" * depth
            elif kind == 1:
                depth = min(depth, 150_000)
                text = b'{"a":' * depth + b"1" + b"}" * depth
            else:
                # The request object and `params` are two levels, so the path has two levels fewer.
                text = b'{"id":1,"method":"config.get","params":{"path":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"
            client.send(text + b"\n")
            reply = client.message()
            # An array is a batch; its elements are not valid requests, so each gets an error.
            data = (reply[0] if isinstance(reply, list) else reply)["error"]["data"]["name"]
            survived += (data == "parseError") == (depth > 128)
    return {"attempts": count, "survived": survived}


def mutated(generator, seeds):
    """Returns a request with random changes. In most cases it is no longer valid."""
    data = bytearray(generator.choice(seeds))
    for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
        place = generator.randrange(len(data) + 1)
        kind = generator.randrange(6)
        if kind == 0 and data:
            data[place % len(data)] = generator.randrange(256)
        elif kind == 1:
            data[place:place] = generator.randbytes(generator.randrange(1, 9))
        elif kind == 2:
            del data[place : place + generator.randrange(1, 9)]
        elif kind == 3:
            other = generator.choice(seeds)
            data[place:] = other[generator.randrange(len(other)) :]
        elif kind == 4:
            tokens = (b"null", b"-1", b"1e999", b"[]", b"{}", b'"\\ud800"', b"99999999999999999999", b"\x00", b'"..' b'"', b"true", b"[[")
            data[place:place] = generator.choice(tokens)
        else:
            data[place:place] = data[: generator.randrange(len(data) + 1)]
    return bytes(data).replace(b"\n", b" ")


def malformed(path, count, generator):
    """Checks that the agent sends only valid JSON and keeps the connection open."""
    seeds = [
        line(1, "config.get", path="known.value"), line("a", "config.get", path=["known", "value"], maximumAgeSeconds=5),
        line(2, "agent.info"), line(3, "agent.clients"), line(4, "config.explain", path="/known/value"),
        line(5, "config.subscribe", path="known", mode="patch", since=1), line(6, "config.unsubscribe", subscription=1),
        line(7, "config.wait", path="known.value", equals="x", timeoutMilliseconds=1), line(8, "config.history", limit=3),
        line(9, "request.cancel", id=7), line(10, "config.status"), line(11, "image.get", url="http://127.0.0.1:1/x", policy="cacheOnly"),
        line(12, "config.diff", **{"from": 1, "to": 2}), line(13, "config.acknowledge", revision=1, accepted=False, reason="é\u2028"),
        b"[" + line(1, "agent.ping")[:-1] + b"," + line(2, "config.get")[:-1] + b"]\n", line(14, "rpc.discover"),
    ]
    seeds = [seed[:-1] for seed in seeds]
    tried = replies = 0
    while tried < count:
        with Connection(path) as client:
            lines = [mutated(generator, seeds) + b"\n" for _ in range(min(100, count - tried))]
            tried += len(lines)
            lines.append(b'{"id":"the last","method":"agent.ping"}\n')
            # Send on another thread: the agent would disconnect a client that sends without reading the replies.
            sender = threading.Thread(target=client.socket.sendall, args=(b"".join(lines),), daemon=True)
            sender.start()
            while True:
                message = client.message()
                replies += 1
                if isinstance(message, dict) and message.get("id") == "the last":
                    break
            sender.join()
    return {"attempts": count, "survived": tried, "note": f"{replies} replies and events"}


def pass_files(stream, data, files):
    """Sends data with files, or only the data if the kernel refuses the files. Returns the number of rejected files."""
    try:
        stream.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    except PermissionError:
        stream.sendall(data)
        return len(files)
    return 0


def is_closed(reader):
    """Returns True once the write end of a pipe is closed in all processes; False if it is not within 10 s."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    return bool(poll.poll(10_000)) and os.read(reader, 1) == b""


def descriptors(path, count, generator):
    """Passes write ends of pipes, closes its own copies, and checks with the read end that the agent closes all of them."""
    survived = passed = refused = 0
    while passed < count:
        with Connection(path) as client:
            reader, writer = os.pipe()
            number = min(generator.choice((1, 2, 253)), count - passed)
            kind = generator.randrange(4)
            if kind == 0:  # with complete lines: recvmsg(2) returns the descriptors of one message at a time
                number = min(number, count - passed) // 3 * 3 or 3
                for _ in range(3):
                    refused += pass_files(client.socket, PING, [writer] * (number // 3))
                for _ in range(3):
                    client.line()
            elif kind == 1:  # within a line
                client.send(PING[:10])
                refused += pass_files(client.socket, PING[10:20], [writer] * number)
                client.send(PING[20:])
                client.line()
            elif kind == 2:  # with an incomplete line
                refused += pass_files(client.socket, PING[:10], [writer] * number)
            else:  # with a line that the agent does not read, because its output is blocked
                client.send(line(1, "config.get", namespace="relaxed", path="large") * 4)
                refused += pass_files(client.socket, PING, [writer] * number)
            os.close(writer)
            if kind > 1:
                client.close()
            survived += number if is_closed(reader) else 0
            os.close(reader)
            passed += number
    note = f"{refused} rejected by the kernel" if refused else ""
    return {"attempts": passed, "survived": survived, "note": note}


class Monitor:
    """Repeatedly reads the known value and samples the agent's memory until stop()."""

    def __init__(self, agent):
        self.agent, self.pid, self.is_stopped = agent, agent.pid, threading.Event()
        self.problem, self.max_memory, self.gets = None, agent.memory().anonymous, 0
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self.read, self.sample)]
        for thread in self.threads:
            thread.start()

    def read(self):
        try:
            with self.agent.connect() as client:
                while not self.is_stopped.wait(0.002):
                    value = client.call("config.get", path=KNOWN["path"])["value"]
                    self.gets += 1
                    if value != KNOWN["value"]:
                        raise ValueError(f"the known value is {value}")
        except (OSError, ValueError, larder_agent.AgentError) as problem:
            self.problem = f"the client that reads the known value: {problem}"

    def sample(self):
        while not self.is_stopped.wait(0.02):
            with contextlib.suppress(OSError, KeyError):
                self.max_memory = max(self.max_memory, larder_agent.memory(self.pid).anonymous)

    def stop(self):
        self.is_stopped.set()
        for thread in self.threads:
            thread.join()


def settled_descriptors(agent, wanted):
    """Waits until the agent has closed the descriptors of ended connections. Returns the number of open ones."""
    with contextlib.suppress(TimeoutError):
        larder_agent.eventually(lambda: agent.stats()["connections"]["open"] == 1, "waiting for all connections to close")
        larder_agent.eventually(lambda: agent.descriptors() <= wanted, "waiting for descriptors to close", 10)
    return agent.descriptors()


def attack(agent, name, memory, function, *arguments):
    """Runs one attack and reports the result.

    memory: the number of bytes by which the agent's anonymous memory may grow.
    """
    if not agent.is_running:
        print(f"{name}: skipped, because the agent has exited", file=sys.stderr)
        larder_agent.report(name, 1, 0)
        return
    descriptors, before = agent.descriptors(), agent.memory().anonymous
    monitor, began, problems = Monitor(agent), time.monotonic(), []
    try:
        found = function(str(agent.socket), *arguments)
    except (OSError, KeyError, larder_agent.AgentError) as problem:
        found = {"attempts": 1, "survived": 0}
        problems.append(f"{type(problem).__name__}: {problem}")
    monitor.stop()
    if monitor.problem:
        problems.append(monitor.problem)
    if not agent.is_running or agent.crashed():
        problems.append("the agent crashed")
    else:
        if monitor.max_memory > before + memory:
            problems.append(f"memory grew by {(monitor.max_memory - before) >> 20} MiB; the limit is {memory >> 20} MiB")
        after = settled_descriptors(agent, descriptors)
        if after > descriptors:
            problems.append(f"{after - descriptors} descriptors leaked")
    for problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    memory_range = f"{before >> 20} → {monitor.max_memory >> 20} MiB"
    note = f"{time.monotonic() - began:.0f} s, memory {memory_range}, {monitor.gets} concurrent gets"
    note += f"; {found['note']}" if found.get("note") else ""
    larder_agent.report(name, found["attempts"], found["survived"], found["attempts"] - found["survived"] + len(problems), note)


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="run each attack for a few seconds")
    parser.add_argument("--only", metavar="TEXT", default="", help="run only attacks whose names contain TEXT")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random input (default: 1)")
    options = parser.parse_args()
    quick, generator = options.quick, random.Random(options.seed)
    attacks = [
        ("lines of 10 MB", 32 << 20, long_lines, 24 if quick else 200),
        ("notifications", 32 << 20, notifications, 100_000 if quick else 1_000_000),
        ("changes as notifications", 64 << 20, changes, 5_000 if quick else 50_000),
        ("deep nesting", 32 << 20, nesting, 300 if quick else 3_000, generator),
        ("malformed lines", 64 << 20, malformed, 10_000 if quick else 500_000, generator),
        ("descriptors passed to the agent", 32 << 20, descriptors, 5_000 if quick else 50_000, generator),
    ]
    with larder_agent.Agent(options.larderd, settings=SETTINGS, keep=options.keep) as agent:
        with agent.connect() as client:
            client.call("config.set", **KNOWN)
            client.call("config.set", namespace="relaxed", path="large", value="x" * 300_000)
        for each in attacks:
            if options.only in each[0]:
                attack(agent, *each)
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
