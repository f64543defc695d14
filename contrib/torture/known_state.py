"""A state and a cache whose content is known: acknowledged values, their revisions, and the bytes of each image.

syscalls.py and damage.py cause faults, and then compare what an agent serves with the known content.
"""

import contextlib
import hashlib
import json
import pathlib
import shutil
import subprocess
import tempfile

import larder_agent  # finds the module test_origin, too
import test_origin

WORKERS = 3  # the number of agents that run at a time
HERE = pathlib.Path(__file__).resolve().parent
# Parts of the log messages with which larderd reports that saved content was damaged, lost or ignored.
ANNOUNCEMENTS = ("damaged", "invalid record", "set aside", "cannot be read", "cannot read", "are missing",
                 "could not be")


def compiled(source, directory):
    """Compiles a C file of this directory as a library for LD_PRELOAD. Returns its path."""
    library = pathlib.Path(directory) / (pathlib.Path(source).stem + ".so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / source, "-ldl"], check=True)
    return library


# --- Images ----------------------------------------------------------------------------------------------------


def png(number):
    """Returns a different PNG for each number, with (number + 8) × (number + 5) pixels."""
    width, height = number + 8, number + 5
    pixels = bytes((number * 37 + x * 5 + y * 11) % 256 for y in range(height) for x in range(width))
    # Pads image N by N times 700 bytes, so that images with higher numbers occupy more than one disk block.
    return test_origin.png(width, height, pixels, text=bytes(65 + (number + i) % 26 for i in range(number * 700)))


class Origin(test_origin.Origin):
    """An origin with an image for each number, which may be cached for a day."""

    def __init__(self):
        fields = {"Content-Type": "image/png", "Cache-Control": "max-age=86400"}
        super().__init__(lambda path, _: (200, fields, png(int(path.strip("/").split(".")[0]))))

    def url(self, number):
        return f"{self.address}/{number}.png"


def image_problem(client, url, number):
    """Requests an image and checks its file and metadata. Returns a problem as text, or None.

    Raises AgentError if the request fails.
    """
    def get():
        try:
            return client.call("image.get", url=url)
        except larder_agent.AgentError as error:
            # On a busy machine the origin of this script may be slow to respond, which is not a fault of the agent.
            if error.name != "offline":
                raise
    result = larder_agent.eventually(get, f"waiting for the origin of {url}", seconds=3 * larder_agent.TIMEOUT)
    content = pathlib.Path(result["path"]).read_bytes()
    expected = png(number)
    client.call("image.release", lease=result["lease"])
    metadata = (result["mediaType"], result["width"], result["height"], result["bytes"], result["digest"])
    expected_metadata = ("image/png", number + 8, number + 5, len(expected), "sha256:" + hashlib.sha256(expected).hexdigest())
    if content != expected:
        return f"{url}: the file {result['path']} has the wrong content ({result['source']}, {result['freshness']})"
    if metadata != expected_metadata:
        return f"{url}: the reply has {metadata}, expected {expected_metadata} ({result['source']}, {result['freshness']})"
    return None


# --- Settings --------------------------------------------------------------------------------------------------


def settings(directory, **more):
    """Returns settings with three namespaces: one without a source, one for pushes, and one whose source is a file."""
    feed = pathlib.Path(directory) / "feed.json"
    if not feed.exists():
        feed.write_text(json.dumps({"feed": {"from": "file", "number": 7}}))
    result = {
        "images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0, "maximumBytes": 64 << 20, "maximumImageBytes": 1 << 20},
        "namespaces": {"default": {}, "pushed": {}, "feed": {"remote": {"file": {"path": str(feed)}}}},
    }
    return {**result, **more}


NAMESPACES = ("default", "pushed", "feed")


# --- Observed snapshots ----------------------------------------------------------------------------------------


class Witness:
    """Records each snapshot that an agent serves, and reports contradictions in `problems`."""

    def __init__(self):
        self.seen = {}  # (namespace, epoch, revision) → value as JSON text
        self.newest = {}  # namespace → newest acknowledged value, as JSON text
        self.known = {}  # namespace → all acknowledged values, as JSON text
        self.parts = {}  # (namespace, name) → all values of a top-level member, as JSON text
        self.problems = []

    def see(self, client, namespace):
        """Reads the current snapshot, and checks that no other value was seen under its revision."""
        try:
            reply = client.call("config.get", namespace=namespace)
        except larder_agent.AgentError as error:
            if error.name == "unavailable":
                return None
            raise
        text = canonical(reply["value"])
        key = (namespace, reply["epoch"], reply["revision"])
        if self.seen.setdefault(key, text) != text:
            self.problems.append(f"{namespace}: revision {reply['revision']} was {self.seen[key]}, and now is {text}")
        return reply

    def learn(self, client):
        """Records the current values as correct."""
        for namespace in NAMESPACES:
            reply = self.see(client, namespace)
            if reply is None:
                continue
            self.newest[namespace] = canonical(reply["value"])
            self.known.setdefault(namespace, set()).add(canonical(reply["value"]))
            for name, value in reply["value"].items():
                self.parts.setdefault((namespace, name), set()).add(canonical(value))

    def judge(self, client, log):
        """Checks that the agent serves the newest value, or that the log reports damage and every member is a former value."""
        for namespace in NAMESPACES:
            # If the whole state of a namespace is lost, the namespace is unavailable until its source, which is a file here,
            # has been read.
            reply = larder_agent.eventually(lambda: self.see(client, namespace), f"waiting for the namespace {namespace}")
            text = canonical(reply["value"])
            if text == self.newest[namespace]:
                continue
            if not any(word in log for word in ANNOUNCEMENTS):
                self.problems.append(f"{namespace}: {text} is served, not {self.newest[namespace]}, without a report in the log")
            elif text not in self.known[namespace]:
                # The agent also applies valid journal records after a gap. The value is then a new combination, but each
                # member must have been acknowledged at some time.
                for name, value in reply["value"].items():
                    if canonical(value) not in self.parts.get((namespace, name), ()):
                        self.problems.append(f"{namespace}: {name} is {canonical(value)}, which was never acknowledged")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- Known state -----------------------------------------------------------------------------------------------


class KnownState:
    """A directory with `state` and `cache`, and a record of what an agent served from them.

    After a clean stop all changes are in generations. With `is_killed`, the last changes are only in the journal.
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
            # Restart the agent, so that its state contains older generations.
            for step in range(2):
                agent.restart()
                with agent.connect() as client:
                    for key in range(2):
                        client.call("config.set", path=f"key{key}", value={"step": step, "text": "x" * 40})
                        self.witness.learn(client)
            agent.restart()
            # Wait until the source of `feed` has been read, so that its snapshot no longer changes.
            with agent.connect() as client:
                larder_agent.eventually(
                    lambda: client.call("config.get", namespace="feed")["state"] == "fresh", "waiting for the source of feed")
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

    def copy(self, prefix):
        """Returns a new directory with a copy of state and cache, which has the same epoch.

        The copy lacks the identity of the directory, with which the agent detects copies.
        """
        directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
        for part in ("state", "cache"):
            shutil.copytree(self.directory / part, directory / part)
        epoch = directory / "state" / "epoch"
        epoch.write_text(epoch.read_text().splitlines()[0] + "\n")
        return directory


@contextlib.contextmanager
def known_states(larderd, origin):
    """The state of an agent that was stopped, and that of one that was killed. Both are removed at the end."""
    states = [KnownState(larderd, origin, is_killed) for is_killed in (False, True)]
    try:
        yield states
    finally:
        for known in states:
            shutil.rmtree(known.directory, ignore_errors=True)
