#!/usr/bin/env python3
"""Counts the instructions of parsers for each byte of their worst inputs.

  parsers.py --larderd FILE --snapshot-search FILE

Each case is a file of at least SIZE bytes, which `larder validate`, `larder restore` or SnapshotSearch.swift reads, or ten
times as many bytes, which an agent receives: an image, an event stream, or messages of etcd. The instructions of the same
command or request with a small input are subtracted, so the figure is that of the bytes. Those of an image include its digest,
and those of keys the publication of their document. The script exits with status 1 if a figure exceeds the limit of its case. A
parser whose work grows with the square of the input exceeds each limit many times.
The image parsers also count their steps (WorkTests), on more images.
"""
import argparse
import base64
import hashlib
import http.server
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "src"))

from larder_client import AgentError  # noqa: E402
from larder_client.testing import AgentProcess  # noqa: E402

SIZE = 16_000
# A metaschema with which `format` is asserted. The file is next to the schema.
VOCABULARIES = "core", "applicator", "validation", "format-assertion"
METASCHEMA = json.dumps({
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$vocabulary": {f"https://json-schema.org/draft/2020-12/vocab/{name}": True for name in VOCABULARIES}})


def fill(part, size=SIZE):
    return part * (size // len(part))


def schema(**keywords):
    return json.dumps({"$schema": "META", "properties": {"a": keywords}})


# The name of a case, the permitted instructions for each byte (about twice the recorded ones), schema and document.
VALIDATIONS = (
    ("JSON5, duplicate names", 10_000, "{}", "{" + fill("a:1,") + "}"),
    ("JSON5, comments", 500, "{}", "{" + fill("\n//\n") + "a:1}"),
    ("JSON5, escapes", 1000, "{}", "{a:'" + fill("\\u00e9") + "'}"),
    ("JSON5, nested elements", 9000, "{}", "{a:" + "[" * 60 + fill("1,") + "]" * 60 + "}"),
    ("JSON5, members", 5000, "{}", "{" + ",".join(f"a{number}:1" for number in range(SIZE // 8)) + "}"),
    # So many that copying a table of the compiled schema for each member would exceed the limit.
    ("schema, members", 4000,
     json.dumps({"properties": {f"m{number:05}": {"properties": {"a": {"type": "integer"}}} for number in range(2000)}}),
     "{}"),
    ("pattern, groups", 4000, schema(pattern="(" * 200 + "a" * (SIZE - 400) + ")" * 200), "{}"),
    ("pattern, names", 4500, schema(pattern="".join(f"(?<n{number}>a)" for number in range(SIZE // 10))), "{}"),
    ("pattern, classes", 6000, schema(pattern=fill("[\\W\\D]")), "{}"),
    # The steps of all searches of a validation have a common limit, whatever the text.
    ("pattern, search with many ways", 45_000, schema(pattern="^(a+)+$"), '{"a":"' + fill("a") + 'b"}'),
    ("URI, text", 800, schema(format="uri-reference"), '{"a":"' + fill("a/../") + '"}'),
    ("URI, dot segments", 2500, '{"$id":"http://h/' + fill("a/../") + '"}', "{}"),
)

# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and the start, the repeated
# part and the end of an SVG image.
SVG = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'>"
IMAGES = (
    ("SVG, spaces in the document type", 400, "<!DOCTYPE svg ", " ", ">" + SVG),
    ("SVG, declarations", 800, "<!DOCTYPE svg [", "<!a>", "]>" + SVG),
    ("SVG, comments before the root", 700, "", "<!---->", SVG),
    ("SVG, attributes", 800, "<svg ", "a='' ", "width='1' height='1'>"),
    ("SVG, sizes", 800, "<svg ", "width='' ", ">"),
    ("SVG, elements", 250, SVG, "<a>", ""),
    ("SVG, empty elements", 250, SVG, "<a/>", ""),
    ("SVG, quotes", 350, SVG + "<a ", "''", "/>"),
    ("SVG, character data", 200, SVG, "<![CDATA[]]>", ""),
)


def box(kind, *content):
    """A box of an AVIF image or of JPEG XL."""
    content = b"".join(content)
    return struct.pack(">I4s", len(content) + 8, kind) + content


def avif(*boxes):
    """An AVIF image with these boxes in its `meta` box, after the box that makes item 1 its picture."""
    return box(b"ftyp", b"avif\0\0\0\0avifmif1") + box(b"meta", bytes(4), box(b"pitm", bytes(5), b"\1"), *boxes)


# An `iloc` box of version 2 declares four billion items, each with 65,535 extents, whose fields all have a length of 0.
NO_EXTENTS = bytes([2, 0, 0, 0, 0, 0, 255, 255, 255, 255, 1, 2, 3, 4, 0, 0, 0, 0, 255, 255])
PICTURE = box(b"iprp", box(b"ipco", box(b"ispe", struct.pack(">III", 0, 5, 6))),
              box(b"ipma", struct.pack(">IIHBB", 0, 1, 1, 1, 1)))
# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and an image.
BOXES = (
    ("AVIF, extents of no bytes", 200, avif(box(b"iloc", NO_EXTENTS, fill(b"\xff", 10 * SIZE)), PICTURE)),
    ("AVIF, empty associations", 150,
     avif(box(b"iprp", box(b"ipma", struct.pack(">II", 0, 10 * SIZE // 3), bytes(10 * SIZE))))),
    ("AVIF, empty properties", 100, avif(box(b"iprp", box(b"ipco", fill(box(b"free"), 10 * SIZE))))),
    ("JPEG XL, empty boxes", 250, box(b"JXL ", b"\r\n\x87\n") + fill(box(b"free"), 10 * SIZE)),
)
# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and the repeated part of an
# event stream.
STREAMS = (
    ("SSE, empty lines", 650, "\n"),
    ("SSE, comments", 250, ":\n"),
    ("SSE, unknown fields", 950, "a\n"),
    ("SSE, IDs", 750, "id\n"),
    ("SSE, lines of data", 400, "event:a\ndata\ndata\ndata\ndata\n"),
    ("SSE, ignored events", 600, "event:a\ndata:\n\n"),
)


def text64(value):
    return base64.b64encode(str(value).encode()).decode()


def pair(key, value, revision=0):
    """A key with its value, as etcd sends it. Without a revision, the pair is no change."""
    return f'{{"key":"{text64("/c/" + key)}","value":"{text64(value)}","mod_revision":"{revision}"}}'


def message(members, revision=0):
    """A message of a watch."""
    return f'{{"result":{{"header":{{"cluster_id":1,"revision":"{revision}"}},{members}}}}}\n'


def events(*pairs):
    """The member with the events of a message."""
    return '"events":[' + ",".join(f'{{"kv":{pair}}}' for pair in pairs) + "]"


# A key with nearly as many segments as a document may have levels.
LONG = "/".join(["x" * (SIZE // 6)] * 60)


def changes(revision):
    """Events that change a key twice."""
    return pair("a", 1, revision), pair("a", 2, revision)


# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and the messages of a watch for a
# revision.
MESSAGES = (
    ("etcd, messages without events", 400, lambda revision: fill('{"result":{"header":{"cluster_id":1}}}\n', 10 * SIZE)),
    ("etcd, members of a message", 120, lambda revision: message(f'"a":[{fill("[],", 10 * SIZE)}[]]')),
    ("etcd, fragments", 350, lambda revision: fill(message('"fragment":true,' + events(pair("a", 1))), 10 * SIZE)),
    ("etcd, old events", 350, lambda revision: message(events(*changes(0) * (SIZE // 12)))),
    ("etcd, changes of a key", 700, lambda revision: message(events(*changes(revision) * (SIZE // 12)))),
    ("etcd, long key", 2100, lambda revision: message(events(pair(LONG, revision, revision)))),
)
# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and the pairs of a page of keys.
PAGES = (
    ("etcd, values of a key", 650, ",".join(changes(0) * (SIZE // 10)) + ","),
    ("etcd, keys", 700, "".join(pair(f"a{number}", 1) + "," for number in range(10 * SIZE // 60))),
)


def snapshot(slots, matches):
    """A damaged snapshot file, whose slots all refer to an entry that has none of the searched names.

    matches: whether the hash of the entry is that of the path. The reader then compares the names of the path with the empty name
    of the entry, which is its own parent.
    """
    hash = 0
    for byte in b"\xff" * len(NAMES):
        hash = (hash ^ byte) * 0x100000001B3 % 2**64
    entry = struct.pack("<QIIIIII", hash if matches else hash + 1, 1, 0, 0, 0, 1, 0)
    slot_offset = 96 + 2 * len(entry)
    text_offset = slot_offset + 4 * slots
    size = text_offset + 8
    header = struct.pack("<8sIIQQQQIIIIIIII", b"LARDERS\1", 96, 0, 0, size, 1, 1, 96, 2, slot_offset, slots,
                         text_offset, 0, text_offset, 8)
    return header.ljust(96, b"\0") + 2 * entry + struct.pack("<I", 2) * slots + b"null    "


# The names of the path that a client looks up. Each adds to the second figure.
NAMES = [""] * 16
# The name of a case, the permitted instructions for each byte (about twice the recorded ones), and an argument of snapshot().
SNAPSHOTS = (("snapshot file, hashes", 20, False), ("snapshot file, names", 600, True))


def backup(size):
    """A backup with many snapshots, of which only the last one is damaged, so that nothing is restored."""
    lines = [json.dumps({"larderBackup": 1, "version": "0", "createdAt": "2026-01-01T00:00:00Z", "stateDirectory": "/"})]
    revision = 0
    while sum(map(len, lines)) < size:
        revision += 1
        body = json.dumps({"format": 1, "epoch": "e", "namespace": "n", "revision": revision, "digest": "0" * 64,
                           "publishedAt": 1, "journal": 0, "released": 0, "causes": [], "layers": {}})
        head = json.dumps({"format": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()})
        lines.append(json.dumps({"namespace": "n", "revision": revision, "generation": f"{head}\n{body}\n"}))
    lines.append("{}")
    text = "\n".join(lines) + "\n"
    return text + json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n"


class Counter:
    def __init__(self, larderd, search, directory):
        self.directory, self.search = directory, search
        self.program = directory / "larder"
        self.program.symlink_to(larderd.resolve())
        self.metaschema = "file://" + self.write("meta.json", METASCHEMA)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def count(self, *arguments, program=None):
        """Runs larder or another program. Returns the number of its instructions."""
        program = str(program or self.program)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *arguments],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "LARDER_SOCKET": str(self.directory / "none"), "LC_ALL": "C.UTF-8"})
        found = re.search(r"Collected : (\d+)", done.stderr)
        if not found or done.returncode < 0:
            sys.exit(f"parsers: {program} {arguments[0]} ended with status {done.returncode}: {done.stderr[-500:]}")
        return int(found.group(1))

    def validate(self, schema, document):
        schema = schema.replace("META", self.metaschema)
        return self.count("validate", self.write("document.json5", document),
                          "--schema", self.write("schema.json", schema))

    def restore(self, size):
        text = backup(size)
        state = str(self.directory / "state")
        return self.count("restore", self.write("backup", text), "--state-directory", state), len(text)

    def look_up(self, slots, matches):
        """Searches a snapshot file."""
        content = snapshot(slots, matches)
        path = self.directory / "snapshot"
        path.write_bytes(content)
        return self.count(str(path), *NAMES, program=self.search), len(content)


class Source:
    """A source that sends an event stream, whose first document is {"n": 0}, and the keys of an etcd."""

    def __init__(self):
        source = self
        self.connected, self.watched, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.keep(0, "")

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(b'data: {"n": 0}\n\n')
                source.stream = self.wfile
                source.connected.set()
                source.ended.wait()

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                if self.path != "/v3/watch":
                    self.send_header("Content-Length", str(len(source.page)))
                    self.end_headers()
                    self.wfile.write(source.page)
                    return
                self.end_headers()
                self.wfile.write(message('"created":true', source.revision).encode())
                source.watch = self.wfile
                source.watched.set()
                source.ended.wait()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def keep(self, revision, pairs):
        """Sets the keys that the source returns: the pairs, and the key n with the revision as its value."""
        self.revision = revision
        self.page = f'{{"header":{{"cluster_id":1,"revision":"{revision}"}},"kvs":[{pairs}{pair("n", revision)}]}}'.encode()

    def stop(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


class AgentCounter:
    """Counts the instructions of an agent."""

    def __init__(self, larderd, directory):
        self.directory, self.source, self.dumps, self.events = directory, Source(), 0, 0
        self.agent = AgentProcess(
            larderd, directory, {
                "images": {"minimumFreeBytes": 0},
                "namespaces": {
                    "default": {"remote": {"sse": {"url": self.source.url, "intervalSeconds": 86400}}},
                    "keys": {"remote": {"etcd": {"endpoints": [self.source.url], "prefix": "/c/", "intervalSeconds": 86400,
                                                 "timeoutSeconds": 600}}}}},
            prefix=["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no",
                    f"--callgrind-out-file={directory}/out", f"--vgdb-prefix={directory}/vgdb"],
            arguments=["--log-level", "warning"])
        self.client = self.agent.start(120)
        self.source.connected.wait(60)
        self.client.call("config.wait", path="n", equals=0)
        self.source.watched.wait(60)
        self.control("instrumentation", "on")

    def control(self, *command):
        subprocess.run(["vgdb", f"--vgdb-prefix={self.directory}/vgdb", f"--pid={self.agent.process.pid}", *command],
                       check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def count(self, operation, *arguments):
        """Returns the number of instructions of an operation, which is performed once before."""
        operation(*arguments)
        self.control("zero")
        operation(*arguments)
        self.control("dump")
        self.dumps += 1
        dump = pathlib.Path(f"{self.directory}/out.{self.dumps}").read_text()
        return int(re.search(r"^(?:totals|summary): (\d+)", dump, re.M).group(1))

    def put(self, content):
        """Stores an image. The agent may reject it, after it has read all of it."""
        try:
            self.client.put_image("http://image.example/a", content)
        except AgentError as error:
            if error.name != "imageRejected":
                raise

    def send(self, lines):
        """Sends lines and then a document, and waits until the agent has published the document."""
        self.events += 1
        self.source.stream.write(f'\n\n{lines}\n\ndata: {{"n": {self.events}}}\n\n'.encode())
        self.client.call("config.wait", path="n", equals=self.events)

    def watch(self, messages):
        """Sends messages and then a change of the key n, and waits until the agent has published the change."""
        revision = self.source.revision + 2
        change = message(events(pair("n", revision, revision)), revision)
        self.source.revision = revision
        self.source.watch.write((messages(revision - 1) + change).encode())
        self.client.call("config.wait", namespace="keys", path="n", equals=revision)

    def read(self, pairs):
        """Lets the agent read the keys."""
        self.source.keep(self.source.revision + 1, pairs)
        self.client.call("config.refresh", namespace="keys")

    def figures(self):
        least = self.count(self.put, (SVG + "</svg>").encode())
        images = [(name, limit, (start + fill(part, 10 * SIZE) + end + "</svg>").encode())
                  for name, limit, start, part, end in IMAGES]
        for name, limit, content in [*images, *BOXES]:
            yield name, limit, (self.count(self.put, content) - least) / len(content)
        least = self.count(self.send, "")
        for name, limit, part in STREAMS:
            lines = fill(part, 10 * SIZE)
            yield name, limit, (self.count(self.send, lines) - least) / len(lines)
        least = self.count(self.watch, lambda revision: "")
        for name, limit, messages in MESSAGES:
            yield name, limit, (self.count(self.watch, messages) - least) / len(messages(10))
        least = self.count(self.read, "")
        for name, limit, pairs in PAGES:
            yield name, limit, (self.count(self.read, pairs) - least) / len(pairs)

    def stop(self):
        self.client.close()
        self.agent.stop()
        self.source.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larderd", required=True, type=pathlib.Path)
    parser.add_argument("--snapshot-search", required=True, type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="larder-parsers.") as directory:
        counter = Counter(options.larderd, options.snapshot_search.resolve(), pathlib.Path(directory))
        small = counter.validate(schema(), "{}")
        figures = [
            (name, limit, (counter.validate(schema, document) - small) / max(len(schema.encode()), len(document.encode())))
            for name, limit, schema, document in VALIDATIONS]
        (least, short), (most, long) = counter.restore(0), counter.restore(10 * SIZE)
        figures.append(("backup, snapshots", 1000, (most - least) / (long - short)))
        for name, limit, matches in SNAPSHOTS:
            (least, short), (most, long) = counter.look_up(1, matches), counter.look_up(1 << 14, matches)
            figures.append((name, limit, (most - least) / (long - short)))
    with tempfile.TemporaryDirectory(prefix="larder-parsers.") as directory:
        counter = AgentCounter(options.larderd, directory)
        try:
            figures += counter.figures()
        finally:
            counter.stop()
    exceeded = False
    for name, limit, figure in figures:
        exceeded = exceeded or figure > limit
        print(f"{name:34} {figure:8.0f} instructions for each byte, limit {limit}{'  EXCEEDED' if figure > limit else ''}")
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    main()
