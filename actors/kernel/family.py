"""Whose children actors are: known while the parents live, and kept nowhere."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pykka

from reenact.actors.kernel.supervision import Supervision

if TYPE_CHECKING:
    from reenact.actors.kernel.persistent import EventSourcedActor

Key: TypeAlias = "tuple[type[EventSourcedActor[Any, Any, Any]], str]"
"""An identity: a class of actors and an id."""
Child: TypeAlias = "Key | pykka.ActorRef[Any]"

_LOOKS: Final = 2
"""How many older children are looked at when another one is added."""


class Family:
    """Parents, their children, and how those are cared for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: dict[Key, OrderedDict[Child, None]] = {}
        self._parents: dict[Child, Key] = {}
        self._care: dict[Child, Supervision] = {}

    def add(self, parent: Key, child: Child, supervision: Supervision | None) -> None:
        """Take note of a child. Idempotent; the last supervision counts when it is started the next time."""
        with self._lock:
            children = self._children.setdefault(parent, OrderedDict())
            if child not in children:
                self._forget_dead(children)
            children[child] = None
            self._parents[child] = parent
            if supervision is not None:
                self._care[child] = supervision

    def part(self, parent: Key) -> list[Child]:
        """Forget the children of the parent, and return them."""
        if parent not in self._children:
            return []
        with self._lock:
            # One that another parent has taken over since is that one's.
            children = [child for child in self._children.pop(parent, ()) if self._parents.get(child) == parent]
            for child in children:
                self._parents.pop(child, None)
                self._care.pop(child, None)
            return children

    def children(self, parent: Key) -> list[Child]:
        """Return the children of the parent."""
        if parent not in self._children:
            return []
        with self._lock:
            return list(self._children.get(parent, ()))

    def parent(self, child: Child) -> Key | None:
        """Return the parent, if there is one."""
        return self._parents.get(child)

    def supervision(self, child: Child) -> Supervision | None:
        """Return how the parent has the child cared for, if it has said so."""
        return self._care.get(child)

    def _forget_dead(self, children: OrderedDict[Child, None]) -> None:
        # Actors without a log do not come back. A parent that goes on making them must not go on remembering them.
        for _ in range(min(_LOOKS, len(children))):
            child, _ = children.popitem(last=False)
            if isinstance(child, pykka.ActorRef) and not child.is_alive():
                self._parents.pop(child, None)
            else:
                children[child] = None
