"""Families of sessions: plans that a mock model follows, in the session that is given one and in its children.

A plan is a list of answers, as JSON, and is the message that a session begins with. An answer is a text, or a list of
calls; a call names a tool, and what it is given: arguments, or for an agent the plan of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from reenact import Image, Price, Runtime
from reenact.domain.children import Budget, agent_tool
from reenact.domain.errors import CallNotPendingError
from reenact.domain.messages import Said
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.testing import MockEvent
from tests.runtime.gated import HOLD, STOP, GatedFactory, text
from tests.runtime.witness import Ears, fold, journal_of

Plan: TypeAlias = "list[str | list[tuple[str, Plan | dict[str, Any]]]]"
PRICES: Mapping[str, Price] = {"m": Price(input=1000.0, output=0.0)}
USED = {"input_tokens": 1000}
"""What each answer uses, and that is 1.0 at these prices."""
HELD = "hold"
FAILS = "fail"


def answer(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Give the next answer of the plan that the session begins with; to any later message, say what was said."""
    yield MockEvent("message_start", data={"model": "m"})
    yield MockEvent("message_delta", data={"usage": USED})
    answered = sum(said.role == "assistant" for said in conversation)
    plan = _plan(conversation[0].text)
    now = plan[answered] if answered < len(plan) else f"heard: {conversation[-1].text}"
    if now == HELD:
        yield text("so far")
        yield HOLD
        now = ", held"
    if now == FAILS:
        yield MockEvent("error", data={"message": "The line broke"})
        return
    if isinstance(now, str):
        yield text(now)
        yield STOP
        return
    for number, (tool, given) in enumerate(now):
        arguments = given if isinstance(given, dict) else {"prompt": json.dumps(given)}
        yield MockEvent("tool_call", data={"id": f"c{answered}{number}", "name": tool, "input": arguments})
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


def _plan(asked: str) -> Plan:
    try:
        return json.loads(asked)  # type: ignore[no-any-return]
    except ValueError:
        return []


def factory() -> GatedFactory:
    """Return what makes environments that follow plans."""
    mock = GatedFactory()
    mock.scenarios.define_scenario("plan", answer)
    mock.set_scenario("plan")
    return mock


def send(to: str) -> str:
    """A tool that a person has to approve."""
    return f"sent to {to}"


def furnish(runtime: Runtime, *, budget: Budget | None = None, cost_limit: float | None = None) -> None:
    """Register an image whose agents may call it as well, two deep, one of them detached."""
    runtime.containers.create(container_id="c")
    runtime.images.register(
        Image(
            id="agent",
            tools=(
                agent_tool("agent", description="Does it.", budget=budget),
                agent_tool("aside", "agent", description="Does it later.", detached=True),
                send,
            ),
            policies=Policies(tools={"send": Policy("required")}),
            cost_limit=cost_limit,
        )
    )
    runtime.sessions.create("c", "agent", session_id="root")


def settled(runtime: Runtime) -> int:
    """Return how many answers of children are settled with the root."""
    return fold(journal_of(runtime), "root").ledger.children.calls


def come_to_rest(runtime: Runtime) -> None:
    """Approve what waits and wait until the family is at rest: what is settled is then what the children have used."""
    ears = Ears(runtime)
    runtime.sessions.run("root")

    def used(session_id: str) -> int:
        return sum(spent.calls for spent in fold(journal_of(runtime), session_id).ledger.models.values())

    while True:
        for call in runtime.agents.pending():
            with suppress(CallNotPendingError):  # its session was interrupted, since nothing waits for it
                runtime.agents.approve(call.id)
        states = {one.id: fold(journal_of(runtime), one.id) for one in runtime.sessions.list()}
        at_work = [id_ for id_, state in states.items() if state.turn is not None or state.round is not None]
        if not at_work and settled(runtime) == sum(used(id_) for id_ in states if id_ != "root"):
            return
        ears.next(0.05)
