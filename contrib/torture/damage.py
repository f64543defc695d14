#!/usr/bin/env python3
"""Damages the files of a state and a cache, starts an agent on them, and checks what it serves.

Each attempt copies a state whose content is known, damages one file, starts an agent, and compares everything that it serves
with the known content. It passes if the agent serves the newest value, serves an older one and logs that, or refuses to
start and prints a reason. The damage is a single changed byte, a truncated, emptied or removed file, or 512 bytes of
zeros, as after the loss of a sector.
"""

import concurrent.futures
import random
import shutil
import sys

import larder_agent
from known_state import NAMESPACES, WORKERS, Origin, Witness, image_problem, known_states, settings


class Outcome:
    """The result of one attempt. `kind` is right, older, refused or lost."""

    def __init__(self, kind, detail=""):
        self.kind, self.detail = kind, detail


def files_of(known):
    """Returns the paths, relative to the directory, of all files of state and cache that are not empty."""
    found = [path for part in ("state", "cache") for path in (known.directory / part).rglob("*") if path.is_file()]
    return sorted(path.relative_to(known.directory) for path in found if path.stat().st_size > 0)


def flip(generator, path):
    """Changes one byte. Usually chooses one that is not zero, because journals and databases consist mostly of zeros."""
    data = bytearray(path.read_bytes())
    places = range(len(data))
    if generator.random() < 0.8:
        places = [place for place in places if data[place]] or places
    place = generator.choice(places)
    before = data[place]
    data[place] ^= 1 << generator.randrange(8) if generator.random() < 0.7 else generator.randrange(1, 256)
    write(path, data)
    return f"byte {place} changed from {before} to {data[place]}"


def truncate(generator, path):
    """Truncates, empties or removes a file, or overwrites a part of it with zeros."""
    data = bytearray(path.read_bytes())
    kind = generator.choice(("truncated", "truncated", "emptied", "removed", "zeros"))
    used = max((place for place, byte in enumerate(data) if byte), default=0) + 1
    if kind == "removed":
        path.chmod(0o600)
        path.unlink()
    elif kind == "zeros":
        start = generator.randrange(used) // 512 * 512
        data[start:start + 512] = bytes(min(512, len(data) - start))
        write(path, data)
        return f"512 bytes of zeros at {start}"
    else:
        size = 0 if kind == "emptied" else generator.randrange(used)
        write(path, data[:size])
        return f"truncated from {len(data)} to {size} bytes"
    return kind


def write(path, data):
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


def attempt(known, larderd, origin, damage, file, seed):
    """Copies a state, damages a file of the copy, and checks an agent on it. Returns an Outcome."""
    directory = known.copy("larder-damage.")
    try:
        description = damage(random.Random(seed), directory / file)
        outcome = check(known, larderd, origin, directory)
        outcome.detail = f"{file}: {description}: {outcome.detail}"
        return outcome
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def check(known, larderd, origin, directory):
    """Starts an agent on a directory and compares what it serves with the known state. Returns an Outcome."""
    agent = larder_agent.Agent(larderd, settings=settings(known.directory), directory=directory)
    witness = Witness()
    # Snapshots that an agent has served from the original state remain valid. Those that it serves from this damaged copy
    # are valid for this copy only.
    witness.seen, witness.newest = dict(known.witness.seen), known.witness.newest
    witness.known, witness.parts = known.witness.known, known.witness.parts
    try:
        agent.start()
    except larder_agent.Died:
        reason = agent.refusal()
        return Outcome("refused", reason) if reason else Outcome("lost", f"it ended without a reason:\n{agent.log_tail()}")
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
                check_history(client, namespace, witness)
            # The agent must accept a change, and must still have it after another start.
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
        witness.problems.append("the agent crashed")
    if witness.problems:
        return Outcome("lost", "; ".join(witness.problems) + "\n" + agent.log_tail(12))
    reports = [line for line in agent.log_text().splitlines() if "damaged" in line or "invalid record" in line]
    return Outcome("older" if reports else "right", reports[0] if reports else "")


def check_history(client, namespace, witness):
    """Checks that the history has descending revisions, and that each of its snapshots can be compared."""
    reply = client.call("config.history", namespace=namespace)
    revisions = [generation["revision"] for generation in reply["generations"]]
    if revisions != sorted(set(revisions), reverse=True):
        witness.problems.append(f"{namespace}: the history has the revisions {revisions}")
    for revision in revisions[1:]:
        client.call("config.diff", namespace=namespace, **{"from": revision})


def run(name, damage, count, options, origin, generator):
    if count == 0:
        return
    with known_states(options.larderd, origin) as states:
        jobs = []
        for index in range(count):
            known = states[index % 2]
            files = [file for file in files_of(known) if options.file in str(file)]
            jobs.append((known, generator.choice(files), generator.randrange(1 << 60)))
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            outcomes = list(pool.map(
                lambda job: attempt(job[0], options.larderd, origin, damage, job[1], job[2]), jobs))
    kinds = [outcome.kind for outcome in outcomes]
    lost = [outcome for outcome in outcomes if outcome.kind == "lost"]
    for outcome in lost[:10]:
        print(f"lost: {outcome.detail}", file=sys.stderr)
    note = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("right", "older", "refused"))
    larder_agent.report(name, len(outcomes), len(outcomes) - len(lost), note=note)


def main():
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="100 flips and 40 cuts")
    parser.add_argument("--flips", type=int, metavar="N", help="number of single bytes to change (default: 500)")
    parser.add_argument("--cuts", type=int, metavar="N", help="number of files to truncate, empty, remove or zero (default: 150)")
    parser.add_argument("--file", metavar="TEXT", default="", help="damage only files whose paths contain TEXT")
    parser.add_argument("--seed", type=int, default=None, help="seed of a run to repeat (default: random)")
    options = parser.parse_args()
    flips, cuts = (100, 40) if options.quick else (500, 150)
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"--seed {seed}")
    generator = random.Random(seed)
    origin = Origin()
    flips = flips if options.flips is None else options.flips
    cuts = cuts if options.cuts is None else options.cuts
    run("single bytes flipped in state and cache", flip, flips, options, origin, generator)
    run("files truncated, emptied or removed in state and cache", truncate, cuts, options, origin, generator)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
