"""An agent for tests, and a connection that sends and receives lines as they are.

>>> with larder_client.testing.AgentProcess(larderd, settings={"namespaces": {"shop": {}}}) as agent:
...     with larder_client.Client(agent.socket) as client:
...         client.set("a", 1, namespace="shop")["changed"]
True
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ._core import SYSTEM_SOCKET, agent_error
from ._values import memory_file
from .errors import Disconnected

StrPath = str | os.PathLike[str]


class Died(Exception):
    """The agent exited unexpectedly, or with a nonzero status."""


class Connection:
    """A blocking connection for tests of an agent. Each wait for the agent raises TimeoutError after ``timeout`` seconds.

    Received file descriptors are appended to ``descriptors``. Callers remove those that they adopt; close() closes the rest.
    """

    def __init__(self, path: StrPath = SYSTEM_SOCKET, timeout: float = 60) -> None:
        self.timeout = timeout
        self.buffer = bytearray()
        self.events: collections.deque[dict[str, Any]] = collections.deque()
        self.replies: dict[Any, dict[str, Any]] = {}
        self.descriptors: list[int] = []
        self.last_id = 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and the descriptors that were not adopted."""
        self.socket.close()
        while self.descriptors:
            os.close(self.descriptors.pop())

    def shut_down(self) -> None:
        """Shuts down the sending side. Replies can still be received."""
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data: object) -> None:
        """Sends bytes unchanged, and any other value as a line of JSON."""
        if not isinstance(data, (bytes, bytearray)):
            data = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        self.socket.sendall(data)

    def request(self, method: str, /, **params: object) -> int:
        """Sends a request and returns its id."""
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def call(self, method: str, /, **params: object) -> Any:
        """Sends a request and returns its result. Raises the AgentError of an error reply."""
        return self.result(self.request(method, **params))

    def put_image(self, url: str, content: bytes, **params: object) -> Any:
        """Stores bytes as the image of a URL. Returns the result of image.put."""
        self.last_id += 1
        params |= {"url": url, "descriptor": True}
        line = json.dumps({"id": self.last_id, "method": "image.put", "params": params}).encode() + b"\n"
        with memory_file(content) as file:
            sent = socket.send_fds(self.socket, [line], [file.fileno()])
        self.socket.sendall(line[sent:])
        return self.result(self.last_id)

    def result(self, id: int) -> Any:
        """Waits for the reply to a request and returns its result. Raises the AgentError of an error reply."""
        while id not in self.replies:
            message = self.message()
            self._keep(message)
            if message.get("id") is None and "error" in message:
                raise agent_error(message["error"])
        reply = self.replies.pop(id)
        if "error" in reply:
            raise agent_error(reply["error"])
        return reply["result"]

    def event(self, seconds: float | None = None) -> dict[str, Any]:
        """Waits for the next event and returns its ``params``."""
        while not self.events:
            self._keep(self.message(seconds))
        event: dict[str, Any] = self.events.popleft()["params"]
        return event

    def _keep(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self.events.append(message)
        else:
            self.replies[message.get("id")] = message

    def message(self, seconds: float | None = None) -> Any:
        """Waits for the next line and returns it as a JSON value."""
        return json.loads(self.line(seconds))

    def line(self, seconds: float | None = None) -> bytes:
        """Returns the next line without its line feed. Raises TimeoutError after ``seconds`` without input."""
        searched = 0
        while (end := self.buffer.find(b"\n", searched)) < 0:
            searched = len(self.buffer)
            limit = self.timeout if seconds is None else seconds
            self.socket.settimeout(limit)
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 16, 16)
            except TimeoutError:
                raise TimeoutError(f"no input from the agent for {limit:g} s") from None
            finally:
                self.socket.settimeout(self.timeout)
            self.descriptors += descriptors
            if not data:
                raise Disconnected("the agent closed the connection")
            self.buffer += data
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return line


def call(method: str, path: StrPath = SYSTEM_SOCKET, /, **params: object) -> Any:
    """Sends one request on a new connection and returns its result."""
    with Connection(path) as connection:
        return connection.call(method, **params)


class AgentProcess:
    """A larderd process with its socket, settings, state and cache in a directory, independent of the machine and the user.

    program: the larderd to run.
    directory: for all files; None for a new one, which ``remove`` and the end of a block remove.
    settings: the content of the settings file, as an object or as JSON5 text.
    prefix: arguments before the command, for example ``valgrind`` or ``prlimit`` with its options.
    arguments: additional arguments of larderd.
    environment: additional environment variables.
    before: a function to call in the new process before it executes larderd.
    """

    # The class of connections that connect() returns.
    connection = Connection
    # The environment variables that an agent inherits. Agents built with a sanitizer need the last four.
    INHERITED = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD", "TSAN_OPTIONS", "ASAN_OPTIONS", "UBSAN_OPTIONS")

    def __init__(
        self,
        program: StrPath,
        directory: StrPath | None = None,
        settings: Mapping[str, object] | str | None = None,
        prefix: Sequence[str] = (),
        arguments: Sequence[StrPath] = (),
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        self.program = pathlib.Path(program).resolve()
        self._is_temporary = directory is None
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-") if directory is None else directory)
        self.prefix, self.arguments, self.before = list(prefix), list(arguments), before
        self.environment = dict(environment or {})
        self.socket, self.log, self.settings = (self.directory / name for name in ("larder.sock", "log", "larder.json"))
        self.state, self.cache = self.directory / "state", self.directory / "cache"
        self.process: subprocess.Popen[bytes] | None = None
        self.write_settings({} if settings is None else settings)

    def __enter__(self) -> Any:
        try:
            self.start().close()
        except BaseException:
            self.kill()
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self.process is not None and kind is None:
                self.stop()
        finally:
            self.kill()
            self.remove()

    def remove(self) -> None:
        """Removes the directory if it was created for this agent."""
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def write_settings(self, settings: Mapping[str, object] | str) -> None:
        """Writes the settings file. The agent reads it when it starts or reloads."""
        self.settings.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")

    def launch(self) -> None:
        """Starts the process without waiting until it accepts connections."""
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        own = {"HOME": home, "TMPDIR": self.directory, "CONFIGURATION_DIRECTORY": home / "config/larder"}
        own |= {f"XDG_{name}_HOME": home / name.lower() for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        command = [
            self.program, "--socket", self.socket, "--state-directory", self.state, "--cache-directory", self.cache,
            "--settings", self.settings, *self.arguments,
        ]  # fmt: skip
        inherited = {name: os.environ[name] for name in self.INHERITED if name in os.environ}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.prefix + [str(argument) for argument in command],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self.before,
                process_group=0,
                env=inherited | {name: str(value) for name, value in own.items()} | self.environment,
            )

    def start(self, seconds: float = 60) -> Connection:
        """Starts the process, waits until it accepts connections, and returns one."""
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.connect()
            except OSError as problem:
                if self.process.poll() is not None:
                    raise Died(
                        f"the agent exited during startup with status {self.process.returncode}:\n{self.log_tail()}"
                    ) from None
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"the agent does not accept connections after {seconds:g} s: {problem}\n{self.log_tail()}"
                    ) from None
                time.sleep(0.005)

    def connect(self, timeout: float = 60) -> Connection:
        """Returns a new connection."""
        return self.connection(self.socket, timeout)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 60) -> int:
        """Returns the exit status, or the negative signal number. Kills the process if it does not exit in time."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the agent did not exit within {seconds:g} s") from None
        finally:
            self.process = None

    def stop(self, seconds: float = 60) -> None:
        """Stops the process with SIGTERM. Raises Died unless its exit status is 0."""
        self.terminate()
        status = self.wait(seconds)
        if status != 0:
            raise Died(f"the agent exited with status {status} after SIGTERM\n{self.log_tail()}")

    def kill(self) -> None:
        """Stops the process with SIGKILL, if it is running."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log_text(self) -> str:
        """The log of the agent."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        return "\n".join(self.log_text().splitlines()[-lines:])
