#!/usr/bin/env python3
"""Replays transcripts against an agent and compares its messages with the expected ones.

    run-transcripts.py --agent .build/debug/larderd Protocol/transcripts/*.jsonl
        starts a new agent for each transcript, in a temporary directory; unless run as root, skips transcripts that
        connect as another user

Protocol/README.md defines the format of transcripts. With --record FILE (or $LARDER_RECORD) every line sent and received is
appended to FILE, for validate-messages.py. Exit status: 0 all passed, 1 some failed, 2 invalid arguments or transcript.
Requires Python 3.11 and Linux; no other packages.
"""

import argparse
import base64
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading

import test_origin

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python" / "src"))

from larder_client import Disconnected, MappedSnapshot, ProtocolError  # noqa: E402
from larder_client.testing import AgentProcess, Died  # noqa: E402

ERRORS_FILE = pathlib.Path(__file__).resolve().parent.parent / "Protocol" / "schemas" / "error.json"
CAPTURE = re.compile(r"\$([a-z][A-Za-z0-9]*)([+-][0-9]+)?")
SENT_CAPTURE = re.compile(r'"\$([a-z][A-Za-z0-9]*)([+-][0-9]+)?"')
STEP = re.compile(r"([A-Z]?)([→←])(\*?) ?(.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|[nrt\\])")
CONTROLS = {"write", "delete", "upstream", "image", "terminate", "kill", "start"}
STARTUP_SECONDS = 20


class Mismatch(Exception):
    """The agent's behavior differs from the transcript."""


class BadTranscript(Exception):
    """The transcript is invalid."""


# --- JSON that preserves the text of numbers -------------------------------------------------------------------


class Number:
    """A number, compared by its text: 1.0 and 1 are different."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, Number) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    @property
    def is_integer(self):
        return re.fullmatch(r"-?[0-9]+", self.text) is not None


def parse(text):
    """Parses strict JSON: rejects NaN, Infinity and duplicate members."""

    def members(pairs):
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("duplicate member")
        return dict(pairs)

    def reject(constant):
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=reject, object_pairs_hook=members)


def text_of(value):
    """Returns a parsed value as compact JSON."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return "[" + ",".join(text_of(element) for element in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(text_of(name) + ":" + text_of(member) for name, member in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def kind_of(value):
    if isinstance(value, Number):
        return "number"
    if isinstance(value, bool):
        return "bool"
    return {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


# --- Matching --------------------------------------------------------------------------------------------------

KINDS = {
    "any": lambda value: True,
    "int": lambda value: isinstance(value, Number) and value.is_integer,
    "time": lambda value: isinstance(value, str)
    and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", value),
    "epoch": lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}", value),
    "digest": lambda value: isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value),
}
for _kind in ("number", "string", "bool", "null", "array", "object"):
    KINDS[_kind] = lambda value, kind=_kind: kind_of(value) == kind
MATCHERS = {"$any", "$min", "$pattern", "$error", "$detail", "$reason"}


def error_table():
    """Returns the expected object of every error, by name."""
    table = {}
    for name, schema in json.loads(ERRORS_FILE.read_text(encoding="utf-8"))["$defs"].items():
        data = schema["properties"]["data"]["properties"]
        table[name] = {
            "code": Number(str(schema["properties"]["code"]["const"])),
            "message": schema["properties"]["message"]["const"],
            "data": {"name": name, "retryable": data["retryable"]["const"], "detail": {"$any": "string"}},
        }
    return table


def shifted(value, shift, name):
    if not shift:
        return value
    if not (isinstance(value, Number) and value.is_integer):
        raise BadTranscript(f"${name}{shift}: ${name} is not an integer")
    return Number(str(int(value.text) + int(shift)))


class Matcher:
    """Compares received with expected values and remembers captures."""

    def __init__(self):
        self.captures = {}
        self.errors = error_table()

    def differences(self, expected, actual):
        """Returns a line for each difference. Keeps the captures only if the values match."""
        before = dict(self.captures)
        found = []
        self._compare(expected, actual, "$", found)
        if found:
            self.captures = before
        return found

    def _compare(self, expected, actual, where, found):
        def differs(wanted):
            found.append(f"{where}: expected {wanted}, received {shortened(text_of(actual))}")

        if isinstance(expected, str) and expected.startswith("$"):
            capture = CAPTURE.fullmatch(expected)
            if capture:
                name, shift = capture.groups()
                if name in self.captures:
                    wanted = shifted(self.captures[name], shift, name)
                    if wanted != actual:
                        differs(f"{text_of(wanted)} ({expected})")
                else:
                    self.captures[name] = actual
                return
            expected = expected[1:]  # "$$…" is a string that begins with one $
        if isinstance(expected, dict) and MATCHERS & expected.keys():
            self._apply(expected, actual, where, found, differs)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            open_ended = expected.get("$others") is True
            for name, member in expected.items():
                if name == "$others":
                    continue
                if name in actual:
                    self._compare(member, actual[name], f"{where}.{name}", found)
                else:
                    found.append(f"{where}.{name}: missing")
            for name in actual:
                if name not in expected and not open_ended:
                    found.append(f"{where}.{name}: not expected, received {shortened(text_of(actual[name]))}")
        elif isinstance(expected, list) and isinstance(actual, list):
            if len(expected) != len(actual):
                differs(f"{len(expected)} elements")
            for index, (wanted, got) in enumerate(zip(expected, actual)):
                self._compare(wanted, got, f"{where}[{index}]", found)
        elif kind_of(expected) != kind_of(actual) or expected != actual:
            differs(text_of(expected))

    def _apply(self, expected, actual, where, found, differs):
        if "$error" in expected:
            wanted = dict(self.errors[expected["$error"]])
            if "$detail" in expected:
                wanted["data"] = {**wanted["data"], "detail": {"$pattern": expected["$detail"]}}
            if "$reason" in expected:
                wanted["data"] = {**wanted["data"], "reason": expected["$reason"]}
            self._compare(wanted, actual, where, found)
        if "$any" in expected and not any(KINDS[kind](actual) for kind in expected["$any"].split("|")):
            differs(expected["$any"])
        if "$min" in expected:
            if not (isinstance(actual, Number) and float(actual.text) >= float(expected["$min"].text)):
                differs(f"at least {expected['$min'].text}")
        if "$pattern" in expected:
            if not (isinstance(actual, str) and re.search(expected["$pattern"], actual)):
                differs(f"a string with /{expected['$pattern']}/")

    def substituted(self, text):
        """Replaces each "$name" in text to be sent with the captured value."""

        def value(match):
            name, shift = match.groups()
            return text_of(shifted(self.captures[name], shift, name))

        return SENT_CAPTURE.sub(value, text)


def shortened(text, limit=300):
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


# --- Transcripts -----------------------------------------------------------------------------------------------


class Step:
    """One line of a transcript.

    kind: send, bytes, end, close, open, expect, unordered, closed, or a control verb.
    """

    def __init__(self, line, text, kind, connection=None, payload=None):
        self.line, self.text, self.kind, self.connection, self.payload = line, text, kind, connection, payload


class Transcript:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        self.settings = None
        self.steps = []
        known, captured = set(error_table()), set()
        text = self.path.read_bytes().decode("utf-8")
        for number, line in enumerate(text.split("\n"), 1):
            try:
                step = self._step(number, line)
                if step:
                    self._check(step, known, captured)
                    self.steps.append(step)
            except (BadTranscript, ValueError) as problem:
                raise BadTranscript(f"{path}:{number}: {problem}") from None

    @property
    def needs_root(self):
        return any(step.kind == "open" and step.payload is not None for step in self.steps)

    def _step(self, number, line):
        if line.startswith("# settings:"):
            if self.steps:
                raise BadTranscript("settings must precede the first step")
            self.settings = line[len("# settings:") :].strip()
            return None
        if not line.strip() or line.startswith("#"):
            return None
        if line.startswith("! "):
            verb, _, rest = line[2:].partition(" ")
            if verb not in CONTROLS:
                raise BadTranscript(f"unknown control verb {verb}")
            return Step(number, line, verb, payload=rest)
        match = STEP.fullmatch(line)
        if not match:
            raise BadTranscript("not a step or a comment")
        connection, arrow, star, rest = match.groups()
        connection = connection or "A"
        if arrow == "→":
            return self._sending(number, line, connection, rest)
        if rest == "!closed":
            return Step(number, line, "closed", connection)
        return Step(number, line, "unordered" if star else "expect", connection, parse(rest))

    def _sending(self, number, line, connection, rest):
        if not rest.startswith("!"):
            return Step(number, line, "send", connection, rest)
        verb, _, argument = rest[1:].partition(" ")
        if verb == "open":
            return Step(number, line, verb, connection, int(argument) if argument else None)
        if verb in ("end", "close"):
            return Step(number, line, verb, connection)
        if verb == "bytes":
            return Step(number, line, "bytes", connection, unescaped(argument))
        if verb == "repeat":
            count, _, unit = argument.partition(" ")
            return Step(number, line, "bytes", connection, unescaped(unit) * int(count))
        raise BadTranscript(f"unknown directive !{verb}")

    def _check(self, step, known, captured):
        if step.kind == "send":
            for name, _ in SENT_CAPTURE.findall(step.payload):
                if name not in captured:
                    raise BadTranscript(f"${name} is sent before it is captured")
        elif step.kind in ("expect", "unordered"):
            self._check_expected(step.payload, known, captured)

    def _check_expected(self, value, known, captured):
        if isinstance(value, str) and value.startswith("$") and not value.startswith("$$"):
            capture = CAPTURE.fullmatch(value)
            if not capture:
                raise BadTranscript(f"{value} is not a capture")
            if capture.group(2) and capture.group(1) not in captured:
                raise BadTranscript(f"{value} is used before its capture")
            captured.add(capture.group(1))
        elif isinstance(value, list):
            for element in value:
                self._check_expected(element, known, captured)
        elif isinstance(value, dict):
            unknown = [name for name in value if name.startswith("$") and name not in MATCHERS | {"$others"}]
            if unknown:
                raise BadTranscript(f"unknown matcher {unknown[0]}")
            if MATCHERS & value.keys():
                if value.keys() - MATCHERS:
                    raise BadTranscript("a matcher cannot have other members")
                if "$error" in value and value["$error"] not in known:
                    raise BadTranscript(f"unknown error {value['$error']}")
                if not all(kind in KINDS for kind in value.get("$any", "any").split("|")):
                    raise BadTranscript(f"unknown kind {value['$any']}")
                for pattern in ("$pattern", "$detail"):
                    re.compile(value.get(pattern, ""))
            else:
                for member in value.values():
                    if not (member is True):
                        self._check_expected(member, known, captured)


def unescaped(text):
    """Returns the bytes of a text with the escapes \\xHH, \\n, \\r, \\t and \\\\."""
    single = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
    result, position = b"", 0
    for match in ESCAPE.finditer(text):
        escape = match.group(1)
        result += text[position : match.start()].encode()
        result += single[escape] if escape in single else bytes([int(escape[1:], 16)])
        position = match.end()
    rest = text[position:]
    if "\\" in ESCAPE.sub("", text):
        raise BadTranscript("unknown escape")
    return result + rest.encode()


# --- Agent, upstream and recorder ------------------------------------------------------------------------------


class Recorder:
    """Appends each line to a file with a separate write, so that concurrent runs can share the file."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644) if path else None

    def line(self, connection, direction, line):
        if self.file is None:
            return
        entry = {"connection": connection, "dir": direction}
        if line is not None:
            try:
                entry["line"] = line.decode("utf-8")
            except UnicodeDecodeError:
                entry["base64"] = base64.b64encode(line).decode()
        os.write(self.file, (json.dumps(entry, ensure_ascii=False) + "\n").encode())


class RecordedConnection:
    """A connection of a transcript. Records all lines."""

    def __init__(self, connection, name, recorder, timeout):
        self.connection, self.name, self.recorder = connection, name, recorder
        connection.timeout = timeout
        connection.socket.settimeout(timeout)
        self.sent = b""
        self.ended = self.closed = False

    def send(self, data):
        self.sent += data
        *lines, self.sent = self.sent.split(b"\n")
        for line in lines:
            self.recorder.line(self.name, "→", line)
        try:
            self.connection.send(data)
        except OSError as problem:
            raise Mismatch(f"could not send: {problem}") from None

    def end(self):
        if self.sent:
            self.recorder.line(self.name, "→", self.sent)
            self.sent = b""
        self.connection.shut_down()
        self.ended = True

    def receive(self):
        """Returns the next line without its line feed, or None at the end of input."""
        try:
            line = self.connection.line()
        except Disconnected:
            if self.connection.buffer:
                raise Mismatch(f"the connection ended within a line: {bytes(self.connection.buffer[:200])!r}") from None
            return None
        except OSError as problem:
            raise Mismatch(f"could not receive: {problem}") from None
        self.recorder.line(self.name, "←", line)
        return line

    def check_descriptor(self, reply):
        """Checks the file descriptor of a reply that announces one: it must have arrived, and must match the reply."""
        result = reply.get("result") if isinstance(reply, dict) else None
        if not isinstance(result, dict) or result.get("descriptor") is not True:
            return
        descriptors = self.connection.descriptors
        if not descriptors:
            raise Mismatch("the reply announces a descriptor, but none arrived with its line")
        if "digest" not in result:
            return self.check_snapshot(descriptors.pop(0), result)
        with open(descriptors.pop(0), "rb") as file:
            if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                raise Mismatch("the descriptor is not read-only")
            digest = "sha256:" + hashlib.sha256(file.read()).hexdigest()
            if digest != result["digest"]:
                raise Mismatch(f"the file, read from the descriptor's offset, has the digest {digest}")

    @staticmethod
    def check_snapshot(descriptor, result):
        """Checks that a snapshot file is valid and is the one that the reply describes."""
        try:
            size = os.fstat(descriptor).st_size
            snapshot = MappedSnapshot(descriptor)
            snapshot.check()
        except ProtocolError as problem:
            raise Mismatch(f"the descriptor is not a valid snapshot file: {problem}") from None
        finally:
            os.close(descriptor)
        announced = tuple(getattr(result[name], "text", result[name]) for name in ("revision", "epoch", "bytes"))
        actual = (str(snapshot.revision), snapshot.epoch, str(size))
        if announced != actual:
            raise Mismatch(f"revision, epoch and bytes of the file are {actual}, but the reply has {announced}")

    def close(self, abandoned):
        if not self.closed:
            self.closed = True
            self.connection.close()
            if abandoned:
                self.recorder.line(self.name, "×", None)


class Upstream(test_origin.Origin):
    """An origin that sends the response that the transcript set last."""

    def __init__(self):
        self.response = (503, b"")
        self.images = {}
        self.changed = threading.Condition()
        self.stopping = False
        super().__init__(self.respond)

    def respond(self, path, fields):
        if path in self.images:
            body, cache_control = self.images[path]
            return 200, {"Content-Type": "image/png"} | ({"Cache-Control": cache_control} if cache_control else {}), body
        status, body = self.current()
        return None if status is None else (status, {"Content-Type": "application/json"}, body)

    def set_response(self, text):
        status, _, body = text.partition(" ")
        with self.changed:
            self.response = (None, b"") if status == "hang" else (int(status), body.encode())
            self.changed.notify_all()

    def add_image(self, text):
        path, size, cache_control = (text.split(" ", 2) + [""])[:3]
        width, height = (int(number) for number in size.split("x"))
        pixels = bytes([(width * 31 + height) % 256]) * (width * height)
        self.images[path] = (test_origin.png(width, height, pixels), cache_control)

    def current(self):
        """Returns the current response. If that is `hang`, waits for the next one."""
        with self.changed:
            while self.response[0] is None and not self.stopping:
                self.changed.wait()
            return self.response

    def stop(self):
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.close()


class Agent(AgentProcess):
    """An agent in a new directory. It starts when it is first needed."""

    def __init__(self, executable, settings):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-"))
        super().__init__(executable, directory)
        self.template = settings or "{}"
        self.spare = self.upstream = None
        (directory / "files").mkdir()

    def expanded(self, text):
        if "@UPSTREAM@" in text:
            text = text.replace("@UPSTREAM@", self._upstream().address)
        return text.replace("@DIRECTORY@", str(self.directory / "files"))

    def _upstream(self):
        self.upstream = self.upstream or Upstream()
        return self.upstream

    def control(self, step):
        if step.kind == "write":
            name, _, text = step.payload.partition(" ")
            target = self.directory / "files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.new")
            temporary.write_text(self.expanded(text), encoding="utf-8")
            temporary.rename(target)
        elif step.kind == "delete":
            (self.directory / "files" / step.payload).unlink()
        elif step.kind == "upstream":
            self._upstream().set_response(step.payload)
        elif step.kind == "image":
            self._upstream().add_image(step.payload)
        elif step.kind == "terminate":
            self.serve()
            self.terminate()
        elif step.kind == "kill":
            self.serve()
            self.kill()
        elif step.kind == "start":
            self.settle()
            self.serve()

    def serve(self):
        """Starts the agent unless it is running. start() also connects; the transcript uses that connection next."""
        if not self.process:
            self.write_settings(self.expanded(self.template))
            try:
                self.spare = self.start(STARTUP_SECONDS)
            except (Died, TimeoutError) as problem:
                raise Mismatch(problem) from None

    def connect_as(self, user):
        self.serve()
        if user is None:
            spare, self.spare = self.spare, None
            return spare or self.connect()
        self.directory.chmod(0o711)
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(user)
        os.seteuid(user)
        try:
            return self.connect()
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    def settle(self):
        """Waits until the agent has exited after SIGTERM."""
        if self.process:
            try:
                status = self.wait(STARTUP_SECONDS)
            except TimeoutError as problem:
                raise Mismatch(problem) from None
            if status != 0:
                raise Mismatch(f"the agent exited with status {status} after SIGTERM")

    def finish(self):
        try:
            if self.spare:
                self.spare.close()
                self.spare = None
            if self.process:
                self.terminate()
                self.settle()
        finally:
            if self.upstream:
                self.upstream.stop()

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


# --- Runs ------------------------------------------------------------------------------------------------------


class TranscriptRun:
    def __init__(self, transcript, agent, recorder, timeout):
        self.transcript, self.agent, self.recorder, self.timeout = transcript, agent, recorder, timeout
        self.matcher = Matcher()
        self.connections = {}

    def connection(self, letter, user=None):
        """Returns the connection of a letter. Opens it on first use."""
        if letter not in self.connections:
            name = f"{self.transcript.name}.{os.getpid()}.{letter}"
            self.connections[letter] = RecordedConnection(self.agent.connect_as(user), name, self.recorder, self.timeout)
        return self.connections[letter]

    def run(self):
        steps = list(self.transcript.steps)
        index = 0
        step = None
        try:
            while index < len(steps):
                step = steps[index]
                group = [step]
                if step.kind == "unordered":
                    while index + len(group) < len(steps):
                        following = steps[index + len(group)]
                        if following.kind != "unordered" or following.connection != step.connection:
                            break
                        group.append(following)
                    self.expect_group(group)
                else:
                    self.perform(step)
                index += len(group)
            step = None
            for letter, connection in self.connections.items():
                if not connection.closed and not connection.ended:
                    self.expect_silence(letter, connection)
        except (Mismatch, BadTranscript, OSError) as problem:
            where = f"{self.transcript.path}:{step.line}" if step else f"{self.transcript.path}: after the last step"
            raise Mismatch(f"{where}: {problem}" + (f"\n  step      {shortened(step.text)}" if step else "")) from None
        finally:
            for connection in self.connections.values():
                connection.close(abandoned=True)

    def perform(self, step):
        if step.kind in CONTROLS:
            self.agent.control(step)
            return
        connection = self.connection(step.connection, step.payload if step.kind == "open" else None)
        if step.kind == "send":
            connection.send(self.matcher.substituted(self.agent.expanded(step.payload)).encode() + b"\n")
        elif step.kind == "bytes":
            connection.send(step.payload)
        elif step.kind == "end":
            connection.end()
        elif step.kind == "close":
            connection.close(abandoned=True)
        elif step.kind == "expect":
            line, value = self.next_value(connection)
            self.report(self.matcher.differences(self.expected(step), value), line)
        elif step.kind == "closed":
            line = connection.receive()
            if line is not None:
                text = shortened(line.decode("utf-8", "replace"))
                raise Mismatch(f"expected the connection to close\n  received  ← {text}")
            connection.close(abandoned=False)

    def expect_group(self, group):
        connection = self.connection(group[0].connection)
        waiting = list(group)
        while waiting:
            line, value = self.next_value(connection)
            fitting = next((step for step in waiting if not self.matcher.differences(self.expected(step), value)), None)
            if fitting is None:
                number = len(waiting)
                raise Mismatch(f"matches none of the {number} expected lines\n  received  ← {shortened(line)}")
            waiting.remove(fitting)

    def expect_silence(self, letter, connection):
        """Checks that no more lines arrive: the next one must be the reply to a ping."""
        connection.send(b'{"id":"end of transcript","method":"agent.ping"}\n')
        line, value = self.next_value(connection)
        expected = {"jsonrpc": "2.0", "id": "end of transcript", "result": {"pong": True}}
        if self.matcher.differences(expected, value):
            raise Mismatch(f"unexpected line on {letter}\n  received  ← {shortened(line)}")

    def expected(self, step):
        """Returns the expected value with the address of the upstream and the directory filled in."""

        def expanded(value):
            if isinstance(value, str):
                return self.agent.expanded(value)
            if isinstance(value, list):
                return [expanded(element) for element in value]
            if isinstance(value, dict):
                return {name: expanded(member) for name, member in value.items()}
            return value

        return expanded(step.payload)

    def next_value(self, connection):
        data = connection.receive()
        if data is None:
            raise Mismatch("the connection was closed")
        line = data.decode("utf-8", "replace")
        try:
            data.decode("utf-8")
            value = parse(line)
            connection.check_descriptor(value)
            return line, value
        except (ValueError, RecursionError) as problem:
            raise Mismatch(f"not JSON: {problem}\n  received  ← {shortened(line)}") from None

    def report(self, differences, line):
        if differences:
            raise Mismatch("\n  ".join(["differs", *differences, f"received  ← {shortened(line, 1000)}"]))


def run(transcript, arguments, recorder):
    """Runs a transcript and prints the reason of a failure. Returns True if it passed."""
    agent = Agent(arguments.agent, transcript.settings)
    problem = None
    try:
        TranscriptRun(transcript, agent, recorder, arguments.timeout).run()
    except (Mismatch, OSError) as mismatch:
        problem = str(mismatch)
    except KeyboardInterrupt:
        agent.kill()
        raise
    try:
        agent.finish()
    except Mismatch as mismatch:
        problem = problem or f"{transcript.path}: {mismatch}"
    if problem:
        print(f"FAILED {transcript.name}\n  {problem}")
        log = agent.log_tail()
        if log:
            print("  end of the agent's log:\n    " + log.replace("\n", "\n    "))
    if arguments.keep:
        print(f"{transcript.name}: {agent.directory}")
    else:
        agent.remove()
    return problem is None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", metavar="LARDERD", required=True, help="start this executable for each transcript")
    parser.add_argument("--record", metavar="FILE", default=os.environ.get("LARDER_RECORD"), help="append all lines to FILE")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=30, help="maximum wait for a line (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the directories of the agents")
    parser.add_argument("files", metavar="FILE", nargs="+")
    arguments = parser.parse_args()
    try:
        transcripts = [Transcript(path) for path in arguments.files]
    except (BadTranscript, OSError, UnicodeDecodeError) as problem:
        print(problem, file=sys.stderr)
        return 2
    skipped = [transcript.name for transcript in transcripts if transcript.needs_root and os.geteuid() != 0]
    if skipped:
        print("skipped, because they need root: " + ", ".join(skipped))
    recorder = Recorder(arguments.record)
    results = [run(transcript, arguments, recorder) for transcript in transcripts if transcript.name not in skipped]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
