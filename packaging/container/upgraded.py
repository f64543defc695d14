"""An upgrade to the second package, under load."""

import shutil
from pathlib import Path

from activated import stop_service
from configured import CONTENT, DROP_IN, SETTINGS
from gateway import no_failed_request
from harness import check, expect, larder, main_pid, properties, run
from readme import HOME, block, login
from supervised import summary, under_load
from larder_client.testing import call


def install(which):
    """Installs one of the two packages with the commands of the README."""
    out = Path(HOME, "larder/packaging/out")
    shutil.rmtree(out)
    out.mkdir()
    write_stub = f"#!/bin/sh\ncp /results/{which}/larder_*.deb packaging/out/\n"
    Path(HOME, "larder/packaging/build-deb.sh").write_text(write_stub, encoding="utf-8")
    run("chown", "--recursive", "anna:", str(out))
    run(*login(block("packaging/build-deb.sh")), timeout=120)


def version():
    return run("dpkg-query", "--show", "--showformat=${Version}", "larder")


@check
def an_upgrade_under_load_loses_no_request_and_no_revision():
    stop_service()
    before, value = version(), call("config.get", path="search.limit")["value"]
    epoch, pid = call("agent.info")["epoch"], main_pid()
    with no_failed_request() as gateway:
        report = under_load(lambda: install("second"))
    after, info = version(), call("agent.info")
    expect(run("dpkg", "--compare-versions", after, "gt", before, status=None) == "" and after != before, f"version {after}")
    expect(info["pid"] != pid, "the old process is still running")
    expect(call("config.get", path="search.limit")["value"] == value, "the value has changed")
    expect(info["epoch"] == epoch, "the epoch has changed")
    return f"{before} → {after} (agent.info: {info['version']}): {summary(report)}; {gateway['requests']} requests to larder-http"


@check
def settings_and_drop_ins_survive_the_upgrade():
    expect(Path(SETTINGS).read_text(encoding="utf-8") == CONTENT, "the settings have changed")
    expect(Path(DROP_IN).exists(), "the drop-in was removed")
    loaded = properties("larder.service", "LoadCredential", "DropInPaths")
    expect(DROP_IN in loaded["DropInPaths"], f"{loaded}")
    larder("refresh", "--namespace", "private")
    expect(properties("larder.socket", "ActiveState")["ActiveState"] == "active", "the socket is not listening")
    return f"settings, {Path(DROP_IN).name} and its credential"


@check
def the_autopkgtest_passes():
    expect(Path("/package/debian/tests/control").exists(), "debian/tests/control does not exist")
    # The test requires isolation, which this container provides. autopkgtest does not detect that, and skips the test in
    # Debian 13.
    output = run(
        *("autopkgtest", "--ignore-restrictions=isolation-container", "--no-built-binaries", "/package", "--", "null"),
        status=None,
        timeout=120,
    )
    expect("roundtrip" in output and "PASS" in output and "FAIL" not in output and "SKIP" not in output, output)
    return " ".join(output.strip().splitlines()[-1].split())
