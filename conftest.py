"""Under CI=true a skipped test fails the run, unless it is marked `gpu` or `platform`.

A test that silently skips on every machine is no test: what CI's machine lacks, `.ci/run` installs.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

EXCUSES = ("gpu", "platform")
unexcused = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[unexcused] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not any(item.get_closest_marker(excuse) for excuse in EXCUSES):
        item.config.stash[unexcused].append(item.nodeid)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        collector.config.stash[unexcused].append(collector.nodeid)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if os.environ.get("CI") == "true" and session.config.stash[unexcused] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if os.environ.get("CI") == "true" and config.stash[unexcused]:
        terminalreporter.section("skipped without the mark gpu or platform: the run fails")
        for test in config.stash[unexcused]:
            terminalreporter.line(test)
