"""Tests of programs at a terminal: any program, driven as a person would, and judged by what it shows.

Comes to use with the extra `reenact[terminal]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reenact.terminal.ansi.parser import ANSIParser, ANSIStripper, ANSIToken, ANSITokenizer
    from reenact.terminal.ansi.style import ANSIStyle
    from reenact.terminal.cases.loading import CaseFile, TerminalTestCase, TestCategory, load_cases, load_config
    from reenact.terminal.cases.runner import run_cases
    from reenact.terminal.config import Parallel, Reporting, TerminalSize, TerminalTestConfig
    from reenact.terminal.errors import ExpectationError, TerminalTestError, TerminalTestErrorType, WaitTimeoutError
    from reenact.terminal.fixture.fixture import TestFixture
    from reenact.terminal.fixture.options import (
        AgentDefinition,
        CommandDefinition,
        ConfigFixture,
        ExtensionFixture,
        FixtureContext,
        FixtureOptions,
        MockFixture,
        MockResponse,
        SkillDefinition,
    )
    from reenact.terminal.fixture.programs import CommandLine, Completed, Terminals
    from reenact.terminal.matching.matcher import AssertionMatcher
    from reenact.terminal.matching.options import AssertionOptions, AssertionResult
    from reenact.terminal.report.generator import ReportGenerator, ReportOptions
    from reenact.terminal.report.results import TestResult, TestSuiteResult
    from reenact.terminal.screen.engine import Engine
    from reenact.terminal.screen.model import Cell, Cursor, Modes, Screen
    from reenact.terminal.screen.recording import Recording
    from reenact.terminal.script.controller import InteractionController
    from reenact.terminal.script.reading import load_script, read_script, script_of
    from reenact.terminal.script.steps import InteractionResult, InteractionScript, InteractionStep, StepResult
    from reenact.terminal.session.emulator import AsyncTerminalEmulator, TerminalEmulator, TerminalState
    from reenact.terminal.session.keys import SpecialKey
    from reenact.terminal.session.locator import Locator
    from reenact.terminal.status import ExitStatus

__all__ = [
    "ANSIParser",
    "ANSIStripper",
    "ANSIStyle",
    "ANSIToken",
    "ANSITokenizer",
    "AgentDefinition",
    "AssertionMatcher",
    "AssertionOptions",
    "AssertionResult",
    "AsyncTerminalEmulator",
    "CaseFile",
    "Cell",
    "CommandDefinition",
    "CommandLine",
    "Completed",
    "ConfigFixture",
    "Cursor",
    "Engine",
    "ExitStatus",
    "ExpectationError",
    "ExtensionFixture",
    "FixtureContext",
    "FixtureOptions",
    "InteractionController",
    "InteractionResult",
    "InteractionScript",
    "InteractionStep",
    "Locator",
    "MockFixture",
    "MockResponse",
    "Modes",
    "Parallel",
    "Recording",
    "ReportGenerator",
    "ReportOptions",
    "Reporting",
    "Screen",
    "SkillDefinition",
    "SpecialKey",
    "StepResult",
    "TerminalEmulator",
    "TerminalSize",
    "TerminalState",
    "TerminalTestCase",
    "TerminalTestConfig",
    "TerminalTestError",
    "TerminalTestErrorType",
    "Terminals",
    "TestCategory",
    "TestFixture",
    "TestResult",
    "TestSuiteResult",
    "WaitTimeoutError",
    "load_cases",
    "load_config",
    "load_script",
    "read_script",
    "run_cases",
    "script_of",
]

_LATER: Final = {
    "ANSIParser": "ansi.parser",
    "ANSIStripper": "ansi.parser",
    "ANSIStyle": "ansi.style",
    "ANSIToken": "ansi.parser",
    "ANSITokenizer": "ansi.parser",
    "AgentDefinition": "fixture.options",
    "AssertionMatcher": "matching.matcher",
    "AssertionOptions": "matching.options",
    "AssertionResult": "matching.options",
    "AsyncTerminalEmulator": "session.emulator",
    "CaseFile": "cases.loading",
    "Cell": "screen.model",
    "CommandDefinition": "fixture.options",
    "CommandLine": "fixture.programs",
    "Completed": "fixture.programs",
    "ConfigFixture": "fixture.options",
    "Cursor": "screen.model",
    "Engine": "screen.engine",
    "ExitStatus": "status",
    "ExpectationError": "errors",
    "ExtensionFixture": "fixture.options",
    "FixtureContext": "fixture.options",
    "FixtureOptions": "fixture.options",
    "InteractionController": "script.controller",
    "InteractionResult": "script.steps",
    "InteractionScript": "script.steps",
    "InteractionStep": "script.steps",
    "Locator": "session.locator",
    "MockFixture": "fixture.options",
    "MockResponse": "fixture.options",
    "Modes": "screen.model",
    "Parallel": "config",
    "Recording": "screen.recording",
    "ReportGenerator": "report.generator",
    "ReportOptions": "report.generator",
    "Reporting": "config",
    "Screen": "screen.model",
    "SkillDefinition": "fixture.options",
    "SpecialKey": "session.keys",
    "StepResult": "script.steps",
    "TerminalEmulator": "session.emulator",
    "TerminalSize": "config",
    "TerminalState": "session.emulator",
    "TerminalTestCase": "cases.loading",
    "TerminalTestConfig": "config",
    "TerminalTestError": "errors",
    "TerminalTestErrorType": "errors",
    "Terminals": "fixture.programs",
    "TestCategory": "cases.loading",
    "TestFixture": "fixture.fixture",
    "TestResult": "report.results",
    "TestSuiteResult": "report.results",
    "WaitTimeoutError": "errors",
    "load_cases": "cases.loading",
    "load_config": "cases.loading",
    "load_script": "script.reading",
    "read_script": "script.reading",
    "run_cases": "cases.runner",
    "script_of": "script.reading",
}
"""What is imported when it is first asked for: who parses sequences needs no engine, who matches text no process."""


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
