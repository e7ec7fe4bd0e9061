"""Chromium for tests: one browser in a test run, a page as if it were new for each test; nothing leaves the machine."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from importlib.resources import files
from typing import TypeVar
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Request,
    ViewportSize,
    WebSocket,
    sync_playwright,
)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""The system's Chromium. Playwright downloads one otherwise, which no test may."""
OURS = ("127.0.0.1", "localhost", "[::1]")
ARGUMENTS = (
    f"--host-resolver-rules=MAP * ~NOTFOUND, {', '.join(f'EXCLUDE {name}' for name in OURS)}",
    "--disable-gpu",
    "--in-process-gpu",
    "--force-prefers-reduced-motion",
)
SIZE: ViewportSize = {"width": 1280, "height": 720}
PATIENCE = 30.0
"""Seconds that the browser may take for what it is told."""
_VIOLATIONS = """async () => (await axe.run()).violations.map(
  (one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`)"""

T = TypeVar("T")


class Tab:
    """A page of the browser. Playwright is used on the browser's thread alone: `tab(lambda page: page.title())`.

    On the test's own thread it would leave an event loop running, on which nothing of ours may block.
    """

    def __init__(self, chromium: Chromium, page: Page) -> None:
        self._chromium = chromium
        self._page = page
        self.said: list[str] = []
        """What the page has written to its console, and the exceptions that it did not catch."""
        self.requested: list[str] = []
        """The address of everything that it has asked for, WebSockets too."""
        page.on("console", self._has_said)
        page.on("pageerror", self._has_raised)
        page.on("request", self._has_asked)
        page.on("websocket", self._has_asked)

    def __call__(self, steps: Callable[[Page], T]) -> T:
        """Return what the steps return, which are carried out on the browser's thread."""
        return self._chromium.do(lambda: steps(self._page))

    def violations(self) -> list[str]:
        """Return what makes the page inaccessible, according to axe: rule, and the elements that break it."""
        axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        self(lambda page: page.evaluate(axe))
        found: list[str] = self(lambda page: page.evaluate(_VIOLATIONS))
        return found

    def close(self) -> None:
        """Leave the page, and with it what it keeps; fail if it has asked somebody elsewhere for something."""
        self._chromium.do(self._leave)
        elsewhere = [url for url in self.requested if not _is_here(url)]
        assert not elsewhere, f"the page has sent requests elsewhere: {elsewhere}"

    def _leave(self) -> None:
        page = self._page
        page.evaluate("location.protocol.startsWith('http') && localStorage.clear()")
        page.goto("about:blank")
        page.context.clear_cookies()
        page.context.clear_permissions()
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(SIZE)
        page.remove_listener("console", self._has_said)
        page.remove_listener("pageerror", self._has_raised)
        page.remove_listener("request", self._has_asked)
        page.remove_listener("websocket", self._has_asked)

    def _has_said(self, message: ConsoleMessage) -> None:
        self.said.append(f"{message.type}: {message.text}")

    def _has_raised(self, error: Error) -> None:
        self.said.append(f"exception: {error}")

    def _has_asked(self, asked: Request | WebSocket) -> None:
        self.requested.append(asked.url)


class Chromium:
    """The browser, and the thread on which it is used."""

    def __init__(self, browser: Browser, orders: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        self._browser = browser
        self._orders = orders
        self._page: Page | None = None

    def do(self, work: Callable[[], T]) -> T:
        """Return what the work returns, which is done on the browser's thread."""
        done: Future[T] = Future()

        def order() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - the test raises it
                done.set_exception(error)

        self._orders.put(order)
        return done.result()

    def tab(self) -> Tab:
        """Return a page that knows nothing of those before: it is the same one, for to open one takes much longer."""

        def open_page() -> Tab:
            if self._page is None:
                self._page = self._browser.new_context(locale="en-GB", timezone_id="UTC", viewport=SIZE).new_page()
                self._page.set_default_timeout(PATIENCE * 1000)
            return Tab(self, self._page)

        return self.do(open_page)


@contextlib.contextmanager
def running_chromium(program: str) -> Generator[Chromium]:
    """Start the browser; it is gone at the end."""
    started: Future[Browser] = Future()
    orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def serve() -> None:
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=program, args=ARGUMENTS, chromium_sandbox=os.getuid() != 0
                )
                started.set_result(browser)
                while (order := orders.get()) is not None:
                    order()
                browser.close()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=serve, name="browser")
    thread.start()
    try:
        yield Chromium(started.result(), orders)
    finally:
        orders.put(None)
        thread.join()


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1") or url.startswith(("data:", "blob:", "about:"))
