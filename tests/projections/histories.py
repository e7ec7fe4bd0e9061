"""Real histories: what `decide` makes of any sequence of commands, in a log that is a list."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

import msgspec
from hypothesis import strategies as st

from reenact.domain import container, image
from reenact.domain.errors import ReenactError
from reenact.domain.history.causes import cause_of
from reenact.domain.loop.ledger import CostLimit, Price
from reenact.domain.loop.rounds import Stage
from reenact.domain.loop.rules import Rules
from reenact.domain.messages import Block, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from reenact.domain.plain import Json, JsonObject
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.agent import Failure, HandoverRequested, ReceivedAnswer
from reenact.domain.session.branching import before_last_message, waiting
from reenact.domain.session.commands import (
    Approve,
    BranchSession,
    CancelSchedule,
    Compress,
    CreateSession,
    Delete,
    Finish,
    FireSchedule,
    Interrupt,
    Receive,
    Reject,
    Report,
    Respond,
    Resume,
    Run,
    ScheduleMessage,
    SessionCommand,
    Stop,
    Switch,
)
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, evolve
from reenact.domain.tools import History

START = 1_700_000_000_000_000


RULES = {
    "x": Rules(
        policies=Policies(tools={"send": Policy("required"), "pay": Policy("first")}),
        prices={"small": Price(3.0, 15.1)},
        costs={"search": 0.1},
        idempotent=("search",),
        max_steps=2,
        max_repeats=2,
        cost_limit=CostLimit(0.15, "warn"),
    ),
    "y": Rules(policies=Policies(tools={"send": Policy("always")}), cost_limit=CostLimit(0.35, "interrupt")),
}
"""What holds for the agents of all sessions, now the one, now the other."""


class Recorded(msgspec.Struct, frozen=True):
    """A row of the log."""

    stream: str
    version: int
    position: int
    recorded_at: int
    event: object
    is_redacted: bool = False
    cause: bytes | None = None
    is_behind_forgotten: bool = False


def stream_of(session_id: str) -> str:
    """Return the stream of a session."""
    return f"session/{session_id}"


def lineage(rows: Sequence[Recorded], session_id: str) -> list[Recorded]:
    """Return a session's history: what it shares with the one it branches off from, then its own events."""
    own = [row for row in rows if row.stream == stream_of(session_id)]
    branched = own[0].event if own else None
    if not isinstance(branched, SessionBranched):
        return own
    origin = stream_of(branched.origin)
    before = lineage(rows, branched.origin)
    return [*(row for row in before if row.stream != origin or row.version <= branched.version), *own]


def steps_of(rows: Sequence[Recorded]) -> list[list[Recorded]]:
    """Return the rows of each step; those of none come one by one."""
    found: list[list[Recorded]] = []
    for row in rows:
        if found and row.cause is None and found[-1][0].cause is not None and found[-1][0].stream == row.stream:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _events(history: Sequence[Recorded]) -> list[SessionEvent]:
    return [row.event for row in history if isinstance(row.event, SessionEvent)]


class ListLog:
    """A log in memory; `first` is when its first event was recorded."""

    def __init__(self, first: int = START) -> None:
        self.rows: list[Recorded] = []
        self.first = first
        self._versions: dict[str, int] = {}

    def append(self, stream: str, *events: object, cause: bytes | None = None) -> int:
        """Add the events of a step to the stream, and return the position of the last of them."""
        for event in events:
            version = self._versions[stream] = self._versions.get(stream, 0) + 1
            position = len(self.rows) + 1
            row = Recorded(stream, version, position, self.first + 1000 * position, event, cause=cause)
            self.rows.append(row)
            cause = None
        return len(self.rows)

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        """Return up to `limit` events behind the position."""
        return self.rows[after : after + limit]

    def read(self, stream: str, *, after: int = 0) -> Sequence[Recorded]:
        """Return the stream's events with a version above `after`."""
        return [row for row in self.rows if row.stream == stream and row.version > after]

    def head(self) -> int:
        """Return the position of the last event."""
        return len(self.rows)

    def until(self, position: int) -> ListLog:
        """Return the log as it was at the position."""
        earlier = ListLog(self.first)
        for row in self.rows[:position]:
            earlier.append(row.stream, row.event, cause=row.cause)
        return earlier


class FaultyLog(ListLog):
    """A log that cannot be read while there is an error."""

    error: BaseException | None = None

    def read_all(self, *, after: int, limit: int) -> Sequence[Recorded]:
        if self.error is not None:
            raise self.error
        return super().read_all(after=after, limit=limit)


class World:
    """Sessions that take commands, and the log that their events go to."""

    def __init__(self, log: ListLog | None = None) -> None:
        self.log = log if log is not None else ListLog()
        self.sessions: dict[str, Session] = {}
        self.rules = RULES["x"]
        self._containers: dict[str, container.Container] = {}
        self._images: dict[str, image.Images] = {}
        self._ids = itertools.count(1)

    def create_container(self, container_id: str, name: str | None = None) -> None:
        """Create the container, unless it exists."""
        known = self._containers.get(container_id, container.Container())
        command = container.CreateContainer(container_id=container_id, name=name)
        try:
            events = container.decide(known, command)
        except ReenactError:
            return
        self._containers[container_id] = container.evolve(known, events[0])
        self.log.append(f"container-{container_id}", *events, cause=cause_of(command, events))

    def register_image(self, image_id: str, definition: image.Definition) -> None:
        """Register the image, which may come to nothing."""
        known = self._images.get(image_id, image.Images())
        command = image.RegisterImage(image_id=image_id, definition=definition)
        events = image.decide(known, command)
        for event in events:
            known = image.evolve(known, event)
        self._images[image_id] = known
        self.log.append(f"image-{image_id}", *events, cause=cause_of(command, events))

    def tell(self, session_id: str, command: SessionCommand) -> int:
        """Give the session a command, and return the log's head; what is refused changes nothing."""
        session = self.sessions.get(session_id, Session())
        try:
            events = decide(session, command)
        except ReenactError:
            return self.log.head()
        for event in events:
            session = evolve(session, event)
        self.sessions[session_id] = session
        return self.log.append(stream_of(session_id), *events, cause=cause_of(command, events))

    def create(self, session_id: str, container_id: str = "c", image_id: str = "i") -> int:
        """Create the session."""
        command = CreateSession(session_id=session_id, container_id=container_id, image_id=image_id, image_revision=1)
        return self.tell(session_id, command)

    def begin(self, session_id: str, container_id: str = "c") -> None:
        """Create the session, and run its agent."""
        self.create(session_id, container_id)
        self.run(session_id)

    def branch(
        self, session_id: str, new_id: str, at: int | None = None, edit: str | None = None, image_id: str = "i"
    ) -> int:
        """Branch off from the session at a position of the log, by default the last one."""
        history = [row for row in lineage(self.log.rows, session_id) if at is None or row.position <= at]
        if edit is not None:
            last = before_last_message(_events(history))
            history = history if last is None else history[: last + 1]
        if not history or new_id in self.sessions:
            return self.log.head()
        origin = reduce(evolve, _events(history), Session())
        content = None if edit is None else (TextBlock(edit),)
        command = BranchSession(
            session_id=new_id,
            container_id=origin.container_id,
            image_id=image_id,
            image_revision=1,
            origin=history[-1].stream.removeprefix("session/"),
            version=history[-1].version,
            digest="d1",
            position=history[-1].position,
            at=self._now(),
            left_at=history[-1].recorded_at,
            edit=content,
            ids=tuple((f"trn_{self._next()}", f"msg_{self._next()}") for _ in waiting(origin, content)),
            results_id=self._results_id(),
        )
        self.sessions[new_id] = origin
        return self.tell(new_id, command)

    def switch(self, session_id: str, image_id: str, history: History = "all") -> int:
        """Hand the session over."""
        switch = Switch(session_id=session_id, image_id=image_id, image_revision=1, history=history)
        return self.tell(session_id, switch)

    def schedule(self, session_id: str, every: int | None) -> int:
        """Have a message come a little later, and perhaps again."""
        now = self._now()
        schedule = ScheduleMessage(
            session_id=session_id,
            schedule_id=f"sch_{self._next()}",
            content=(TextBlock("Now"),),
            due=now + 1000,
            every=every,
            until=None if every is None else now + 3 * every,
        )
        return self.tell(session_id, schedule)

    def fire(self, session_id: str, *, starts: bool = True) -> int:
        """Have the next message of the session come, early if need be, with an agent if one can be started."""
        session = self.sessions.get(session_id, Session())
        if not session.schedules:
            return self.log.head()
        one = min(session.schedules, key=lambda scheduled: scheduled.due)
        fire = FireSchedule(
            schedule_id=one.id,
            due=one.due,
            at=max(one.due, self._now()),
            agent_id=f"agt_{self._next()}" if starts and session.agent is None else None,
            turn_id=self._turn_id(),
            message_turn_id=self._turn_id(),
            message_id=f"msg_{self._next()}",
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, fire)

    def cancel(self, session_id: str) -> int:
        """Cancel a schedule of the session, or none."""
        scheduled = self.sessions.get(session_id, Session()).schedules
        return self.tell(session_id, CancelSchedule(schedule_id=scheduled[0].id if scheduled else "none"))

    def run(self, session_id: str) -> int:
        """Run the session."""
        command = Run(
            session_id=session_id,
            agent_id=f"agt_{self._next()}",
            at=self._now(),
            turn_id=self._turn_id(),
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, command)

    def say(self, session_id: str, text: str = "Hello", agent_id: str | None = None) -> int:
        """Give the session's agent a message."""
        number = self._next()
        live = self.sessions.get(session_id, Session()).agent
        receive = Receive(
            agent_id=agent_id or (live.id if live is not None else "nobody"),
            turn_id=f"trn_{number}",
            message_id=f"msg_{number}",
            content=(TextBlock(text),),
            at=self._now(),
            rules=self.rules,
        )
        return self.tell(session_id, receive)

    def answer(self, session_id: str, so_far: ReceivedAnswer) -> int:
        """Have the model answer in the session's turn, if one is under way."""
        finish = Finish(
            turn_id=self._turn(session_id),
            so_far=so_far,
            at=self._now(),
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, finish)

    def ask(self, session_id: str, *calls: ToolUseBlock, usage: Usage | None = None) -> int:
        """Have the model ask for calls of tools."""
        so_far = ReceivedAnswer(
            message_id="asks", content=calls, stop_reason="tool_use", usage=usage or {}, model="small"
        )
        return self.answer(session_id, so_far)

    def report(
        self,
        session_id: str,
        call_id: str = "",
        result: Json = "found",
        *,
        is_error: bool = False,
        hands_over_to: str | None = None,
    ) -> int:
        """Have a tool answer a call, by default the first that runs."""
        id_ = call_id or self.call(session_id, "running")
        report = Report(
            handover=None if hands_over_to is None else HandoverRequested(hands_over_to, 1, "summary", id_),
            turn_id=self._turn(session_id),
            call_id=id_,
            result=result,
            is_error=is_error,
            at=self._now(),
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, report)

    def approve(self, session_id: str, call_id: str = "", arguments: JsonObject | None = None) -> int:
        """Have a person approve a call, by default the first that waits."""
        approve = Approve(
            call_id=call_id or self.call(session_id, "waiting"),
            turn_id=self._turn_id(),
            at=self._now(),
            arguments=arguments,
            by="ann",
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, approve)

    def reject(self, session_id: str, call_id: str = "", *, resume: bool = True) -> int:
        """Have a person reject a call, by default the first that waits."""
        reject = Reject(
            call_id=call_id or self.call(session_id, "waiting"),
            turn_id=self._turn_id(),
            at=self._now(),
            reason="no",
            resume=resume,
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, reject)

    def respond(self, session_id: str, value: Json, call_id: str = "") -> int:
        """Have a person answer a question, by default the first that waits."""
        respond = Respond(
            call_id=call_id or self.call(session_id, "waiting"),
            turn_id=self._turn_id(),
            at=self._now(),
            value=value,
            by="bob",
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, respond)

    def resume(self, session_id: str) -> int:
        """Go on with the calls that were running when the process ended."""
        resume = Resume(turn_id=self._turn(session_id), at=self._now(), rules=self.rules, results_id=self._results_id())
        return self.tell(session_id, resume)

    def compress(self, session_id: str, usage: Usage) -> int:
        """Have the conversation summarised."""
        compress = Compress(
            turn_id=self._turn(session_id),
            summary="in short",
            kept=1,
            usage=usage,
            model="small",
            at=self._now(),
            rules=self.rules,
        )
        return self.tell(session_id, compress)

    def interrupt(self, session_id: str, so_far: ReceivedAnswer) -> int:
        """Interrupt the session's agent."""
        agent = self.sessions.get(session_id, Session()).agent
        agent_id = agent.id if agent is not None else "nobody"
        interrupt = Interrupt(
            agent_id=agent_id,
            reason="user",
            at=self._now(),
            so_far=so_far,
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, interrupt)

    def stop(self, session_id: str, so_far: ReceivedAnswer) -> int:
        """Stop the session's agent."""
        stop = Stop(
            agent_id=None,
            reason="destroyed",
            at=self._now(),
            so_far=so_far,
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, stop)

    def delete(self, session_id: str, so_far: ReceivedAnswer | None = None) -> int:
        """Delete the session."""
        delete = Delete(
            session_id=session_id,
            at=self._now(),
            so_far=so_far or ReceivedAnswer(),
            rules=self.rules,
            results_id=self._results_id(),
        )
        return self.tell(session_id, delete)

    def call(self, session_id: str, stage: Stage) -> str:
        """Return the id of the session's first call at the stage, or one that no call has."""
        round_ = self.sessions.get(session_id, Session()).round
        calls = () if round_ is None else round_.at(stage)
        return calls[0].id if calls else "none"

    def _turn(self, session_id: str) -> str:
        turn = self.sessions.get(session_id, Session()).turn
        return turn.id if turn is not None else "none"

    def _turn_id(self) -> str:
        return f"trn_{self._next()}"

    def _results_id(self) -> str:
        return f"res_{self._next()}"

    def _next(self) -> int:
        return next(self._ids)

    def _now(self) -> int:
        return self.log.first + 1000 * self.log.head() + 7


Step: TypeAlias = tuple[str, str, str, ReceivedAnswer]
"""What is done, to which session, in or with which other thing, and what had come in by then."""

_COUNTED: Usage = {"output_tokens": 3, "service_tier": "standard", "cache_creation": {"ephemeral": 1}}
_UNKNOWN: Usage = {}
_usage: st.SearchStrategy[Usage] = st.one_of(
    st.sampled_from([_UNKNOWN, _COUNTED]),
    st.fixed_dictionaries({"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
)
_said: list[tuple[Block, ...]] = [
    (),
    (TextBlock("Hi"),),
    (TextBlock(" "),),
    (ThinkingBlock("Hm", "signed"), TextBlock("Grüße")),
]
_SEARCH = ToolUseBlock("t1", "search", {"q": [1, 2.5, None]})
_CALLS: list[tuple[Block, ...]] = [
    (_SEARCH,),
    (TextBlock("Wait"), ToolUseBlock("t1", "send", {"to": "ann"}), ToolUseBlock("t2", "pay", {"amount": 3})),
    (ToolUseBlock("t2", "send", {}), _SEARCH, ToolUseBlock("t3", "ask_user", {"prompt": "Sure?"})),
    (ToolUseBlock("t1", "ask_user", {"prompt": "Which?", "options": ["a", "b"], "multi": True}),),
    (ToolUseBlock("t1", "ask_user", {"options": ["a"]}), ToolUseBlock("t1", "pay", {"amount": 3})),
]
_models = st.sampled_from([None, "small", "large"])
_first_deltas = st.sampled_from([None, 0.25, 1.5])
so_fars = st.builds(
    ReceivedAnswer,
    message_id=st.sampled_from([None, "same", "other"]),
    content=st.sampled_from([*_said, *_CALLS[:1]]),
    stop_reason=st.sampled_from([None, "end_turn", "max_tokens"]),
    usage=_usage,
    model=_models,
    failure=st.sampled_from([None, None, Failure("overloaded_error", "busy", retryable=True)]),
    stop_sequence=st.sampled_from([None, "END"]),
    stop_details=st.sampled_from([None, StopDetails(category="bio", explanation="No.")]),
    first_delta=_first_deltas,
)
asking = st.builds(
    ReceivedAnswer,
    message_id=st.sampled_from(["same", "other"]),
    content=st.sampled_from(_CALLS),
    stop_reason=st.just("tool_use"),
    usage=_usage,
    model=_models,
    first_delta=_first_deltas,
)
_commands = ["create", "run", "run", "say", "say", "say", "answer", "interrupt", "stop", "delete"]
_of_calls = ["report", "hand over", "fail", "resume", "compress", "rules"]
_of_people = ["approve", "edit", "reject", "give up", "respond"]
_fitting = ["go on"] * 30
_branches = [f"branch {back}" for back in (0, 0, 1, 2, 3, 5, 8)] + ["edit 0", "edit 4"]
_others = ["container", "image", "foreign", "switch all", "switch none"]
_scheduling = ["schedule", "schedule", "fire", "fire", "cancel"]
_doings = st.sampled_from([*_commands, *_of_calls, *_of_people, *_fitting, *_branches, *_others, *_scheduling])
_sessions = st.sampled_from("aaabcdde")
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(_doings, _sessions, st.sampled_from("xy"), st.one_of(so_fars, asking, asking)), min_size=15, max_size=60
)


class Foreign(msgspec.Struct, frozen=True):
    """An event of an actor that users wrote themselves."""

    amount: int


def play(chosen: Sequence[Step], world: World | None = None) -> World:
    """Return the world after the steps; the sessions a and b are there from the beginning, and a is asked something."""
    if world is None:
        world = World()
        world.create("a", "x")
        world.create("b", "y")
        world.run("a")
        world.say("a")
    for doing, session_id, other, so_far in chosen:
        if _do_to_calls(world, doing, session_id, other, so_far) or _branch(world, doing, session_id):
            continue
        if _arrange(world, doing, session_id, other):
            continue
        match doing:
            case "create":
                world.create(session_id, other)
            case "run":
                world.run(session_id)
            case "say":
                world.say(session_id, f"Hello {other}")
            case "answer":
                world.answer(session_id, so_far)
            case "interrupt":
                world.interrupt(session_id, so_far)
            case "stop":
                world.stop(session_id, so_far)
            case "delete":
                world.delete(session_id, so_far)
            case "container":
                world.create_container(other, session_id if other == "x" else None)
            case "image":
                world.register_image(other, image.Definition(session_id, system_prompt="Be kind"))
            case _:
                world.log.append("counter", Foreign(1))
    return world


def _branch(world: World, doing: str, session_id: str) -> bool:
    """Branch off from the session a few events ago, or with another question."""
    what, _, back = doing.partition(" ")
    if not back.isdigit():
        return False
    new_id = next((one for one in "defgh" if one not in world.sessions), "h")
    world.branch(session_id, new_id, world.log.head() - int(back), None if what == "branch" else "Instead")
    return True


def _arrange(world: World, doing: str, session_id: str, other: str) -> bool:
    match doing:
        case "switch all":
            world.switch(session_id, other)
        case "switch none":
            world.switch(session_id, other, "none")
        case "schedule":
            world.schedule(session_id, None if other == "x" else 2_000_000)
        case "fire":
            world.fire(session_id, starts=other == "x")
        case "cancel":
            world.cancel(session_id)
        case _:
            return False
    return True


def _do_to_calls(world: World, doing: str, session_id: str, other: str, so_far: ReceivedAnswer) -> bool:
    match doing:
        case "go on":
            _go_on(world, session_id, other, so_far)
        case "report":
            world.report(session_id, result={"found": other})
        case "hand over":
            world.report(session_id, hands_over_to=other)
        case "fail":
            world.report(session_id, result="broken", is_error=True)
        case "resume":
            world.resume(session_id)
        case "compress":
            world.compress(session_id, so_far.usage)
        case "rules":
            world.rules = RULES[other]
        case "approve":
            world.approve(session_id)
        case "edit":
            world.approve(session_id, arguments={"to": other})
        case "reject":
            world.reject(session_id)
        case "give up":
            world.reject(session_id, resume=False)
        case "respond":
            world.respond(session_id, "Yes" if other == "x" else ["b"])
        case _:
            return False
    return True


def _go_on(world: World, session_id: str, other: str, so_far: ReceivedAnswer) -> None:
    """Do what the session waits for: a tool's result, a person's decision, the model's answer, a message, an agent."""
    session = world.sessions.get(session_id, Session())
    round_ = session.round
    if session.agent is None:
        world.run(session_id)
    elif round_ is not None and round_.runs:
        world.report(session_id, result=[other])
    elif round_ is not None:
        waiting = round_.at("waiting")[0]
        match waiting.kind:
            case "approval":
                world.approve(session_id, arguments=None if other == "x" else {"to": "bob"})
            case "prompt":
                world.respond(session_id, "Yes")
            case "select":
                world.respond(session_id, ["b"])
            case "child":
                raise AssertionError("nothing here starts child sessions")
    elif session.turn is not None:
        world.answer(session_id, so_far)
    else:
        world.say(session_id)
