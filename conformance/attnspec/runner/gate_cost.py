"""What a gate costs, told before it runs: how many items, and how long they took the last time, from pytest's cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

SECONDS = "attnspec/gates"
"""Where pytest's cache keeps the seconds of each gate, by the node id of its test function."""

EFFORT = "attnspec_effort"
"""The attribute of a gate's test function that says how hard it looks."""


class GateCost:
    """A pytest plugin: a line for each gate after collection. Every run of pytest has it: it imports no framework."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)  # absent under `-p no:cacheprovider`
        self._spent: dict[str, float] = {}

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """How many items each gate has, and what they took."""
        return list(self._told(items))

    def _told(self, items: Sequence[pytest.Item]) -> Iterator[str]:
        counted: Counter[tuple[str, str]] = Counter()
        for item in items:
            if effort := getattr(getattr(item, "function", None), EFFORT, ""):
                counted[_gate(item.nodeid), effort] += 1
        known = self._cache.get(SECONDS, {}) if self._cache else {}
        for (gate, effort), count in counted.items():
            took = f"some {known[gate]:.0f} s of work, as last time" if gate in known else (
                "how long they take is measured now and told the next time")
            yield f"attnspec gate {gate}: {count} items at effort {effort}; {took}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what the items of gates take; under xdist the workers' reports come here, too."""
        if any(name == "attnspec" for name, _ in report.user_properties):
            gate = _gate(report.nodeid)
            self._spent[gate] = self._spent.get(gate, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep it for the next run."""
        if self._cache and self._spent:
            self._cache.set(SECONDS, {**self._cache.get(SECONDS, {}), **self._spent})


def _gate(nodeid: str) -> str:
    return nodeid.partition("[")[0]
