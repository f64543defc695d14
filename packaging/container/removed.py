"""What removing the package leaves, and purging it."""

import os
import pwd
from pathlib import Path

from configured import DROP_IN, SETTINGS
from harness import check, eventually, expect, properties, run
from prepared import traces
from readme import block, login
from larder_client import call


def units():
    listed = run("systemctl", "list-unit-files", "--no-legend", "larder*", status=None)
    return listed + run("systemctl", "list-units", "--all", "--no-legend", "--plain", "larder*", status=None)


@check
def removing_the_package_keeps_state_and_settings():
    call("agent.ping")
    pid = call("agent.info")["pid"]
    run(*login(block("sudo apt remove")), input="y\n", timeout=120)
    for path in (SETTINGS, "/var/lib/larder"):
        expect(os.path.exists(path), f"{path} is gone")
    expect(any(Path("/var/lib/larder").iterdir()), "the state is gone")
    expect(not os.path.exists("/usr/sbin/larderd"), "the program is still there")
    eventually(lambda: not os.path.exists(f"/proc/{pid}"), "the agent ends", 10)
    expect(not os.path.exists("/run/larder/larder.sock"), "the socket is still there")
    return ", ".join(sorted(path.name for path in Path("/var/lib/larder").iterdir()))


@check
def purging_the_package_leaves_nothing():
    # What the administrator wrote beside the package goes first; its files in /etc/larder go with it.
    Path(DROP_IN).unlink()
    os.rmdir(os.path.dirname(DROP_IN))
    run("systemctl", "daemon-reload")
    uid = next((one.pw_uid for one in pwd.getpwall() if one.pw_name == "larder"), None)
    run(*login(block("sudo apt purge")), input="y\n", timeout=120)
    run("systemctl", "daemon-reload")
    left = [path for path in traces() if path]
    expect(not left, f"left: {', '.join(left)}")
    if uid is not None:
        owned = run("find", "/", "-xdev", "-path", "/proc", "-prune", "-o", "-uid", str(uid), "-print", status=None).split()
        expect(not owned, f"files of its user are left: {', '.join(owned)}")
    # systemd forgets those that are not there any more when it comes to it.
    eventually(lambda: not units().strip(), "systemd knows no unit of the package")
    failed = run("systemctl", "list-units", "--failed", "--no-legend", "--plain", "larder*", status=None)
    expect(not failed.strip() and properties("larder.service", "LoadState")["LoadState"] == "not-found", failed)
    account = "its account is left" if any(one.pw_name == "larder" for one in pwd.getpwall()) else "no account"
    return f"no files, no files of its user, no units, no sockets, {account}"
