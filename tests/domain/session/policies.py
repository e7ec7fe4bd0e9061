"""Policies for three tools: `look` only reads, `pay` pays, `send` sends."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy, Rule

ANYTHING_GOES = Policies(deny=())
PAY_IS_ASKED = Policies(tools={"pay": Policy("required")}, deny=())
ALL_IS_ASKED = Policies(tools={name: Policy("required") for name in ("look", "pay", "send")}, deny=())
FIRST_IS_ASKED = Policies(tools={"pay": Policy("first"), "look": Policy("always")}, deny=())
PAY_IS_DENIED = Policies(tools={"look": Policy("required")}, deny=("pay",))
PAY_IS_LIMITED = Policies(tools={"pay": Policy("required", (Rule({"amount": 9}, "deny"),))}, deny=())
EACH = (ANYTHING_GOES, PAY_IS_ASKED, ALL_IS_ASKED, FIRST_IS_ASKED, PAY_IS_DENIED, PAY_IS_LIMITED)
Moded = TypeVar("Moded", Policy, Rule)


def forged(value: Moded, mode: Any) -> Moded:  # noqa: ANN401 - that is what is broken
    """Return the value with a mode that it could not be made with."""
    msgspec.structs.force_setattr(value, "mode", mode)
    return value
