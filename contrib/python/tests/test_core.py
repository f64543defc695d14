"""The protocol without input and output."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from larder_client import Backoff, Disconnected, InvalidArgument, LimitExceeded, NotFound, ProtocolError
from larder_client._core import Attempts, Core, Follower, Subscription, decode, encode, merge_patch, request
from larder_client._tables import RESULTS

# Random byte streams of each test below. contrib/torture/python.py runs the full number.
STREAMS = int(os.environ.get("LARDER_STREAMS", "1000"))
ENDLESS = settings(max_examples=STREAMS, deadline=None, suppress_health_check=list(HealthCheck))


def line(message):
    return json.dumps(message).encode() + b"\n"


def reply(id, **result):
    return line({"jsonrpc": "2.0", "id": id, "result": result})


def failure(id, name="notFound", code=1):
    return line({"id": id, "error": {"code": code, "message": "", "data": {"name": name, "retryable": False, "detail": "d"}}})


def event(subscription=1, sequence=1, kind="snapshot", revision=2, epoch="e", **more):
    params = {"subscription": subscription, "sequence": sequence, "kind": kind, "revision": revision, "epoch": epoch}
    return line({"method": "config.event", "params": params | {"state": "fresh", "namespace": "default"} | more})


VALUE = {"value": 25, "revision": 2, "epoch": "e", "state": "fresh"}


def get(core):
    call = request("config.get", {"path": "a"})
    core.start(call)
    return call


def subscribed(core, mode="snapshot"):
    subscription = Subscription(Follower("a", "default", mode))
    call = request("config.subscribe", subscription.follower.parameters(), subscription)
    core.start(call)
    core.feed(reply(call.id, subscription=1, revision=1, epoch="e", state="fresh"))
    return subscription


def test_a_reply_completes_its_call_however_the_input_is_cut():
    for size in (1, 2, 7, 1000):
        core = Core()
        first, second = get(core), get(core)
        data = reply(2, **VALUE) + failure(1)
        ready = []
        for start in range(0, len(data), size):
            ready += core.feed(data[start : start + size])[0]
        assert ready == [second, first]
        assert second.result["value"] == 25
        assert isinstance(first.error, NotFound)


def test_calls_wait_at_the_limit_of_requests_in_flight_and_long_ones_leave_room():
    core = Core()
    long = [request("config.wait", {"path": "a"}) for _ in range(49)]
    lines = [core.start(call) for call in long]
    assert all(lines[:48]) and not lines[48]
    short = [get(core) for _ in range(20)]
    assert [call.is_sent for call in short] == [True] * 16 + [False] * 4
    _, output = core.feed(reply(short[0].id, **VALUE))
    assert output.count(b"\n") == 1 and short[16].is_sent
    _, output = core.feed(reply(long[0].id, exists=False, revision=1, epoch="e", state="fresh"))
    assert short[17].is_sent and not long[48].is_sent


def test_an_abandoned_call_is_cancelled_and_what_it_returns_is_given_back():
    core = Core()
    image = request("image.get", {"url": "http://a/"})
    core.start(image)
    assert core.abandon(image) == b'{"method":"request.cancel","params":{"id":1}}\n'
    assert core.abandon(image) == b""
    result = {name: 1 if kind is int else "x" for name, kind in RESULTS["image.get"]}
    assert core.feed(reply(1, **result))[1] == b'{"method":"image.release","params":{"lease":1}}\n'
    subscription = Subscription(Follower("a", "default"))
    call = request("config.subscribe", {}, subscription)
    core.start(call)
    core.abandon(call)
    _, output = core.feed(reply(2, subscription=7, revision=1, epoch="e", state="fresh"))
    assert output == b'{"method":"config.unsubscribe","params":{"subscription":7}}\n'


def test_events_become_snapshots_none_older_and_none_twice():
    subscription = subscribed(Core())
    core = Core()
    subscription = subscribed(core)
    follower = subscription.follower
    core.feed(event(value=1) + event(sequence=2, revision=4, value=2, skipped=1))
    assert subscription.is_ready()
    snapshot = follower.take()
    assert (snapshot.value, snapshot.revision, snapshot.skipped) == (2, 4, 2)
    core.feed(event(sequence=3, revision=3, value=9))
    assert follower.take() is None
    core.feed(event(sequence=4, revision=1, epoch="f", exists=False))
    assert (follower.take().exists, follower.parameters()["since"], follower.parameters()["epoch"]) == (False, 1, "f")


def test_events_of_unknown_kinds_and_notifications_are_ignored():
    core = Core()
    subscription = subscribed(core)
    core.feed(event(kind="weather") + line({"method": "config.other", "params": 1}) + event(sequence=2, value=1))
    assert subscription.follower.take().value == 1


def test_an_event_out_of_sequence_is_a_violation():
    core = Core()
    subscribed(core)
    with pytest.raises(ProtocolError, match="sequence"):
        core.feed(event(sequence=2, value=1))


def test_patches_apply_to_the_previous_value():
    core = Core()
    follower = subscribed(core, "patch").follower
    core.feed(event(value={"a": 1, "b": 2}))
    core.feed(event(sequence=2, revision=3, kind="patch", **{"from": 2}, patch={"a": None, "c": {"d": 1}}))
    assert follower.take().value == {"b": 2, "c": {"d": 1}}
    with pytest.raises(ProtocolError, match="patch"):
        core.feed(event(sequence=3, revision=5, kind="patch", **{"from": 4}, patch={}))
    assert "since" not in follower.parameters()
    assert merge_patch({"a": {"b": 1}}, {"a": {"b": None}}) == {"a": {}}


def test_the_end_of_a_subscription_tells_a_shutdown_from_a_change_of_the_settings():
    core = Core()
    subscription = subscribed(core)
    core.feed(event(kind="end", reason="denied"))
    assert subscription.is_withdrawn and core.is_usable
    core = Core()
    subscription = subscribed(core)
    core.feed(event(kind="end", reason="shutdown"))
    assert not subscription.is_withdrawn and not core.is_usable and core.ended is None


def test_the_end_of_the_connection_fails_all_that_wait():
    core = Core(max_in_flight=1)
    first, second, problem = get(core), get(core), Disconnected("gone")
    assert core.end(problem) == [first, second]
    assert (first.error, first.is_sent, second.error, second.is_sent) == (problem, True, problem, False)
    assert core.end(problem) == []


def test_an_error_without_id_belongs_to_the_longest_request():
    core = Core()
    short, long = get(core), request("config.set", {"path": "a", "value": "x" * 100})
    core.start(long)
    assert core.feed(failure(None, "lineTooLong", -32700))[0] == [long]
    with pytest.raises(ProtocolError):
        core.feed(failure(None, "parseError", -32700))
    core = Core()
    assert core.feed(failure(None, "limitExceeded", 8))[0] == []
    assert isinstance(core.ended, LimitExceeded)
    assert not short.done


@pytest.mark.parametrize(
    "data",
    [
        b"x\n",
        b"\xff\n",
        b"1\n",
        b"{}\n",
        b'{"id":1}\n',
        b'{"id":9,"result":{}}\n',
        b'{"id":true,"result":{}}\n',
        b'{"id":1,"result":{"value":1}}\n',
        b'{"id":1,"result":[]}\n',
        b'{"id":1,"error":1}\n',
        b'{"id":1,"result":{}} {}\n',
        b'{"id":1,"result":{"value":NaN,"revision":1,"epoch":"e","state":"fresh"}}\n',
        b'{"method":"config.event","params":{}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_a_line_that_is_not_of_the_protocol_is_a_violation(data):
    core = Core()
    get(core)
    with pytest.raises(ProtocolError):
        core.feed(data)


def test_a_line_may_not_be_longer_than_the_limit():
    core = Core(max_line_bytes=100)
    core.feed(b" " * 60)
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        core.feed(b" " * 60)


def test_values_that_json_cannot_express_are_not_sent():
    loop = []
    loop.append(loop)
    for value in (object(), float("nan"), "\ud800", loop, {1, 2}):
        with pytest.raises(InvalidArgument):
            encode(value)
    deep = 1
    for _ in range(126):
        deep = [deep]
    request("config.set", {"value": deep})
    with pytest.raises(InvalidArgument, match="levels deep"):
        request("config.set", {"value": [deep]})
    request("config.set", {"value": "[" * 1000})


def test_numbers_with_more_digits_than_python_converts_are_read():
    assert decode("9" * 5000) == float("inf")
    assert decode(str(2**80)) == 2**80


def test_delays_have_full_jitter_and_a_cap():
    backoff = Backoff(base=1, cap=4)
    delays = [[backoff.delay(attempt) for _ in range(200)] for attempt in (0, 1, 50)]
    assert max(delays[0]) <= 1 < max(delays[1]) <= 2 < max(delays[2]) <= 4
    assert min(delays[2]) < 1


def test_attempts_report_a_refusal_once_and_end_if_asked_to():
    from larder_client import Denied

    attempts = Attempts(Backoff(), fail_on_refusal=False)
    assert attempts.fail(Denied("a"))[1] is True
    assert attempts.fail(Denied("a"))[1] is False
    assert attempts.fail(Disconnected("b"))[1] is True
    assert attempts.resume() is True and attempts.resume() is False
    with pytest.raises(InvalidArgument):
        attempts.fail(InvalidArgument("path"))
    with pytest.raises(Denied):
        Attempts(Backoff(), fail_on_refusal=True).fail(Denied("a"))


# --- Random streams ---


def busy_core():
    core = Core()
    for method in RESULTS:
        core.start(request(method, {}, reports=True))
    subscribed(core, "patch")
    return core


def survives(chunks):
    core = busy_core()
    try:
        for chunk in chunks:
            core.feed(chunk)
    except ProtocolError as problem:
        core.end(problem)


@given(st.lists(st.binary(max_size=200), max_size=20))
@ENDLESS
def test_random_bytes_raise_nothing_but_violations(chunks):
    survives(chunks)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    ["subscription", "sequence", "kind", "revision", "epoch", "state", "skipped", "exists", "value", "patch", "from", "reason",
     "request", "name", "data", "detail", "code", "lease"]
)  # fmt: skip
WORDS = ["snapshot", "patch", "revision", "end", "shutdown", "limitExceeded", "e", "fresh"]
LIKELY = st.sampled_from([0, 1, 2, 3, True, *WORDS]) | JSON
OBJECT = st.dictionaries(MEMBERS, LIKELY, max_size=10)
MESSAGE = (
    st.fixed_dictionaries(
        {"id": st.integers(0, 45) | JSON},
        optional={"result": OBJECT | JSON, "error": st.fixed_dictionaries({"data": OBJECT}) | JSON},
    )
    | st.fixed_dictionaries({"method": st.sampled_from(["config.event", "image.progress"]) | JSON, "params": OBJECT | JSON})
    | JSON
)


@given(st.lists(MESSAGE, max_size=8))
@ENDLESS
def test_random_messages_raise_nothing_but_violations(messages):
    survives([line(message) for message in messages])


@given(JSON, JSON)
@settings(max_examples=200, deadline=None)
def test_a_merge_patch_leaves_its_arguments_as_they_are(target, patch):
    before = json.dumps([target, patch])
    merge_patch(target, patch)
    assert json.dumps([target, patch]) == before


# --- Transcripts ---


def test_all_transcripts_pass_through_the_core(transcripts):
    process, record, output = transcripts
    assert process.wait(200) == 0, output.read_text()
    connections = {}
    for text in record.read_text(encoding="utf-8").splitlines():
        entry = json.loads(text)
        if entry["dir"] != "×":
            connections.setdefault(entry["connection"], []).append((entry["dir"], entry.get("line")))
    replayed = sum(replay(lines) for lines in connections.values())
    assert replayed > 500


def replay(lines):
    """Feeds the lines of a connection to a core, up to one that this client would not send. Returns the number of lines fed."""
    core, count = Core(max_in_flight=1 << 30), 0
    for direction, text in lines:
        try:
            message = json.loads(text or "x")
        except ValueError:
            return count
        if direction == "→":
            number = message.get("id") if isinstance(message, dict) else None
            if type(number) is not int or number in core._calls or not isinstance(message.get("method"), str):
                return count
            is_subscription = message["method"] == "config.subscribe"
            subscription = Subscription(Follower("", "default", "patch")) if is_subscription else None
            core._last_id = number - 1
            core.start(request(message["method"], {}, subscription, reports=True))
            continue
        if message.get("id") is None and "error" in message:
            return count
        event = message.get("params", {})
        if event.get("kind") == "patch":
            follower = core.subscriptions[event["subscription"]].follower
            # The transcript does not have the value that the first patch after a resumption applies to.
            follower._base = follower._base or ((event["from"], event["epoch"]), {})
        core.feed(text.encode() + b"\n")
        count += 1
    return count
