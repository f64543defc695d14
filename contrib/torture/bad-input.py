#!/usr/bin/env python3
"""Input that is too long, too deep, too much, nonsense, or brings descriptors, and what a well-behaved client notices.

    long lines          10 MB each, with and without an end
    notifications       a million, none of which is answered
    deep nesting        arrays and objects in each other, up to half a million
    malformed           requests with bytes changed, cut and put together by chance
    descriptors         passed with requests, in the middle of lines, and to a connection that is never read

Prints a line of each for the table, and what the 99th percentile of a get was beside it:
p99 TAB attack TAB quiet µs TAB under attack µs TAB ratio TAB the ratio of a bystander that nobody attacks TAB the agent's
work for a get, quiet µs TAB under attack µs TAB ratio TAB gets, and of several rounds TAB the three ratios of each: the get's,
its work's, the bystander's.
"""

import array
import json
import os
import random
import select
import socket
import sys
import threading

import larder_agent
from larder_attack import Siege, line, parser

SETTINGS = {"namespaces": {"default": {}, "relaxed": {"durability": "relaxed"}}}
PING = b'{"id":"ping","method":"agent.ping"}\n'


def long_lines(talk, path, count):
    """Each is refused once, and the connection lives on."""
    survived = 0
    for number in range(count):
        with larder_agent.Client(path) as client:
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


def notifications(talk, path, count):
    """All are carried out and none is answered."""
    with larder_agent.Client(path) as client, larder_agent.Client(path) as observer:
        block = b"".join(
            line(None, "config.get", path="known.value").replace(b'"id":null,', b"")
            if number % 2
            else b'{"method":"agent.ping"}\n'
            for number in range(1000)
        )
        for _ in range(count // 1000):
            client.send(block)
        client.send(PING)
        answered = client.line() == b'{"jsonrpc":"2.0","id":"ping","result":{"pong":true}}'
        taken = next(one for one in observer.call("agent.clients")["clients"] if one["requests"] > count // 2)["requests"] - 1
        return {"attempts": count, "survived": taken if answered else 0}


def changes(talk, path, count):
    """Changes as notifications: the last one stands, whatever waited in between."""
    with larder_agent.Client(path) as client:
        for start in range(0, count, 500):
            client.send(b"".join(
                line(None, "config.set", namespace="relaxed", path="n", value=number).replace(b'"id":null,', b"")
                for number in range(start, start + 500)
            ))
        client.send(PING)
        client.line()
        # The reply came when all were taken, and is not the word that all are done.
        with larder_agent.Client(path) as reader:
            result = reader.call("config.wait", namespace="relaxed", path="n", equals=count - 1, timeoutMilliseconds=60000)
        return {"attempts": count, "survived": count if result["value"] == count - 1 else 0}


def nesting(talk, path, count, generator):
    """Up to 128 is JSON, more is not; no depth is too much to be refused."""
    survived = 0
    with larder_agent.Client(path) as client:
        for number in range(count):
            depth = generator.choice((127, 128, 129, 130, 1000, 100_000, 500_000))
            kind = number % 3
            if kind == 0:
                text = b"[" * depth + b"]" * depth
            elif kind == 1:
                depth = min(depth, 150_000)
                text = b'{"a":' * depth + b"1" + b"}" * depth
            else:
                # Two levels are the request's own.
                text = b'{"id":1,"method":"config.get","params":{"path":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}"
            client.send(text + b"\n")
            reply = client.message()
            # An array is a batch, and what is in it no request.
            data = (reply[0] if isinstance(reply, list) else reply)["error"]["data"]["name"]
            survived += (data == "parseError") == (depth > 128)
    return {"attempts": count, "survived": survived}


def mutated(generator, seeds):
    """A line with something wrong with it, most likely."""
    data = bytearray(generator.choice(seeds))
    for _ in range(generator.choice((1, 1, 1, 2, 3, 8))):
        place = generator.randrange(len(data) + 1)
        what = generator.randrange(6)
        if what == 0 and data:
            data[place % len(data)] = generator.randrange(256)
        elif what == 1:
            data[place:place] = generator.randbytes(generator.randrange(1, 9))
        elif what == 2:
            del data[place : place + generator.randrange(1, 9)]
        elif what == 3:
            other = generator.choice(seeds)
            data[place:] = other[generator.randrange(len(other)) :]
        elif what == 4:
            words = (b"null", b"-1", b"1e999", b"[]", b"{}", b'"\\ud800"', b"99999999999999999999", b"\x00", b'"..' b'"', b"true", b"[[")
            data[place:place] = generator.choice(words)
        else:
            data[place:place] = data[: generator.randrange(len(data) + 1)]
    return bytes(data).replace(b"\n", b" ")


def malformed(talk, path, count, generator):
    """Whatever comes, each reply is a message, the connection lives on, and nothing has changed that nobody asked for."""
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
        with larder_agent.Client(path) as client:
            lines = [mutated(generator, seeds) + b"\n" for _ in range(min(100, count - tried))]
            tried += len(lines)
            lines.append(b'{"id":"the last","method":"agent.ping"}\n')
            # Who only writes until all is written, and is answered more than the socket takes, is rightly dropped.
            sender = threading.Thread(target=client.stream.sendall, args=(b"".join(lines),), daemon=True)
            sender.start()
            while True:
                message = client.message()
                replies += 1
                if isinstance(message, dict) and message.get("id") == "the last":
                    break
            sender.join()
    return {"attempts": count, "survived": tried, "note": f"{replies} replies and events"}


def pass_files(stream, data, files):
    """Sends data with files, or alone where the kernel lets nobody pass files to the agent. Returns how many it refused."""
    try:
        stream.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
    except PermissionError:
        stream.sendall(data)
        return len(files)
    return 0


def is_closed(reader):
    """Whether nobody has the other end of a pipe any more."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    return bool(poll.poll(10_000)) and os.read(reader, 1) == b""


def descriptors(talk, path, count, generator):
    """Each is closed: seen by the other end of a pipe, of which the agent was given the only one left."""
    survived = passed = refused = 0
    while passed < count:
        with larder_agent.Client(path) as client:
            reader, writer = os.pipe()
            number = min(generator.choice((1, 2, 253)), count - passed)
            kind = generator.randrange(4)
            if kind == 0:  # with whole lines, of which the kernel gives out one at a time
                number = min(number, count - passed) // 3 * 3 or 3
                for _ in range(3):
                    refused += pass_files(client.stream, PING, [writer] * (number // 3))
                for _ in range(3):
                    client.line()
            elif kind == 1:  # in the middle of one
                client.send(PING[:10])
                refused += pass_files(client.stream, PING[10:20], [writer] * number)
                client.send(PING[20:])
                client.line()
            elif kind == 2:  # with one that has no end
                refused += pass_files(client.stream, PING[:10], [writer] * number)
            else:  # with what the agent does not read before the client reads
                client.send(line(1, "config.get", namespace="relaxed", path="large") * 4)
                refused += pass_files(client.stream, PING, [writer] * number)
            os.close(writer)
            if kind > 1:
                client.close()
            survived += number if is_closed(reader) else 0
            os.close(reader)
            passed += number
    note = f"{refused} were refused by the kernel" if refused else ""
    return {"attempts": passed, "survived": survived, "note": note}


def large_value(path):
    with larder_agent.Client(path) as client:
        client.call("config.set", namespace="relaxed", path="large", value="x" * 300_000)


def main():
    words = parser(__doc__)
    words.add_argument("--seed", type=int, default=1, help="of what is done by chance")
    options = words.parse_args()
    quick, generator = options.quick, random.Random(options.seed)
    attacks = [
        ("lines of 10 MB", long_lines, 24 if quick else 200, {"memory": 32 << 20}),
        ("a million notifications", notifications, 1_000_000, {"memory": 32 << 20}),
        ("changes as notifications", changes, 5_000 if quick else 50_000, {"memory": 64 << 20}),
        ("deep nesting", nesting, 300 if quick else 3_000, generator, {"memory": 32 << 20}),
        ("malformed lines", malformed, 10_000 if quick else 500_000, generator, {"memory": 64 << 20}),
        ("descriptors passed to the agent", descriptors, 5_000 if quick else 50_000, generator, {"memory": 32 << 20}),
    ]
    with Siege(options, SETTINGS) as siege:
        large_value(siege.agent.socket)
        siege.all(attacks)
        siege.print_times()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
