"""Hosts on a real Ray cluster, all of it on this machine. Ray is not part of a development install: it is too large."""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import Runtime, ServerUnreachableError
from reenact.client.dialing import RayHosts
from reenact.client.runtime import RemoteRuntime
from reenact.testing import wait_until
from tests.deploy.asking import Asking
from tests.docs.pages import DATABASE, ROOT, blocks
from tests.examples import takes_long
from tests.journal.server import Server

pytestmark = [
    takes_long(),
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="Ray is not installed; .venv/bin/pip install -c constraints.txt '.[ray]' does that",
    ),
]
PATIENCE = 120.0
"""Seconds for what Ray does: it starts processes that each import much."""
CLUSTER = Path(__file__).with_name("ray_cluster.py")
PAGE = ROOT / "docs" / "several-machines.md"
PROGRAM = Path(__file__).with_name("ray_program.py")


class Ray:
    """A cluster; hosts on it are on one log at a time."""

    def __init__(self, address: str, process: subprocess.Popen[str]) -> None:
        self.address = address
        self._process = process

    def has_no_hosts(self) -> bool:
        """Return whether it answers that there is none."""
        try:
            asyncio.run(RayHosts.at(self.address).find())
        except ServerUnreachableError as error:
            return "none answers" in str(error)
        return False

    def tell(self, word: str) -> None:
        """Have the cluster do this, and wait until it has."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline().strip()) != word:
            assert line, "the cluster has ended"


class Hosts:
    """Hosts on a log."""

    def __init__(self, ray: Ray, log: str, directory: Path) -> None:
        self._ray = ray
        self.log = log
        self._directory = directory

    def start(self, nodes: int) -> subprocess.CompletedProcess[str]:
        """Run a user's program that starts so many, or with 0 stops them."""
        given = [self._ray.address, self.log, str(nodes), str(self._directory)]
        return subprocess.run(
            [sys.executable, "-P", str(PROGRAM), *given], timeout=PATIENCE, capture_output=True, text=True, check=False
        )

    def connect(self) -> RemoteRuntime:
        return Runtime.connect(self._ray.address, timeout=PATIENCE)

    def running(self) -> set[int]:
        """Return the processes of hosts that live."""
        return {int(file.name) for file in self._directory.iterdir() if Path("/proc", file.name).exists()}


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ray]:
    """A cluster that takes clients; there is one at a time, for each is a dozen processes."""
    with (tmp_path_factory.getbasetemp().parent / "ray.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield from running_cluster()


def running_cluster() -> Iterator[Ray]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with (
        tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as directory,
        subprocess.Popen(
            [sys.executable, "-P", str(CLUSTER), directory, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "head"
        ray = Ray(f"ray://127.0.0.1:{port}", process)
        wait_until(ray.has_no_hosts, PATIENCE, "the cluster to take clients")
        yield ray
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def hosts(ray: Ray, server: Server, tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(ray, server.new_log(), tmp_path)
    yield hosts
    hosts.start(0)
    wait_until(lambda: not hosts.running(), PATIENCE, "the hosts to end")


def test_a_client_that_knows_the_head_alone_goes_on_when_a_host_is_killed(hosts: Hosts) -> None:
    started = hosts.start(1)
    assert started.returncode == 0, started.stderr

    with hosts.connect() as remote:
        first = remote.ask("Hello")
        (host,) = hosts.running()
        os.kill(host, signal.SIGKILL)
        second = remote.ask("Still there?", session=first.session_id, timeout=PATIENCE)
        messages = [message.text for message in remote.sessions.messages(first.session_id)]

    assert (first.text, second.text) == ("Hello from mock!", "Hello from mock!")
    assert messages == ["Hello", "Hello from mock!", "Still there?", "Hello from mock!"]
    assert hosts.running().isdisjoint({host})


def test_a_host_waits_for_a_database_that_is_away(hosts: Hosts, server: Server) -> None:
    assert hosts.start(1).returncode == 0
    with hosts.connect() as remote:
        first = remote.ask("Hello")
        (host,) = hosts.running()
        server.stop()
        os.kill(host, signal.SIGKILL)
        wait_until(lambda: hosts.running() - {host}, PATIENCE, "a host that Ray has started again")
        server.start()
        second = remote.ask("Still there?", session=first.session_id, timeout=PATIENCE)

    assert second.text == "Hello from mock!"


def test_the_program_of_the_page_starts_hosts(ray: Ray, hosts: Hosts, tmp_path: Path) -> None:
    (text,) = [block.text for block in blocks(PAGE) if block.text.startswith("import ray\n")]
    for shown, real in (
        (DATABASE, hosts.log),
        ("ray://head:10001", ray.address),
        ("tools=[…]", "environment=MockEnvironmentFactory(), default_image=Image(id='chat')"),
        ('"num_cpus": 2', '"num_cpus": 0.1'),
    ):
        assert shown in text
        text = text.replace(shown, real)
    program = tmp_path / "program.py"
    program.write_text(f"from reenact import Image\nfrom reenact.testing import MockEnvironmentFactory\n{text}")

    started = subprocess.run(
        [sys.executable, "-P", str(program)], timeout=PATIENCE, capture_output=True, text=True, check=False
    )

    assert started.returncode == 0, started.stderr
    with hosts.connect() as remote:
        assert remote.ask("Hello").text == "Hello from mock!"


def test_hosts_are_replaced_one_after_the_other_and_a_client_goes_on(hosts: Hosts) -> None:
    assert hosts.start(2).returncode == 0
    old = hosts.running()

    with Asking(hosts.connect) as client:
        client.go_on()
        replaced = hosts.start(2)
        client.go_on()

    assert replaced.returncode == 0, replaced.stderr
    assert (len(old), len(hosts.running())) == (2, 2)
    assert hosts.running().isdisjoint(old)
    client.check()


def test_when_a_machine_of_the_cluster_is_lost_its_host_is_started_on_another_one(ray: Ray, hosts: Hosts) -> None:
    ray.tell("add")
    assert hosts.start(2).returncode == 0
    old = hosts.running()

    with Asking(hosts.connect) as client:
        client.go_on()
        ray.tell("remove")
        client.go_on()
        wait_until(lambda: len(hosts.running() - old) == 1, PATIENCE, "a host in the place of the lost one")
        wait_until(lambda: len(hosts.running() & old) == 1, PATIENCE, "the lost one to end")
        client.go_on()

    client.check()


def test_what_keeps_a_host_from_opening_its_log_is_said_to_who_starts_it(
    ray: Ray, hosts: Hosts, tmp_path: Path
) -> None:
    wrong = Hosts(ray, "postgresql://nobody@/?x=y", tmp_path)

    started = wrong.start(1)

    assert started.returncode == 1
    assert "ConfigurationError" in started.stderr
    assert ray.has_no_hosts()
