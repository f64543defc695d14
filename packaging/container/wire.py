"""A client of the agent in a few lines: one request after the other, and events as they come."""

import json
import socket


class Refused(Exception):
    """The agent answered with an error, whose `data` is in `data`."""

    def __init__(self, error):
        super().__init__(f"{error['message']}: {error.get('data', {}).get('detail', '')}")
        self.data = error.get("data", {})


class Closed(ConnectionError):
    """The agent closed the connection before it answered."""


class Connection:
    """A connection to the agent's socket."""

    def __init__(self, path="/run/larder/larder.sock", timeout=60):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.pending = b""
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def message(self):
        """The next line."""
        while b"\n" not in self.pending:
            part = self.socket.recv(65536)
            if not part:
                raise Closed("closed by the agent")
            self.pending += part
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def call(self, method, **params):
        """The result of a request; events that come before it are passed over."""
        self.number += 1
        self.socket.sendall(json.dumps({"id": self.number, "method": method, "params": params}).encode() + b"\n")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]


def call(method, socket_path="/run/larder/larder.sock", **params):
    """One request on a connection of its own."""
    with Connection(socket_path) as connection:
        return connection.call(method, **params)
