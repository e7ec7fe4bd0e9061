"""Tests of terminal programs: drives any program as a person would, and checks what it shows.

Requires the extra `reenact[terminal]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reenact._lazy import lazy_names

if TYPE_CHECKING:
    from reenact.terminal.ansi.parser import ANSIParser, ANSIStripper, ANSIToken, ANSITokenizer
    from reenact.terminal.ansi.style import ANSIStyle
    from reenact.terminal.cases.controller import InteractionController
    from reenact.terminal.cases.loading import CaseFile, TerminalTestCase, TestCategory, load_cases, load_config
    from reenact.terminal.cases.runner import run_cases
    from reenact.terminal.cases.steps import (
        InteractionResult,
        InteractionScript,
        InteractionStep,
        StepResult,
        load_script,
        read_script,
        script_of,
    )
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
    from reenact.terminal.session.emulator import AsyncTerminalEmulator, TerminalEmulator, TerminalState
    from reenact.terminal.session.keys import SpecialKey
    from reenact.terminal.session.locator import Locator
    from reenact.terminal.session.recording import Recording
    from reenact.terminal.session.spawning import ExitStatus

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

# Names are imported on first use: parsing sequences needs no screen engine, and matching text starts no process.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "reenact.terminal.ansi.parser": "ANSIParser ANSIStripper ANSIToken ANSITokenizer",
        "reenact.terminal.ansi.style": "ANSIStyle",
        "reenact.terminal.cases.controller": "InteractionController",
        "reenact.terminal.cases.loading": "CaseFile TerminalTestCase TestCategory load_cases load_config",
        "reenact.terminal.cases.runner": "run_cases",
        "reenact.terminal.cases.steps": (
            "InteractionResult InteractionScript InteractionStep StepResult load_script read_script script_of"
        ),
        "reenact.terminal.config": "Parallel Reporting TerminalSize TerminalTestConfig",
        "reenact.terminal.errors": "ExpectationError TerminalTestError TerminalTestErrorType WaitTimeoutError",
        "reenact.terminal.fixture.fixture": "TestFixture",
        "reenact.terminal.fixture.options": (
            "AgentDefinition CommandDefinition ConfigFixture ExtensionFixture FixtureContext FixtureOptions "
            "MockFixture MockResponse SkillDefinition"
        ),
        "reenact.terminal.fixture.programs": "CommandLine Completed Terminals",
        "reenact.terminal.matching.matcher": "AssertionMatcher",
        "reenact.terminal.matching.options": "AssertionOptions AssertionResult",
        "reenact.terminal.report.generator": "ReportGenerator ReportOptions",
        "reenact.terminal.report.results": "TestResult TestSuiteResult",
        "reenact.terminal.screen.engine": "Engine",
        "reenact.terminal.screen.model": "Cell Cursor Modes Screen",
        "reenact.terminal.session.emulator": "AsyncTerminalEmulator TerminalEmulator TerminalState",
        "reenact.terminal.session.keys": "SpecialKey",
        "reenact.terminal.session.locator": "Locator",
        "reenact.terminal.session.recording": "Recording",
        "reenact.terminal.session.spawning": "ExitStatus",
    },
)
