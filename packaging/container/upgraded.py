"""The second version over the first, while everybody is at work."""

import shutil
from pathlib import Path

from activated import restarted_afresh
from configured import CONTENT, DROP_IN, SETTINGS
from harness import RESULTS, check, expect, larder, main_pid, properties, run
from readme import HOME, block, login
from supervised import told, under_load
from larder_client import call


def install(which):
    """Installs one of the two packages as the README does."""
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
    restarted_afresh()
    before, value = version(), call("config.get", path="search.limit")["value"]
    epoch, pid = call("agent.info")["epoch"], main_pid()
    report = under_load(lambda: install("second"))
    after, info = version(), call("agent.info")
    expect(run("dpkg", "--compare-versions", after, "gt", before, status=None) == "" and after != before, f"version {after}")
    expect(info["pid"] != pid, "the old process goes on")
    expect(call("config.get", path="search.limit")["value"] == value, "the value is another one")
    expect(info["epoch"] == epoch, "the state is another one")
    return f"{before} → {after} (the agent says {info['version']}): {told(report)}"


@check
def what_the_administrator_wrote_survives_the_upgrade():
    expect(Path(SETTINGS).read_text(encoding="utf-8") == CONTENT, "the settings are others")
    expect(Path(DROP_IN).exists(), "the drop-in is gone")
    loaded = properties("larder.service", "LoadCredential", "DropInPaths")
    expect(DROP_IN in loaded["DropInPaths"], f"{loaded}")
    larder("refresh", "--namespace", "private")
    expect(properties("larder.socket", "ActiveState")["ActiveState"] == "active", "the socket does not listen")
    return f"settings, {Path(DROP_IN).name}, its credential"


@check
def the_test_of_autopkgtest_passes():
    expect(Path("/package/debian/tests/control").exists(), "there is no debian/tests/control")
    # This container isolates the test. autopkgtest does not know that, and since Debian 13 skips a test that asks for it.
    said = run(
        *("autopkgtest", "--ignore-restrictions=isolation-container", "--no-built-binaries", "/package", "--", "null"),
        status=None,
        timeout=120,
    )
    expect("roundtrip" in said and "PASS" in said and "FAIL" not in said and "SKIP" not in said, said)
    return " ".join(said.strip().splitlines()[-1].split())
