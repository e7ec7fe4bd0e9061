"""Only what the log has can be selected for statistics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest

from reenact import Audit, Image, NotFoundError, Runtime
from reenact.domain.errors import ContainerNotFoundError, ImageNotFoundError, InvalidInputError, SessionNotFoundError
from reenact.testing import MockEnvironmentFactory


class Chosen(TypedDict, total=False):
    container_id: str
    image_id: str
    session_id: str


@pytest.fixture
def audit(tmp_path: Path) -> Iterator[Audit]:
    """A log with one session, which was asked something and then deleted."""
    path = tmp_path / "log.db"
    with Runtime.open(path, environment=MockEnvironmentFactory(delays=False), synchronous="OFF") as runtime:
        runtime.containers.create(container_id="home")
        runtime.images.register(Image(id="chat"))
        runtime.sessions.create("home", "chat", session_id="talk")
        runtime.ask("Hello", session="talk")
        runtime.sessions.delete("talk")
    with Audit.open(path) as audit:
        yield audit


@pytest.mark.parametrize(
    ("chosen", "error"),
    [
        (Chosen(container_id="talk"), ContainerNotFoundError),
        (Chosen(image_id="home", container_id="home"), ImageNotFoundError),
        (Chosen(session_id="chat"), SessionNotFoundError),
        (Chosen(session_id=""), SessionNotFoundError),
        (Chosen(session_id="\ud800"), SessionNotFoundError),
    ],
)
def test_an_id_that_the_log_does_not_have_is_refused(audit: Audit, chosen: Chosen, error: type[NotFoundError]) -> None:
    with pytest.raises(error):
        audit.stats(**chosen)


@pytest.mark.parametrize(
    "chosen", [Chosen(container_id="home"), Chosen(image_id="chat"), Chosen(session_id="talk"), Chosen()]
)
def test_a_deleted_session_is_counted(audit: Audit, chosen: Chosen) -> None:
    turns = audit.stats(**chosen).total.turns

    assert turns is not None
    assert turns.outcomes == {"completed": 1}


@pytest.mark.parametrize("time", ["7d", 1_796_056_460, datetime(2026, 12, 1)])  # noqa: DTZ001 - a zone is missing
def test_what_is_no_time_with_a_zone_is_refused(audit: Audit, time: Any) -> None:  # noqa: ANN401 - what a user may give
    for name in ("since", "until"):
        with pytest.raises(InvalidInputError, match=f"`{name}` needs a time zone"):
            audit.stats(**{name: time})
