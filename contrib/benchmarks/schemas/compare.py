#!/usr/bin/env python3
"""Measures the validation of the documents of documents.py by Larder, jsonschema-rs and Python's jsonschema, in alternation.

    compare.py LARDER-BENCH REPORTS [ROUNDS]

Writes a report NAME.json for each schema to the directory REPORTS, in the format of larder-bench. The Python packages must be
installed. Parsing is not included. A round takes the fastest of several validations.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import jsonschema
import jsonschema_rs

import documents

SCHEMAS = pathlib.Path(__file__).resolve().parent
VALIDATIONS = 5


def larder(bench, schema, document):
    output = subprocess.run(
        [bench, "schema", "--schema", schema, "--document", document, "--validations", str(VALIDATIONS)],
        check=True, capture_output=True, text=True)
    return min(map(float, output.stdout.split())) / 1e6


def seconds(is_valid, document, validations):
    times = []
    for _ in range(validations):
        started = time.perf_counter()
        if not is_valid(document):
            sys.exit("compare.py: the document is invalid")
        times.append(time.perf_counter() - started)
    return min(times)


def compare(name, bench, document, rounds):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    value = json.loads(document.read_text())
    rust = jsonschema_rs.validator_for(schema)
    python = jsonschema.validators.validator_for(schema)(schema)
    samples = {"larder": [], "jsonschema-rs": [], "jsonschema": []}
    for _ in range(rounds):
        samples["larder"].append(larder(bench, SCHEMAS / f"{name}.json", document))
        samples["jsonschema-rs"].append(seconds(rust.is_valid, value, VALIDATIONS))
        samples["jsonschema"].append(seconds(python.is_valid, value, 1))
    return {
        "benchmark": "schema",
        "headline": f"{name}.json, a document of {document.stat().st_size} bytes, {rounds} rounds",
        "servers": {
            peer: {"metrics": {"milliseconds": 1000 * statistics.median(times)}, "samples": times}
            for peer, times in samples.items()
        },
        "ratio": {"metric": "milliseconds"},
        "notes": [],
    }


def main(bench, reports, rounds=5):
    with tempfile.TemporaryDirectory() as directory:
        for name in ("playlist", "flags"):
            document = pathlib.Path(directory) / f"{name}.json"
            document.write_text(json.dumps(documents.document(name), separators=(",", ":")))
            report = compare(name, bench, document, int(rounds))
            (pathlib.Path(reports) / f"schema-{name}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
