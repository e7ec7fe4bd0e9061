"""A text is searched in the newest messages of a session, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import Image, Runtime
from reenact.projections.read_model import session_list
from reenact.projections.read_model.reader_tables import ReaderTables
from reenact.projections.read_model.session_list import Filters, Search, search
from reenact.testing import MockEnvironmentFactory
from tests.projections.opened import reader_tables_of


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReaderTables]:
    """Tables with a session of six messages, of which four are searched, two at a time."""
    monkeypatch.setattr(session_list, "_AT_ONCE", 2)
    monkeypatch.setattr(session_list, "MESSAGES", 4)
    path = tmp_path / "log.db"
    with Runtime.open(path, environment=MockEnvironmentFactory(delays=False), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="chat"))
        runtime.sessions.create("home", "chat", session_id="talk")
        for fruit in ("apples", "pears", "plums"):
            runtime.ask(f"Any {fruit}?", session="talk")
    with reader_tables_of(str(path)) as tables:
        yield tables


def searched(tables: ReaderTables, text: str) -> Search:
    return search(tables, Filters(), text, before=None, limit=10, seconds=60)


@pytest.mark.parametrize(("text", "count"), [("PLUMS", 1), ("pears", 1), ("apples", 0), ("talk", 1)])
def test_the_newest_messages_are_searched(tables: ReaderTables, text: str, count: int) -> None:
    found = searched(tables, text)

    assert (len(found.found), found.cut) == (count, 1 - count)
    assert (found.looked_at, found.until) == (1, None)
