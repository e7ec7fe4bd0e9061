"""A night audit: what an agent did since the evening, whether its log is intact, and what stricter rules would change.

It prints:

    evening: 3 events
    night: 3 turns; look_up ran 3 times, refund 2 times
    the log is what was written: True, and has what was there in the evening, up to 3
    each decision would be made again: True
    the refund of 900 follows from: A message came in: "Please refund order A-18".
    under stricter rules refund A-17 40 : run -> ask
    under stricter rules refund A-18 900 : run -> ask
    after somebody wrote into a copy: the row or the one before it was changed
"""

import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing

from reenact import Audit, Image, Policies, Policy, Runtime, Said, tool
from reenact.audit import Filter
from reenact.testing import MockEnvironmentFactory, MockEvent

PAID = {"A-17": 40, "A-18": 900}


@tool
def look_up(order: str) -> str:
    """Return what was paid for an order, if there is one."""
    return str(PAID.get(order, "there is no such order"))


@tool
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid back {amount} for {order}."


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Look the order up, and pay back what was paid: in the place of a model."""
    order = next(said.text for said in reversed(conversation) if said.text).split()[-1]
    results = conversation[-1].tool_results
    result = str(results[-1].content) if results else None
    if result is None:
        yield MockEvent("tool_call", data={"name": "look_up", "input": {"order": order}})
    elif result.isdigit():
        yield MockEvent("tool_call", data={"name": "refund", "input": {"order": order, "amount": int(result)}})
    else:
        yield MockEvent("text_delta", data={"text": result})
        yield MockEvent("message_stop")
        return
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


def night(mock: MockEnvironmentFactory) -> None:
    """Let the agent work."""
    with Runtime.open("shop.db", environment=mock, tools=[look_up, refund]) as runtime:
        for order in ("A-17", "A-18", "A-19"):
            runtime.ask(f"Please refund order {order}", session="refunds")


def report(audit: Audit) -> None:
    """Print the report of the morning."""
    results = {entry.position: entry.data for entry in audit.entries(Filter(types=["tool-result"]))}
    ran = Counter(data["name"] for data in results.values())
    turns = audit.stats().total.turns
    print(
        f"night: {turns.count if turns else 0} turns; look_up ran {ran['look_up']} times, refund {ran['refund']} times"
    )
    verdict = audit.verify("evening.jsonl")
    print(f"the log is what was written: {verdict.is_whole}", end=", ")
    print("and has what was there in the evening, up to", verdict.checkpoint)
    print("each decision would be made again:", all(each.divergence is None for each in audit.replay()))
    paid = next(position for position, data in results.items() if "900 for" in str(data["result"]))
    print("the refund of 900 follows from:", audit.why(paid).causes[0].says)
    for history in audit.replay(policies=Policies(tools={"refund": Policy("always")})):
        for one in history.otherwise:
            changed = f": {one.recorded.decision} -> {one.decided.decision}"
            print(f"under stricter rules {one.tool}", *(one.arguments or {}).values(), changed)


def tamper() -> None:
    """Change the amount in a copy of the log with plain SQL."""
    shutil.copy("shop.db", "changed.db")
    with closing(sqlite3.connect("changed.db")) as log, log:
        for number, events in log.execute("SELECT number, events FROM steps").fetchall():
            if b"paid back 900" in (events or b""):
                changed = events.replace(b"paid back 900", b"paid back 090")
                log.execute("UPDATE steps SET events = ? WHERE number = ?", [changed, number])


if __name__ == "__main__":
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("clerk", model)
    mock.set_scenario("clerk")
    with Runtime.open("shop.db", environment=mock) as runtime:
        runtime.containers.create(container_id="shop")
        runtime.images.register(Image(id="clerk", tools=(look_up, refund)))
        runtime.sessions.create("shop", "clerk", session_id="refunds")
    with Audit.open("shop.db") as audit:
        print(f"evening: {audit.checkpoint('evening.jsonl').position} events")
    night(mock)
    with Audit.open("shop.db") as audit:
        report(audit)
    tamper()
    with Audit.open("changed.db") as audit:
        print("after somebody wrote into a copy:", audit.verify().findings[0].problem)
