#!/usr/bin/env python3
"""Generate the OpenRPC document, Swift and Python code and tables from the JSON Schemas in this folder.

    generate.py            write the generated files, and delete those that are no longer generated
    generate.py --check    write nothing; fail if a generated file is missing, outdated or obsolete

The generated files are the OpenRPC document (openrpc.json), the tables of sections 9 and 12 of README.md, the Swift types in
Sources/LarderProtocol/Generated, the list of methods in Sources/LarderServer/Dispatch/Generated, the types, errors and
blocking client of the Python client, and the names in the transcript of rpc.discover. If section 9 has no section for a method, one is added. swift-names.json contains what the
schemas do not: the names of Swift types and properties. The manual page larder-protocol(7) is generated from the OpenRPC
document when a package is built (packaging/man).
"""

import argparse
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True

from generator import openrpc, python, swift  # noqa: E402
from generator.schemas import Schemas  # noqa: E402
from generator.tables import Tables  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
README = HERE / "README.md"
DISCOVER = HERE / "transcripts" / "discover.jsonl"
METHODS = re.compile(r'(?<="methods":)\[(?:\{"name":"[^"]*","\$others":true\},?)*\]')


def transcript_of(schemas):
    """The expected methods in the transcript of rpc.discover."""
    names = sorted(schemas.files[file]["title"] for file in schemas.methods)
    return json.dumps([{"name": name, "$others": True} for name in names], separators=(",", ":"))


def outputs():
    """Return the text of each generated file by path, and the problems of the sources."""
    schemas = Schemas()
    document, problems = openrpc.text()
    readme, more = Tables(schemas).text(README.read_text(encoding="utf-8"))
    files = {openrpc.OUTPUT: document, README: readme}
    generator = swift.Generator(schemas)
    for path, text in generator.files().items():
        files[swift.OUTPUT / path] = text
    files[swift.REGISTRY] = generator.registry()
    files.update(python.files())
    files[DISCOVER] = METHODS.sub(lambda _: transcript_of(schemas), DISCOVER.read_text(encoding="utf-8"), count=1)
    return files, problems + more


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()

    files, problems = outputs()
    obsolete = [path for path in swift.OUTPUT.rglob("*") if path.is_file() and path not in files]
    for path, text in files.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            problems.append(f"{path.relative_to(HERE.parent)} is out of date: run Protocol/generate.py")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in obsolete:
        if arguments.check:
            problems.append(f"{path.relative_to(HERE.parent)} is no longer generated: run Protocol/generate.py")
        else:
            path.unlink()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
