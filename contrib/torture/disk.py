#!/usr/bin/env python3
"""Runs agents on disks that are full, read-only or without free inodes, and checks their replies and their state.

For each test the script mounts a tmpfs, or an ext4 in a file, in a private mount namespace. Each disk is tested with the
state on it, and with the cache on it. The agent must keep everything that it acknowledged, report a suitable error for
everything that it cannot do, continue to serve its configuration, and recover without help when the fault is removed.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import larder_agent
from known_state import Origin, image_problem

# Names of the errors that a failing disk may cause.
EXPECTED_ERRORS = {"storageFailed", "cacheFull", "unavailable"}


class Disk:
    """A file system that is mounted for one test."""

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
            options = ["-N", str(inodes)] if inodes else []
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", *options, image], check=True, stdout=subprocess.DEVNULL)
            mount("-o", "loop", image, self.path)

    def fill(self):
        """Uses up all disk space."""
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
        """Uses up all inodes."""
        for number in range(1 << 20):
            try:
                (self.path / f"filler{number}").touch()
            except OSError:
                return

    def clear(self):
        for file in self.path.glob("filler*"):
            file.unlink()

    def turn_read_only(self):
        """Makes the file system read-only: ext4 as after an I/O error, tmpfs only if no file on it is open for writing."""
        mount("-o", "remount," + ("abort" if self.kind == "ext4" else "ro"), self.path)

    def turn_writable(self):
        if self.kind == "ext4":
            # An aborted file system must be checked before it can be mounted for writing.
            subprocess.run(["umount", self.path], check=True)
            subprocess.run(["fsck.ext4", "-p", "-f", self.directory / "image"], check=False, stdout=subprocess.DEVNULL)
            mount("-o", "loop", self.directory / "image", self.path)
        else:
            mount("-o", "remount,rw", self.path)

    def remove(self):
        subprocess.run(["umount", self.path], check=False)
        subprocess.run(["rm", "-rf", self.directory], check=False)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


class Trial:
    """A test of an agent with its state or its cache on a disk that fails. `values` are the acknowledged changes."""

    def __init__(self, options, origin, disk, part):
        self.origin, self.disk, self.part = origin, disk, part
        self.agent = larder_agent.Agent(options.larderd, settings={
            "images": {"allowNetworks": ["127.0.0.0/8"], "minimumFreeBytes": 0, "maximumBytes": 1 << 26, "maximumImageBytes": 1 << 20}})
        setattr(self.agent, part, disk.path / part)
        self.values, self.problems, self.attempts, self.number = {}, [], 0, 0
        self.refused = 0

    def set(self, must_succeed=False, size=40):
        """Sets a new member, and records it if the agent acknowledges the change."""
        self.attempts += 1
        self.number += 1
        name, value = f"m{self.number}", {"n": self.number, "text": "z" * size}
        try:
            with self.agent.connect() as client:
                client.call("config.set", path=name, value=value)
            self.values[name] = value
        except larder_agent.AgentError as error:
            self.check_error("config.set", error, must_succeed)

    def image(self, number, must_succeed=False):
        self.attempts += 1
        try:
            with self.agent.connect() as client:
                problem = image_problem(client, self.origin.url(number), number)
            if problem:
                self.problems.append(problem)
        except larder_agent.AgentError as error:
            self.check_error(f"image {number}", error, must_succeed)

    def check_error(self, operation, error, must_succeed):
        self.refused += 1
        if must_succeed or error.name not in EXPECTED_ERRORS or len(error.detail) < 20:
            self.problems.append(f"{operation}: {error}")

    def check_values(self, when):
        """Checks that the agent serves exactly the acknowledged values."""
        self.attempts += 1
        with self.agent.connect() as client:
            value = client.call("config.get")["value"]
        if value != self.values:
            self.problems.append(f"{when}: {sorted(value)} is served, but {sorted(self.values)} was acknowledged")

    def restart(self, when, may_be_refused=True):
        """Kills the agent and starts it again. Returns True if it serves. If it refuses to start, it must print a reason."""
        self.attempts += 1
        self.agent.kill()
        try:
            self.agent.start()
        except larder_agent.Died:
            reason = self.agent.refusal()
            if not reason or not may_be_refused:
                self.problems.append(f"{when}: the agent does not start: status {self.agent.process.returncode}, {reason}")
            self.refused += 1
            return False
        self.check_values(when)
        return True

    def run(self, fault):
        try:
            self.agent.start()
            for _ in range(5):
                self.set(must_succeed=True)
            self.image(1, must_succeed=True)
            fault.cause(self)
            if self.agent.is_running:
                self.use_failing_disk()
            # On the failing disk, the agent must either serve everything that it has, or refuse to start with a reason.
            if self.restart("start on the failing disk"):
                self.set()
                self.image(1)
                self.check_values("after the start on the failing disk")
            else:
                self.agent.kill()
            fault.repair(self)
            if self.agent.is_running:
                # The running agent must recover without a restart.
                self.set(must_succeed=True)
                self.check_values("after the repair")
            self.restart("start after the repair", may_be_refused=False)
            self.set(must_succeed=True)
            for number in (1, 2, 3):
                self.image(number, must_succeed=True)
            self.agent.stop()
            self.agent.start()
            self.check_values("at the end")
            self.agent.stop()
        except (larder_agent.AgentError, larder_agent.Died, OSError, subprocess.CalledProcessError) as problem:
            self.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            self.agent.kill()
        if self.agent.crashed():
            self.problems.append("the agent crashed")

    def use_failing_disk(self):
        for step in range(12):
            # The last six changes are larger than the disk space that the journal has already allocated.
            self.set(size=40 if step < 6 else 60_000)
        for number in (1, 2, 3):
            self.image(number)
        self.check_values("on the failing disk")


class Full:
    name = "full"
    inodes = {}

    def cause(self, trial):
        trial.disk.fill()

    def repair(self, trial):
        trial.disk.clear()


class WithoutInodes(Full):
    name = "without inodes"
    inodes = {"tmpfs": 400, "ext4": 512}

    def cause(self, trial):
        trial.disk.take_inodes()


class ReadOnly:
    name = "read-only"
    inodes = {}

    def cause(self, trial):
        if trial.disk.kind == "tmpfs":
            trial.agent.kill()
            trial.disk.turn_read_only()
            trial.restart("start on the read-only disk")
        else:
            trial.disk.turn_read_only()

    def repair(self, trial):
        trial.agent.kill()
        trial.disk.turn_writable()
        trial.restart("start on the disk that is writable again", may_be_refused=False)


def run_trial(options, origin, kind, part, fault):
    name = f"{part} on {kind}: {fault.name}"
    disk = Disk(kind, 8, fault.inodes.get(kind))
    try:
        trial = Trial(options, origin, disk, part)
        trial.run(fault)
    finally:
        disk.remove()
    for problem in trial.problems:
        print(f"lost: {name}: {problem}", file=sys.stderr)
    if trial.problems:
        print(trial.agent.log_tail(), file=sys.stderr)
    trial.agent.remove()
    larder_agent.report(name, trial.attempts, trial.attempts - len(trial.problems), note=f"{trial.refused} refused with a reason")


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--only", metavar="TEXT", help="run only tests whose names contain TEXT, such as 'cache on ext4: full'")
    parser.add_argument("--quick", action="store_true", help="test only one type of file system: ext4 if possible")
    options = parser.parse_args()
    if os.geteuid() != 0:
        larder_agent.skip("disks that are full or read-only", "mounting needs root")
        return larder_agent.finish()
    if os.environ.get("LARDER_DISK_NAMESPACE") is None:
        # In a private mount namespace, other processes do not see the mounts, and the mounts end with this process.
        os.environ["LARDER_DISK_NAMESPACE"] = "1"
        try:
            os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])
        except OSError as problem:
            sys.exit(f"cannot run unshare(1): {problem}; install util-linux")
    origin = Origin()
    try:
        Disk("tmpfs", 1).remove()
    except subprocess.CalledProcessError:
        larder_agent.skip("disks that are full or read-only", "mounting is not permitted here")
        return larder_agent.finish()
    kinds = ["tmpfs"]
    try:
        Disk("ext4", 8).remove()
        kinds.append("ext4")
    except (subprocess.CalledProcessError, FileNotFoundError):
        larder_agent.skip("ext4", "mkfs.ext4 or loop devices are not available")
    for kind in kinds[-1:] if options.quick else kinds:
        for part in ("state", "cache"):
            for fault in (Full(), ReadOnly(), WithoutInodes()):
                if options.only and options.only not in f"{part} on {kind}: {fault.name}":
                    continue
                run_trial(options, origin, kind, part, fault)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
