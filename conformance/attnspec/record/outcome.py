"""What a record holds of one clause, one subject and one dtype: text, verdict and evidence.

It is plain data. The file also decides whether a finding explains a failure, by clause, dtype and
what was seen.
"""

from __future__ import annotations

import fnmatch
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from attnspec.core.declaration import Harm
from attnspec.core.nouns import EXCUSED, DType, Level, Novelty, Panel, Verdict, does_gate_run
from attnspec.record.boundaries import lengths_in


@dataclass(frozen=True, slots=True)
class QuotedSource:
    """A citation with its source. cite: the key of the source.  at: a section or heading of it.
    url: a foreign text. translation: the quote in English, if it is in another language.
    """

    cite: str = ""
    at: str = ""
    quote: str = ""
    note: str = ""
    title: str = ""
    url: str = ""
    translation: str = ""


@dataclass(frozen=True, slots=True)
class ClauseText:
    """A clause in words.

    An older or a foreign record may have only its id.  needs: keywords that the subject must take.
    problem: the named problem.  refuted_by: faults that must violate it.  where: the file and line
    of its YAML.
    """

    id: str
    theme: str = ""
    level: Level = Level.MUST
    profile: str = ""
    says: str = ""
    formula: str = ""
    because: tuple[QuotedSource, ...] = ()
    needs: tuple[str, ...] = ()
    problem: str = ""
    refuted_by: tuple[str, ...] = ()
    note: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """Signs that a failure must show, all of them. A sign that is not given does not matter.

    clauses: ids, with * for any text.  needs, needs_any, without: keywords of which the case has
    all, at least one, or none.  sizes: comparisons of sizes, and of the scale if one is given ("T
    > S", "scale <= 0").  exception: a regular expression found in the type and words of the
    exception; without it, only measured answers are explained.  values: what the worst entry is:
    nan, infinity, zero or number.  relative_error, absolute_error, margin: the largest error of
    the worst entry, in units of what is expected, of the answer, and of the allowance.
    """

    BRIEF: ClassVar[bool] = True

    clauses: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    exception: str = ""
    values: tuple[str, ...] = ()
    relative_error: float = math.inf
    absolute_error: float = math.inf
    margin: float = math.inf


_NUMBER = re.compile(r"0x[0-9a-f]+|\d[\d.]*(e[-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Picture:
    """An array of the counterexample, as the page shows it.

    rows, columns: the names of its axes.  entries: as strings if they are not finite ("nan",
    "inf", "-inf").  first: row and column of the first entry.  whole: rows and columns of the
    array of which this is a part; both are empty if unknown.  worst: row and column of the worst
    entry in the whole array.  marks: a text for each row: `x` for a masked entry, `u` for one that
    the clause does not judge, `.` for others; empty if no entry is marked.
    """

    name: str
    rows: str
    columns: str
    entries: tuple[tuple[float | str, ...], ...]
    panel: Panel = Panel.BESIDE
    first: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    worst: tuple[int, ...] = ()
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What an instrument read off a subject: a number with its spread, or a word.

    quantity: what was read ("temperature drift").  sentence: the same for a reader, with any rate
    of false alarms.
    """

    quantity: str
    value: float | str
    spread: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The worst entry that a relation found.

    margin: gap / allowance; the relation is violated if it is larger than 1, or the gap is not a
    number.  entries: how many were compared.  claimed: how many of them lay in the domain of the
    bound.
    """

    relation: str
    sentence: str
    margin: float
    gap: float
    allowance: float
    seen: float
    expected: float
    index: tuple[int, ...]
    entries: int
    claimed: int
    wrong: int = 0
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Likeness:
    """A fault that gives the subject's answers, within rounding, on `agreed` of `tried` cases."""

    fault: str
    stage: str
    story: str
    link: str
    agreed: int
    tried: int


A_CHOICE = " (a choice, no bug)"
"""The end of a cause that needs no mending: many libraries do so on purpose."""

MAGNITUDE_CAUSE = "the answer is wrong where the largest "
"""How a read-out begins that finds the magnitude from which on an answer is wrong."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A wider class of arithmetic that would allow the failure.

    cause: what the function seems to do ("every step is rounded to float16").  advice: how to mend
    it, or else to declare it.  declare: the line to paste to declare it, in a function's file or a
    manifest.  words: the precision class in that line, for the outcome's dtype; empty if it
    declares something else.  declared: all that the line says for each dtype: these words, and
    what the subject declares already.
    """

    cause: str
    advice: str
    declare: str
    words: Mapping[str, object] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a verdict is not HELD: the shrunk case in numbers and pictures.

    recipe: the text that repeats the case.  caption: which batch entry, head and quantity the
    pictures show, and which entries are wrong.  begins: at which sizes it fails and holds; empty
    if all sizes are alike or were not examined.  wrong: which entries of the answer are wrong, as
    ranges.  explained: a wider arithmetic or a default that explains the failure; no fault is
    looked for then.  like: the faults that explain it, the likeliest first.  located: the stage
    that read-outs blame, if no fault explains it.  calls: the sizes of the calls that the clause
    makes, if they differ from those of the case.
    """

    sentence: str
    case: str
    recipe: str
    measured: Measured | None = None
    pictures: tuple[Picture, ...] = ()
    traceback: str = ""
    stderr: str = ""
    like: tuple[Likeness, ...] = ()
    located: str = ""
    explained: Explanation | None = None
    begins: str = ""
    wrong: str = ""
    caption: str = ""
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """How an outcome differs from the list of known failures.

    says: the rest of a sentence about the clause.  verdict: the one without the list.  convention:
    the one whose answer changed, if that is the difference.
    """

    novelty: Novelty
    says: str
    verdict: Verdict
    convention: str = ""


@dataclass(frozen=True, slots=True)
class ProbedConvention:
    """A probe's answer about an undeclared convention, or a form of one: `hidden_row.mask`."""

    name: str
    answer: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one item.

    readings: what its instruments measured.  change: the difference from the list of known
    failures, if there is a list.  finding: the id of the finding that a known failure's entry
    names.  met: the pairs of sizes and keywords in its cases (`core.coverage`).  triples: the
    triples of features.  spans: by axis, the least and the greatest length.  refused: what the
    subject refused in its cases ("D > 200"), with its words.  probed: what was found of a
    convention that the clause recommends.  asked: the sizes that a user names, each with the
    reason why nothing was tried there; empty if it was.  sample: how many cases stood for all of
    the first dtype; 0 if all were tried.
    """

    subject: str
    clause: str
    dtype: DType
    level: Level
    verdict: Verdict
    reason: str = ""
    cases: int = 0
    no_claims: int = 0
    worst: Measured | None = None
    evidence: Evidence | None = None
    seconds: float = 0.0
    instrument: str = ""
    repeat: str = ""
    readings: tuple[Reading, ...] = ()
    change: Change | None = None
    finding: str = ""
    met: str = ""
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    probed: tuple[ProbedConvention, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0
    triples: str = ""

    def does_gate(self, *, strict: bool) -> bool:
        """Whether the outcome makes the exit code 1."""
        return not self.is_excused and does_gate_run(self.verdict, self.level, strict=strict)

    @property
    def is_excused(self) -> bool:
        """Whether this failure does not gate, because its list could not know it."""
        return self.change is not None and self.change.novelty in EXCUSED

    @property
    def failure_kind(self) -> str:
        """How the subject failed: the relation, or the words of the exception without numbers.
        Numbers differ between machines. The text is empty if only the verdict is known.
        """
        if self.evidence and self.evidence.measured:
            return self.evidence.measured.relation
        if self.verdict in (Verdict.VIOLATED, Verdict.ERRORED):
            return _NUMBER.sub("N", self.evidence.sentence if self.evidence else self.reason)
        return ""


def refused_by(card: SubjectCard | None, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """What a subject refuses, with its words: as found before, and as came up in its cases."""
    in_cases = {name: words for outcome in outcomes for name, words in outcome.refused.items()}
    return {**(card.refused if card else {}), **dict(sorted(in_cases.items()))}


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of a library's folder (`subjects/findings.py`).

    seen: what a failure has to show, in one of these ways; if empty, its clause and dtype are
    enough.  script: its text, in this `language`.
    """

    id: str
    says: str
    clauses: tuple[str, ...]
    dtypes: tuple[str, ...]
    script: str
    documented: str
    issue: str
    seen: tuple[Seen, ...] = ()
    harm: Harm | None = None
    language: str = "python"


@dataclass(frozen=True, slots=True)
class SubjectCard:
    """What a report says of a subject besides its verdicts.

    defaults: parameters of its function that attnspec has no value for, which were left at their
    defaults ("block": "64").  refused: what it refuses ("grouped heads"), with its words.
    lives_in: python, numpy and device of its process; empty for attnspec's own implementations,
    which live in the judge's process.  taken: the pairs of sizes and keywords that it takes
    (`core.coverage`).  triples: the same for features.  sizes: those that it declares to be used
    at, which are tried in addition.  backward: where its backward pass rounds, written as
    `precision`; empty if no gradients are asked for.  passing_error: how large an error passes, as
    a sentence without its full stop; empty if nothing is quantised inside.
    """

    BRIEF: ClassVar[frozenset[str]] = frozenset({"passing_error"})

    id: str
    title: str
    kind: str
    distribution: str
    version: str
    homepage: str
    conventions: Mapping[str, str]
    probed: Mapping[str, str]
    precision: Mapping[str, str]
    claims: tuple[str, ...]
    limits: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    install: str = ""
    issues: str = ""
    note: str = ""
    findings: tuple[KnownFinding, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    lives_in: Mapping[str, str] = field(default_factory=dict)
    taken: str = ""
    sizes: tuple[str, ...] = ()
    backward: Mapping[str, str] = field(default_factory=dict)
    triples: str = ""
    passing_error: str = ""

    @property
    def release(self) -> str:
        """The library and its version: `torch 2.13.0`; empty without a library."""
        return f"{self.library or self.distribution} {self.version}".strip()


VALUE_KINDS = ("nan", "infinity", "zero", "number")
SIZES = ("B", "H", "Hkv", "T", "S", "D", "Dv", "scale")
COMPARISON = re.compile(rf"({'|'.join(SIZES)}) (<=|>=|!=|<|>|=) ({'|'.join(SIZES)}|-?\d+(?:\.\d+)?)")
RECOMMENDING_RELATION = "convention_is"
"""The relation of clauses that recommend the answer of a convention. Nothing is measured there."""

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
    "!=": operator.ne}


def does_explain(finding: KnownFinding, outcome: Outcome) -> bool:
    """Whether a finding explains a failure. An entry of a list of known failures decides first."""
    if outcome.finding:
        return outcome.finding == finding.id
    if outcome.dtype.value not in (finding.dtypes or (outcome.dtype.value,)):
        return False
    # no pattern speaks of recommendations: what is seen there is the convention, and no number
    if outcome.failure_kind == RECOMMENDING_RELATION:
        return outcome.clause in finding.clauses
    return (is_named(finding.clauses, outcome.clause)
            and (not finding.seen or any(_shows_symptom(each, outcome) for each in finding.seen)))


def is_choice(finding: KnownFinding) -> bool:
    """Whether the library documents it as a choice, so that nothing is broken."""
    return finding.harm is Harm.DOCUMENTED_CHOICE


def is_named(patterns: Sequence[str], clause: str) -> bool:
    """Whether an id, in which * stands for any text, is the clause's. An empty list
    names every clause.
    """
    return not patterns or any(fnmatch.fnmatchcase(clause, pattern) for pattern in patterns)


def _shows_symptom(seen: Seen, outcome: Outcome) -> bool:
    evidence = outcome.evidence
    if evidence is None or not is_named(seen.clauses, outcome.clause):
        return False
    if evidence.measured:
        fits = not seen.exception and _is_measured_so(seen, evidence.measured)
    else:
        fits = bool(seen.exception and re.search(seen.exception, evidence.sentence))
    return fits and _is_such(seen, _read_case(evidence.recipe))


def _is_measured_so(seen: Seen, measured: Measured) -> bool:
    return (_kind_of_value(measured.seen) in (seen.values or VALUE_KINDS)
            and _is_at_most(measured.gap, seen.absolute_error)
            and _is_at_most(measured.margin, seen.margin)
            and _is_at_most(measured.gap, seen.relative_error, abs(measured.expected)))


def _is_at_most(error: float, most: float, unit: float = 1.0) -> bool:
    return math.isinf(most) or error <= most * unit


def _kind_of_value(seen: float) -> str:
    if math.isnan(seen):
        return "nan"
    if math.isinf(seen):
        return "infinity"
    return "number" if seen else "zero"


@dataclass(frozen=True, slots=True)
class _Case:
    """What a recipe says of its case: keywords, sizes, and the scale if one is given."""

    keywords: frozenset[str]
    sizes: Mapping[str, float]


def _read_case(recipe: str) -> _Case:
    fields = dict(part.split("=", 1) for part in recipe.split(";") if "=" in part)
    sizes = {name: float(number) for name, number in lengths_in(recipe).items()}
    if "scale" in fields:
        sizes["scale"] = float(fields["scale"])
    return _Case(frozenset(filter(None, fields.get("with", "").split("+"))), sizes)


def _is_such(seen: Seen, case: _Case) -> bool:
    return (case.keywords.issuperset(seen.needs) and case.keywords.isdisjoint(seen.without)
            and (not seen.needs_any or not case.keywords.isdisjoint(seen.needs_any))
            and all(_compares(each, case.sizes) for each in seen.sizes))


def _compares(comparison: str, sizes: Mapping[str, float]) -> bool:
    """Whether a comparison of sizes holds; no if a size is unknown."""
    found = COMPARISON.fullmatch(comparison)
    if not found:
        return False
    name, sign, other = found.groups()
    right = sizes.get(other) if other in SIZES else float(other)
    return name in sizes and right is not None and _COMPARE[sign](sizes[name], right)
