"""What another process holds and does, as the system tells it: precisely on Linux, as far as psutil knows elsewhere."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

KIB = 1024


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes of memory: `resident`, pages of mapped files among them; `shared_out`, the same with each page divided by
    the number of processes that map it; `anonymous`, what belongs to no file. None where the system does not tell."""

    resident: int
    shared_out: int | None = None
    anonymous: int | None = None


def held(pid: int) -> Held:
    """Of all that the process has mapped, counted at this moment."""
    if sys.platform != "linux":
        return Held(psutil.Process(pid).memory_info().rss)
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    sizes = {name: KIB * int(size.split()[0]) for name, _, size in (line.partition(":") for line in lines)}
    return Held(sizes["Rss"], sizes["Pss"], sizes["Anonymous"])


def most_resident(pid: int) -> int:
    """The most bytes that were resident at any moment; elsewhere than on Linux, those that are now."""
    if sys.platform != "linux":
        return held(pid).resident
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(KIB * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def cpu_seconds(pid: int) -> float:
    """Processor time of all threads that it has now: to the nanosecond on Linux, elsewhere in the system's ticks."""
    if sys.platform != "linux":
        return ticked_seconds(pid)
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return 1e-9 * sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads)


def ticked_seconds(pid: int) -> float:
    """Processor time of all threads that it ever had, in the system's ticks, which waking up for a moment does not
    move."""
    return float(sum(psutil.Process(pid).cpu_times()[:2]))
