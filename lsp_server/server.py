"""The language server of one client: its capabilities, and a handler for each method. The work is done elsewhere.

A handler runs when its message is read: the text it sees is the one that the message speaks of.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ghostdraft.drafting import DrafterName
from ghostdraft.lsp_server import __version__, convert, protocol
from ghostdraft.lsp_server.completions import Completions
from ghostdraft.lsp_server.documents import Documents, UnknownDocument
from ghostdraft.lsp_server.host import LoadWith
from ghostdraft.lsp_server.indexing import Indexing
from ghostdraft.lsp_server.jsonrpc import Connection, ErrorCode, Handler, RpcError
from ghostdraft.lsp_server.keeper import WARNING, ModelKeeper, Pull
from ghostdraft.lsp_server.settings import Settings
from ghostdraft.lsp_server.texts import Texts
from ghostdraft.lsp_server.transport import end_with

logger = logging.getLogger(__name__)

PULL = "ghostdraft.pull"
INCREMENTAL = 2  # textDocumentSync
MOST_WARNINGS = 20


class Server:
    """To be used on the event loop's thread. `warnings`: sentences for the user, told once the client listens."""

    def __init__(
        self, settings: Settings, warnings: Iterable[str], load: LoadWith, pull: Pull, write: Callable[[bytes], None]
    ) -> None:
        self.exited = False
        self._connection = Connection(self._find, write)
        self._documents = Documents()
        self._settings = settings
        self._warnings = tuple(warnings)
        texts = Texts()
        self._keeper = ModelKeeper(self._connection, partial(load, texts), pull)
        self._completions = Completions(self._documents, settings, self._keeper.host)
        self._indexing = Indexing(texts, lambda folder: settings.options(folder).policy, self._keeper.host)
        self._initialized = False
        self._shut_down = False

    @property
    def status(self) -> int:
        """The exit status, as the protocol wants it."""
        return 0 if self._shut_down else 1

    def receive(self, body: bytes) -> None:
        self._connection.receive(body)

    def close(self) -> None:
        self._connection.close()

    def _find(self, method: str) -> Handler:
        if method != "exit" and self._shut_down:
            raise RpcError(ErrorCode.INVALID_REQUEST, "The server was shut down.")
        if method not in ("initialize", "exit") and not self._initialized:
            raise RpcError(ErrorCode.SERVER_NOT_INITIALIZED, "Send `initialize` first.")
        if method not in _HANDLERS:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"This server does not know `{method[:80]}`.")
        return lambda params: _HANDLERS[method](self, params)

    def _initialize(self, raw: object) -> dict[str, Any]:
        params = protocol.read(protocol.Initialize, raw)
        if self._initialized:
            raise RpcError(ErrorCode.INVALID_REQUEST, "`initialize` came before.")
        self._initialized = True
        self._completions.encoding = convert.choose_encoding(params.capability("general", "positionEncodings"))
        self._keeper.shows_progress = params.capability("window", "workDoneProgress") is True
        self._warnings += self._settings.set_client(params.initialization_options)
        self._warnings += self._open_folders(params.folders)
        if params.process_id is not None:
            end_with(params.process_id)
        return {"capabilities": self._capabilities(), "serverInfo": _SERVER_INFO}

    def _capabilities(self) -> dict[str, Any]:
        return {
            "positionEncoding": self._completions.encoding,
            "textDocumentSync": {"openClose": True, "change": INCREMENTAL},
            "inlineCompletionProvider": {},
            "executeCommandProvider": {"commands": list(_COMMANDS)},
            "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
        }

    def _on_initialized(self, _: object) -> None:
        self._tell(self._warnings)
        self._keep_model()

    def _shutdown(self, _: object) -> None:
        self._shut_down = True
        self._completions.close()
        self._indexing.stop()
        self._connection.close()

    def _exit(self, _: object) -> None:
        self.exited = True

    def _did_open(self, raw: object) -> None:
        opened = protocol.read(protocol.DidOpen, raw).text_document
        document = self._documents.open(opened.uri, opened.language_id, opened.version, opened.text)
        self._indexing.exclude(map(convert.path_of, self._documents.uris))
        self._completions.opened(document)

    def _did_change(self, raw: object) -> None:
        params = protocol.read(protocol.DidChange, raw)
        document = self._documents.touch(params.text_document.uri)
        for change in params.content_changes:
            convert.change(document, change, self._completions.encoding)
        if params.text_document.version is not None:
            document.version = params.text_document.version
        self._completions.rest(document)

    def _did_move_cursor(self, raw: object) -> None:
        moved = protocol.read(protocol.DidMoveCursor, raw)
        with suppress(UnknownDocument):  # it was closed meanwhile, or is none of ours
            self._completions.moved(self._documents.get(moved.text_document.uri), moved.position)

    def _did_close(self, raw: object) -> None:
        uri = protocol.read(protocol.DidClose, raw).text_document.uri
        self._completions.cancel(uri)
        self._documents.close(uri)
        self._indexing.exclude(map(convert.path_of, self._documents.uris))

    def _did_save(self, _: object) -> None:
        self._indexing.look_again()

    def _inline_completion(self, raw: object) -> Awaitable[object] | None:
        arrival = time.monotonic()
        wanted = protocol.read(protocol.InlineCompletion, raw)
        try:
            return self._completions.ask(wanted, arrival)
        except UnknownDocument as error:
            raise RpcError(ErrorCode.INVALID_PARAMS, str(error)) from error

    def _did_change_configuration(self, raw: object) -> None:
        settings = protocol.read(protocol.DidChangeConfiguration, raw).settings
        if settings is not None:  # else something changed, but the client does not say what
            self._tell(self._settings.set_client(settings))
            self._keep_model()

    def _did_change_folders(self, raw: object) -> None:
        event = protocol.read(protocol.DidChangeFolders, raw).event
        for folder in event.removed:
            if (path := convert.path_of(folder.uri)) is not None:
                self._settings.remove_folder(path)
                self._indexing.remove_folder(path)
        self._tell(self._open_folders(event.added))

    def _execute_command(self, raw: object) -> Awaitable[object] | None:
        params = protocol.read(protocol.ExecuteCommand, raw)
        if params.command not in _COMMANDS:
            raise RpcError(ErrorCode.INVALID_PARAMS, f"There is no command `{params.command[:80]}`.")
        return _COMMANDS[params.command](self, params.arguments or ())

    def _pull(self, _: tuple[Any, ...]) -> Awaitable[object]:
        return asyncio.shield(self._keeper.pull())

    def _accepted(self, arguments: tuple[Any, ...]) -> None:
        match arguments:
            case (str() as item,):
                self._completions.accepted(item)
            case _:
                raise RpcError(ErrorCode.INVALID_PARAMS, "The command takes the item's id.")

    def _open_folders(self, folders: Iterable[protocol.WorkspaceFolder]) -> tuple[str, ...]:
        paths = [path for folder in folders if (path := convert.path_of(folder.uri)) is not None]
        for path in paths:
            self._indexing.add_folder(path)
        return tuple(warning for path in paths for warning in self._settings.add_folder(path))

    def _keep_model(self) -> None:
        options = self._settings.options()
        if options.off:
            self._keeper.want_none()
        else:
            self._keeper.want(options.model, options.drafter, options.context)
        self._indexing.want(not options.off and options.drafter == DrafterName.CORPUS)

    def _tell(self, warnings: Sequence[str]) -> None:
        """One message for all: a workspace must not bury its user in messages."""
        first, more = warnings[:MOST_WARNINGS], warnings[MOST_WARNINGS:]
        if first:
            ending = [f"... and {len(more)} more."] if more else []
            self._keeper.tell(WARNING, "\n".join(["Ghostdraft:", *first, *ending]))


def _ignore(_server: Server, _params: object) -> None:
    """For what clients send unasked."""


_SERVER_INFO = {"name": "ghostdraft", "version": __version__}

_COMMANDS: dict[str, Callable[[Server, tuple[Any, ...]], Awaitable[object] | None]] = {
    convert.ACCEPTED: Server._accepted,
    PULL: Server._pull,
}

_HANDLERS: dict[str, Callable[[Server, Any], object]] = {
    "initialize": Server._initialize,
    "initialized": Server._on_initialized,
    "shutdown": Server._shutdown,
    "exit": Server._exit,
    "textDocument/didOpen": Server._did_open,
    "textDocument/didChange": Server._did_change,
    "textDocument/didClose": Server._did_close,
    "textDocument/didSave": Server._did_save,
    "textDocument/inlineCompletion": Server._inline_completion,
    "ghostdraft/didMoveCursor": Server._did_move_cursor,
    "workspace/didChangeConfiguration": Server._did_change_configuration,
    "workspace/didChangeWorkspaceFolders": Server._did_change_folders,
    "workspace/executeCommand": Server._execute_command,
}
