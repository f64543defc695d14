"""The checks, the table they make, and what they have in common.

A check is a function with the decorator `check`; its name is the sentence that the table shows, what it returns the
figure beside it. It fails by raising anything, and says by `NotHere` that this container cannot show it.
"""

import json
import os
import subprocess
import sys
import time
import traceback

SOCKET = "/run/larder/larder.sock"
RESULTS = "/results"  # bound from the host: the packages, this table

checks = []


class Failed(Exception):
    """What was found is not what must be."""


class NotHere(Exception):
    """The container cannot show it, for the reason given."""


def check(function=None, *, needed=False):
    """Registers a check. Nothing after one that is `needed` makes sense when it fails."""
    if function is None:
        return lambda decorated: check(decorated, needed=needed)
    checks.append((function, needed))
    return function


def expect(condition, message):
    if not condition:
        raise Failed(message)


def run(*command, user=None, status=0, timeout=60, **options):
    """Runs a command as root or `user` and returns what it printed; `status` is what it must exit with, None anything."""
    if user:
        command = ("runuser", "-u", user, "--", *command)
    options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
    if options["stdin"] is None:
        del options["stdin"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, errors="replace", **options
    )
    if status is not None and done.returncode != status:
        raise Failed(f"{' '.join(command)}: exit status {done.returncode} in place of {status}:\n{done.stdout.strip()}")
    return done.stdout


def larder(*arguments, **options):
    return run("larder", *arguments, **options).strip()


def properties(unit, *names):
    """Properties of a unit as systemd has them."""
    lines = run("systemctl", "show", unit, "-p", ",".join(names)).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def main_pid(unit="larder.service"):
    return int(properties(unit, "MainPID")["MainPID"])


def eventually(probe, what, seconds=30):
    """Waits until `probe` gives something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def active(unit="larder.service"):
    return properties(unit, "ActiveState")["ActiveState"] == "active"


def now():
    """A moment for `journal`: what is logged from here on."""
    run("journalctl", "--sync")
    shown = run("journalctl", "--lines=0", "--show-cursor")
    return shown.strip().split("-- cursor: ")[-1]


def journal(since, unit="larder.service"):
    """Entries of a unit, systemd's about it included, after the moment `since`, as dictionaries of their fields."""
    run("journalctl", "--sync")
    # Not --unit: with --after-cursor, journalctl 252 passes over the first entry that matches.
    lines = run("journalctl", "--output=json", "--all", f"--after-cursor={since}", status=None).splitlines()
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [entry for entry in entries if unit in (entry.get("_SYSTEMD_UNIT"), entry.get("UNIT"))]


def logged(since, seconds=10, **fields):
    """Waits for an entry of the agent with these fields; the value True stands for any."""

    def fits(entry):
        return all(name in entry and (wanted is True or entry[name] == str(wanted)) for name, wanted in fields.items())

    try:
        return eventually(lambda: next(filter(fits, journal(since)), None), f"a line in the journal with {fields}", seconds)
    except Failed as fault:
        own = [{key: entry[key] for key in entry if key.startswith(("LARDER_", "MESSAGE"))} for entry in journal(since)]
        raise Failed("\n".join([str(fault), "these came:", *map(str, own)])) from None


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)


def milliseconds(seconds):
    return f"{seconds * 1000:.0f} ms"


def median(values):
    return sorted(values)[len(values) // 2]


def perform():
    """Runs all checks in order, prints each as it ends, then the table; whether none failed."""
    rows = []
    for function, needed in checks:
        sentence = function.__name__.replace("_", " ")
        began, since = time.monotonic(), now()
        result, figure = "passed", ""
        try:
            figure = function() or ""
        except NotHere as reason:
            result, figure = "not here", str(reason)
        except Exception as fault:  # pylint: disable=broad-except
            result, figure = "FAILED", str(fault).splitlines()[0] if str(fault) else repr(fault)
            explain(fault, since)
        rows.append((sentence, result, figure, time.monotonic() - began))
        print(f"{result:>8}  {sentence}{': ' if figure else ''}{figure}", flush=True)
        if result == "FAILED" and needed:
            print("          nothing after this can be shown without it", flush=True)
            break
    table(rows)
    return all(result != "FAILED" for _, result, _, _ in rows) and len(rows) == len(checks)


def explain(fault, since):
    if isinstance(fault, Failed):
        print(f"{fault}", flush=True)
    else:
        traceback.print_exception(fault, file=sys.stdout)
    print("--- journal", flush=True)
    lines = run("journalctl", "--output=short-precise", "--no-hostname", f"--after-cursor={since}", status=None)
    print("\n".join(lines.splitlines()[-80:]))
    print("---", flush=True)


def table(rows):
    print()
    width = max(len(sentence) for sentence, *_ in rows)
    print(f"{'check':<{width}}  {'result':<8}  {'time':>6}  figure")
    print(f"{'-' * width}  {'-' * 8}  {'-' * 6}  {'-' * 6}")
    for sentence, result, figure, seconds in rows:
        print(f"{sentence:<{width}}  {result:<8}  {seconds:4.1f} s  {figure}")
    counts = {name: sum(row[1] == name for row in rows) for name in ("passed", "FAILED", "not here")}
    passed, failed, absent = counts.values()
    print(f"\n{passed} passed, {failed} failed, {absent} could not be shown here, of {len(checks)}")
