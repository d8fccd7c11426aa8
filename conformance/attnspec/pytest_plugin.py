"""attnspec's part in pytest. Every pytest run imports it if attnspec is installed, so it imports no framework.

The options are internal: the `attnspec` command hands its workers their plan with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from attnspec.core.errors import UsageError
from attnspec.core.paths import append_summary, is_on_github, is_told

if TYPE_CHECKING:
    from attnspec.record.read import RunRecord


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plan of a run, and the folder where workers leave their traces."""
    group = parser.getgroup("attnspec", "attnspec (internal: used by the attnspec command)")
    group.addoption("--attnspec-plan", metavar="JSON", help="what the workers of the attnspec command do")
    group.addoption("--attnspec-traces", metavar="DIR", help="where they leave what explains a crash")
    group.addoption("--attnspec-path", metavar="JSON", help="from where they import targets")
    group.addoption("--attnspec-only", metavar="JSON", default="[]", help="the ids of the jobs, if not all of them")
    group.addoption("--attnspec-jobs", metavar="MODULE:NAME", help="what makes the jobs and carries them out")


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of the attnspec command: guard every item. In anybody's run of pytest: tell what gates cost."""
    if config.getoption("attnspec_traces", None) and hasattr(config, "workerinput"):
        from attnspec.runner.worker import Guard  # noqa: PLC0415  (weight: nobody else's pytest run needs it)

        config.pluginmanager.register(Guard.install_guard(config), "attnspec-guard")
    elif not hasattr(config, "workerinput") and not config.getoption("attnspec_plan", None):
        from attnspec.runner.gate import GateCost  # noqa: PLC0415  (a run may turn this plugin off before)

        config.pluginmanager.register(GateCost(config), "attnspec-gate-cost")
        if is_told():
            config.pluginmanager.register(GatesOnGitHub(), "attnspec-gates-on-github")


class GatesOnGitHub:
    """In GitHub Actions: the gates' summary of the step, and errors at the lines of their functions."""

    def __init__(self) -> None:
        from attnspec.runner.gate import FOLDERS_PROPERTY, STRICT_PROPERTY  # noqa: PLC0415  (as above)

        self._strict, self._of_folders = STRICT_PROPERTY, FOLDERS_PROPERTY
        self._folders: dict[str, None] = {}
        self._gates: dict[bool, dict[str, str]] = {}  # by whether it is strict: each item's outcome, as JSON

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcomes of gates; under xdist the workers' reports come here, too."""
        told = dict(report.user_properties)
        if "attnspec" in told:
            self._folders.update(dict.fromkeys(json.loads(str(told.get(self._of_folders, "[]")))))
            self._gates.setdefault(self._strict in told, {})[report.nodeid] = str(told["attnspec"])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401  (pytest does not publish its type)
        """Append the summary, print the annotations."""
        from attnspec.report.ci_files import error_commands, step_summary  # noqa: PLC0415  (weight: only GitHub reads it)
        from attnspec.subjects.registry import annotated_at  # noqa: PLC0415  (weight: as above)

        place_of = partial(annotated_at, folders=tuple(self._folders))
        for is_strict, items in self._gates.items():
            record = _record(items.values(), strict=is_strict)
            for line in error_commands([record], place_of) if is_on_github() else ():
                terminalreporter.write_line(line)
            try:
                append_summary(step_summary([record]))
            except UsageError as problem:  # the tests have run, and their verdicts stand
                terminalreporter.write_line(f"attnspec: {problem}")


def _record(outcomes: Iterable[str], *, strict: bool) -> RunRecord:
    """The outcomes of gates as the record of a run; its header says nothing but whether they are strict."""
    from attnspec.record.codec import decode  # noqa: PLC0415  (weight: as above)
    from attnspec.record.events import RunFinished, RunStarted  # noqa: PLC0415  (weight: as above)
    from attnspec.record.outcome import Outcome  # noqa: PLC0415  (weight: as above)
    from attnspec.record.read import RunRecord  # noqa: PLC0415  (weight: as above)

    found = tuple(decode(Outcome, json.loads(outcome)) for outcome in outcomes)
    header = RunStarted("", ("pytest",), "", "", 0, "", strict, len(found), (), {}, ())
    return RunRecord(header, (), found, RunFinished("", 0.0, {}, 0))
