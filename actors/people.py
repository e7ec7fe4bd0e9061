"""What people do about calls that wait for them: see them, approve them, reject them, answer what they ask."""

from __future__ import annotations

from reenact.actors.doing import Named
from reenact.actors.once import Attempt
from reenact.actors.operations import Operations
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, InvalidInputError, SessionNotFoundError
from reenact.domain.messages import check_text
from reenact.domain.people import PendingCall, check_arguments, check_json, check_reason
from reenact.domain.session_commands import Approve, Reject, Respond


class People:
    """What waits for people, and what they decide. `timeout` is in seconds; None waits as long as it takes."""

    def __init__(self, operations: Operations) -> None:
        self._do = operations

    def pending(self, agent_id: str | None = None, session_id: str | None = None) -> list[PendingCall]:
        """See `Agents.pending`."""
        return self._do.read().pending(self._session_of(agent_id, session_id))

    def approve(
        self,
        call_id: Named,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        arguments: object = None,
        digest: str | None = None,
        by: str | None = None,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> str | None:
        """See `Agents.approve`."""
        pending = self._find(call_id, agent_id, session_id)
        if digest is None and isinstance(call_id, PendingCall):
            digest = call_id.digest or None
        command = Approve(
            call_id=pending.id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            arguments=None if arguments is None else check_arguments(arguments),
            digest=None if digest is None else check_text("the digest", digest),
            by=_checked(by),
        )
        return self._tell(pending, agent_id, command, timeout, attempt)

    def reject(
        self,
        call_id: Named,
        reason: str = "",
        *,
        resume: bool = True,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> str | None:
        """See `Agents.reject`."""
        pending = self._find(call_id, agent_id, session_id)
        command = Reject(
            call_id=pending.id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            reason=check_reason(reason),
            resume=resume,
            by=_checked(by),
        )
        return self._tell(pending, agent_id, command, timeout, attempt)

    def respond(
        self,
        call_id: Named,
        value: object,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
        timeout: float | None = None,
        attempt: Attempt | None = None,
    ) -> str | None:
        """See `Agents.respond`."""
        pending = self._find(call_id, agent_id, session_id)
        command = Respond(
            call_id=pending.id,
            turn_id=self._do.new_id("trn"),
            at=self._do.now(),
            value=check_json("the answer", value),
            by=_checked(by),
        )
        return self._tell(pending, agent_id, command, timeout, attempt)

    def _tell(
        self,
        call: PendingCall,
        agent_id: str | None,
        command: Approve | Reject | Respond,
        timeout: float | None,
        attempt: Attempt | None,
    ) -> str | None:
        """Have the session's actor decide, after its agent was started if none is live."""
        live = agent_id or self._do.run_session(call.session_id, timeout=timeout)
        try:
            return self._do.decide(call.session_id, command, timeout=timeout, attempt=attempt)
        except AgentNotFoundError:  # it was live a moment ago
            raise AgentNotFoundError(live) from None

    def _find(self, named: object, agent_id: str | None, session_id: str | None) -> PendingCall:
        """Return the call that is meant, if it waits."""
        self._do.check_open()
        call_id = named.id if isinstance(named, PendingCall) else _id_of(named)
        where = self._session_of(agent_id, session_id)
        if isinstance(named, PendingCall):
            if where not in (None, named.session_id):
                msg = f"call {call_id!r} was told of session {named.session_id!r}, and not of {where!r}"
                raise InvalidInputError(msg)
            where = named.session_id
        found = [call for call in self._do.read().pending_of_id(call_id) if where in (None, call.session_id)]
        if not found:
            raise CallNotPendingError(call_id)
        if len(found) > 1:
            sessions = ", ".join(repr(call.session_id) for call in found)
            msg = f"call {call_id!r} waits in {len(found)} sessions: {sessions}; say which one with session_id"
            raise InvalidInputError(msg)
        return found[0]

    def _session_of(self, agent_id: str | None, session_id: str | None) -> str | None:
        if agent_id is None:
            if session_id is not None and self._do.session(session_id) is None:
                raise SessionNotFoundError(session_id)
            return session_id
        if session_id is not None:
            msg = "give agent_id or session_id, not both"
            raise InvalidInputError(msg)
        return self._do.session_of(agent_id)


def _id_of(named: object) -> str:
    if isinstance(named, str):
        return named
    msg = f"a call is named by its id, or is a PendingCall; it is no {type(named).__name__}"
    raise InvalidInputError(msg)


def _checked(by: object) -> str | None:
    return None if by is None else check_text("who decides", by)
