"""Which pages the site has, by what a reader wants: to learn, to do, to look up, to understand."""

from __future__ import annotations

from collections.abc import Mapping

from tests.docs.names import MODULES

FRONT = "index"
REFERENCE = "reference"
"""Where the pages are that are made from docstrings."""
COMMANDS = "commands"
"""The page that is made from the parser of the command line."""

FROM_ROOT = {
    "ARCHITECTURE.md": "architecture",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "README.md": "readme",
    "SECURITY.md": "security",
}
"""Pages that stand in the root of the checkout."""

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Tutorials": ("first-steps", "tutorial", "last-night"),
    "How to: agents": (
        "asking",
        "tools",
        "policies",
        "people",
        "guards",
        "structured-output",
        "children",
        "hand-over",
        "schedules",
        "branching",
        "agent-runtime",
        "extensions",
        "coming-from",
    ),
    "How to: models": ("claude", "openai", "local-models", "providers", "environments"),
    "How to: run and look": (
        "server",
        "remote",
        "javascript",
        "subscriptions",
        "inspector",
        "statistics",
        "tracing",
        "export",
        "encryption",
        "secrets-elsewhere",
        "several-machines",
        "projections",
        "eventsourcing",
    ),
    "How to: test": ("terminal", "terminal-cases", "terminal-fixtures", "examples"),
    "Reference": (
        "command-line",
        COMMANDS,
        "exit-codes",
        "actors",
        "audit",
        "events",
        "protocol",
        "schema/README",
        "names",
        *(f"{REFERENCE}/{module}" for module in MODULES),
        "terminal-requirements",
        "supported",
        "deprecations",
        "changelog",
    ),
    "Explanation": (
        "durability",
        "recovery",
        "security",
        "speed",
        "comparisons",
        "conformance",
        "architecture",
        "design/where",
        "design/actors",
        "design/log",
        "design/delivery",
        "design/projections",
        "design/nodes",
        "design/inspector",
        "design/command-line",
        "design/terminal",
        "contributing",
        "readme",
    ),
}
"""The pages below each heading, in the order of the site's navigation."""
