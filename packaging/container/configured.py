"""The agent with a settings file, a credential and an origin."""

import json
import os
import pwd
import shutil
import struct
import zlib
from pathlib import Path

from harness import (
    Failed,
    active,
    check,
    eventually,
    expect,
    journal,
    journal_cursor,
    larder,
    main_pid,
    properties,
    run,
    wait_for_entry,
    write,
)
from prepared import ORIGIN, TOKEN
from readme import block, login
from larder_client.testing import Connection, call

SETTINGS = "/etc/larder/larder.json"
DROP_IN = "/etc/systemd/system/larder.service.d/50-token.conf"
ORIGIN_LOG = Path("/var/log/nginx/origin.log")
CONTENT = f"""// for the container test
{{
  access: {{
    users: {{ bob: ["read", "write"] }},
    groups: {{ larder: ["read", "images"] }},
  }},
  images: {{ allowNetworks: ["127.0.0.0/8"] }},
  namespaces: {{
    shop: {{ remote: {{ http: {{ url: "{ORIGIN}/shop.json", intervalSeconds: 3600, firstFetchSplaySeconds: 0 }} }} }},
    private: {{
      remote: {{ http: {{ url: "{ORIGIN}/private/config.json", intervalSeconds: 3600, tokenCredential: "origin" }} }},
    }},
    vault: {{ access: {{ groups: {{ vault: ["read"] }} }} }},
  }},
}}
"""


def origin_statuses(path):
    """Returns the HTTP statuses of all responses of the origin for a path."""
    lines = ORIGIN_LOG.read_text(encoding="utf-8").splitlines()
    return [line.split('" ')[1].split()[0] for line in lines if f" {path} " in line]


@check
def the_service_starts_with_a_credential_from_a_drop_in():
    write("/etc/larder/origin.token", TOKEN, 0o600)
    write(DROP_IN, "[Service]\nLoadCredential=origin:/etc/larder/origin.token\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "larder.service")
    eventually(active, "waiting for the service to become active")


@check
def the_commands_of_the_README_reload_the_settings_without_a_restart():
    pid = main_pid()
    write("/root/settings", CONTENT)
    write("/usr/local/bin/editor", '#!/bin/sh\nsudo cat /root/settings >"$1"\n', 0o755)
    try:
        output = run(*login("export SUDO_EDITOR=/usr/local/bin/editor\n" + block("sudoedit")))
    except Failed:
        write(SETTINGS, "{}")  # so that the agent can start
        raise
    namespaces = eventually(lambda: "vault" in (names := larder("status", "--json")) and names, "waiting for the namespace vault")
    expect(main_pid() == pid, "the agent was restarted")
    expect(TOKEN not in output + namespaces, "the output contains the token")
    return f"process {pid} before and after"


@check
def a_namespace_is_refreshed_from_nginx():
    larder("refresh", "--namespace", "shop")
    expect(larder("get", "--namespace", "shop", "checkout.enabled") == "false", "the first document is not served")
    larder("refresh", "--namespace", "shop")
    since = journal_cursor()
    write("/srv/origin/shop.json", '{"version": 2, "checkout": {"enabled": true}, "seen": "by its length as well"}\n')
    larder("refresh", "--namespace", "shop")
    expect(larder("get", "--namespace", "shop", "checkout.enabled", user="anna") == "true", "the second document is not served")
    revision = json.loads(larder("call", "config.get", '{"namespace":"shop"}'))["revision"]
    entry = wait_for_entry(since, LARDER_NAMESPACE="shop", LARDER_REVISION=revision)
    expect("shop" in entry["MESSAGE"] and str(revision) in entry["MESSAGE"], entry["MESSAGE"])
    answers = origin_statuses("/shop.json")
    expect("304" in answers and answers[-1] == "200", f"nginx responded with {answers}")
    return f"responses of nginx: {', '.join(answers)}; journal: {entry['MESSAGE']}"


@check
def the_agent_sends_the_credential_to_an_origin_that_requires_it():
    larder("refresh", "--namespace", "private")
    expect(larder("get", "--namespace", "private", "key") == "for those with a token", "the document is not served")
    answers = origin_statuses("/private/config.json")
    expect(answers and set(answers) <= {"200", "304"}, f"nginx responded with {answers}")
    expect(TOKEN not in run("journalctl", "--all", "--output=json"), "the token is in the journal")
    return f"responses of nginx: {', '.join(answers)}"


@check
def an_outage_of_the_origin_logs_one_failure_and_one_recovery():
    since = journal_cursor()
    run("systemctl", "stop", "nginx.service")
    try:
        for _ in range(3):
            larder("refresh", "--namespace", "shop", status=7)
        gone = wait_for_entry(since, LARDER_NAMESPACE="shop", LARDER_STATE="stale")
    finally:
        run("systemctl", "start", "nginx.service")
    larder("refresh", "--namespace", "shop")
    wait_for_entry(since, LARDER_NAMESPACE="shop", LARDER_STATE="fresh")
    entries = [entry for entry in journal(since) if entry.get("LARDER_NAMESPACE") == "shop"]
    states = [entry["LARDER_STATE"] for entry in entries if "LARDER_STATE" in entry]
    expect(states == ["stale", "fresh"], f"states in the journal: {states}")
    expect(larder("get", "--namespace", "shop", "checkout.enabled") == "true", "the last good document is not served")
    return gone["MESSAGE"]


@check
def invalid_settings_are_rejected_and_the_running_ones_stay_in_force():
    pid, since = main_pid(), journal_cursor()
    try:
        write(SETTINGS, CONTENT.replace("intervalSeconds", "intervalSecond", 1))
        checked = run("larderd", "--check-settings", status=78)
        run("systemctl", "reload", "larder.service", status=1)
        eventually(
            lambda: any("intervalSecond" in str(entry.get("MESSAGE")) for entry in journal(since)),
            "waiting for the reason of the failed reload in the journal",
        )
        # The agent itself also rejects the settings, and reports that.
        entry = wait_for_entry(since, PRIORITY="3", LARDER_ERROR=True)
        expect("intervalSecond" in entry["MESSAGE"], f"the entry does not name the mistake: {entry['MESSAGE']}")
        eventually(lambda: "intervalSecond" in call("agent.info").get("settingsProblem", ""), "waiting for the agent's report")
        for verb, status in (("status", 0), ("info", 0), ("doctor", 1)):
            text = larder(verb, status=status)
            expect("intervalSecond" in text, f"larder {verb} does not name the mistake:\n{text}")
        larder("status", "--check", status=1)
        eventually(
            lambda: "intervalSecond" in properties("larder.service", "StatusText")["StatusText"],
            "waiting for the reason in the status of the service",
        )
        eventually(active, "waiting for the service to become active")
        expect(main_pid() == pid, "the agent was restarted")
        expect(larder("get", "--namespace", "shop", "checkout.enabled") == "true", "the running settings are no longer in force")
    finally:
        write(SETTINGS, CONTENT)
        run("systemctl", "reload", "larder.service")
    eventually(lambda: "settingsProblem" not in call("agent.info"), "the problem remains after a reload of valid settings")
    larder("refresh", "--namespace", "shop")
    return checked.strip().splitlines()[0]


@check
def the_settings_control_who_can_read_and_write_a_namespace():
    for user in ("bob", "carl"):
        run("adduser", "--quiet", user, "larder")
    run("adduser", "--quiet", "carl", "vault")
    larder("set", "search.limit", "30", user="bob")
    larder("set", "--namespace", "vault", "code", "1234")
    expect(larder("get", "--namespace", "vault", "code", user="carl") == "1234", "Carl's second group does not count")
    refused = larder("get", "--namespace", "vault", "code", user="bob", status=4)
    expect('right "read"' in refused and "vault" in refused, refused)
    shown = json.loads(larder("info", "--json", user="carl"))
    expect(shown.get("namespaceRights") == {"vault": ["read"]}, f"namespaceRights: {shown.get('namespaceRights')}")
    copy = Path("/run/larder/current/vault.json")
    expect(not copy.exists() or copy.stat().st_mode & 0o077 == 0, "others can access the plain copy")
    expect("vault" not in larder("status", "--json", user="bob"), "the status lists a namespace that Bob cannot read")
    return refused.splitlines()[0]


def png(width, height):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@check
def an_image_is_downloaded_once_and_only_the_group_can_read_its_file():
    Path("/srv/origin/logo.png").write_bytes(png(64, 48))
    path = larder("image", "get", f"{ORIGIN}/logo.png", user="anna")
    larder("image", "get", f"{ORIGIN}/logo.png", user="bob", status=0)
    expect(origin_statuses("/logo.png") == ["200"], f"nginx responded with {origin_statuses('/logo.png')}")
    expect(Path(path).read_bytes() == png(64, 48), "the file differs from the image")
    run("cmp", path, "/srv/origin/logo.png", user="anna")
    run("cat", path, user="eve", status=1)
    facts = os.stat(path)
    return f"mode {facts.st_mode & 0o777:04o}, {pwd.getpwuid(facts.st_uid).pw_name}"


@check
def larder_doctor_finds_no_problems():
    # The agent may have polled a source while an earlier check had stopped the origin.
    for namespace in ("shop", "private"):
        larder("refresh", "--namespace", namespace)
    with Connection():
        return larder("doctor").splitlines()[-1]


@check
def check_settings_as_root_reports_files_that_only_root_can_read():
    settings, token = "/etc/larder/check.json", "/etc/larder/check.token"
    remote = f'{{ http: {{ url: "https://127.0.0.1", tokenFile: "{token}" }} }}'
    command = ("larderd", "--check-settings", "--settings", settings)
    try:
        write(settings, f"{{ namespaces: {{ checked: {{ remote: {remote} }} }} }}\n")
        write(token, "secret\n")
        os.chmod(token, 0o600)
        output = run(*command, status=78)
        expect(f"{token}: Permission denied" in output, f"the output does not name the file:\n{output}")
        output = run(*command, "--for-reload")
        expect(f"warning: {token}: Permission denied" in output, f"the output has no warning:\n{output}")
        shutil.chown(token, group="larder")
        os.chmod(token, 0o640)
        run(*command)
    finally:
        for path in (settings, token):
            Path(path).unlink(missing_ok=True)


@check
def the_journal_has_only_entries_that_the_agent_logged():
    foreign = ("_TRANSPORT=stdout", "_TRANSPORT=syslog")
    entries = run("journalctl", "--output=json", "--unit=larder.service", *foreign, status=None).splitlines()
    lines = [json.loads(line)["MESSAGE"] for line in entries if line.startswith("{")]
    # Ignore the error that --check-settings printed before the failed reload.
    lines = [line for line in lines if not line.startswith(f"larderd: {SETTINGS}:")]
    expect(not lines, f"{len(lines)} entries came from standard error or syslog:\n" + "\n".join(sorted(set(lines))[:10]))
    lines = run("journalctl", "--unit=larder.service", "--output=cat", "_TRANSPORT=journal").splitlines()
    expect(lines, "the agent logged nothing")
    return f"{len(lines)} entries of the agent"
