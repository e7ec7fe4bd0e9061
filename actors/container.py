"""The actors of containers and images, which record and publish their events."""

from __future__ import annotations

from typing import TypeVar

from reenact.actors.idempotency import remembered
from reenact.actors.journal.api import Entry, Recorded, Remembered, Segment
from reenact.actors.kernel import Announcement, EventSourcedActor
from reenact.domain import container as containers
from reenact.domain import image as images
from reenact.domain.errors import LogUnusableError
from reenact.domain.history.causes import AnyCommand, cause_of
from reenact.domain.messages import instant
from reenact.domain.stream import events as heard

State = TypeVar("State")
Command = TypeVar("Command", bound=AnyCommand)
Event = TypeVar("Event", bound=containers.ContainerEvent | images.ImageEvent)


class _EntityActor(EventSourcedActor[State, Command, Event]):
    """One container or image."""

    cause = staticmethod(cause_of)  # pyright: ignore[reportAssignmentType]  # it does not use the actor

    def announce(
        self, command: Command, before: State, events: tuple[Event, ...], after: State, recorded_at: int
    ) -> Announcement:
        """Return the published events; they belong to no session, so no feed stores them."""
        return (), tuple(_published(event, recorded_at) for event in events)


class ContainerActor(_EntityActor[containers.Container, containers.CreateContainer, containers.ContainerEvent]):
    """One container."""

    category = "container"
    initial = containers.Container()
    decide = staticmethod(containers.decide)
    evolve = staticmethod(containers.evolve)

    def remember(
        self,
        command: containers.CreateContainer,
        events: tuple[containers.ContainerEvent, ...],
        after: containers.Container,
        recorded_at: int,
    ) -> Remembered | None:
        """Return the request that the command carries out, with the container as its response."""
        info = containers.ContainerInfo(id=command.container_id, name=after.name, created_at=instant(recorded_at))
        return remembered(command, info, recorded_at)

    def reply(self, command: containers.CreateContainer, events: tuple[containers.ContainerEvent, ...]) -> None:
        """Return None: the caller reads the container from the read model."""


class ImageActor(_EntityActor[images.Images, images.RegisterImage, images.ImageEvent]):
    """One image, with all its revisions."""

    category = "image"
    initial = images.Images()
    decide = staticmethod(images.decide)
    evolve = staticmethod(images.evolve)

    def remember(
        self,
        command: images.RegisterImage,
        events: tuple[images.ImageEvent, ...],
        after: images.Images,
        recorded_at: int,
    ) -> Remembered | None:
        """Return the request that the command carries out; its response is built from the image's id and revision."""
        return remembered(command, (command.image_id, len(after.revisions)), recorded_at)

    def reply(self, command: images.RegisterImage, events: tuple[images.ImageEvent, ...]) -> int:
        """Return the current revision of the image."""
        return len(self.state.revisions)


CATEGORIES = (ContainerActor.category, ImageActor.category)
"""The categories of these actors' streams."""


def published_form(recorded: Recorded) -> Segment:
    """Return the published form of an event of a container or an image, as the actor that recorded it publishes it.

    Raises:
        LogUnusableError: it is an event of another kind of stream.
    """
    event = recorded.event
    if isinstance(event, containers.ContainerCreated | images.ImageRegistered):
        return _published(event, recorded.recorded_at)
    message = f"event {recorded.version} of {recorded.stream!r} is a {type(event).__name__}"
    raise LogUnusableError(f"{message}; verify the log")


def _published(event: containers.ContainerEvent | images.ImageEvent, at: int) -> Segment:
    told: heard.ContainerCreated | heard.ImageRegistered
    if isinstance(event, containers.ContainerCreated):
        context = {"container_id": event.container_id}
        told = heard.ContainerCreated(container_id=event.container_id, name=event.name)
    else:
        context = {"image_id": event.image_id}
        told = heard.ImageRegistered(image_id=event.image_id, revision=event.revision)
    return Segment(context, (Entry(told.event_type, at, told),))
