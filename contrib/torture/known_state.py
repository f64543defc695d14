"""A state and a cache of which everything is known: what was acknowledged, under which revisions, and what each image is.

Scripts that break a machine compare with it what an agent serves afterwards. See syscalls.py and damage.py.
"""

import hashlib
import http.server
import json
import pathlib
import struct
import subprocess
import tempfile
import threading
import zlib

import larder_agent

HERE = pathlib.Path(__file__).resolve().parent
# What larderd says when it serves less than it had, or not what a file says.
ANNOUNCEMENTS = ("damaged", "invalid record", "set aside", "cannot be read", "cannot read", "made again", "are missing",
                 "could not be")


def compiled(source, directory):
    """A library for LD_PRELOAD, made of a C file beside this one."""
    library = pathlib.Path(directory) / (pathlib.Path(source).stem + ".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / source, "-ldl"], check=True)
    return library


# --- Images ----------------------------------------------------------------------------------------------------


def png(number):
    """A PNG of its own for each number: (number + 8) × (number + 5) pixels."""
    width, height = number + 8, number + 5
    rows = b"".join(b"\0" + bytes((number * 37 + x * 5 + y * 11) % 256 for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    # Of different lengths, so that files do not fit into one block only.
    text = chunk(b"tEXt", b"note\0" + bytes(65 + (number + i) % 26 for i in range(number * 700)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + text + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Origin:
    """An HTTP server on the loopback with an image for each number, good for a day."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = png(int(self.path.strip("/").split(".")[0]))
                self.send_response(200)
                for name, value in {"Content-Type": "image/png", "Content-Length": len(body),
                                    "Cache-Control": "max-age=86400", "ETag": f'"{len(body)}"'}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # an agent that is killed while it downloads
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, number):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{number}.png"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def image_problem(client, url, number):
    """What is wrong with what the agent gives for an image; None where all is right. Raises AgentError."""
    def get():
        try:
            return client.call("image.get", url=url)
        except larder_agent.AgentError as error:
            # Our own origin, which a busy machine has kept from answering: that is no fault of the agent's.
            if error.name != "offline":
                raise
    result = larder_agent.eventually(get, f"the origin of {url} answers", seconds=3 * larder_agent.PATIENCE)
    bytes_ = pathlib.Path(result["path"]).read_bytes()
    expected = png(number)
    client.call("image.release", lease=result["lease"])
    told = (result["mediaType"], result["width"], result["height"], result["bytes"], result["digest"])
    right = ("image/png", number + 8, number + 5, len(expected), "sha256:" + hashlib.sha256(expected).hexdigest())
    if bytes_ != expected:
        return f"{url}: the file {result['path']} has other bytes ({result['source']}, {result['freshness']})"
    if told != right:
        return f"{url}: {told} is told, {right} is right ({result['source']}, {result['freshness']})"
    return None


# --- The settings ----------------------------------------------------------------------------------------------


def settings(directory, **more):
    """Settings with a namespace that is pushed, and one whose source is a file."""
    feed = pathlib.Path(directory) / "feed.json"
    if not feed.exists():
        feed.write_text(json.dumps({"feed": {"from": "file", "number": 7}}))
    made = {
        "images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0, "maximumBytes": 64 << 20, "imageBytes": 1 << 20},
        "namespaces": {"default": {}, "pushed": {}, "feed": {"remote": {"file": {"path": str(feed)}}}},
    }
    return {**made, **more}


NAMESPACES = ("default", "pushed", "feed")


# --- What was seen ---------------------------------------------------------------------------------------------


class Witness:
    """Remembers each snapshot that it was shown, and says what contradicts what it knows."""

    def __init__(self):
        self.seen = {}  # (namespace, epoch, revision) → value as text
        self.newest = {}  # namespace → value
        self.known = {}  # namespace → all values, as texts
        self.parts = {}  # (namespace, name) → all values of a member at the top, as texts
        self.problems = []

    def see(self, client, namespace):
        """Reads the current snapshot and holds it against what was seen under its revision."""
        try:
            reply = client.call("config.get", namespace=namespace)
        except larder_agent.AgentError as error:
            if error.name == "unavailable":
                return None
            raise
        text = canonical(reply["value"])
        key = (namespace, reply["epoch"], reply["revision"])
        if self.seen.setdefault(key, text) != text:
            self.problems.append(f"{namespace}: revision {reply['revision']} was {self.seen[key]} and is {text} now")
        return reply

    def learn(self, client):
        """Takes what is served as true."""
        for namespace in NAMESPACES:
            reply = self.see(client, namespace)
            if reply is None:
                continue
            self.newest[namespace] = canonical(reply["value"])
            self.known.setdefault(namespace, set()).add(canonical(reply["value"]))
            for name, value in reply["value"].items():
                self.parts.setdefault((namespace, name), set()).add(canonical(value))

    def judge(self, client, log):
        """Compares what is served with what is known: the newest, or something older that the log announces."""
        for namespace in NAMESPACES:
            # Where all is lost, nothing is served until the source answers, which is a file here.
            reply = larder_agent.eventually(lambda: self.see(client, namespace), f"{namespace} is served")
            text = canonical(reply["value"])
            if text == self.newest[namespace]:
                continue
            if not any(word in log for word in ANNOUNCEMENTS):
                self.problems.append(f"{namespace}: {text} is served for {self.newest[namespace]}, and nothing is said")
            elif text not in self.known[namespace]:
                # Records that are whole are taken up behind a gap: each member is one that was acknowledged once.
                for name, value in reply["value"].items():
                    if canonical(value) not in self.parts.get((namespace, name), ()):
                        self.problems.append(f"{namespace}: {name} is {canonical(value)}, which it never was")


def keep_epoch(directory):
    """Has a copy of the state go on under the epoch of its original: the agent cannot compare where it is without its record."""
    epoch = directory / "state" / "epoch"
    epoch.write_text(epoch.read_text().splitlines()[0] + "\n")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- A state of which everything is known ------------------------------------------------------------------------


class KnownState:
    """A directory with `state` and `cache`, and what was acknowledged there.

    A stop in good order has everything in generations; with `is_killed`, the last changes are in the journal only.
    """

    images = (1, 2, 3)

    def __init__(self, larderd, origin, is_killed):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-known."))
        self.witness = Witness()
        agent = larder_agent.Agent(larderd, settings=settings(self.directory), directory=self.directory)
        agent.start()
        try:
            with agent.connect() as client:
                client.call("config.push", namespace="pushed", document={"shop": {"open": True}, "n": 1}, version="1")
                for number in self.images:
                    problem = image_problem(client, origin.url(number), number)
                    assert problem is None, problem
                client.call("image.pin", url=origin.url(1))
                self.witness.learn(client)
            # Generations before the newest one.
            for step in range(2):
                agent.restart()
                with agent.connect() as client:
                    for key in range(2):
                        client.call("config.set", path=f"key{key}", value={"step": step, "text": "x" * 40})
                        self.witness.learn(client)
            agent.restart()
            # The state in `feed` is settled when its source was asked.
            with agent.connect() as client:
                larder_agent.eventually(
                    lambda: client.call("config.get", namespace="feed")["state"] == "fresh", "the file is read")
            with agent.connect() as client:
                for key in range(4):
                    client.call("config.set", path=f"key{key}", value={"last": key})
                    self.witness.learn(client)
                client.call("config.push", namespace="pushed", document={"shop": {"open": False}, "n": 2}, version="2")
                self.witness.learn(client)
                if is_killed:
                    agent.kill()
            if not is_killed:
                agent.stop()
        finally:
            agent.kill()
