"""Tables of one's own that follow the log."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest
from pytest_bdd import given, parsers, scenarios, then, when
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select, update

from reenact import Image, ProjectionFailedError, ProjectionMistakeError, ProjectionStatus, Runtime
from reenact.projections import Progress, Projection, Row, on
from reenact.projections.events import MessageAccepted
from reenact.projections.views.transactions import PROGRESS
from reenact.testing import MockEnvironmentFactory, wait_until
from tests.logs import log_at
from tests.views.support import Said

scenarios("projections.feature")


class Words(Projection):
    """How often each word was said."""

    name = "words"
    tables = MetaData()
    words = Table("words", tables, Column("word", Text, primary_key=True), Column("count", Integer, nullable=False))

    @on(MessageAccepted)
    def take_in(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        for word in text_of(event).split():
            known = update(self.words).where(self.words.c.word == word)
            if not write.execute(known.values(count=self.words.c.count + self.weight(word))).rowcount:
                write.execute(insert(self.words).values(word=word, count=self.weight(word)))

    def weight(self, word: str) -> int:
        """Return for how much a word counts."""
        return 1


class Letters(Words):
    """The next version: how many letters were said in each word."""

    version = 2

    def weight(self, word: str) -> int:
        return len(word)


class Other(Words):
    """Cannot take in everything."""

    name = "other"
    shuns: ClassVar[str] = ""

    @on(MessageAccepted)
    def take_in(self, write: Connection, event: MessageAccepted, row: Row) -> None:
        if self.shuns and self.shuns in text_of(event):
            raise ValueError(f"{self.shuns} cannot be taken in")
        super().take_in(write, event, row)


def text_of(event: MessageAccepted) -> str:
    """Return what a user said."""
    return "".join(getattr(block, "text", "") for block in event.content)


class Talk:
    """A runtime in which a user talks, and what was seen of its projections."""

    def __init__(self, log: str) -> None:
        self.log = log
        self.said: list[str] = []
        self.told: list[Progress] = []
        self.looks: list[tuple[int, dict[str, int]]] = []
        self.before: dict[str, int] = {}
        self.refused: ProjectionMistakeError | None = None
        self._runtime: Runtime | None = None

    @property
    def runtime(self) -> Runtime:
        assert self._runtime is not None
        return self._runtime

    def open(self, *projections: Projection) -> None:
        self.close()
        mock = MockEnvironmentFactory(delays=False)
        self._runtime = Runtime.open(self.log, environment=mock, synchronous="OFF", projections=projections)
        if self._runtime.sessions.get("talk") is None:
            self._runtime.containers.create(container_id="c")
            self._runtime.images.register(Image(id="chat"))
            self._runtime.sessions.create("c", "chat", session_id="talk")

    def say(self, *texts: str) -> None:
        agent_id = self.runtime.sessions.run("talk")
        for text in texts:
            self.runtime.agents.receive(agent_id, text)
            self.said.append(text)

    def look(self) -> tuple[int, dict[str, int]]:
        with self.runtime.projections.read(Words) as connection:
            position = connection.execute(select(PROGRESS.c.position)).scalar_one()
            rows: dict[str, int] = dict(connection.execute(select(Words.words)).all())
            return position, rows

    def status(self, name: str) -> ProjectionStatus:
        return next(one for one in self.runtime.projections.status() if one.name == name)

    def close(self) -> None:
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = None


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Talk]:
    monkeypatch.setattr(Other, "shuns", "")
    talk = Talk(log_at(tmp_path / "agents.db"))
    yield talk
    talk.close()


@given("a projection that counts the words of the users")
def the_projection(talk: Talk) -> None:
    assert Words.name == "words"


@given("a runtime with the projection")
def a_runtime_with_it(talk: Talk) -> None:
    talk.open(Words())


@given(parsers.parse('a runtime in which a user has said "{text}"'))
def a_runtime_without_it(talk: Talk, text: str) -> None:
    talk.open()
    talk.say(text)


@given(parsers.parse('a runtime with the projection, and with one that cannot take in "{text}"'))
def a_runtime_with_both(talk: Talk, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Other, "shuns", text)
    talk.open(Words(), Other())


@given(parsers.parse('a user has said "{text}"'))
@when(parsers.parse('a user says "{text}"'))
def a_user_says(talk: Talk, text: str) -> None:
    talk.say(*text.split('" and "'))
    talk.runtime.projections.wait_for(timeout=60, of="words")


@given("the other projection has stopped")
def it_has_stopped(talk: Talk) -> None:
    wait_until(lambda: talk.status("other").health == "stopped", timeout=60)


@when("the runtime is closed and opened again with the projection")
def it_is_opened_again(talk: Talk) -> None:
    talk.open(Words())


@when("the runtime is closed and opened again with a version that counts letters")
def it_is_opened_with_letters(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    may_begin = threading.Event()
    weight = Letters.weight

    def wait_and_weigh(self: Letters, word: str) -> int:
        assert may_begin.wait(60)
        return weight(self, word)

    monkeypatch.setattr(Letters, "weight", wait_and_weigh)
    talk.open(Letters())
    _, talk.before = talk.look()
    may_begin.set()


@when("it is mended and started again")
def it_is_mended(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Other, "shuns", "")
    talk.runtime.projections.retry("other")


@when("the projection is rebuilt")
def it_is_rebuilt(talk: Talk) -> None:
    talk.runtime.projections.rebuild(Words, progress=talk.told.append)


@when("the runtime's own tables are rebuilt")
def the_runtime_s_own_are_rebuilt(talk: Talk) -> None:
    talk.runtime.projections.rebuild()


@when(parsers.parse('the projection is rebuilt, while a user says "{text}" and looks at the words again and again'))
def it_is_rebuilt_meanwhile(talk: Talk, text: str) -> None:
    talk.runtime.projections.wait_for(timeout=60)
    with ThreadPoolExecutor(1) as threads:
        rebuilding = threads.submit(talk.runtime.projections.rebuild, Words)
        talk.say(text)
        while not rebuilding.done():
            talk.looks.append(talk.look())
        rebuilding.result(timeout=60)
    talk.looks.append(talk.look())


@when(parsers.parse("a runtime is opened with a projection that has {mistake}"))
def it_is_opened_with_a_mistake(talk: Talk, mistake: str) -> None:
    async def take_in(self: Words, write: Connection, event: MessageAccepted, row: Row) -> None:
        """Come too late."""

    def count(self: Words, write: Connection, event: Said, row: Row) -> None:
        """Wait in vain."""

    mistakes: dict[str, dict[str, object]] = {
        "no name": {"name": ""},
        "no table": {"tables": MetaData()},
        "an async function": {"take_in": on(MessageAccepted)(take_in)},
        "somebody's event": {"count": on(Said)(count)},
        "the name of another": {},
    }
    mistaken: Projection = type("Mistaken", (Words,), mistakes[mistake])()
    with pytest.raises(ProjectionMistakeError) as refused:
        talk.open(Words(), mistaken) if mistake == "the name of another" else talk.open(mistaken)
    talk.refused = refused.value


@then("the words should be:")
def the_words_are(talk: Talk, datatable: Sequence[Sequence[str]]) -> None:
    talk.runtime.projections.wait_for(timeout=60, of="words")
    _, words = talk.look()
    assert words == {word: int(count) for word, count in datatable}


@then("the projection should have come to the end of the log")
def it_is_at_the_end(talk: Talk) -> None:
    wait_until(lambda: talk.status("words").lag == 0, timeout=60)


@then("the other projection should have come to the end of the log")
def the_other_is_at_the_end(talk: Talk) -> None:
    talk.runtime.projections.wait_for(timeout=60)
    wait_until(lambda: talk.status("other").lag == 0, timeout=60)
    assert talk.status("other").health == "running"


@then(parsers.parse('the other projection should have stopped before the message "{text}"'))
def it_stopped_before(talk: Talk, text: str) -> None:
    with pytest.raises(ProjectionFailedError, match=f"{text} cannot be taken in"):
        talk.runtime.projections.wait_for(timeout=60, of="other")
    with talk.runtime.projections.read("other") as connection:
        assert [row[0] for row in connection.execute(select(Other.words))] == talk.said[: talk.said.index(text)]


@then("its status should name the event")
def its_status_names_the_event(talk: Talk) -> None:
    status = talk.status("other")
    assert status.health == "stopped"
    assert status.failure is not None
    assert (status.failure.event_type, status.failure.stream) == ("MessageAccepted", "session/talk")
    assert status.failure.position == status.position + 1


@then("every message should have its answer")
def every_message_has_its_answer(talk: Talk) -> None:
    def answered() -> bool:
        messages = talk.runtime.sessions.messages("talk")
        return Counter(message.role for message in messages) == {"user": len(talk.said), "assistant": len(talk.said)}

    wait_until(answered, timeout=60)


@then("every look should have shown all that had been said and taken in until then")
def every_look_was_whole(talk: Talk) -> None:
    assert [position for position, _ in talk.looks] == sorted(position for position, _ in talk.looks)
    assert all(words in ({"apples": 1}, {"apples": 1, "pears": 1}) for _, words in talk.looks)


@then("its progress should have been told from nothing to everything")
def progress_was_told(talk: Talk) -> None:
    assert talk.told[0].done == 0
    assert talk.told[-1].done == talk.told[-1].total


@then("the former words should be there until the letters are")
def the_former_words_were_there(talk: Talk) -> None:
    assert talk.before == {"apples": 2, "and": 1}


@then(parsers.parse('it should be refused, because of "{reason}"'))
def it_is_refused(talk: Talk, reason: str) -> None:
    assert talk.refused is not None
    assert reason in str(talk.refused)
