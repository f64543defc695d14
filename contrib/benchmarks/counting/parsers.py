#!/usr/bin/env python3
"""Counts the instructions of the parsers of the command line for each byte of their worst inputs.

  parsers.py --larderd FILE

Each case is a file of SIZE bytes, which `larder validate` or `larder restore` reads. The instructions of the same command
with a small file are subtracted, so the figure is that of the bytes. The script exits with status 1 if a figure exceeds the
limit of its case. A parser whose work grows with the square of the input exceeds each limit many times. The image parsers
count their steps (WorkTests).
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

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


# A host name of the maximum length, whose labels decode to as many characters as possible.
LABELS = ".".join(["xn--" + "a" * 58] * 4)
INTERNATIONAL = ".".join(["\u00e9" * 20] * 4)

# The name of a case, the permitted instructions for each byte (about twice the recorded ones), schema and document.
VALIDATIONS = (
    ("JSON5, duplicate names", 10_000, "{}", "{" + fill("a:1,") + "}"),
    ("JSON5, comments", 500, "{}", "{" + fill("\n//\n") + "a:1}"),
    ("JSON5, escapes", 1000, "{}", "{a:'" + fill("\\u00e9") + "'}"),
    ("JSON5, nested elements", 9000, "{}", "{a:" + "[" * 60 + fill("1,") + "]" * 60 + "}"),
    ("JSON5, members", 5000, "{}", "{" + ",".join(f"a{number}:1" for number in range(SIZE // 8)) + "}"),
    ("pattern, groups", 4000, schema(pattern="(" * 200 + "a" * (SIZE - 400) + ")" * 200), "{}"),
    ("pattern, names", 4500, schema(pattern="".join(f"(?<n{number}>a)" for number in range(SIZE // 10))), "{}"),
    ("pattern, classes", 6000, schema(pattern=fill("[\\W\\D]")), "{}"),
    # The steps of all searches of a validation have a common limit, whatever the text.
    ("pattern, search with many ways", 45_000, schema(pattern="^(a+)+$"), '{"a":"' + fill("a") + 'b"}'),
    ("Punycode", 600, schema(items={"format": "hostname"}), json.dumps({"a": [LABELS] * (SIZE // len(LABELS))})),
    ("host names, international", 4000, schema(items={"format": "idn-hostname"}),
     json.dumps({"a": [INTERNATIONAL] * (SIZE // 90)}, ensure_ascii=False)),
    ("URI, text", 800, schema(format="uri-reference"), '{"a":"' + fill("a/../") + '"}'),
    ("URI, dot segments", 2500, '{"$id":"http://h/' + fill("a/../") + '"}', "{}"),
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
    exceeded = False
    for name, limit, figure in figures:
        exceeded = exceeded or figure > limit
        print(f"{name:32} {figure:8.0f} instructions for each byte, limit {limit}{'  EXCEEDED' if figure > limit else ''}")
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    main()
