#!/usr/bin/env python3
"""Starts an agent on a machine that is not as it should be: /etc that cannot be read, a state of a newer version, directories
that are files, or somebody else's.

It serves what is right, or it ends with a status that tells of an error (1, or 78 for settings) and a line that says what
is wrong and with which file.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import larder_agent
from known_state import KnownState, Origin, image_problem, settings

NOBODY = 65534


def drop():
    """In the child that becomes the agent: nobody in particular."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class Trial:
    """One start in an odd place, as nobody in particular where root is there to set it up."""

    def __init__(self, options, name, as_nobody=True, **more):
        self.name, self.problem = name, None
        self.agent = larder_agent.Agent(options.larderd, before=drop if as_nobody else None, **more)
        self.as_nobody = as_nobody

    def own(self):
        if self.as_nobody:
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", self.agent.directory], check=True)

    def serves(self, value=None):
        """It starts, serves, takes a change, and has it at the next start."""
        self.own()
        try:
            self.agent.start()
            with self.agent.connect() as client:
                if value is not None and client.call("config.get")["value"] != value:
                    self.problem = f"it serves {client.call('config.get')['value']}, not {value}"
                client.call("config.set", path="taken", value=True)
            self.agent.restart()
            with self.agent.connect() as client:
                if client.call("config.get", path="taken")["value"] is not True:
                    self.problem = "a change was lost"
            self.agent.stop()
        except (larder_agent.Died, larder_agent.AgentError, larder_agent.Hang, larder_agent.ConnectionEnded, OSError) as problem:
            self.problem = f"{type(problem).__name__}: {problem}"
        return self.end()

    def refuses(self, *words, status=1):
        """It ends with this status, and a line that has these words."""
        self.own()
        found = None
        try:
            self.agent.start()
        except larder_agent.Died:
            found = self.agent.process.returncode
        except larder_agent.Hang:
            pass
        lines = [line for line in self.agent.log_text().splitlines() if line.startswith("larderd: ")]
        if found != status or len(lines) != 1 or not all(word in lines[0] for word in words):
            self.problem = f"it ended with {found}, and said {lines}; expected were {status} and {words}"
        self.agent.process = None if found is not None else self.agent.process
        return self.end()

    def end(self):
        if self.agent.crashed():
            self.problem = "a crash"
        if self.problem:
            print(f"lost: {self.name}: {self.problem}\n{self.agent.last_words(8)}", file=sys.stderr)
        self.agent.kill()
        for path in self.agent.directory.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        self.agent.remove()
        return self.problem is None


def rewritten(path, change):
    """Writes a generation anew, with its digest, after a change to its body."""
    header, body = path.read_text().splitlines()
    body = json.loads(body)
    change(body)
    text = json.dumps(body, separators=(",", ":"))
    path.write_text(json.dumps({"format": body.get("format", 1), "sha256": hashlib.sha256(text.encode()).hexdigest()},
                               separators=(",", ":")) + "\n" + text + "\n")


def etc(options):
    """/etc that cannot be read, and one that is empty."""
    trials = []
    for name, mode in (("/etc cannot be read", "0700"), ("/etc is empty", "0755")):
        # A file system in its place, seen by the agent alone.
        prefix = ["unshare", "--mount", "sh", "-c",
                  f'mount -t tmpfs -o mode={mode} tmpfs /etc && exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"',
                  "sh"]
        trial = Trial(options, name, as_nobody=False, prefix=prefix)
        trial.as_nobody = True
        trials.append(trial.serves())
    return trials


def unreadable(options):
    trials = []
    trial = Trial(options, "settings that cannot be read")
    trial.own()
    trial.agent.settings.chmod(0)
    trials.append(trial.refuses("larder.json", "may not be read", status=78))

    trial = Trial(options, "settings of a newer version", settings={"quantum": {"entangle": True}})
    trials.append(trial.refuses("quantum is not a setting", "larder.json:1", status=78))

    trial = Trial(options, "settings that are no JSON5", settings="{ namespaces: { default: ")
    trials.append(trial.refuses("larder.json:1", status=78))

    trial = Trial(options, "host files that cannot be read")
    host = trial.agent.directory / "home/config/larder/config.d"
    host.mkdir(parents=True)
    (host / "10.json").write_text('{"from":"host"}')
    trial.own()
    (host / "10.json").chmod(0)
    trials.append(trial.serves({}))

    trial = Trial(options, "a state directory that is somebody else's")
    trial.agent.state.mkdir()
    trial.own()
    trial.own = lambda: (os.chown(trial.agent.state, 0, 0), trial.agent.state.chmod(0o700))
    trials.append(trial.refuses("state", "Permission denied"))

    trial = Trial(options, "a state directory that is a file")
    trial.agent.state.write_text("no directory")
    trials.append(trial.refuses("state", "Not a directory"))

    trial = Trial(options, "a cache directory that is somebody else's")
    trial.agent.cache.mkdir()
    trial.own()
    trial.own = lambda: (os.chown(trial.agent.cache, 0, 0), trial.agent.cache.chmod(0o700))
    trials.append(trial.serves({}))

    trial = Trial(options, "a directory of the socket that is somebody else's")
    trial.agent.socket = trial.agent.directory / "run/larder.sock"
    trial.agent.socket.parent.mkdir()
    trial.own()
    trial.own = lambda: (os.chown(trial.agent.socket.parent, 0, 0), trial.agent.socket.parent.chmod(0o755))
    trials.append(trial.refuses("run/larder.sock", "Permission denied"))
    return trials


def newer(options, origin):
    """What a version that does not exist yet has left: it must not be taken for damage, and nothing older put in its place."""
    trials = []
    known = KnownState(options.larderd, origin, is_killed=False)

    def trial(name, change, *words):
        made = Trial(options, name, as_nobody=False, settings=settings(known.directory))
        for part in ("state", "cache"):
            shutil.copytree(known.directory / part, made.agent.directory / part)
        change(made.agent)
        trials.append(made.refuses(*words))

    def generation(agent):
        newest = max((agent.state / "config/default/generations").iterdir())
        rewritten(newest, lambda body: body.update(format=2, layers={"hologram": body["layers"]}))

    trial("a generation of a newer version", generation, "another version of larderd wrote it")

    def journal(agent):
        newest = max((agent.state / "config/default/generations").iterdir())
        sequence = json.loads(newest.read_text().splitlines()[1])["journal"]
        content = json.dumps({"sequence": sequence + 1, "revision": 99, "digest": "d", "publishedAt": 0, "released": 0,
                              "operations": [{"transmogrify": {}}], "causes": []}, separators=(",", ":"))
        line = hashlib.sha256(content.encode()).hexdigest()[:16] + " " + content + "\n\0"
        with open(agent.state / "config/default/journal", "r+b") as file:
            file.write(line.encode())

    trial("a journal with changes of a newer version", journal, "does not know")

    # A cache is one: what is not known of it is had again.
    made = Trial(options, "an index of images of a newer version", as_nobody=False, settings=settings(known.directory))
    for part in ("state", "cache"):
        shutil.copytree(known.directory / part, made.agent.directory / part)
    database = made.agent.cache / "images/index.sqlite"
    data = bytearray(database.read_bytes())
    data[60:64] = (99).to_bytes(4, "big")
    database.write_bytes(data)
    try:
        made.agent.start()
        with made.agent.connect() as client:
            for number in known.images:
                made.problem = made.problem or image_problem(client, origin.url(number), number)
        made.agent.stop()
    except (larder_agent.Died, larder_agent.AgentError) as problem:
        made.problem = str(problem)
    trials.append(made.end())
    shutil.rmtree(known.directory, ignore_errors=True)
    return trials


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="the same: it is quick")
    options = parser.parse_args()
    # Those whom the agent becomes have to be able to pass through to it.
    os.umask(0o022)
    origin = Origin()
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory(prefix="larder-program.") as directory:
            # Where nobody in particular can start it, wherever it was built.
            pathlib.Path(directory).chmod(0o755)
            program = shutil.copy(options.larderd or larder_agent.newest_program(), f"{directory}/larderd")
            options.larderd = program
            trials = etc(options)
            larder_agent.report("/etc that cannot be read, or is empty", len(trials), sum(trials))
            trials = unreadable(options)
            larder_agent.report("files that cannot be read, directories that are others'", len(trials), sum(trials))
            trials = newer(options, origin)
    else:
        larder_agent.skip("/etc and files that cannot be read", "setting them up needs root")
        trials = newer(options, origin)
    larder_agent.report("state and cache of a newer version", len(trials), sum(trials))
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
