"""The examples in docstrings and in the guide run."""

import asyncio
import dataclasses
import doctest
import importlib
import os
import re
import socket
import subprocess
import sys
from datetime import timedelta

import pytest
from conftest import CONTRIB
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
    settings = {"images": {"allowNetworks": ["127.0.0.0/8"]}, "namespaces": {"default": {"flags": {"member": "flags"}}}}
    with AgentProcess(larderd, settings=settings) as agent:
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


def guide_blocks():
    guide = CONTRIB / "guides" / "python.md"
    text = guide.read_text(encoding="utf-8")
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in re.finditer(r"```pycon\n(.*?)```", text, re.DOTALL)]


def test_the_examples_in_the_guide(names):
    """The sessions in the guide run one after another, in one agent."""
    names = {**names}
    for line, text in guide_blocks():
        test = doctest.DocTestParser().get_doctest(text, names, "python.md", "python.md", line)
        test.globs = names
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        report = []
        if runner.run(test, out=report.append, clear_globs=False).failed:
            pytest.fail("".join(report))


# --- The programs in the guide ---


def program(heading):
    """The Python code of a section of the guide."""
    text = (CONTRIB / "guides" / "python.md").read_text(encoding="utf-8")
    return re.search(rf"\n## {heading}\n.*?```python\n(.*?)```", text, re.DOTALL)[1]


def test_the_flask_service(names):
    pytest.importorskip("flask")
    scope = {"__name__": "service"}
    exec(program("A Flask service"), scope)
    client = names["client"]
    client.set("search.limit", 7)
    while scope["config"].get("search.limit") != 7:
        pass
    assert scope["app"].test_client().get("/").json == {"limit": 7}
    scope["config"].close()


def test_the_fastapi_service(names):
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    scope = {"__name__": "service"}
    exec(program("FastAPI"), scope)
    with testclient.TestClient(scope["app"]) as browser:
        assert browser.get("/").json() == {"limit": 10}
        assert browser.put("/limit/8").json()["changed"] is True
        while browser.get("/").json() != {"limit": 8}:
            pass


def test_the_service_of_systemd(names, tmp_path):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(tmp_path / "notify"))
    receiver.settimeout(30)
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "PYTHONPATH": str(CONTRIB / "python" / "src")}
    names["client"].set("search.limit", 9)
    service = subprocess.Popen([sys.executable, "-c", program("A service of systemd")], env=environment)
    try:
        assert receiver.recv(1000) == b"READY=1\nSTATUS=at most 9 results"
        names["client"].set("search.limit", 11)
        assert receiver.recv(1000) == b"READY=1\nSTATUS=at most 11 results"
        service.terminate()
        assert receiver.recv(1000) == b"STOPPING=1"
        assert service.wait(30) == 0
    finally:
        service.kill()
        service.wait()
        receiver.close()


def test_the_screen(names, capsys):
    scope = {}
    exec(program("A screen with images"), scope)
    client = names["client"]
    client.set("screen.images", [names["logo"], "http://127.0.0.1:1/none.png"])
    shown = []
    output = ""

    async def main():
        async def show(path):
            nonlocal output
            shown.append(os.path.getsize(path) > 0)
            await asyncio.sleep(0)
            output += capsys.readouterr().out
            if len(shown) == 2:
                client.set("screen.images", [names["logo"]])
            if len(shown) >= 10 and "offline" in output and "1 of 1" in output:
                task.cancel()

        task = asyncio.create_task(scope["screen"](show))
        await asyncio.wait([task], timeout=60)

    asyncio.run(main())
    assert len(shown) >= 10 and all(shown)
    assert "offline" in output and "1 of 1" in output


def test_the_deployment(names, capsys):
    @dataclasses.dataclass
    class Search:
        pages: int = 1

    scope = {}
    exec(program("A deployment"), scope)
    client = names["client"]
    with larder_client.Config(client, acknowledge=True) as config, larder_client.Config(acknowledge=True):
        search = config.load(Search, "search")
        assert scope["deploy"]("7", {"search": {"pages": 3}}) == 0
        assert "added search" in capsys.readouterr().out
        assert search.value.pages == client.get("search.pages") == 3
        assert scope["deploy"]("8", {"search": {"pages": "many"}}) == 1
        assert "'search.pages' must be int" in capsys.readouterr().err
        assert client.get("search.pages") == 3
