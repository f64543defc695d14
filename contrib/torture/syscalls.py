#!/usr/bin/env python3
"""Makes each system call on the state and the cache fail once, in separate runs, and checks what an agent does.

A run copies a state whose content is known, starts an agent, makes changes, requests images, stops the agent (with SIGKILL
in every third run), and starts it again without a fault. In each run one call fails: the first write(2), the second, and so
on up to the last, then the same for open, fsync, rename, ... The errors are EIO, ENOSPC, EDQUOT and EINTR; a write can
also be cut to half of its data. Afterwards the agent must have all acknowledged changes and none of the rejected ones. A
rejected request must have an error that describes the failure, and an agent that refuses to start must print a reason.

faults.c injects the faults in the C library. The script checks with strace(1) that faults.c sees all calls.
"""

import collections
import concurrent.futures
import errno
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile

import larder_agent
from known_state import (
    KnownState, NAMESPACES, WORKERS, Origin, canonical, compiled, image_problem, known_states, settings)

SHORT = "half"  # instead of an error: a write(2) that writes half of its data
READING = ("EIO", "EINTR")
WRITING = ("EIO", "ENOSPC", "EDQUOT", "EINTR")
KINDS = {
    "write": WRITING + (SHORT,), "fsync": WRITING, "rename": WRITING, "open": WRITING, "mkdir": WRITING, "link": WRITING,
    "truncate": WRITING, "allocate": WRITING, "unlink": READING, "close": READING, "read": READING, "list": ("EIO",),
    "stat": ("EIO",), "chmod": ("EIO",),
}
# The system calls that strace counts for each kind.
SYSTEM_CALLS = {
    "write": "write,pwrite64,writev", "fsync": "fsync,fdatasync", "rename": "rename,renameat,renameat2",
    "open": "open,openat", "mkdir": "mkdir,mkdirat", "truncate": "ftruncate", "allocate": "fallocate",
    "unlink": "unlink,unlinkat", "link": "link,linkat",
}
# Names of errors that a failing disk may cause, including failures during a refresh or a download.
EXPECTED_ERRORS = {"storageFailed", "cacheFull", "cancelled", "upstreamFailed", "rejected"}

# A fault: of all calls of a kind, the one with this number fails with an error.
Fault = collections.namedtuple("Fault", "kind number error")
# was_reached: whether the agent made the call that had to fail. failures: the failures that the agent reported.
Result = collections.namedtuple("Result", "fault was_reached outcome problems description failures log_tail")


class Run:
    """Runs an agent with one fault, and then again without."""

    def __init__(self, known, larderd, origin, library, fault=None, is_killed=False, strace=()):
        self.known, self.origin, self.fault, self.is_killed = known, origin, fault, is_killed
        self.directory = known.copy("larder-calls.")
        self.calls, self.traces = self.directory / "calls", self.directory / "strace"
        number = 0 if fault is None or fault.error == SHORT else getattr(errno, fault.error)
        environment = {
            "LD_PRELOAD": library, "LARDER_FAULT_PATHS": f"{self.directory}/state:{self.directory}/cache",
            "LARDER_FAULT_LOG": self.calls, "LARDER_FAULT_CALL": fault.kind if fault else "none",
            "LARDER_FAULT_NUMBER": str(fault.number if fault else 0), "LARDER_FAULT_ERROR": str(number),
        }
        self.agent = larder_agent.Agent(
            larderd, settings=settings(known.directory), directory=self.directory, environment=environment,
            prefix=[*strace, "-o", str(self.traces)] if strace else ())
        self.problems, self.failures, self.outcome = [], [], "served"
        self.image_problem = None  # the reason why the agent has no image cache
        self.revisions = dict(known.witness.seen)
        self.model = {namespace: dict(self.parsed(namespace)) for namespace in NAMESPACES}

    def parsed(self, namespace):
        return json.loads(self.known.witness.newest[namespace])

    def run(self):
        try:
            try:
                self.agent.start()
            except larder_agent.Died:
                self.record_refusal()
            else:
                self.use_agent()
                self.end()
            self.agent.environment, self.agent.prefix = {}, []
            self.agent.start()
            if self.image_problem and not any("/cache" in hit for hit in self.hits()):
                self.problems.append(f"no call on the image cache failed, but it is unusable: {self.image_problem}")
            with self.agent.connect() as client:
                self.compare(client, "after the second start")
                self.image_problem = self.reported_image_problem(client)
                self.check_images(client, must_succeed=True)
            self.agent.stop()
        except (larder_agent.AgentError, larder_agent.Died, OSError) as problem:
            self.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            self.agent.kill()
        if self.agent.crashed():
            self.problems.append("the agent crashed")
        # The agent must repeat interrupted calls without reporting a failure. SQLite does not repeat fsync(2), so faults in
        # its files are permitted to cause a failure.
        if self.fault and self.fault.error == "EINTR" and self.failures and not any("sqlite" in hit for hit in self.hits()):
            self.problems.append(f"an interrupted call was not repeated: {self.failures}")
        return self

    def record_refusal(self):
        reason = self.agent.refusal()
        if not reason:
            self.problems.append(f"it exited during startup with status {self.agent.process.returncode} and no reason")
        self.outcome = "refused"
        self.failures.append(f"start: {reason}")

    def end(self):
        if self.is_killed:
            return self.agent.kill()
        # A failure during the stop is logged, and the agent must still exit with status 0.
        self.agent.stop()

    # Operations

    def use_agent(self):
        with self.agent.connect() as client:
            self.image_problem = self.reported_image_problem(client)
            if self.image_problem:
                self.outcome = "served without images"
                self.failures.append(f"image cache: {self.image_problem}")
            self.compare(client, "after the first start")
            self.check_images(client, must_succeed=False)
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
            self.check_images(client, must_succeed=False)
            self.attempt("config.history", lambda: client.call("config.history"))

    def attempt(self, operation, body):
        """Returns True on success. Records errors, and reports unexpected ones as problems."""
        try:
            body()
            return True
        except larder_agent.AgentError as error:
            self.failures.append(f"{operation}: {error}")
            if error.name not in EXPECTED_ERRORS or not error.detail:
                self.problems.append(f"{operation}: {error}")
            return False

    def change(self, client, method, namespace, apply, **params):
        if self.attempt(method, lambda: client.call(method, namespace=namespace, **params)):
            apply(self.model[namespace])

    def set(self, client, name, value):
        self.change(client, "config.set", "default", lambda model: model.update({name: value}), path=name, value=value)

    def batch(self, client):
        """Sends several changes at once, so that they share one write to the disk."""
        ids = {name: client.request("config.set", path=name, value=1) for name in ("together0", "together1", "together2")}
        for name, id in ids.items():
            if self.attempt("config.set", lambda: client.result(id)):
                self.model["default"][name] = 1

    def image(self, client, number):
        def get():
            problem = image_problem(client, self.origin.url(number), number)
            if problem:
                self.problems.append(problem)
        if self.attempt("image.get", get) or not self.fault:
            return
        # Only one call fails, so a repeated request must succeed.
        if not self.attempt("image.get again", get):
            self.problems.append(f"image {number} is no longer available")

    # Checks

    def compare(self, client, when):
        for namespace in NAMESPACES:
            reply = client.call("config.get", namespace=namespace)
            text, model = canonical(reply["value"]), canonical(self.model[namespace])
            if text != model:
                self.problems.append(f"{when}, {namespace} is {text}, but {model} was acknowledged")
            key = (namespace, reply["epoch"], reply["revision"])
            if self.revisions.setdefault(key, text) != text:
                self.problems.append(f"{when}, revision {reply['revision']} of {namespace} has another value than before")

    def reported_image_problem(self, client):
        """Returns the reason why the agent has no image cache, or None. It serves without one if the cache fails at the start."""
        return client.call("agent.info").get("imageProblem")

    def check_images(self, client, must_succeed):
        if self.image_problem:
            try:
                client.call("image.get", url=self.origin.url(1))
                self.problems.append(f"an image is served, although the cache is unusable: {self.image_problem}")
            except larder_agent.AgentError as error:
                if must_succeed or error.name != "unavailable" or self.image_problem not in error.detail:
                    self.problems.append(f"image.get: {error}")
            return
        for number in self.known.images:
            def get():
                problem = image_problem(client, self.origin.url(number), number)
                if problem:
                    self.problems.append(problem)
            if not self.attempt("image.get", get) and must_succeed:
                self.problems.append(f"image {number} is no longer available")

    # Calls

    def logged(self):
        """Returns the calls that faults.c has logged: kind, path relative to the directory, and True if the call failed."""
        if not self.calls.exists():
            return []
        lines = [line.split(" ") for line in self.calls.read_text().splitlines()]
        return [(line[0], line[1].removeprefix(str(self.directory) + "/"), line[-1] == "failed") for line in lines]

    def hits(self):
        """Returns the failed calls as text, with their paths."""
        return [f"{kind} /{path}" for kind, path, failed in self.logged() if failed]

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)

    def result(self):
        """Returns the values that judge() needs."""
        hits, fault = self.hits(), self.fault
        killed = " and SIGKILL" if self.is_killed else ""
        description = f"{fault.kind} {fault.number} {fault.error}{killed} ({'; '.join(hits)})"
        return Result(fault, bool(hits), self.outcome, self.problems, description, self.failures,
                      self.agent.log_tail(14) if self.problems else "")


def each_call(options, origin, library, generator):
    with known_states(options.larderd, origin) as states:
        counts = collections.Counter()
        for known in states:
            run = Run(known, options.larderd, origin, library).run()
            if run.problems:
                sys.exit(f"problems without a fault: {run.problems}\n{run.agent.log_tail()}")
            found = collections.Counter(kind for kind, *_ in run.logged())
            counts = counts | found
            run.remove()
        print("calls: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
        # The number of calls varies slightly between runs, so two more calls of each kind than counted get a fault.
        faults = [Fault(kind, number, error) for kind in options.kind or KINDS for number in range(1, counts[kind] + 3)
                  for error in KINDS[kind]]
        if options.runs and len(faults) > options.runs:
            # A weighted random sample that prefers kinds with few calls.
            weight = {fault: generator.random() ** (1 / (1.0 / (counts[fault.kind] + 3) ** 0.7)) for fault in faults}
            faults = sorted(faults, key=weight.get, reverse=True)[:options.runs]

        def attempt(item):
            index, fault = item
            known = states[index % 2]
            run = Run(known, options.larderd, origin, library, fault, is_killed=index % 3 == 2).run()
            result = run.result()
            run.remove()
            return result

        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            results = list(pool.map(attempt, enumerate(faults)))
    judge(results)


def judge(results):
    reached = [result for result in results if result.was_reached]
    lost = [result for result in results if result.problems]
    for result in lost[:12]:
        print(f"lost: {result.description}: {'; '.join(result.problems)}\n{result.log_tail}", file=sys.stderr)
    outcomes = collections.Counter(result.outcome for result in reached)
    reported = sum(bool(result.failures) for result in reached)
    table = collections.defaultdict(lambda: [0, 0])
    for result in reached:
        table[(result.fault.kind, result.fault.error)][bool(result.problems)] += 1
    for (kind, error), (survived, failed) in sorted(table.items()):
        print(f"  {kind:9} {error:7} {survived + failed:5} attempts, {survived} survived, {failed} lost")
    larder_agent.report(
        "calls on state and cache that fail once", len(reached), sum(not result.problems for result in reached), lost=len(lost),
        note=f"{reported} reported to a client or in the log; {outcomes['refused']} refused starts; "
             f"{outcomes['served without images']} runs without an image cache")


# --- Coverage ----------------------------------------------------------------------------------------------------


def check_coverage(options, origin, library):
    """Checks with strace that faults.c sees every call that reaches the kernel."""
    known = KnownState(options.larderd, origin, is_killed=True)
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-qqq", "-e", "trace=" + ",".join(SYSTEM_CALLS.values())]
    run = Run(known, options.larderd, origin, library, strace=strace).run()
    kernel, counted = collections.Counter(), collections.Counter(kind for kind, *_ in run.logged())
    for line in run.traces.read_text(errors="replace").splitlines():
        found = re.match(r"\d+\s+(\w+)\((.*)", line)
        # Count only calls on state and cache. strace -y adds the directory to relative paths.
        if found and re.search(f"{re.escape(str(run.directory))}/(state|cache)", line):
            for kind, names in SYSTEM_CALLS.items():
                kernel[kind] += found[1] in names.split(",")
    run.remove()
    shutil.rmtree(known.directory, ignore_errors=True)
    # Both counts are those of the first start of the agent; the second start has neither strace nor faults.c.
    missed = {kind: (kernel[kind], counted[kind]) for kind in kernel if kernel[kind] > counted[kind]}
    total = sum(kernel.values())
    if run.problems or not total:
        sys.exit(f"problems under strace: {run.problems}\n{run.agent.log_tail()}")
    larder_agent.report("calls seen by strace that faults.c counted", total, total - sum(a - b for a, b in missed.values()),
                        note=f"{missed}" if missed else None)


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="make 150 runs")
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="make at most N runs, chosen at random (default: all)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="test only calls of this kind; may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="seed of the random choice, to repeat it (default: random)")
    options = parser.parse_args()
    options.runs = options.runs or (150 if options.quick else 0)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    has_strace = shutil.which("strace") is not None and subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0
    origin = Origin()
    print(f"--seed {seed}")
    with tempfile.TemporaryDirectory(prefix="larder-faults.") as directory:
        library = compiled("faults.c", directory)
        if not has_strace:
            larder_agent.skip("calls seen by strace that faults.c counted", "strace is not installed or not permitted")
        elif not options.kind:
            check_coverage(options, origin, library)
        each_call(options, origin, library, random.Random(seed))
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
