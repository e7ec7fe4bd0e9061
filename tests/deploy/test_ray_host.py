"""What a host of Ray's does in its process, and what is refused before Ray is asked: all without Ray."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from reenact import ConfigurationError, Image, LogUnreachableError, Runtime, RuntimeClosedError
from reenact._ray import main
from reenact.ray import Host, start, stop
from reenact.testing import MockEnvironmentFactory

TOKEN = "a-token-of-this-test"  # noqa: S105 - it opens nothing else
HERE = SimpleNamespace(util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"), is_initialized=lambda: False)


@pytest.fixture(autouse=True)
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for Ray, which says that this is a node of it, and that no program is connected."""
    monkeypatch.setattr("reenact.ray.load_ray", lambda: HERE)
    monkeypatch.setattr("reenact.ray.PAUSE", 0.0)


def opened() -> Runtime:
    return Runtime.in_memory(environment=MockEnvironmentFactory(), default_image=Image(id="chat"))


def test_a_host_serves_its_runtime_to_who_has_its_token_until_it_is_closed() -> None:
    runtime = opened()
    host = Host(lambda: runtime, TOKEN)
    url, token = host.place()

    with Runtime.connect(url, token=token) as remote:
        answer = remote.ask("Hello")
    host.close()

    assert (answer.text, token) == ("Hello from mock!", TOKEN)
    with pytest.raises(RuntimeClosedError):
        runtime.containers.create()


def test_a_host_waits_for_a_database_that_cannot_be_reached() -> None:
    failures = [LogUnreachableError("not yet"), LogUnreachableError("nor now")]

    def open_runtime() -> Runtime:
        if failures:
            raise failures.pop(0)
        return opened()

    host = Host(open_runtime, TOKEN)
    host.close()

    assert failures == []


def test_a_host_that_cannot_serve_closes_its_runtime() -> None:
    runtime = opened()

    with pytest.raises(ConfigurationError, match="a token has at least"):
        Host(lambda: runtime, "short")

    with pytest.raises(RuntimeClosedError):
        runtime.containers.create()


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda: start(opened, 0), "1 host or more"),
        (lambda: start(opened, 1), r"by `ray\.init\(…\)`"),
        (stop, r"by `ray\.init\(…\)`"),
    ],
)
def test_what_cannot_be_is_refused(act: Callable[[], None], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        act()


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ä"])
def test_a_name_that_is_no_part_of_an_address_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(HERE, "is_initialized", lambda: True)

    with pytest.raises(ConfigurationError, match="the name of hosts"):
        stop(name=name)


def test_why_ray_cannot_be_asked_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ConnectionError("there is no head\nand much more")

    monkeypatch.setattr("reenact._ray.load_ray", fail)

    main(["head:10001", "reenact"])

    assert json.loads(capsys.readouterr().out) == {"hosts": [], "failure": "Ray says: there is no head"}
