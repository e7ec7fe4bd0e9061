"""What is answered about turns."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from reenact.domain.agent import Failure
from reenact.domain.events import Outcome
from reenact.domain.messages import Usage

Tokens: TypeAlias = dict[str, int]
"""Sums under the Messages API's names: `input_tokens`, `output_tokens`, …"""


class TurnInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A turn: waiting while `started_at` is None, over once there is an `outcome`. `duration` is in seconds."""

    id: str
    accepted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: Outcome | None
    stop_reason: str | None
    duration: float | None
    model: str | None
    usage: Usage | None
    failure: Failure | None
