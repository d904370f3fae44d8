"""Whether the machine runs on battery, as Linux's files tell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ghostdraft.lsp_server import power

Supplies = dict[str, dict[str, str]]

BATTERY = {"type": "Battery", "status": "Discharging"}
CASES: list[tuple[Supplies, bool]] = [
    ({}, False),
    ({"BAT0": BATTERY}, True),
    ({"BAT0": BATTERY | {"scope": "System"}}, True),
    ({"BAT0": BATTERY | {"status": "Charging"}}, False),
    ({"BAT0": BATTERY | {"status": "Full"}}, False),
    ({"BAT0": BATTERY, "AC": {"type": "Mains", "online": "0"}}, True),
    ({"BAT0": BATTERY, "AC": {"type": "Mains", "online": "1"}}, False),
    ({"BAT0": BATTERY, "ucsi": {"type": "USB", "online": "1"}}, False),
    ({"BAT0": BATTERY, "ucsi": {"type": "USB"}}, True),
    ({"hidpp_battery_0": BATTERY | {"scope": "Device"}}, False),
    ({"BAT0": BATTERY | {"status": "Full"}, "BAT1": BATTERY}, True),
    ({"UPS": {"type": "UPS", "status": "Discharging"}}, True),
    ({"odd": {}}, False),
]


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's files")
@pytest.mark.parametrize(("supplies", "expected"), CASES)
def test_a_battery_that_is_emptied_while_nothing_feeds_it(
    supplies: Supplies, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, attributes in supplies.items():
        (tmp_path / name).mkdir()
        for attribute, value in attributes.items():
            (tmp_path / name / attribute).write_text(value + "\n")
    monkeypatch.setattr(power, "SUPPLIES", tmp_path)
    assert power.on_battery() is expected


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's files")
def test_a_machine_without_power_supplies_is_not_on_battery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "SUPPLIES", tmp_path / "none")
    assert power.on_battery() is False
