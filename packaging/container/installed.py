"""The installed package, and how its units start."""

import grp
import os
import re
import stat
import time
from pathlib import Path

from harness import RESULTS, SOCKET, Skipped, active, check, eventually, expect, properties, run
from readme import block, login

UNITS = Path("/lib/systemd")


def files():
    """Returns the files of the package."""
    listed = run("dpkg-query", "--listfiles", "larder").splitlines()
    return [Path(path) for path in listed if os.path.lexists(path) and not os.path.isdir(path)]


def starts_at_boot(unit):
    """Whether systemd starts the unit at boot because of its own [Install] section."""
    return properties(unit, "UnitFileState")["UnitFileState"] == "enabled" and bool(
        re.search(r"(multi-user|sockets)\.target", properties(unit, "WantedBy")["WantedBy"])
    )


@check(needed=True)
def the_commands_of_the_README_install_the_package():
    began = time.monotonic()
    run(*login(block("packaging/build-deb.sh")), timeout=120)
    version, state = run("dpkg-query", "--show", "--showformat=${Version} ${db:Status-Status}", "larder").split()
    expect(state == "installed", f"the package is {state}")
    return f"{version} in {time.monotonic() - began:.1f} s"


@check(needed=True)
def the_socket_listens_and_the_service_runs_without_a_client():
    socket = properties("larder.socket", "ActiveState", "UnitFileState")
    expect(socket == {"ActiveState": "active", "UnitFileState": "enabled"}, f"{socket}")
    eventually(active, "waiting for the service to become active")
    eventually(lambda: os.path.exists("/run/larder/current/default.json"), "waiting for the plain copy")
    expect(starts_at_boot("larder.service") and starts_at_boot("larder.socket"), "a unit does not start at boot")
    facts = os.stat(SOCKET)
    mode, group = stat.S_IMODE(facts.st_mode), grp.getgrgid(facts.st_gid).gr_name
    expect(stat.S_ISSOCK(facts.st_mode) and mode == 0o660 and group == "larder", f"mode {mode:o}, group {group}")
    return f"{SOCKET} {mode:04o} group {group}"


@check
def the_commands_of_the_guide_leave_the_start_to_the_first_client():
    try:
        run("sh", "-c", "systemctl disable larder.service && systemctl enable larder.socket")
        expect(not starts_at_boot("larder.service"), "the service starts at boot")
        expect(starts_at_boot("larder.socket"), "the socket does not start at boot")
        # An upgrade runs this command of the maintainer scripts, and enables the unit only if it exits with 0.
        run("deb-systemd-helper", "--quiet", "was-enabled", "larder.service", status=1)
    finally:
        run("systemctl", "enable", "larder.service")
    expect(starts_at_boot("larder.service") and starts_at_boot("larder.socket"), "enabling the service is not sufficient")


@check
def systemd_analyze_verify_reports_no_problems():
    verify = ("verify", "--recursive-errors=no", "larder.service", "larder.socket")
    output = run("systemd-analyze", *verify, "larder-metrics.service", "larder-metrics.timer")
    output += run("env", "HOME=/root", "XDG_RUNTIME_DIR=/run", "systemd-analyze", "--user", *verify)
    expect(not output.strip(), output)


@check
def the_exposure_level_is_within_its_limit():
    output = run("systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / "system/larder.service"))
    line = output.strip().splitlines()[-1]
    level = re.search(r"larder\.service: ([0-9.]+) ", line)
    expect(level and float(level[1]) <= 1.2, f"the exposure level is above 1.2: {line}\n{output}")
    return line.removeprefix("→ ")


@check
def the_AppArmor_profile_parses_and_loads_if_the_kernel_has_AppArmor():
    profiles = [path for path in files() if path.parent == Path("/etc/apparmor.d")]
    expect(len(profiles) == 1, f"profiles: {profiles}")
    run("apparmor_parser", "--skip-kernel-load", "--skip-cache", str(profiles[0]))
    loaded = Path("/sys/kernel/security/apparmor/profiles")
    if not loaded.exists():
        return f"{profiles[0].name} parses; this kernel has no AppArmor"
    run("apparmor_parser", "--replace", "--skip-cache", str(profiles[0]))
    lines = [line for line in loaded.read_text(encoding="utf-8").splitlines() if "larderd" in line]
    expect(lines, "the kernel does not list the profile")
    return "; ".join(lines)


@check
def the_sizes_are_within_their_limits_and_ICU_is_not_included():
    deb = next(Path(RESULTS, "first").glob("larder_*.deb")).stat().st_size
    daemon = Path("/usr/sbin/larderd")
    size = daemon.stat().st_size
    expect(size < 41e6, f"larderd has {size / 1e6:.1f} MB")
    expect(deb < 14e6, f"the package has {deb / 1e6:.1f} MB")
    expect("libicu" not in run("ldd", str(daemon)) and b"icudt" not in daemon.read_bytes(), "larderd contains ICU")
    return f"package {deb / 1e6:.1f} MB, larderd {size / 1e6:.1f} MB"


@check
def manual_pages_completions_schemas_and_examples_are_installed():
    # Symbolic links whose target is missing do not count as installed.
    present = [str(path) for path in files() if path.exists()]
    wanted = [r"man8/larderd\.8", r"man5/larder\.json\.5", r"man7/larder-protocol\.7", r"man1/larder\.1"]
    wanted += [rf"man1/larder-{verbs}\.1" for verbs in ("config", "render", "exec", "image", "doctor")]
    wanted += ["bash-completion/completions/larder$", "zsh/vendor-completions/_larder$", "fish/.*/larder.fish$"]
    wanted += [r"schemas/.*\.json", r"openrpc\.json", "sysusers.d/larder.conf$", "/etc/larder/|examples/"]
    wanted += [r"doc/larder/contrib/guides/settings\.md", r"doc/larder/SECURITY\.md"]
    wanted += ["user/larder.socket$", "user/larder.service$", "/swift-backtrace"]
    wanted += ["system/larder-metrics.service$", "system/larder-metrics.timer$", "examples/observability/larder-alerts.yml"]
    missing = [one for one in wanted if not any(re.search(one, path) for path in present)]
    expect(not missing, f"not in the package: {', '.join(missing)}")
    if not os.access("/usr/bin/man", os.X_OK):
        raise Skipped("man is not installed")
    for page in ("8 larderd", "1 larder", "5 larder.json", "7 larder-protocol"):
        expect(len(run("man", "--warnings", *page.split())) > 500, f"man {page} is too short")
    return f"{len(present)} files"


@check
def files_belong_to_root_and_only_root_can_write_them():
    for path in files():
        facts = path.lstat()
        is_writable = not path.is_symlink() and facts.st_mode & 0o022
        expect(facts.st_uid == 0 and not is_writable, f"{path}: user {facts.st_uid}, mode {facts.st_mode:o}")
    run("dpkg", "--verify", "larder")
