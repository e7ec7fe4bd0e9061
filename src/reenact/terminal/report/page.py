"""How the HTML report looks: light or dark, as the reader has it."""

from __future__ import annotations

from typing import Final

from reenact.terminal.report.painting import INK, PAPER, STYLES

LIGHT: Final = {
    "paper": "#ffffff",
    "ink": "#1c1e21",
    "line": "#c9ccd1",
    "link": "#0b57d0",
    "passed": "#146c2e",
    "failed": "#b3261e",
    "error": "#8a3ffc",
    "skipped": "#5b5f66",
    "added": "#d7f5dd",
    "removed": "#fde0de",
}
DARK: Final = {
    "paper": "#121316",
    "ink": "#e4e6eb",
    "line": "#4a4d54",
    "link": "#8ab4f8",
    "passed": "#6dd58c",
    "failed": "#ff8a80",
    "error": "#c9a6ff",
    "skipped": "#a9adb5",
    "added": "#123d20",
    "removed": "#4a1a17",
}


def style_sheet(colors: str) -> str:
    """Return the CSS of the page, with the rules for the colours that programs used."""
    return f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
body {{ margin: 0 auto; max-width: 75rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }}
h1, h2, h3, h4 {{ line-height: 1.2; overflow-wrap: anywhere; }}
h4 {{ margin: 1rem 0 0.25rem; }}
a {{ color: var(--link); }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid var(--line); padding: 0.25rem 0.5rem; text-align: left; overflow-wrap: anywhere; }}
td.time {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
article {{ border-top: 2px solid var(--failed); margin: 1.5rem 0; }}
.passed {{ color: var(--passed); }}
.failed {{ color: var(--failed); font-weight: bold; }}
.error {{ color: var(--error); font-weight: bold; }}
.skipped {{ color: var(--skipped); }}
pre {{ border: 1px solid var(--line); margin: 0; max-height: 40rem; overflow: auto; padding: 0.5rem;
  font: 0.875rem/1.3 ui-monospace, monospace; }}
pre.text {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
pre.terminal {{ background: {PAPER}; color: {INK}; }}
.added {{ background: var(--added); }}
.removed {{ background: var(--removed); }}
{STYLES}{colors}"""


def _variables(theme: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in theme.items())
