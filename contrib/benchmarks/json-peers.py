"""Times json and orjson on a document and prints them beside the figures that larder-bench wrote."""

import json
import sys
import time

import orjson


def best(load, data, seconds=1.0):
    """The least processor time of one pass out of as many as fit in `seconds`."""
    shortest = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time()
        load(data)
        shortest = min(shortest, time.thread_time() - start)
    return shortest


def main(document, figures):
    with open(document, "rb") as file:
        data = file.read()
    with open(figures, encoding="utf-8") as file:
        larder = json.load(file)
    rows = [
        ("Larder, memory used again", larder["parse"]["seconds"]),
        ("Larder, a new document", larder["parseOwned"]["seconds"]),
        (f"orjson {orjson.__version__}", best(orjson.loads, data)),
        ("Python json", best(json.loads, data)),
        ("Foundation JSONSerialization", larder["foundation"]["seconds"]),
    ]
    own = rows[0][1]
    print(f"{'parser':<30} {'MB/s':>8} {'Larder is':>10}")
    for name, seconds in rows:
        print(f"{name:<30} {len(data) / seconds / 1e6:>8.0f} {seconds / own:>9.1f}x")


main(*sys.argv[1:])
