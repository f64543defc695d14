#!/usr/bin/env python3
"""Damages the files of a state and a cache, one byte at a time, and looks at what an agent makes of them.

Each flip is one start: a copy of a state of which everything is known, one byte of one file changed, and all that is
served compared. Allowed are the right value, an older one that the log announces, and a refusal to start that says why.
Truncated, emptied and removed files are tried as well, and files with a piece of zeros, as a disk that lost a sector
gives them.
"""

import concurrent.futures
import pathlib
import random
import shutil
import sys
import tempfile

import larder_agent
from known_state import KnownState, NAMESPACES, Origin, Witness, image_problem, keep_epoch, settings


class Outcome:
    """What became of one damage: `kind` is right, older, refused or lost."""

    def __init__(self, kind, detail=""):
        self.kind, self.detail = kind, detail


def files_of(known):
    """The files of the state and the cache that have any bytes, as paths from the directory."""
    found = [path for part in ("state", "cache") for path in (known.directory / part).rglob("*") if path.is_file()]
    return sorted(path.relative_to(known.directory) for path in found if path.stat().st_size > 0)


def flip(generator, path):
    """Changes one byte: anywhere, or, since most of a journal and of a database is zeros, where something is."""
    data = bytearray(path.read_bytes())
    places = range(len(data))
    if generator.random() < 0.8:
        places = [place for place in places if data[place]] or places
    place = generator.choice(places)
    before = data[place]
    data[place] ^= 1 << generator.randrange(8) if generator.random() < 0.7 else generator.randrange(1, 256)
    write(path, data)
    return f"byte {place} was {before} and is {data[place]}"


def cut(generator, path):
    """Cuts a file off, empties it, removes it, or lets it lose a piece."""
    data = bytearray(path.read_bytes())
    kind = generator.choice(("cut", "cut", "empty", "removed", "zeros"))
    used = max((place for place, byte in enumerate(data) if byte), default=0) + 1
    if kind == "removed":
        path.chmod(0o600)
        path.unlink()
    elif kind == "zeros":
        start = generator.randrange(used) // 512 * 512
        data[start:start + 512] = bytes(min(512, len(data) - start))
        write(path, data)
        return f"512 zeros at {start}"
    else:
        size = 0 if kind == "empty" else generator.randrange(used)
        write(path, data[:size])
        return f"{size} of {len(data)} bytes are left"
    return kind


def write(path, data):
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


def attempt(known, larderd, origin, damage, file, seed):
    """One damage, one start, one look."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="larder-damage."))
    try:
        for part in ("state", "cache"):
            shutil.copytree(known.directory / part, directory / part)
        keep_epoch(directory)
        what = damage(random.Random(seed), directory / file)
        outcome = look(known, larderd, origin, directory)
        outcome.detail = f"{file}: {what}: {outcome.detail}"
        return outcome
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def look(known, larderd, origin, directory):
    feed = known.directory / "feed.json"
    agent = larder_agent.Agent(
        larderd, settings=settings(known.directory), directory=directory)
    witness = Witness()
    # What was seen stays true; what is seen here is of this copy alone.
    witness.seen, witness.newest = dict(known.witness.seen), known.witness.newest
    witness.known, witness.parts = known.witness.known, known.witness.parts
    assert feed.exists()
    try:
        agent.start()
    except larder_agent.Died:
        if agent.crashed() or agent.process.returncode < 0:
            return Outcome("lost", f"a crash:\n{agent.last_words()}")
        reasons = [line for line in agent.log_text().splitlines() if line.startswith("larderd: ")]
        return Outcome("refused", reasons[-1]) if reasons else Outcome("lost", "a refusal without a reason")
    except TimeoutError as problem:
        return Outcome("lost", str(problem))
    try:
        with agent.connect() as client:
            witness.judge(client, agent.log_text())
            for number in known.images:
                problem = image_problem(client, origin.url(number), number)
                if problem:
                    witness.problems.append(problem)
            for namespace in NAMESPACES:
                history(client, namespace, witness)
            # And it goes on from there: a change is taken, and there after another start.
            client.call("config.set", path="after", value=1)
            witness.see(client, "default")
        agent.stop()
        agent.start()
        with agent.connect() as client:
            for namespace in NAMESPACES:
                witness.see(client, namespace)
            if client.call("config.get", path="after")["value"] != 1:
                witness.problems.append("a change after the damage was lost")
        agent.stop()
    except (larder_agent.AgentError, larder_agent.Died, OSError) as problem:
        witness.problems.append(f"{type(problem).__name__}: {problem}")
    finally:
        agent.kill()
    if agent.crashed():
        witness.problems.append("a crash")
    if witness.problems:
        return Outcome("lost", "; ".join(witness.problems) + "\n" + agent.last_words(12))
    said = [line for line in agent.log_text().splitlines() if "damaged" in line or "invalid record" in line]
    return Outcome("older" if said else "right", said[0] if said else "")


def history(client, namespace, witness):
    """What is told of earlier snapshots is what they were."""
    reply = client.call("config.history", namespace=namespace)
    revisions = [generation["revision"] for generation in reply["generations"]]
    if revisions != sorted(set(revisions), reverse=True):
        witness.problems.append(f"{namespace}: a history of revisions {revisions}")
    for revision in revisions[1:]:
        client.call("config.diff", namespace=namespace, **{"from": revision})


def run(name, damage, count, options, origin, generator):
    if count == 0:
        return
    states = [KnownState(options.larderd, origin, is_killed) for is_killed in (False, True)]
    try:
        orders = []
        for index in range(count):
            known = states[index % 2]
            files = [file for file in files_of(known) if options.file in str(file)]
            orders.append((known, generator.choice(files), generator.randrange(1 << 60)))
        with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
            outcomes = list(pool.map(
                lambda order: attempt(order[0], options.larderd, origin, damage, order[1], order[2]), orders))
    finally:
        for known in states:
            shutil.rmtree(known.directory, ignore_errors=True)
    kinds = [outcome.kind for outcome in outcomes]
    lost = [outcome for outcome in outcomes if outcome.kind == "lost"]
    for outcome in lost[:10]:
        print(f"lost: {outcome.detail}", file=sys.stderr)
    if options.verbose:
        for outcome in outcomes:
            print(f"{outcome.kind}: {outcome.detail}")
    note = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("right", "older", "refused"))
    larder_agent.report(name, len(outcomes), len(outcomes) - len(lost), note=note)


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="100 and 40")
    parser.add_argument("--flips", type=int, metavar="N", help="bytes that are flipped (500)")
    parser.add_argument("--cuts", type=int, metavar="N", help="files that are cut off or removed (150)")
    parser.add_argument("--file", metavar="WORD", default="", help="only of files whose path has this word")
    parser.add_argument("--seed", type=int, default=None, help="repeat the damage of another run")
    parser.add_argument("--workers", type=int, default=3, metavar="N", help="agents at a time (3)")
    parser.add_argument("--verbose", action="store_true", help="tell of each damage")
    options = parser.parse_args()
    flips, cuts = (100, 40) if options.quick else (500, 150)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"--seed {seed}")
    generator = random.Random(seed)
    origin = Origin()
    run("single bytes flipped in state and cache", flip, flips if options.flips is None else options.flips, options, origin, generator)
    run("files of state and cache cut off, emptied, removed", cut, cuts if options.cuts is None else options.cuts, options, origin, generator)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
