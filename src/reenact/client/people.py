"""What people decide about calls of a remote runtime: `Deciding`, at the far end of a connection."""

from __future__ import annotations

from reenact.actors.doing import Named
from reenact.client.caller import Caller
from reenact.client.operations import RemoteOperations
from reenact.domain.errors import AgentNotFoundError, CallNotPendingError, InvalidInputError, SessionNotFoundError
from reenact.domain.messages import check_text
from reenact.domain.people import PendingCall, check_arguments, check_json, check_reason
from reenact.domain.plain import is_sayable


class RemotePeople:
    """What waits for people, and what they decide."""

    def __init__(self, operations: RemoteOperations, caller: Caller) -> None:
        self._do = operations
        self._caller = caller

    def pending(self, agent_id: str | None = None, session_id: str | None = None) -> list[PendingCall]:
        """See `Agents.pending`."""
        self._check_where(agent_id, session_id)
        return self._caller.result("agent_pending_request", list[PendingCall], agent_id=agent_id, session_id=session_id)

    def approve(
        self,
        call_id: Named,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        arguments: object = None,
        digest: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.approve`."""
        id_, where = self._named(call_id, agent_id, session_id)
        if digest is None and isinstance(call_id, PendingCall):
            digest = call_id.digest or None
        return self._caller.optional(
            "agent_approve_request",
            str,
            call_id=id_,
            session_id=where,
            agent_id=agent_id,
            arguments=None if arguments is None else check_arguments(arguments),
            digest=None if digest is None else check_text("the digest", digest),
            by=_checked(by),
        )

    def reject(
        self,
        call_id: Named,
        reason: str = "",
        *,
        resume: bool = True,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.reject`."""
        id_, where = self._named(call_id, agent_id, session_id)
        return self._caller.optional(
            "agent_reject_request",
            str,
            call_id=id_,
            session_id=where,
            agent_id=agent_id,
            reason=check_reason(reason),
            resume=bool(resume),
            by=_checked(by),
        )

    def respond(
        self,
        call_id: Named,
        value: object,
        *,
        session_id: str | None = None,
        agent_id: str | None = None,
        by: str | None = None,
    ) -> str | None:
        """See `Agents.respond`."""
        id_, where = self._named(call_id, agent_id, session_id)
        checked = check_json("the answer", value)
        return self._caller.optional(
            "agent_respond_request",
            str,
            call_id=id_,
            session_id=where,
            agent_id=agent_id,
            value=checked,
            by=_checked(by),
        )

    def _named(self, named: object, agent_id: str | None, session_id: str | None) -> tuple[str, str | None]:
        """Return the id of the call that is meant, and in which session it is, unless the agent tells that."""
        self._caller.check_open()
        if isinstance(named, PendingCall):
            return named.id, self._session_of(named, agent_id, session_id)
        if not isinstance(named, str):
            msg = f"a call is named by its id, or is a PendingCall; it is no {type(named).__name__}"
            raise InvalidInputError(msg)
        self._check_where(agent_id, session_id)
        if not is_sayable(named):
            raise CallNotPendingError(named)
        return named, session_id

    def _session_of(self, call: PendingCall, agent_id: str | None, session_id: str | None) -> str | None:
        self._check_where(agent_id, session_id)
        where = session_id
        if session_id is not None and session_id != call.session_id and self._do.session(session_id) is None:
            raise SessionNotFoundError(session_id)
        if agent_id is not None:
            agent = self._do.agent(agent_id)
            if agent is None:
                raise AgentNotFoundError(agent_id)
            where = agent.session_id
        if where not in (None, call.session_id):
            msg = f"call {call.id!r} was told of session {call.session_id!r}, and not of {where!r}"
            raise InvalidInputError(msg)
        return call.session_id if agent_id is None else None

    @staticmethod
    def _check_where(agent_id: str | None, session_id: str | None) -> None:
        if agent_id is None:
            if session_id is not None and not is_sayable(session_id):
                raise SessionNotFoundError(session_id)
            return
        if session_id is not None:
            msg = "give agent_id or session_id, not both"
            raise InvalidInputError(msg)
        if not is_sayable(agent_id):
            raise AgentNotFoundError(agent_id)


def _checked(by: object) -> str | None:
    return None if by is None else check_text("who decides", by)
