"""The examples in docstrings run."""

import asyncio
import dataclasses
import doctest
import importlib
from datetime import timedelta

import pytest
from test_origin import Origin, png

import larder_client
from larder_client.testing import AgentProcess

MODULES = ["larder_client", "larder_client._client", "larder_client.aio", "larder_client.config", "larder_client.errors",
           "larder_client.snapshot", "larder_client.testing"]  # fmt: skip


@pytest.fixture
def names(larderd, monkeypatch):
    """What the examples use: a client of a new agent, whose socket is the default one, and an image."""
    dot = png(8, 8)
    origin = Origin(lambda path, fields: (200, {"Content-Type": "image/png"}, dot))
    with AgentProcess(larderd, settings={"images": {"allowNetworks": ["127.0.0.0/8"]}}) as agent:
        monkeypatch.setenv("LARDER_SOCKET", str(agent.socket))
        with larder_client.Client() as client, larder_client.Config(client) as config:
            yield {
                "larder_client": larder_client, "asyncio": asyncio, "dataclasses": dataclasses, "timedelta": timedelta,
                "client": client, "config": config, "larderd": larderd, "dot": dot, "logo": f"{origin.address}/logo.png",
            }  # fmt: skip
    origin.close()


def run(test):
    """Runs a doctest. Fails with its report."""
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    if runner.run(test, out=report.append).failed:
        pytest.fail("".join(report))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings(name, names):
    client = names["client"]
    if name != "larder_client._client":  # whose examples begin without values
        client.set("search.limit", 50)
        names["config"]._client.wait("search.limit", equals=50)
        while names["config"].get("search.limit") != 50:
            pass
    tests = doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
    tests = [test for test in tests if test.examples]
    for test in sorted(tests, key=lambda test: test.lineno):
        test.globs = dict(names)
        run(test)
    assert tests
