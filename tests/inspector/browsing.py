"""A browser without script: it keeps the cookie, follows redirects, and reads pages with a parser."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import httpx2
from bs4 import BeautifulSoup, Tag

from reenact.actors.api.asking import Asking
from reenact.inspector import Inspector, Source


class Browser:
    """What has opened the inspector's address."""

    def __init__(self, inspector: Inspector, source: Source) -> None:
        self.inspector = inspector
        self.source = source
        self.client = httpx2.Client(
            base_url=inspector.url, follow_redirects=True, trust_env=False, verify=False, timeout=60
        )
        self.client.get(inspector.address)
        assert self.client.cookies

    def page(self, address: str, status: int = 200) -> BeautifulSoup:
        """Return the page, which comes with this status."""
        response = self.client.get(address)
        assert response.status_code == status, response.text
        return BeautifulSoup(response.text, "html.parser")


def texts(page: Tag, selector: str) -> list[str]:
    """Return the texts of what is selected, each on one line."""
    return [" ".join(one.get_text().split()) for one in page.select(selector)]


def attribute(tag: Tag | None, name: str) -> str:
    """Return the attribute of an element that must be there."""
    assert tag is not None
    return str(tag[name])


@contextmanager
def browsing(source: Source, owner: Asking | None = None, by: str = "") -> Generator[Browser]:
    """Serve the pages of the source to a browser, where people may act if there is an owner."""
    with Inspector(source, owner=owner, by=by) as inspector:
        browser = Browser(inspector, source)
        try:
            yield browser
        finally:
            browser.client.close()


def words(found: Tag | None) -> str:
    """Return what stands there, on one line."""
    assert found is not None
    return " ".join(found.get_text(" ").split())
