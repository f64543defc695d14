#!/usr/bin/env python3
"""One user goes as far as the limits per user let them, and another one notices nothing.

    connections         ten times as many as a user may have
    subscriptions       five times as many
    requests in flight  eight times as many
    unread replies      of a megabyte, by clients that never read
    unfinished lines    of nearly a megabyte, by clients that never finish them
    long requests       of half a megabyte, that wait for ever
    waiting batches     whose replies come to megabytes, and one of whose requests waits for ever
    long paths          of subscriptions, as long as a path may be, and of nearly a megabyte

Needs root, which alone can connect as others; without it only the last five are tried, as the user that it is. Prints a
line of each for the table, what agent.stats counted, and what the 99th percentile of a get was beside it:
p99 TAB attack TAB quiet µs TAB under attack µs TAB ratio TAB the ratio of a bystander that nobody attacks TAB the agent's
work for a get, quiet µs TAB under attack µs TAB ratio TAB gets, and of several rounds TAB the three ratios of each: the get's,
its work's, the bystander's.
"""

import contextlib
import json
import os
import select
import sys
import time

import larder_agent
from larder_attack import Siege, become, line, parser, raw

ATTACKER, WITNESS = 65534, 65533
QUEUED = 8 << 20
LIMITS = {
    "connections": 1000, "connectionsPerUser": 50, "subscriptionsPerUser": 200, "requestsInFlightPerUser": 64,
    "queuedBytesPerUser": QUEUED, "stallSeconds": 600,
}


def settings(is_root):
    others = {"socket": {"mode": "0666"}, "access": {"others": ["read"]}} if is_root else {}
    return {"limits": LIMITS, **others}


def lower(user):
    if user is not None:
        become(user)


def is_refusal(message, limit):
    error = message.get("error") or {}
    data = error.get("data") or {}
    return data.get("name") == "limitExceeded" and f"limits.{limit}" in data.get("detail", "")


def connections(talk, path, user):
    """As many as a user may have are served, and each of the others is told why not."""
    lower(user)
    count, allowed, served, told = 500, LIMITS["connectionsPerUser"], [], 0
    for _ in range(count):
        client = larder_agent.Client(path)
        try:
            with contextlib.suppress(larder_agent.ConnectionEnded):  # who is turned away may be told before that
                client.send({"id": 1, "method": "agent.ping"})
            message = client.message()
        except larder_agent.ConnectionEnded:
            client.close()
            continue
        if message.get("result") == {"pong": True}:
            served.append(client)
        else:
            told += is_refusal(message, "connectionsPerUser")
            client.close()
    for client in served:
        client.call("agent.ping")
        client.close()
    return {
        "attempts": count, "survived": min(len(served), allowed) + told - max(0, len(served) - allowed),
        "note": f"{len(served)} served, {told} turned away",
    }


def crowd(path, count=LIMITS["connectionsPerUser"]):
    """So many clients of a user, or as many as it may have, who are there now."""
    clients = []
    while len(clients) < count:
        client = larder_agent.Client(path)
        try:
            client.call("agent.ping")
            clients.append(client)
        except (larder_agent.AgentError, larder_agent.ConnectionEnded):
            # Those of the attack before are not all closed yet.
            client.close()
            time.sleep(0.05)
    return clients


def subscriptions(talk, path, user):
    lower(user)
    count = 5 * LIMITS["subscriptionsPerUser"]
    clients, opened, told = crowd(path), 0, 0
    for number in range(count):
        try:
            clients[number % len(clients)].subscribe(f"p{number}")
            opened += 1
        except larder_agent.AgentError as error:
            told += is_refusal({"error": error.error}, "subscriptionsPerUser")
    clients[0].call("config.unsubscribe", subscription=1)
    clients[1].subscribe("again")
    for client in clients:
        client.close()
    survived = min(opened, LIMITS["subscriptionsPerUser"]) + told
    return {"attempts": count, "survived": survived, "note": f"{opened} opened, {told} refused"}


def requests(talk, path, user):
    """Those that have a place wait, the others are told at once, and what needs no waiting is served meanwhile."""
    lower(user)
    clients, told = crowd(path), 0
    per_client = 10
    for client in clients:
        for _ in range(per_client):
            client.request("config.wait", path="never", exists=True)
        client.last = client.request("agent.ping")
    for client in clients:
        client.result(client.last)
        told += sum(is_refusal(message, "requestsInFlightPerUser") for message in client.early.values())
    waiting = per_client * len(clients) - told
    for client in clients:
        client.close()
    count = per_client * len(clients)
    return {"attempts": count, "survived": min(waiting, LIMITS["requestsInFlightPerUser"]) + told,
            "note": f"{waiting} waited, {told} refused"}


def unread(talk, path, user, seconds):
    """What is held for them has an end, and those who do not read are closed for others to be served."""
    lower(user)
    gone = taken = 0
    deadline = time.monotonic() + seconds
    streams = []
    while time.monotonic() < deadline:
        while len(streams) < 40:
            streams.append(raw(path, 4096))
            streams[-1].send(line(1, "config.get", path="large"))
            taken += 1
        poll = select.poll()
        for stream in streams:
            poll.register(stream, 0)
        over = {number for number, events in poll.poll(100) if events & (select.POLLHUP | select.POLLERR)}
        for stream in [stream for stream in streams if stream.fileno() in over]:
            stream.close()
            streams.remove(stream)
            gone += 1
    for stream in streams:
        stream.close()
    return {"attempts": taken, "survived": taken if gone else 0, "note": f"{gone} were closed for the others"}


def unfinished(talk, path, user, text, ending):
    """What is held for them has an end, and who goes on is told."""
    lower(user)
    streams, told, survived = [raw(path) for _ in range(40)], 0, 0
    for stream in streams:
        stream.setblocking(True)
        stream.settimeout(larder_agent.PATIENCE)
        stream.sendall(text)
    for stream in streams:
        stream.sendall(ending + b'{"id":"end","method":"agent.ping"}\n')
    for stream in streams:
        data = b""
        while not data.endswith(b"\n") or b'"end"' not in data:
            piece = stream.recv(65536)
            if not piece:
                break
            data += piece
        messages = [json.loads(one) for one in data.splitlines()]
        told += any(is_refusal(message, "queuedBytesPerUser") for message in messages)
        survived += bool(messages) and messages[-1].get("result") == {"pong": True}
    for stream in streams:
        stream.close()
    return {"attempts": len(streams), "survived": survived if told else 0, "note": f"{told} refused"}


def batches(talk, path, user):
    """The replies to a batch of which one waits are held, and have an end."""
    lower(user)
    clients = crowd(path, 40)
    requests = [{"id": 0, "method": "config.wait", "params": {"path": "never", "exists": True}}]
    requests += [{"id": number, "method": "config.get", "params": {"path": "large"}} for number in range(1, 9)]
    for client in clients:
        client.send(requests)
    survived = sum(client.call("agent.ping") == {"pong": True} for client in clients)
    told = clients[0].call("agent.stats")["refused"]["queuedBytes"]
    for client in clients:
        client.close()
    return {"attempts": len(clients), "survived": survived if told else 0, "note": f"{told} refused"}


def paths(talk, path, user):
    """What is subscribed to is held as long as the subscription is open, and has an end; some paths are too long for that."""
    lower(user)
    clients, opened, told = crowd(path, 40), 0, 0
    for number, client in enumerate(clients):
        for each in range(5):
            try:
                client.subscribe(f"{number}.{each}" + "x" * 65_000)
                opened += 1
            except larder_agent.AgentError as error:
                told += is_refusal({"error": error.error}, "queuedBytesPerUser")
        try:
            client.subscribe(f"{number}" + "x" * 900_000)
        except larder_agent.AgentError as error:
            # As the long line that it stands in, where too much is held already.
            told += error.error["data"]["name"] == "invalidParams" or is_refusal({"error": error.error}, "queuedBytesPerUser")
        client.call("agent.ping")
    for client in clients:
        client.close()
    attempts = 6 * len(clients)
    survived = opened + told if told > len(clients) else 0
    return {"attempts": attempts, "survived": survived, "note": f"{opened} opened, {told} refused"}


def main():
    words = parser(__doc__)
    options = words.parse_args()
    is_root = os.geteuid() == 0
    attacker = ATTACKER if is_root else None
    half = b'{"id":1,"method":"config.wait","params":{"path":"never","equals":"' + b"x" * 500_000
    attacks = [
        ("connections of one user", connections, attacker, {"memory": 16 << 20}),
        ("subscriptions of one user", subscriptions, attacker, {"memory": 16 << 20}),
        ("requests in flight of one user", requests, attacker, {"memory": 16 << 20}),
        ("unread replies of one user", unread, attacker, 6 if options.quick else 30, {"memory": QUEUED + (24 << 20)}),
        ("unfinished lines of one user", unfinished, attacker, b"x" * 900_000, b"\n", {"memory": QUEUED + (24 << 20)}),
        ("long requests of one user", unfinished, attacker, half + b'"}}\n', b"", {"memory": QUEUED + (24 << 20)}),
        # Blocks of a megabyte that come and go leave holes between each other.
        ("waiting batches of one user", batches, attacker, {"memory": QUEUED + (40 << 20)}),
        ("long paths of one user", paths, attacker, {"memory": QUEUED + (24 << 20)}),
    ]
    if not is_root:
        larder_agent.skip("connections, subscriptions and requests of one user", "only root can connect as another")
        attacks = attacks[3:]
    with Siege(options, settings(is_root), WITNESS if is_root else None) as siege:
        with siege.agent.connect() as client:
            client.call("config.set", path="large", value="x" * 1_000_000)
        siege.all(attacks)
        print("refused:", json.dumps(siege.agent.stats()["refused"]))
        siege.print_times()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
