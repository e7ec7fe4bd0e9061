"""The commands `keys` and `forget`: key rings, and sessions whose keys are destroyed."""

from __future__ import annotations

from reenact.actors.journal.key_ring import KeyRing
from reenact.cli.commands.sessions import runtime_with
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ExitCode
from reenact.cli.parsing.options import ForgetOptions, KeysOptions
from reenact.cli.settings.configuration import user_name


def keys(options: KeysOptions, console: Console) -> int:
    """Create the key ring, or add a key to it.

    Raises:
        ConfigurationError: the file exists, or does not exist if a key is to be added, or cannot be written.
        MissingExtraError: the extra `encryption` is not installed.
    """
    if options.rotate:
        KeyRing.file(options.file).rotate()
        console.say(f"{options.file} has a new key; programs that have it open use it when they open it again")
    else:
        KeyRing.generate(options.file)
        console.say(f"{options.file} is a key ring: keep a copy of it where the logs are not")
    return ExitCode.SUCCESS


def forget(options: ForgetOptions, console: Console) -> int:
    """Forget the session, and print the ids of all sessions that were forgotten.

    Raises:
        SessionNotFoundError: there never was such a session.
        SessionInUseError: other sessions depend on it.
        SessionNotEncryptedError: it was recorded without keys.
        SessionLockedError: another process has the session open.
    """
    with runtime_with(options.session, options.database, console) as runtime:
        forgotten = runtime.sessions.forget(
            options.session, by=options.by or user_name() or "somebody", why=options.why, family=options.family
        )
    for session in forgotten:
        console.show(session, options.output_format, session.id)
    if not forgotten:
        console.say(f"session {options.session} had been forgotten")
    return ExitCode.SUCCESS
