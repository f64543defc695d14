#!/usr/bin/env python3
"""Shows where larderd's processor time goes under one load, as a tree of calls in text.

  flame.py --larderd FILE --bench FILE [--seconds N] [--least PERCENT] [--] COMMAND [ARGUMENT ...]

COMMAND and its arguments are those of larder-bench, without the socket: `get`, `set --writers 50`, `fanout`. The program must
not be stripped. Needs perf(1), which samples the threads of the agent, and root or a kernel that lets it. Each line is a
function, its part of all samples with what it calls, and in brackets what it takes itself.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SETTINGS = """{{ socket: {{ path: "{0}/sock" }}, state: {{ directory: "{0}/state" }}, cache: {{ directory: "{0}/cache" }},
  images: {{ enabled: false }}, limits: {{ lineBytes: 33554432 }},
  namespaces: {{ default: {{ durability: "full" }}, relaxed: {{ durability: "relaxed" }}, updates: {{ durability: "relaxed" }} }} }}
"""
# Frames that say how the code came to run, not what it does.
NOISE = re.compile(r"^(\[unknown\]|partial apply for |closure #\d+ in closure|thunk for |merged |swift_job_run|__clone|clone3?$)")


class Node:
    def __init__(self):
        self.total = self.own = 0
        self.callees = collections.defaultdict(Node)


def record(options, directory):
    settings = pathlib.Path(directory, "settings.json5")
    settings.write_text(SETTINGS.format(directory))
    agent = subprocess.Popen([options.larderd, "--settings", str(settings), "--log-level", "warning"])
    try:
        while not pathlib.Path(directory, "sock").exists():
            if agent.poll() is not None:
                sys.exit("flame: larderd does not start")
            time.sleep(0.05)
        load = subprocess.Popen([options.bench, *options.command, "--socket", f"{directory}/sock"],
                                stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        subprocess.run(["perf", "record", "-q", "-F", "1999", "-g", "-p", str(agent.pid), "-o", f"{directory}/perf.data", "--",
                        "sleep", str(options.seconds)], check=True, stdout=subprocess.DEVNULL)
        load.terminate()
        load.wait()
    finally:
        agent.terminate()
        agent.wait()
    script = subprocess.run(["perf", "script", "-i", f"{directory}/perf.data", "-F", "comm,ip,sym"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return subprocess.run(["swift", "demangle", "--simplified"], input=script, check=True, stdout=subprocess.PIPE).stdout.decode()


def tree(text):
    root = Node()
    for sample in text.split("\n\n"):
        lines = sample.strip("\n").split("\n")
        if len(lines) < 2:
            continue
        frames = [re.sub(r"^\s*[0-9a-f]+ ", "", line).strip() for line in lines[1:]]
        frames = [re.sub(r"^(specialized |@\w+ )+|\+0x[0-9a-f]+$", "", frame) for frame in frames]
        node = root
        node.total += 1
        for frame in outermost_first(frames):
            node = node.callees[frame]
            node.total += 1
        node.own += 1
    return root


def outermost_first(frames):
    """What is called from where, with the kernel's part of it as one frame, which bears the name of the system call."""
    for position, frame in enumerate(reversed(frames)):
        if frame in ("do_syscall_64", "entry_SYSCALL_64_after_hwframe"):
            inner = frames[:len(frames) - position]
            call = next((match.group(1) for each in reversed(inner) 
                         if (match := re.match(r"(?:__x64_|k)sys_(\w+)", each))), "")
            yield f"kernel: {call or 'on the way in and out'}"
            return
        if not NOISE.match(frame):
            yield frame


def show(node, name, whole, least, depth=0):
    share = 100 * node.total / whole
    if share < least:
        return
    # A chain of calls that take nothing themselves is one line.
    while len(node.callees) == 1 and node.own < whole * least / 100:
        (only, callee), = node.callees.items()
        if callee.total < node.total:
            break
        node, name = callee, only
    own = 100 * node.own / whole
    print(f"{'  ' * depth}{share:5.1f} % {name[:100]}" + (f"  ({own:.1f})" if own >= 0.5 else ""))
    for name, callee in sorted(node.callees.items(), key=lambda item: -item[1].total):
        show(callee, name, whole, least, depth + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--larderd", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--least", type=float, default=2)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = [word for word in options.command if word != "--"] or ["get"]
    with tempfile.TemporaryDirectory(prefix="larder-flame.") as directory:
        root = tree(record(options, directory))
    if root.total == 0:
        sys.exit("flame: no samples")
    show(root, "all threads", root.total, options.least)
    return 0


if __name__ == "__main__":
    sys.exit(main())
