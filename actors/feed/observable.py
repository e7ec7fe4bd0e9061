"""Typed registration of event handlers: the type of an event determines the type of its data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar, overload

from reenact.actors.feed.handlers import Handler, check_type
from reenact.domain.operations.table import EventType, Request, RequestType, Response, ResponseType, RuntimeEvent
from reenact.domain.stream import events
from reenact.domain.stream.events import D_co, Envelope, N_co

R_co = TypeVar("R_co", covariant=True)
Id: TypeAlias = str | None
On: TypeAlias = Callable[[Envelope[D_co, N_co]], object]


class Observable(ABC, Generic[R_co]):
    """Registers handlers to be called with events."""

    @overload
    def on(
        self,
        type: Literal["message_start"],
        handler: On[events.MessageStart, Literal["message_start"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["text_delta"],
        handler: On[events.TextDelta, Literal["text_delta"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["thinking_start"],
        handler: On[events.ThinkingStart, Literal["thinking_start"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["thinking_delta"],
        handler: On[events.ThinkingDelta, Literal["thinking_delta"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["thinking_end"],
        handler: On[events.ThinkingEnd, Literal["thinking_end"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self, type: Literal["tool_call"], handler: On[events.ToolCall, Literal["tool_call"]], *, session_id: Id = None
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["input_json_delta"],
        handler: On[events.InputJsonDelta, Literal["input_json_delta"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_result"],
        handler: On[events.ToolResult, Literal["tool_result"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["message_delta"],
        handler: On[events.MessageDelta, Literal["message_delta"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["message_stop"],
        handler: On[events.MessageStop, Literal["message_stop"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self, type: Literal["error"], handler: On[events.StreamError, Literal["error"]], *, session_id: Id = None
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["context_compressed"],
        handler: On[events.ContextCompressed, Literal["context_compressed"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["interrupted"],
        handler: On[events.Interrupted, Literal["interrupted"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["agent_state_changed"],
        handler: On[events.AgentStateChanged, Literal["agent_state_changed"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["user_message"],
        handler: On[events.UserMessage, Literal["user_message"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["assistant_message"],
        handler: On[events.AssistantMessage, Literal["assistant_message"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_result_message"],
        handler: On[events.ToolResultMessage, Literal["tool_result_message"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["error_message"],
        handler: On[events.ErrorMessage, Literal["error_message"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["turn_started"],
        handler: On[events.TurnStarted, Literal["turn_started"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["turn_completed"],
        handler: On[events.TurnCompleted, Literal["turn_completed"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["step_started"],
        handler: On[events.StepStarted, Literal["step_started"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["output_accepted"],
        handler: On[events.OutputAccepted, Literal["output_accepted"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["output_rejected"],
        handler: On[events.OutputRejected, Literal["output_rejected"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_started"],
        handler: On[events.ToolStarted, Literal["tool_started"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["human_approve_required"],
        handler: On[events.HumanApproveRequired, Literal["human_approve_required"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["human_prompt_required"],
        handler: On[events.HumanPromptRequired, Literal["human_prompt_required"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["human_select_required"],
        handler: On[events.HumanSelectRequired, Literal["human_select_required"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_pending"],
        handler: On[events.ToolPending, Literal["tool_pending"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_approved"],
        handler: On[events.ToolApproved, Literal["tool_approved"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_edited"],
        handler: On[events.ToolEdited, Literal["tool_edited"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["tool_rejected"],
        handler: On[events.ToolRejected, Literal["tool_rejected"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["human_responded"],
        handler: On[events.HumanResponded, Literal["human_responded"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["guard_checked"],
        handler: On[events.GuardChecked, Literal["guard_checked"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self, type: Literal["warning"], handler: On[events.Warned, Literal["warning"]], *, session_id: Id = None
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["child_started"],
        handler: On[events.ChildStarted, Literal["child_started"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["child_ended"],
        handler: On[events.ChildEnded, Literal["child_ended"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["container_created"],
        handler: On[events.ContainerCreated, Literal["container_created"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["image_registered"],
        handler: On[events.ImageRegistered, Literal["image_registered"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["session_created"],
        handler: On[events.SessionCreated, Literal["session_created"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["image_changed"],
        handler: On[events.ImageChanged, Literal["image_changed"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["message_scheduled"],
        handler: On[events.MessageScheduled, Literal["message_scheduled"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["schedule_cancelled"],
        handler: On[events.ScheduleCancelled, Literal["schedule_cancelled"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["schedule_fired"],
        handler: On[events.ScheduleFired, Literal["schedule_fired"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["session_deleted"],
        handler: On[events.SessionDeleted, Literal["session_deleted"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["deltas_compacted"],
        handler: On[events.DeltasCompacted, Literal["deltas_compacted"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["agent_started"],
        handler: On[events.AgentStarted, Literal["agent_started"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(
        self,
        type: Literal["agent_stopped"],
        handler: On[events.AgentStopped, Literal["agent_stopped"]],
        *,
        session_id: Id = None,
    ) -> R_co: ...
    @overload
    def on(self, type: RequestType, handler: On[Request[object], RequestType], *, session_id: Id = None) -> R_co: ...
    @overload
    def on(self, type: ResponseType, handler: On[Response, ResponseType], *, session_id: Id = None) -> R_co: ...
    @overload
    def on(self, type: EventType, handler: Callable[[RuntimeEvent], object], *, session_id: Id = None) -> R_co: ...
    def on(self, type: str, handler: Handler, *, session_id: Id = None) -> R_co:
        """Call the handler with each event of the type that is published from now on: of one session, or of all.

        Events come in order, one at a time, and all handlers have been called with an event before the next. They run
        on a thread that is neither the publisher's nor an actor's, and may call any facade. A handler that does not
        return within 250 ms continues at its own pace, on its own thread. Its exceptions are logged on `reenact.events`
        and affect nothing else. If a handler subscribes or unsubscribes, this takes effect with the next event. The
        session need not exist yet.

        Raises:
            UnknownEventTypeError: the type is not in `reenact.events.CATALOGUE`.
            InvalidInputError: the handler is not callable, or the session id is invalid.
        """
        return self.register(check_type(type), handler, session_id)

    def on_all(self, handler: Callable[[RuntimeEvent], object], *, session_id: str | None = None) -> R_co:
        """Call the handler with every event that is published from now on, as `on` does."""
        return self.register(None, handler, session_id)

    @abstractmethod
    def register(self, type: str | None, handler: Handler, session_id: str | None) -> R_co:
        """Register the handler as `on` does, or as `on_all` if the type is None."""
        ...
