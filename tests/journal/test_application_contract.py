"""Applications of the `eventsourcing` library live on our logs: its own tests of applications say so."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from unittest import TestCase

import pytest
from eventsourcing.tests.application import ApplicationTestCase, ExampleApplicationTestCase
from eventsourcing.utils import Environment, EnvType

from reenact.actors.journal.recorder import JournalFactory
from tests.journal.server import Server

FACTORY = "reenact.actors.journal.recorder:JournalFactory"


class _OnAFile(TestCase):
    """Has every application find its log by the environment of the process, and closes what a test leaves open."""

    @pytest.fixture
    def settings(self, tmp_path: Path) -> dict[str, str]:
        return {"SQLITE_DBNAME": str(tmp_path / "log.db"), "SQLITE_SYNCHRONOUS": "NORMAL"}

    @pytest.fixture(autouse=True)
    def _given_an_environment(self, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
        for key, value in {"PERSISTENCE_MODULE": "reenact.actors.journal.recorder", **settings}.items():
            monkeypatch.setenv(key, value)
        opened: list[JournalFactory] = []
        make = JournalFactory.__init__

        def make_and_remember(factory: JournalFactory, env: Environment | EnvType | None) -> None:
            make(factory, env)
            opened.append(factory)

        monkeypatch.setattr(JournalFactory, "__init__", make_and_remember)
        yield
        for factory in opened:
            factory.close()


class _OnAServer(_OnAFile):
    """The same on a server."""

    @pytest.fixture
    def settings(self, server: Server) -> dict[str, str]:
        return server.settings_of(server.new_log())


class TestExampleApplication(_OnAFile, ExampleApplicationTestCase):
    expected_factory_topic = FACTORY


class TestExampleApplicationOnAServer(_OnAServer, ExampleApplicationTestCase):
    expected_factory_topic = FACTORY


# The test of a deprecated name records the warning, which must not be an error then.
@pytest.mark.filterwarnings("default::DeprecationWarning")
class TestApplication(_OnAFile, ApplicationTestCase): ...


@pytest.mark.filterwarnings("default::DeprecationWarning")
class TestApplicationOnAServer(_OnAServer, ApplicationTestCase): ...


del ApplicationTestCase, ExampleApplicationTestCase
