"""Images, with an origin on the loopback interface."""

import os
import threading

import pytest
from test_origin import Origin, png

import larder_client
from larder_client import Disconnected, ImageRejected, NotFound
from larder_client.testing import AgentProcess

DOT = png(8, 4)


@pytest.fixture
def origin():
    def respond(path, fields):
        if path == "/slow.png":
            gate.wait(20)
        if path.endswith(".png"):
            return 200, {"Content-Type": "image/png", "Cache-Control": "max-age=60"}, DOT
        return (200, {}, b"text") if path == "/text" else (404, {}, b"")

    gate = threading.Event()
    origin = Origin(respond)
    origin.gate = gate
    yield origin
    gate.set()
    origin.close()


def test_an_image_has_a_path_a_file_and_a_lease(client, origin):
    with client.image(f"{origin.address}/a.png", policy="cacheFirst") as image:
        assert (image.info["mediaType"], image.info["width"], image.info["height"]) == ("image/png", 8, 4)
        with open(image.path, "rb") as file:
            assert file.read() == DOT
        with image.open() as file:
            assert file.read() == DOT
        assert image.is_valid
        with pytest.raises(ValueError):
            image.fileno()
    assert not image.is_valid
    image.release()
    with pytest.raises(Disconnected):
        image.open()


def test_an_image_as_a_descriptor(client, origin):
    with client.image(f"{origin.address}/b.png", descriptor=True) as image:
        assert os.pread(image.fileno(), 100_000, 0) == DOT
        with image.open() as one, image.open() as other:
            assert one.read() == other.read() == DOT
        kept = image.open()
    assert kept.read() == DOT
    kept.close()


def test_errors_of_images_have_reasons(client, origin):
    with pytest.raises(NotFound) as missing, client.image(f"{origin.address}/none"):
        pass
    assert missing.value.reason == "status"
    with pytest.raises(ImageRejected) as rejected, client.image(f"{origin.address}/text"):
        pass
    assert rejected.value.reason == "notAnImage"
    with pytest.raises(NotFound), client.image(f"{origin.address}/c.png", policy="cacheOnly", digest="0" * 64):
        pass
    with pytest.raises(larder_client.Timeout), client.image(f"{origin.address}/slow.png", deadline=0.05):
        pass
    origin.gate.set()


def test_prefetching_and_downloads_report_progress(client, origin):
    steps = []
    urls = [f"{origin.address}/p{number}.png" for number in range(5)] + [f"{origin.address}/none"]
    result = client.prefetch(urls, on_progress=steps.append)
    assert (result["fetched"], result["failed"], result["failures"][0]["name"]) == (5, 1, "notFound")
    assert steps[-1]["done"] + steps[-1]["failed"] == steps[-1]["total"] == 6
    steps.clear()
    with client.image(f"{origin.address}/d.png", on_progress=steps.append):
        assert steps[-1]["receivedBytes"] == len(DOT)


def test_an_image_is_stored(client, tmp_path):
    assert client.put_image("https://img.example.org/a.png", DOT, lifetime=60)["bytes"] == len(DOT)
    (tmp_path / "b.png").write_bytes(png(2, 2))
    with open(tmp_path / "b.png", "rb") as file:
        assert client.put_image("https://img.example.org/b.png", file)["width"] == 2
    with client.image("https://img.example.org/a.png", policy="cacheOnly") as image:
        assert image.info["width"] == 8
    with pytest.raises(ImageRejected):
        client.put_image("https://img.example.org/a.png", b"text")


def test_a_lease_ends_with_its_connection(new_client, larderd):
    with AgentProcess(larderd) as agent, new_client(agent.socket) as client:
        client.put_image("https://img.example.org/a.png", DOT)
        with client.image("https://img.example.org/a.png") as image:
            agent.kill()
            agent.start().close()
            client.get("a", None)
            assert not image.is_valid
            with pytest.raises(Disconnected, match="request it again"):
                image.open()
