"""The order in which may be heard what becomes of calls: what was asked for, waits, runs, is answered, goes back."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from reenact.domain.loop.events import AskedCall
from reenact.domain.messages import Message, ToolResultBlock, ToolUseBlock
from reenact.domain.plain import JsonObject

OF_CALLS = {
    "human_approve_required",
    "human_prompt_required",
    "human_select_required",
    "tool_pending",
    "tool_approved",
    "tool_edited",
    "tool_rejected",
    "human_responded",
    "tool_started",
    "tool_result",
    "tool_result_message",
}


class Asked(msgspec.Struct):
    """What has been heard of one call."""

    id: str
    name: str
    arguments: JsonObject
    stage: Literal["asked", "required", "waiting", "approved", "running", "answered"] = "asked"
    is_question: bool = False
    attempts: int = 0
    is_error: bool = False


class HeardCalls:
    """The calls of the last answer, from the answer on until their results have gone back."""

    def __init__(self) -> None:
        self.open: dict[str, Asked] = {}
        self._ids: set[str] = set()
        self.children: dict[str, str | None] = {}
        self._then: tuple[set[str], str] | None = None

    @property
    def waits(self) -> bool:
        return any(call.stage in {"required", "waiting"} for call in self.open.values())

    def concerns(self, type_: str, data: dict[str, Any]) -> bool:
        """Whether the event is about these calls; an environment may tell results of its own."""
        return type_ in OF_CALLS and (type_ != "tool_result" or data["id"] in self.open)

    def ask(self, message: Message, where: str) -> None:
        """A whole answer asks for tools."""
        calls = [block for block in message.content if isinstance(block, ToolUseBlock)]
        assert not self.open, where
        for call in calls:
            assert call.id.strip(), where
            assert call.id not in self._ids, where
            self._ids.add(call.id)
            self.open[call.id] = Asked(call.id, call.name, call.input)

    def end_turn(self, outcome: str, stop_reason: str | None, where: str) -> None:
        """No call is left in the middle of anything: all are answered and told, or wait with those that wait."""
        assert self._then is None, where
        if outcome == "completed" and stop_reason == "tool_use":  # in an environment that runs no tools
            assert all(call.stage == "asked" for call in self.open.values()), where
            self.open.clear()
        if self.open:
            assert outcome in {"waiting", "interrupted"}, where
            assert {call.stage for call in self.open.values()} <= {"waiting", "answered"}, where
        assert self.waits == bool(self.open), where
        assert outcome != "waiting" or self.waits, where

    def read(self, type_: str, data: dict[str, Any], where: str, *, state: str | None, resumed: bool) -> None:
        if self._then is not None:
            types, id_ = self._then
            assert type_ in types, where
            assert data["id"] == id_, where
            self._then = None
        match type_:
            case "human_approve_required":
                self._require(data, where, resumed=resumed)
            case "human_prompt_required" | "human_select_required":
                call = self._at(data["id"], {"asked"}, where)
                call.is_question, call.stage = True, "required"
            case "tool_pending":
                assert {call.id for call in self.open.values() if call.stage == "required"} == set(data["ids"]), where
                for id_ in data["ids"]:
                    self.open[id_].stage = "waiting"
            case "tool_started":
                assert state == "tool_executing", where
                call = self._at(data["id"], {"asked", "approved"} | ({"running"} if resumed else set()), where)
                call.stage, call.attempts = "running", call.attempts + 1
                assert (data["name"], data["input"], data["attempt"]) == (call.name, call.arguments, call.attempts)
            case "tool_result":
                stages = {"asked", "waiting", "approved", "running"}
                call = self._at(data["id"], stages, where)
                call.stage, call.is_error = "answered", data["is_error"]
            case "tool_result_message":
                self._go_back(msgspec.convert(data["message"], Message, strict=False), where)
            case _:
                self._decide(type_, data, where)

    def start_child(self, data: dict[str, Any], where: str) -> None:
        """A call that runs is a child session; a detached one is answered at once."""
        self._at(data["call_id"], {"running"}, where)
        assert data["child_id"] not in self.children, where
        self.children[data["child_id"]] = None
        if data["detached"]:
            self._then = {"tool_result"}, data["call_id"]

    def end_child(self, data: dict[str, Any], where: str) -> None:
        """A child has ended; one that waits may end again, and one that was given up may still say how it ended."""
        assert self.children[data["child_id"]] in {None, "waiting", "unknown", data["outcome"]}, where
        self.children[data["child_id"]] = data["outcome"]
        call = self.open.get(data["call_id"])
        if call is not None and call.stage == "running":
            if data["outcome"] == "waiting":
                call.stage = "waiting"
            else:
                self._then = {"tool_result"}, call.id

    def _require(self, data: dict[str, Any], where: str, *, resumed: bool) -> None:
        for asked in msgspec.convert(data["calls"], tuple[AskedCall, ...], strict=False):
            call = self._at(asked.id, {"asked", "waiting"} | ({"running"} if resumed else set()), where)
            assert (asked.name, asked.arguments) == (call.name, call.arguments), where
            assert asked.digest, where
            assert not call.is_question, where
            if call.stage != "waiting":
                call.stage = "required"

    def _decide(self, type_: str, data: dict[str, Any], where: str) -> None:
        call = self._at(data["id"], {"waiting"}, where)
        match type_:
            case "tool_approved":
                assert not call.is_question, where
                call.stage = "approved"
            case "tool_edited":
                assert not call.is_question, where
                assert data["original"] == call.arguments != data["edited"], where
                call.arguments = data["edited"]
                self._then = {"tool_approved", "tool_result"}, call.id
            case "human_responded":
                assert call.is_question, where
                self._then = {"tool_result"}, call.id
            case _:
                assert type_ == "tool_rejected", where
                self._then = {"tool_result"}, call.id

    def _go_back(self, message: Message, where: str) -> None:
        told = [block for block in message.content if isinstance(block, ToolResultBlock)]
        assert self.open, where
        assert {call.stage for call in self.open.values()} == {"answered"}, where
        assert len(told) == len(message.content), where
        assert [block.tool_use_id for block in told] == list(self.open), where
        assert [block.is_error for block in told] == [call.is_error for call in self.open.values()], where
        self.open.clear()

    def _at(self, id_: str, stages: set[str], where: str) -> Asked:
        assert id_ in self.open, where
        call = self.open[id_]
        assert call.stage in stages, where
        return call
