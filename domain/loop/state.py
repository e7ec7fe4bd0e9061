"""What is known of a conversation: a value that every step makes anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from reenact.domain.errors import InvalidInputError, check_text_of
from reenact.domain.loop.asking import Question
from reenact.domain.loop.calls import ToolCall, call_of
from reenact.domain.loop.events import LoopEvent, Option, Options
from reenact.domain.loop.faults import ErrorInfo, info_of
from reenact.domain.loop.growing import Growing
from reenact.domain.loop.ledger import CostLimit, Ledger
from reenact.domain.loop.rounds import Round
from reenact.domain.loop.values import Fields, Frozen, FrozenList, frozen, frozen_object
