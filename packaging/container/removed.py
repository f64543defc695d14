"""Removing the package, and purging it."""

import os
import pwd
from pathlib import Path

from configured import DROP_IN, SETTINGS
from harness import Failed, check, eventually, expect, properties, run
from prepared import larder_files
from readme import block, login
from larder_client.testing import call


def units():
    listed = run("systemctl", "list-unit-files", "--no-legend", "larder*", status=None)
    return listed + run("systemctl", "list-units", "--all", "--no-legend", "--plain", "larder*", status=None)


@check
def purging_the_gateway_leaves_nothing_of_it():
    pid = int(properties("larder-http.service", "MainPID")["MainPID"])
    expect(pid, "the gateway does not run")
    run("apt-get", "purge", "--yes", "larder-http", timeout=120)
    expect(not os.path.exists(f"/proc/{pid}"), "the gateway is still running")
    left = [path for path in larder_files() if "larder-http" in path]
    expect(not left, f"files remain: {', '.join(left)}")
    expect(not os.path.exists("/etc/larder/http.json"), "the settings remain")
    expect("larder-http" not in {one.pw_name for one in pwd.getpwall()}, "the account remains")
    expect(os.path.exists(SETTINGS), "the settings of the agent were removed")


@check
def removing_the_package_keeps_state_and_settings():
    call("agent.ping")
    pid = call("agent.info")["pid"]
    run(*login(block("sudo apt remove")), input="y\n", timeout=120)
    for path in (SETTINGS, "/var/lib/larder"):
        expect(os.path.exists(path), f"{path} was removed")
    expect(any(Path("/var/lib/larder").iterdir()), "the state was removed")
    expect(not os.path.exists("/usr/sbin/larderd"), "the program was not removed")
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "waiting for the agent to exit", 10)
    expect(not os.path.exists("/run/larder/larder.sock"), "the socket was not removed")
    return ", ".join(sorted(path.name for path in Path("/var/lib/larder").iterdir()))


@check
def purging_the_package_leaves_nothing():
    # The systemd drop-in that configured.py wrote is not part of the package and must be removed separately. Purging removes
    # the files in /etc/larder.
    Path(DROP_IN).unlink()
    os.rmdir(os.path.dirname(DROP_IN))
    run("systemctl", "daemon-reload")
    uid = next((one.pw_uid for one in pwd.getpwall() if one.pw_name == "larder"), None)
    run(*login(block("sudo apt purge")), input="y\n", timeout=120)
    run("systemctl", "daemon-reload")
    left = [path for path in larder_files() if path]
    expect(not left, f"files remain: {', '.join(left)}")
    if uid is not None:
        owned = run("find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-uid", str(uid), "-print", status=None).split()
        expect(not owned, f"files of the user remain: {', '.join(owned)}")
    # After a delay, systemd unloads units that no longer exist.
    try:
        eventually(lambda: not units().strip(), "waiting for systemd to unload the units of the package", 120)
    except Failed as failed:
        raise Failed(f"{failed}: {units()}") from None
    failed = run("systemctl", "list-units", "--failed", "--no-legend", "--plain", "larder*", status=None)
    expect(not failed.strip() and properties("larder.service", "LoadState")["LoadState"] == "not-found", failed)
    account = "the account remains" if any(one.pw_name == "larder" for one in pwd.getpwall()) else "no account"
    return f"no files, units or sockets remain, {account}"
