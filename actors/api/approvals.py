"""The operations on calls that wait for a person: list, approve, reject and answer them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from reenact.actors.api.operations import RuntimeOperations
from reenact.actors.idempotency import Attempt
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, InvalidInputError
from reenact.domain.operations.table import (
    AgentApproveRequest,
    AgentPendingRequest,
    AgentRejectRequest,
    AgentRespondRequest,
    SessionRunRequest,
)
from reenact.domain.session.commands import Approve, Reject, Respond
from reenact.domain.session.people import PendingCall

_Decision: TypeAlias = AgentApproveRequest | AgentRejectRequest | AgentRespondRequest


class ApprovalOperations:
    """The operations on calls that wait for a person, like those of `RuntimeOperations`."""

    def __init__(self, operations: RuntimeOperations) -> None:
        self._do = operations

    def agent_pending(self, request: AgentPendingRequest) -> list[PendingCall]:
        """See `Agents.pending`."""
        return self._do.read().pending(self._session_of(request))

    def agent_approve(self, request: AgentApproveRequest, attempt: Attempt) -> str | None:
        """See `Agents.approve`."""
        arguments = None if request.arguments is None else {**request.arguments}
        return self._decide(request, partial(Approve, arguments=arguments, digest=request.digest), attempt)

    def agent_reject(self, request: AgentRejectRequest, attempt: Attempt) -> str | None:
        """See `Agents.reject`."""
        return self._decide(request, partial(Reject, reason=request.reason, resume=request.resume), attempt)

    def agent_respond(self, request: AgentRespondRequest, attempt: Attempt) -> str | None:
        """See `Agents.respond`."""
        return self._decide(request, partial(Respond, value=request.value), attempt)

    def _decide(
        self, request: _Decision, command: Callable[..., Approve | Reject | Respond], attempt: Attempt
    ) -> str | None:
        """Let the actor of the call's session decide, after starting its agent if none is live."""
        do = self._do
        turn_id, at = do.new_id("trn"), do.now()
        call = self._find(request)
        session_id, live = call.session_id, request.agent_id
        if live is None or call.path:  # the named agent may be that of a session further up
            live = do.session_run(SessionRunRequest(session_id=session_id), Attempt(attempt.timeout))
        try:
            decided: str | None = attempt.ask(
                do.actor_of(session_id), command(call_id=request.call_id, turn_id=turn_id, at=at, by=request.by)
            )
        except AgentNotFoundError:  # it was live a moment ago
            raise AgentNotFoundError(live) from None
        return decided

    def _find(self, request: _Decision) -> PendingCall:
        """Return the pending call that is meant: one of the named session, or of an agent's family."""
        where, call_id = self._session_of(request), request.call_id
        waiting = self._do.read().pending_of_id(call_id)
        found = [call for call in waiting if where in (None, call.session_id)]
        if not found and request.agent_id is not None:
            found = [call for call in waiting if any(caller.session_id == where for caller in call.path)]
        if not found:
            raise CallNotPendingError(call_id)
        if len(found) > 1:
            sessions = ", ".join(repr(call.session_id) for call in found)
            raise InvalidInputError(
                f"call {call_id!r} waits in {len(found)} sessions: {sessions}; say which one with session_id"
            )
        return found[0]

    def _session_of(self, request: AgentPendingRequest | _Decision) -> str | None:
        if request.agent_id is not None:
            return self._do.session_of(request.agent_id)
        if request.session_id is not None:
            self._do.must_exist(request.session_id)
        return request.session_id
