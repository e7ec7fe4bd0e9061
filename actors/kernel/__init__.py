"""Actors on a few threads, and actors that are a fold over their log; nothing here knows what they are about."""

from __future__ import annotations

from reenact.actors.kernel.future import PooledFuture
from reenact.actors.kernel.persistent import ActorContext, EventSourcedActor
from reenact.actors.kernel.pooled import PooledActor
from reenact.actors.kernel.system import ActorSystem, Reference

__all__ = ["ActorContext", "ActorSystem", "EventSourcedActor", "PooledActor", "PooledFuture", "Reference"]
