"""`ghostdraft serve`: one client on standard input and output, and a log on standard error that holds no user text."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

from ghostdraft.lsp_server import transport
from ghostdraft.lsp_server.failures import log_failure
from ghostdraft.lsp_server.host import LoadWith, load_engine
from ghostdraft.lsp_server.keeper import Pull, pull_model
from ghostdraft.lsp_server.server import Server
from ghostdraft.lsp_server.settings import user_settings


def serve_stdio(log_level: str = "warning", load: LoadWith = load_engine, pull: Pull = pull_model) -> None:
    """Serves until the client ends, and then ends this process."""
    stdio = transport.claim_stdio()
    log_to_stderr(log_level)
    try:
        asyncio.run(_serve(stdio, load, pull))
    except KeyboardInterrupt:
        transport.end_process(128 + signal.SIGINT)


async def _serve(stdio: transport.Stdio, load: LoadWith, pull: Pull) -> None:
    """Ends the process from inside the loop, which would else wait for a download that nobody waits for any more."""
    asyncio.get_running_loop().set_exception_handler(_log_failure)
    settings, warnings = user_settings()
    server = Server(settings, warnings, load, pull, transport.Writer(stdio.outgoing))
    transport.end_process(await transport.serve(server, stdio.incoming))


def log_to_stderr(level: str) -> None:
    """Our own words only: other packages' loggers may quote what they are given."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    ours = logging.getLogger("ghostdraft")
    ours.addHandler(handler)
    ours.setLevel(level.upper())
    ours.propagate = False
    logging.getLogger().addHandler(logging.NullHandler())


def _log_failure(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """In place of asyncio's own, which would print the arguments of the failed call."""
    log_failure("the event loop", context.get("exception") or RuntimeError())
