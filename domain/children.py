"""Child sessions: images that a model calls as tools, their budgets, and what a log holds of a child and of its parent.

A child session is a session. Its parent's log says when it started and how it ended, its own log begins with who its
parent is.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, TypeAlias

import msgspec

from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import Usage
from reenact.domain.plain import JsonObject, Spelled
from reenact.domain.shards import child_key
from reenact.domain.structs import Fact, Frozen, FrozenByName
from reenact.domain.tools import ToolSpec, check_spec, is_amount

MAX_DEPTH: Final = 2
"""How deep sessions may be below the one that nobody has called: its children are at 1."""
MAX_CHILDREN: Final = 8
"""How many child sessions a turn may start, with the turns that it goes on with."""
_LONGEST = 1e9
_DIGEST = 13

ChildOutcome: TypeAlias = Literal["completed", "failed", "interrupted", "limit", "waiting", "unknown"]
"""What came of a child. `limit` is a limit or budget that ended it, `waiting` that it waits for a person."""


class Budget(msgspec.Struct, metaclass=Spelled, frozen=True, gc=False, omit_defaults=True):
    """What a child session may use, with the children of its own: None is what nobody has stated.

    `steps` is how often models may be asked, `tokens` the sum of all token counts, `cost` is in the currency of the
    prices, and `seconds` is how long turns may take together, without the time in which a person is waited for.

    Raises:
        ConfigurationError: one of them is no such amount.
    """

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a budget."""
        for name in ("steps", "tokens"):
            count: object = getattr(self, name)
            if count is not None and not (type(count) is int and count >= 1):
                raise ConfigurationError(f"{name} of a budget is a whole number from 1 on, not {count!r:.80}")
        if self.cost is not None and not is_amount(self.cost):
            raise ConfigurationError(f"cost of a budget is an amount of 0 or more, not {self.cost!r:.80}")
        if self.seconds is not None and not (is_amount(self.seconds, _LONGEST) and self.seconds > 0):
            raise ConfigurationError(f"seconds of a budget are a number above 0, not {self.seconds!r:.80}")


NO_BUDGET: Final = Budget()


class AgentTool(FrozenByName, omit_defaults=True):
    """An image that a model calls as a tool of this name; `agent_tool` makes one.

    A call starts a child session of the image, and its answer is the call's result. A `detached` call is answered at
    once with the id of the session, whose answer comes as a message.
    """

    name: str
    image_id: str
    description: str
    detached: bool = False
    budget: Budget | None = None

    def told(self) -> ToolSpec:
        """Return what the model is told of the tool."""
        return ToolSpec(name=self.name, description=self.description, input_schema=_PROMPT)


class OfferedAgent(FrozenByName, omit_defaults=True):
    """A tool whose calls start child sessions, as a session offers it: with the revision of the image to start."""

    name: str
    image_id: str
    image_revision: int
    detached: bool = False
    budget: Budget | None = None


_PROMPT: Final[JsonObject] = {
    "type": "object",
    "properties": {"prompt": {"type": "string", "description": "All that the agent is to know and to do."}},
    "required": ["prompt"],
    "additionalProperties": False,
}


def agent_tool(
    name: str,
    image: str | None = None,
    *,
    description: str,
    detached: bool = False,
    budget: Budget | None = None,
) -> AgentTool:
    """Return a tool for `Image(tools=[…])` whose calls start child sessions of another image.

    Args:
        name: the tool's name.
        image: the id of the image; by default the name of the tool.
        description: what the model is told of it.
        detached: whether a call is answered at once with the id of the session; its answer comes as a message.
        budget: what each child session may use. What it does not state is an equal share of what is left of the budget
            or cost limit of the session that calls, if that has one.

    Raises:
        ConfigurationError: the Messages API would refuse the tool.
    """
    image_id = name if image is None else image
    return check_agent(
        AgentTool(name=name, image_id=image_id, description=description, detached=detached, budget=budget)
    )


def check_agent(agent: AgentTool) -> AgentTool:
    """Return it, or raise `ConfigurationError` if the Messages API would refuse the tool, or no image has its id."""
    check_spec(agent.told())
    if not agent.image_id.strip():
        raise ConfigurationError(f"tool {agent.name!r} names no image")
    if agent.budget is not None and not isinstance(agent.budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
        raise ConfigurationError(f"tool {agent.name!r}: its budget is a Budget, not {agent.budget!r:.80}")
    return agent


class Parent(FrozenByName):
    """Whose child a session is: behind this version of the parent's events, for this call.

    `root` is the session at the top of the family, which nobody has called, and `depth` how far this one is below it.
    """

    session_id: str
    version: int
    call_id: str
    root: str
    depth: int


class ChildStarted(Fact):
    """The call is a child session of this revision of an image; the `budget` is reserved for it."""

    call_id: str
    child_id: str
    image_id: str
    image_revision: int
    depth: int
    budget: Budget
    detached: bool
    at: int


class ChildEnded(Fact):
    """The child's turn is over; if it waits for a person, another end follows.

    `steps`, `usage` and `cost` are what it and its own children have used and was not settled before. `version` and
    `cursor` are those of the child's last event, and `digest` is that of the record which has it; they are 0 and ""
    if the child has not said how it ended.
    """

    call_id: str
    child_id: str
    outcome: ChildOutcome
    stop_reason: str
    steps: int
    usage: Usage
    cost: float | None
    version: int
    cursor: int
    digest: str
    at: int


class ChildrenInterrupted(Fact):
    """The children that the calls wait for are interrupted; the turn ends when they have ended."""

    reason: str
    at: int


class Child(Frozen):
    """What is known of a child: what it was started with, how it ended, and what was settled for it.

    `prompt` is what it is asked, until it has ended.
    """

    call_id: str
    id: str
    image_id: str
    image_revision: int
    depth: int
    budget: Budget
    detached: bool
    prompt: str
    outcome: ChildOutcome | None = None
    steps: int = 0
    usage: dict[str, int] = {}
    cost: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is at work, or waits for a person."""
        return self.outcome is None or self.outcome == "waiting"


def child_id(parent_id: str, call_id: str, attempt: int, *, root: str) -> str:
    """Return the id of the child session of a call: always the same, and in the shard of the `root`."""
    told = f"{len(parent_id)} {parent_id} {len(call_id)} {call_id} {attempt}"
    return f"ses_{hashlib.blake2b(told.encode(), digest_size=_DIGEST).hexdigest()}_{child_key(root)}"
