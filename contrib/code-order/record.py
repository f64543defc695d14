#!/usr/bin/env python3
"""Prints the functions that larderd calls once it has started: at rest, and for what clients usually ask for. Those that cost
most come first.

  record.py LARDERD DIRECTORY
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks" / "counting"))
from count import Agent, Client, close, connect, get, get_new_words, get_pipelined, publications, request, writers

# Timers come round meanwhile.
REST = 15


def work(agent):
    """What clients usually ask for."""
    for operation in (get, get_pipelined, get_new_words, connect):
        run, _, clients = operation(agent, 160)
        run()
        close(agent, clients)
    for operation, *arguments in ((publications, 20, 50), (writers, 100, 50)):
        run, _, clients = operation(agent, *arguments)
        run()
        close(agent, clients)
    client = Client(agent.path)
    for number in range(10):
        client.ask(request("config.set", namespace="full", path="a.b", value={"text": f"{number}", "list": [number, 1.5]}))
        client.ask(request("config.get", namespace="full", path="a"))
        client.ask(request("config.get", namespace="full", path="a.b.list"))
        (agent.directory / "host" / "file.json").write_text(json.dumps({"host": number}))
        time.sleep(0.2)
    client.ask(request("config.unset", namespace="full", path="a.b"))
    for method in ("agent.ping", "agent.info", "agent.stats", "config.open"):
        client.ask(request(method))
    client.ask(b"[" + b",".join(request("config.get", number, path="search") for number in range(5)) + b"]")
    close(agent, [client])


def functions(dump, program):
    """The names of the program's own functions in a profile of callgrind, and how many instructions each took itself
    (Valgrind's manual, "Callgrind Format Specification")."""
    names, objects, costs = {}, {}, collections.Counter()
    function = place = None
    is_call = False
    for line in dump.splitlines():
        if found := re.match(r"(c?)(fn|ob)=\((\d+)\)(?: (.*))?$", line):
            callee, kind, number, name = found.groups()
            table = names if kind == "fn" else objects
            if name:
                table[number] = name
            if not callee:
                if kind == "fn":
                    function = table[number]
                else:
                    place = table[number]
        elif line.startswith("calls="):
            is_call = True
        elif found := re.match(r"[+\-*\d]\S* (\d+)$", line):
            # What follows a call is what the callee took.
            if not is_call and place == program:
                # callgrind numbers the levels of recursive ones.
                costs[re.sub(r"'\d+$", "", function)] += int(found.group(1))
            is_call = False
    return [name for name, _ in costs.most_common() if not name.startswith("0x")]


def main():
    program, directory = sys.argv[1:]
    place = pathlib.Path(directory)
    (place / "host").mkdir()
    namespaces = {"default": {"durability": "relaxed"}, "full": {"host": {"directory": str(place / "host")}}}
    agent = Agent(program, directory, before=[
        "valgrind", "--tool=callgrind", "--instr-atstart=no", "--demangle=no", "--quiet",
        f"--callgrind-out-file={directory}/out", f"--vgdb-prefix={directory}/vgdb"],
        settings={"images": {}, "namespaces": namespaces})

    def control(*words):
        subprocess.run(["vgdb", f"--vgdb-prefix={directory}/vgdb", f"--pid={agent.process.pid}", *words], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        control("instrumentation", "on")
        work(agent)
        time.sleep(REST)
        control("dump")
    finally:
        agent.stop()
    found = functions((place / "out.1").read_text(), os.path.realpath(program))
    if len(found) < 1000:
        sys.exit(f"record: only {len(found)} functions have names: is the program stripped?")
    print("\n".join(found))


if __name__ == "__main__":
    main()
