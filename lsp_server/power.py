"""Whether this machine runs on its battery."""

from __future__ import annotations

import sys
from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")


def on_battery() -> bool:
    """False where that cannot be told. Linux says it in files; elsewhere it is what psutil finds out."""
    if sys.platform == "linux":
        return any(map(_discharges, _folders())) and not any(map(_feeds, _folders()))
    import psutil

    battery = psutil.sensors_battery()
    return battery is not None and battery.power_plugged is False


def _folders() -> list[Path]:
    return sorted(SUPPLIES.glob("*"))


def _feeds(supply: Path) -> bool:
    """Whether it brings power from outside: a mains adapter, or USB."""
    return _says(supply, "type") in ("Mains", "USB", "Wireless") and _says(supply, "online") not in ("", "0")


def _discharges(supply: Path) -> bool:
    """Whether it is a battery that is being emptied, and not that of a mouse."""
    battery = _says(supply, "type") in ("Battery", "UPS") and _says(supply, "scope") != "Device"
    return battery and _says(supply, "status") == "Discharging"


def _says(supply: Path, attribute: str) -> str:
    """Empty where it says nothing: which attributes there are depends on the driver, and supplies come and go."""
    try:
        return (supply / attribute).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
