"""Runs the checks, prints the table of their results, and has the functions that they share.

A check is a function with the decorator `check`. Its name is the sentence in the table, and its return value is the figure
next to it. If a check raises an exception, it has failed. The exception
`Skipped` means that the container cannot run the check.
"""

import json
import os
import subprocess
import sys
import time
import traceback

SOCKET = "/run/larder/larder.sock"
RESULTS = "/results"  # shared with the host: the packages and the output of the checks

checks = []


class Failed(Exception):
    """A check found an unexpected result."""


class Skipped(Exception):
    """The container cannot run a check. The message is the reason."""


def check(function=None, *, needed=False):
    """Registers a check. If a check with `needed` fails, the remaining ones are not run."""
    if function is None:
        return lambda decorated: check(decorated, needed=needed)
    checks.append((function, needed))
    return function


def expect(condition, message):
    if not condition:
        raise Failed(message)


def run(*command, user=None, status=0, timeout=60, **options):
    """Runs a command as root or `user`, and returns its output.

    status: the expected exit status; any other raises Failed. None accepts any.
    """
    if user:
        command = ("runuser", "-u", user, "--", *command)
    options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
    if options["stdin"] is None:
        del options["stdin"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, errors="replace", **options
    )
    if status is not None and done.returncode != status:
        raise Failed(f"{' '.join(command)}: exit status {done.returncode} instead of {status}:\n{done.stdout.strip()}")
    return done.stdout


def larder(*arguments, **options):
    return run("larder", *arguments, **options).strip()


def properties(unit, *names):
    """Returns properties of a unit as reported by systemd."""
    lines = run("systemctl", "show", unit, "-p", ",".join(names)).splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def main_pid(unit="larder.service"):
    return int(properties(unit, "MainPID")["MainPID"])


def eventually(probe, description, seconds=30):
    """Calls `probe` until it returns a true value, and returns that value. Raises Failed after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"timed out after {seconds} s: {description}")
        time.sleep(0.02)


def active(unit="larder.service"):
    return properties(unit, "ActiveState")["ActiveState"] == "active"


def journal_cursor():
    """Returns the current end of the journal, for `journal()` and `wait_for_entry()`."""
    run("journalctl", "--sync")
    shown = run("journalctl", "--lines=0", "--show-cursor")
    return shown.strip().split("-- cursor: ")[-1]


def journal(since, unit="larder.service"):
    """Returns the entries of a unit, and those of systemd about it, after a cursor. An entry is a dictionary of fields."""
    run("journalctl", "--sync")
    # No --unit, because journalctl 252 with --unit and --after-cursor skips the first matching entry.
    lines = run("journalctl", "--output=json", "--all", f"--after-cursor={since}", status=None).splitlines()
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [entry for entry in entries if unit in (entry.get("_SYSTEMD_UNIT"), entry.get("UNIT"))]


def wait_for_entry(since, seconds=10, **fields):
    """Waits for an entry of the agent with these fields, and returns it. The value True matches any value."""

    def matches(entry):
        return all(name in entry and (wanted is True or entry[name] == str(wanted)) for name, wanted in fields.items())

    try:
        return eventually(lambda: next(filter(matches, journal(since)), None), f"a journal entry with {fields}", seconds)
    except Failed as fault:
        entries = [{key: entry[key] for key in entry if key.startswith(("LARDER_", "MESSAGE"))} for entry in journal(since)]
        raise Failed("\n".join([str(fault), "entries:", *map(str, entries)])) from None


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
    """Runs all checks in order, prints each result, and then the table. Returns True if no check failed."""
    rows = []
    for function, needed in checks:
        sentence = function.__name__.replace("_", " ")
        began, since = time.monotonic(), journal_cursor()
        result, figure = "passed", ""
        try:
            figure = function() or ""
        except Skipped as reason:
            result, figure = "skipped", str(reason)
        except Exception as fault:  # pylint: disable=broad-except
            result, figure = "FAILED", str(fault).splitlines()[0] if str(fault) else repr(fault)
            explain(fault, since)
        rows.append((sentence, result, figure, time.monotonic() - began))
        print(f"{result:>8}  {sentence}{': ' if figure else ''}{figure}", flush=True)
        if result == "FAILED" and needed:
            print("          the remaining checks need this one and were not run", flush=True)
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
    counts = {name: sum(row[1] == name for row in rows) for name in ("passed", "FAILED", "skipped")}
    passed, failed, skipped = counts.values()
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped, of {len(checks)} checks")
