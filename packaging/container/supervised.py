"""What systemd does for the agent when it dies, hangs, or is restarted."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from activated import restarted_afresh
from configured import CONTENT, SETTINGS
from harness import active, check, eventually, expect, journal, larder, logged, main_pid, milliseconds, now, properties, run
from harness import write
from larder_client import Connection, call

DEBUG = "/etc/systemd/system/larder.service.d/90-debug.conf"


def threads(pid):
    """The names of a process's threads by their ids."""
    return {int(one.name): (one / "comm").read_text(encoding="utf-8").strip() for one in Path(f"/proc/{pid}/task").iterdir()}


def killed(number, thread=None):
    """Kills the agent, by a signal to a thread whose name begins so or to any; how long until another process answers."""
    run("systemctl", "reset-failed", "larder.service", "larder.socket", status=None)
    call("agent.ping")
    pid, began = main_pid(), time.monotonic()
    if thread:
        target = next(number for number, name in threads(pid).items() if name.startswith(thread))
        expect(ctypes.CDLL(None).tgkill(pid, target, int(number)) == 0, f"there is no thread {target}")
    else:
        os.kill(pid, number)
    eventually(lambda: main_pid() not in (0, pid) and active(), "another process after the one that was killed", 60)
    call("agent.ping")
    return time.monotonic() - began


def all_revisions():
    """The revision of each namespace."""
    return {name: one["revision"] for name, one in call("agent.stats")["namespaces"].items()}


@check
def after_kill_9_it_is_restarted_with_the_same_content_and_no_revision_twice():
    larder("set", "search.limit", "31")
    write("/srv/origin/shop.json", '{"version": 5, "checkout": {"enabled": true}, "seen": "before the agent is killed"}\n')
    larder("refresh", "--namespace", "shop")

    def content():
        return {name: call("config.get", namespace=name)["value"] for name in ("default", "shop")}

    before, revisions = content(), all_revisions()
    # A document of a source is published before it is on disk; a kill in between loses it until it is fetched again.
    generation = f"shop/generations/{revisions['shop']:016}.json"
    eventually(lambda: list(Path("/var/lib/larder").glob(f"**/{generation}")), f"{generation} on disk")
    restarts = int(properties("larder.service", "NRestarts")["NRestarts"])
    took = killed(signal.SIGKILL)
    after, again = content(), all_revisions()
    expect(after == before, f"{before} before, {after} after")
    expect(all(again[name] >= revision for name, revision in revisions.items()), f"{revisions} before, {again} after")
    # What came from a source was published under a reserved number, which is never used again.
    expect(again["shop"] > revisions["shop"], f"shop: {revisions['shop']} before, {again['shop']} after")
    found = int(properties("larder.service", "NRestarts")["NRestarts"])
    expect(found >= restarts + 1, f"systemd restarted it {found - restarts} times")
    return f"{len(again)} namespaces with the same content, answered after {milliseconds(took)}"


@check
def a_crash_leaves_a_backtrace_with_names_of_functions_in_the_journal():
    since = now()
    killed(signal.SIGSEGV, thread="NIO")

    def lines(pattern):
        messages = [entry["MESSAGE"] for entry in journal(since) if isinstance(entry.get("MESSAGE"), str)]
        return [line for line in messages if re.search(pattern, line)]

    found = eventually(lambda: lines(r"^\s*\d+ .* in larderd"), "frames of larderd in the journal", 20)
    # What the watchdog ends says nothing in the thread that its signal comes to.
    eventually(lambda: len(lines(r'^Thread \d+ "')) > 3, "the other threads of larderd in the journal", 20)
    threads = len(lines(r'^Thread \d+ "'))
    named = [line for line in found if not re.search(r"<unknown>|\?\?\?", line)]
    swift = [line for line in named if "NIO" in line or "Selector" in line or "Loop" in line]
    expect(swift, "no frame has the name of a function of Swift's:\n" + "\n".join(found))
    return (
        f"{len(named)} of {len(found)} frames in {threads} threads have names, such as: "
        f"{' '.join(swift[-1].split())[:100]}"
    )


@check
def a_deadlocked_actor_starves_the_watchdog_and_systemd_restarts_the_service():
    # Backtraces of a debug build take longer than all the rest, and are not what this is about.
    debug = "[Service]\nExecStart=\nExecStart=/opt/larder-debug/larderd\nWatchdogSec=5\nTimeoutStartSec=60\n"
    # Its libraries are wherever the toolchain is.
    write(DEBUG, debug + "NoExecPaths=\nProtectHome=no\nEnvironment=SWIFT_BACKTRACE=enable=no\nMemoryMax=infinity\n")
    run("systemctl", "daemon-reload")
    try:
        restarted_afresh()
        run("systemctl", "start", "larder.service")
        expect("larder-debug" in os.readlink(f"/proc/{main_pid()}/exe"), "the debug build does not run")
        # It hangs, and not before the first time that it was fed.
        value = call("config.get", path="search.limit")["value"]
        since, pid, began = now(), main_pid(), time.monotonic()
        os.kill(pid, signal.SIGUSR2)
        probe = logged(since, LARDER_PROBE=True)
        eventually(lambda: main_pid() not in (0, pid) and active(), "another process after the one that hung", 60)
        took = time.monotonic() - began
        said = [entry["MESSAGE"] for entry in journal(since) if entry.get("SYSLOG_IDENTIFIER") == "systemd"]
        expect(any("Watchdog timeout" in line for line in said), f"systemd said {said}")
        expect(call("config.get", path="search.limit")["value"] == value, "the value is another one")
    finally:
        Path(DEBUG).unlink()
        run("systemctl", "daemon-reload")
        restarted_afresh()
    call("agent.ping")
    return f"WatchdogSec=5, back after {took:.1f} s; {probe['MESSAGE']}"


def under_load(action):
    """Performs something while readers, a writer and subscribers are at work; what they counted."""
    command = [sys.executable, str(Path(__file__).with_name("load.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        try:
            expect(load.stdout.readline() == "running\n", "the load did not begin")
            action()
            time.sleep(0.5)  # of load on what is there now
        finally:
            load.stdin.close()
            report = load.stdout.read()
        expect(load.wait() == 0, "the load ended badly")
    report = json.loads(report)
    faults = "; ".join(report["faults"])
    for count in ("lost", "missed", "wentBack"):
        expect(report[count] == 0, f"{report[count]} {count}: {faults}")
    expect(len(report["epochs"]) == 1, f"epochs: {report['epochs']}")
    final = call("config.get", path="load.counter")
    expect(final["revision"] >= report["lastRevision"], f"revision {final['revision']} after {report['lastRevision']}")
    return report


def told(report):
    return (
        f"{report['requests']} requests of {report['readers']} readers, {report['retried']} asked again, 0 lost; "
        f"{report['writes']} revisions ({report['firstRevision']}–{report['lastRevision']}) seen by each of "
        f"{report['subscribers']} subscribers, {report['resumed']} resumptions, 0 missed; "
        f"longest wait {report['longestMilliseconds']} ms"
    )


@check
def systemctl_restart_under_load_loses_no_request_and_no_revision():
    processes = []

    def restart():
        for _ in range(4):
            run("systemctl", "restart", "larder.service")
            processes.append(main_pid())
            call("agent.ping")

    restarted_afresh()
    report = under_load(restart)
    expect(len(set(processes)) == 4, f"processes: {processes}")
    return f"4 restarts: {told(report)}"


@check
def a_client_that_was_idle_over_a_restart_is_answered_or_told_so():
    restarted_afresh()
    with Connection() as connection:
        connection.call("agent.ping")
        run("systemctl", "restart", "larder.service")
        try:
            connection.call("agent.ping")
            return "an idle connection was kept"
        except ConnectionError:
            return "an idle connection was closed; clients connect again"


@check
def larder_watch_goes_on_over_a_restart():
    restarted_afresh()
    larder("set", "search.limit", "40")
    with subprocess.Popen(["larder", "watch", "search.limit"], stdout=subprocess.PIPE, text=True) as watch:
        try:
            seen = [watch.stdout.readline().strip()]
            run("systemctl", "restart", "larder.service")
            larder("set", "search.limit", "41")
            seen.append(watch.stdout.readline().strip())
        finally:
            watch.terminate()
    expect(seen == ["40", "41"], f"it saw {seen}")


@check
def settings_that_are_broken_at_a_start_are_explained_and_mending_them_is_enough():
    restarted_afresh()
    try:
        write(SETTINGS, CONTENT.replace("intervalSeconds", "intervalSecond", 1))
        run("systemctl", "restart", "larder.service", status=1)
        lines = run("journalctl", "--unit=larder.service", "--lines=20")
        expect("intervalSecond" in lines, f"the journal does not say what is wrong:\n{lines}")
        doctor = larder("doctor", status=None)
        expect("intervalSecond" in doctor, f"larder doctor does not say what is wrong:\n{doctor}")
    finally:
        write(SETTINGS, CONTENT)
    run("systemctl", "restart", "larder.service")
    expect(larder("get", "search.limit") == "41", "the value is another one")
