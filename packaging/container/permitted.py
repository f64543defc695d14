"""The rights of users without a settings file."""

import json
import pwd

from harness import SOCKET, Failed, check, expect, journal_cursor, larder, run, wait_for_entry
from readme import block, login


def rights(user):
    """Returns the rights of a user, as reported by the agent."""
    return json.loads(larder("info", "--json", user=user)).get("rights")


@check
def the_commands_of_the_README_use_the_agent_after_the_next_login():
    output = run(*login(block("larder ping")))
    expect(output.strip().endswith("\n20"), output)
    return "larder ping, doctor, set, get"


@check
def a_member_of_the_group_can_read_but_not_write():
    expect(larder("get", "search.limit", user="anna") == "20", "she cannot read the value that root has set")
    refused = larder("set", "search.limit", "21", user="anna", status=4)
    expect('right "write"' in refused, f"the error does not name the right: {refused}")
    expect(larder("get", "search.limit") == "20", "the value was changed")
    expect(rights("anna") == ["read", "images"], f"rights: {rights('anna')}")
    return refused.splitlines()[0]


@check
def a_denied_request_is_logged_with_its_client_and_method():
    since = journal_cursor()
    larder("rollback", "1", user="anna", status=4)
    uid = pwd.getpwnam("anna").pw_uid
    peer = {"LARDER_PEER_UID": uid, "LARDER_PEER_PID": True, "LARDER_PEER_COMMAND": "larder"}
    entry = wait_for_entry(since, LARDER_METHOD="config.rollback", **peer)
    expect("administer" in entry["MESSAGE"], entry["MESSAGE"])
    return entry["MESSAGE"]


@check
def a_user_outside_the_group_cannot_connect():
    refused = larder("ping", user="eve", status=4)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({SOCKET!r})"
    output = run("python3", "-c", connect, user="eve", status=1)
    if "PermissionError" not in output:
        raise Failed(output)
    return refused.splitlines()[0]


@check
def root_has_all_rights():
    everything = ["read", "write", "push", "administer", "secrets", "images", "monitor"]
    expect(rights("root") == everything, f"rights: {rights('root')}")
