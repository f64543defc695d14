"""What a type checker makes of programs that use the client. mypy checks this file; it does not run."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

import larder_client
import larder_client.aio
from larder_client import schema


@dataclass
class Search:
    limit: int = 10


def blocking(client: larder_client.Client) -> None:
    assert_type(client.get("a"), Any)
    assert_type(client.get_many(["a", ["b", "c"]]), list[Any])
    assert_type(client.set("a", 1, ttl=timedelta(minutes=1)), schema.ConfigSetResult)
    assert_type(client.set("a", 1)["revision"], int)
    assert_type(client.increment("a"), int)
    assert_type(client.snapshot("a").skipped, int)
    assert_type(client.history()[0]["causes"][0].get("reason"), str | None)
    assert_type(client.flags.evaluate("a", True, context={"targetingKey": "u"}).get("variant"), str | None)
    assert_type(client.flags.evaluate_all()["a"]["flag"], str)
    assert_type(client.flags.list()["flags"][0]["variants"], list[str])
    with client.apply() as changes:
        changes.set("a", 1)
    assert changes.result is not None
    assert_type(changes.result["changed"], bool)
    with client.watch("a") as watch:
        for snapshot in watch:
            assert_type(snapshot, larder_client.Snapshot)
        assert_type(watch.next(timeout=1), larder_client.Snapshot | None)
    with client.image("https://a.example.org/a.png", policy="cacheFirst") as image:
        assert_type(image.info["width"], int)
    client.image("", policy="none")  # type: ignore[arg-type]
    client.set("a")  # type: ignore[call-arg]


async def asynchronous(client: larder_client.aio.Client) -> None:
    assert_type(await client.increment("a"), int)
    assert_type((await client.flags.evaluate("a"))["revision"], int)
    assert_type((await client.info())["limits"]["lineBytes"], int)
    async for snapshot in client.watch("a"):
        assert_type(snapshot, larder_client.Snapshot)
    async with client.image("https://a.example.org/a.png") as image:
        assert_type(image.path, str)


def configuration(config: larder_client.Config) -> Iterator[str]:
    assert_type(config.load(Search, "search").value, Search)
    try:
        yield from config
    except larder_client.Conflict as error:
        assert_type(error.data, dict[str, Any])
