"""How the server logs what it did not expect: kind and place. The words of an exception may quote the user's text."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

logger = logging.getLogger(__name__)


def log_failure(doing: str, error: BaseException) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    places = " > ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    logger.error("%s failed with %s at %s", doing, type(error).__name__, places or "an unknown place")


def log_failed_task(doing: str, done: asyncio.Future[Any]) -> None:
    """For the end of a task that nobody waits for."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log_failure(doing, error)
