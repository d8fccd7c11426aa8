"""A baseline: the failures that a gate knew when it was set up, so that only new ones stop anybody.

Written by the first run (`attnspec check mine:attend --baseline known.yaml`), and changed only on request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from attnspec.ground.declaration import Declaration, Deviation
from attnspec.ground.errors import UsageError
from attnspec.ground.nouns import FAILURES, DType, gates
from attnspec.law.fields import Fields
from attnspec.law.yaml_lines import load_yaml, shown
from attnspec.record.outcome import Outcome

_KNOWN = ("subject", "clause", "dtype", "verdict", "reason")
_HEAD = """\
# What was known to fail when this gate was set up. Written by attnspec: a failure that is listed here is expected, one
# that is not stops the gate, and so does one that is gone. Change it with --update-baseline, and review the difference.
"""


def read_baseline(path: Path) -> Mapping[str, tuple[Deviation, ...]]:
    """Known failures by subject. Raises UsageError with file and line."""
    fields = Fields(load_yaml(path, error=UsageError), "a baseline", UsageError)
    fields.only(("known",))
    known: dict[str, list[Deviation]] = defaultdict(list)
    for entry in fields.each("known", "a known failure", optional=True):
        known[entry.text("subject")].append(_deviation(entry, path))
    return {subject: tuple(listed) for subject, listed in known.items()}


def _deviation(fields: Fields, path: Path) -> Deviation:
    fields.only(_KNOWN)
    return Deviation(
        clause=fields.text("clause"),
        verdict=fields.one_of("verdict", sorted(verdict.value for verdict in FAILURES), kind="verdict of a failure"),
        reason=fields.text("reason", "known"),
        issue="",
        until="",
        dtypes=(fields.choice("dtype", DType, kind="dtype"),),
        where=fields.place("clause"),
        script=shown(path),
    )


def with_baseline(declaration: Declaration, known: Iterable[Deviation]) -> Declaration:
    """The declaration with what the baseline knows; a deviation that the manifest lists itself stays as it is there."""
    listed = {(each.clause, dtype) for each in declaration.deviations for dtype in each.dtypes or declaration.dtypes}
    more = tuple(each for each in known if (each.clause, each.dtypes[0]) not in listed)
    return replace(declaration, deviations=(*declaration.deviations, *more))


def write_baseline(path: Path, outcomes: Iterable[Outcome], *, strict: bool) -> int:
    """Write the failures that gate, in an order that keeps differences small; how many there are."""
    known = [_entry(outcome) for outcome in outcomes
             if outcome.verdict in FAILURES and gates(outcome.verdict, outcome.level, strict=strict)]
    known.sort(key=lambda entry: tuple(entry[name] for name in _KNOWN[:3]))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump({"known": known}, sort_keys=False, allow_unicode=True, width=110)
    path.write_text(f"{_HEAD}{text}", encoding="utf-8")
    return len(known)


def _entry(outcome: Outcome) -> dict[str, str]:
    reason = outcome.evidence.sentence if outcome.evidence else outcome.reason
    return {"subject": outcome.subject, "clause": outcome.clause, "dtype": outcome.dtype.value,
            "verdict": outcome.verdict.value, "reason": reason or outcome.verdict.value}
