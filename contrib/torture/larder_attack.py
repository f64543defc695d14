"""Attacks on an agent, and what a well-behaved client notices of them.

Attackers and the well-behaved client are processes of their own. What is measured is what the agent makes of an attack,
and not how the kernel shares processors among programs that want them all: so attackers have the last processor, and of
that what the well-behaved client leaves (SCHED_IDLE), and the agent has the others. (Inside of a system call not even such
an attacker makes way for a thread of the agent that the kernel has put behind it, beside an idle processor.) With --share
all have all of them, and what the kernel makes of it is measured too: on two processors mostly that.

The well-behaved client also asks a bystander, a bare loop that nobody attacks, in turns: what it waits longer for that one
is what the machine makes of the attack, which on a busy or a shared machine may be most of it. And it looks at how long the
agent works from a request to its answer, in processor time: that is what is before it in the agent's queue, and its own
request. A virtual machine's host may take its processors away for milliseconds, which counts as waiting but not as work.
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


def processor_clock(pid):
    """The clock of the processor time of all threads of a process; see clock_getcpuclockid(3)."""
    return ~pid << 3 | 2


class Place:
    """Where the well-behaved client runs: like everybody, or on the agent's processor and before it in turn (SCHED_FIFO), so
    that the agent does nothing else between its answer and the client's look at the clock."""

    def __init__(self, agent):
        self.everywhere = os.sched_getaffinity(0)
        self.agents = {min(os.sched_getaffinity(agent))}

    def before_the_agent(self):
        """Returns False where it may not."""
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            return False
        os.sched_setaffinity(0, self.agents)
        return True

    def like_everybody(self):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, self.everywhere)


def probe(talk, path, bystander, agent, seconds, user=None):
    """Asks for the known value, a request at a time, until the bell rings or the time is over. What it noticed, and how many
    answers were wrong. The bystander is asked in between; agent is a process."""
    place, clock = Place(agent), processor_clock(agent)
    waits, works, others, wrong = [], [], [], 0
    deadline = time.monotonic() + seconds if seconds else None
    request = json.dumps({"id": 1, "method": "config.get", "params": {"path": KNOWN["path"]}}).encode() + b"\n"
    expected = None

    def is_over():
        return talk.is_rung if deadline is None else time.monotonic() > deadline

    def ask(client, now, found):
        time.sleep(0.0005)
        began = now()
        client.send(request)
        line = client.line()
        found.append(now() - began)
        return line

    def check(line):
        nonlocal expected, wrong
        # Its revision may grow meanwhile, its value not.
        if line != expected:
            if json.loads(line).get("result", {}).get("value") != KNOWN["value"]:
                wrong += 1
            expected = line

    with contextlib.ExitStack() as stack:
        # A peer is who it was when it connected; this process stays who it is, who may set its place.
        with connecting_as(user):
            client, other = (stack.enter_context(larder_agent.Client(each)) for each in (path, bystander))
        while not is_over():
            for _ in range(20):
                check(ask(client, time.perf_counter, waits))
                ask(other, time.perf_counter, others)
            if place.before_the_agent():
                for _ in range(20):
                    check(ask(client, lambda: time.clock_gettime(clock), works))
                place.like_everybody()
    noticed = Noticed(*(percentile(each or [0.0], 99) for each in (waits, works, others)), len(waits))
    return {"noticed": noticed, "wrong": wrong}


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


@contextlib.contextmanager
def connecting_as(user):
    """Makes this process a user's for a while; None leaves it as it is."""
    if user is None or os.geteuid() == user:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


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
        """What the well-behaved client notices without an attack."""
        outcome = Child(probe, self.agent.socket, self.bystander.socket, self.agent.pid, QUIET_SECONDS, self.user).result()
        if outcome["wrong"]:
            raise larder_agent.Died("the known value was wrong before anything was attacked")
        return Noticed(*outcome["noticed"])

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
        quiet = self.measure_quiet()
        before = self.agent.memory().anonymous
        witness = Child(probe, self.agent.socket, self.bystander.socket, self.agent.pid, None, self.user)
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
            seen = {"noticed": (0.0, 0.0, 0.0, 0), "wrong": 1}
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
        row = Row(quiet, Noticed(*seen["noticed"]))
        self.rows.setdefault(name, []).append(row)
        note = (
            f"p99 {row.attacked.wait * 1e6:.0f} µs ({row.ratio('wait'):.1f} × quiet; a bystander's "
            f"{row.ratio('wait_for_bystander'):.1f}), {row.attacked.work * 1e6:.0f} µs of it work ({row.ratio('work'):.1f} ×), "
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
            wait, work, bystander = (median([row.ratio(what) for row in rounds]) for what in Noticed._fields[:3])
            fields = [
                *(f"{median([row[when].wait for row in rounds]) * 1e6:.0f}" for when in (0, 1)),
                *(f"{each:.2f}" for each in (wait, bystander)),
                *(f"{median([row[when].work for row in rounds]) * 1e6:.0f}" for when in (0, 1)),
                f"{work:.2f}",
                str(sum(row.attacked.gets for row in rounds)),
            ]
            if len(rounds) > 1:
                fields.append(" ".join("/".join(f"{row.ratio(what):.1f}" for what in Noticed._fields[:3]) for row in rounds))
            print("p99", name, *fields, sep="\t", flush=True)


class Noticed(typing.NamedTuple):
    """What the well-behaved client noticed: 99th percentiles in seconds, and how many gets the first is of."""

    wait: float
    # Processor time of the agent from the request to the answer; 0 where nobody may look.
    work: float
    wait_for_bystander: float
    gets: int


class Row(typing.NamedTuple):
    """What was noticed before an attack and beside it."""

    quiet: Noticed
    attacked: Noticed

    def ratio(self, what):
        """How many times the quiet value."""
        quiet = getattr(self.quiet, what)
        return getattr(self.attacked, what) / quiet if quiet else 0.0


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
