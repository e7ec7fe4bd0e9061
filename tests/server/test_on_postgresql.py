"""`reenact serve` on a log in PostgreSQL: it answers, and says when its database is away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import reenact
from reenact import Runtime
from reenact.testing.clock import wait_until
from tests.journal.guarded import SECRET, guarded_server, url_of
from tests.journal.server import Server
from tests.server.talk import PATIENCE

_INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_SAYS = "listening on "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of databases for this test."""
    yield from guarded_server(tmp_path_factory)


def test_it_is_ready_for_as_long_as_its_database_is_there(server: Server, tmp_path: Path) -> None:
    log = url_of(server, "guarded", SECRET, "served")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environ = {**inherited, "HOME": str(tmp_path), "PYTHONPATH": str(Path(reenact.__file__).parent.parent)}
    command = [sys.executable, "-P", "-m", "reenact", "serve", "--port", "0", "--db"]
    with subprocess.Popen(
        [*command, log], env=environ, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.removeprefix(_SAYS).strip()

        def state() -> int:
            return httpx2.get(f"{url}/ready", timeout=PATIENCE).status_code

        with Runtime.connect(url) as remote:
            assert remote.ask("Hello").text == "Hello from mock!"
        before = state()
        server.stop()
        wait_until(lambda: state() == 503)
        server.start()
        wait_until(lambda: state() == 200)
        with Runtime.connect(url) as remote:
            assert remote.ask("And now?").text == "Hello from mock!"
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=PATIENCE)

    assert (before, process.returncode) == (200, 0)
    assert SECRET not in line + logged
