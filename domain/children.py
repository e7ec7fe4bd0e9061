"""Child sessions: images that a model calls as tools, their budgets, and the events about a child and its parent.

A child session is a session. Its parent's log records when it started and how it ended; its own log begins with the
identity of its parent.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal, TypeAlias

from reenact.domain.errors import ConfigurationError
from reenact.domain.messages import Usage
from reenact.domain.plain import JsonObject, UserValue
from reenact.domain.shards import child_key
from reenact.domain.structs import Fact, Frozen, FrozenByName
from reenact.domain.tools import ToolSpec, check_spec, is_amount

MAX_DEPTH: Final = 2
"""The greatest depth of a child session: children of a session without parent are at depth 1."""
MAX_CHILDREN: Final = 8
"""How many child sessions a turn may start, including the turns that continue it."""
_LONGEST = 1e9
_DIGEST = 13

ChildOutcome: TypeAlias = Literal["completed", "failed", "interrupted", "limit", "waiting", "unknown"]
"""How a child ended. `limit`: a limit or budget ended it; `waiting`: it waits for a person."""


class Budget(UserValue, gc=False, omit_defaults=True):
    """What a child session and its own children may use; None is no limit of its own.

    `steps` is how often models may be asked, `tokens` the sum of all token counts, `cost` is in the currency of the
    prices, and `seconds` is the total duration of its turns, without the time spent waiting for a person.

    Raises:
        ConfigurationError: a value is not a valid amount.
    """

    steps: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Raise `ConfigurationError` if a value is not a valid amount."""
        for name in ("steps", "tokens"):
            count: object = getattr(self, name)
            if count is not None and not (type(count) is int and count >= 1):
                raise ConfigurationError(f"{name} of a budget must be a whole number of 1 or more, not {count!r:.80}")
        if self.cost is not None and not is_amount(self.cost):
            raise ConfigurationError(f"cost of a budget must be an amount of 0 or more, not {self.cost!r:.80}")
        if self.seconds is not None and not (is_amount(self.seconds, _LONGEST) and self.seconds > 0):
            raise ConfigurationError(f"seconds of a budget must be a number above 0, not {self.seconds!r:.80}")


NO_BUDGET: Final = Budget()


class AgentTool(FrozenByName, omit_defaults=True):
    """An image that a model calls as a tool of this name; create it with `agent_tool`.

    A call starts a child session of the image, and the child's answer is the call's result. A `detached` call returns
    the id of the session at once, and the answer arrives as a message later.
    """

    name: str
    image_id: str
    description: str
    detached: bool = False
    budget: Budget | None = None

    def spec_for_model(self) -> ToolSpec:
        """Return the spec of the tool as the model sees it."""
        return ToolSpec(name=self.name, description=self.description, input_schema=_PROMPT)


class OfferedAgent(FrozenByName, omit_defaults=True):
    """A tool of a session whose calls start child sessions, with the revision of the image that they start."""

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
        description: the description of the tool that the model reads.
        detached: whether a call returns the id of the session at once; the answer then arrives as a message.
        budget: what each child session may use. For each value that it leaves open, a child gets an equal share of what
            remains of the calling session's budget or cost limit, if it has one.

    Raises:
        ConfigurationError: the Messages API would refuse the tool.
    """
    image_id = name if image is None else image
    return check_agent(
        AgentTool(name=name, image_id=image_id, description=description, detached=detached, budget=budget)
    )


def check_agent(agent: AgentTool) -> AgentTool:
    """Return the tool, or raise `ConfigurationError` if the Messages API would refuse it or its image id is blank."""
    check_spec(agent.spec_for_model())
    if not agent.image_id.strip():
        raise ConfigurationError(f"tool {agent.name!r} names no image")
    if agent.budget is not None and not isinstance(agent.budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's own
        raise ConfigurationError(f"tool {agent.name!r}: its budget must be a Budget, not {agent.budget!r:.80}")
    return agent


class Parent(FrozenByName):
    """The parent of a child session: the child was started after this version of the parent's events, for this call.

    `root` is the session at the top of the family, which has no parent, and `depth` the distance from it.
    """

    session_id: str
    version: int
    call_id: str
    root: str
    depth: int


class ChildOrigin(FrozenByName, omit_defaults=True):
    """The child session from which a child branches off, because the session that called it does.

    The branch begins after this version, which was recorded `at` this time, and was the last at this `position` of the
    log; `digest` is that of its row. `waits` if the branch waits for a person. `steps`, `usage` and `cost` are what the
    calling session had settled of the child's use.
    """

    session_id: str
    version: int
    digest: str
    position: int
    at: int
    waits: bool
    steps: int = 0
    usage: dict[str, int] = {}
    cost: float | None = None


class ChildStarted(Fact):
    """The call has started a child session of this revision of an image; the `budget` is reserved for it.

    In a branch, the child has an `origin` if it is a branch itself.
    """

    call_id: str
    child_id: str
    image_id: str
    image_revision: int
    depth: int
    budget: Budget
    detached: bool
    at: int
    origin: ChildOrigin | None = None


class ChildEnded(Fact):
    """The child's turn has ended; if the child waits for a person, another end follows.

    `steps`, `usage` and `cost` are what the child and its own children have used since the last settlement. `version`
    and `cursor` are those of the child's last event, and `digest` is that of the row that holds it; they are 0 and ""
    if the child did not report how it ended.
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
    """The children that the calls wait for are interrupted; the turn ends when all of them have ended."""

    reason: str
    at: int


class Child(Frozen):
    """The state of a child as its parent knows it: what it was started with, how it ended, and what it has used.

    `prompt` is the question it was given; it is kept until the child has ended.
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
        """Whether it is running, or waits for a person."""
        return self.outcome is None or self.outcome == "waiting"


def child_id(parent_id: str, call_id: str, attempt: int, *, root: str) -> str:
    """Return the id of the child session of a call: deterministic, and in the shard of the `root`."""
    key = f"{len(parent_id)} {parent_id} {len(call_id)} {call_id} {attempt}"
    return f"ses_{hashlib.blake2b(key.encode(), digest_size=_DIGEST).hexdigest()}_{child_key(root)}"
