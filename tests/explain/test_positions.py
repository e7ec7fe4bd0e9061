"""What is not a position of the log is refused wherever one is given, whatever the log holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reenact import Audit, Image, InvalidInputError, Runtime
from reenact.audit import Filter
from reenact.testing import MockEnvironmentFactory

GIVEN: list[Callable[[Audit, str, Any], object]] = [
    lambda audit, _, position: audit.why(position),
    lambda audit, session, position: audit.show(session, at=position),
    lambda audit, session, position: audit.at(session, position),
    lambda audit, session, position: audit.diff(session, position),
    lambda audit, session, position: audit.diff(session, None, session, position),
]


@pytest.fixture
def talk(tmp_path: Path) -> tuple[Path, str]:
    log = tmp_path / "agents.db"
    image = Image(id="i")
    with Runtime.open(log, environment=MockEnvironmentFactory(delays=False), default_image=image) as runtime:
        return log, runtime.ask("Hello").session_id


@pytest.mark.parametrize("position", ["8", 2.0, True, -1, 0])
def test_what_is_not_a_position_is_refused(talk: tuple[Path, str], position: Any) -> None:  # noqa: ANN401 - anything
    log, session = talk

    with Audit.open(log) as audit:
        for give in GIVEN:
            with pytest.raises(InvalidInputError, match="position"):
                give(audit, session, position)


@pytest.mark.parametrize("position", ["8", 2.0, True])
def test_a_filter_takes_no_other_position_either(position: Any) -> None:  # noqa: ANN401 - anything
    with pytest.raises(InvalidInputError, match=r"`after` must be a position of the log, a whole number"):
        Filter(after=position)
    with pytest.raises(InvalidInputError, match=r"`before` must be a position of the log, a whole number"):
        Filter(before=position)
