"""One clause against one subject at one dtype: the clause in words, the verdict and the evidence, as plain data; and
whether a finding explains a failure: by its clauses and dtypes, and by what was seen of the failing case.
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
    """A citation with its source: `cite` is the source's key, `at` a section or heading of it, `url` a foreign text.

    translation: the quote in English, where it is in another language.
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
    """A clause in words. An older or a foreign record may leave out all but its id.

    needs: keywords that the subject must take.  problem: the named problem.  refuted_by: faults that must violate it.
    where: the file and line of its YAML.
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
    """Signs that all have to be there; one that is not given does not matter.

    clauses: ids, with * for any text.  needs, needs_any, without: keywords of which the case has all, has one at least,
    has none.  sizes: comparisons of sizes, and of the scale where one is given ("T > S", "scale <= 0").
    exception: a regular expression that is found in the exception's type and words; without it, only measured answers
    are explained.  values: what stands at the worst entry: nan, infinity, zero or number.
    relative_error, absolute_error, margin: the most that the worst entry is off, in units of what is expected, of the
    answer, of the allowance.
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
    """An array of the counterexample as the page shows it: a name, the axes of its rows and columns, and the entries
    (as strings where they are not finite: "nan", "inf", "-inf").

    first: row and column of the first entry here, and whole: rows and columns of the array that these are cropped from;
    both empty where that is not known.  worst: row and column of the worst entry, as the whole array counts them.
    marks: a row of characters a row: `x` for an entry that is masked, `u` for one that the clause does not judge, `.`
    for the others; empty where no entry is marked.
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
    """What an instrument read off a subject, whether or not a claim was broken: a number with its spread, or a word.

    quantity: what was read ("temperature drift").  sentence: the same for a reader, with any rate of false alarms.
    """

    quantity: str
    value: float | str
    spread: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The worst entry that a relation met.

    margin = gap / allowance; a relation is violated where margin > 1 (or the gap is not a number). `entries` were
    compared and `claimed` of them lay in the domain of the bound.
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
    """A fault whose answers are, within rounding, those of the subject on `agreed` of `tried` cases."""

    fault: str
    stage: str
    story: str
    link: str
    agreed: int
    tried: int


A_CHOICE = " (a choice, no bug)"
"""How the cause of an explanation ends that is nothing to mend: half of the field does so."""

MAGNITUDE_CAUSE = "the answer is wrong where the largest "
"""How a read-out begins that finds the magnitude from which on an answer is wrong."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The wider class of arithmetic under which a failure is none: what the function seems to do, and what to do.

    cause: what it does ("every step is rounded to float16").  advice: how to mend it, or else to own it.
    declare: the line to paste in order to own it, as an attribute of a function or in a manifest.  words: the precision
    class in it, for the outcome's dtype; empty if it declares something else.  declared: all that the line says for
    each dtype, which is these words and what the subject declares already.
    """

    cause: str
    advice: str
    declare: str
    words: Mapping[str, object] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a verdict is not HELD: the shrunk case, in numbers and pictures, and the line that repeats it.

    caption: what the pictures show: which batch entry and head of which quantity, and which of its entries are wrong.
    begins: at which sizes it fails and beside which it holds; empty where all sizes are alike, or nobody looked.
    wrong: which entries of the answer are wrong, as ranges.
    explained: the wider arithmetic that allows it, and then no fault is looked for; or the default that makes it so.
    like: the faults that explain it, likeliest first.  located: where read-outs find the fault, if none explains it.
    calls: the sizes of the calls that the clause makes of the case, where they are others than the case has.
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
    """How an outcome differs from what is known of its subject. `says`: the rest of a sentence about the clause.

    verdict: the one that it would have had, were nothing known.  convention: the one whose answer changed, if that is
    how it differs.
    """

    novelty: Novelty
    says: str
    verdict: Verdict
    convention: str = ""


@dataclass(frozen=True, slots=True)
class ProbedConvention:
    """What a probe found of a convention that the subject does not declare, or of a form of one: `hidden_row.mask`."""

    name: str
    answer: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one item.

    readings: what its instruments measured, in every case.
    change: how it differs from the list of known failures that it is held against, if it is held against one.
    finding: of a known failure, the id of the finding that explains it, if its listing names one.
    met: the pairs of sizes and keywords that its cases met, as `problems.size_plan` writes them.  spans: the least and
    the greatest length of each axis.
    refused: what the subject turned out to refuse in its cases ("D > 200"), with its words; see `SubjectCard.refused`.
    probed: of a clause that recommends the answer of a convention, what was found of that convention.
    asked: the sizes that a user names, and those beside, each with why nothing was tried there; "" if it was.
    sample: so many cases stood for all that are tried at the first dtype; 0: all were tried.
    triples: the features that met in threes (`core.coverage`), where the clause is about that.
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
        """Whether the outcome is a failure that its list of known failures could not know, so that it does not gate."""
        return self.change is not None and self.change.novelty in EXCUSED

    @property
    def failure_kind(self) -> str:
        """How the subject failed, without numbers, which differ between machines: the relation, or the words of the
        exception.

        Empty where nothing more than the verdict can be said.
        """
        if self.evidence and self.evidence.measured:
            return self.evidence.measured.relation
        is_told = self.verdict in (Verdict.VIOLATED, Verdict.ERRORED)
        if is_told:
            return _NUMBER.sub("N", self.evidence.sentence if self.evidence else self.reason)
        return ""


def refused_by(card: SubjectCard | None, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """What a subject refuses, with its words: what was found before it was judged, and what came up in its cases."""
    found = {name: words for outcome in outcomes for name, words in outcome.refused.items()}
    return {**(card.refused if card else {}), **dict(sorted(found.items()))}


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """What a library's folder says of a failure: see `subjects/findings.py`. `script`: its text, in this `language`.

    seen: what a failure has to show, in one of these ways; empty: its clause and dtype are enough.
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
    """What a report says of a subject beside its verdicts.

    defaults: parameters of its function that are none of attnspec's, or to which its adapter gives nothing, left at
    their defaults ("block": "64").
    refused: what it refuses ("grouped heads") and so has not promised, with its words.
    lives_in: the process that its calls were made in: python, numpy, device, what the framework tells of that; empty of
    attnspec's own miniatures, which live in the judge's.
    taken: the pairs of sizes and keywords that it can be put (`problems.size_plan`).  triples: the same of features.
    sizes: those that it declares to be used at, which are tried beside what is drawn.
    backward: where its backward pass rounds, as `precision`; empty where no gradients are asked for.
    passing_error: how large an error passes, in a sentence without its full stop; empty where nothing is quantised
    inside.
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
        """The library and its version: `torch 2.13.0`; empty of what belongs to no library."""
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
    """Whether the failure is what the finding is about. What a list of known failures says of it counts for more."""
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
    """Whether the library documents that it does so: a convention then, and nothing broken."""
    return finding.harm is Harm.DOCUMENTED_CHOICE


def is_named(patterns: Sequence[str], clause: str) -> bool:
    """Whether one of these ids, with * for any text, is the clause's; no patterns name all."""
    return not patterns or any(fnmatch.fnmatchcase(clause, pattern) for pattern in patterns)


def _shows_symptom(seen: Seen, outcome: Outcome) -> bool:
    evidence = outcome.evidence
    if evidence is None or not is_named(seen.clauses, outcome.clause):
        return False
    if bool(seen.exception) != (evidence.measured is None):
        return False
    told = (re.search(seen.exception, evidence.sentence) if seen.exception
            else _is_measured_so(seen, evidence.measured))
    return bool(told) and _is_such(seen, _read_case(evidence.recipe))


def _is_measured_so(seen: Seen, measured: Measured | None) -> bool:
    return measured is not None and (
        _kind_of_value(measured.seen) in (seen.values or VALUE_KINDS)
        and _is_at_most(measured.gap, seen.absolute_error) and _is_at_most(measured.margin,
                                                                           seen.margin)
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
    """A case as far as its recipe tells it: its keywords, its sizes, and the scale where one is given."""

    keywords: frozenset[str]
    sizes: Mapping[str, float]


def _read_case(recipe: str) -> _Case:
    fields = dict(part.split("=", 1) for part in recipe.split(";") if "=" in part)
    sizes = {name: float(number) for name, number in lengths_in(recipe).items()}
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
