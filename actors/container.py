"""The actors of containers and images: they record, and tell everyone."""

from __future__ import annotations

from reenact.actors.idempotency import remembered
from reenact.actors.journal.api import Entry, Remembered, Segment
from reenact.actors.kernel import EventSourcedActor
from reenact.domain import container as containers
from reenact.domain import events as heard
from reenact.domain import image as images
from reenact.domain.causes import cause_of
from reenact.domain.messages import instant


class ContainerActor(EventSourcedActor[containers.Container, containers.CreateContainer, containers.ContainerEvent]):
    """One container."""

    category = "container"
    initial = containers.Container()
    decide = staticmethod(containers.decide)
    evolve = staticmethod(containers.evolve)

    def announce(
        self,
        command: containers.CreateContainer,
        before: containers.Container,
        events: tuple[containers.ContainerEvent, ...],
        after: containers.Container,
        recorded_at: int,
    ) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Return what is heard of a new container; it belongs to no session, so no feed keeps it."""
        told = heard.ContainerCreated(container_id=command.container_id, name=command.name)
        segment = Segment({"container_id": command.container_id}, (Entry(told.event_type, recorded_at, told),))
        return (), (segment,) * len(events)

    def cause(self, command: containers.CreateContainer, events: tuple[containers.ContainerEvent, ...]) -> bytes:
        """Return the command as it is stored."""
        return cause_of(command, events)

    def remember(
        self,
        command: containers.CreateContainer,
        events: tuple[containers.ContainerEvent, ...],
        after: containers.Container,
        recorded_at: int,
    ) -> Remembered | None:
        """Return the request that the command carries out, with the container as its answer."""
        info = containers.ContainerInfo(id=command.container_id, name=after.name, created_at=instant(recorded_at))
        return remembered(command, info, recorded_at)

    def reply(
        self, command: containers.CreateContainer, events: tuple[containers.ContainerEvent, ...]
    ) -> containers.Container:
        """Return the container."""
        return self.state


class ImageActor(EventSourcedActor[images.Images, images.RegisterImage, images.ImageEvent]):
    """One image, in all its revisions."""

    category = "image"
    initial = images.Images()
    decide = staticmethod(images.decide)
    evolve = staticmethod(images.evolve)

    def announce(
        self,
        command: images.RegisterImage,
        before: images.Images,
        events: tuple[images.ImageEvent, ...],
        after: images.Images,
        recorded_at: int,
    ) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
        """Return what is heard of a new revision; it belongs to no session, so no feed keeps it."""
        told = heard.ImageRegistered(image_id=command.image_id, revision=len(after.revisions))
        segment = Segment({"image_id": command.image_id}, (Entry(told.event_type, recorded_at, told),))
        return (), (segment,) * len(events)

    def cause(self, command: images.RegisterImage, events: tuple[images.ImageEvent, ...]) -> bytes:
        """Return the command as it is stored."""
        return cause_of(command, events)

    def remember(
        self,
        command: images.RegisterImage,
        events: tuple[images.ImageEvent, ...],
        after: images.Images,
        recorded_at: int,
    ) -> Remembered | None:
        """Return the request that the command carries out; its answer can be made of the image's id and revision."""
        return remembered(command, (command.image_id, len(after.revisions)), recorded_at)

    def reply(self, command: images.RegisterImage, events: tuple[images.ImageEvent, ...]) -> images.Images:
        """Return the image."""
        return self.state
