#!/usr/bin/env python3
"""Maps the snapshot file that an agent passes, and looks up values in it.

    snapshot_file.py [--socket SOCKET] [--namespace NAME] [PATH]
        prints the value at a path, such as search.limit, in the current snapshot
    snapshot_file.py --all ...
        looks up every value through the index, compares it with the JSON text, and prints the number of values

Protocol/snapshot-file.md describes the format. As a module: Snapshot(descriptor) maps a file, and open_snapshot(socket)
requests one from an agent, with larder_client.py. Requires Python 3.11 and Linux; no other packages.
"""

import argparse
import fcntl
import json
import mmap
import os
import struct
import sys

import larder_client

SEALS = 0x0002 | 0x0008  # F_SEAL_SHRINK, F_SEAL_WRITE


class BadFile(Exception):
    """The file is not a valid snapshot file, or the agent did not pass one."""


class Snapshot:
    """A snapshot, mapped from a descriptor. The caller may close the descriptor afterwards."""

    def __init__(self, descriptor):
        if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS != SEALS:
            raise BadFile("the file is not sealed, so it could change while it is read")
        self.file = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        if len(self.file) < 96 or self.file[:7] != b"LARDERS":
            raise BadFile("not a snapshot file")
        if self.file[7] != 1:
            raise BadFile(f"unknown version {self.file[7]} of the format")
        self.seed, length, self.revision, epoch = struct.unpack_from("<4Q", self.file, 16)
        self.epoch = f"{epoch:016x}"
        sections = struct.unpack_from("<8I", self.file, 48)
        (self.entries, self.entry_count, self.slots, self.slot_count) = sections[:4]
        (self.names, self.name_bytes, self.text, self.text_bytes) = sections[4:]
        ends = (
            self.entries + 32 * self.entry_count, self.slots + 4 * self.slot_count,
            self.names + self.name_bytes, self.text + self.text_bytes,
        )
        if length != len(self.file) or max(ends) > length or min(sections[0::2]) < 96:
            raise BadFile("the file is damaged: a section extends beyond its end")
        if self.entry_count == 0 or self.slot_count == 0 or self.slot_count & (self.slot_count - 1):
            raise BadFile("the file is damaged: its index has an invalid size")

    def find(self, names):
        """Returns the JSON text of the value at a path of names, as bytes, or None. Elements of arrays cannot be found."""
        names = [name.encode() for name in names]
        value = self.seed
        for byte in b"".join(b"\xff" + name for name in names):
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        slot = (value ^ value >> 32) & (self.slot_count - 1)
        for _ in range(self.slot_count):
            (number,) = struct.unpack_from("<I", self.file, self.slots + 4 * slot)
            if not 0 < number <= self.entry_count:
                return None
            entry = self.entry(number - 1)
            if entry[0] == value and self.is_named(number - 1, names):
                return self.piece(self.text, self.text_bytes, entry[4], entry[5])
            slot = (slot + 1) & (self.slot_count - 1)
        return None

    def get(self, path, default=None):
        """Returns the value at a path such as "search.limit", or the default."""
        text = self.find(path.split(".") if path else [])
        return default if text is None else json.loads(text)

    def entry(self, number):
        """Returns the fields of an entry: hash, parent, name offset, name length, text offset, text length and kind."""
        return struct.unpack_from("<Q6I", self.file, self.entries + 32 * number)

    def is_named(self, number, names):
        for name in reversed(names):
            if not 0 < number < self.entry_count:
                return False
            entry = self.entry(number)
            if self.piece(self.names, self.name_bytes, entry[2], entry[3]) != name:
                return False
            number = entry[1]
        return number == 0

    def piece(self, start, length, offset, count):
        if offset + count > length:
            raise BadFile("the file is damaged: a name or value extends beyond its section")
        return self.file[start + offset : start + offset + count]

    def check(self):
        """Looks up every value except for elements of arrays. Returns the number of values found."""

        def walk(names, value):
            found = self.find(names)
            if found is None or json.loads(found) != value:
                raise BadFile(f"{names} is missing, or has another value")
            members = value.items() if isinstance(value, dict) else ()
            return 1 + sum(walk(names + [name], member) for name, member in members)

        count = walk([], json.loads(self.piece(self.text, self.text_bytes, 0, self.text_bytes)))
        if count != self.entry_count:
            raise BadFile(f"the index has {self.entry_count} entries for {count} values")
        return count


def open_snapshot(path, namespace="default"):
    """Requests the current snapshot from the agent at a socket."""
    with larder_client.Connection(path) as agent:
        agent.call("config.open", namespace=namespace)
        if not agent.descriptors:
            raise BadFile("the agent's reply has no descriptor; connect to the agent's socket directly, not through a relay")
        return Snapshot(agent.descriptors[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", default=os.environ.get("LARDER_SOCKET", larder_client.SYSTEM_SOCKET))
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--all", action="store_true", help="look up every value")
    parser.add_argument("path", nargs="?", default="")
    options = parser.parse_args()
    try:
        snapshot = open_snapshot(options.socket, options.namespace)
        if options.all:
            print(f"revision {snapshot.revision}: {snapshot.check()} values, {len(snapshot.file)} bytes")
            return 0
        text = snapshot.find(options.path.split(".") if options.path else [])
    except (BadFile, larder_client.AgentError, OSError) as problem:
        print(f"snapshot_file.py: {problem}", file=sys.stderr)
        return 1
    if text is None:
        print(f"snapshot_file.py: no value at {options.path!r}", file=sys.stderr)
        return 1
    print(text.decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
