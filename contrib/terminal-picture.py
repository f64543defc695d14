#!/usr/bin/env python3
"""Renders the terminal session in contrib/guides/agent-at-work.txt as an SVG picture for README.md, next to it.

  contrib/terminal-picture.py                 write the picture
  contrib/terminal-picture.py --check         fail if the picture is not the one that the session gives
  contrib/terminal-picture.py --record DIR    run the commands of the session again, with the larderd in DIR, and write both files

In the session, lines that begin with "$ " are commands, lines that begin with "# " are comments, and all others are output.
--record starts an agent and an HTTP origin in a temporary directory. Needs Python 3.11 and, for --record, socat.
"""

import argparse
import html
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import test_origin

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python" / "src"))

from larder_client.testing import AgentProcess  # noqa: E402

SESSION = pathlib.Path(__file__).resolve().parent / "guides" / "agent-at-work.txt"
PICTURE = SESSION.with_suffix(".svg")

# Sizes in pixels. ADVANCE is the width of a character of usual monospaced fonts, 0.602 em.
FONT_SIZE, ADVANCE, LINE, MARGIN, BAR = 13, 7.83, 19, 16, 32
BACKGROUND, BAR_COLOR, OUTPUT, COMMAND, COMMENT, PROMPT = "#0d1117", "#21262d", "#c9d1d9", "#ffffff", "#8b949e", "#7ee787"
COLUMNS = 104


def spans(line):
    """Returns the parts of a line, each with its color."""
    if line.startswith("$ "):
        return [("$", PROMPT), (line[1:], COMMAND)]
    return [(line, COMMENT if line.startswith("# ") else OUTPUT)]


def wrapped(line):
    """Returns the rows into which a terminal breaks a line."""
    return [line[start : start + COLUMNS] for start in range(0, max(len(line), 1), COLUMNS)]


def text(line, top):
    parts = "".join(f'<tspan fill="{color}">{html.escape(part, quote=False)}</tspan>' for part, color in spans(line))
    length = f'textLength="{len(line) * ADVANCE:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{MARGIN}" y="{top}" xml:space="preserve" {length}>{parts}</text>'


def picture(session):
    lines = [row for line in session.rstrip("\n").split("\n") for row in wrapped(line)]
    width = round(2 * MARGIN + ADVANCE * max(map(len, lines)))
    height = BAR + 2 * MARGIN + LINE * len(lines)
    buttons = [
        f'<circle cx="{MARGIN + 6 + 20 * place}" cy="{BAR // 2}" r="6" fill="{color}"/>'
        for place, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    ]
    texts = [text(line, BAR + MARGIN + LINE * row + FONT_SIZE) for row, line in enumerate(lines) if line]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}">',
            "<title>A terminal session with a Larder agent. Its text is in agent-at-work.txt.</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
            f'<path d="M0 {BAR}V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V{BAR}z" fill="{BAR_COLOR}"/>',
            *buttons,
            f'<g font-family="ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, monospace" font-size="{FONT_SIZE}">',
            *texts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def record(session, programs):
    """Runs the commands of the session in one shell. Returns the session with the output that they have now."""
    with tempfile.TemporaryDirectory(prefix="larder-session.") as name:
        directory = pathlib.Path(name)
        (directory / "bin").mkdir()
        for program in ("larderd", "larder"):  # under the name larder it is the command line
            (directory / "bin" / program).symlink_to(pathlib.Path(programs).resolve() / "larderd")
        origin, port = start_origin(directory)
        daemon = agent(directory / "bin/larderd", directory, port)
        environment = os.environ | {
            "PATH": f"{directory}/bin:{os.environ['PATH']}", "LARDER_SOCKET": str(daemon.socket), "ORIGIN": str(origin.pid)}
        try:
            with daemon.start() as connection:
                connection.call("config.refresh", namespace="shop")
            return transcript(session, port, directory, environment)
        finally:
            daemon.kill()
            origin.terminate()
            origin.wait()


def start_origin(directory):
    """Starts an HTTP server on a free port, which logs its requests to access.log. Returns the process and the port."""
    (directory / "www").mkdir()
    (directory / "www/shop.json").write_text('{"version": 1, "checkout": {"enabled": true}}\n')
    (directory / "www/logo.png").write_bytes(test_origin.png(8, 8))
    # The server sends Last-Modified but no lifetime, so the image is fresh for a tenth of the age of the file
    # (RFC 9111, section 4.2.2).
    changed = time.time() - 864000
    os.utime(directory / "www/logo.png", (changed, changed))
    serve = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", "www"]
    with open(directory / "access.log", "wb") as log:
        process = subprocess.Popen(serve, cwd=directory, stdout=subprocess.PIPE, stderr=log, text=True)
    return process, int(process.stdout.readline().split(" port ")[1].split()[0])


def agent(program, directory, port):
    """Returns an agent with a namespace "shop"."""
    remote = {"http": {"url": f"http://127.0.0.1:{port}/shop.json", "intervalSeconds": 3600, "firstFetchSplaySeconds": 0}}
    settings = {"images": {"allowNetworks": ["127.0.0.0/8"]}, "namespaces": {"shop": {"remote": remote}}}
    return AgentProcess(program, directory, settings, arguments=["--log-level", "error"])


def transcript(session, port, directory, environment):
    marker = "--- end of output ---"
    shell = subprocess.Popen(
        ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory, env=environment
    )
    lines = []
    for line in session.rstrip("\n").split("\n"):
        if line.startswith("# ") or not line:
            lines.append(line)
        if not line.startswith("$ "):
            continue
        command = line[2:].replace("35979", str(port))
        lines.append("$ " + command)
        # The pause gives background commands the time to print the output that this command causes.
        shell.stdin.write(f"{command}\nsleep 0.5\necho '{marker}'\n")
        shell.stdin.flush()
        while (output := shell.stdout.readline().rstrip("\n")) != marker:
            lines.append(output)
    shell.stdin.close()
    shell.terminate()
    shell.wait()
    return "\n".join(lines).replace(f":{port}", ":35979") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true")
    action.add_argument("--record", metavar="DIR")
    options = parser.parse_args()
    session = SESSION.read_text(encoding="utf-8")
    if options.record:
        session = record(session, options.record)
        SESSION.write_text(session, encoding="utf-8")
    if not options.check:
        PICTURE.write_text(picture(session), encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != picture(session):
        sys.exit(f"{PICTURE.name} does not match {SESSION.name}; run contrib/terminal-picture.py")


main()
