#!/usr/bin/env python3
"""Sets the time of day back, and forth, under an agent that runs and between two starts.

The clock is the agent's alone (clock.c). Revisions go by no clock, so they have to grow all the same and name what they named;
an override with a time to live has to end after that time as it was lived through, and not a day later; what is told of
times has to be readable; images have to be right.
"""

import datetime
import pathlib
import struct
import sys
import tempfile
import time

import larder_agent
from known_state import Origin, compiled, image_problem

DAY = 86400


class Clock:
    """The agent's time of day."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "clock"
        self.set(0)

    def set(self, seconds):
        with open(self.path, "r+b" if self.path.exists() else "w+b") as file:
            file.write(struct.pack("<q", seconds))


class Trial:
    def __init__(self, options, origin, library, directory):
        self.clock, self.origin = Clock(directory), origin
        self.agent = larder_agent.Agent(
            options.larderd, environment={"LD_PRELOAD": str(library), "LARDER_CLOCK_FILE": str(self.clock.path)},
            settings={"images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0},
                      "namespaces": {"default": {}, "loose": {"durability": "relaxed"}}})
        self.seen, self.values, self.problems, self.attempts = {}, {"default": {}, "loose": {}}, [], 0
        self.last = {"default": 0, "loose": 0}
        self.number = 0

    def look(self, when, namespaces=("default", "loose")):
        """What is served is what was set, under a revision that never was another and never goes back."""
        with self.agent.connect() as client:
            for namespace in namespaces:
                self.attempts += 1
                reply = client.call("config.get", namespace=namespace)
                key = (namespace, reply["epoch"], reply["revision"])
                if reply["value"] != self.values[namespace]:
                    self.problems.append(f"{when}: {namespace} is {reply['value']}, not {self.values[namespace]}")
                if self.seen.setdefault(key, reply["value"]) != reply["value"]:
                    self.problems.append(f"{when}: revision {reply['revision']} of {namespace} was given twice")
                if reply["revision"] < self.last[namespace]:
                    self.problems.append(f"{when}: {namespace} went back to revision {reply['revision']}")
                self.last[namespace] = reply["revision"]
                self.tell(client, namespace, when)
            for number in (1, 2):
                self.attempts += 1
                problem = image_problem(client, self.origin.url(number), number)
                if problem:
                    self.problems.append(f"{when}: {problem}")

    def tell(self, client, namespace, when):
        """What is told of times."""
        history = [generation["revision"] for generation in client.call("config.history", namespace=namespace)["generations"]]
        if history != sorted(set(history), reverse=True):
            self.problems.append(f"{when}: the history of {namespace} is {history}")
        status = client.call("config.status", namespace=namespace)
        for name, value in status.items():
            if "illiseconds" in name and isinstance(value, (int, float)) and value < 0:
                self.problems.append(f"{when}: {name} is {value}")
        client.call("config.explain", namespace=namespace)
        info = client.call("agent.info")
        if not 0 <= info["uptimeMilliseconds"] < 3_600_000:
            self.problems.append(f"{when}: up for {info['uptimeMilliseconds']} ms")
        datetime.datetime.fromisoformat(info["startedAt"].replace("Z", "+00:00"))

    def set(self):
        self.number += 1
        with self.agent.connect() as client:
            for namespace in self.values:
                client.call("config.set", namespace=namespace, path="n", value=self.number)
                self.values[namespace] = {"n": self.number}

    def limited(self, seconds):
        """Sets an override that ends by itself; `ended` waits for that."""
        with self.agent.connect() as client:
            client.call("config.set", path="limited", value=True, ttlMilliseconds=int(seconds * 1000))

    def ended(self, when):
        # A wait of the agent's, which has to look again at least once a minute.
        self.attempts += 1
        with self.agent.connect() as client:
            try:
                client.call("config.wait", path="limited", exists=False, timeoutMilliseconds=100_000)
            except larder_agent.AgentError as error:
                self.problems.append(f"{when}: the override did not end: {error}")
                client.call("config.unset", path="limited")


def step(options, origin, library, seconds, is_running):
    name = f"clock set {'back' if seconds < 0 else 'forth'} a day {'while it runs' if is_running else 'while it is stopped'}"
    with tempfile.TemporaryDirectory(prefix="larder-clock.") as directory:
        trial = Trial(options, origin, library, directory)
        agent = trial.agent
        try:
            agent.start()
            for _ in range(3):
                trial.set()
                trial.look("before")
            if is_running:
                trial.limited(2)
                trial.clock.set(seconds)
                if seconds < 0:
                    trial.ended("after the step")
                else:
                    trial.ended("after the step forth")
            else:
                agent.stop()
                trial.clock.set(seconds)
                agent.start()
            trial.look("after the step")
            for _ in range(3):
                trial.set()
                trial.look("after the step, changed")
            trial.limited(1.5)
            time.sleep(0.2)
            trial.ended("set after the step")
            # The machine's crash: what is published is on disk, or its number is.
            agent.kill()
            agent.start()
            with agent.connect() as client:
                trial.values["loose"] = client.call("config.get", namespace="loose")["value"]
            trial.look("after a crash", namespaces=("default",))
            trial.look("after a crash")
            trial.clock.set(0)
            trial.set()
            trial.look("set right while it runs")
            agent.stop()
            agent.start()
            trial.look("at the end")
            agent.stop()
        except (larder_agent.AgentError, larder_agent.Died, larder_agent.Hang, larder_agent.ConnectionEnded, OSError) as problem:
            trial.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            agent.kill()
        if agent.crashed():
            trial.problems.append("a crash")
        for problem in trial.problems:
            print(f"lost: {name}: {problem}", file=sys.stderr)
        if trial.problems:
            print(agent.last_words(), file=sys.stderr)
        agent.remove()
        larder_agent.report(name, trial.attempts, trial.attempts - len(trial.problems))


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="only back")
    options = parser.parse_args()
    origin = Origin()
    with tempfile.TemporaryDirectory(prefix="larder-clock.") as directory:
        library = compiled("clock.c", directory)
        for seconds in (-DAY,) if options.quick else (-DAY, DAY):
            for is_running in (True, False):
                step(options, origin, library, seconds, is_running)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
