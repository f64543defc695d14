"""What the scripts of this directory share: their options, an agent under test, its use of resources, and the table's lines.

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
sys.path.insert(0, str(ROOT / "contrib"))

from larder_client import AgentError, AgentProcess, Connection, Died  # noqa: E402, F401

# Longer than anything takes on a busy machine.
PATIENCE = 60.0


# --- The command line ------------------------------------------------------------------------------------------


def parser(description):
    """A parser of arguments with the options of every script: --larderd FILE and --keep."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--larderd", metavar="FILE", help="default: the newest of .build/release and .build/debug")
    made.add_argument("--keep", action="store_true", help="keep the directories of the agents")
    return made


def options(description):
    """The arguments of a script that has no options of its own."""
    return parser(description).parse_args()


def newest_program():
    """The program that was built last."""
    built = [ROOT / ".build" / kind / "larderd" for kind in ("release", "debug")]
    built = [path for path in built if path.is_file()]
    if not built:
        sys.exit("there is no larderd in .build/release or .build/debug; build one (swift build -c release) or name it with --larderd")
    return max(built, key=lambda path: path.stat().st_mtime)


def eventually(condition, what, seconds=PATIENCE):
    """Waits until a condition has a value that is true, and returns that; raises TimeoutError if it takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)


# --- The agent -------------------------------------------------------------------------------------------------


class Agent(AgentProcess):
    """An agent for one test, in a directory of its own.

    directory: where to keep everything; it is not removed. Default: a new one, which is removed at the end.
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
                print(f"the end of the agent's log:\n{self.last_words()}", file=sys.stderr)
            self.remove()

    def start(self):
        """Starts it and waits until it answers. Raises Died if it ends before that."""
        with super().start(PATIENCE) as connection:
            try:
                connection.call("agent.ping")
            except ConnectionError:
                status = self.process.wait(PATIENCE)
                raise Died(f"the agent ended at its start with status {status}:\n{self.last_words()}") from None

    @property
    def pid(self):
        """The process of larderd itself, which may be a child of the prefix."""
        found = self.process.pid
        while pathlib.Path(f"/proc/{found}/exe").resolve() != self.program:
            children = pathlib.Path(f"/proc/{found}/task/{found}/children").read_text(encoding="ascii").split()
            if not children:
                raise Died(f"there is no larderd below process {self.process.pid}")
            found = int(children[0])
        return found

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self):
        if not self.is_running:
            status, self.process = self.process.returncode, None
            raise Died(f"the agent was not running any more: status {status}\n{self.last_words()}")
        os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        """Ends it and its prefix by SIGKILL."""
        if self.process is None:
            return
        members = group_members(self.process.pid)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # AgentProcess gives each agent a group
        except ProcessLookupError:
            pass
        self.process.wait()
        # The prefix may end before the agent, which holds its lock until it has ended.
        eventually(lambda: not any(map(runs, members)), "the agent is gone after SIGKILL")
        self.process = None

    def restart(self):
        self.stop()
        self.start()

    def reload(self, settings=None):
        """Reloads the settings and returns once the log says whether they were accepted."""
        if settings is not None:
            self.write_settings(settings)
        words = ("settings reloaded", "the new settings are invalid")
        read = lambda: sum(self.log_text().count(word) for word in words)
        before = read()
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: read() > before, "the agent reads its settings again")

    def remove(self):
        """Removes the directory if it was made for this agent and is not to be kept."""
        if self.keep:
            print(f"kept: {self.directory}", file=sys.stderr)
        elif self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def crashed(self):
        """Whether the log reports a crash."""
        text = self.log_text()
        return any(word in text for word in ("Fatal error", "*** Signal", "Program crashed", "AddressSanitizer"))

    def memory(self):
        """Bytes in memory: resident, and the anonymous part of them."""
        return memory(self.pid)

    def descriptors(self):
        """The number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stats(self):
        """The result of agent.stats."""
        with self.connect() as client:
            return client.call("agent.stats")


def group_members(group):
    """The processes of a process group."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                found.append(int(entry.name))
        except ProcessLookupError:
            pass
    return found


def runs(pid):
    """Whether a process is there and no zombie. Its first thread may be one while others still have its files."""
    try:
        states = [stat.read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()[0]
                  for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except (OSError, IndexError):  # a thread went meanwhile
        return pathlib.Path(f"/proc/{pid}").exists()
    return any(state not in "ZX" for state in states)


Memory = collections.namedtuple("Memory", "resident anonymous")


def memory(pid):
    """Bytes that a process has in memory."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = dict(line.split(":", 1) for line in text.splitlines() if line.startswith(("VmRSS:", "RssAnon:")))
    return Memory(*(int(found[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon")))


# --- The table -------------------------------------------------------------------------------------------------

_rows = []
_skipped = []


def report(test, attempts, survived, lost=None, note=None):
    """Notes a test for the table that finish() prints. Lost is, where it is not told, what did not survive."""
    lost = attempts - survived if lost is None else lost
    _rows.append((test, attempts, survived, lost))
    print(f"{test}: {attempts} attempts, {survived} survived, {lost} lost" + (f"; {note}" if note else ""), flush=True)


def skip(test, why):
    """Says loudly that a test is left out."""
    _skipped.append(test)
    print(f"SKIPPED {test}: {why}", file=sys.stderr, flush=True)


def finish():
    """Prints the lines of the table; returns the exit status: 1 where anything was lost, or nothing tried and nothing skipped."""
    sys.stdout.flush()
    for test, attempts, survived, lost in _rows:
        print(f"torture\t{test}\t{attempts}\t{survived}\t{lost}", flush=True)
    if not _rows and not _skipped:
        print("nothing was tried", file=sys.stderr)
        return 1
    return 1 if any(lost for *_, lost in _rows) else 0
