#!/usr/bin/env python3
"""Prints the tables of contrib/bench-peers.sh in Markdown, from reports of larder-bench: for each figure the values of Larder,
a peer and the floor, the ratio, the target, and whether it is met.

  peers-table.py REPORTS [--json FILE] [--check] [NAME=VALUE ...]

REPORTS is a directory of files NAME.json. NAME=VALUE is added to the line about the machine and to the JSON. With --check the
exit status is 1 if a target is missed. Figures without a report are omitted.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys


class Reports:
    """The reports by name."""

    def __init__(self, directory):
        self.all = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(directory).glob("*.json"))}

    def __contains__(self, name):
        return name in self.all

    def figure(self, report, server, metric):
        servers = self.all.get(report, {}).get("servers", {})
        return servers.get(server, {}).get("metrics", {}).get(metric)

    def ratio(self, report, server, other, metric):
        """Returns the ratio of two servers, or None if a figure is missing.

        If the report has samples of each round, the result is the median of the ratios of neighboring rounds, one of
        each server, because temporary load then affects both. Otherwise it is the quotient of the figures.
        """
        content = self.all.get(report, {})
        servers = content.get("servers", {})
        if server not in servers or other not in servers:
            return None
        if (content.get("ratio") or {}).get("metric") == metric:
            pairs = zip(servers[server]["samples"], servers[other]["samples"])
            ratios = [one / two for one, two in pairs if two > 0]
            return statistics.median(ratios) if ratios else None
        one, two = (self.figure(report, name, metric) for name in (server, other))
        return one / two if one is not None and two else None


class Target:
    """A target for a ratio or for the figure of Larder."""

    def __init__(self, of, sign, bound, unit=""):
        self.of, self.sign, self.bound, self.unit = of, sign, bound, unit

    def met(self, row):
        value = row[self.of]
        if value is None:
            return None
        return value >= self.bound if self.sign == "≥" else value <= self.bound

    def __str__(self):
        return f"{self.sign} {self.bound:g}{' ' + self.unit if self.unit else ''}"


def at_least(bound):
    return Target("ratio", "≥", bound)


def at_most(bound):
    return Target("ratio", "≤", bound)


def larder_at_most(bound, unit=""):
    return Target("larder", "≤", bound, unit)


def row(section, name, unit, larder, peer=None, other=None, floor=None, ratio=None, target=None):
    result = {"section": section, "name": name, "unit": unit, "larder": larder, "peer": peer, "other": other, "floor": floor,
              "ratio": ratio, "target": None, "met": None}
    if target is not None:
        result["target"], result["met"] = str(target), target.met(result)
    return result


def plain(reports, section, name, unit, report, metric, target=None, peer="redis", peer_report=None, server="larder"):
    """Returns a list with the row of a figure, or an empty list if `report` does not exist.

    peer_report: the report with the value of the peer; None if that value is in `report`.
    server: the name in the report of what is compared with the peer.
    """
    if report not in reports:
        return []
    if peer_report:
        other = reports.figure(peer_report, peer, metric)
        larder = reports.figure(report, server, metric)
        ratio = larder / other if larder is not None and other else None
    else:
        other = reports.figure(report, peer, metric)
        ratio = reports.ratio(report, server, peer, metric)
    return [row(section, name, unit, reports.figure(report, server, metric), peer if other is not None else None, other,
                reports.figure(report, "floor", metric), ratio, target)]


PUBLICATIONS = [(count, size) for size in (100, 10_000) for count in (1, 10, 100, 1000, 10_000) if (count, size) != (10, 10_000)]


def size_text(size):
    for bound, unit in ((1_000_000, "MB"), (1000, "KB")):
        if size >= bound:
            return f"{size // bound} {unit}"
    return f"{size} B"


def slope(points):
    """Returns the exponent of the power function that fits the points best: 0 constant, 1 linear."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    x_mean, y_mean = (statistics.mean(values) for values in zip(*logs))
    return sum((x - x_mean) * (y - y_mean) for x, y in logs) / sum((x - x_mean) ** 2 for x, _ in logs)


def marginal_cost(points):
    """Returns the average increase of y per unit of x between the first and the last point."""
    (x_first, y_first), (x_last, y_last) = points[0], points[-1]
    return (y_last - y_first) / (x_last - x_first)


def reading(reports):
    section = "reading"
    yield from plain(reports, section, "get, 50 connections, one at a time", "per s", "get-1", "requestsPerSecond", at_least(1))
    yield from plain(reports, section, "  p99 latency", "µs", "get-1", "p99Microseconds")
    yield from plain(reports, section, "get, 50 connections, 16 in one write", "per s", "get-16", "requestsPerSecond", at_least(1.3))
    yield from plain(reports, section, "get, one connection, p50", "µs", "latency", "p50Microseconds", at_most(1))
    yield from plain(reports, section, "get of a 100 KB subtree, 50 connections", "per s", "subtree", "requestsPerSecond", at_least(1))
    yield from plain(reports, section, "connect, get, close, one at a time", "per s", "connect-1", "connectionsPerSecond", at_least(0.8))
    yield from plain(reports, section, "connect, get, close, 16 at a time", "per s", "connect-16", "connectionsPerSecond", at_least(0.8))


def publishing(reports):
    section = "relaxed publication to the last subscriber"
    for count, size in PUBLICATIONS:
        # The row with 10 subscribers has no target. It is only needed for the cost per additional subscriber.
        target = at_most(1) if count != 10 else None
        yield from plain(reports, section, f"{count:,} × {size_text(size)}", "µs", f"publish-{count}-{size}",
                         "medianMicroseconds", target)
    curves = {}
    for server in ("larder", "redis", "floor"):
        points = [(count, reports.figure(f"publish-{count}-100", server, "medianMicroseconds")) for count in (10, 100, 1000, 10_000)]
        if all(value for _, value in points):
            curves[server] = points
    if "larder" in curves:
        yield row(section, "per additional subscriber, 10 to 10,000", "µs", marginal_cost(curves["larder"]), "redis",
                  marginal_cost(curves["redis"]) if "redis" in curves else None,
                  marginal_cost(curves["floor"]) if "floor" in curves else None)
        yield row(section, "  slope: 0 constant, 1 linear", "", slope(curves["larder"]), "redis",
                  slope(curves["redis"]) if "redis" in curves else None, slope(curves["floor"]) if "floor" in curves else None,
                  target=larder_at_most(1.1))


def durable(reports):
    section = "on disk before the reply"
    for writers in (1, 50):
        name = f"set by {writers} writer{'s' if writers > 1 else ''}"
        yield from plain(reports, section, name, "per s", f"set-{writers}", "setsPerSecond", at_least(0.8))
    for writers in (1, 50):
        report = f"set-{writers}"
        if report in reports:
            ratio = reports.ratio(report, "etcd", "larder", "setsPerSecond")
            times = {name: 1e6 / rate if (rate := reports.figure(report, name, "setsPerSecond")) else None
                     for name in ("larder", "etcd", "floor")}
            yield row(section, f"time of a set, {writers} writer{'s' if writers > 1 else ''}", "µs", times["larder"], "etcd",
                      times["etcd"], times["floor"], ratio, at_most(0.2))
    for count in (1, 100):
        yield from plain(reports, section, f"set until the last of {count} watcher{'s' if count > 1 else ''}", "µs", f"watch-{count}",
                         "medianMicroseconds", at_most(0.2), peer="etcd")
    yield from plain(reports, section, "set until the last of 1,000 subscribers", "µs", "durable-1000", "medianMicroseconds", at_most(1))


def memory(reports):
    section = "memory"
    yield from plain(reports, section, "per idle subscriber, with 10,000", "bytes", "idle", "bytesPerSubscriber", at_most(0.7))
    yield from plain(reports, section, "resident at rest", "MB", "idle", "residentMegabytes", larder_at_most(20, "MB"))
    yield from plain(reports, section, "resident at rest", "MB", "idle", "residentMegabytes", at_most(1), peer="etcd",
                     peer_report="idle-etcd")


def mapped(reports):
    yield from plain(reports, "reading without the socket", "a lookup, mapped", "ns", "mapped", "nanosecondsPerLookup",
                     peer="dictionary", server="mapped")


def images(reports):
    yield from plain(reports, "images", "image.get of a cached image, 50 connections", "per s", "image", "requestsPerSecond",
                     at_least(0.6), peer="config.get", server="image.get")


def schemas(reports):
    section = "validating a parsed document of 1 MB"
    for name in ("playlist", "flags"):
        report, metric = f"schema-{name}", "milliseconds"
        if report not in reports:
            continue
        time = reports.figure(report, "larder", metric)
        yield row(section, f"schema {name}.json", "ms", time, target=larder_at_most(10, "ms"))
        for peer, bound in (("jsonschema-rs", 0.5), ("jsonschema", 20)):
            # The ratio compares speeds, so it is the time of the peer divided by that of Larder.
            yield row(section, f"schema {name}.json", "ms", time, peer, reports.figure(report, peer, metric),
                      ratio=reports.ratio(report, peer, "larder", metric), target=at_least(bound))


SECTIONS = (reading, publishing, durable, memory, mapped, images, schemas)


def figure(value):
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(rows):
    """Yields the lines of the tables in Markdown."""
    section = None
    for each in rows:
        if each["section"] != section:
            section = each["section"]
            yield ""
            yield f"| {section} | Larder | peer | floor | ratio | target | |"
            yield "| --- | --- | --- | --- | --- | --- | --- |"
        unit = "/s" if each["unit"] == "per s" else f" {each['unit']}" if each["unit"] else ""
        cells = [figure(each[name]) + unit if each[name] is not None else "" for name in ("larder", "other", "floor")]
        if each["peer"]:
            cells[1] = f"{each['peer']} {cells[1]}".strip()
        ratio = "" if each["ratio"] is None else f"{each['ratio']:.2f}"
        verdict = {None: "", True: "met", False: "**missed**"}[each["met"]]
        yield "| " + " | ".join([each["name"].strip(), *cells, ratio, each["target"] or "", verdict]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports")
    parser.add_argument("facts", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    reports = Reports(options.reports)
    rows = [each for section in SECTIONS for each in section(reports)]
    facts = dict(fact.split("=", 1) for fact in options.facts)
    if options.json:
        content = {**facts, "rows": rows, "reports": reports.all}
        pathlib.Path(options.json).write_text(json.dumps(content, ensure_ascii=False) + "\n")
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    for line in table(rows):
        print(line)
    print()
    for name, content in reports.all.items():
        for note in content["notes"]:
            print(f"note, {name}: {note}")
    judged = [each["met"] for each in rows if each["met"] is not None]
    print(f"targets: {sum(judged)} met, {len(judged) - sum(judged)} missed")
    return 1 if options.check and not all(judged) else 0


if __name__ == "__main__":
    sys.exit(main())
