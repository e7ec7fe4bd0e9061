from __future__ import annotations

import logging
import threading

import pytest

from reenact.actors.kernel import at_exit as exiting
from reenact.actors.kernel.at_exit import AtExit
from tests.environment.support import PATIENCE


def test_who_has_closed_something_does_not_wait_for_another_close_that_waits_for_it() -> None:
    under_way, begun = threading.Lock(), threading.Event()

    def close() -> None:
        begun.set()
        with under_way:
            pass

    at_exit = AtExit("it", close)
    with under_way:
        assert not at_exit.close_within(0)
        assert begun.wait(PATIENCE)
        ends = threading.Thread(target=at_exit.closed, daemon=True)
        ends.start()
        ends.join(PATIENCE)
        assert not ends.is_alive()

    assert at_exit.close_within(PATIENCE)


def test_what_is_closed_is_not_closed_once_more_in_time() -> None:
    closes: list[str] = []
    at_exit = AtExit("it", lambda: closes.append("again"))

    at_exit.closed()
    at_exit.closed()

    assert at_exit.close_within(PATIENCE)
    assert closes == []


def test_of_what_cannot_be_closed_at_exit_it_is_not_said_that_it_was_closed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close() -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    caplog.set_level(logging.WARNING, "reenact.exit")
    monkeypatch.setattr(exiting, "_open", [])
    AtExit("it", close)

    exiting._close_all()

    assert caplog.messages == ["it could not be closed"]
