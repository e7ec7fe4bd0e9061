"""Whatever strangers have written stands in the pages as text; whatever an address says, the answer is a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from bs4 import BeautifulSoup

from reenact.inspector import Source
from reenact.inspector.fitting import MOST
from reenact.inspector.pages import PAGES
from tests.inspector.browsing import Browser, browsing
from tests.inspector.hostile import HARM, NAME, write_hostile

ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
"""What would act, or not be seen, if it stood in a page."""


@pytest.fixture(scope="module")
def hostile_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.db"
    write_hostile(path)
    return path


@pytest.fixture
def hostile(hostile_log: Path) -> Iterator[Browser]:
    with Source.open(hostile_log) as source, browsing(source) as browser:
        yield browser


def addresses(browser: Browser, path: str) -> Iterator[str]:
    """Yield addresses of the page, of all that is in the log."""
    ids = [NAME, NAME + "many", NAME + "asks", NAME + "branch"]
    ends = [browser.source.log.find(stream=f"session/{one}", backwards=True, limit=1)[0].position for one in ids]
    firsts = [browser.source.log.find(stream=f"session/{one}", limit=1)[0].position for one in ids]
    match path:
        case "/session":
            for one, first in zip(ids, firsts, strict=True):
                for more in ({}, {"show": "events"}, {"show": "json", "talk": "json"}, {"at": first}):
                    yield f"{path}?{urlencode({'id': one, **more})}"
        case "/state":
            for one, first, end in zip(ids, firsts, ends, strict=True):
                yield f"{path}?{urlencode({'id': one, 'at': end})}"
                yield f"{path}?{urlencode({'id': one, 'at': end, 'left': first})}"
        case "/event":
            yield from (f"{path}?at={at}" for at in range(3, 30, 2))
            yield from (f"{path}?at={at}" for at in (*ends, *firsts))
        case "/value":
            yield from (f"{path}?at={at}&start=16384" for at in ends)
        case "/branches" | "/interrupt" | "/branch":
            yield from (f"{path}?{urlencode({'id': one, 'at': end})}" for one, end in zip(ids, ends, strict=True))
        case "/":
            yield from ("/", f"/?{urlencode({'text': HARM})}", f"/?{urlencode({'image': NAME})}", "/?text=script")
        case _:
            yield path


@pytest.mark.no_cover
@pytest.mark.parametrize("path", PAGES)
def test_what_strangers_have_written_stands_there_as_text(hostile: Browser, path: str) -> None:
    for address in addresses(hostile, path):
        response = hostile.client.get(address)

        assert response.status_code in (200, 400, 403, 404), (address, response.text[-2000:])
        if not response.headers["content-type"].startswith("text/html"):
            assert response.headers["content-type"].startswith("text/plain")
            continue
        assert len(response.content) <= MOST, address
        assert not ACTING.search(response.text), (address, ACTING.search(response.text))
        page = BeautifulSoup(response.text, "html.parser")
        assert not page.select("img, iframe, object, embed, base, style, script:not([src]), [style], [srcdoc]"), address
        for element in page.select("*"):
            assert not any(name.startswith("on") for name in element.attrs), (address, element)
            for name in ("href", "src", "action", "formaction", "hx-get", "hx-post"):
                assert re.match(r"/(?!/)|#", str(element.get(name, "/"))), (address, element)


ODD = (
    "%ED%A0%80",
    "%00",
    "%FF%FE",
    "x" * 3_000,
    "-1",
    "9" * 30,
    "9223372036854775807",
    "4611686018427387903",
    "1e5",
    "%E2%80%AE",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "../../etc/passwd",
    "%27%20OR%201=1--",
    "٣",
)


@pytest.mark.parametrize("path", PAGES)
def test_whatever_an_address_says_the_answer_is_a_page(hostile: Browser, path: str) -> None:
    names = (
        "id",
        "at",
        "left",
        "text",
        "image",
        "state",
        "before",
        "after",
        "of",
        "start",
        "show",
        "n",
        "since",
        "keys",
    )
    for odd in ODD:
        for query in ("&".join(f"{name}={odd}" for name in names), f"id={odd}", f"at={odd}", f"text={odd}"):
            response = hostile.client.get(f"{path}?{query}")

            assert response.status_code in (200, 400, 403, 404), (path, query[:200], response.text[-1500:])
            assert not ACTING.search(response.text), (path, query[:200])
            assert "<script>alert" not in response.text
