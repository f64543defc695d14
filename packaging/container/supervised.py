"""Crashes, hangs and restarts of the agent under systemd."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from activated import stop_service
from configured import CONTENT, SETTINGS
from harness import active, check, eventually, expect, journal, journal_cursor, larder, main_pid, milliseconds, properties
from harness import run, wait_for_entry, write
from larder_client.testing import Connection, call

DEBUG = "/etc/systemd/system/larder.service.d/90-debug.conf"


def threads(pid):
    """Returns the names of the threads of a process, by thread ID."""
    return {int(one.name): (one / "comm").read_text(encoding="utf-8").strip() for one in Path(f"/proc/{pid}/task").iterdir()}


def kill_agent(number, thread=None):
    """Sends a signal to the agent, or to a thread whose name begins with `thread`.

    Returns the number of seconds until a new process serves requests.
    """
    run("systemctl", "reset-failed", "larder.service", "larder.socket", status=None)
    call("agent.ping")
    pid, began = main_pid(), time.monotonic()
    if thread:
        target = next(number for number, name in threads(pid).items() if name.startswith(thread))
        expect(ctypes.CDLL(None).tgkill(pid, target, int(number)) == 0, f"thread {target} does not exist")
    else:
        os.kill(pid, number)
    eventually(lambda: main_pid() not in (0, pid) and active(), "waiting for a new process after the kill", 60)
    call("agent.ping")
    return time.monotonic() - began


def published_revisions():
    """Returns the revision of each namespace."""
    return {name: one["revision"] for name, one in call("agent.stats")["namespaces"].items()}


@check
def after_SIGKILL_the_agent_restarts_with_the_same_content_and_reuses_no_revision():
    larder("set", "search.limit", "31")
    write("/srv/origin/shop.json", '{"version": 5, "checkout": {"enabled": true}, "seen": "before the agent is killed"}\n')
    larder("refresh", "--namespace", "shop")

    def content():
        return {name: call("config.get", namespace=name)["value"] for name in ("default", "shop")}

    before, revisions = content(), published_revisions()
    # A document from a source is published before it is on disk. A kill in between would lose it until the next refresh.
    generation = f"shop/generations/{revisions['shop']:016}.json"
    eventually(lambda: list(Path("/var/lib/larder").glob(f"**/{generation}")), f"waiting for {generation}")
    restarts = int(properties("larder.service", "NRestarts")["NRestarts"])
    took = kill_agent(signal.SIGKILL)
    after, again = content(), published_revisions()
    expect(after == before, f"{before} before, {after} after")
    expect(all(again[name] >= revision for name, revision in revisions.items()), f"{revisions} before, {again} after")
    # Documents from a source are published under reserved revisions, which are never reused.
    expect(again["shop"] > revisions["shop"], f"shop: {revisions['shop']} before, {again['shop']} after")
    found = int(properties("larder.service", "NRestarts")["NRestarts"])
    expect(found >= restarts + 1, f"systemd restarted it {found - restarts} times")
    return f"{len(again)} namespaces with the same content, available after {milliseconds(took)}"


@check
def a_crash_logs_a_backtrace_with_function_names():
    since = journal_cursor()
    kill_agent(signal.SIGSEGV, thread="NIO")

    def lines(pattern):
        messages = [entry["MESSAGE"] for entry in journal(since) if isinstance(entry.get("MESSAGE"), str)]
        return [line for line in messages if re.search(pattern, line)]

    found = eventually(lambda: lines(r"^\s*\d+ .* in larderd"), "waiting for stack frames of larderd in the journal", 20)
    # After a watchdog timeout, the signal arrives at an arbitrary thread, so the other threads must be in the backtrace.
    eventually(lambda: len(lines(r'^Thread \d+ "')) > 3, "waiting for the other threads of larderd in the journal", 20)
    threads = len(lines(r'^Thread \d+ "'))
    named = [line for line in found if not re.search(r"<unknown>|\?\?\?", line)]
    swift = [line for line in named if "NIO" in line or "Selector" in line or "Loop" in line]
    expect(swift, "no frame has the name of a Swift function:\n" + "\n".join(found))
    return (
        f"{len(named)} of {len(found)} frames in {threads} threads have names, such as: "
        f"{' '.join(swift[-1].split())[:100]}"
    )


@check
def systemd_restarts_the_service_when_a_deadlock_stops_its_watchdog_messages():
    # Backtraces are off, because those of a debug build take too long and are not needed here.
    debug = "[Service]\nExecStart=\nExecStart=/opt/larder-debug/larderd\nWatchdogSec=5\nTimeoutStartSec=60\n"
    # The libraries of a debug build are in the directory of the toolchain.
    write(DEBUG, debug + "NoExecPaths=\nProtectHome=no\nEnvironment=SWIFT_BACKTRACE=enable=no\nMemoryMax=infinity\n")
    run("systemctl", "daemon-reload")
    try:
        stop_service()
        run("systemctl", "start", "larder.service")
        expect("larder-debug" in os.readlink(f"/proc/{main_pid()}/exe"), "the debug build is not running")
        # The agent must hang only after its first watchdog message.
        value = call("config.get", path="search.limit")["value"]
        since, pid, began = journal_cursor(), main_pid(), time.monotonic()
        os.kill(pid, signal.SIGUSR2)
        probe = wait_for_entry(since, LARDER_PROBE=True)
        eventually(lambda: main_pid() not in (0, pid) and active(), "waiting for a new process after the hang", 60)
        took = time.monotonic() - began
        messages = [entry["MESSAGE"] for entry in journal(since) if entry.get("SYSLOG_IDENTIFIER") == "systemd"]
        expect(any("Watchdog timeout" in line for line in messages), f"messages of systemd: {messages}")
        expect(call("config.get", path="search.limit")["value"] == value, "the value has changed")
    finally:
        Path(DEBUG).unlink()
        run("systemctl", "daemon-reload")
        stop_service()
    call("agent.ping")
    return f"WatchdogSec=5, back after {took:.1f} s; {probe['MESSAGE']}"


def under_load(action):
    """Calls `action` while readers, a writer and subscribers use the agent. Returns the report of load.py."""
    command = [sys.executable, str(Path(__file__).with_name("load.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        try:
            expect(load.stdout.readline() == "running\n", "load.py did not start")
            action()
            time.sleep(0.5)  # of load after the action
        finally:
            load.stdin.close()
            report = load.stdout.read()
        expect(load.wait() == 0, "load.py failed")
    report = json.loads(report)
    faults = "; ".join(report["faults"])
    for count in ("lost", "missed", "wentBack"):
        expect(report[count] == 0, f"{report[count]} {count}: {faults}")
    expect(len(report["epochs"]) == 1, f"epochs: {report['epochs']}")
    final = call("config.get", path="load.counter")
    expect(final["revision"] >= report["lastRevision"], f"revision {final['revision']} after {report['lastRevision']}")
    return report


def summary(report):
    return (
        f"{report['requests']} requests of {report['readers']} readers, {report['retried']} retried, 0 lost; "
        f"{report['writes']} revisions ({report['firstRevision']}–{report['lastRevision']}) seen by each of "
        f"{report['subscribers']} subscribers, {report['resumed']} resumptions, 0 missed; "
        f"longest wait {report['longestMilliseconds']} ms"
    )


@check
def a_restart_under_load_loses_no_request_and_no_revision():
    processes = []

    def restart():
        for _ in range(4):
            run("systemctl", "restart", "larder.service")
            processes.append(main_pid())
            call("agent.ping")

    stop_service()
    report = under_load(restart)
    expect(len(set(processes)) == 4, f"processes: {processes}")
    return f"4 restarts: {summary(report)}"


@check
def an_idle_client_is_served_or_disconnected_after_a_restart():
    stop_service()
    with Connection() as connection:
        connection.call("agent.ping")
        run("systemctl", "restart", "larder.service")
        try:
            connection.call("agent.ping")
            return "an idle connection was kept"
        except ConnectionError:
            return "an idle connection was closed; clients connect again"


@check
def larder_watch_continues_after_a_restart():
    stop_service()
    larder("set", "search.limit", "40")
    with subprocess.Popen(["larder", "watch", "search.limit"], stdout=subprocess.PIPE, text=True) as watch:
        try:
            seen = [watch.stdout.readline().strip()]
            run("systemctl", "restart", "larder.service")
            larder("set", "search.limit", "41")
            seen.append(watch.stdout.readline().strip())
        finally:
            watch.terminate()
    expect(seen == ["40", "41"], f"larder watch printed {seen}")


@check
def invalid_settings_at_startup_are_reported_and_the_saved_ones_are_used_until_a_reload():
    stop_service()
    call("agent.ping")
    try:
        write(SETTINGS, CONTENT.replace("intervalSeconds", "intervalSecond", 1))
        for _ in range(3):
            run("systemctl", "restart", "larder.service")
            expect(larder("get", "search.limit") == "41", "the value has changed")
        eventually(
            lambda: "intervalSecond" in properties("larder.service", "StatusText")["StatusText"], "waiting for the status line"
        )
        reports = {
            "the journal": run("journalctl", "--unit=larder.service", "--lines=20"),
            "larder status": larder("status"),
            "larder doctor": larder("doctor", status=1),
        }
        for name, text in reports.items():
            expect("intervalSecond" in text, f"{name} does not name the mistake:\n{text}")
        larder("status", "--check", status=1)
        modes = {(path.stat().st_mode & 0o7777, path.owner()) for path in Path("/var/lib/larder").glob("settings-*")}
        expect(modes == {(0o600, "larder")}, f"saved settings: {modes}")
    finally:
        write(SETTINGS, CONTENT)
    run("systemctl", "reload", "larder.service")
    # systemctl does not wait until the agent has applied the settings.
    eventually(lambda: "settingsProblem" not in call("agent.info"), "the problem remains after a reload of valid settings")


@check
def without_saved_settings_the_agent_waits_for_valid_ones_and_keeps_the_socket():
    stop_service()
    for path in Path("/var/lib/larder").glob("settings-*"):
        path.unlink()
    restarts = int(properties("larder.service", "NRestarts")["NRestarts"])
    try:
        write(SETTINGS, CONTENT.replace("intervalSeconds", "intervalSecond", 1))
        larder("get", "search.limit", status=8)
        pid = main_pid()
        doctor = larder("doctor", status=5)
        expect("intervalSecond" in doctor, f"larder doctor does not name the mistake:\n{doctor}")
        time.sleep(2)  # longer than RestartSec=
        larder("get", "search.limit", status=8)
        expect(main_pid() == pid, "the agent has exited")
        expect(active(), "the service is not active")
    finally:
        write(SETTINGS, CONTENT)
    eventually(lambda: larder("get", "search.limit", status=None) == "41", "waiting for the agent to use the valid settings")
    expect(main_pid() == pid, "the agent was started again")
    expect(int(properties("larder.service", "NRestarts")["NRestarts"]) == restarts, "systemd has restarted the agent")
