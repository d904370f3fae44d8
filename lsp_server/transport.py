"""Standard input and output as a connection: framing, who else may write there, and when to end.

Knows nothing of the messages' content. Once `claim_stdio` has run, whatever a library prints goes to standard error.
The process ends with the client: soon after the end of standard input, or the death of the client's process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

logger = logging.getLogger(__name__)

GRACE = 1.0  # seconds from the end of input until the process is ended from outside its event loop
WATCH_INTERVAL = 0.5  # seconds between looks at the client's process, where the system does not tell of its end
MOST_HEADER_BYTES = 8192
MOST_LENGTH_DIGITS = 9


class BrokenFraming(Exception):
    """What comes in is no stream of messages; where the next one begins is not known."""


class Receiver(Protocol):
    """What a connection is made of, seen from here; called on the event loop's thread."""

    @property
    def exited(self) -> bool:
        """Whether the client has said `exit`."""

    @property
    def status(self) -> int:
        """The process's exit status if it ended now."""

    def receive(self, body: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Stdio:
    """The two streams of the protocol."""

    incoming: BinaryIO
    outgoing: BinaryIO


def claim_stdio() -> Stdio:
    """Takes standard input and output for the protocol alone. From here on, print and C code write to stderr."""
    sys.stdout.flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return Stdio(os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb", buffering=0))


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_message(stream: BinaryIO) -> bytes | None:
    """The body of the next message; None at the end of the stream. Raises BrokenFraming."""
    length = None
    header = stream.readline(MOST_HEADER_BYTES)
    if not header:
        return None
    while header.strip():
        name, _, value = header.partition(b":")
        if name.strip().lower() == b"content-length":
            length = _length(value)
        header = stream.readline(MOST_HEADER_BYTES)
    if length is None:
        raise BrokenFraming("a message has no Content-Length")
    body = stream.read(length)
    return body if len(body) == length else None


def _length(value: bytes) -> int:
    digits = value.strip()
    if not digits.isdigit():
        raise BrokenFraming("a Content-Length is no number")
    if len(digits) > MOST_LENGTH_DIGITS:
        raise BrokenFraming("a Content-Length is beyond all messages")
    return int(digits)


class Writer:
    """Sends bodies, framed, in the order of the calls. A client that went away is no error: its input ends too."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __call__(self, body: bytes) -> None:
        rest = memoryview(frame(body))
        try:
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            logger.debug("the client reads no more: %s", error.strerror)


async def serve(receiver: Receiver, stream: BinaryIO) -> int:
    """Feeds `receiver` until the client says `exit` or its stream ends. Returns the process's exit status."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def take(body: bytes | None) -> None:
        if body is not None and not receiver.exited:
            receiver.receive(body)
        if body is None or receiver.exited:
            ended.set()

    reader = threading.Thread(target=_read, args=(stream, loop, take), name="ghostdraft-reader", daemon=True)
    reader.start()
    await ended.wait()
    receiver.close()
    return receiver.status


def _read(stream: BinaryIO, loop: asyncio.AbstractEventLoop, take: Callable[[bytes | None], None]) -> None:
    """Hands over each message as it comes, and None at the end; then ends the process if nobody else does."""
    try:
        while (body := read_message(stream)) is not None:
            loop.call_soon_threadsafe(take, body)
    except (BrokenFraming, OSError) as error:
        logger.error("the client's stream is broken: %s", error)
    finally:
        loop.call_soon_threadsafe(take, None)
        time.sleep(GRACE)
        end_process(1)


def end_with(process_id: int) -> None:
    """Ends this process soon after that one is dead."""
    threading.Thread(target=_watch, args=(process_id,), name="ghostdraft-watcher", daemon=True).start()


def _watch(process_id: int) -> None:
    if _slept_until_its_end(process_id) or _looked_until_its_end(process_id):
        logger.info("the client's process is gone")
        end_process(1)


def _slept_until_its_end(process_id: int) -> bool:
    """False: the system does not tell of it."""
    if sys.platform != "linux":
        return False
    try:
        process = os.pidfd_open(process_id)
    except ProcessLookupError:
        return True
    except OSError:  # an old kernel, or a container that forbids it
        return False
    select.select([process], [], [])
    os.close(process)
    return True


def _looked_until_its_end(process_id: int) -> bool:
    """False: it may not be looked at. Takes a thousandth of a core."""
    import psutil

    try:
        client = psutil.Process(process_id)
        while client.is_running() and client.status() != psutil.STATUS_ZOMBIE:
            time.sleep(WATCH_INTERVAL)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        logger.debug("the client's process cannot be watched")
        return False
    return True


def end_process(status: int) -> None:
    """Ends at once, whatever other threads do: a model may be loading or computing in one."""
    logging.shutdown()
    os._exit(status)
