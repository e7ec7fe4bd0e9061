"""Hosts that Ray runs: asked for when none is known that answers, by a program that these tests stand in for."""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from reenact import ConfigurationError, Runtime, ServerUnreachableError
from reenact.client import dialing
from reenact.client.dialing import RayHosts, Reconnect
from reenact.client.runtime import RemoteRuntime
from reenact.testing import wait_until
from tests.client.conftest import Connect, Waits
from tests.client.scripted import Beyond, Scripted

HEAD = "ray://head.example/orders"


class Ray:
    """What is asked of Ray, and what it answers."""

    def __init__(self, directory: Path) -> None:
        self._answer = directory / "answer"
        self._asked = directory / "asked"
        self.program = directory / "python"
        self.program.write_text(f'#!/bin/sh\necho "$@" >> {self._asked}\n. {self._answer}\n')
        self.program.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []

    def has(self, *hosts: tuple[str, str]) -> None:
        self.says(json.dumps({"hosts": hosts}))

    def says(self, answer: str) -> None:
        self.does(f"echo '{answer}'")

    def does(self, script: str) -> None:
        self._answer.write_text(script)


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ray:
    ray = Ray(tmp_path)
    monkeypatch.setattr(sys, "executable", str(ray.program))
    monkeypatch.setattr(dialing, "require_ray", lambda: None)
    return ray


def test_a_host_is_found_by_the_address_of_the_head_and_opened_by_its_own_token(
    ray: Ray, scripted: Scripted, connect: Connect, beyond: Beyond
) -> None:
    ray.has((scripted.url, "of-the-host"))
    connecting = beyond.call(lambda: connect(HEAD))

    scripted.line()

    assert connecting.result().failure is None
    assert scripted.tokens == ["Bearer of-the-host"]
    assert ray.asked == ["-P -m reenact._ray head.example:10001 orders"]


def test_ray_is_asked_again_when_no_host_answers_any_more_and_not_before(
    ray: Ray, scripted: Scripted, connect: Connect, beyond: Beyond, waits: Waits
) -> None:
    ray.has((scripted.url, "first"))
    connecting = beyond.call(lambda: connect(HEAD))
    line = scripted.line()
    connecting.result()

    line.drop()
    line = scripted.line()
    before = len(ray.asked)
    ray.has((scripted.url, "second"))
    scripted.statuses = [503]
    line.drop()
    scripted.line()

    assert (before, len(ray.asked)) == (1, 2)
    assert scripted.tokens == ["Bearer first"] * 3 + ["Bearer second"]


def test_hosts_that_are_known_are_tried_also_while_ray_is_away(
    ray: Ray, scripted: Scripted, connect: Connect, beyond: Beyond
) -> None:
    ray.has((scripted.url, "known"))
    connecting = beyond.call(lambda: connect(HEAD))
    line = scripted.line()
    runtime = connecting.result()

    ray.says(json.dumps({"failure": "Ray says: no"}))
    scripted.statuses = [503, 503]
    line.drop()
    scripted.line()

    wait_until(lambda: runtime.failure is None)
    assert len(ray.asked) == 3


def test_a_place_that_somebody_else_has_taken_is_asked_for_again(
    ray: Ray, scripted: Scripted, connect: Connect, beyond: Beyond
) -> None:
    ray.has((scripted.url, "first"))
    scripted.statuses = [401]
    connecting = beyond.call(lambda: connect(HEAD))

    scripted.line()

    connecting.result()
    assert len(ray.asked) == 2


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("""echo '{"failure": "Ray says: a head there is not"}'""", "Ray says: a head there is not"),
        ("""echo '{"hosts": []}'""", r"none answers; `reenact\.ray\.start` starts them"),
        ("exit 3", "looking for them ended with 3"),
        ("echo {", "looking for them ended with 0"),
    ],
)
def test_why_no_host_can_be_found_is_said(ray: Ray, script: str, why: str) -> None:
    ray.does(script)

    with pytest.raises(
        ServerUnreachableError, match=f"^the hosts at ray://head.example:10001/orders cannot be .*{why}"
    ):
        asyncio.run(RayHosts.at(HEAD).find())


def test_ray_that_does_not_answer_is_not_waited_for(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialing, "FOUND_WITHIN", 0.1)
    ray.does("exec sleep 600")

    with pytest.raises(ServerUnreachableError, match=r"Ray has not answered within 0\.1 s"):
        asyncio.run(RayHosts.at(HEAD).find())


def test_without_hosts_it_is_tried_until_the_time_is_over(ray: Ray, waits: Waits, reconnect: Reconnect) -> None:
    waits.at_once = False

    with pytest.raises(ServerUnreachableError, match=r"no server within 0\.1 s: "):
        Runtime.connect(HEAD, timeout=0.1, reconnect=reconnect)


def test_who_gives_up_connecting_ends_the_program_that_looks_for_hosts(
    ray: Ray, tmp_path: Path, beyond: Beyond
) -> None:
    ray.does(f"echo $$ > {tmp_path}/began; mv {tmp_path}/began {tmp_path}/pid; exec sleep 600")
    first: Future[None] = Future()
    connecting = beyond.call(lambda: RemoteRuntime.connect(HEAD, first=first))
    wait_until((tmp_path / "pid").exists)

    first.cancel()

    with pytest.raises(CancelledError):
        connecting.result()
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


@pytest.mark.parametrize(
    "url",
    [
        "ray://",
        "ray://head:port",
        "ray://head:99999",
        "ray://ann@head",
        "ray://head?x",
        "ray://head/a/b",
        "ray://head/a b",
    ],
)
def test_what_is_no_address_of_a_cluster_is_refused(ray: Ray, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"address of a Ray cluster|name of hosts"):
        Runtime.connect(url)

    assert ray.asked == []


def test_the_token_of_a_host_is_not_given(ray: Ray) -> None:
    with pytest.raises(ConfigurationError, match="Ray knows the token"):
        Runtime.connect("ray://head", token="a-token-of-this-test")  # noqa: S106 - it opens nothing


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("ray://head", "ray://head:10001/reenact"),
        ("ray://head:1/", "ray://head:1/reenact"),
        ("ray://[::1]:1/x.y-z_0", "ray://[::1]:1/x.y-z_0"),
    ],
)
def test_port_and_name_may_be_missing(ray: Ray, url: str, hosts: str) -> None:
    assert str(RayHosts.at(url)) == hosts
