"""What tests expect to be raised."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType


@contextmanager
def raises(
    error_type: TerminalTestErrorType, match: str | None = None
) -> Generator[pytest.ExceptionInfo[TerminalTestError]]:
    """Expect an error of this type, in whose text the pattern is found."""
    with pytest.raises(TerminalTestError, match=match) as caught:
        yield caught
    assert caught.value.type is error_type
