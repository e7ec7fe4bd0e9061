"""What people do about calls that wait for them: see them, approve them, reject them, answer what they ask."""

from __future__ import annotations

from reenact.actors.once import Attempt
from reenact.actors.operations import Operations
from reenact.domain.commands import (
    AgentApproveRequest,
    AgentPendingRequest,
    AgentRejectRequest,
    AgentRespondRequest,
    SessionRunRequest,
)
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, InvalidInputError
from reenact.domain.people import PendingCall
from reenact.domain.session_commands import Approve, Reject, Respond


class People:
    """The operations on calls that wait for people, as those of `Operations` are."""

    def __init__(self, operations: Operations) -> None:
        self._do = operations

    def agent_pending(self, request: AgentPendingRequest) -> list[PendingCall]:
        """See `Agents.pending`."""
        return self._do.read().pending(self._session_of(request))

    def agent_approve(self, request: AgentApproveRequest, attempt: Attempt) -> str | None:
        """See `Agents.approve`."""
        command = Approve(
            call_id=request.call_id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            arguments=None if request.arguments is None else {**request.arguments},
            digest=request.digest,
            by=request.by,
        )
        return self._decide(request, command, attempt)

    def agent_reject(self, request: AgentRejectRequest, attempt: Attempt) -> str | None:
        """See `Agents.reject`."""
        command = Reject(
            call_id=request.call_id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            reason=request.reason,
            resume=request.resume,
            by=request.by,
        )
        return self._decide(request, command, attempt)

    def agent_respond(self, request: AgentRespondRequest, attempt: Attempt) -> str | None:
        """See `Agents.respond`."""
        command = Respond(
            call_id=request.call_id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            value=request.value,
            by=request.by,
        )
        return self._decide(request, command, attempt)

    def _decide(
        self,
        request: AgentApproveRequest | AgentRejectRequest | AgentRespondRequest,
        command: Approve | Reject | Respond,
        attempt: Attempt,
    ) -> str | None:
        """Have the actor of the call's session decide, after its agent was started if none is live."""
        session_id = self._find(request).session_id
        live = request.agent_id or self._do.session_run(
            SessionRunRequest(session_id=session_id), Attempt(attempt.timeout)
        )
        try:
            turn_id: str | None = attempt.ask(self._do.actor_of(session_id), command)
        except AgentNotFoundError:  # it was live a moment ago
            raise AgentNotFoundError(live) from None
        return turn_id

    def _find(self, request: AgentApproveRequest | AgentRejectRequest | AgentRespondRequest) -> PendingCall:
        """Return the call that is meant, if it waits."""
        where, call_id = self._session_of(request), request.call_id
        found = [call for call in self._do.read().pending_of_id(call_id) if where in (None, call.session_id)]
        if not found:
            raise CallNotPendingError(call_id)
        if len(found) > 1:
            sessions = ", ".join(repr(call.session_id) for call in found)
            msg = f"call {call_id!r} waits in {len(found)} sessions: {sessions}; say which one with session_id"
            raise InvalidInputError(msg)
        return found[0]

    def _session_of(
        self, request: AgentPendingRequest | AgentApproveRequest | AgentRejectRequest | AgentRespondRequest
    ) -> str | None:
        if request.agent_id is not None:
            return self._do.session_of(request.agent_id)
        if request.session_id is not None:
            self._do.must_exist(request.session_id)
        return request.session_id
