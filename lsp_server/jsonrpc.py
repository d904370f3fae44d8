"""JSON-RPC 2.0 on one connection: dispatch in the order of arrival, one answer to each request, cancellation.

Knows no method but `$/cancelRequest`. A handler runs when its message is read, so what it looks at is the state that
the message speaks of; what it returns may be awaitable, and is then waited for while later messages are read.
Logs known methods and the places of failures; never a body, a parameter or the text of an unexpected exception.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import logging
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Any

from ghostdraft.lsp_server.failures import log_failed_task, log_failure

logger = logging.getLogger(__name__)

Handler = Callable[[Any], object]
MessageId = int | str


class ErrorCode(IntEnum):
    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_NOT_INITIALIZED = -32002
    REQUEST_FAILED = -32803
    REQUEST_CANCELLED = -32800


class RpcError(Exception):
    """An answer of the kind error; its message is meant for the user and holds none of their text."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One client. `find` gives a method's handler, or raises RpcError. To be used on the event loop's thread only."""

    def __init__(self, find: Callable[[str], Handler], write: Callable[[bytes], None]) -> None:
        self._find = find
        self._write = write
        self._running: dict[MessageId, asyncio.Future[Any]] = {}
        self._asked: dict[MessageId, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)

    def receive(self, body: bytes) -> None:
        """Takes one message and dispatches it."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            self._fail(None, RpcError(ErrorCode.PARSE_ERROR, "The message is not JSON."))
            return
        match message:
            case {"method": "$/cancelRequest", "params": {"id": int() | str() as request}}:
                self._cancel(request)
            case {"method": str() as method, "id": int() | str() as request}:
                self._handle_request(request, method, message.get("params"))
            case {"method": str() as method} if "id" not in message:
                self._handle_notification(method, message.get("params"))
            case {"id": int() | str() as request} if "method" not in message:
                self._handle_response(request, message)
            case _:
                self._fail(None, RpcError(ErrorCode.INVALID_REQUEST, "The message is no JSON-RPC message."))

    def notify(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    async def request(self, method: str, params: object) -> Any:
        """Asks the client. Raises RpcError where it answers with an error."""
        request = f"ghostdraft-{next(self._ids)}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[request] = answer
        try:
            self._send({"id": request, "method": method, "params": params})
            return await answer
        finally:
            del self._asked[request]

    def close(self) -> None:
        """Cancels what still runs and what still waits for the client."""
        for future in (*self._running.values(), *self._asked.values()):
            future.cancel()

    def _handle_request(self, request: MessageId, method: str, params: Any) -> None:
        try:
            if request in self._running:
                raise RpcError(ErrorCode.INVALID_REQUEST, "A request with this id is still running.")
            result = self._called(method, params)
        except RpcError as error:
            self._fail(request, error)
        except Exception as error:  # noqa: BLE001 (whatever a handler raises, the client gets its answer)
            self._fail(request, _unexpected(method, error))
        else:
            self._answer_later(request, method, result)

    def _called(self, method: str, params: Any) -> object:
        handler = self._find(method)
        logger.debug("%s", method)
        return handler(params)

    def _answer_later(self, request: MessageId, method: str, result: object) -> None:
        if not inspect.isawaitable(result):
            self._send({"id": request, "result": result})
            return
        running = asyncio.ensure_future(result)
        self._running[request] = running
        running.add_done_callback(partial(self._answer, request, method))

    def _answer(self, request: MessageId, method: str, done: asyncio.Future[Any]) -> None:
        del self._running[request]
        if done.cancelled():
            self._fail(request, RpcError(ErrorCode.REQUEST_CANCELLED, "Cancelled, or superseded by a newer request."))
        elif (error := done.exception()) is None:
            self._send({"id": request, "result": done.result()})
        else:
            self._fail(request, error if isinstance(error, RpcError) else _unexpected(method, error))

    def _handle_notification(self, method: str, params: Any) -> None:
        try:
            result = self._called(method, params)
        except RpcError as error:
            logger.debug("a notification was refused with %d", error.code)
        except Exception as error:  # noqa: BLE001 (a notification has no answer: the server goes on)
            log_failure(method, error)
        else:
            if inspect.isawaitable(result):
                asyncio.ensure_future(result).add_done_callback(partial(log_failed_task, method))

    def _handle_response(self, request: MessageId, message: dict[str, Any]) -> None:
        answer = self._asked.get(request)
        if answer is None or answer.done():
            return
        match message.get("error"):
            case None:
                answer.set_result(message.get("result"))
            case {"code": int() as code}:
                answer.set_exception(RpcError(code, "The client answered with an error."))
            case _:
                answer.set_exception(RpcError(ErrorCode.INVALID_REQUEST, "The client's answer is no JSON-RPC answer."))

    def _cancel(self, request: MessageId) -> None:
        if (running := self._running.get(request)) is not None:
            running.cancel()

    def _fail(self, request: MessageId | None, error: RpcError) -> None:
        self._send({"id": request, "error": {"code": int(error.code), "message": str(error)}})

    def _send(self, message: dict[str, object]) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode())


def _unexpected(method: str, error: BaseException) -> RpcError:
    log_failure(method, error)
    return RpcError(ErrorCode.INTERNAL_ERROR, f"Ghostdraft failed ({type(error).__name__}); its log says where.")
