"""Imports the code that an option names: `MODULE`, `FILE.py`, or one thing in them, `MODULE:NAME`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

from reenact.domain.errors import ConfigurationError

_SUFFIX: Final = ".py"


def taken_apart(place: str) -> tuple[str, str]:
    """Return the module or file that a place names, and what in it, which may be nothing."""
    where, _, name = place.rpartition(":")
    if not where or name.endswith(_SUFFIX) or "/" in name:  # no name was given, but perhaps a path with a colon
        return place, ""
    return where, name


def imported(where: str, option: str) -> ModuleType:
    """Import what the option names.

    Raises:
        ConfigurationError: it cannot be imported; the message names the place and the line.
    """
    path = Path(where)
    try:
        if path.suffix == _SUFFIX:
            return _run(path)
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(where)
    except (Exception, SystemExit) as error:  # a module may raise anything
        msg = f"{option} {where}: {_what_happened(error, path)}"
        raise ConfigurationError(msg) from error


def _run(path: Path) -> ModuleType:
    """Import the file as a module of its own, beside which others can be imported, as if it were run."""
    name = f"reenact_given_{path.stem}"  # a file may have the name of a module that others need
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(2, "there is no such file", str(path))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module  # as `import` does: functions look up the types of their parameters there
    spec.loader.exec_module(module)
    return module


def _what_happened(error: BaseException, path: Path) -> str:
    """Return the exception in words, with the line at which it happened: that of the file, if it was there."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {kind}: {error.msg}"
    said = f"{kind}: {error}" if str(error) else kind
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    of_file = [frame for frame in frames if Path(frame.filename).name == path.name]
    where = (of_file or frames)[-1:]
    return f"{where[0].filename}, line {where[0].lineno}: {said}" if where else said


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in (__file__, importlib.__file__)
