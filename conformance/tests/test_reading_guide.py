"""docs/reading-a-report.md explains what the console prints."""

from __future__ import annotations

import re
from dataclasses import replace

from attnspec.core.nouns import DType, Level, Verdict
from attnspec.record.outcome import Evidence, Explanation, Likeness, Outcome
from attnspec.runner.judge import format_violation
from helpers.places import CHECKOUT

GUIDE = (CHECKOUT / "docs" / "reading-a-report.md").read_text(encoding="utf-8")
FULL = Evidence("seen", "case", "B1", traceback="trace", stderr="printed", located="where", begins="begins",
                wrong="wrong", like=(Likeness("fault", "stage", "Story.", "", 1, 1),))


def rows(evidence: Evidence) -> list[str]:
    failed = Outcome("mine:attend", "a.b", DType.FLOAT32, Level.MUST, Verdict.VIOLATED, "note", evidence=evidence,
                     repeat="again")
    return re.findall(r"^  (\w+): ", format_violation(failed, says="It holds.", where="spec/a.yaml:1"), re.MULTILINE)


def test_the_guide_explains_every_line_of_a_failure_in_the_order_printed() -> None:
    _, _, section = GUIDE.partition("### A failure, line by line")
    table = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    explained = rows(replace(FULL, explained=Explanation("cause", "do", "paste")))
    assert set(table) == {*rows(FULL), *explained}
    assert [row for row in table if row in explained] == explained
    assert [row for row in table if row in rows(FULL)] == rows(FULL)
