"""Attacks on an agent, and what a well-behaved client notices of them.

Attackers and the well-behaved client are processes of their own. What is measured is what the agent makes of an attack,
and not how the kernel shares processors among programs that want them all: so attackers have the last processor, and of
that what the well-behaved client leaves (SCHED_IDLE), and the agent has the others. (Inside of a system call not even such
an attacker makes way for a thread of the agent that the kernel has put behind it, beside an idle processor.) With --share
all have all of them, and what the kernel makes of it is measured too: on two processors mostly that.

The well-behaved client also asks a bystander, a bare loop that nobody attacks, in turns: what it waits longer for that one
is what the machine makes of the attack, which on a busy or a shared machine may be most of it.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import traceback
import typing

import larder_agent

# What the well-behaved client asks for, and what has to come.
KNOWN = {"path": "known.value", "value": "as it was set"}
QUIET_SECONDS = 1.5


def stand_aside():
    """Takes what others leave of the last processor, and nothing of the others."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def leave_the_last(pid):
    """Keeps the threads of a process, and those that they start, off the last processor, where there is another one."""
    others = sorted(os.sched_getaffinity(0))[:-1]
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir() if others else []:
        with contextlib.suppress(ProcessLookupError):  # one that has ended
            os.sched_setaffinity(int(thread.name), others)


class Child:
    """A function in a process of its own. It is given a Talk, and what it returns is the result."""

    def __init__(self, function, *arguments, nice=0):
        self.reader, writer = os.pipe()
        self.bell, ring = os.pipe()
        self.buffer = b""
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.close(self.reader)
                os.close(ring)
                os.nice(nice)
                result = function(Talk(writer, self.bell), *arguments)
                os.write(writer, json.dumps({"result": result}).encode() + b"\n")
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        os.close(self.bell)
        self.bell = ring

    def _message(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            readable, _, _ = select.select([self.reader], [], [], max(0, deadline - time.monotonic()))
            if not readable:
                raise larder_agent.Hang(f"process {self.pid} said nothing for {seconds:g} s")
            data = os.read(self.reader, 1 << 16)
            if not data:
                raise larder_agent.Died(f"process {self.pid} failed; see above")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def wait_for_word(self, seconds=larder_agent.PATIENCE):
        """Waits until it calls say()."""
        return self._message(seconds)["said"]

    def ring_bell(self):
        """Lets it go on that waits in Talk.wait(), or end; it may have ended already."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.bell, b"x")

    def result(self, seconds=600):
        """What it returned."""
        try:
            while True:
                message = self._message(seconds)
                if "result" in message:
                    return message["result"]
        finally:
            self.end()

    def end(self):
        """Ends it, if it still runs."""
        if self.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None
        os.close(self.reader)
        os.close(self.bell)


class Talk:
    """How the function in a child speaks with who started it."""

    def __init__(self, writer, bell):
        self.writer, self.bell = writer, bell

    def say(self, something=True):
        os.write(self.writer, json.dumps({"said": something}).encode() + b"\n")

    @property
    def is_rung(self):
        return bool(select.select([self.bell], [], [], 0)[0])

    def wait(self, seconds=600):
        """Waits for ring_bell()."""
        if not select.select([self.bell], [], [], seconds)[0]:
            raise larder_agent.Hang("nobody rang")


# --- The well-behaved client -----------------------------------------------------------------------------------


class Bystander:
    """The bare loop of contrib/benchmarks/floor, which answers every line and which nobody attacks."""

    def __init__(self, directory):
        program = directory / "bystander"
        source = pathlib.Path(__file__).resolve().parent.parent / "benchmarks/floor/floor.c"
        subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        self.socket = directory / "bystander.sock"
        self.process = subprocess.Popen([program, self.socket])
        larder_agent.eventually(self.listens, "the bystander listens")
        self.socket.chmod(0o666)

    def listens(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.socket))
            return True
        return False

    def end(self):
        self.process.kill()
        self.process.wait()


def probe(talk, path, bystander, seconds, user=None):
    """Asks for the known value, a request at a time, until the bell rings or the time is over: the times in seconds, and
    those of the bystander, who is asked in between."""
    if user is not None:
        become(user)
    times, others, wrong = [], [], 0
    deadline = time.monotonic() + seconds if seconds else None
    request = json.dumps({"id": 1, "method": "config.get", "params": {"path": KNOWN["path"]}}).encode() + b"\n"
    expected = None

    def ask(client, times):
        time.sleep(0.0005)
        began = time.perf_counter()
        client.send(request)
        line = client.line()
        times.append(time.perf_counter() - began)
        return line

    with larder_agent.Client(path) as client, larder_agent.Client(bystander) as other:
        while not (talk.is_rung if deadline is None else time.monotonic() > deadline):
            line = ask(client, times)
            # Its revision may grow meanwhile, its value not.
            if line != expected:
                if json.loads(line).get("result", {}).get("value") != KNOWN["value"]:
                    wrong += 1
                expected = line
            ask(other, others)
    return {"times": times, "others": others, "wrong": wrong}


def again(talk, seconds, function, *arguments):
    """Does something until some time has passed, at least once; what was tried and survived is added up."""
    total, times, end = {"attempts": 0, "survived": 0}, 0, time.monotonic() + seconds
    while times == 0 or time.monotonic() < end:
        found = function(talk, *arguments)
        times += 1
        for key in total:
            total[key] += found[key]
    notes = ([f"{times} times"] if times > 1 else []) + ([found["note"]] if found.get("note") else [])
    return {**total, "note": ", ".join(notes)}


def aside(talk, *arguments):
    """The same as again(), as one who takes no processor from anybody."""
    stand_aside()
    return again(talk, *arguments)


def become(user):
    """Makes this process a user's; only root can."""
    if os.geteuid() == user:
        return
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


# --- Attacks ---------------------------------------------------------------------------------------------------


class Siege:
    """An agent under attack after attack, and the well-behaved client beside each."""

    def __init__(self, options, settings, user=None):
        self.agent = larder_agent.Agent(options.larderd, settings=settings, keep=options.keep)
        self.user = user
        self.share = options.share
        # A percentile of a few gets says nothing.
        self.shortest = 2.0 if options.quick else 10.0
        self.rounds = options.rounds
        self.only = options.only
        self.rows = {}

    def __enter__(self):
        self.bystander = Bystander(self.agent.directory)
        try:
            self.agent.__enter__()
            self.agent.directory.chmod(0o711)
            if not self.share:
                leave_the_last(self.agent.pid)
            with self.agent.connect() as client:
                client.call("config.set", **KNOWN)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *problem):
        self.bystander.end()
        if self.agent.process is not None and not self.agent.is_running:
            print(f"the agent's last words:\n{self.agent.last_words()}", file=sys.stderr)
            self.agent.kill()
        return self.agent.__exit__(*problem)

    def measure_quiet(self):
        """The well-behaved client without an attack: the 99th percentiles in seconds, and of the bystander."""
        outcome = Child(probe, self.agent.socket, self.bystander.socket, QUIET_SECONDS, self.user).result()
        if outcome["wrong"]:
            raise larder_agent.Died("the known value was wrong before anything was attacked")
        return percentile(outcome["times"], 99), percentile(outcome["others"], 99)

    def all(self, attacks):
        """Runs each of the attacks that were asked for, in turn, as many times as there are rounds.

        attacks: for each its name, the function, its arguments, and what else attack() is told, as a dictionary.
        """
        for _ in range(self.rounds):
            for name, function, *arguments, bounds in attacks:
                if self.only in name:
                    self.attack(name, function, *arguments, **bounds)

    def attack(self, name, function, *arguments, memory=None):
        """Runs an attack in a process of its own, with the well-behaved client beside it, until that one has seen enough.

        function: is given a Talk, the agent's socket and the arguments; calls say() once the attack is under way, and
        returns what it found: "attempts" and "survived", and "note" if there is something to tell. What is left open
        must be closed by its end.
        memory: what the agent's own memory may grow by, in bytes, while it is attacked.
        """
        if not self.agent.is_running:
            print(f"{name}: the agent crashed before it", file=sys.stderr)
            return larder_agent.report(name, 1, 0)
        files = self.settled_files()
        quiet, quiet_bystander = self.measure_quiet()
        before = self.agent.memory().anonymous
        witness = Child(probe, self.agent.socket, self.bystander.socket, None, self.user)
        words = (self.shortest, function, str(self.agent.socket), *arguments)
        attacker = Child(again, *words, nice=10) if self.share else Child(aside, *words)
        found, most = None, before
        try:
            sampler = Sampler(self.agent.pid)
            found = attacker.result()
            most = sampler.stop()
            witness.ring_bell()
            seen = witness.result()
        except (larder_agent.Hang, larder_agent.Died) as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            seen = {"times": [0.0], "others": [0.0], "wrong": 1}
        finally:
            attacker.end()
            witness.end()
        problems = []
        if found is None:
            found = {"attempts": 1, "survived": 0}
            problems.append("the attack did not end as it should")
        if seen["wrong"]:
            problems.append(f"{seen['wrong']} wrong or missing answers of the well-behaved client")
        if not self.agent.is_running or self.agent.crashed():
            problems.append("the agent crashed")
        else:
            if memory is not None and most > before + memory:
                problems.append(f"{(most - before) >> 20} MiB more in memory, {memory >> 20} MiB allowed")
            if self.settled_files(files) > files:
                problems.append(f"{self.settled_files() - files} descriptors were leaked")
        lost = found["attempts"] - found["survived"] + len(problems)
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)
        p99, of_bystander = percentile(seen["times"], 99), percentile(seen["others"], 99)
        row = Row(quiet, p99, quiet_bystander, of_bystander, len(seen["times"]))
        self.rows.setdefault(name, []).append(row)
        note = (
            f"p99 {p99 * 1e6:.0f} µs ({row.ratio:.1f} × quiet; a bystander's {row.bystander_ratio:.1f}), "
            f"memory {before >> 20} → {most >> 20} MiB"
            + (f"; {found['note']}" if found.get("note") else "")
        )
        larder_agent.report(name, found["attempts"], found["survived"], lost, note)
        return found

    def settled_files(self, wanted=None):
        """How many descriptors the agent has, once those of connections that ended are closed."""
        with contextlib.suppress(larder_agent.Hang):
            larder_agent.eventually(lambda: self.agent.stats()["connections"]["open"] == 1, "all connections are closed")
        with contextlib.suppress(larder_agent.Hang):
            if wanted is not None:
                larder_agent.eventually(lambda: self.agent.descriptors() <= wanted, "descriptors are closed", 10)
        return self.agent.descriptors()

    def print_times(self):
        """What the well-behaved client noticed, as lines for people and programs: of several rounds the medians, and each ratio."""
        for name, rounds in self.rows.items():
            quiet, p99 = (median([getattr(row, each) for row in rounds]) * 1e6 for each in ("quiet", "attacked"))
            ratios = (median([getattr(row, each) for row in rounds]) for each in ("ratio", "bystander_ratio"))
            ratio, bystander = (f"{each:.2f}" for each in ratios)
            gets = sum(row.gets for row in rounds)
            each = "\t" + " ".join(f"{row.ratio:.1f}/{row.bystander_ratio:.1f}" for row in rounds) if len(rounds) > 1 else ""
            print(f"p99\t{name}\t{quiet:.0f}\t{p99:.0f}\t{ratio}\t{bystander}\t{gets}{each}", flush=True)


class Row(typing.NamedTuple):
    """The 99th percentiles of an attack and of the time before it, in seconds."""

    quiet: float
    attacked: float
    quiet_bystander: float
    attacked_bystander: float
    gets: int

    @property
    def ratio(self):
        return self.attacked / self.quiet

    @property
    def bystander_ratio(self):
        return self.attacked_bystander / self.quiet_bystander


class Sampler:
    """Looks at the memory of a process ever so often."""

    def __init__(self, pid):
        self.pid, self.most, self.is_over = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over.wait(0.02):
            with contextlib.suppress(OSError, KeyError):
                self.most = max(self.most, larder_agent.memory(self.pid).anonymous)

    def stop(self):
        """The most of its own memory that it had."""
        self.is_over.set()
        self.thread.join()
        return self.most


def parser(text):
    """The options that all attacks have."""
    parser = larder_agent.parser(text)
    parser.add_argument("--quick", action="store_true", help="a few seconds of each")
    parser.add_argument("--only", metavar="WORD", default="", help="the attacks with this word in their names")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="all of them so often; the ratio is the median then")
    parser.add_argument("--share", action="store_true", help="everybody has all processors, attackers and the agent too")
    return parser


# --- What attackers use ----------------------------------------------------------------------------------------


def raw(path, buffer=None):
    """A connected socket that waits for nothing."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if buffer:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    # The queue of connections that wait to be accepted may be full, for which connect(2) waits, unlike a connect that does not.
    stream.connect(path)
    stream.setblocking(False)
    return stream


def line(id, method, /, **params):
    """A request as a line."""
    return json.dumps({"id": id, "method": method, "params": params}, separators=(",", ":")).encode() + b"\n"


def median(values):
    return statistics.median(values) if values else 0
