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
Event = TypeVar("Event")


class _EntityActor(EventSourcedActor[State, Command, Event]):
    """One container or image."""

    cause = staticmethod(cause_of)  # pyright: ignore[reportAssignmentType]  # it does not use the actor

    def announce(
        self, command: Command, before: State, events: tuple[Event, ...], after: State, recorded_at: int
    ) -> Announcement:
        """Return the published event; it belongs to no session, so no feed stores it."""
        told = self.published(after)
        segment = Segment({f"{self.category}_id": self.context.id}, (Entry(told.event_type, recorded_at, told),))
        return (), (segment,) * len(events)

    def published(self, after: State) -> heard.EventData:
        """Return the data of the published event for the newest recorded one."""
        raise NotImplementedError


class ContainerActor(_EntityActor[containers.Container, containers.CreateContainer, containers.ContainerEvent]):
    """One container."""

    category = "container"
    initial = containers.Container()
    decide = staticmethod(containers.decide)
    evolve = staticmethod(containers.evolve)

    def published(self, after: containers.Container) -> heard.ContainerCreated:
        return heard.ContainerCreated(container_id=self.context.id, name=after.name)

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

    def published(self, after: images.Images) -> heard.ImageRegistered:
        return heard.ImageRegistered(image_id=self.context.id, revision=len(after.revisions))

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
    told: heard.EventData
    match recorded.event:
        case containers.ContainerCreated(container_id=id_, name=name):
            category, told = ContainerActor.category, heard.ContainerCreated(container_id=id_, name=name)
        case images.ImageRegistered(image_id=id_, revision=revision):
            category, told = ImageActor.category, heard.ImageRegistered(image_id=id_, revision=revision)
        case other:
            message = f"event {recorded.version} of {recorded.stream!r} is a {type(other).__name__}"
            raise LogUnusableError(f"{message}; verify the log")
    return Segment({f"{category}_id": id_}, (Entry(told.event_type, recorded.recorded_at, told),))
