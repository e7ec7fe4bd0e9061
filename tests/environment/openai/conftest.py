"""A server with OpenAI's APIs, and which of them is spoken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reenact.testing import FakeChatAPI
from tests.environment.talking import Dialect


@pytest.fixture
def api() -> Iterator[FakeChatAPI]:
    with FakeChatAPI() as api:
        yield api


@pytest.fixture(params=["chat", "responses"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return "chat" if request.param == "chat" else "responses"
