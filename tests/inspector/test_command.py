"""`reenact inspect` and `reenact serve --inspect`: who may act, and through which process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from bs4 import BeautifulSoup
from websockets.sync.client import connect

import reenact
from reenact import ConfigurationError, Runtime
from reenact._location import location_of
from reenact.cli import main
from reenact.cli.commands.inspect import check_same_log, check_server, connected
from reenact.cli.parsing.options import InspectOptions, ServeOptions
from reenact.cli.serve import inspected
from reenact.inspector import Source
from reenact.server import Server
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.inspector.browsing import browsing, words
from tests.inspector.demo import demo
from tests.logs import log_at

TOKEN = "a-token-of-the-server"  # noqa: S105 - of the test's own server


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Runtime]:
    with demo(log_at(tmp_path / "night.db")) as runtime:
        yield runtime


@contextmanager
def inspecting(runtime: Runtime, log: str, *, allow_actions: bool) -> Generator[tuple[Server, str]]:
    """Serve the runtime with its pages, as `reenact serve --inspect` does; yield the token that opens these."""
    options = ServeOptions(inspect=True, allow_actions=allow_actions, by="night shift")
    with inspected(options, location_of(log), runtime) as pages:
        assert pages is not None
        with Server(runtime, tokens=[TOKEN], inspector=pages.app) as server:
            yield server, pages.token


def approve(client: httpx2.Client) -> httpx2.Response:
    """Approve the first call that waits."""
    page = BeautifulSoup(client.get("/inspect/waiting").text, "html.parser")
    fields = {str(one["name"]): str(one.get("value", "")) for one in page.select("form#y1 input[type=hidden]")}
    return client.post("/inspect/waiting", data={**fields, "do": "approve"})


def test_a_server_shows_its_log_to_who_has_the_token_of_the_pages(shop: Runtime, tmp_path: Path) -> None:
    with inspecting(shop, log_at(tmp_path / "night.db"), allow_actions=False) as (server, token):
        with httpx2.Client(base_url=server.url, follow_redirects=True, trust_env=False, verify=False) as client:
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            assert client.get("/inspect/").status_code == 401
            moved = client.get(f"/inspect?token={token}", follow_redirects=False)
            assert moved.headers["location"] == f"inspect/?token={token}", "relative: a proxy may have TLS"
            assert client.get("/inspect/", headers=bearer).status_code == 401
            assert client.get("/inspect/", headers={"Host": "evil.example"}).status_code == 421
            assert "11 sessions" in words(BeautifulSoup(client.get(f"/inspect/?token={token}").text, "html.parser"))
            assert client.get("/containers").status_code == 401
            assert approve(client).status_code == 403
        assert len(shop.agents.pending()) == 3


def test_a_server_lets_people_act_through_the_runtime_that_it_serves(shop: Runtime, tmp_path: Path) -> None:
    with (
        inspecting(shop, log_at(tmp_path / "night.db"), allow_actions=True) as (server, token),
        httpx2.Client(base_url=server.url, follow_redirects=True, trust_env=False, verify=False) as client,
    ):
        client.get(f"/inspect/?token={token}")
        response = approve(client)

    assert "was approved by night shift" in words(BeautifulSoup(response.text, "html.parser"))
    assert len(shop.agents.pending()) == 2


def test_the_socket_of_the_pages_carries_out_no_requests(shop: Runtime, tmp_path: Path) -> None:
    with inspecting(shop, log_at(tmp_path / "night.db"), allow_actions=True) as (server, token):
        address = f"{server.url.replace('http', 'ws', 1)}/inspect/ws"
        cookie = f"reenact_inspect_{urlsplit(server.url).port}={token}"
        with connect(address, additional_headers={"Cookie": cookie}) as socket:
            socket.send('{"type": "hello", "protocol": 1}')
            socket.recv()
            socket.send('{"type": "request", "id": "1", "request": "session_list_request", "data": {}}')
            assert "session_listed" not in str(socket.recv())


def test_an_inspector_beside_a_server_acts_through_it(shop: Runtime, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN}\n")
    with Server(shop, tokens=[TOKEN]) as server:
        options = InspectOptions(allow_actions=True, server=server.url, token_file=str(tokens))
        check_server(options)
        with (
            connected(options) as owner,
            Source.open(log_at(tmp_path / "night.db")) as source,
            browsing(source, owner=owner, by="day shift") as browser,
        ):
            wait_until(lambda: source.tables.lag() == 0)
            check_same_log(owner, source)
            page = browser.page("/waiting")
            fields = {str(one["name"]): str(one.get("value", "")) for one in page.select("form#y1 input[type=hidden]")}
            browser.client.post("/waiting", data={**fields, "do": "approve"})

    assert [call.decided_by for call in shop.sessions.tool_calls("mail-2026-11-21")][-1] == "day shift"


def test_an_inspector_says_which_server_it_connects_to(
    shop: Runtime, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN[::-1]}\n")
    log = str(log_at(tmp_path / "night.db"))
    with Server(shop, tokens=[TOKEN]) as server:
        code = main(["inspect", "--db", log, "--allow-actions", "--server", server.url, "--token-file", str(tokens)])

    assert code == 3
    assert f"connecting to {server.url}" in capsys.readouterr().err


def test_a_server_with_another_log_is_not_acted_through(shop: Runtime, tmp_path: Path) -> None:
    other = log_at(tmp_path / "other.db")
    with (
        Runtime.open(other, environment=MockEnvironmentFactory()) as runtime,
        Source.open(log_at(tmp_path / "night.db")) as source,
    ):
        wait_until(lambda: source.tables.lag() == 0)
        with pytest.raises(ConfigurationError, match="another log"):
            check_same_log(runtime, source)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["inspect", "--allow-actions"], "needs the process that has the log"),
        (["inspect", "--server", "http://127.0.0.1:1"], "are for --allow-actions"),
        (["inspect", "--token-file", "tokens"], "are for --allow-actions"),
        (["serve", "--allow-actions"], "are for --inspect"),
        (["serve", "--by", "ann"], "are for --inspect"),
    ],
)
def test_what_leads_nowhere_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with Runtime.open("log.db", environment=MockEnvironmentFactory()):
        pass

    assert main([*command, "--db", "log.db"]) == 2
    assert said in capsys.readouterr().err


def test_serve_prints_the_address_of_the_pages(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "reenact", "serve", "--db", "log.db", "--port", "0", "--mock", "--inspect"],
        env={**os.environ, "PYTHONPATH": str(Path(reenact.__file__).parent.parent)},
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout is not None
        listening, opening = process.stdout.readline(), process.stdout.readline()
        url = listening.removeprefix("listening on ").strip()
        address = opening.removeprefix("open ").strip()
        response = httpx2.get(address, follow_redirects=False, trust_env=False, verify=False)
        process.terminate()

    assert address.startswith(f"{url}/inspect/?token=")
    assert response.status_code == 303
    assert process.returncode == 0
