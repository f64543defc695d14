#!/usr/bin/env python3
"""Counts the instructions of parsers for each byte of their worst inputs.

  parsers.py --larderd FILE

Each case is a file of at least SIZE bytes, which `larder validate` or `larder restore` reads, or ten times as many bytes, which an
agent receives: an SVG image or an event stream. The instructions of the same command or request with a small input are
subtracted, so the figure is that of the bytes. Those of an image include its digest. The script exits with status 1 if a
figure exceeds the limit of its case. A parser whose work grows with the square of the input exceeds each limit many times.
The image parsers also count their steps (WorkTests).
"""
import argparse
import hashlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from larder_client import AgentError, AgentProcess  # noqa: E402

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
    def __init__(self, larderd, directory):
        self.directory = directory
        self.program = directory / "larder"
        self.program.symlink_to(larderd.resolve())
        self.metaschema = "file://" + self.write("meta.json", METASCHEMA)

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def count(self, *arguments):
        """Runs larder. Returns the number of its instructions."""
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(self.program), *arguments],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "LARDER_SOCKET": str(self.directory / "none"), "LC_ALL": "C.UTF-8"})
        found = re.search(r"Collected : (\d+)", done.stderr)
        if not found or done.returncode < 0:
            sys.exit(f"parsers: larder {arguments[0]} ended with status {done.returncode}: {done.stderr[-500:]}")
        return int(found.group(1))

    def validate(self, schema, document):
        schema = schema.replace("META", self.metaschema)
        return self.count("validate", self.write("document.json5", document),
                          "--schema", self.write("schema.json", schema))

    def restore(self, size):
        text = backup(size)
        state = str(self.directory / "state")
        return self.count("restore", self.write("backup", text), "--state-directory", state), len(text)


class EventSource:
    """A source that sends an event stream, whose first document is {"n": 0}."""

    def __init__(self):
        source = self
        self.connected, self.ended = threading.Event(), threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(b'data: {"n": 0}\n\n')
                source.stream = self.wfile
                source.connected.set()
                source.ended.wait()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


class AgentCounter:
    """Counts the instructions of an agent."""

    def __init__(self, larderd, directory):
        self.directory, self.source, self.dumps, self.events = directory, EventSource(), 0, 0
        self.agent = AgentProcess(
            larderd, directory, {
                "images": {"minimumFreeBytes": 0},
                "namespaces": {"default": {"remote": {"sse": {"url": self.source.url, "intervalSeconds": 86400}}}}},
            prefix=["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no",
                    f"--callgrind-out-file={directory}/out", f"--vgdb-prefix={directory}/vgdb"],
            arguments=["--log-level", "warning"])
        self.client = self.agent.start(120)
        self.source.connected.wait(60)
        self.client.call("config.wait", path="n", equals=0)
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
            self.client.put_image("http://image.example/a.svg", content.encode())
        except AgentError as error:
            if error.name != "imageRejected":
                raise

    def send(self, lines):
        """Sends lines and then a document, and waits until the agent has published the document."""
        self.events += 1
        self.source.stream.write(f'\n\n{lines}\n\ndata: {{"n": {self.events}}}\n\n'.encode())
        self.client.call("config.wait", path="n", equals=self.events)

    def figures(self):
        least = self.count(self.put, SVG + "</svg>")
        for name, limit, start, part, end in IMAGES:
            content = start + fill(part, 10 * SIZE) + end + "</svg>"
            yield name, limit, (self.count(self.put, content) - least) / len(content)
        least = self.count(self.send, "")
        for name, limit, part in STREAMS:
            lines = fill(part, 10 * SIZE)
            yield name, limit, (self.count(self.send, lines) - least) / len(lines)

    def stop(self):
        self.client.close()
        self.agent.stop()
        self.source.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--larderd", required=True, type=pathlib.Path)
    larderd = parser.parse_args().larderd
    with tempfile.TemporaryDirectory(prefix="larder-parsers.") as directory:
        counter = Counter(larderd, pathlib.Path(directory))
        small = counter.validate(schema(), "{}")
        figures = [
            (name, limit, (counter.validate(schema, document) - small) / max(len(schema.encode()), len(document.encode())))
            for name, limit, schema, document in VALIDATIONS]
        (least, short), (most, long) = counter.restore(0), counter.restore(10 * SIZE)
        figures.append(("backup, snapshots", 1000, (most - least) / (long - short)))
    with tempfile.TemporaryDirectory(prefix="larder-parsers.") as directory:
        counter = AgentCounter(larderd, directory)
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
