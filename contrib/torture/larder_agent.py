"""Shared code of the scripts in this directory: options, agents under test and their resource usage, and the result table.

    options = larder_agent.options(__doc__)
    with larder_agent.Agent(options.larderd, settings={"limits": {"connections": 100}}) as agent:
        with agent.connect() as client:
            client.call("config.set", path="a.b", value=1)
        larder_agent.report("one write", attempts=1, survived=1)
    sys.exit(larder_agent.finish())
"""

import argparse
import collections
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "contrib"), str(ROOT / "contrib" / "python" / "src")]

from larder_client import AgentError  # noqa: E402, F401
from larder_client.testing import AgentProcess, Connection, Died  # noqa: E402, F401

# Limit of waits in seconds, longer than any operation takes on a busy machine.
TIMEOUT = 60.0


# --- Command line ----------------------------------------------------------------------------------------------


def parser(description):
    """Returns an argument parser with the options that all scripts have: --larderd FILE and --keep."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--larderd", metavar="FILE", help="the program to test (default: the newest of .build/release and .build/debug)")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the agents")
    return parser


def options(description):
    """Parses the arguments of a script without additional options."""
    return parser(description).parse_args()


def newest_program():
    """Returns the path of the larderd that was built last."""
    built = [ROOT / ".build" / kind / "larderd" for kind in ("release", "debug")]
    built = [path for path in built if path.is_file()]
    if not built:
        sys.exit("no larderd in .build/release or .build/debug; run swift build -c release, or pass --larderd FILE")
    return max(built, key=lambda path: path.stat().st_mtime)


def eventually(condition, description, seconds=TIMEOUT):
    """Calls `condition` until it returns a true value, and returns that value. Raises TimeoutError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{description}: timed out after {seconds:g} s")
        time.sleep(0.01)


# --- Agent -----------------------------------------------------------------------------------------------------


class Agent(AgentProcess):
    """An agent in a separate directory for one test.

    directory: the directory for all files, which is not removed. Default: a new one, which is removed at the end.
    keep: do not remove the new directory.
    The other parameters are those of AgentProcess.
    """

    def __init__(self, larderd=None, settings=None, directory=None, keep=False, **more):
        self.is_temporary, self.keep = directory is None, keep
        directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="larder-torture."))
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(larderd or newest_program(), directory, settings, **more)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, problem, trace):
        try:
            if self.process:
                if kind:
                    self.kill()
                else:
                    self.stop()
        finally:
            if kind and not issubclass(kind, KeyboardInterrupt):
                print(f"end of the agent log:\n{self.log_tail()}", file=sys.stderr)
            self.remove()

    def start(self):
        """Starts the agent and waits until it replies to a ping. Raises Died if it exits before."""
        with super().start(TIMEOUT) as connection:
            try:
                connection.call("agent.ping")
            except ConnectionError:
                status = self.process.wait(TIMEOUT)
                raise Died(f"the agent exited during startup with status {status}:\n{self.log_tail()}") from None

    @property
    def pid(self):
        """The process ID of larderd, which may be a descendant of the process of the prefix."""
        found = self.process.pid
        while pathlib.Path(f"/proc/{found}/exe").resolve() != self.program:
            children = pathlib.Path(f"/proc/{found}/task/{found}/children").read_text(encoding="ascii").split()
            if not children:
                raise Died(f"process {self.process.pid} has no descendant larderd")
            found = int(children[0])
        return found

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self):
        if not self.is_running:
            status, self.process = self.process.returncode, None
            raise Died(f"the agent has already exited with status {status}\n{self.log_tail()}")
        os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        """Kills the agent and its prefix with SIGKILL."""
        if self.process is None:
            return
        members = group_members(self.process.pid)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # AgentProcess starts each agent in a new process group
        except ProcessLookupError:
            pass
        self.process.wait()
        # The prefix, a command such as strace, may exit before the agent. The agent holds the lock of its state directory
        # until it exits.
        eventually(lambda: not any(map(runs, members)), "waiting for the agent to exit after SIGKILL")
        self.process = None

    def restart(self):
        self.stop()
        self.start()

    def reload(self, settings=None):
        """Reloads the settings. Returns when the log shows that they were accepted or rejected."""
        if settings is not None:
            self.write_settings(settings)
        words = ("settings reloaded", "the new settings are invalid")
        read = lambda: sum(self.log_text().count(word) for word in words)
        before = read()
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: read() > before, "waiting for the reload of the settings")

    def remove(self):
        """Removes the directory if it was created for this agent, unless `keep` is set."""
        if self.keep:
            print(f"kept: {self.directory}", file=sys.stderr)
        elif self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def crashed(self):
        """Returns True if the log reports a crash."""
        text = self.log_text()
        return any(word in text for word in ("Fatal error", "*** Signal", "Program crashed", "AddressSanitizer"))

    def refusal(self):
        """Returns the reason that the agent printed when it refused to start, or None if it crashed or printed none."""
        reasons = [line for line in self.log_text().splitlines() if line.startswith("larderd: ")]
        return None if self.crashed() or self.process.returncode != 1 or not reasons else reasons[-1]

    def memory(self):
        """Returns the memory usage of the agent."""
        return memory(self.pid)

    def descriptors(self):
        """Returns the number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stats(self):
        """Returns the result of agent.stats."""
        with self.connect() as client:
            return client.call("agent.stats")


def group_members(group):
    """Returns the process IDs of a process group."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                found.append(int(entry.name))
        except ProcessLookupError:
            pass
    return found


def runs(pid):
    """Returns True if a thread of the process is alive. The first thread may be a zombie while others keep files open."""
    try:
        states = [stat.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()[0]
                  for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except (OSError, IndexError):  # a thread has exited in the meantime
        return pathlib.Path(f"/proc/{pid}").exists()
    return any(state not in "ZX" for state in states)


# In bytes. `anonymous` is a part of `resident`.
Memory = collections.namedtuple("Memory", "resident anonymous")


def memory(pid):
    """Returns the memory usage of a process."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = dict(line.split(":", 1) for line in text.splitlines() if line.startswith(("VmRSS:", "RssAnon:")))
    return Memory(*(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon")))


# --- Results ---------------------------------------------------------------------------------------------------

_rows = []
_skipped = []


def report(test, attempts, survived, lost=None, note=None):
    """Adds a row to the table that finish() prints. `lost` defaults to the attempts that did not survive."""
    lost = attempts - survived if lost is None else lost
    _rows.append((test, attempts, survived, lost))
    print(f"{test}: {attempts} attempts, {survived} survived, {lost} lost" + (f"; {note}" if note else ""), flush=True)


def skip(test, reason):
    """Reports that a test is skipped."""
    _skipped.append(test)
    print(f"SKIPPED {test}: {reason}", file=sys.stderr, flush=True)


def finish():
    """Prints the table. Returns the exit status: 1 if anything was lost, or if nothing was attempted or skipped."""
    sys.stdout.flush()
    for test, attempts, survived, lost in _rows:
        print(f"torture\t{test}\t{attempts}\t{survived}\t{lost}", flush=True)
    if not _rows and not _skipped:
        print("no attempts were made", file=sys.stderr)
        return 1
    return 1 if any(lost for *_, lost in _rows) else 0
