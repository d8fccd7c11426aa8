"""What a gate costs, told before it runs: how many items, and how long they took the last time, from pytest's cache.

And at its end what its subjects refuse and what else no verdict speaks of.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from attnspec.core.keyword import GRADIENTS_POOL
from attnspec.core.nouns import DType, Novelty, Verdict
from attnspec.core.plan import is_left_out

SECONDS = "attnspec/gates"
"""Where pytest's cache keeps the seconds of each gate, by the node id of its test function."""

EFFORT = "attnspec_effort"
"""The attribute of a gate's test function that says how hard it looks."""

SIZES = "attnspec_sizes"
"""The attribute of a gate's test function that says what the sizes cost which its user names."""

STRICT = "attnspec-strict"
"""The property that only items of a strict gate have in their report; `attnspec` is the outcome as JSON."""

FOLDERS = "attnspec-folders"
"""The property of an item that names the folders of further implementations, as JSON."""

_ITEM = re.compile(rf"[^\[]+\[.+-[a-z_]+\.\w+-(?:{'|'.join(dtype.value for dtype in DType)})\]")  # ids of items


class GateCost:
    """A pytest plugin: a line for each gate after collection. Every run of pytest has it: it imports no framework."""

    def __init__(self, config: pytest.Config) -> None:
        self._cache: pytest.Cache | None = getattr(config, "cache", None)  # absent under `-p no:cacheprovider`
        self._spent: dict[str, float] = {}
        self._is_told = False
        self._refused: dict[str, dict[str, None]] = {}  # by subject, what it refuses
        self._gradients: dict[str, Counter[str]] = {}  # by subject, why no gradients were judged; "" where some were
        self._mended: Counter[str] = Counter()  # by subject, its listed failures that are none any more
        self._unjudged: dict[tuple[str, str], str] = {}  # by gate and subject, why nothing was judged; "" if some was

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """How many items each gate has, and what they took."""
        efforts = {_gate(item.nodeid): getattr(getattr(item, "function", None), EFFORT, "") for item in items}
        at_sizes = dict.fromkeys(line for item in items for line in getattr(getattr(item, "function", None), SIZES, ()))
        return [*self._cost_lines([item.nodeid for item in items if efforts[_gate(item.nodeid)]], efforts), *at_sizes]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:  # noqa: ANN401  (xdist has no types)
        """The same from the controller of xdist, which knows no more than the ids, once a run."""
        reporter = node.config.pluginmanager.get_plugin("terminalreporter")
        if reporter and not self._is_told:
            self._is_told = True
            for line in self._cost_lines([each for each in ids if _ITEM.fullmatch(each)], {}):
                reporter.write_line(line)

    def _cost_lines(self, ids: Iterable[str], efforts: Mapping[str, str]) -> Iterator[str]:
        known = self._cache.get(SECONDS, {}) if self._cache else {}
        for gate, count in Counter(map(_gate, ids)).items():
            how = f" at effort {efforts[gate]}" if gate in efforts else ""
            took = f"some {known[gate]:.0f} s of work, as last time" if gate in known else (
                "how long they take is measured now and told the next time")
            yield f"attnspec gate {gate}: {count} items{how}; {took}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up what the items of gates take; under xdist the workers' reports come here, too."""
        if any(name == "attnspec" for name, _ in report.user_properties):
            gate = _gate(report.nodeid)
            self._spent[gate] = self._spent.get(gate, 0.0) + report.duration
            self._note(gate, json.loads(next(str(text) for name, text in report.user_properties if name == "attnspec")))

    def _note(self, gate: str, outcome: Mapping[str, Any]) -> None:
        """Keep what the verdict of an item does not show in pytest's own summary."""
        subject, change = str(outcome["subject"]), outcome.get("change") or {}
        why = str(outcome["reason"]) if outcome["verdict"] == Verdict.INAPPLICABLE.value else ""
        if why == "" or (gate, subject) not in self._unjudged:
            self._unjudged[gate, subject] = why
        self._mended[subject] += change.get("novelty") == Novelty.MENDED.value
        if str(outcome["clause"]).partition(".")[0] == GRADIENTS_POOL and not is_left_out(str(outcome["reason"])):
            is_judged = outcome["verdict"] != Verdict.INAPPLICABLE.value
            self._gradients.setdefault(subject, Counter())["" if is_judged else str(outcome["reason"])] += 1
        if refused := outcome.get("refused"):
            self._refused.setdefault(str(outcome["subject"]), {}).update(dict.fromkeys(refused))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # noqa: ANN401  (pytest does not publish its type)
        """What a green run says nothing about: what subjects refuse, gradients that none has, a list to be renewed. And
        which gates judged nothing.
        """
        for subject, refused in self._refused.items():
            terminalreporter.write_line(f"attnspec: {subject} refuses {', '.join(refused)}")
        for subject, reasons in self._gradients.items():
            if "" not in reasons:
                [(why, _)] = reasons.most_common(1)  # at a dtype that it does not take the reason is another one
                terminalreporter.write_line(f"attnspec: gradients of {subject} were not judged: {why}")
        for (gate, subject), why in self._unjudged.items():
            if why:
                terminalreporter.write_line(f"attnspec: {gate} judged nothing of {subject}, and is no gate: {why}")
        for subject, number in self._mended.items():
            if number:
                terminalreporter.write_line(f"attnspec: {number} listed failures of {subject} are mended: renew the "
                                            "list with attnspec check --update-baseline")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail where a gate judged nothing, as `attnspec check` does; keep for the next run what its items took."""
        if any(self._unjudged.values()) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._cache and self._spent:
            self._cache.set(SECONDS, {**self._cache.get(SECONDS, {}), **self._spent})


def _gate(nodeid: str) -> str:
    return nodeid.partition("[")[0]
