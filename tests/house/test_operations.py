"""The table of operations has all that there is of each: its operation, and its method in every facade."""

from __future__ import annotations

import inspect
from types import NoneType
from typing import Any, get_type_hints

import msgspec
import pytest

from reenact._aio import AsyncAgents, AsyncContainers, AsyncImages, AsyncSessions, AsyncTurns
from reenact.actors.api.approvals import ApprovalOperations
from reenact.actors.api.asking import Turns
from reenact.actors.api.facades import Agents, Containers, Images, Sessions
from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.idempotency import Attempt
from reenact.events import REQUESTS

FACADES: dict[str, tuple[type, type]] = {
    "container": (Containers, AsyncContainers),
    "image": (Images, AsyncImages),
    "session": (Sessions, AsyncSessions),
    "turn": (Turns, AsyncTurns),
    "agent": (Agents, AsyncAgents),
}
METHODS = {
    "session_list_request": (*FACADES["session"], "list_by_container"),
    "session_page_request": (*FACADES["session"], "list"),
    "message_send_request": (*FACADES["agent"], "receive"),
}
"""The methods that do not have the names of their requests."""
OTHER_PARAMETERS = {
    "message_send_request": {"agent_id", "message", "content", "session_id", "image_id", "container_id"},
}
"""What only the method takes, or only the request, or what only the request may go without."""
OTHER_RESULTS = {"message_send_request": "of what was sent, the method returns the turn"}
NO_REQUESTS = {Turns: {"wait"}}


def operation(name: str) -> Any:  # noqa: ANN401 - a function
    """Return the operation of the request."""
    plain = name.removesuffix("_request")
    return getattr(RuntimeOperations, plain, None) or getattr(ApprovalOperations, plain)


def method(name: str) -> tuple[type, type, str]:
    """Return the facade, its asyncio twin, and the name of the method of the request."""
    kind, _, verb = name.removesuffix("_request").partition("_")
    return METHODS.get(name) or (*FACADES[kind], verb)


@pytest.mark.parametrize("name", REQUESTS)
def test_each_request_has_an_operation_that_takes_it_and_returns_its_result(name: str) -> None:
    kind, hints = REQUESTS[name], get_type_hints(operation(name))

    result = hints.pop("return")

    assert [*hints.values()] == ([kind, Attempt] if kind.changes else [kind])
    assert (NoneType if result is None else result) == kind.result


@pytest.mark.parametrize("name", REQUESTS)
def test_each_request_has_a_method_with_its_parameters_and_its_result(name: str) -> None:
    kind, (facade, _, called) = REQUESTS[name], method(name)
    parameters = inspect.signature(getattr(facade, called)).parameters
    fields = {field.name: field for field in msgspec.structs.fields(kind) if field.name != "request_id"}

    taken = {name: parameter.default for name, parameter in parameters.items() if name != "self"}
    asked = {name: inspect.Parameter.empty if field.required else field.default for name, field in fields.items()}

    differing = {name for name, _ in taken.items() ^ asked.items()}

    assert differing == OTHER_PARAMETERS.get(name, set())
    result = get_type_hints(getattr(facade, called))["return"]
    assert (result == kind.result) is (name not in OTHER_RESULTS)


def test_each_method_of_a_facade_has_a_request_and_a_twin() -> None:
    missing = {
        (facade.__name__, name)
        for facade, twin in FACADES.values()
        for name in vars(facade)
        if not name.startswith("_")
        and not (inspect.iscoroutinefunction(getattr(twin, name, None)) and (facade, twin, name) in every)
    }

    assert missing == {(facade.__name__, name) for facade, names in NO_REQUESTS.items() for name in names}


every = {method(name) for name in REQUESTS}
