"""attnspec's part in pytest. Every pytest run of whoever has attnspec installed imports this: it imports no framework.

The options are internal: the `attnspec` command hands its workers their plan with them.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plan of a run, and the folder where workers leave their traces."""
    group = parser.getgroup("attnspec", "attnspec (internal: used by the attnspec command)")
    group.addoption("--attnspec-plan", metavar="JSON", help="what the workers of the attnspec command do")
    group.addoption("--attnspec-traces", metavar="DIR", help="where they leave what explains a crash")
    group.addoption("--attnspec-path", metavar="JSON", help="from where they import targets")
    group.addoption("--attnspec-only", metavar="JSON", default="[]", help="the ids of the jobs, if not all of them")
    group.addoption("--attnspec-jobs", metavar="MODULE:NAME", help="what makes the jobs and carries them out")


def pytest_configure(config: pytest.Config) -> None:
    """In a worker of the attnspec command: guard every item. Anywhere else: tell what gates cost."""
    if config.getoption("attnspec_traces", None) and hasattr(config, "workerinput"):
        from attnspec.runner.guard import Guard  # noqa: PLC0415  (weight: nobody else's pytest run needs it)

        config.pluginmanager.register(Guard.of(config), "attnspec-guard")
    elif not hasattr(config, "workerinput"):
        from attnspec.runner.gate_cost import GateCost  # noqa: PLC0415  (a run may turn this plugin off before)

        config.pluginmanager.register(GateCost(config), "attnspec-gate-cost")
