"""Families of sessions: what has branched off from what, and where."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bs4 import BeautifulSoup

from reenact import Runtime
from reenact.inspector import Source
from reenact.testing import wait_until
from tests.inspector.browsing import Browser, browsing, words


def tree(page: BeautifulSoup) -> list[tuple[str, int]]:
    """Return the sessions that are shown, each with how deep it stands."""
    return [
        (words(label.select_one(".name")), next(int(name[3:]) for name in label["class"] if name.startswith("in-")))
        for label in page.select(".tree .label")
    ]


def test_each_session_stands_under_the_one_that_it_branches_off_from(night: Browser) -> None:
    page = night.page("/branches")

    assert [words(one) for one in page.select("section h2")] == ["refunds", "poem"]
    assert [depth for _, depth in tree(page)] == [0, 1, 0, 1, 2]
    assert "3 sessions have branches 3 branches" in words(page.select_one(".facts"))
    drawn = page.select(".tree svg")[1]["aria-label"]
    assert "branched off from refunds at " in drawn
    compare = page.select_one(".tree a.button")
    assert compare is not None
    assert "/state?id=ses_" in str(compare["href"])


def test_the_family_of_one_session_is_found_from_any_of_its_sessions(night: Browser) -> None:
    last = tree(night.page("/branches"))[-1][0]

    page = night.page(f"/branches?id={last}")

    assert [words(one) for one in page.select("section h2")] == ["poem"]
    night.page("/branches?id=nobody", 404)


def test_a_session_without_branches_is_a_family_of_its_own(night: Browser) -> None:
    assert "has no branches" in words(night.page("/branches?id=newsletter"))


@pytest.fixture
def many(runtime: Runtime, log: str) -> Iterator[Browser]:
    """Return a browser at a log with a family of 71 sessions, one of which is deleted, and 25 families of two."""
    runtime.containers.create(container_id="default")
    runtime.sessions.create("default", "chat", session_id="large")
    branches = [runtime.sessions.branch("large") for _ in range(70)]
    runtime.sessions.delete(branches[-1].id)
    for number in range(25):
        runtime.sessions.create("default", "chat", session_id=f"small-{number}")
        runtime.sessions.branch(f"small-{number}")
    with Source.open(log) as source:
        wait_until(lambda: source.tables.lag() == 0)
        with browsing(source) as browser:
            yield browser


def test_many_families_are_read_page_by_page_and_so_is_a_large_one(many: Browser) -> None:
    pages = [many.page("/branches")]
    while (further := pages[-1].select_one("nav[aria-label='More families'] a[rel=next]")) is not None:
        pages.append(many.page(str(further["href"])))

    names = [[words(one) for one in page.select("section h2")] for page in pages]
    assert names == [[f"small-{n}" for n in range(24, 4, -1)], [f"small-{n}" for n in range(4, -1, -1)], ["large"]]
    assert "1 to 60 of 71" in words(pages[-1])
    further = pages[-1].select_one("nav[aria-label='More of large'] a[rel=next]")
    assert further is not None
    rest = many.page(str(further["href"]))
    assert "61 to 71 of 71" in words(rest)
    assert words(rest.select(".tree li")[-1]).endswith("deleted")
    found = many.page(f"/branches?id={tree(rest)[0][0]}")
    assert tree(found) == tree(rest)
