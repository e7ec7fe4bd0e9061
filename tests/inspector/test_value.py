"""Values that are too long for a page: a part at a time, as text, or all as a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact import Runtime
from reenact.inspector.fitting import MOST
from reenact.inspector.text import CUT, line, visible, within
from reenact.inspector.values import LEAST, room_of, value_of
from tests.inspector.browsing import Browser, attribute, texts


@pytest.fixture
def told(runtime: Runtime, browser: Browser) -> str:
    """Return a message of some megabytes, which somebody has sent."""
    text = "".join(f"{number:07} <b>\u202e\n" for number in range(200_000))
    runtime.sessions.create("default", "chat", session_id="big")
    runtime.ask(text, session="big")
    return text


def test_of_a_long_value_a_page_has_the_beginning_and_the_rest_has_an_address(browser: Browser, told: str) -> None:
    page = browser.page("/session?id=big")

    shown = page.select("#talk .you .text")[0].get_text()
    address = attribute(page.select_one("#talk .you .more"), "href")
    start = int(address.rpartition("=")[2])
    assert 4_000 < start <= CUT
    assert shown == told[:start].replace("\u202e", "\\u202e")
    part = browser.page(address).select_one("pre.whole")
    assert part is not None
    shown = part.get_text()
    assert shown == told[start:].replace("\u202e", "\\u202e")[: len(shown)]
    assert len(shown) > CUT


def test_parts_of_a_value_follow_each_other(browser: Browser, told: str) -> None:
    page = browser.page("/session?id=big")
    position = page.select("#talk .you")[0]["id"]
    address = f"/value?at={str(position)[1:]}&of=content.0.text"

    first = browser.page(address)
    second = browser.page(attribute(first.select_one("a[rel=next]"), "href"))

    read = "".join(one.get_text() for page in (first, second) for one in page.select("pre.whole"))
    assert read == told.replace("\u202e", "\\u202e")[: len(read)]
    assert all(len(str(page).encode()) <= MOST for page in (first, second))
    assert texts(first, ".facts span") == ["3.0 MB", "2 600 000 characters"]


def test_a_value_can_be_saved_as_a_file_of_plain_text(browser: Browser, told: str) -> None:
    position = str(browser.page("/session?id=big").select("#talk .you")[0]["id"])[1:]

    response = browser.client.get(f"/value?at={position}&of=content.0.text&as=file")

    assert response.text == told
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.headers["content-disposition"] == f'attachment; filename="position-{position}.txt"'


@pytest.mark.parametrize("of", ["nothing", "content.9", "content.x", "content.-1", "content.0.text.0"])
def test_a_value_that_the_event_does_not_have_is_refused(browser: Browser, of: str) -> None:
    position = str(browser.page("/session?id=greeting").select("#talk .you")[0]["id"])[1:]

    assert "this event has no value" in browser.page(f"/value?at={position}&of={of}", 400).get_text()


def test_without_a_path_it_is_the_record(browser: Browser) -> None:
    assert '"type": "image-registered"' in browser.page("/value?at=1").get_text()


@pytest.mark.parametrize(
    ("lengths", "room", "shown"),
    [([], 100, LEAST), ([10, 20], 1000, 990), ([10, 5000, 9000], 4010, 2000), ([5000] * 100, 1000, LEAST)],
)
def test_short_values_are_whole_and_long_ones_share_the_room(lengths: list[int], room: int, shown: int) -> None:
    assert room_of([value_of(1, "", "x" * length) for length in lengths], room) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it\nis", "as it\nis"),
        (None, ""),
        ({"folder": "inbox", "limit": 2, "of": ["a"]}, 'folder: inbox\nlimit: 2\nof: ["a"]\n'),
        ([{"id": 1}, {"id": 2}], '{"id": 1}\n{"id": 2}'),
        ([{"type": "text", "text": "a\nb"}], "a\nb"),
        ([1, "x"], '[1, "x"]'),
        (2.5, "2.5"),
    ],
)
def test_values_are_written_as_people_read_them(value: object, text: str) -> None:
    assert value_of(1, "x", value).text == text


@pytest.mark.parametrize(
    ("value", "room", "written", "end"),
    [
        ("<b>\u202e", 100, '&lt;b&gt;<span class="esc">\\u202e</span>', 4),
        ("<b>\u202e", 20, "&lt;b&gt;", 3),
        ("<b>\u202e", 6, "&lt;b", 2),
        ("e\u0301" * 9, 7, "e\u0301e\u0301e", 5),
        ("日本語", 7, "日本", 2),
        ({"a": "1", "b": "2"}, 100, '<span class="key">a:</span> 1\n<span class="key">b:</span> 2', 10),
        ({"a": "1", "b": "2"}, 40, '<span class="key">a:</span> 1', 5),
        ({"a": "12345", "b": "2"}, 31, '<span class="key">a:</span> 123', 6),
        ("", 10, "", 0),
    ],
)
def test_of_a_value_a_page_has_so_many_bytes(value: object, room: int, written: str, end: int) -> None:
    html, shown = value_of(1, "x", value).html(room)

    assert (html, shown) == (written, end)
    assert len(html.encode()) <= room


@given(st.text() | st.text("\u202e<e\u0301\n.日"), st.integers(1, 60))
def test_what_is_shown_of_a_text_is_its_beginning_as_all_of_it_would_be_shown(text: str, room: int) -> None:
    html, length = within(text, room)

    assert len(html.encode()) <= room
    assert html == visible(text[:length])
    assert length == len(text) or len(visible(text).encode()) > room


@given(st.text("\u202e<e\u0301.日 "), st.integers(2, 40))
def test_a_line_has_no_more_characters_than_it_may(text: str, width: int) -> None:
    shown = line(text, width)

    assert len(shown.striptags()) <= width
    assert shown.endswith("…") or shown == visible(" ".join(text[: 4 * width].split()))
