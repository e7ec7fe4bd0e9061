"""What has travelled lives: sessions are chosen with all that they need, run on, branch, and end as after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact import ActorSystem, Audit, EventSourcedActor, Image, Runtime
from reenact.actors.journal.api import Event
from reenact.actors.journal.verify import verify
from reenact.audit import Redaction, export_log, import_log, open_export
from reenact.domain.errors import ConfigurationError, ExportUnusableError, LogLockedError, SessionNotFoundError
from reenact.projections.audit.history import moment_of
from reenact.testing import MockEnvironmentFactory, MockEvent, MockScenario, wait_until
