#!/usr/bin/env python3
"""Limits an agent's memory by a control group, and gives it more than fits: large documents, and clients that do not read.

It may refuse, and the kernel may end it; what it acknowledged has to be there at the next start, and nothing else in its
place. Without control groups that can be written, its address space is limited instead (prlimit(1)).
"""

import json
import os
import pathlib
import random
import sys

import larder_agent


class Group:
    """A control group with a limit of memory, of either version of them."""

    def __init__(self, megabytes):
        name = f"larder-torture.{os.getpid()}"
        first, second = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        if (first / "memory.limit_in_bytes").exists():
            self.path = first / name
            self.path.mkdir()
            self.write("memory.limit_in_bytes", megabytes << 20)
            self.write("memory.memsw.limit_in_bytes", megabytes << 20)
        elif "memory" in (second / "cgroup.controllers").read_text().split():
            self.path = second / name
            self.path.mkdir()
            if not (self.path / "memory.max").exists():
                self.path.rmdir()
                raise OSError("the controller of memory is not given to groups below")
            self.write("memory.max", megabytes << 20)
            self.write("memory.swap.max", 0)
        else:
            raise OSError("there is no controller of memory")

    def write(self, name, value):
        try:
            (self.path / name).write_text(str(value))
        except FileNotFoundError:
            pass  # a kernel that does not count swap

    def enter(self):
        """Called in the child that becomes the agent."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self):
        """How often the kernel ended somebody for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            if (self.path / name).exists():
                for line in (self.path / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def remove(self):
        try:
            larder_agent.eventually(lambda: not (self.path / "cgroup.procs").read_text(), "the group is empty", 10)
            self.path.rmdir()
        except (OSError, larder_agent.Hang):
            pass


class Trial:
    def __init__(self, agent, generator):
        self.agent, self.generator = agent, generator
        self.acknowledged, self.asked = {}, {}
        self.problems, self.attempts, self.refused, self.ended = [], 0, 0, 0

    def write(self, client, name, value):
        """Sets a member, whose fate is unknown where the agent ends before it answers."""
        self.attempts += 1
        self.asked[name] = value
        try:
            client.call("config.set", path=name, value=value)
            self.acknowledged[name] = value
        except larder_agent.AgentError as error:
            self.asked.pop(name, None)
            if name in self.acknowledged:
                self.asked[name] = self.acknowledged[name]
            self.refused += 1
            if error.name not in ("storageFailed", "rejected", "limitExceeded", "lineTooLong"):
                self.problems.append(f"config.set {name}: {error}")

    def compare(self):
        self.attempts += 1
        with self.agent.connect() as client:
            for name in set(self.asked) | set(self.acknowledged):
                try:
                    value = client.call("config.get", path=name)["value"]
                except larder_agent.AgentError as error:
                    value = None if error.name == "notFound" else error
                # What was asked and not answered may be there, or not.
                if value not in (self.acknowledged.get(name), self.asked.get(name)):
                    self.problems.append(f"{name} is {json.dumps(value)[:80]}, which it was not set to")

    def round(self, step):
        """Some of everything, until it is too much."""
        listeners = []
        try:
            with self.agent.connect() as client:
                self.write(client, f"small{step}", {"n": step})
            for _ in range(self.generator.randrange(20, 120)):
                listener = self.agent.connect()
                listeners.append(listener)
                listener.send({"id": 1, "method": "config.subscribe", "params": {}})
            with self.agent.connect() as client:
                for number in range(4):
                    text = "w" * self.generator.randrange(100_000, 900_000)
                    self.write(client, f"large{number}", {"text": text, "n": step})
                self.write(client, f"small{step}", {"n": step, "again": True})
                # Each answer is the whole document, and nobody reads one.
            for listener in listeners:
                for number in range(20):
                    listener.send({"id": number + 2, "method": "config.get", "params": {}})
            with self.agent.connect() as client:
                self.write(client, f"last{step}", step)
        except (larder_agent.ConnectionEnded, ConnectionRefusedError, FileNotFoundError, larder_agent.Hang, OSError):
            pass
        finally:
            for listener in listeners:
                listener.close()

    def run(self, rounds):
        for step in range(rounds):
            if not self.agent.is_running:
                self.start()
            self.round(step)
            if self.agent.process.poll() is None and step % 4 != 3:
                try:
                    self.compare()
                    continue
                except (larder_agent.ConnectionEnded, larder_agent.Hang, OSError):
                    pass
            self.judge_end()
            self.start()
            try:
                self.compare()
            except (larder_agent.ConnectionEnded, larder_agent.Hang, OSError):
                self.judge_end()
                self.start()

    def judge_end(self):
        """It was ended by the kernel, or for want of memory by itself; or it still runs and is ended here."""
        if self.agent.is_running:
            # The kernel may be at it; it takes its time.
            self.agent.kill()
            return
        self.ended += 1
        self.agent.kill()

    def start(self):
        """As a service manager does: again and again. It has to come back."""
        for _ in range(5):
            try:
                self.agent.start()
                return
            except (larder_agent.Died, larder_agent.Hang):
                self.agent.kill()
        self.problems.append(f"it does not come back:\n{self.agent.last_words()}")
        raise SystemExit("the agent does not come back")


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="4 rounds")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="how often it is given too much (30)")
    parser.add_argument("--megabytes", type=int, default=64, metavar="N", help="what it may have (64)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.rounds = options.rounds or (4 if options.quick else 30)
    group = None
    try:
        group = Group(options.megabytes)
        before, prefix, kind = group.enter, (), "a control group"
    except OSError as problem:
        larder_agent.skip("a control group", f"{problem}; its address space is limited")
        before, prefix, kind = None, ["prlimit", f"--as={options.megabytes * 16 << 20}"], "prlimit"
    agent = larder_agent.Agent(options.larderd, before=before, prefix=prefix)
    trial = Trial(agent, random.Random(options.seed))
    try:
        trial.start()
        trial.run(options.rounds)
        agent.kill()
        # And with all the memory there is.
        agent.before, agent.prefix = None, []
        trial.start()
        trial.compare()
        agent.stop()
    finally:
        agent.kill()
        kills = group.kills() if group else trial.ended
        if group:
            group.remove()
    for problem in trial.problems[:10]:
        print(f"lost: {problem}", file=sys.stderr)
    agent.remove()
    larder_agent.report(f"{options.megabytes} MB of memory by {kind}", trial.attempts, trial.attempts - len(trial.problems),
                        note=f"{trial.refused} refused, ended {trial.ended} times, {kills} by the kernel")
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
