"""Whether a finding explains a failure: by its clauses and dtypes, and by what was seen of the failing case."""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.harm import Harm
from attnspec.record.outcome import KnownFinding, Measured, Outcome, Seen

VALUES = ("nan", "infinity", "zero", "number")
SIZES = ("B", "H", "Hkv", "T", "S", "D", "Dv", "scale")
COMPARISON = re.compile(rf"({'|'.join(SIZES)}) (<=|>=|!=|<|>|=) ({'|'.join(SIZES)}|-?\d+(?:\.\d+)?)")
RECOMMENDS = "convention_is"
"""The relation of clauses that recommend the answer of a convention. Nothing is measured there."""

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne}
_SIZE = re.compile(r"(B|Hkv|H|T|S|Dv|D)(\d+)")


def does_explain(finding: KnownFinding, outcome: Outcome) -> bool:
    """Whether the failure is what the finding is about. What a list of known failures says of it counts for more."""
    if outcome.finding:
        return outcome.finding == finding.id
    if outcome.dtype.value not in (finding.dtypes or (outcome.dtype.value,)):
        return False
    # no pattern speaks of recommendations: what is seen there is the convention, and no number
    if outcome.failure_kind == RECOMMENDS:
        return outcome.clause in finding.clauses
    return (is_named(finding.clauses, outcome.clause)
            and (not finding.seen or any(_shows(each, outcome) for each in finding.seen)))


def is_choice(finding: KnownFinding) -> bool:
    """Whether the library documents that it does so: a convention then, and nothing broken."""
    return finding.harm is Harm.DOCUMENTED_CHOICE


def is_named(patterns: Sequence[str], clause: str) -> bool:
    """Whether one of these ids, with * for any text, is the clause's; no patterns name all."""
    return not patterns or any(fnmatch.fnmatchcase(clause, pattern) for pattern in patterns)


def _shows(seen: Seen, outcome: Outcome) -> bool:
    evidence = outcome.evidence
    if evidence is None or not is_named(seen.clauses, outcome.clause):
        return False
    if bool(seen.exception) != (evidence.measured is None):
        return False
    told = re.search(seen.exception, evidence.sentence) if seen.exception else _is_measured_so(seen, evidence.measured)
    return bool(told) and _is_such(seen, _read_case(evidence.recipe))


def _is_measured_so(seen: Seen, measured: Measured | None) -> bool:
    return measured is not None and (
        _value(measured.seen) in (seen.values or VALUES)
        and _at_most(measured.gap, seen.absolute_error) and _at_most(measured.margin, seen.margin)
        and _at_most(measured.gap, seen.relative_error, abs(measured.expected)))


def _at_most(error: float, most: float, unit: float = 1.0) -> bool:
    return math.isinf(most) or error <= most * unit


def _value(seen: float) -> str:
    if math.isnan(seen):
        return "nan"
    return "infinity" if math.isinf(seen) else "number" if seen else "zero"


@dataclass(frozen=True, slots=True)
class _Case:
    """A case as far as its recipe tells it: its keywords, its sizes, and the scale where one is given."""

    keywords: frozenset[str]
    sizes: Mapping[str, float]


def _read_case(recipe: str) -> _Case:
    first, *rest = recipe.split(";")
    fields = dict(part.split("=", 1) for part in rest if "=" in part)
    sizes = {name: float(number) for name, number in _SIZE.findall(first)}
    scale = {"scale": float(fields["scale"])} if "scale" in fields else {}
    return _Case(frozenset(filter(None, fields.get("with", "").split("+"))), {**sizes, **scale})


def _is_such(seen: Seen, case: _Case) -> bool:
    return (case.keywords.issuperset(seen.needs) and case.keywords.isdisjoint(seen.without)
            and (not seen.needs_any or not case.keywords.isdisjoint(seen.needs_any))
            and all(_compares(each, case.sizes) for each in seen.sizes))


def _compares(comparison: str, sizes: Mapping[str, float]) -> bool:
    """False where a size is not known."""
    found = COMPARISON.fullmatch(comparison)
    if not found:
        return False
    name, sign, other = found.groups()
    right = sizes.get(other) if other in SIZES else float(other)
    return name in sizes and right is not None and _COMPARE[sign](sizes[name], right)
