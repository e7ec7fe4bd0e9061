"""The command `serve`: runs the HTTP server, by which other programs use the runtime, until it is told to stop."""

from __future__ import annotations

import gc
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from reenact._location import LogLocation
from reenact._runtime import Runtime
from reenact.actors.feed.retention import Retention
from reenact.cli.chat.answering import check_policy, image_of, make_answerer
from reenact.cli.commands.sessions import log_to_write
from reenact.cli.interrupts import stopping
from reenact.cli.output.console import Console
from reenact.cli.output.failures import ServerEndedError
from reenact.cli.parsing.options import ServeOptions
from reenact.cli.parsing.preferences import with_provider_settings
from reenact.cli.settings.configuration import (
    check_file,
    check_price,
    functions_of,
    load_guards,
    user_name,
)
from reenact.cli.settings.values import MOCK
from reenact.domain.errors import ConfigurationError, needing_extra
from reenact.server import Server
from reenact.server.limits import Limits
from reenact.server.service import Access, Service, is_exposed, read_tokens
from reenact.server.serving import hosts_at

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOOK_AROUND = 1.0
"""Interval in seconds at which to check whether the server still runs."""


def serve(options: ServeOptions, console: Console) -> None:
    """Serve until told to stop, and shut down."""
    if options.token_file is not None:
        check_file(options.token_file, f"--token-file {options.token_file}")
    tokens = () if options.token_file is None else read_tokens(options.token_file)
    if options.token_file is not None and is_exposed(options.token_file):
        console.warn(f"others may read or change the tokens in {options.token_file}; chmod 600 keeps them to yourself")
    if (options.allow_actions or options.by is not None) and not options.inspect:
        raise ConfigurationError("--allow-actions and --by are for --inspect")
    options = with_provider_settings(replace(options, provider=_provider(options)), console.environ)
    with console.guarding_output():
        guarding = load_guards(options.guards)
        image = replace(image_of(options), guards=guarding.named)
        check_policy(options, image)
        answerer = make_answerer(
            _environ(options, console.environ),
            provider=options.provider,
            base_url=options.base_url,
            usual_model=options.model,
        )
        console.variables = answerer.variables
        answerer.check_model(options.model)
        prices = answerer.prices(options.prices)
        database = log_to_write(options.database, console)
        model = answerer.model_of(options.model)
        try:
            if image.cost_limit is not None and answerer.mock is None:
                check_price(model, prices, "what sessions cost has a limit (--max-cost)")
            runtime = Runtime.open(
                database,
                environment=answerer,
                llm=answerer.llm,
                tools=functions_of(image.tools),
                guards=guarding.functions,
                prices=prices,
                default_image=image,
                retention=_retention(options),
            )
        except BaseException:
            answerer.dispose()
            raise
        with (
            stopping() as is_asked_to_stop,
            runtime,
            inspected(options, database, runtime) as pages,
            Server(
                runtime,
                options.host,
                options.port,
                tokens=tokens,
                origins=options.origins,
                host_names=options.host_names,
                inspector=None if pages is None else pages.app,
            ) as server,
        ):
            console.say(answerer.name(model))
            # Freeze the objects that exist now: collections, which stop all threads, have fewer objects to visit then.
            gc.collect()
            gc.freeze()
            console.write(f"listening on {server.url}\n")
            if pages is not None:
                console.write(f"open {server.url}/inspect/?token={pages.token}\n")
            _tell_supervisor(console.environ)
            while not is_asked_to_stop(LOOK_AROUND):
                if server.wait(0):
                    raise ServerEndedError("the server has ended by itself")


class Pages(NamedTuple):
    """The application that serves the inspector's pages, and the token that opens them."""

    app: ASGIApp
    token: str


@contextmanager
def inspected(options: ServeOptions, database: LogLocation, runtime: Runtime) -> Generator[Pages | None]:
    """Create the inspector's pages for the runtime's log, if the options ask for them."""
    if not options.inspect:
        yield None
        return
    with needing_extra("inspect", "`reenact serve --inspect`"):
        from reenact.inspector import Source, create_app, new_token  # noqa: PLC0415 - an extra

    token, by = new_token(), options.by or user_name() or "somebody"
    access = Access((), (), hosts_at(options.host, options.host_names))
    with Source.open(database, runtime.feed) as source:
        service = Service(source.served, access, Limits(), allow_programs=False)
        owner = runtime if options.allow_actions else None
        try:
            yield Pages(create_app(source, token, service=service, owner=owner, by=by), token)
        finally:
            service.close()


def _tell_supervisor(environ: Mapping[str, str]) -> None:
    """Notify the process manager that the server is ready, if it waits for that as systemd does (sd_notify)."""
    address = environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as telling, suppress(OSError):
            telling.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            telling.send(b"READY=1")


def _retention(options: ServeOptions) -> Retention:
    usual = Retention()
    try:
        return Retention(
            deltas=usual.deltas if options.keep_deltas is None else timedelta(hours=options.keep_deltas),
            consumers=usual.consumers if options.keep_consumers is None else timedelta(hours=options.keep_consumers),
        )
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"--keep-deltas and --keep-consumers are hours: {error}") from error


def _provider(options: ServeOptions) -> str | None:
    """Return the provider that the options name; `--scenario` implies the mock."""
    if not options.mock and options.scenario is None:
        return options.provider
    if options.provider not in {None, MOCK}:
        raise ConfigurationError(f"--mock and --scenario are for the mock, and --provider is {options.provider}")
    return MOCK


def _environ(options: ServeOptions, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment variables, with `MOCK_SCENARIO` set to the script that the options name."""
    return environ if options.scenario is None else {**environ, "MOCK_SCENARIO": options.scenario}
