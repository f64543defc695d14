"""The live configuration."""

import dataclasses
import threading
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
