#!/usr/bin/env python3
"""Puts a mixed load on an agent: gets, changes, long and short subscriptions, snapshots as files, more images than fit into
the cache, and reloads of the settings.

Prints memory usage and the number of open descriptors every minute, and at the end the results of these checks:

    replies             gets return the right values, images have the right bytes and digests, snapshot files the right size
    revisions           each change by the only writer of a namespace creates the next revision
    events              sequence numbers have no gaps, revisions are consecutive, and the last value is the final one
    memory              does not grow after the first minute; the same for open descriptors

Use --minutes 20 for a soak test; the default of half a minute is a short check.
"""

import concurrent.futures
import contextlib
import functools
import hashlib
import multiprocessing
import os
import random
import statistics
import sys
import time

import larder_agent  # finds the module test_origin, too
import test_origin
from larder_agent import Connection

IMAGES = 120
MAX_CACHED = 40  # the number of images that fit into the cache


def settings(version):
    """Returns settings that differ from those of the previous version."""
    namespaces = {"default": {}, "relaxed": {"durability": "relaxed"}, "steady": {"durability": "relaxed"}}
    if version % 2:
        namespaces[f"sometimes{version % 6}"] = {}
    return {
        "namespaces": namespaces,
        "limits": {"sendTimeoutSeconds": 20 + version % 3, "connections": 5000},
        "images": {
            "allowNetworks": ["127.0.0.0/8"], "maximumBytes": MAX_CACHED * 70_000, "minimumFreeBytes": 0,
            "maximumImages": 1000 + version % 2,
        },
    }


@functools.cache
def picture(number):
    """Returns a different PNG of about 64 KiB for each number."""
    return test_origin.png(256, 256, random.Random(number).randbytes(256 * 256), level=0)


def respond(path, fields):
    """The response of the origin. A third of the pictures may be cached for one second only, the others for an hour."""
    number = int(path.strip("/").split(".")[0])
    lifetime = "max-age=1" if number % 3 == 0 else "max-age=3600"
    return 200, {"Content-Type": "image/png", "Cache-Control": lifetime}, picture(number)


def outcome(attempts, wrong, **more):
    return {"attempts": attempts, "wrong": wrong[:5], "lost": len(wrong), **more}


# --- Processes -----------------------------------------------------------------------------------------------


class Signals:
    """Events that the processes of the load share with the main process."""

    def __init__(self, context):
        self.stop, self.stop_subscribers = context.Event(), context.Event()
        self.subscribed = context.Semaphore(0)


def begin(shared):
    """Runs in each process of the load before its function."""
    global signals
    signals = shared
    os.nice(5)


def guarded(function, *arguments):
    """Calls a function of the load. An exception is an outcome, too."""
    try:
        return function(*arguments)
    except Exception as problem:  # of any kind: the main process prints it
        return outcome(1, [f"{type(problem).__name__}: {problem}"])


# --- Load ------------------------------------------------------------------------------------------------------


def getter(path, seed):
    """Gets known values, on connections with 1 to 399 requests each."""
    generator, done, wrong = random.Random(seed), 0, []
    while not signals.stop.is_set():
        with Connection(path) as client:
            for _ in range(generator.randrange(1, 400)):
                number = generator.randrange(50)
                value = client.call("config.get", path=f"known.k{number}")["value"]
                done += 1
                if value != [number, "é"]:
                    wrong.append(f"k{number} was {value}")
                if number == 0:
                    time.sleep(0.002)
    return outcome(done, wrong)


def writer(path, namespace, pause):
    """The only writer of a namespace. Checks that each change creates the next revision and can be read back."""
    done, wrong, revision = 0, [], None
    with Connection(path) as client:
        while not signals.stop.is_set():
            done += 1
            result = client.call("config.set", namespace=namespace, path=f"w.k{done % 200}", value={"n": done, "x": "y" * (done % 300)})
            if revision is not None and result["revision"] != revision + 1:
                wrong.append(f"change {done} created revision {result['revision']} after {revision}")
            revision = result["revision"]
            read = client.call("config.get", namespace=namespace, path=f"w.k{done % 200}.n")
            if read["value"] != done or read["revision"] != revision:
                wrong.append(f"after change {done}: {read}")
            if done % 50 == 0:
                revision = client.call("config.unset", namespace=namespace, path=f"w.k{(done + 100) % 200}")["revision"]
            time.sleep(pause)
        last = client.call("config.get", namespace=namespace)
    return outcome(done, wrong, revision=last["revision"], value=last["value"])


def merged(target, patch):
    """Applies a merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def subscriber(path, namespace, mode):
    """Subscribes for the whole test, and maintains the document from the events. Reads for 1.5 s after the stop."""
    events, wrong, skipped = 0, [], 0
    with Connection(path) as client:
        revision = client.call("config.subscribe", namespace=namespace, mode=mode)["revision"]
        signals.subscribed.release()
        value, sequence = None, 0
        stopped_at = None
        while stopped_at is None or time.monotonic() - stopped_at < 1.5:
            if stopped_at is None and signals.stop_subscribers.is_set():
                stopped_at = time.monotonic()
            try:
                event = client.event(0.25)
            except TimeoutError:
                continue
            events += 1
            sequence += 1
            skipped += event.get("skipped", 0)
            if event["sequence"] != sequence:
                wrong.append(f"event {sequence} has the sequence number {event['sequence']}")
            if sequence > 1 and event["revision"] != revision + 1 + event.get("skipped", 0):
                wrong.append(f"revision {event['revision']} after {revision}, {event.get('skipped', 0)} skipped")
            if event["kind"] == "patch":
                if event["from"] != revision:
                    wrong.append(f"a patch from revision {event['from']} after {revision}")
                value = merged(value, event["patch"])
            else:
                value = event["value"]
            revision = event["revision"]
    return outcome(events, wrong, revision=revision, value=value, skipped=skipped)


def short_connections(path, seed):
    """Subscribes and disconnects: without reading the replies, while events arrive, or after config.unsubscribe."""
    generator, done, wrong = random.Random(seed), 0, []
    while not signals.stop.is_set():
        with Connection(path) as client:
            for _ in range(generator.randrange(1, 5)):
                client.request("config.subscribe", namespace=generator.choice(["default", "relaxed"]), path=f"w.k{generator.randrange(200)}")
            done += 1
            kind = generator.randrange(3)
            if kind == 0:
                continue
            last, end = {}, time.monotonic() + generator.random() / 2
            with contextlib.suppress(TimeoutError):
                while time.monotonic() < end:
                    event = client.event(0.1)
                    if event["sequence"] != last.get(event["subscription"], 0) + 1:
                        wrong.append(f"sequence number {event['sequence']} after {last}")
                    last[event["subscription"]] = event["sequence"]
            if kind == 1:
                client.request("config.unsubscribe", subscription=1)
    return outcome(done, wrong)


def received_with_file(client, request):
    """Sends a request. Returns the reply and the descriptors received with it."""
    client.send(request)
    reply, files = client.message(), list(client.descriptors)
    client.descriptors.clear()
    return reply, files


def image_getter(path, address, seed):
    """Requests images, a third of which fit into the cache. Checks that leased files keep the right bytes."""
    generator, done, wrong, errors = random.Random(seed), 0, [], {}
    digests = {}
    while not signals.stop.is_set():
        with Connection(path) as client:
            for _ in range(generator.randrange(1, 60)):
                number = int(IMAGES * generator.random() ** 2)
                as_file = generator.random() < 0.5
                params = {"url": f"{address}/{number}.png", "policy": generator.choice(["default", "cacheFirst", "staleWhileRevalidate"])}
                if as_file:
                    params["as"] = "descriptor"
                reply, files = received_with_file(client, {"id": 1, "method": "image.get", "params": params})
                done += 1
                if "error" in reply:
                    name = reply["error"]["data"]["name"]
                    errors[name] = errors.get(name, 0) + 1
                    if name not in ("cacheFull", "offline"):
                        wrong.append(str(reply["error"]))
                    continue
                result = reply["result"]
                if as_file:
                    with os.fdopen(files[0], "rb") as file:
                        content = file.read()
                else:
                    with open(result["path"], "rb") as file:
                        content = file.read()
                if number not in digests:
                    digests[number] = hashlib.sha256(picture(number)).hexdigest()
                if hashlib.sha256(content).hexdigest() != digests[number] or result["digest"].split(":")[-1] != digests[number]:
                    wrong.append(f"image {number} differs from that of its origin")
                if generator.random() < 0.7:
                    client.call("image.release", lease=result["lease"])
                time.sleep(0.002)
    return outcome(done, wrong, errors=errors)


def snapshot_opener(path):
    """Opens snapshots as sealed files."""
    done, wrong = 0, []
    with Connection(path) as client:
        while not signals.stop.is_set():
            reply, files = received_with_file(client, {"id": 1, "method": "config.open", "params": {"namespace": "relaxed"}})
            if "error" in reply:
                wrong.append(str(reply["error"]))
            elif len(files) != 1 or os.fstat(files[0]).st_size != reply["result"]["bytes"]:
                wrong.append(f"{len(files)} files with {reply['result']}")
            for file in files:
                os.close(file)
            done += 1
            time.sleep(0.02)
    return outcome(done, wrong)


# --- Main ------------------------------------------------------------------------------------------------------


def is_flat(values, slack):
    """Returns True if the median of the second half exceeds that of the first half by at most 10 % plus `slack`."""
    half = len(values) // 2
    return len(values) < 4 or statistics.median(values[half:]) <= statistics.median(values[:half]) * 1.1 + slack


def start(pool, path, address, seed):
    """Starts the load. Returns the future of each outcome by name."""
    started = {f"events ({mode})": pool.submit(guarded, subscriber, path, "relaxed", mode) for mode in ("snapshot", "patch")}
    for name in started:
        if not signals.subscribed.acquire(timeout=larder_agent.TIMEOUT):
            raise TimeoutError(f"{name}: no subscription")
    started["durable changes"] = pool.submit(guarded, writer, path, "default", 0.004)
    started["relaxed changes"] = pool.submit(guarded, writer, path, "relaxed", 0.004)
    started["gets"] = pool.submit(guarded, getter, path, seed)
    for number in range(2):
        started[f"short connections {number}"] = pool.submit(guarded, short_connections, path, seed + number)
        started[f"images {number}"] = pool.submit(guarded, image_getter, path, address, seed + number)
    started["snapshots as files"] = pool.submit(guarded, snapshot_opener, path)
    return started


def watch(agent, seconds):
    """Reloads the settings each second. Returns samples of time, memory and descriptors, and the number of reloads."""
    samples, reloads, lost_reloads = [], 0, 0
    began = time.monotonic()
    next_sample, step = 0.0, min(10.0, seconds / 8)
    while (now := time.monotonic() - began) < seconds:
        if now >= next_sample:
            memory, stats = agent.memory(), agent.stats()
            samples.append((now, memory.anonymous, agent.descriptors()))
            if now // 60 != (now - step) // 60 or seconds < 120:
                print(
                    f"{now / 60:5.1f} min: {memory.resident >> 10} KiB resident, {memory.anonymous >> 10} KiB anonymous, "
                    f"{samples[-1][2]} descriptors, {stats['connections']['accepted']} connections accepted, "
                    f"{stats['requests']['total']} requests, {stats['subscriptions']['events']} events, "
                    f"{stats['images']['evictions']} evictions", flush=True)
            next_sample += step
        reloads += 1
        try:
            agent.reload(settings(reloads))
        except TimeoutError as problem:
            lost_reloads += 1
            print(f"reload {reloads}: {problem}", file=sys.stderr)
        time.sleep(max(0, min(1.0, began + seconds - time.monotonic())))
    larder_agent.report("soak: reloads", reloads, reloads - lost_reloads)
    return samples


def report_load(results):
    """Reports the outcomes. The last event of each subscriber must match the last change."""
    last = results["relaxed changes"]
    for name, result in results.items():
        wrong, lost = result["wrong"], result["lost"]
        if name.startswith("events") and (result.get("revision"), result.get("value")) != (last.get("revision"), last.get("value")):
            revisions = f"revision {result.get('revision')}, expected {last.get('revision')}"
            wrong, lost = wrong + [f"the last event does not match the last change: {revisions}"], lost + 1
        for one in wrong:
            print(f"{name}: {one}", file=sys.stderr)
        more = "; ".join(f"{key} {result[key]}" for key in ("skipped", "errors", "revision") if result.get(key))
        attempts = result["attempts"]
        larder_agent.report(f"soak: {name}", attempts, attempts - min(lost, attempts), lost, more)


def report_growth(agent, samples, files_before):
    anonymous, files = [sample[1] for sample in samples], [sample[2] for sample in samples]
    larder_agent.report(
        "soak: memory does not grow", len(anonymous), len(anonymous) if is_flat(anonymous, 4 << 20) else 0,
        note=f"{min(anonymous) >> 10} to {max(anonymous) >> 10} KiB after the first minute")
    with contextlib.suppress(TimeoutError):
        larder_agent.eventually(lambda: agent.descriptors() <= files_before + 8, "waiting for descriptors to close", 10)
    # Some descriptors remain open: connections of the image cache to origins, and files of namespaces.
    is_closed = agent.descriptors() <= files_before + 24
    larder_agent.report(
        "soak: descriptors do not grow", len(files), len(files) if is_flat(files, 10) and is_closed else 0,
        note=f"{min(files)} to {max(files)}, {files_before} before and {agent.descriptors()} after the test")


def main():
    global signals
    parser = larder_agent.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=0.5, help="duration of the test (default: 0.5)")
    parser.add_argument("--quick", action="store_true", help="test for 15 seconds")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random choices (default: 1)")
    options = parser.parse_args()
    seconds = 15 if options.quick else options.minutes * 60
    context = multiprocessing.get_context("spawn")
    signals = Signals(context)
    origin = test_origin.Origin(respond)
    with larder_agent.Agent(options.larderd, settings=settings(0), keep=options.keep) as agent:
        with agent.connect() as client:
            client.call("config.set", path="known", value={f"k{number}": [number, "é"] for number in range(50)}, namespace="default")
            client.call("config.set", path="w.first", value=0, namespace="relaxed")
        files_before = agent.descriptors()
        with concurrent.futures.ProcessPoolExecutor(10, context, begin, (signals,)) as pool:
            try:
                started = start(pool, str(agent.socket), origin.address, options.seed)
                samples = watch(agent, seconds)
                # Subscribers stop last, so that they receive the last changes.
                signals.stop.set()
                results = {name: future.result() for name, future in started.items() if not name.startswith("events")}
                signals.stop_subscribers.set()
                results |= {name: future.result() for name, future in started.items() if name.startswith("events")}
            finally:
                signals.stop.set()
                signals.stop_subscribers.set()
        larder_agent.eventually(lambda: agent.stats()["connections"]["open"] == 1, "waiting for all connections to close")
        report_load(results)
        report_growth(agent, [sample for sample in samples if sample[0] >= min(60, seconds / 4)], files_before)
    origin.close()
    return larder_agent.finish()


if __name__ == "__main__":
    sys.exit(main())
