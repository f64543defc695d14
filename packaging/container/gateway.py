"""The package larder-http: it is off after the installation, and serves flags and values once it is enabled."""

import contextlib
import json
import re
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import readme
from harness import RESULTS, check, eventually, expect, larder, properties, run

URL = "http://127.0.0.1:8016"
SETTINGS = Path("/etc/larder/http.json")
FLAG = {"state": "ENABLED", "variants": {"on": True, "off": False}, "defaultVariant": "on"}


def commands():
    """The commands that install and enable the gateway, and evaluate a flag, as flags.md has them."""
    (block,) = re.findall(r"^```\n(sudo apt install .*?)^```$", readme.text("flags.md"), re.DOTALL | re.MULTILINE)
    found = block.splitlines()
    expect(len(found) == 4, f"{found}")
    return found


def evaluate(key="banner"):
    body = json.dumps({"context": {"targetingKey": "anna"}}).encode()
    request = urllib.request.Request(f"{URL}/ofrep/v1/evaluate/flags/{key}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


@check
def the_gateway_is_off_after_its_installation():
    package = next(Path(RESULTS, "first").glob("larder-http_*.deb"), None)
    expect(package, "there is no package larder-http beside that of the agent")
    install, *_ = commands()
    run("sh", "-euc", install.replace("./packaging/out", str(package.parent)).replace("install", "install --yes"), timeout=120)
    for unit in ("larder-http.socket", "larder-http.service"):
        expect(properties(unit, "ActiveState")["ActiveState"] == "inactive", f"{unit} is active")
    expect(properties("larder-http.socket", "UnitFileState")["UnitFileState"] == "disabled", "the socket is enabled")
    output = run("systemd-analyze", "verify", "--recursive-errors=no", "larder-http.service", "larder-http.socket")
    expect(not output.strip(), output)
    return f"package {package.stat().st_size / 1e6:.1f} MB"


@check
def the_gateway_evaluates_a_flag_once_it_is_enabled():
    _, *enable, curl = commands()
    larder("set", "flags.banner", json.dumps(FLAG))
    larder("set", "flags.new-checkout", json.dumps(FLAG))
    run("sh", "-euc", "\n".join(enable))
    with urllib.request.urlopen(f"{URL}/healthz", timeout=30) as response:
        expect(response.status == 200, f"status {response.status}")

    expected = {"key": "banner", "value": True, "reason": "STATIC", "variant": "on"}
    outcome = evaluate()
    expect(outcome == expected, f"{outcome}")
    outcome = json.loads(run("sh", "-c", curl.replace("curl", "curl --silent --show-error")))
    expect(outcome == {**expected, "key": "new-checkout"}, f"{outcome}")
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


@check
def the_gateway_requires_the_token_of_the_guide_and_serves_values():
    (create,) = re.findall(r"`(openssl rand [^`]*)`", readme.text("flags.md").replace("\n  ", " "))
    run("sh", "-euc", create)
    example = next(block for block in readme.guide_blocks("flags.md", "json") if "tokenFile" in block)
    usual = SETTINGS.read_text(encoding="utf-8")
    SETTINGS.write_text(example + "\n", encoding="utf-8")
    try:
        expect("are valid" in run("larder-http", "--check-settings"), "the settings of the guide are invalid")
        Path("/etc/larder/http.token").chmod(0o600)
        refused = run("larder-http", "--check-settings", status=78)
        expect("larder-http" in refused and "Permission denied" in refused, refused)
        Path("/etc/larder/http.token").chmod(0o640)
        run("systemctl", "restart", "larder-http.service")
        token = Path("/etc/larder/http.token").read_text(encoding="utf-8").strip()

        def status(path, **fields):
            try:
                with urllib.request.urlopen(urllib.request.Request(URL + path, headers=fields), timeout=30) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, ""

        path = "/v1/config/default/flags.banner.defaultVariant"
        expect(status(path)[0] == 401, "a request without a token was served")
        authorized = {"Authorization": f"Bearer {token}"}
        eventually(lambda: status("/readyz", **authorized)[0] == 200, "waiting for the snapshot")
        answer = status(path, **authorized)
        expect(answer[0] == 200 and '"on"' in answer[1], f"{answer}")
    finally:
        SETTINGS.write_text(usual, encoding="utf-8")
        run("systemctl", "restart", "larder-http.service")
        Path("/etc/larder/http.token").unlink()
    return answer[1].strip()


@check
def an_upgrade_of_the_gateway_restarts_it_and_loses_no_request():
    package = next(Path(RESULTS, "first").glob("larder-http_*.deb"))
    before = properties("larder-http.service", "MainPID")["MainPID"]
    with no_failed_request() as counts:
        run("dpkg", "--install", str(package), timeout=120)
        after = eventually(lambda: properties("larder-http.service", "MainPID")["MainPID"].strip("0"), "waiting for the gateway")
        first = counts["requests"]
        eventually(lambda: counts["requests"] > first + 50, "waiting for requests to the new process")
    expect(after != before, "the old process is still running")
    return f"{counts['requests']} requests"
