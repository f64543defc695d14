#!/usr/bin/env python3
"""Lets each system call on the state and the cache fail once, in turn, and looks at what an agent makes of it.

A run is: a copy of a state of which everything is known, a start, changes and images with their acknowledgements, a stop (in
every third run a SIGKILL), and another start without a failure. In each run one call fails, once: the first write(2), the
second, and so on until there are no more, then the same for open, fsync, rename, ..., each with EIO, ENOSPC, EDQUOT, EINTR
and, for a write, with half of it written. What was acknowledged has to be there afterwards; what was refused has to have
been refused with an error that says what to do, and must not be there; a start that is refused has to say why.

The calls are made to fail by faults.c, where the C library would make them; that it sees all of them is checked against
strace(1). --strace lets strace do the same at the boundary of the kernel, where it counts the calls of each thread.
"""

import collections
import concurrent.futures
import errno
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import larder_agent
from known_state import (
    KnownState, NAMESPACES, Origin, canonical, compiled, image_problem, keep_epoch, settings)

SHORT = "half"  # no error number: a write(2) that takes half of what it is given
READING = ("EIO", "EINTR")
WRITING = ("EIO", "ENOSPC", "EDQUOT", "EINTR")
KINDS = {
    "write": WRITING + (SHORT,), "fsync": WRITING, "rename": WRITING, "open": WRITING, "mkdir": WRITING, "link": WRITING,
    "truncate": WRITING, "allocate": WRITING, "unlink": READING, "close": READING, "read": READING, "list": ("EIO",),
    "stat": ("EIO",), "chmod": ("EIO",),
}
# For strace: what the kernel calls them.
SYSTEM_CALLS = {
    "write": "write,pwrite64,writev", "fsync": "fsync,fdatasync", "rename": "rename,renameat,renameat2",
    "open": "open,openat", "mkdir": "mkdir,mkdirat", "truncate": "ftruncate", "allocate": "fallocate",
    "unlink": "unlink,unlinkat", "link": "link,linkat", "close": "close",
}
# Errors that say that the disk failed. A call that fails while a source is asked or an image is fetched may be one of these.
HONEST = {"storageFailed", "noRoom", "cancelled", "upstreamFailed", "rejected"}

Order = collections.namedtuple("Order", "kind number error")
Result = collections.namedtuple("Result", "order was_reached outcome problems words failures last_words")


class Run:
    """One start with one failure, and a start after it without."""

    def __init__(self, known, larderd, origin, library=None, order=None, is_killed=False, prefix=None):
        self.known, self.origin, self.order, self.is_killed = known, origin, order, is_killed
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-calls."))
        for part in ("state", "cache"):
            shutil.copytree(known.directory / part, self.directory / part)
        keep_epoch(self.directory)
        self.calls, self.traces = self.directory / "calls", self.directory / "strace"
        environment = {}
        if library:
            number = 0 if order is None or order.error == SHORT else getattr(errno, order.error)
            environment = {
                "LD_PRELOAD": library, "LARDER_FAULT_PATHS": f"{self.directory}/state:{self.directory}/cache",
                "LARDER_FAULT_LOG": self.calls, "LARDER_FAULT_CALL": order.kind if order else "none",
                "LARDER_FAULT_NUMBER": str(order.number if order else 0), "LARDER_FAULT_ERROR": str(number),
            }
        self.agent = larder_agent.Agent(
            larderd, settings=settings(known.directory), directory=self.directory, environment=environment,
            prefix=prefix(self.directory) if prefix else ())
        self.problems, self.failures, self.outcome = [], [], "served"
        self.image_problem = None  # why the agent runs without its image cache
        self.revisions = dict(known.witness.seen)
        self.model = {namespace: dict(self.parsed(namespace)) for namespace in NAMESPACES}

    def parsed(self, namespace):
        return json.loads(self.known.witness.newest[namespace])

    def run(self):
        try:
            try:
                self.agent.start()
            except larder_agent.Died:
                self.refused()
            else:
                self.work()
                self.end()
            self.agent.environment, self.agent.prefix = {}, []
            self.agent.start()
            if self.image_problem and not any("/cache" in hit for hit in self.hits()):
                self.problems.append(f"nothing of the image cache failed, and yet: {self.image_problem}")
            with self.agent.connect() as client:
                self.compare(client, "after another start")
                self.image_problem = self.told_image_problem(client)
                self.look_at_images(client, must=True)
            self.agent.stop()
        except (larder_agent.AgentError, larder_agent.Died, OSError) as problem:
            self.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            self.agent.kill()
        if self.agent.crashed():
            self.problems.append("a crash")
        # A call that a signal interrupted is made again, and nobody hears of it. SQLite does not do that for fsync(2).
        if self.order and self.order.error == "EINTR" and self.failures and not any("sqlite" in hit for hit in self.hits()):
            self.problems.append(f"what was interrupted was not done again: {self.failures}")
        return self

    def refused(self):
        reasons = [line for line in self.agent.log_text().splitlines() if line.startswith("larderd: ")]
        if self.agent.crashed() or self.agent.process.returncode != 1 or not reasons:
            self.problems.append(f"it ended at its start with {self.agent.process.returncode} and {reasons or 'no reason'}")
        self.outcome = "refused"
        self.failures.append(f"start: {(reasons or [''])[-1]}")

    def end(self):
        if self.is_killed:
            return self.agent.kill()
        # A failure while it stops is logged; it stops all the same.
        self.agent.stop()

    # The work

    def work(self):
        with self.agent.connect() as client:
            self.image_problem = self.told_image_problem(client)
            if self.image_problem:
                self.outcome = "served without images"
                self.failures.append(f"image cache: {self.image_problem}")
            self.compare(client, "after the start")
            self.look_at_images(client, must=False)
            for step in range(3):
                self.set(client, f"new{step}", {"step": step, "text": "y" * 30})
            self.batch(client)
            self.set(client, "key0", {"changed": True})
            self.change(client, "config.unset", "default", lambda value: value.pop("key1", None), path="key1")
            pushed = {"shop": {"open": True}, "n": 3}
            self.change(client, "config.push", "pushed", lambda value: (value.clear(), value.update(pushed)),
                        document=pushed, version="3")
            if not self.image_problem:
                for number in (4, 5):
                    self.image(client, number)
                for method, number in (("image.pin", 2), ("image.unpin", 1), ("image.remove", 3)):
                    self.attempt(method, lambda: client.call(method, url=self.origin.url(number)))
            self.compare(client, "before the stop")
            self.look_at_images(client, must=False)
            self.attempt("config.history", lambda: client.call("config.history"))

    def attempt(self, what, body):
        """Whether it worked. An error is noted; one that is not honest is a problem."""
        try:
            body()
            return True
        except larder_agent.AgentError as error:
            self.failures.append(f"{what}: {error}")
            if error.name not in HONEST or not error.detail:
                self.problems.append(f"{what}: {error}")
            return False

    def change(self, client, method, namespace, apply, **params):
        if self.attempt(method, lambda: client.call(method, namespace=namespace, **params)):
            apply(self.model[namespace])

    def set(self, client, name, value):
        self.change(client, "config.set", "default", lambda model: model.update({name: value}), path=name, value=value)

    def batch(self, client):
        """Writers that wait together share one write: all of them are acknowledged, or each is refused."""
        ids = {name: client.request("config.set", path=name, value=1) for name in ("together0", "together1", "together2")}
        for name, id in ids.items():
            if self.attempt("config.set", lambda: client.result(id)):
                self.model["default"][name] = 1

    def image(self, client, number):
        def get():
            problem = image_problem(client, self.origin.url(number), number)
            if problem:
                self.problems.append(problem)
        if self.attempt("image.get", get) or not self.order:
            return
        # The failure was one, or under strace one in each thread: what is asked again is there.
        if not any(self.attempt("image.get again", get) for _ in range(8 if self.agent.prefix else 1)):
            self.problems.append(f"image {number} cannot be had any more")

    # What has to be

    def compare(self, client, when):
        for namespace in NAMESPACES:
            reply = client.call("config.get", namespace=namespace)
            text, model = canonical(reply["value"]), canonical(self.model[namespace])
            if text != model:
                self.problems.append(f"{when} {namespace} is {text}, and what was acknowledged is {model}")
            key = (namespace, reply["epoch"], reply["revision"])
            if self.revisions.setdefault(key, text) != text:
                self.problems.append(f"{when} revision {reply['revision']} of {namespace} is another one")

    def told_image_problem(self, client):
        """Why there is no image cache, as the agent tells it. Where the cache fails at the start, the agent serves without."""
        return client.call("agent.info").get("imageProblem")

    def look_at_images(self, client, must):
        if self.image_problem:
            try:
                client.call("image.get", url=self.origin.url(1))
                self.problems.append(f"an image is there, and yet: {self.image_problem}")
            except larder_agent.AgentError as error:
                if must or error.name != "unavailable" or self.image_problem not in error.detail:
                    self.problems.append(f"image.get: {error}")
            return
        for number in self.known.images:
            def get():
                problem = image_problem(client, self.origin.url(number), number)
                if problem:
                    self.problems.append(problem)
            if not self.attempt("image.get", get) and must:
                self.problems.append(f"image {number} cannot be had any more")

    # What was called

    def logged(self):
        """Each call: kind, path from the directory, whether it is the one that failed."""
        if not self.calls.exists():
            return []
        lines = [line.split(" ") for line in self.calls.read_text().splitlines()]
        return [(line[0], line[1].removeprefix(str(self.directory) + "/"), line[-1] == "failed") for line in lines]

    def hits(self):
        """The calls that failed, in words with their paths."""
        if self.traces.exists():
            text = self.traces.read_text(errors="replace")
            return [line[:300] for line in text.splitlines() if "(INJECTED)" in line]
        return [f"{kind} /{path}" for kind, path, failed in self.logged() if failed]

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


    def result(self):
        """What judge() wants to know."""
        hits, order = self.hits(), self.order
        words = f"{order.kind} {order.number} {order.error}{' and SIGKILL' if self.is_killed else ''} ({'; '.join(hits)})"
        return Result(order, bool(hits), self.outcome, self.problems, words, self.failures,
                      self.agent.last_words(14) if self.problems else "")


def each_call(options, origin, library, generator):
    states = [KnownState(options.larderd, origin, is_killed) for is_killed in (False, True)]
    try:
        counts = collections.Counter()
        for known in states:
            run = Run(known, options.larderd, origin, library).run()
            if run.problems:
                sys.exit(f"without any failure: {run.problems}\n{run.agent.last_words()}")
            found = collections.Counter(kind for kind, *_ in run.logged())
            counts = counts | found
            run.remove()
        print("calls: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
        # Runs differ by some calls.
        orders = [Order(kind, number, error) for kind in options.kind or KINDS for number in range(1, counts[kind] + 3)
                  for error in KINDS[kind]]
        if options.runs and len(orders) > options.runs:
            # Some of each kind, and more of what is seldom called.
            weight = {order: generator.random() ** (1 / (1.0 / (counts[order.kind] + 3) ** 0.7)) for order in orders}
            orders = sorted(orders, key=weight.get, reverse=True)[:options.runs]

        def attempt(item):
            index, order = item
            known = states[index % 2]
            run = Run(known, options.larderd, origin, library, order, is_killed=index % 3 == 2).run()
            result = run.result()
            run.remove()
            return result

        with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
            results = list(pool.map(attempt, enumerate(orders)))
    finally:
        for known in states:
            shutil.rmtree(known.directory, ignore_errors=True)
    judge("calls on state and cache that fail once", options, results)


def judge(name, options, results):
    reached = [result for result in results if result.was_reached]
    lost = [result for result in results if result.problems]
    for result in lost[:12]:
        print(f"lost: {result.words}: {'; '.join(result.problems)}\n{result.last_words}", file=sys.stderr)
    if options.verbose:
        for result in reached:
            print(f"{'LOST ' if result.problems else ''}{result.outcome}: {result.words}: {result.failures[:2]}")
    outcomes = collections.Counter(result.outcome for result in reached)
    told = sum(bool(result.failures) for result in reached)
    table = collections.defaultdict(lambda: [0, 0])
    for result in reached:
        table[(result.order.kind, result.order.error)][bool(result.problems)] += 1
    for (kind, error), (survived, gone) in sorted(table.items()):
        print(f"  {kind:9} {error:7} {survived + gone:5} attempts, {survived} survived, {gone} lost")
    larder_agent.report(
        name, len(reached), sum(not result.problems for result in reached), lost=len(lost),
        note=f"{told} were told to somebody; {outcomes['refused']} starts were refused, and "
             f"{outcomes['served without images']} times configuration was served without images")


# --- strace ----------------------------------------------------------------------------------------------------


def strace_of(calls, more, paths=True):
    """The words before the agent's command: strace with these calls, on the files below its directory."""
    def words(directory):
        made = ["strace", "-f", "--seccomp-bpf", "-y", "-qqq", "-o", str(directory / "strace"), "-e", f"trace={calls}"]
        if paths:
            for path in paths_below(directory):
                made += ["-P", path]
        return made + more
    return words


def paths_below(directory):
    """All files and directories, and those that a run will make: strace wants each by its name."""
    found = {str(path) for part in ("state", "cache") for path in [directory / part, *(directory / part).rglob("*")]}
    for namespace in NAMESPACES:
        base = f"{directory}/state/config/{namespace}"
        for name in ["journal", "journal.damaged", "reserved"] + [f"generations/{n:016}.json" for n in range(1, 30)]:
            found |= {f"{base}/{name}", f"{base}/{name}.tmp"}
    cache = f"{directory}/cache/images"
    found |= {f"{cache}/{name}" for name in ("clean", "reserve", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite-journal",
                                         "index-copy.sqlite", "index-copy.new", "index.new")}
    return sorted(found)


def sees_all(options, origin, library):
    """Whether faults.c is told of every call that reaches the kernel."""
    known = KnownState(options.larderd, origin, is_killed=True)
    calls = ",".join(SYSTEM_CALLS[kind] for kind in SYSTEM_CALLS if kind != "close")
    run = Run(known, options.larderd, origin, library, prefix=strace_of(calls, [], paths=False)).run()
    kernel, own = collections.Counter(), collections.Counter(kind for kind, *_ in run.logged())
    for line in run.traces.read_text(errors="replace").splitlines():
        found = re.match(r"\d+\s+(\w+)\((.*)", line)
        # What the loader of programs and strace itself do is none of the agent's; a path may be relative to a directory.
        if found and re.search(f"{re.escape(str(run.directory))}/(state|cache)", line):
            for kind, names in SYSTEM_CALLS.items():
                kernel[kind] += found[1] in names.split(",")
    run.remove()
    shutil.rmtree(known.directory, ignore_errors=True)
    # The start after it is not traced, and has no library: both counted the first one.
    missed = {kind: (kernel[kind], own[kind]) for kind in kernel if kind != "close" and kernel[kind] > own[kind]}
    total = sum(kernel.values())
    if run.problems or not total:
        sys.exit(f"under strace: {run.problems}\n{run.agent.last_words()}")
    larder_agent.report("calls that reach the kernel and are counted", total, total - sum(a - b for a, b in missed.values()),
                        note=f"{missed}" if missed else None)


def by_strace(options, origin):
    states = [KnownState(options.larderd, origin, is_killed) for is_killed in (False, True)]
    results = []
    try:
        for kind, calls in SYSTEM_CALLS.items():
            for error in [error for error in KINDS[kind] if error != SHORT]:
                def attempt(number):
                    order = Order(kind, number, error)
                    prefix = strace_of(calls, ["-e", f"inject={calls}:error={error}:when={number}"])
                    run = Run(states[number % 2], options.larderd, origin, None, order, number % 3 == 2, prefix).run()
                    result = run.result()
                    run.remove()
                    return result
                number = 1
                while not options.most or number <= options.most:
                    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
                        some = list(pool.map(attempt, range(number, number + options.workers)))
                    results += some
                    number += options.workers
                    if not all(result.was_reached for result in some):
                        break
    finally:
        for known in states:
            shutil.rmtree(known.directory, ignore_errors=True)
    judge("calls that strace lets fail once in each thread", options, results)


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="150 runs")
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="at most so many, chosen at random (all)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these calls")
    parser.add_argument("--seed", type=int, default=None, help="choose as another run did")
    parser.add_argument("--strace", action="store_true", help="by strace as well, after the rest")
    parser.add_argument("--only-strace", action="store_true", help="by strace alone")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="with strace: only the first N calls of a thread")
    parser.add_argument("--workers", type=int, default=3, metavar="N", help="agents at a time (3)")
    parser.add_argument("--verbose", action="store_true", help="tell of each run")
    options = parser.parse_args()
    options.runs = options.runs or (150 if options.quick else 0)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    has_strace = shutil.which("strace") is not None and subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
    origin = Origin()
    if not options.only_strace:
        print(f"--seed {seed}")
        with tempfile.TemporaryDirectory(prefix="larder-faults.") as directory:
            library = compiled("faults.c", directory)
            if has_strace and not options.kind:
                sees_all(options, origin, library)
            each_call(options, origin, library, random.Random(seed))
    if not has_strace:
        larder_agent.skip("calls that strace lets fail", "there is no strace, or it may not trace here")
    elif options.strace or options.only_strace:
        by_strace(options, origin)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
