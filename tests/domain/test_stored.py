"""The names under which events stand in logs: none is changed, none goes away, and every event has one."""

from __future__ import annotations

from typing import get_args

from reenact.domain.container import ContainerCreated
from reenact.domain.image import ImageRegistered
from reenact.domain.session import SessionEvent
from reenact.domain.stored import STORED

NAMES = {
    "container-created": "ContainerCreated",
    "image-registered": "ImageRegistered",
    "session-created": "SessionCreated",
    "session-deleted": "SessionDeleted",
    "agent-started": "AgentStarted",
    "agent-stopped": "AgentStopped",
    "message-accepted": "MessageAccepted",
    "turn-started": "TurnStarted",
    "turn-interrupted": "TurnInterrupted",
    "turn-failed": "TurnFailed",
    "answer-recorded": "AnswerRecorded",
    "turn-completed": "TurnCompleted",
}
"""As the logs of the first release have them. Names are only ever added."""


def test_the_stored_names_are_those_of_the_first_release() -> None:
    assert {name: kind.__name__ for name, kind in STORED.items()} == NAMES


def test_every_event_is_stored_under_one_name() -> None:
    kinds = [*get_args(SessionEvent), ContainerCreated, ImageRegistered]

    assert sorted(kind.__name__ for kind in STORED.values()) == sorted(kind.__name__ for kind in kinds)
    assert set(STORED.values()) == set(kinds)
