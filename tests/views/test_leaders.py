"""Of several processes that keep the same projections one calls the functions; the others wait for it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from sqlalchemy import Connection

from reenact import Projections, ReadModelBehindError, ReadModelError
from reenact.projections import Row, on
from reenact.testing import wait_until
from tests.journal.server import Server
from tests.views.support import Said, WatchedLog, Words, counted, found, say

Open = Callable[["CalledWords"], Projections]


class CalledWords(Words):
    """Counts words in the process of this name, and says which it has counted."""

    leader = ""
    shuns = ""

    def __init__(self, process: str) -> None:
        self.process = process
        self.called: list[str] = []

    @on(Said)
    def count(self, write: Connection, event: Said, row: Row) -> None:
        if event.word == CalledWords.shuns:
            raise ValueError(f"{event.word} is not said")
        self.called.append(event.word)
        super().count(write, event, row)


class CalledTwice(CalledWords):
    """The next version, which counts twice."""

    version = 2
    per_word = 2


@pytest.fixture
def opened(server: Server, log: WatchedLog, monkeypatch: pytest.MonkeyPatch) -> Generator[Open]:
    monkeypatch.setattr(CalledWords, "leader", "one")
    monkeypatch.setattr(CalledWords, "shuns", "")
    url = server.new_log()
    with ExitStack() as undo:

        def open_one(words: CalledWords) -> Projections:
            is_leader = lambda: CalledWords.leader == words.process  # noqa: E731 - it is handed on
            return undo.enter_context(Projections.open_beside(url, log, [words], is_leader=is_leader))

        yield open_one


@pytest.fixture
def waiting() -> Generator[Callable[[Projections], Future[None]]]:
    with ThreadPoolExecutor(4) as threads:
        yield lambda projections: threads.submit(projections.wait_for, None, 60)


def test_only_the_leader_calls_the_functions_and_all_read_what_it_has_written(opened: Open, log: WatchedLog) -> None:
    one, other = CalledWords("one"), CalledWords("other")
    here, there = opened(one), opened(other)

    for word in "abc":
        say(log, word)
        there.wait_for(timeout=60)
        assert found(there, Words) == (log.head(), counted(log.rows))

    here.wait_for(timeout=60)
    assert (one.called, other.called) == (["a", "b", "c"], [])


def test_who_waits_while_nobody_keeps_them_waits_for_the_next_leader(
    opened: Open, log: WatchedLog, waiting: Callable[[Projections], Future[None]]
) -> None:
    one, other = CalledWords("one"), CalledWords("other")
    here, there = opened(one), opened(other)
    say(log, "a")
    there.wait_for(timeout=60)
    CalledWords.leader = ""
    here.close()

    say(log, "b")
    waits = waiting(there)
    with pytest.raises(ReadModelBehindError):
        there.wait_for(timeout=0.05)
    assert other.called == []
    CalledWords.leader = "other"

    waits.result(timeout=60)
    assert found(there, Words) == (log.head(), counted(log.rows))
    assert (one.called, other.called) == (["a"], ["b"])


def test_a_leader_that_cannot_go_on_is_told_of_everywhere_until_it_does(opened: Open, log: WatchedLog) -> None:
    here, there = opened(CalledWords("one")), opened(CalledWords("other"))
    CalledWords.shuns = "ugh"
    say(log, "ugh")

    with pytest.raises(ReadModelError, match="ugh is not said"):
        there.wait_for(timeout=60)
    assert there.status()[0].health == "troubled"
    wait_until(lambda: here.status()[0].health == "stopped")  # it has told the others first
    CalledWords.shuns = ""
    here.retry("words")
    wait_until(lambda: there.status()[0].health == "running", what="the leader's next try")

    there.wait_for(timeout=60)
    assert found(there, Words) == (log.head(), counted(log.rows))


def test_tables_that_the_leader_has_made_anew_are_what_the_others_wait_for(opened: Open, log: WatchedLog) -> None:
    here, there = opened(CalledWords("one")), opened(CalledWords("other"))
    say(log, "a")
    there.wait_for(timeout=60)

    here.rebuild("words")
    say(log, "b")
    there.wait_for(timeout=60)

    assert found(there, Words) == (log.head(), counted(log.rows))


@pytest.mark.parametrize("first", ["one", "other"])
def test_tables_of_another_version_are_made_anew_by_the_leader(opened: Open, log: WatchedLog, first: str) -> None:
    say(log, "a", "b")
    former = opened(CalledWords("one"))
    former.wait_for(timeout=60)
    former.close()
    one, other = CalledTwice("one"), CalledTwice("other")
    processes = [one, other] if first == "one" else [other, one]
    for projections in [opened(process) for process in processes]:
        projections.wait_for(timeout=60)
        assert found(projections, CalledTwice) == (2, {"a": 2, "b": 2})

    assert (one.called, other.called) == (["a", "b"], [])


def test_the_next_leader_makes_the_tables_of_another_version(opened: Open, log: WatchedLog) -> None:
    say(log, "a")
    former = opened(CalledWords("one"))
    former.wait_for(timeout=60)
    former.close()
    other = CalledTwice("other")
    there = opened(other)
    with pytest.raises(ReadModelBehindError):
        there.wait_for(timeout=0.05)
    assert other.called == []

    CalledWords.leader = "other"

    there.wait_for(timeout=60)
    assert found(there, CalledTwice) == (1, {"a": 2})


def test_new_tables_that_were_begun_are_left_to_the_leader(opened: Open, log: WatchedLog) -> None:
    say(log, "a")
    here = opened(CalledWords("one"))
    here.wait_for(timeout=60)
    here._hosted["words"]._create(2)
    other = CalledWords("other")

    there = opened(other)
    job = there._hosted["words"]._rebuild_thread
    assert job is not None
    job.join(timeout=60)

    assert there._hosted["words"]._unfinished() == [2]
    assert other.called == []
