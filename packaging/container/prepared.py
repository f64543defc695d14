"""Prepares the container before the package is installed: users, and an origin."""

import os
from pathlib import Path

from harness import RESULTS, check, expect, run, write
from readme import HOME

TOKEN = "a-token-that-nginx-requires"
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


def larder_files():
    """Returns all paths that contain the name of the package, except for logs, package lists and files of the test."""
    excluded = ("/proc", "/sys", "/dev", "/results", "/test", "/package", "/home/anna/larder", "/opt/larder-debug")
    excluded += ("/var/log", "/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/cache/man", "/tmp", "/var/tmp")
    prune = [word for path in excluded for word in ("-path", path, "-prune", "-o")]
    return sorted(run("find", "/", *prune, "-name", "*larder*", "-print", status=None).split("\n"))[1:]


@check(needed=True)
def users_and_an_origin_exist_and_no_files_of_larder():
    # Anna follows the README. Bob can write. Carl is also in the group `vault`. Eve has no rights.
    for name in ("anna", "bob", "carl", "eve"):
        run("useradd", "--create-home", "--shell", "/bin/bash", name)
    run("groupadd", "vault")
    write("/etc/sudoers.d/anna", "anna ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    # The README builds the package in a checkout. Here build-deb.sh copies the package that the host built.
    for which in ("first", "second"):
        expect(len(list(Path(RESULTS, which).glob("larder_*.deb"))) == 1, f"{which} does not contain exactly one package")
    write(f"{HOME}/larder/packaging/build-deb.sh", "#!/bin/sh\ncp /results/first/larder_*.deb packaging/out/\n", 0o755)
    os.makedirs(f"{HOME}/larder/packaging/out")
    run("chown", "--recursive", "anna:", f"{HOME}/larder")
    write("/srv/origin/shop.json", '{"version": 1, "checkout": {"enabled": false}}\n')
    write("/srv/origin/private/config.json", '{"version": 1, "key": "for those with a token"}\n')
    write("/etc/nginx/conf.d/origin.conf", SITE)
    run("systemctl", "restart", "nginx.service")
    expect(not larder_files(), f"files of larder exist already: {larder_files()}")
    return run("systemctl", "--version").splitlines()[0]
