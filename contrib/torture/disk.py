#!/usr/bin/env python3
"""Puts an agent on disks that are full, read-only, without inodes, and looks at what it answers and what it has afterwards.

The disks are file systems of their own: a tmpfs, and an ext4 in a file, each mounted for the test and taken down after it,
in a mount namespace that nobody else sees. Each is tried with the state on it, and with the cache on it. What was
acknowledged has to be there afterwards; what cannot be done has to be refused with a reason; what is held has to be served
all the while; and when there is room again, everything has to go on by itself.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import larder_agent
from known_state import Origin, image_problem

HONEST = {"storageFailed", "noRoom", "unavailable"}


class Disk:
    """A file system of its own."""

    def __init__(self, kind, megabytes, inodes=None):
        self.kind, self.directory = kind, pathlib.Path(tempfile.mkdtemp(prefix="larder-disk."))
        self.path = self.directory / "mounted"
        self.path.mkdir()
        if kind == "tmpfs":
            options = f"size={megabytes}m,mode=0755" + (f",nr_inodes={inodes}" if inodes else "")
            mount("-t", "tmpfs", "-o", options, "tmpfs", self.path)
        else:
            image = self.directory / "image"
            image.write_bytes(b"")
            os.truncate(image, megabytes << 20)
            words = ["-N", str(inodes)] if inodes else []
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", *words, image], check=True, stdout=subprocess.DEVNULL)
            mount("-o", "loop", image, self.path)

    def fill(self):
        """Takes all of the room."""
        count = 0
        for size in (1 << 20, 1 << 16, 4096, 512, 1):
            while True:
                try:
                    with open(self.path / f"filler{count}", "wb", buffering=0) as file:
                        file.write(b"x" * size)
                        os.fsync(file.fileno())
                    count += 1
                except OSError:
                    count += 1
                    break

    def take_inodes(self):
        """Takes all of the files that there can be."""
        for number in range(1 << 20):
            try:
                (self.path / f"filler{number}").touch()
            except OSError:
                return

    def clear(self):
        for file in self.path.glob("filler*"):
            file.unlink()

    def turn_read_only(self):
        """As ext4 does after an error; a tmpfs only does it where nobody has a file open for writing."""
        mount("-o", "remount," + ("abort" if self.kind == "ext4" else "ro"), self.path)

    def turn_writable(self):
        if self.kind == "ext4":
            # Nobody may be there: what was aborted has to be looked at first.
            subprocess.run(["umount", self.path], check=True)
            subprocess.run(["fsck.ext4", "-p", "-f", self.directory / "image"], check=False, stdout=subprocess.DEVNULL)
            mount("-o", "loop", self.directory / "image", self.path)
        else:
            mount("-o", "remount,rw", self.path)

    def remove(self):
        subprocess.run(["umount", self.path], check=False)
        subprocess.run(["rm", "-rf", self.directory], check=False)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


class Trial:
    """An agent with its state or its cache on a disk that breaks, and what was acknowledged."""

    def __init__(self, options, origin, disk, part):
        self.origin, self.disk, self.part = origin, disk, part
        self.agent = larder_agent.Agent(options.larderd, settings={
            "images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0, "maximumBytes": 1 << 26, "imageBytes": 1 << 20}})
        setattr(self.agent, part, disk.path / part)
        self.values, self.problems, self.attempts, self.number = {}, [], 0, 0
        self.refused = 0

    def set(self, must=False, size=40):
        """Sets a member of its own; notes whether it was acknowledged."""
        self.attempts += 1
        self.number += 1
        name, value = f"m{self.number}", {"n": self.number, "text": "z" * size}
        try:
            with self.agent.connect() as client:
                client.call("config.set", path=name, value=value)
            self.values[name] = value
        except larder_agent.AgentError as error:
            self.told("config.set", error, must)

    def image(self, number, must=False):
        self.attempts += 1
        try:
            with self.agent.connect() as client:
                problem = image_problem(client, self.origin.url(number), number)
            if problem:
                self.problems.append(problem)
        except larder_agent.AgentError as error:
            self.told(f"image {number}", error, must)

    def told(self, what, error, must):
        self.refused += 1
        if must or error.name not in HONEST or len(error.detail) < 20:
            self.problems.append(f"{what}: {error}")

    def served(self, when):
        """What is served is what was acknowledged."""
        self.attempts += 1
        with self.agent.connect() as client:
            value = client.call("config.get")["value"]
        if value != self.values:
            self.problems.append(f"{when}: {sorted(value)} is served, and {sorted(self.values)} was acknowledged")

    def restart(self, when, may_be_refused=True):
        """Starts it anew, after a SIGKILL. Whether it serves; where it does not, it has to say why."""
        self.attempts += 1
        self.agent.kill()
        try:
            self.agent.start()
        except larder_agent.Died:
            reasons = [line for line in self.agent.log_text().splitlines() if line.startswith("larderd: ")]
            status = self.agent.process.returncode
            if self.agent.crashed() or status != 1 or not reasons or not may_be_refused:
                self.problems.append(f"{when}: it does not start: status {status}, {reasons}")
            self.refused += 1
            return False
        self.served(when)
        return True

    def run(self, breaking):
        try:
            self.agent.start()
            for _ in range(5):
                self.set(must=True)
            self.image(1, must=True)
            breaking.break_it(self)
            if self.agent.is_running:
                self.use_broken()
            # A start on the broken disk: what is there is served, or the refusal says why.
            if self.restart("a start while it is broken"):
                self.set()
                self.image(1)
                self.served("after a start while it is broken")
            else:
                self.agent.kill()
            breaking.mend_it(self)
            if self.agent.is_running:
                # By itself.
                self.set(must=True)
                self.served("when it is mended")
            self.restart("a start after it is mended", may_be_refused=False)
            self.set(must=True)
            for number in (1, 2, 3):
                self.image(number, must=True)
            self.agent.stop()
            self.agent.start()
            self.served("at the end")
            self.agent.stop()
        except (larder_agent.AgentError, larder_agent.Died, OSError, subprocess.CalledProcessError) as problem:
            self.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            self.agent.kill()
        if self.agent.crashed():
            self.problems.append("a crash")

    def use_broken(self):
        for step in range(12):
            # Larger ones go beyond what the journal has of the disk already.
            self.set(size=40 if step < 6 else 60_000)
        for number in (1, 2, 3):
            self.image(number)
        self.served("while it is broken")


class Full:
    name = "full"
    inodes = {}

    def break_it(self, trial):
        trial.disk.fill()

    def mend_it(self, trial):
        trial.disk.clear()


class WithoutInodes(Full):
    name = "without inodes"
    inodes = {"tmpfs": 400, "ext4": 512}

    def break_it(self, trial):
        trial.disk.take_inodes()


class ReadOnly:
    name = "read-only"
    inodes = {}

    def break_it(self, trial):
        if trial.disk.kind == "tmpfs":
            trial.agent.kill()
            trial.disk.turn_read_only()
            trial.restart("a start on a read-only disk")
        else:
            trial.disk.turn_read_only()

    def mend_it(self, trial):
        trial.agent.kill()
        trial.disk.turn_writable()
        trial.restart("a start on a disk that is writable again", may_be_refused=False)


def trial(options, origin, kind, part, breaking):
    name = f"{part} on {kind}: {breaking.name}"
    disk = Disk(kind, 8, breaking.inodes.get(kind))
    try:
        made = Trial(options, origin, disk, part)
        made.run(breaking)
    finally:
        disk.remove()
    for problem in made.problems:
        print(f"lost: {name}: {problem}", file=sys.stderr)
    if made.problems:
        print(made.agent.last_words(), file=sys.stderr)
    made.agent.remove()
    larder_agent.report(name, made.attempts, made.attempts - len(made.problems), note=f"{made.refused} refused with a reason")


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--only", metavar="WORDS", help="those whose name has these words, such as 'cache on ext4: full'")
    parser.add_argument("--quick", action="store_true", help="on one kind of file system only")
    options = parser.parse_args()
    if os.geteuid() != 0:
        larder_agent.skip("disks that are full or read-only", "mounting needs root")
        return larder_agent.finish()
    if os.environ.get("LARDER_DISK_NAMESPACE") is None:
        # What is mounted here is seen by nobody else, and gone with this process.
        os.environ["LARDER_DISK_NAMESPACE"] = "1"
        try:
            os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
        except OSError as problem:
            sys.exit(f"unshare(1) of util-linux is needed: {problem}")
    origin = Origin()
    try:
        Disk("tmpfs", 1).remove()
    except subprocess.CalledProcessError:
        larder_agent.skip("disks that are full or read-only", "nothing can be mounted here")
        return larder_agent.finish()
    kinds = ["tmpfs"]
    try:
        Disk("ext4", 8).remove()
        kinds.append("ext4")
    except (subprocess.CalledProcessError, FileNotFoundError):
        larder_agent.skip("ext4", "there is no mkfs.ext4, or no loop device")
    for kind in kinds[-1:] if options.quick else kinds:
        for part in ("state", "cache"):
            for breaking in (Full(), ReadOnly(), WithoutInodes()):
                if options.only and options.only not in f"{part} on {kind}: {breaking.name}":
                    continue
                trial(options, origin, kind, part, breaking)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
