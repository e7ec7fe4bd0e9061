"""Child sessions in a world: calls that start one, and their ends, as they stand in the logs of both."""

from __future__ import annotations

from reenact.domain.children import Budget, ChildEnded, ChildOutcome, ChildStarted, Parent
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.domain.session.state import Session, SessionCreated, SessionEvent, evolve
from tests.projections.histories import World, stream_of

USAGE = {"input_tokens": 7, "output_tokens": 3}
ANSWER = ReceivedAnswer(
    content=(TextBlock("Found"),), message_id="m", stop_reason="end_turn", usage=USAGE, model="small"
)


def call(world: World, parent: str, child: str, call_id: str = "c1") -> None:
    """Have the parent's model call an image, whose session begins and is asked."""
    world.run(parent)
    if world.sessions[parent].turn is None:
        world.say(parent)
    world.ask(parent, ToolUseBlock(call_id, "researcher", {"prompt": "Why?"}), usage=USAGE)
    above = world.sessions[parent].parent
    depth = 1 if above is None else above.depth + 1
    _record(world, parent, ChildStarted(call_id, child, "i", 1, depth, Budget(), detached=False, at=2))
    root = parent if above is None else above.root
    version = len(world.log.read(stream_of(parent)))
    of = Parent(session_id=parent, version=version, call_id=call_id, root=root, depth=depth)
    _record(world, child, SessionCreated(child, world.sessions[parent].container_id, "i", 1, of, Budget()))
    world.run(child)
    world.say(child, "Why?")


def end(world: World, parent: str, child: str, outcome: ChildOutcome = "completed", call_id: str = "c1") -> None:
    """Have the parent told how the child has ended."""
    version = len(world.log.read(stream_of(child)))
    told = ChildEnded(call_id, child, outcome, "end_turn", 1, USAGE, 0.5, version, version, "ab", 3)
    _record(world, parent, told)
    if outcome != "waiting":
        world.report(parent, call_id, "Found")


def _record(world: World, session_id: str, event: SessionEvent) -> None:
    world.sessions[session_id] = evolve(world.sessions.get(session_id, Session()), event)
    world.log.append(stream_of(session_id), event)
