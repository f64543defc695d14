#!/usr/bin/env python3
"""Puts load on the agent with readers, a writer and subscribers, all of which reconnect when the agent closes a connection.

Prints "running" once all of them have had a reply, runs until its standard input ends, and prints its counts as one JSON
object. A request is lost if it cannot be sent for lack of a connection, or if the reply is an error or does not arrive. If
its connection is closed, it is retried on a new one. The writer sets the next value when every subscriber has the previous
one, so each subscriber must see each revision of the writer; one that it does not see is counted as missed.
"""

import argparse
import json
import sys
import threading
import time

from larder_client import AgentError
from larder_client.testing import Connection

MISSED_AFTER = 30  # seconds after which a revision that a subscriber has not seen counts as missed


class Load:
    """The state that the threads share."""

    def __init__(self):
        self.stop_writer = threading.Event()  # set first, so that the last revision still reaches all subscribers
        self.stop = threading.Event()
        self.changed = threading.Condition()
        self.counts = dict.fromkeys(("requests", "retried", "lost", "wentBack", "writes", "events", "resumed", "missed"), 0)
        self.faults = []
        self.longest = 0.0
        self.answered = 0
        self.first = self.last = None  # revisions of the writer
        self.epochs = set()

    def count(self, name, fault=None):
        with self.changed:
            self.counts[name] += 1
            if fault is not None and len(self.faults) < 10:
                self.faults.append(fault)

    def began(self):
        with self.changed:
            self.answered += 1
            self.changed.notify_all()


class Client:
    """A client that retries a request if its connection is closed."""

    def __init__(self, load, keeps_connection):
        self.load, self.keeps_connection, self.connection = load, keeps_connection, None

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def call(self, method, **params):
        """Returns the result of a request, or None if it is lost."""
        began = time.monotonic()
        try:
            while True:
                try:
                    if not self.connection:
                        self.connection = Connection()
                except OSError as fault:
                    self.load.count("lost", f"connect: {fault}")
                    time.sleep(0.05)
                    return None
                try:
                    result = self.connection.call(method, **params)
                    self.load.count("requests")
                    return result
                except AgentError as fault:
                    self.load.count("lost", f"{method}: {fault}")
                    return None
                except (ConnectionError, TimeoutError) as fault:
                    self.close()
                    if isinstance(fault, TimeoutError):
                        self.load.count("lost", f"{method}: {fault}")
                        return None
                    self.load.count("retried")
        finally:
            if not self.keeps_connection:
                self.close()
            with self.load.changed:
                self.load.longest = max(self.load.longest, time.monotonic() - began)


def read(load, keeps_connection):
    """Reads the counter repeatedly. Neither its value nor the revision may decrease."""
    client, revision, value = Client(load, keeps_connection), 0, 0
    first = True
    while not load.stop.is_set():
        result = client.call("config.get", path="load.counter")
        if result is None:
            continue
        if result["revision"] < revision or result["value"] < value:
            load.count("wentBack", f"{result['revision']} after {revision}, value {result['value']} after {value}")
        revision, value = result["revision"], result["value"]
        if first:
            first = False
            load.began()
    client.close()


class Subscriber:
    """Subscribes to the counter. After a disconnect, it resubscribes from the revision that it has."""

    def __init__(self, load):
        self.load, self.value, self.position = load, None, {}

    def follow(self):
        began = False
        while not self.load.stop.is_set():
            try:
                with Connection() as connection:
                    connection.call("config.subscribe", path="load.counter", **self.position)
                    if began:
                        self.load.count("resumed")
                    self.listen(connection, self.load.began if not began else None)
            except TimeoutError:
                self.load.count("lost", "a subscriber had no reply in time")
            except AgentError as fault:
                self.load.count("lost", f"config.subscribe: {fault}")
            except ConnectionError as fault:
                if isinstance(fault, (ConnectionRefusedError, FileNotFoundError)):
                    self.load.count("lost", f"connect: {fault}")
            except OSError as fault:
                self.load.count("lost", f"connect: {fault}")
            began = True

    def listen(self, connection, first):
        sequence = 0
        while not self.load.stop.is_set():
            if first and self.value is not None:
                first()
                first = None
            try:
                event = connection.event(0.5)
            except TimeoutError:
                continue
            sequence += 1
            if event["sequence"] != sequence:
                self.load.count("missed", f"event {event['sequence']} instead of {sequence}")
            if event["kind"] == "end":
                return
            if event["revision"] <= self.position.get("since", -1):
                self.load.count("wentBack", f"event of revision {event['revision']} after {self.position['since']}")
            with self.load.changed:
                self.load.counts["events"] += 1
                self.load.epochs.add(event["epoch"])
                self.value = event.get("value")
                self.position = {"since": event["revision"], "epoch": event["epoch"]}
                self.load.changed.notify_all()


def change(load, subscribers):
    """Changes the counter whenever every subscriber has its current value."""
    client, value = Client(load, keeps_connection=True), 0
    first = True
    while not load.stop_writer.is_set():
        value += 1
        result = client.call("config.set", path="load.counter", value=value)
        if result is None:
            value -= 1
            continue
        with load.changed:
            load.counts["writes"] += 1
            load.first = load.first or result["revision"]
            load.last = result["revision"]
            end = time.monotonic() + MISSED_AFTER
            while True:
                late = [one for one in subscribers if one.value != value]
                if not late or time.monotonic() > end:
                    break
                load.changed.wait(1)
            load.counts["missed"] += len(late)
            if late:
                load.faults.append(f"{len(late)} subscribers did not see revision {result['revision']}")
        if first:
            first = False
            load.began()
    client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=16)
    parser.add_argument("--subscribers", type=int, default=32)
    arguments = parser.parse_args()
    load = Load()
    Client(load, keeps_connection=False).call("config.set", path="load.counter", value=0)
    subscribers = [Subscriber(load) for _ in range(arguments.subscribers)]
    threads = [threading.Thread(target=one.follow) for one in subscribers]
    threads += [threading.Thread(target=read, args=(load, number % 2 == 0)) for number in range(arguments.readers)]
    writer = threading.Thread(target=change, args=(load, subscribers))
    for thread in threads + [writer]:
        thread.start()
    with load.changed:
        load.changed.wait_for(lambda: load.answered >= len(threads) + 1, timeout=60)
    print("running", flush=True)
    sys.stdin.read()
    load.stop_writer.set()
    writer.join()
    load.stop.set()
    for thread in threads:
        thread.join()
    report = load.counts | {"longestMilliseconds": round(load.longest * 1000), "faults": load.faults}
    report |= {"firstRevision": load.first, "lastRevision": load.last, "epochs": sorted(load.epochs)}
    report |= {"readers": arguments.readers, "subscribers": arguments.subscribers}
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
