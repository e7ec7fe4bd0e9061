"""Policies for three tools: `look` only reads, `pay` pays, `send` sends."""

from __future__ import annotations

from reenact.domain.loop.policy import Policies, Policy

ANYTHING_GOES = Policies()
PAY_IS_ASKED = Policies(tools={"pay": Policy("required")})
ALL_IS_ASKED = Policies(tools={name: Policy("required") for name in ("look", "pay", "send")})
FIRST_IS_ASKED = Policies(tools={"pay": Policy("first"), "look": Policy("always")})
PAY_IS_DENIED = Policies(tools={"look": Policy("required")}, deny=("pay",))
EACH = (ANYTHING_GOES, PAY_IS_ASKED, ALL_IS_ASKED, FIRST_IS_ASKED, PAY_IS_DENIED)
