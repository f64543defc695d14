#!/usr/bin/env python3
"""Readers, a writer and subscribers that all go on when the agent closes their connections.

Prints "running" once all of them have been answered, works until its standard input ends, and prints what it counted
as one JSON object. A request is lost when no connection can be made for it or when it is answered with an error; one
whose connection was closed is asked again on a new one. The writer sets the next value only when every subscriber has
seen the last: so each of them must see each of its revisions, or it is counted as missed.
"""

import argparse
import json
import sys
import threading
import time

from larder_client import AgentError, Connection

GIVE_UP = 30  # seconds until a revision that a subscriber has not seen counts as missed


class Load:
    """What the threads share."""

    def __init__(self):
        self.enough = threading.Event()  # the writer ends first, so that its last revision still reaches everybody
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
    """Asks until it has an answer."""

    def __init__(self, load, keeps):
        self.load, self.keeps, self.connection = load, keeps, None

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def call(self, method, **params):
        """The result; None when the request is lost, or when it is time to stop and the agent has not come back."""
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
            if not self.keeps:
                self.close()
            with self.load.changed:
                self.load.longest = max(self.load.longest, time.monotonic() - began)


def read(load, keeps):
    """Reads the counter for as long as the load lasts; neither it nor the revision may go back."""
    client, revision, value = Client(load, keeps), 0, 0
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
    """Subscribes, and again with what it holds whenever it is ended."""

    def __init__(self, load):
        self.load, self.value, self.held = load, None, {}

    def follow(self):
        began = False
        while not self.load.stop.is_set():
            try:
                with Connection() as connection:
                    connection.call("config.subscribe", path="load.counter", **self.held)
                    if began:
                        self.load.count("resumed")
                    self.listen(connection, self.load.began if not began else None)
            except TimeoutError:
                self.load.count("lost", "a subscriber was not answered")
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
                self.load.count("missed", f"event {event['sequence']} in place of {sequence}")
            if event["kind"] == "end":
                return
            if event["revision"] <= self.held.get("since", -1):
                self.load.count("wentBack", f"event of {event['revision']} after {self.held['since']}")
            with self.load.changed:
                self.load.counts["events"] += 1
                self.load.epochs.add(event["epoch"])
                self.value = event.get("value")
                self.held = {"since": event["revision"], "epoch": event["epoch"]}
                self.load.changed.notify_all()


def change(load, subscribers):
    """Sets the next value once every subscriber has the last."""
    client, value = Client(load, keeps=True), 0
    first = True
    while not load.enough.is_set():
        value += 1
        result = client.call("config.set", path="load.counter", value=value)
        if result is None:
            value -= 1
            continue
        with load.changed:
            load.counts["writes"] += 1
            load.first = load.first or result["revision"]
            load.last = result["revision"]
            end = time.monotonic() + GIVE_UP
            while True:
                late = [one for one in subscribers if one.value != value]
                if not late or time.monotonic() > end:
                    break
                load.changed.wait(1)
            load.counts["missed"] += len(late)
            if late:
                load.faults.append(f"revision {result['revision']} was not seen by {len(late)} subscribers")
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
    Client(load, keeps=False).call("config.set", path="load.counter", value=0)
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
    load.enough.set()
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
