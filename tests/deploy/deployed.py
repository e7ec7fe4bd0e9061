"""What docs/deploy has, as data, and nodes that run the very command that stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx2

import reenact
from reenact._yaml import read_yaml
from reenact.testing import wait_until
from tests.docs.pages import ROOT
from tests.jsons import array_at, at, object_at
from tests.started.forked import Forked
from tests.started.programs import INHERITED

FOLDER = ROOT / "docs" / "deploy"
TOKEN = "a-token-of-these-tests"  # noqa: S105 - it opens nothing else
PATIENCE = 60.0


def manifests() -> dict[str, dict[str, Any]]:
    """Return the objects of the Kubernetes manifest by their kinds."""
    documents = (FOLDER / "kubernetes.yaml").read_text(encoding="utf-8").split("\n---\n")
    return {at(str, document, "kind"): object_at(document) for document in map(read_yaml, documents)}


def pod() -> dict[str, Any]:
    """Return what the Deployment says of a pod."""
    return object_at(manifests()["Deployment"], "spec", "template", "spec")


def container() -> dict[str, Any]:
    """Return the only container of a pod."""
    (one,) = array_at(pod(), "containers")
    return object_at(one)


def variables() -> dict[str, dict[str, Any]]:
    """Return the environment variables of the container by their names."""
    return {at(str, each, "name"): object_at(each) for each in array_at(container(), "env")}


def dockerfile() -> dict[str, str]:
    """Return the instructions of the Dockerfile, of which there is one of each."""
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}


def container_command() -> list[str]:
    """Return the words of the command that runs in the container."""
    entry: list[str] = json.loads(dockerfile()["ENTRYPOINT"])
    return [*entry, *array_at(container(), "args")]


def unit() -> dict[str, list[str]]:
    """Return the settings of the systemd unit: the values that each is given."""
    settings: dict[str, list[str]] = {}
    for line in (FOLDER / "reenact@.service").read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"(\w+)=(.*)", line):
            settings.setdefault(found[1], []).append(found[2])
    return settings


def unit_command() -> list[str]:
    """Return the words of the command of the unit."""
    (start,) = unit()["ExecStart"]
    return shlex.split(start)


def seconds_to_end() -> float:
    """Return how long a node may take to end after SIGTERM, when everything takes as long as it may."""
    from reenact.actors.sharding.node import DRAIN  # noqa: PLC0415 - once the coverage of what it imports is measured
    from reenact.server.serving import FLUSH, GRACE  # noqa: PLC0415 - likewise

    return DRAIN + GRACE + 2 * FLUSH


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


class Node:
    """A node whose command is that of a deployment, on a port and with files of a test."""

    def __init__(self, command: Sequence[str], changes: Mapping[str, str], environ: Mapping[str, str]) -> None:
        program, *words = command
        assert Path(program).name == "reenact"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        changed = {**changes, "8000": str(self.port), "%i": str(self.port)}
        changed |= {"postgresql://…": environ["REENACT_DB"], "tokens": changes["/etc/reenact/tokens"]}
        self._words = [changed.get(word, word) for word in words]
        self._environ = environ
        self._process: Forked | None = None

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self._process = Forked(["reenact", *self._words], self._environ, Path(self._environ["HOME"]), stderr=PIPE)
        wait_until(self.is_ready, PATIENCE, "the node to be ready")

    def is_ready(self) -> bool:
        """Return whether it says so; fail if it has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(self.end())
        try:
            return httpx2.get(f"{self.url}/ready", timeout=PATIENCE).status_code == 200
        except httpx2.TransportError:
            return False

    def end(self) -> tuple[int, str]:
        """Tell it to end, wait until it has, and return the exit code and what it logged."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        _, logged = self._process.communicate(timeout=PATIENCE)
        return self._process.wait(), logged

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def nodes(commands: Sequence[Sequence[str]], log: str, directory: Path) -> Generator[list[Node]]:
    """Yield a node on the log for each of the commands, ready."""
    tokens = directory / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    tokens.chmod(0o600)
    files = {"/etc/reenact/tokens": str(tokens), "%d/tokens": str(tokens)}
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    path = str(Path(reenact.__file__).parent.parent)
    environ = {**inherited, "HOME": str(directory), "PYTHONPATH": path, "REENACT_DB": log, "ANTHROPIC_API_KEY": ""}
    with ExitStack() as stack:
        all_nodes = [Node(command, files, environ) for command in commands]
        for node in all_nodes:
            stack.callback(node.kill)
            node.start()
        yield all_nodes
