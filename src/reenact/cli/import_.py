"""What was exported, taken into the log."""

from __future__ import annotations

import msgspec

from reenact.audit import Imported, import_log
from reenact.cli.console import Console
from reenact.cli.exact import harmless
from reenact.cli.failures import ExitCode
from reenact.cli.lines import as_line
from reenact.cli.options import ImportOptions, ListFormat
from reenact.cli.progress import progress_line
from reenact.cli.settings import default_database, given


def import_(options: ImportOptions, console: Console) -> int:
    """Take the file in, and say what was new of it.

    Raises:
        ReenactError: it cannot be taken in; if it is the file's fault, nothing was.
    """
    log = options.database or given(console.environ, "REENACT_DB")
    if log is None:
        default = default_database(console.environ)
        default.parent.mkdir(parents=True, exist_ok=True)
        log = str(default)
    with progress_line(console) as progress:
        imported = import_log(console.input() if options.file == "-" else options.file, log, progress=progress)
    if options.output_format is ListFormat.JSON:
        console.write(as_line({"log": log, **msgspec.to_builtins(imported)}))
    else:
        console.write(f"{harmless(_said(imported, log))}\n")
    return ExitCode.SUCCESS


def _said(imported: Imported, log: str) -> str:
    there = f"; {imported.events_there} events were there already" if imported.events_there else ""
    return f"{log}: {imported.events} new events, {imported.rows} new rows{there}"
