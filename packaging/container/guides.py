"""The units and commands of the guides, as they are written."""

import re
import time
from pathlib import Path

import readme
from activated import stop_service
from configured import CONTENT, SETTINGS, png
from harness import active, check, eventually, expect, journal, journal_cursor, larder, properties, run, write
from prepared import ORIGIN
from readme import login

# The programs and users that the units name.
PROGRAMS = ("shop", "legacy")
USERS = ("shop", "legacy")


def messages(since, unit):
    return [entry["MESSAGE"] for entry in journal(since, unit) if isinstance(entry.get("MESSAGE"), str)]


def started(since, unit, text):
    """Waits until a unit has printed a line."""
    eventually(lambda: text in messages(since, unit), f"waiting for '{text}' of {unit}")


@check
def the_units_of_the_guides_are_valid():
    for name in USERS:
        run("useradd", "--system", name)
    for name in PROGRAMS:
        prefix = name.upper()
        write(f"/usr/local/bin/{name}", f'#!/bin/sh\necho "port ${prefix}_PORT"\nexec sleep infinity\n', 0o755)
    units = {path: text for guide in ("units.md", "backup.md", "render-nginx.md") for path, text in readme.units(guide).items()}
    for path, text in units.items():
        write(path, text)
        if path.endswith(".service") and "Type=oneshot" not in text:
            expect("\nRestart=on-failure\nRestartSec=5\n" in text, f"{path} ends for good after a failure")
    run("systemctl", "daemon-reload")
    # The program of app.service is only in its own root directory.
    run("systemd-analyze", "verify", "--man=no", *(path for path in units if not path.endswith("/app.service")))
    return ", ".join(sorted(Path(path).name for path in units))


@check
def a_service_gets_its_values_as_variables_and_is_restarted_for_a_change():
    since = journal_cursor()
    larder("set", "shop.port", "8080")
    run("systemctl", "start", "shop.service")
    try:
        started(since, "shop.service", "port 8080")
        larder("set", "shop.port", "8081")
        started(since, "shop.service", "port 8081")
        # The table names the unit of the connection that reports the revision in use.
        row = next(line for line in larder("clients").splitlines() if " shop.service " in line)
    finally:
        run("systemctl", "stop", "shop.service")
        larder("unset", "shop")
    return " ".join(row.split())


@check
def a_service_gets_its_values_from_an_EnvironmentFile():
    run("systemctl", "start", "legacy.service", status=1)  # there is no value yet
    since = journal_cursor()
    # systemd starts the service again.
    larder("set", "legacy.port", "9090")
    try:
        started(since, "legacy.service", "port 9090")
    finally:
        run("systemctl", "stop", "legacy.service")
        larder("unset", "legacy")


@check
def a_timer_prefetches_images():
    for number in range(3):
        Path(f"/srv/origin/wallpaper{number}.png").write_bytes(png(8 + number, 8))
    write("/etc/larder/wallpapers.txt", "".join(f"{ORIGIN}/wallpaper{number}.png\n" for number in range(3)))
    try:
        run("systemctl", "start", "wallpapers.timer")
        run("systemctl", "start", "wallpapers.service")
        for number in range(3):
            larder("image", "peek", f"{ORIGIN}/wallpaper{number}.png")
    finally:
        run("systemctl", "stop", "wallpapers.timer")
        Path("/etc/larder/wallpapers.txt").unlink()
    return f"result {properties('wallpapers.service', 'Result')['Result']}"


@check
def a_service_in_its_own_root_directory_reaches_the_agent():
    root = Path("/srv/app")
    for name in ("usr", "etc", "app"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    write(str(root / "app/run"), "#!/bin/sh\nexec larder get search.limit\n", 0o755)
    write("/etc/systemd/system/app.service.d/50-test.conf", "[Service]\nType=oneshot\nRestart=no\nBindReadOnlyPaths=/usr /etc\n")
    run("systemctl", "daemon-reload")
    since = journal_cursor()
    run("systemctl", "start", "app.service")
    started(since, "app.service", larder("get", "search.limit"))


@check
def the_timer_backs_up_the_state():
    output = run(*login(readme.guide_block("backup.md", "sudo systemctl daemon-reload")))
    files = list(Path("/var/backups/larder").glob("[1-7].backup"))
    expect(len(files) == 1, f"backups: {files}")
    expect(files[0].stat().st_mode & 0o777 == 0o600, f"mode {files[0].stat().st_mode:o}")
    run("systemctl", "disable", "--now", "larder-backup.timer")
    return output.splitlines()[-1]


@check
def after_a_restore_the_socket_and_the_service_run_again():
    larder("set", "restored", "1")
    larder("backup", "/var/backups/larder.backup")
    larder("unset", "restored")
    try:
        run("sh", "-ec", readme.guide_block("backup.md", "systemctl stop larder.socket"))
        states = [properties(unit, "ActiveState")["ActiveState"] for unit in ("larder.socket", "larder.service")]
        expect(states == ["active", "active"], f"states: {states}")
        expect(larder("get", "restored") == "1", "the state is not that of the backup")
    finally:
        larder("unset", "restored")
        Path("/var/backups/larder.backup").unlink(missing_ok=True)


@check
def one_service_reads_one_namespace():
    try:
        write(SETTINGS, readme.guide_block("access.md", '{\n  access: {\n    users: { alice: ["read", "write", "adm', "json5"))
        run(*login(readme.guide_block("access.md", "sudo adduser")))
        eventually(lambda: '"billing"' in larder("status", "--json"), "waiting for the namespace billing")
        output = run(*login(readme.guide_block("access.md", "sudo larder set --namespace billing")), status=4)
        expect("EUR" in output.splitlines(), output)
        expect("enied" in output, output)
        refused = larder("set", "--namespace", "billing", "currency", "USD", user="billing", status=4)
        listed = larder("status", "--json", user="billing")
        expect('"billing"' in listed and '"default"' not in listed, f"the status lists another namespace: {listed}")
        run("cat", "/run/larder/current/billing.json", user="billing", status=1)
    finally:
        write(SETTINGS, CONTENT)
        run("systemctl", "reload", "larder.service")
    eventually(lambda: '"vault"' in larder("status", "--json"), "waiting for the previous settings")
    return refused.splitlines()[0]


@check
def the_commands_of_the_guides_for_the_night_and_for_sizing_work():
    rows = re.findall(r"^\|[^|]*\| `([^`|]+)` \|[^|]*\|$", readme.text("night.md"), re.MULTILINE)
    expect(len(rows) == 10, f"{len(rows)} commands: {rows}")
    for command in rows:
        # Doctor may report what the earlier checks have left.
        run("sh", "-c", command, status=None if command == "larder doctor" else 0)
    value = larder("get", "search.limit")
    for name in ("night.md", "sizing.md"):
        for commands in readme.guide_blocks(name):
            run("sh", "-euc", commands)
    larder("set", "search.limit", value)
    return f"{len(rows)} commands of the table"


BROKEN = "/etc/systemd/system/larder.service.d/90-broken.conf"


@check
def larder_get_ends_while_systemd_restarts_the_service_in_a_loop():
    stop_service()
    write(BROKEN, "[Service]\nExecStart=\nExecStart=/bin/false\n")
    run("systemctl", "daemon-reload")
    try:
        began = time.monotonic()
        refused = larder("get", "search.limit", status=5)
        took = time.monotonic() - began
        expect("larder.service" in refused and "larder doctor" in refused, refused)
    finally:
        Path(BROKEN).unlink()
        run("systemctl", "daemon-reload")
        stop_service()
        run("systemctl", "start", "larder.socket")
    larder("wait", "search.limit", "--timeout", "30s")
    eventually(active, "waiting for the service")
    return f"after {took:.1f} s: {refused}"


@check
def no_file_of_the_guides_remains():
    for guide in ("units.md", "backup.md", "render-nginx.md"):
        for path in readme.units(guide):
            Path(path).unlink()
    run("rm", "--recursive", "/srv/app", "/var/backups/larder", "/etc/systemd/system/app.service.d")
    for path in Path("/var/lib/systemd/timers").glob("stamp-*"):
        path.unlink()
    for name in PROGRAMS:
        Path(f"/usr/local/bin/{name}").unlink()
    run("systemctl", "daemon-reload")
    run("systemctl", "reset-failed", status=None)
    for name in (*USERS, "billing"):
        run("userdel", name)
