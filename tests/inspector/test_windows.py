"""Windows of a session's history, also of a log that has lost some of it, and what its events tell together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from reenact.domain.attachments import ImageBlock, UrlSource
from reenact.domain.errors import InvalidInputError, LogUnusableError, SessionNotFoundError
from reenact.domain.messages import TextBlock
from reenact.domain.session.agent import (
    AgentStarted,
    AnswerRecorded,
    ContextCompressed,
    MessageAccepted,
    ResultsRecorded,
)
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionDeleted
from reenact.inspector.conversation import conversation_of
from reenact.inspector.pages.session import state_of
from reenact.inspector.phrases import used
from reenact.inspector.relations import Relations
from reenact.inspector.windows import SIZE, History
from reenact.projections.log import InMemoryLog, InMemoryRow
from tests.inspector.browsing import Browser

CREATED = SessionCreated("talk", "home", "chat", 1)
ASKED = MessageAccepted("trn_1", "msg_1", (TextBlock("Hello"),), 0)


def log_of(*events: object, stream: str = "session/talk", versions: Sequence[int] = ()) -> InMemoryLog:
    """Return a log that has these events in one stream, one a second."""
    numbers = versions or range(1, len(events) + 1)
    rows = [
        InMemoryRow(stream, version, position, position * 1_000_000, event, None)
        for position, (version, event) in enumerate(zip(numbers, events, strict=True), 1)
    ]
    return InMemoryLog(rows, len(rows))


@pytest.mark.parametrize("number", [1, 250, 400, 500])
def test_a_window_has_as_many_events_as_there_are_up_to_its_size(number: int) -> None:
    history = History(log_of(CREATED, *[AgentStarted("agt_1")] * 499), "talk")

    window = history.until(number)

    assert [row.version for row in window.own] == list(range(window.first, window.last + 1))
    assert len(window.own) == SIZE
    assert window.first <= number <= window.last
    assert window.is_end == (number == 500)


def test_a_branch_goes_on_with_the_numbers_of_its_origin(night: Browser) -> None:
    rows = night.source.log.find(names=["session-branched"])
    for row in rows:
        assert isinstance(row.event, SessionBranched)
        history = History(night.source.log, row.event.session_id)
        events = history.rows(1, history.count)
        assert [history.number_at(one.position) for one in events] == list(range(1, history.count + 1))
        assert events[row.event.version if len(history.parts) == 2 else -1].position >= row.position - history.count


@pytest.mark.parametrize("session_id", ["nobody", "", "\ud800"])
def test_a_session_that_is_not_there_has_no_history(session_id: str) -> None:
    with pytest.raises(SessionNotFoundError):
        History(log_of(CREATED), session_id)


def test_a_position_before_the_session_or_behind_the_log_is_refused() -> None:
    rows = [InMemoryRow("session/talk", 1, 5, 0, CREATED, None)]
    history = History(InMemoryLog(rows, 7), "talk")

    assert history.number_at(7) == 1
    with pytest.raises(InvalidInputError, match="begins at position 5, behind 4"):
        history.number_at(4)
    with pytest.raises(InvalidInputError, match="the log ends at 7"):
        history.number_at(8)


def test_a_log_that_has_lost_events_says_so() -> None:
    history = History(log_of(CREATED, ASKED, ASKED, versions=(1, 2, 4)), "talk")

    with pytest.raises(LogUnusableError, match="are missing"):
        history.rows(1, 4)


@pytest.mark.parametrize(("origin", "problem"), [("lost", "does not have the beginning"), ("talk", "begins later")])
def test_a_log_that_has_lost_what_a_branch_begins_with_says_so(origin: str, problem: str) -> None:
    log = log_of(SessionBranched("talk", "home", "chat", 1, origin, 3, "00"), ASKED)

    with pytest.raises(LogUnusableError, match=problem):
        History(log, "talk")


def test_what_is_no_text_is_named_and_what_was_summarised_stands_where_it_was() -> None:
    image = ImageBlock(UrlSource("https://example.com/a.png"))
    asked = msgspec.structs.replace(ASKED, content=(image,))
    summary = ContextCompressed("trn_1", "They said hello.", 2, {}, None, None, 0)
    history = History(log_of(CREATED, asked, summary), "talk")
    window = history.until(history.count)

    said = conversation_of(Relations(window.rows), window)

    assert [(one.who, part.kind, part.name) for one in said for part in one.parts] == [
        ("user", "other", "image"),
        ("model", "text", ""),
    ]
    assert "example.com" in said[0].parts[0].value.text
    assert said[1].note == "in place of the first 2 messages, for the model"


def test_an_answer_that_was_cut_short_says_so() -> None:
    answer = AnswerRecorded("trn_1", "msg_2", (TextBlock("He"),), "interrupted", True, {}, None, 0)  # noqa: FBT003 - as the log has it
    history = History(log_of(CREATED, ASKED, answer), "talk")
    window = history.until(history.count)

    said = conversation_of(Relations(window.rows), window)

    assert said[-1].note == "in part: interrupted"
    assert used({}) == "tokens unknown"


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((CREATED,), "new"),
        ((CREATED, SessionDeleted("talk")), "deleted"),
        ((CREATED, ResultsRecorded(None, "msg_1", (), 0)), "idle"),
        ((CREATED, ResultsRecorded("trn_1", "msg_1", (), 0), AgentStarted("agt_1")), "answers"),
    ],
)
def test_the_last_events_tell_what_a_session_is_at(events: tuple[object, ...], state: str) -> None:
    assert state_of(log_of(*events).read("session/talk")) == state


def test_of_a_message_of_very_many_parts_the_first_are_shown() -> None:
    blocks = tuple(TextBlock(f"Part {number}. ") for number in range(100))
    history = History(log_of(CREATED, *[msgspec.structs.replace(ASKED, content=blocks)] * 9), "talk")
    window = history.until(history.count)

    said = conversation_of(Relations(window.rows), window)

    assert [(len(one.parts), one.more) for one in said] == [(40, 60)] * 9
