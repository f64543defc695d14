"""The container before the package: people, an origin, and nothing of Larder yet."""

import os
from pathlib import Path

from harness import RESULTS, check, expect, run, write
from readme import HOME

TOKEN = "a-token-that-nginx-demands"
ORIGIN = "http://127.0.0.1:8080"
SITE = f"""
server {{
    listen 127.0.0.1:8080;
    root /srv/origin;
    access_log /var/log/nginx/origin.log;
    location /logo.png {{ expires 1h; }}
    location /private/ {{
        if ($http_authorization != "Bearer {TOKEN}") {{ return 401; }}
    }}
}}
"""


def traces():
    """What on the disk carries the name of the package, logs, package lists and the test's own things left aside."""
    left_aside = ("/proc", "/sys", "/dev", "/results", "/test", "/package", "/home/anna/larder", "/opt/larder-debug")
    left_aside += ("/var/log", "/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/cache/man", "/tmp", "/var/tmp")
    prune = [word for path in left_aside for word in ("-path", path, "-prune", "-o")]
    return sorted(run("find", "/", *prune, "-name", "*larder*", "-print", status=None).split("\n"))[1:]


@check(needed=True)
def there_are_people_and_an_origin_and_nothing_of_larder():
    # Anna follows the README. Bob may write, Carl is in a group of his own besides, Eve is nobody.
    for name in ("anna", "bob", "carl", "eve"):
        run("useradd", "--create-home", "--shell", "/bin/bash", name)
    run("groupadd", "vault")
    write("/etc/sudoers.d/anna", "anna ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    # Where she has the sources; what build-deb.sh makes is what the host made by it.
    for which in ("first", "second"):
        expect(len(list(Path(RESULTS, which).glob("larder_*.deb"))) == 1, f"there is no single package in {which}")
    write(f"{HOME}/larder/packaging/build-deb.sh", "#!/bin/sh\ncp /results/first/larder_*.deb packaging/out/\n", 0o755)
    os.makedirs(f"{HOME}/larder/packaging/out")
    run("chown", "--recursive", "anna:", f"{HOME}/larder")
    write("/srv/origin/shop.json", '{"version": 1, "checkout": {"enabled": false}}\n')
    write("/srv/origin/private/config.json", '{"version": 1, "key": "for those with a token"}\n')
    write("/etc/nginx/conf.d/origin.conf", SITE)
    run("systemctl", "restart", "nginx.service")
    expect(not traces(), f"there is something already: {traces()}")
    return run("systemctl", "--version").splitlines()[0]
