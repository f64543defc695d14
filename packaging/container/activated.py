"""Socket activation of the service, its startup time and its sandbox."""

import json
import os
import pwd
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from harness import SOCKET, active, check, eventually, expect, larder, main_pid, median, milliseconds, properties, run
from larder_client.testing import Connection, call


def stop_service():
    """Stops the service, and resets the counter with which systemd limits how often it starts."""
    run("systemctl", "stop", "larder.service")
    run("systemctl", "reset-failed", "larder.service", "larder.socket", status=None)
    eventually(lambda: not active(), "waiting for the service to stop")


@check(needed=True)
def larder_ping_starts_a_stopped_service():
    stop_service()
    began = time.monotonic()
    output = larder("ping")
    took = time.monotonic() - began
    eventually(active, "waiting for the service to become active")
    return f"{output.splitlines()[0]}, in {milliseconds(took)} including the start of larder"


@check
def a_stopped_service_replies_to_its_first_client():
    times = []
    for _ in range(7):
        stop_service()
        began = time.monotonic()
        call("agent.ping")
        times.append(time.monotonic() - began)
    best, middle, worst = (milliseconds(pick(times)) for pick in (min, median, max))
    return f"connect → reply: median {middle}, minimum {best}, maximum {worst} (target: < 150 ms)"


def measure_startup(directory, namespaces):
    """Returns the median time from fork to READY=1 in seconds, for seven starts of larderd with existing state."""
    settings = {"namespaces": {f"n{number:03}": {} for number in range(namespaces)}}
    Path(directory, "larder.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["/usr/sbin/larderd", "--settings", f"{directory}/larder.json", "--socket", f"{directory}/l.sock"]
    command += ["--state-directory", f"{directory}/state", "--cache-directory", f"{directory}/cache"]
    times = []
    for number in range(8):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notification_socket:
            Path(directory, "notify").unlink(missing_ok=True)
            notification_socket.bind(f"{directory}/notify")
            notification_socket.settimeout(30)
            began = time.monotonic()
            environment = {"PATH": "/usr/bin", "NOTIFY_SOCKET": f"{directory}/notify"}
            agent = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
            try:
                while "READY=1" not in notification_socket.recv(4096).decode().splitlines():
                    pass
                times.append(time.monotonic() - began)
                if number == 0:  # the first start is not counted; it creates the state for the others
                    for name in settings["namespaces"]:
                        call("config.set", f"{directory}/l.sock", namespace=name, path="a.b", value="c" * 100)
            finally:
                agent.terminate()
                agent.wait(30)
    return median(times[1:])


@check
def larderd_starts_with_an_empty_state_and_with_100_namespaces():
    figures = []
    for namespaces in (0, 100):
        directory = tempfile.mkdtemp()
        try:
            took = measure_startup(directory, namespaces)
        finally:
            shutil.rmtree(directory)
        figures.append(f"{milliseconds(took)} {'with 100 namespaces' if namespaces else 'with an empty state'}")
    call("agent.ping")
    stamps = properties("larder.service", "ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    forked, ready = (int(stamps[f"{name}TimestampMonotonic"]) for name in ("ExecMainStart", "ActiveEnter"))
    unit = milliseconds((ready - forked) / 1e6)
    return f"start → READY=1: {', '.join(figures)} (target: < 40 ms); as a unit with its sandbox {unit}"


def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def mounts_of(pid):
    """Returns the options of the topmost mount at each mount point."""
    lines = Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8").splitlines()
    return {line.split()[4]: set(line.split()[5].split(",")) | set(line.split()[-1].split(",")) for line in lines}


def cgroup_limits(unit):
    """Returns the directives of a unit that need a control group, with True if they are enforced in this container."""
    facts = properties(unit, "ControlGroup", "MemoryMax", "TasksMax", "IPAddressDeny", "DevicePolicy")
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = Path("/sys/fs/cgroup" + facts["ControlGroup"])
    limits = {}
    if facts["MemoryMax"] not in ("infinity", ""):
        limits["MemoryMax"] = (group / "memory.max").exists()
    if facts["TasksMax"] not in ("infinity", ""):
        limits["TasksMax"] = (group / "pids.max").exists()
    if facts["IPAddressDeny"]:
        limits["IPAddressDeny"] = unified
    if facts["DevicePolicy"] not in ("auto", ""):
        limits["DevicePolicy"] = unified
    return limits


@check
def the_sandbox_is_in_force():
    call("agent.ping")
    pid = main_pid()
    status, mounts = status_of(pid), mounts_of(pid)
    expect(status["Uid"].split()[0] == str(pwd.getpwnam("larder").pw_uid), f"uid {status['Uid']}")
    expect(status["NoNewPrivs"] == "1", "NoNewPrivileges is not in force")
    expect(status["Seccomp"] == "2", "SystemCallFilter is not in force")
    sets = {status[name].strip("0") for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")}
    expect(sets == {""}, f"the process has capabilities: {status['CapEff']}, {status['CapBnd']}")
    expect("ro" in mounts["/"], "ProtectSystem=strict is not in force")
    for place, directive in (("/tmp", "PrivateTmp"), ("/dev", "PrivateDevices"), ("/home", "ProtectHome")):
        expect(place in mounts, f"{directive} is not in force: {place} is not a mount point")
    hidden = "subset=pid" in mounts["/proc"]  # ProcSubset=pid hides /proc/sys
    expect(hidden or "ro" in mounts.get("/proc/sys", ()), "neither ProcSubset nor ProtectKernelTunables is in force")
    for directory in ("/var/lib/larder", "/var/cache/larder", "/run/larder"):
        expect("rw" in mounts.get(directory, ()), f"{directory} is not writable")
    limits = cgroup_limits("larder.service")
    unenforced = [name for name, enforced in limits.items() if not enforced]
    note = f"; not enforced in this container: {', '.join(unenforced)}" if unenforced else ""
    return f"seccomp, no capabilities, {len(mounts)} private mounts{note}"


@check
def the_directories_have_the_documented_modes():
    found = {}
    for path, wanted in (("lib", 0o750), ("cache", 0o750)):
        facts = os.stat(f"/var/{path}/larder")
        mode = stat.S_IMODE(facts.st_mode)
        expect(mode & 0o027 == 0 and pwd.getpwuid(facts.st_uid).pw_name == "larder", f"/var/{path}/larder: {mode:o}")
        expect(mode & ~wanted == 0, f"/var/{path}/larder: {mode:o}")
        found[f"/var/{path}/larder"] = mode
    for path in ("/etc/larder", "/run/larder"):
        found[path] = stat.S_IMODE(os.stat(path).st_mode)
        expect(found[path] == 0o755, f"{path}: {found[path]:o}")
    return ", ".join(f"{path} {mode:04o}" for path, mode in found.items())


@check
def the_descriptor_limit_allows_thousands_of_connections():
    limit = int(properties("larder.service", "LimitNOFILE")["LimitNOFILE"])
    allowed = call("agent.info")["limits"]["connections"]
    expect(limit > allowed, f"LimitNOFILE={limit} is too low for {allowed} connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, max(16384, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    connections = [Connection(SOCKET) for _ in range(4000)]
    for connection in connections:
        connection.call("agent.ping")
    for connection in connections:
        connection.close()
    return f"LimitNOFILE={limit}, {allowed} connections allowed, {len(connections)} concurrent connections served"
