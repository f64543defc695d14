"""What the scripts of this directory share: an agent of their own, clients of it, what it uses, and the table's lines.

    import larder_agent

    options = larder_agent.options(__doc__)
    with larder_agent.Agent(options.larderd, settings={"limits": {"connections": 100}}) as agent:
        with agent.connect() as client:
            client.call("config.set", path="a.b", value=1)
        larder_agent.report("one write", attempts=1, survived=1)
    sys.exit(larder_agent.finish())

Needs nothing but Python 3.9 and Linux.
"""

import argparse
import collections
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Longer than anything may take on a machine that is busy with other things. What takes longer hangs.
PATIENCE = 60.0


class AgentError(Exception):
    """An error that the agent replied: `name`, `code`, `detail`, `retryable`."""

    def __init__(self, error):
        self.error = error
        self.code = error.get("code")
        data = error.get("data") or {}
        self.name, self.detail, self.retryable = data.get("name"), data.get("detail", ""), data.get("retryable")
        super().__init__(f"{self.name}: {self.detail}")


class ConnectionEnded(Exception):
    """The agent closed the connection, or a read or write of it failed."""


class Hang(Exception):
    """Something did not happen within its time."""


class Died(Exception):
    """The agent ended when it should not have, or not as it should have."""


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
    """Waits until a condition has a value that is true, and returns that; raises Hang where it takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Hang(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)


# --- The agent -------------------------------------------------------------------------------------------------


class Agent:
    """An agent of one's own, in a directory of its own: `socket`, `state`, `cache`, `log`, `settings` are its paths.

    settings: what its settings file says, an object or text.
    directory: where to have everything; it stays when the agent is gone. Default: a new one, which does not.
    prefix: words before the command, such as ["strace", …] or ["prlimit", …].
    environment: variables beside those of an agent that finds nothing of this machine's.
    before: called in the child before it becomes the agent (resource.setrlimit, os.setuid, …).
    """

    def __init__(self, larderd=None, settings=None, directory=None, prefix=(), environment=None, before=None, keep=False):
        self.program = pathlib.Path(larderd or newest_program()).resolve()
        self.is_temporary = directory is None
        self.keep = keep
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="larder-torture."))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket, self.log = self.directory / "larder.sock", self.directory / "log"
        self.state, self.cache = self.directory / "state", self.directory / "cache"
        self.settings = self.directory / "larder.json"
        self.prefix, self.before, self.environment = list(prefix), before, dict(environment or {})
        self.process = None
        self.write_settings({} if settings is None else settings)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, problem, trace):
        try:
            if self.process:
                if kind:
                    self.kill()
                else:
                    self.stop()
        finally:
            if kind and not issubclass(kind, KeyboardInterrupt):
                print(f"the agent's last words:\n{self.last_words()}", file=sys.stderr)
            self.remove()

    def write_settings(self, settings):
        """Writes the settings file; it counts from the next start or reload()."""
        text = settings if isinstance(settings, str) else json.dumps(settings)
        self.settings.write_text(text, encoding="utf-8")

    def command(self):
        words = [self.program, "--socket", self.socket, "--state-directory", self.state, "--cache-directory", self.cache]
        return self.prefix + [str(word) for word in words + ["--settings", self.settings]]

    def start(self, wait=True):
        """Starts it; with `wait` it serves when this returns, and Died is raised where it ends before that."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        keep = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH")}
        own = {"HOME": home, "TMPDIR": self.directory, "CONFIGURATION_DIRECTORY": home / "config" / "larder"}
        own |= {f"XDG_{name}_HOME": home / name.lower() for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=self.before, process_group=0,
                env={**keep, **{name: str(value) for name, value in own.items()}, **self.environment})
        if wait:
            self.wait_until_ready()
        return self

    def wait_until_ready(self, seconds=PATIENCE):
        """Returns once it answers; raises Died where it ends before that, and Hang where it does neither."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Died(f"the agent ended at its start with status {self.process.returncode}:\n{self.last_words()}")
            try:
                with self.connect(patience=max(0.1, deadline - time.monotonic())) as client:
                    client.call("agent.ping")
                    return
            except (OSError, ConnectionEnded):
                time.sleep(0.005)
        raise Hang(f"the agent does not serve after {seconds:g} s:\n{self.last_words()}")

    @property
    def pid(self):
        """The process that serves, which is a child of the prefix's where there is one."""
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

    def connect(self, patience=PATIENCE):
        """A client of it."""
        return Client(self.socket, patience)

    def wait(self, seconds=PATIENCE):
        """Waits for its end; returns its status, which is negative after a signal."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Hang(f"the agent still ran after {seconds:g} s") from None
        self.process = None
        return status

    def stop(self):
        """Ends it by SIGTERM; raises Died unless it ends in good order."""
        if not self.is_running:
            status, self.process = self.process.returncode, None
            raise Died(f"the agent was not running any more: status {status}\n{self.last_words()}")
        os.kill(self.pid, signal.SIGTERM)
        status = self.wait()
        if status != 0:
            raise Died(f"the agent ended with status {status} after SIGTERM\n{self.last_words()}")

    def kill(self):
        """Ends it, and what is in front of it, by SIGKILL."""
        if self.process is None:
            return
        members = group_members(self.process.pid)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its group is its own
        except ProcessLookupError:
            pass
        self.process.wait()
        # What was in front of the agent may be gone before the agent is, which has its lock until then.
        eventually(lambda: not any(map(runs, members)), "the agent is gone after SIGKILL")
        self.process = None

    def restart(self):
        self.stop()
        return self.start()

    def reload(self, settings=None):
        """Lets it read its settings again; returns once it has, or said why not."""
        if settings is not None:
            self.write_settings(settings)
        words = ("settings re-read", "the new settings are wrong")
        read = lambda: sum(self.log_text().count(word) for word in words)
        before = read()
        os.kill(self.pid, signal.SIGHUP)
        eventually(lambda: read() > before, "the agent reads its settings again")

    def remove(self):
        """Removes its directory, where that was made for it and is not to be kept."""
        if self.keep:
            print(f"kept: {self.directory}", file=sys.stderr)
        elif self.is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    # What it uses and says

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def last_words(self, lines=30):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def crashed(self):
        """Whether its log tells of a crash."""
        text = self.log_text()
        return any(word in text for word in ("Fatal error", "*** Signal", "Program crashed", "AddressSanitizer"))

    def memory(self):
        """Bytes in memory: resident, and the part that is its own (anonymous)."""
        return memory(self.pid)

    def descriptors(self):
        """How many file descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def processor_seconds(self):
        """Processor time that it has used."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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


# --- Clients ---------------------------------------------------------------------------------------------------


class Client:
    """A connection that waits: requests, replies and events as lines.

    Events that come while a reply is waited for are kept for event().
    """

    def __init__(self, path, patience=PATIENCE):
        self.patience = patience
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.settimeout(patience)
        try:
            self.stream.connect(str(path))
        except OSError:
            self.stream.close()
            raise
        self.buffer = bytearray()
        self.events = collections.deque()
        self.early = {}
        self.last_id = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()

    def shut_down(self):
        """Says that nothing more will be said."""
        self.stream.shutdown(socket.SHUT_WR)

    def send(self, data):
        """Sends bytes as they are, or an object as a line."""
        if not isinstance(data, (bytes, bytearray)):
            data = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        try:
            self.stream.sendall(data)
        except socket.timeout:
            raise Hang(f"the agent took nothing for {self.patience:g} s") from None
        except OSError as problem:
            raise ConnectionEnded(f"cannot send: {problem}") from None

    def request(self, method, /, **params):
        """Sends a request; returns its id."""
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def notify(self, method, /, **params):
        """Sends a request that is not answered."""
        self.send({"method": method, "params": params})

    def call(self, method, /, **params):
        """A request's result; raises AgentError where that is an error."""
        return self.result(self.request(method, **params))

    def result(self, id):
        """The result of a request that was sent."""
        while id not in self.early:
            message = self.message()
            if message.get("method"):
                self.events.append(message)
            else:
                self.early[message.get("id")] = message
                if message.get("id") is None and "error" in message:
                    raise AgentError(message["error"])
        reply = self.early.pop(id)
        if "error" in reply:
            raise AgentError(reply["error"])
        return reply["result"]

    def subscribe(self, path="", **params):
        """Subscribes; returns the reply's result. The events come by event()."""
        return self.call("config.subscribe", path=path, **params)

    def event(self, seconds=None):
        """The params of the next event; raises Hang where none comes in that time."""
        while not self.events:
            message = self.message(seconds)
            if message.get("method"):
                self.events.append(message)
            else:
                self.early[message.get("id")] = message
        return self.events.popleft()["params"]

    def message(self, seconds=None):
        """The next message, whatever it is."""
        return json.loads(self.line(seconds))

    def line(self, seconds=None):
        """The next line without its end; raises ConnectionEnded at the end of input."""
        deadline = time.monotonic() + (self.patience if seconds is None else seconds)
        searched = 0
        while True:
            end = self.buffer.find(b"\n", searched)
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[: end + 1]
                return line
            searched = len(self.buffer)
            readable, _, _ = select.select([self.stream], [], [], max(0, deadline - time.monotonic()))
            if not readable:
                raise Hang(f"no line from the agent in {self.patience if seconds is None else seconds:g} s")
            try:
                data = self.stream.recv(1 << 18)
            except OSError as problem:
                raise ConnectionEnded(f"cannot receive: {problem}") from None
            if not data:
                raise ConnectionEnded("the agent closed the connection")
            self.buffer += data

    def ended(self, seconds=None):
        """Waits for the agent to close the connection; returns the lines that came before that."""
        lines = []
        try:
            while True:
                lines.append(self.line(seconds))
        except ConnectionEnded:
            return lines


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
