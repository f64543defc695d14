"""The agent that the tests use: $LARDERD, or the program that was built last."""

import asyncio
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import larder_client
from larder_client.testing import AgentProcess

CONTRIB = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(CONTRIB))  # test_origin


def program():
    if given := os.environ.get("LARDERD"):
        return pathlib.Path(given).resolve()
    built = [CONTRIB.parent / ".build" / kind / "larderd" for kind in ("release", "debug")]
    return max((path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="session")
def larderd():
    return program()


@pytest.fixture(scope="session", autouse=True)
def transcripts(request, larderd, tmp_path_factory):
    """A process that runs all transcripts beside the first tests, and the file in which it records the lines."""
    if not any("all_transcripts" in item.name for item in request.session.items):
        yield None
        return
    record, output = (tmp_path_factory.mktemp("transcripts") / name for name in ("record", "output"))
    command = [sys.executable, CONTRIB / "run-transcripts.py", "--agent", larderd, "--record", record]
    command += sorted((CONTRIB.parent / "Protocol" / "transcripts").glob("*.jsonl"))
    with open(output, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    yield process, record, output
    process.terminate()
    process.wait()


@pytest.fixture(scope="session")
def shared_agent(larderd):
    """An agent for all tests that do not stop it. The clients of a test use a namespace of its own, or paths of its own."""
    settings = {
        "namespaces": {"default": {"flags": {"member": "flags"}}, "shop": {}, "relaxed": {"durability": "relaxed"}},
        "images": {"allowNetworks": ["127.0.0.0/8"]},
    }
    with AgentProcess(larderd, settings=settings) as agent:
        yield agent


@pytest.fixture
def agent(larderd):
    """An agent that the test may stop."""
    with AgentProcess(larderd) as agent:
        yield agent


class Blocking:
    """A client for asyncio, or a part of one, whose coroutines run to their end."""

    def __init__(self, inner, loop):
        self._inner, self._loop = inner, loop

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if isinstance(found, larder_client.aio.Flags):
            return Blocking(found, self._loop)
        return self._wrapped(found) if callable(found) else found

    def _wrapped(self, function):
        def call(*arguments, **named):
            result = function(*arguments, **named)
            if inspect.isawaitable(result):
                result = self._loop.run_until_complete(result)
            kinds = (larder_client.aio.Watch, larder_client.aio.Image, larder_client.aio.Apply)
            return Blocking(result, self._loop) if isinstance(result, kinds) else result

        return call

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._loop.run_until_complete(self._inner.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self):
        self._loop.run_until_complete(self._inner.__aenter__())
        return self

    def __exit__(self, *problem):
        self._loop.run_until_complete(self._inner.__aexit__(*problem))


@pytest.fixture(params=["threads", "asyncio"])
def new_client(request):
    """Returns a function that creates a client of one of both kinds."""
    if request.param == "threads":
        yield larder_client.Client
        return
    loop = asyncio.new_event_loop()
    yield lambda *arguments, **named: Blocking(larder_client.aio.Client(*arguments, **named), loop)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.fixture
def client(new_client, shared_agent):
    with new_client(shared_agent.socket) as client:
        client.unset("", all=True)
        yield client


@pytest.fixture
def both(new_client, agent):
    """A client, and an agent that the test may stop."""
    with new_client(agent.socket, backoff=larder_client.Backoff(0.01, 0.05), reconnect=60) as client:
        yield client, agent
