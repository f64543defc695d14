"""The live configuration."""

import dataclasses
import enum
import threading
import time
import types
from datetime import timedelta
from typing import Any, Literal

import pytest

import larder_client
from larder_client import Backoff, Client, Config, InvalidValue, Unavailable, Unreachable
from larder_client.config import fill
from larder_client.testing import AgentProcess

QUICK = Backoff(0.01, 0.05)


def follow(config, path):
    """Returns a list of the values that a handler gets, and a function that waits for the next one."""
    values, changed = [], threading.Semaphore(0)
    config.on_change(path, lambda value: (values.append(value), changed.release()))

    def wait():
        assert changed.acquire(timeout=20)
        return values[-1]

    return values, wait


def test_a_configuration_is_a_mapping_that_follows_the_agent(agent):
    with Client(agent.socket) as client, Config(client) as config:
        assert dict(config) == {} and len(config) == 0 and config.is_live
        values, wait = follow(config, "search")
        client.set("search", {"limit": 25, "hosts": ["a"]})
        assert wait() == {"limit": 25, "hosts": ["a"]}
        assert config["search"]["limit"] == config.get("search.limit", 10) == config.get(["search", "limit"]) == 25
        assert (config.get("none", 10), "none" in config, list(config)) == (10, False, ["search"])
        assert isinstance(config["search"], types.MappingProxyType)
        with pytest.raises(TypeError):
            config["search"]["limit"] = 1
        with pytest.raises(KeyError):
            config["search.limit"]
        copy = config.copy("search")
        copy["limit"] = 1
        assert config["search"]["limit"] == 25
        client.set("other", 1)
        client.unset("search")
        assert wait() is None
        assert values == [{"limit": 25, "hosts": ["a"]}, None]
        assert config.revision > 0 and config.epoch == client.snapshot().epoch
        assert "default" in repr(config)


def test_a_handler_that_fails_and_one_that_has_ended_do_not_disturb(agent, caplog):
    with Client(agent.socket) as client, Config(client) as config:
        end = config.on_change("a", lambda value: 1 / 0)
        _, wait = follow(config, "a")
        client.set("a", 1)
        assert wait() == 1
        assert "ZeroDivisionError" in caplog.text
        end()
        end()
        caplog.clear()
        client.set("a", 2)
        assert wait() == 2
        assert caplog.text == ""


def test_a_configuration_starts_from_the_file_while_the_agent_is_away_and_recovers(agent):
    with Client(agent.socket) as client:
        client.set("search.limit", 25)
        exported = agent.directory / "current" / "default.json"
        while '"limit":25' not in (exported.read_text() if exported.exists() else ""):
            pass
    agent.stop()
    with Client(agent.socket, backoff=QUICK) as client, Config(client) as config:
        assert (config["search"]["limit"], config.get("x", 1), config.is_live, config.revision) == (25, 1, False, 0)
        _, wait = follow(config, "search.limit")
        agent.start().close()
        client.set("search.limit", 26)
        while wait() != 26:
            pass
        assert config["search"]["limit"] == 26 and config.is_live
        agent.kill()
        agent.start().close()
        client.set("search.limit", 27)
        assert wait() == 27


def test_a_configuration_needs_an_agent_or_its_file_unless_it_is_optional(larderd):
    agent = AgentProcess(larderd)
    with Client(agent.socket, backoff=QUICK) as client:
        with pytest.raises(Unreachable):
            Config(client)
        with Config(client, optional=True) as config:
            assert dict(config) == {} and config.get("a", 1) == 1 and config.copy("a", 2) == 2
            _, wait = follow(config, "a")
            agent.start().close()
            client.set("a", 3)
            while wait() != 3:
                pass
        with pytest.raises(larder_client.UnknownNamespace):
            Config(client, namespace="none")
    agent.stop()
    agent.remove()


def test_a_namespace_without_a_snapshot_is_unavailable(larderd):
    settings = {"namespaces": {"default": {"remote": {"http": {"url": "http://127.0.0.1:1/"}}}}}
    with AgentProcess(larderd, settings=settings) as agent, Client(agent.socket) as client, pytest.raises(Unavailable):
        Config(client, timeout=0.1)


# --- Classes ---


@dataclasses.dataclass(frozen=True)
class Host:
    name: str
    weight: float = 1


@dataclasses.dataclass(frozen=True)
class Search:
    limit: int = 10
    hosts: list[Host] = dataclasses.field(default_factory=list)
    order: Literal["up", "down"] = "up"
    pause: timedelta = timedelta(seconds=1)
    note: str | None = None
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    more: Any = None

    def __post_init__(self):
        if self.limit < 0:
            raise ValueError("limit is negative")


def test_a_class_is_filled_and_keeps_the_last_good_value(agent, caplog):
    with Client(agent.socket) as client, Config(client) as config:
        search = config.load(Search, "search")
        assert search.value == Search()
        changed = threading.Semaphore(0)
        search.on_change(lambda value: changed.release())
        client.set("search", {"limit": 20, "hosts": [{"name": "a", "weight": 2}], "unknown": 1})
        assert changed.acquire(timeout=20)
        assert search.value == Search(20, [Host("a", 2.0)]) and search.problem is None
        _, wait = follow(config, "search")
        client.set("search.limit", "many")
        wait()
        assert search.value.limit == 20
        assert "'search.limit' must be int, but is a string" in str(search.problem)
        assert "many" not in caplog.text and "last good value stays" in caplog.text
        client.set("search.limit", 30)
        assert changed.acquire(timeout=20)
        assert search.value.limit == 30 and search.problem is None
        with pytest.raises(InvalidValue):
            config.load(Host, "search")


@pytest.mark.parametrize(
    "value, problem",
    [
        ({"limit": True}, "'limit' must be int, but is a Boolean"),
        ({"limit": 1.5}, "'limit' must be int, but is a number"),
        ({"limit": -1}, "limit is negative"),
        ({"hosts": [{"weight": 1}]}, "no value at 'hosts\\[0\\].name', and Host has no default"),
        ({"hosts": {}}, "'hosts' must be .*, but is an object"),
        ({"order": "left"}, "'order' must be .*Literal"),
        ({"note": 1}, "'note' must be .*, but is a number"),
        ({"labels": {"a": []}}, "'labels.a' must be int, but is an array"),
        ([], "must be Search, but is an array"),
    ],
)
def test_a_value_that_does_not_fit_is_named_without_its_content(value, problem):
    with pytest.raises(InvalidValue, match=problem):
        fill(Search, value)


def test_the_kinds_of_fields():
    value = {"pause": 2.5, "note": "a", "labels": {"b": 1}, "more": {"c": []}, "order": "down"}
    assert fill(Search, value) == Search(pause=timedelta(seconds=2.5), note="a", labels={"b": 1}, more={"c": []}, order="down")


def test_pydantic(agent):
    pydantic = pytest.importorskip("pydantic")
    pydantic_settings = pytest.importorskip("pydantic_settings")
    from larder_client.pydantic import LarderSource

    class Model(pydantic.BaseModel):
        limit: int = 10

    with Client(agent.socket) as client, Config(client) as config:
        _, wait = follow(config, "search")
        client.set("search", {"limit": 20})
        wait()
        assert config.load(Model, "search").value == Model(limit=20)
        with pytest.raises(InvalidValue):
            fill(Model, {"limit": "many"})

        class Settings(pydantic_settings.BaseSettings):
            limit: int = 10
            other: str = "x"

            @classmethod
            def settings_customise_sources(cls, settings_cls, **sources):
                return LarderSource(settings_cls, config, "search"), *sources.values()

        assert Settings().limit == 20 and Settings().other == "x"


# --- Edges ---


def test_a_number_that_python_does_not_convert_ends_nothing(agent):
    number = b"1" + b"0" * 4500
    with Client(agent.socket) as client, Config(client) as config, agent.connect() as connection:
        values, wait = follow(config, "big")
        _, wait_other = follow(config, "other")
        connection.send(b'{"id":1,"method":"config.set","params":{"path":"big","value":%s}}\n' % number)
        try:
            connection.result(1)
        except larder_client.AgentError:
            pytest.skip("the agent rejects such a number")
        wait()
        assert config.get("big") == client.get("big") == client.mapped().get("big") == values[-1]
        client.set("other", 1)
        assert wait_other() == 1


def test_an_abstract_socket_has_no_exported_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "default.json").write_text('{"a":1}')
    with Client("@larder-none") as client, pytest.raises(Unreachable):
        Config(client)


def test_a_namespace_with_an_invalid_name_is_an_error_at_once(agent):
    with Client(agent.socket) as client, pytest.raises(larder_client.AgentError):
        Config(client, namespace="../x y", timeout=20)


def test_a_handler_that_exits_does_not_end_the_configuration(agent, caplog):
    with Client(agent.socket) as client, Config(client) as config:
        config.on_change("a", lambda value: exit(1))
        _, wait = follow(config, "a")
        client.set("a", 1)
        assert wait() == 1
        client.set("a", 2)
        assert wait() == 2
    assert "SystemExit" in caplog.text


def test_a_configuration_waits_for_the_first_document_of_its_source(larderd):
    import sys

    from conftest import CONTRIB

    sys.path.append(str(CONTRIB))
    from test_origin import Origin

    gate = threading.Event()

    def respond(path, fields):
        gate.wait(20)
        return 200, {"Content-Type": "application/json"}, b'{"a": 1}'

    origin = Origin(respond)
    settings = {"namespaces": {"default": {"remote": {"http": {"url": f"{origin.address}/a.json"}}}}}
    with AgentProcess(larderd, settings=settings) as agent, Client(agent.socket, backoff=QUICK) as client:
        threading.Timer(0.5, gate.set).start()
        with Config(client, timeout=20) as config:
            assert config["a"] == 1
    origin.close()


def test_items_and_values_are_those_of_one_snapshot(agent):
    with Client(agent.socket) as client, Config(client) as config:
        with client.apply() as changes:
            changes.set("a", 1)
            changes.set("b", 2)
        while len(config) < 2:
            pass
        items, values = iter(config.items()), iter(config.values())
        next(items), next(values)
        client.unset("b")
        client.unset("a")
        while len(config):
            pass
        assert len(list(items)) == len(list(values)) == 1


def test_now_never_ends_with_an_older_value(agent):
    """A value that arrives while the function runs for the first time is reported after it."""
    with Client(agent.socket) as client, Config(client) as config:
        client.set("a", 1)
        while config.get("a") != 1:
            pass
        seen, last = [], threading.Event()

        def use(value):
            if not seen and value == 1:
                client.set("a", 2)
                while config.get("a") != 2:
                    pass
                threading.Event().wait(0.2)
            seen.append(value)
            if value == 2:
                last.set()

        config.on_change("a", use, now=True)
        assert last.wait(20)
        assert seen == [1, 2]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_an_object_is_filled(agent):
    """The thread of the configuration is in a class of the program while the process is forked."""
    import os

    entered, leave = threading.Event(), threading.Event()

    @dataclasses.dataclass
    class Slow:
        n: int = 0

        def __post_init__(self):
            if self.n == 1:
                entered.set()
                leave.wait(20)

    with Client(agent.socket) as client, Config(client) as config:
        slow = config.load(Slow, "s")
        client.set("s.n", 1)
        assert entered.wait(20)
        child = os.fork()
        if child == 0:
            done = threading.Event()
            slow.on_change(lambda value: value.n == 2 and done.set())
            client.set("s.n", 2)
            os._exit(0 if done.wait(10) and slow.value.n == 2 else 1)
        leave.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclasses.dataclass
class Kinds:
    pair: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    level: Level = Level.LOW
    one: Literal[1] = 1
    ratio: float = 0.0
    pause: timedelta = timedelta()
    names: frozenset = frozenset()
    derived: int = dataclasses.field(init=False, default=3)


def test_more_kinds_of_fields():
    value = {"pair": [1, "a"], "many": [1, 2, 3], "level": "high", "derived": 5, "names": ["a"]}
    assert fill(Kinds, value) == Kinds((1, "a"), (1, 2, 3), Level.HIGH, names=frozenset(["a"]))


@pytest.mark.parametrize(
    "value",
    [{"pair": [1]}, {"pair": ["a", 1]}, {"level": "up"}, {"one": True}, {"ratio": 10**400}, {"pause": 1e300}, {"many": [None]}],
)
def test_other_values_do_not_fit(value):
    with pytest.raises(InvalidValue) as caught:
        fill(Kinds, value)
    assert "Error" not in type(caught.value).__name__ and ("None" not in str(value) or "is null" in str(caught.value))


def test_a_class_that_fails_in_its_own_way_keeps_the_last_good_value(agent):
    @dataclasses.dataclass
    class Strange:
        names: dict = dataclasses.field(default_factory=lambda: {"a": 1})

        def __post_init__(self):
            self.names["a"]

    with Client(agent.socket) as client, Config(client) as config:
        strange = config.load(Strange, "strange")
        _, wait = follow(config, "strange")
        client.set("strange", {"names": {"b": 1}})
        wait()
        assert strange.problem is not None and strange.value.names == {"a": 1}


def test_a_model_does_not_show_the_value_that_does_not_fit():
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        password: int = 10

    with pytest.raises(InvalidValue) as caught:
        fill(Model, {"password": "hunter2"})
    assert "hunter2" not in str(caught.value) and "password" in str(caught.value)


def test_revisions_are_acknowledged_also_after_a_restart_and_rejected_while_a_value_does_not_fit(agent):
    def acknowledgements(client):
        return client.status("default")[0]["acknowledgements"]

    def until(condition):
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with Client(agent.socket, backoff=QUICK) as client, Config(client, acknowledge=True) as config:
        config.load(Search, "search")
        revision = client.set("search.limit", 5)["revision"]
        until(lambda: acknowledgements(client)["accepted"] == {str(revision): 1})
        client.set("search.limit", "many")
        until(lambda: acknowledgements(client)["rejections"] == 1)
        client.set("other", 1)  # the value at search still does not fit
        until(lambda: acknowledgements(client)["rejected"][0]["revision"] == revision + 2)
        assert "search.limit" in acknowledgements(client)["rejected"][0]["reason"]
        revision = client.set("search.limit", 6)["revision"]
        until(lambda: acknowledgements(client)["accepted"] == {str(revision): 1})
        agent.kill()
        agent.start().close()
        until(lambda: acknowledgements(client)["accepted"] == {str(revision): 1})
