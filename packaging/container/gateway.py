"""The package larder-http: it is off after the installation, and serves flags and values once it is enabled."""

import contextlib
import json
import re
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from harness import RESULTS, check, eventually, expect, larder, properties, run, write

URL = "http://127.0.0.1:8016"
FLAG = {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "on"}


def evaluate(key="banner"):
    body = json.dumps({"context": {"targetingKey": "anna"}}).encode()
    request = urllib.request.Request(f"{URL}/ofrep/v1/evaluate/flags/{key}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


@check
def the_gateway_is_off_after_its_installation():
    package = next(Path(RESULTS, "first").glob("larder-http_*.deb"), None)
    expect(package, "there is no package larder-http beside that of the agent")
    run("apt-get", "install", "--yes", str(package), timeout=120)
    for unit in ("larder-http.socket", "larder-http.service"):
        expect(properties(unit, "ActiveState")["ActiveState"] == "inactive", f"{unit} is active")
    expect(properties("larder-http.socket", "UnitFileState")["UnitFileState"] == "disabled", "the socket is enabled")
    output = run("systemd-analyze", "verify", "--recursive-errors=no", "larder-http.service", "larder-http.socket")
    expect(not output.strip(), output)
    return f"package {package.stat().st_size / 1e6:.1f} MB"


@check
def the_gateway_evaluates_a_flag_once_it_is_enabled():
    larder("set", "flags.banner", json.dumps(FLAG))
    write("/etc/larder/http.json", '{ access: "anyone", namespaces: { default: { flags: "flags", config: true } } }\n')
    run("systemctl", "enable", "--now", "larder-http.socket")
    with urllib.request.urlopen(f"{URL}/healthz", timeout=30) as response:
        expect(response.status == 200, f"status {response.status}")

    def answer():
        try:
            return evaluate()
        except urllib.error.HTTPError:
            return None  # the snapshot has not arrived

    outcome = eventually(answer, "waiting for the snapshot")
    expect(outcome == {"key": "banner", "value": True, "reason": "STATIC", "variant": "on"}, f"{outcome}")
    pid = int(properties("larder-http.service", "MainPID")["MainPID"])
    memory = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))[1])
    expect(memory <= 25 * 1024, f"the gateway uses {memory} KiB")
    output = run("systemd-analyze", "security", "--offline=true", "--no-pager", "/lib/systemd/system/larder-http.service")
    level = re.search(r"larder-http\.service: ([0-9.]+) ", output.strip().splitlines()[-1])
    expect(level and float(level[1]) <= 1.5, output)
    return f"{memory / 1024:.1f} MiB of memory, exposure {level[1]}"


@contextlib.contextmanager
def no_failed_request():
    """Evaluates a flag in a loop during the block. Raises Failed if an evaluation fails."""
    counts, faults, stop = {"requests": 0}, [], threading.Event()

    def load():
        while not stop.is_set():
            try:
                expect(evaluate()["value"] is True, "another value")
            except Exception as fault:  # pylint: disable=broad-except
                faults.append(repr(fault))
            counts["requests"] += 1
            time.sleep(0.005)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join()
    expect(not faults, f"{len(faults)} of {counts['requests']} requests failed: {faults[:3]}")
