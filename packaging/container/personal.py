"""An agent for one user, and an agent that exits when it is idle."""

import time

from harness import Skipped, check, eventually, expect, journal, journal_cursor, larder, properties, run, write
from readme import block, login
from larder_client.testing import call

IDLE = "/run/idle-agent"
state = {}


@check
def an_agent_with_idleExitMinutes_starts_with_its_first_client():
    # One minute, the minimum of idleExitMinutes, passes while the other checks run.
    write(f"{IDLE}/settings.json", "{ service: { idleExitMinutes: 1 } }")
    command = ["systemd-run", "--quiet", "--unit=idle-agent", f"--socket-property=ListenStream={IDLE}/socket"]
    command += ["--service-type=notify", "/usr/sbin/larderd", "--settings", f"{IDLE}/settings.json"]
    run(*command, "--state-directory", f"{IDLE}/state", "--cache-directory", f"{IDLE}/cache")
    state["since"], state["began"] = journal_cursor(), time.monotonic()
    call("config.set", f"{IDLE}/socket", path="a", value=1)
    state["revision"] = call("config.get", f"{IDLE}/socket", path="a")["revision"]


@check
def an_idle_agent_exits_after_a_minute_and_the_next_client_starts_it():
    expect("revision" in state, "the agent was not started")
    left = 61 - (time.monotonic() - state["began"])

    def ended():
        return properties("idle-agent.service", "ActiveState")["ActiveState"] == "inactive"

    eventually(ended, "waiting for the service to become inactive", max(left, 0) + 30)
    entries = journal(state["since"], "idle-agent.service")
    why = [entry["MESSAGE"] for entry in entries if "no client was connected" in str(entry.get("MESSAGE"))]
    expect(why, "the journal does not have the reason of the exit")
    again = call("config.get", f"{IDLE}/socket", path="a")
    expect(again["revision"] == state["revision"], f"{again}")
    run("systemctl", "stop", "idle-agent.socket", "idle-agent.service")
    return why[0]


@check
def the_commands_of_the_README_start_an_agent_for_one_user():
    larder("set", "whose", "the host's")
    manager = run(*login("systemctl --user is-system-running --wait || true"))
    if "Failed to connect" in manager:
        raise Skipped(f"no user service manager is running: {manager.strip().splitlines()[-1]}")
    try:
        run(*login(block("systemctl --user")))
        commands = ("larder set whose mine", "larder get whose", "larder info --json", "systemctl --user is-active larder.service")
        own = run(*login("\n".join(commands)))
        expect("\nmine\n" in own and "/run/user/" in own and own.strip().endswith("\nactive"), own)
        expect(larder("get", "whose") == "the host's", "the command reached the host's agent")
        run(*login("systemctl --user disable --now larder.socket larder.service\n! ls $XDG_RUNTIME_DIR/larder/larder.sock"))
    finally:
        # Removing the package does not remove these files of users.
        run(*login("rm -rf ~/.config/larder ~/.local/state/larder ~/.cache/larder $XDG_RUNTIME_DIR/larder"))
    return "systemd --user with a separate socket and state"
