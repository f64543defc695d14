"""Who may do what with the settings that the package brings."""

import json
import pwd

from harness import SOCKET, Failed, check, expect, larder, logged, now, run
from readme import block, login


def rights(user):
    """What the agent says that a user may do."""
    return json.loads(larder("info", "--json", user=user)).get("rights")


@check
def the_commands_of_the_README_use_the_agent_from_the_next_login_on():
    said = run(*login(block("larder ping")))
    expect(said.strip().endswith("\n20"), said)
    return "larder ping, doctor, set, get"


@check
def a_member_of_the_group_reads_and_may_not_write():
    expect(larder("get", "search.limit", user="anna") == "20", "it does not read what root has set")
    refused = larder("set", "search.limit", "21", user="anna", status=4)
    expect("right write" in refused, f"the refusal does not name the right: {refused}")
    expect(larder("get", "search.limit") == "20", "it was set all the same")
    expect(rights("anna") == ["read", "images"], f"rights: {rights('anna')}")
    return refused.splitlines()[0]


@check
def a_refusal_is_in_the_journal_with_who_wanted_what():
    since = now()
    larder("rollback", "1", user="anna", status=4)
    uid = pwd.getpwnam("anna").pw_uid
    peer = {"LARDER_PEER_UID": uid, "LARDER_PEER_PID": True, "LARDER_PEER_COMMAND": "larder"}
    entry = logged(since, LARDER_METHOD="config.rollback", **peer)
    expect("administer" in entry["MESSAGE"], entry["MESSAGE"])
    return entry["MESSAGE"]


@check
def a_stranger_cannot_connect():
    refused = larder("ping", user="eve", status=4)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({SOCKET!r})"
    said = run("python3", "-c", connect, user="eve", status=1)
    if "PermissionError" not in said:
        raise Failed(said)
    return refused.splitlines()[0]


@check
def root_may_do_everything():
    everything = ["read", "write", "push", "administer", "secrets", "images"]
    expect(rights("root") == everything, f"rights: {rights('root')}")
