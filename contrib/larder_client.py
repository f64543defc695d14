"""A client connection and a process class for agents, used by the scripts of this repository.

    from larder_client import AgentProcess

    agent = AgentProcess(".build/debug/larderd", directory)
    with agent.start() as connection:
        connection.call("config.set", path="a.b", value=1)
    agent.stop()

Requires Python 3.11 and Linux; no other packages.
"""

import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

SYSTEM_SOCKET = "/run/larder/larder.sock"


class AgentError(Exception):
    """An error response. `error` is the complete error object; `name`, `code`, `detail` and `retryable` are taken from it."""

    def __init__(self, error):
        data = error.get("data") or {}
        self.error, self.code = error, error.get("code")
        self.name, self.detail, self.retryable = data.get("name"), data.get("detail", ""), data.get("retryable")
        super().__init__(f"{self.name}: {self.detail}")


class Closed(ConnectionError):
    """The agent closed the connection."""


class Died(Exception):
    """The agent exited unexpectedly, or with a nonzero status."""


class Connection:
    """A blocking connection. Each wait for the agent raises TimeoutError after `timeout` seconds.

    Received file descriptors are appended to `descriptors`. Callers remove those that they adopt; close() closes the rest.
    """

    def __init__(self, path=SYSTEM_SOCKET, timeout=60):
        self.timeout = timeout
        self.buffer = bytearray()
        self.events, self.replies, self.descriptors = collections.deque(), {}, []
        self.last_id = 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        while self.descriptors:
            os.close(self.descriptors.pop())

    def shut_down(self):
        """Shuts down the sending side. Replies can still be received."""
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data):
        """Sends bytes unchanged, and any other value as a line of JSON."""
        if not isinstance(data, (bytes, bytearray)):
            data = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        self.socket.sendall(data)

    def request(self, method, /, **params):
        """Sends a request and returns its id."""
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def call(self, method, /, **params):
        """Sends a request and returns its result. Raises AgentError for an error response."""
        return self.result(self.request(method, **params))

    def put_image(self, url, content, **params):
        """Stores bytes as the image of a URL. Returns the result of image.put."""
        self.last_id += 1
        params |= {"url": url, "descriptor": True}
        line = json.dumps({"id": self.last_id, "method": "image.put", "params": params}).encode() + b"\n"
        with os.fdopen(os.memfd_create("image"), "wb", buffering=0) as file:
            file.write(content)
            sent = socket.send_fds(self.socket, [line], [file.fileno()])
        self.socket.sendall(line[sent:])
        return self.result(self.last_id)

    def result(self, id):
        """Waits for the reply to a request and returns its result. Raises AgentError for an error response."""
        while id not in self.replies:
            message = self.message()
            self._keep(message)
            if message.get("id") is None and "error" in message:
                raise AgentError(message["error"])
        reply = self.replies.pop(id)
        if "error" in reply:
            raise AgentError(reply["error"])
        return reply["result"]

    def event(self, seconds=None):
        """Waits for the next event and returns its `params`."""
        while not self.events:
            self._keep(self.message(seconds))
        return self.events.popleft()["params"]

    def _keep(self, message):
        if "method" in message:
            self.events.append(message)
        else:
            self.replies[message.get("id")] = message

    def message(self, seconds=None):
        """Waits for the next line and returns it as a JSON value."""
        return json.loads(self.line(seconds))

    def line(self, seconds=None):
        """Returns the next line without its line feed. Raises TimeoutError after `seconds` without input."""
        searched = 0
        while (end := self.buffer.find(b"\n", searched)) < 0:
            searched = len(self.buffer)
            if seconds is not None:
                self.socket.settimeout(seconds)
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 16, 16)
            except TimeoutError:
                limit = self.timeout if seconds is None else seconds
                raise TimeoutError(f"no input from the agent for {limit:g} s") from None
            finally:
                if seconds is not None:
                    self.socket.settimeout(self.timeout)
            self.descriptors += descriptors
            if not data:
                raise Closed("the agent closed the connection")
            self.buffer += data
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return line


def call(method, path=SYSTEM_SOCKET, /, **params):
    """Sends one request on a new connection and returns its result."""
    with Connection(path) as connection:
        return connection.call(method, **params)


class AgentProcess:
    """A larderd process with its socket, settings, state and cache in `directory`, independent of the machine and the user.

    settings: the content of the settings file, as an object or as JSON5 text.
    prefix: arguments before the command, for example `valgrind` or `prlimit` with its options.
    arguments: additional arguments of larderd.
    environment: additional environment variables.
    before: a function to call in the new process before it executes larderd.
    """

    # The class of connections that connect() returns.
    connection = Connection
    # The environment variables that an agent inherits. Agents built with a sanitizer need the last four.
    INHERITED = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD", "TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS")

    def __init__(self, program, directory, settings=None, prefix=(), arguments=(), environment=None, before=None):
        self.program, self.directory = pathlib.Path(program).resolve(), pathlib.Path(directory)
        self.prefix, self.arguments, self.before = list(prefix), list(arguments), before
        self.environment = dict(environment or {})
        self.socket, self.log, self.settings = (self.directory / name for name in ("larder.sock", "log", "larder.json"))
        self.state, self.cache = self.directory / "state", self.directory / "cache"
        self.process = None
        self.write_settings({} if settings is None else settings)

    def write_settings(self, settings):
        """Writes the settings file. The agent reads it when it starts or reloads."""
        self.settings.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")

    def launch(self):
        """Starts the process without waiting until it accepts connections."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        own = {"HOME": home, "TMPDIR": self.directory, "CONFIGURATION_DIRECTORY": home / "config/larder"}
        own |= {f"XDG_{name}_HOME": home / name.lower() for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        command = [self.program, "--socket", self.socket, "--state-directory", self.state, "--cache-directory", self.cache,
                   "--settings", self.settings, *self.arguments]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.prefix + [str(argument) for argument in command], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=self.before, process_group=0,
                env={name: os.environ[name] for name in self.INHERITED if name in os.environ}
                | {name: str(value) for name, value in own.items()} | self.environment)

    def start(self, seconds=60):
        """Starts the process, waits until it accepts connections, and returns one."""
        self.launch()
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.connect()
            except OSError as problem:
                if self.process.poll() is not None:
                    raise Died(f"the agent exited during startup with status {self.process.returncode}:\n"
                               f"{self.log_tail()}") from None
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the agent does not accept connections after {seconds:g} s: {problem}\n"
                                       f"{self.log_tail()}") from None
                time.sleep(0.005)

    def connect(self, timeout=60):
        return self.connection(self.socket, timeout)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds=60):
        """Returns the exit status, or the negative signal number. Kills the process if it does not exit in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the agent did not exit within {seconds:g} s") from None
        finally:
            self.process = None

    def stop(self, seconds=60):
        """Stops the process with SIGTERM. Raises Died unless its exit status is 0."""
        self.terminate()
        status = self.wait(seconds)
        if status != 0:
            raise Died(f"the agent exited with status {status} after SIGTERM\n{self.log_tail()}")

    def kill(self):
        """Stops the process with SIGKILL, if it is running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def log_tail(self, lines=30):
        return "\n".join(self.log_text().splitlines()[-lines:])
