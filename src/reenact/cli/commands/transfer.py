"""The commands `export` and `import`: the log, or some of its sessions, in a tamper-evident file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TextIO

import msgspec
import typer

from reenact._files import replacing
from reenact._location import LogLocation
from reenact._runtime import codec
from reenact.audit import Exported, Imported, Redaction, export_log, import_log, read_redaction
from reenact.cli.commands.sessions import log_named, log_to_write, progress_line
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import ExportOptions, ImportOptions
from reenact.cli.settings.configuration import check_file, read_file
from reenact.domain.errors import ConfigurationError
from reenact.domain.legible import display_safe

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]|^\.")
"""Characters of a session's id that are replaced in the name of a file."""


def export(options: ExportOptions, console: Console) -> None:
    """Write the file, and report what it contains.

    Raises:
        ReenactError: the file cannot be written; no file of that name is left behind.
    """
    log = log_named(options.database, console)
    if options.html is not None:
        _export_page(options, options.html, log, console)
        return
    if options.file is None:
        raise typer.TyperException("Missing argument 'FILE'.")
    if options.family and not options.sessions:
        raise typer.TyperException("--family is that of a session; name it with --session, or export the whole log")
    is_output = options.file == "-"
    if options.hash_key is not None and options.redact is None and not options.redact_secrets:
        raise typer.TyperException("--hash-key marks what is taken out; give --redact or --redact-secrets with it")
    if is_output and options.output_format == "json":
        raise typer.TyperException("standard output has the export; give a file, or no --output-format")
    if is_output and console.out.isatty():
        raise ConfigurationError(
            "standard output is a terminal, which would obey what is in an export; name a file, or send it on with |"
        )
    with progress_line(console) as progress:
        exported = export_log(
            log,
            _binary(console.out) if is_output else options.file,
            sessions=options.sessions or None,
            redaction=_redaction(options),
            feeds=not options.no_feeds,
            family=options.family,
            progress=progress,
        )
    if is_output:
        console.say(display_safe(_exported(exported, "standard output")))
    else:
        value = {"file": options.file, **msgspec.to_builtins(exported)}
        console.show(value, options.output_format, _exported(exported, options.file))


def _export_page(options: ExportOptions, session_id: str, log: LogLocation, console: Console) -> None:
    """Write a session as an HTML page."""
    from reenact.inspector.exporting import page_of  # noqa: PLC0415 - an extra

    if options.sessions or options.redact is not None or options.redact_secrets or options.hash_key or options.no_feeds:
        message = "--html writes one session as it is; to leave something out, export it and import it into a new log"
        raise typer.TyperException(f"{message}, and write the page from there")
    name = f"{_UNSAFE.sub('_', session_id)}.html" if options.file is None else options.file
    if name != "-" and log.owns(Path(name)):
        raise ConfigurationError(f"{name} is the log, or a file that belongs to it; name another file for the page")
    with log.open(codec(), read_only=True) as journal:
        page = page_of(journal, log.title, session_id, datetime.now(UTC)).encode()
    if name == "-":
        out = _binary(console.out)
        out.write(page)
        out.flush()
    else:
        with replacing(Path(name)) as file:
            file.write(page)
        value = {"file": name, "session": session_id, "bytes": len(page)}
        console.show(value, options.output_format, display_safe(f"{name}: session {session_id}, {len(page)} bytes"))


def _binary(stream: TextIO) -> BinaryIO:
    """Return the binary stream below the text stream."""
    buffer: BinaryIO | None = getattr(stream, "buffer", None)
    if buffer is None:
        raise ConfigurationError("there is no standard output that takes bytes; name a file")
    return buffer


def _redaction(options: ExportOptions) -> Redaction | None:
    if options.redact is None and not options.redact_secrets:
        return None
    if options.redact is not None:
        check_file(options.redact, f"--redact {options.redact}")
    key = None if options.hash_key is None else read_file(options.hash_key, f"the key {options.hash_key}").strip()
    return Redaction(hash_key=key) if options.redact is None else read_redaction(options.redact, hash_key=key)


def _exported(exported: Exported, file: str) -> str:
    redacted = f"; {exported.redacted} of them say less than the log" if exported.redacted else ""
    return f"{file}: {exported.events} events, {exported.rows} rows{redacted}"


def import_(options: ImportOptions, console: Console) -> None:
    """Import the file, and report what was new.

    Raises:
        ReenactError: the file cannot be imported; if the file is at fault, nothing was imported.
    """
    log = log_to_write(options.database, console)
    with progress_line(console) as progress:
        imported = import_log(console.input() if options.file == "-" else options.file, log, progress=progress)
    value = {"log": log.name, **msgspec.to_builtins(imported)}
    console.show(value, options.output_format, _imported(imported, log.name))


def _imported(imported: Imported, log: str) -> str:
    there = f"; {imported.events_there} events were there already" if imported.events_there else ""
    return f"{log}: {imported.events} new events, {imported.rows} new rows{there}"
