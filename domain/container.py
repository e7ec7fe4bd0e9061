"""A container: a named workspace. It is created and never deleted."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from reenact.domain.errors import AlreadyExistsError
from reenact.domain.idempotency import IdempotentCommand
from reenact.domain.structs import Fact, Frozen, FrozenByName


class ContainerInfo(FrozenByName):
    """A container as callers see it. `created_at` is timezone-aware UTC."""

    id: str
    name: str | None
    created_at: datetime


class ContainerCreated(Fact):
    """The container was created."""

    container_id: str
    name: str | None


ContainerEvent: TypeAlias = ContainerCreated


class CreateContainer(IdempotentCommand, kw_only=False):
    """Create the container."""

    container_id: str
    name: str | None


class Container(Frozen):
    """The state of a container."""

    id: str | None = None
    name: str | None = None


def decide(container: Container, command: CreateContainer) -> tuple[ContainerEvent, ...]:
    """Return the events that the command leads to, or raise `AlreadyExistsError`."""
    if container.id is not None:
        raise AlreadyExistsError("container", container.id)
    return (ContainerCreated(command.container_id, command.name),)


def evolve(_container: Container, event: ContainerEvent) -> Container:
    """Return the container's state after the event."""
    return Container(event.container_id, event.name)
