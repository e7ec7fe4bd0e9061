"""What a log would have been under other rules, as users ask for it."""

from __future__ import annotations

from typing import assert_type

from reenact import CostLimit, Image, Policies, Policy, Price
from reenact.audit import Audit, Otherwise, Retraced, Ruling


def suppose(audit: Audit) -> list[Otherwise]:
    stricter = Policies(tools={"pay": Policy("always")})
    for retraced in audit.replay("talk", policies=stricter, max_steps=None, max_repeats=7, cost_limit=CostLimit(2.0)):
        assert_type(retraced, Retraced)
        for one in retraced.otherwise:
            assert_type(one.recorded, Ruling)
            print(one.position, one.tool, one.decided.decision == "ask", one.decided.limit or one.decided.reason)
            if one.arguments is not None:
                print(one.arguments["amount"])
    by_image = {"images": {"clerk": {"pay": "always"}}, "policies": {"deny": ["pay"]}}
    found = audit.replay(policies=by_image, images=[Image(id="clerk")], prices={"m": Price(3, 15)}, cost_limit=2)
    return [one for retraced in found for one in retraced.otherwise]


def mistakes(audit: Audit) -> None:
    audit.replay(max_steps="7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    audit.replay(prices={"m": 3})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
