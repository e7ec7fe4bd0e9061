"""What is refused of a request before anybody looks at the log."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.operations.checks import checked
from reenact.domain.operations.table import (
    MessageSendRequest,
    Request,
    SessionCreateRequest,
    SessionForgetRequest,
    SessionPageRequest,
)


@pytest.mark.parametrize(
    "request_",
    [
        MessageSendRequest(content="Hello"),
        MessageSendRequest(agent_id="a", session_id="s", content="Hello"),
        MessageSendRequest(agent_id="a", container_id="c", content="Hello"),
        MessageSendRequest(session_id="s", container_id="c", content="Hello"),
    ],
)
def test_a_message_has_one_receiver(request_: MessageSendRequest) -> None:
    with pytest.raises(InvalidInputError):
        checked(request_)


@pytest.mark.parametrize(
    "request_",
    [
        MessageSendRequest(agent_id="a", content="Hello"),
        MessageSendRequest(session_id="s", content="Hello"),
        MessageSendRequest(image_id="i", container_id="c", content="Hello"),
    ],
)
def test_a_message_to_one_receiver_is_let_through(request_: MessageSendRequest) -> None:
    assert checked(request_) == request_


def test_sessions_are_those_of_a_container_or_of_a_parent() -> None:
    with pytest.raises(InvalidInputError, match="container_id or parent, not both"):
        checked(SessionPageRequest(container_id="c", parent="s"))
    with pytest.raises(SessionNotFoundError):
        checked(SessionPageRequest(parent="\ud800"))


NOT_A_FLAG: Any = "no"
NOT_TEXT: Any = 5
NOT_A_NUMBER: Any = "1"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (SessionForgetRequest(session_id="s", by="me", family=NOT_A_FLAG), "`family` must be True or False, not 'no'"),
        (SessionForgetRequest(session_id="s", by="me", why=NOT_TEXT), "the reason must be text, not int"),
        (
            SessionCreateRequest(container_id="c", image_id="i", image_revision=NOT_A_NUMBER),
            "`image_revision` must be a whole number, not '1'",
        ),
    ],
)
def test_a_value_of_another_kind_is_refused(request_: Request[object], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        checked(request_)
