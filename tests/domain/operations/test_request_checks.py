"""What is refused of a request before anybody looks at the log."""

from __future__ import annotations

import pytest

from reenact.domain.errors import InvalidInputError, SessionNotFoundError
from reenact.domain.operations.checks import checked
from reenact.domain.operations.table import MessageSendRequest, SessionPageRequest


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
