"""What went wrong, worst first, and what is likely behind it."""

from __future__ import annotations

import keyword
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attnspec.core.nouns import FAILURES, Verdict, gates
from attnspec.record.outcome import ClauseText, Evidence, Explanation, KnownFinding, Likeness, Outcome
from attnspec.report.audit.explained import causes
from attnspec.report.clause_table import finding_anchor, shade
from attnspec.report.figures import FINDINGS, SHORT, SIGNS, WEIGHT, Sign
from attnspec.report.joined import Joined, Judged
from attnspec.report.pictures import Grid, drawn_cells, grids

UNLOCATED = ("no read-out ", "the read-outs could not be taken", "the diagnosis itself failed")
"""How a diagnosis begins that found nothing."""

_ITS_DTYPE = "the inputs' dtype"
_LONGEST = 80  # characters of a fault's story, and of an exception
_FEW_WORDS = 3
_MANIFEST_DTYPE = re.compile(r"(?<=: )\w+: $")  # in a manifest the dtype is the key that the words stand behind
ENDED = FAILURES - {Verdict.VIOLATED}
"""Failures whose sentence says how the call ended."""


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """What explains a failure: a clause without a full stop, the fault that is like it, what to do, what to declare."""

    says: str
    fault: str = ""
    advice: str = ""
    declare: str = ""

    def __str__(self) -> str:
        return f"{self.says} (`{self.fault}`)" if self.fault else self.says


@dataclass(frozen=True, slots=True)
class Explained:
    """Failures with one cause; None: nothing explains them."""

    cause: LikelyCause | None
    failures: tuple[Outcome, ...]


def explanations(failures: Sequence[Outcome]) -> tuple[Explained, ...]:
    """Each failure once, under the cause that explains most of those left; the unexplained ones come last.

    A fault counts for every failure that it explains as well as the likeliest fault does; among equals that which is
    the likeliest more often.
    """
    found, left = [], [(failure, _causes(failure)) for failure in failures]
    while (best := _commonest([causes for _, causes in left])) is not None:
        mine = tuple(failure for failure, causes in left if best in causes)
        found.append(Explained(_at_all_dtypes(best, mine), mine))
        left = [each for each in left if best not in each[1]]
    return (*found, Explained(None, tuple(failure for failure, _ in left))) if left else tuple(found)


def likely(failures: Sequence[Outcome]) -> Explained | None:
    """The failures with the commonest cause; None where more failures are like nothing that is known."""
    first = next(iter(explanations(failures)), None)
    return first if first and first.cause and len(first.failures) >= len(unexplained(failures)) else None


def unexplained(failures: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Those that nothing explains."""
    return next((each.failures for each in explanations(failures) if each.cause is None), ())


def likely_words(failures: Sequence[Outcome]) -> str:
    """`Likely: each query sees one later key (`causal_off_by_one`), 19 of 19 failures`; empty where none is likely."""
    found = likely(failures)
    noun = "failure" if len(failures) == 1 else "failures"
    return f"Likely: {found.cause}, {len(found.failures)} of {len(failures)} {noun}" if found else ""


def _at_all_dtypes(cause: LikelyCause, failures: Sequence[Outcome]) -> LikelyCause:
    """A wider arithmetic by the name of its dtype, if it is one, and with one line that declares it at all of them."""
    told = {failure.dtype.value: failure.evidence.explained for failure in failures
            if failure.evidence and failure.evidence.explained}
    says = cause.says.replace(_ITS_DTYPE, "".join(told)) if len(told) == 1 else cause.says
    return replace(cause, says=says, declare=together(tuple(told.values())))


def together(explained: Sequence[Explanation]) -> str:
    """One text for those that declare the precision at one dtype each: pasted one by one, each line may undo the last.

    A function's attribute is one line, a manifest's mapping has a line for each dtype.
    """
    lines = tuple(dict.fromkeys(each.declare for each in explained))
    begins = {_MANIFEST_DTYPE.sub("", line.partition("{")[0]) for line in lines}
    if len(lines) < 2 or len(begins) > 1 or not all(each.declared for each in explained):
        return "".join(lines[:1])
    start = begins.pop()
    if start.endswith("= "):
        whole = {dtype: words for each in explained for dtype, words in each.declared.items()}
        return f"{start}{whole}"
    return "\n  ".join([start.rstrip(), *(line.removeprefix(start) for line in lines)])


def _commonest(every: Sequence[tuple[LikelyCause, ...]]) -> LikelyCause | None:
    often = Counter(cause for causes in every for cause in causes)
    first = Counter(causes[0] for causes in every if causes)
    return max(often, key=lambda cause: (often[cause], first[cause], bool(cause.advice)), default=None)


def _causes(failure: Outcome) -> tuple[LikelyCause, ...]:
    """What may be behind one failure, the likeliest first. What was not put to the subject has its reason."""
    if failure.evidence:
        return tuple(_evident(failure, failure.evidence))
    return (LikelyCause(failure.reason.rstrip(".")),) if failure.reason else ()


def _evident(failure: Outcome, evidence: Evidence) -> Iterator[LikelyCause]:
    if explained := evidence.explained:
        says = re.sub(rf"\b{failure.dtype.value}\b", _ITS_DTYPE, explained.cause.rstrip("."))
        yield LikelyCause(says, advice=explained.advice)
    elif evidence.like:
        yield from (LikelyCause(plainly(each), each.fault) for each in evidence.like)
    elif evidence.begins:
        yield LikelyCause(_lowered(evidence.begins.partition(";")[0].rstrip(".")))
    elif evidence.located and not evidence.located.startswith(UNLOCATED):
        yield LikelyCause(evidence.located)
    elif failure.verdict in ENDED:
        is_error = failure.verdict is Verdict.ERRORED
        yield LikelyCause(_raised(evidence.sentence) if is_error else evidence.sentence.rstrip("."))


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _raised(sentence: str) -> str:
    """What an exception has in common with the same one about other shapes."""
    first = re.sub(r"\d+", "…", sentence.partition("\n")[0].rstrip("."))
    return f"it raises {textwrap.shorten(first, _LONGEST, placeholder=' …')}"


def plainly(like: Likeness) -> str:
    """The story of a fault as one short clause: `each query sees one later key`."""
    story = re.split(r"(?<=[^.]\.)\s", like.story)[0].rstrip(".")
    code, colon, rest = story.partition(": ")
    if colon and code.startswith("`") and len(rest.split()) > _FEW_WORDS:  # "`>` for `>=`: each query sees …"
        story = rest
    first, _, _ = story.partition(" ")
    is_word = first == "A" or (first[1:].islower() and first[:1].isupper() and not keyword.iskeyword(first))  # True
    return textwrap.shorten(story[0].lower() + story[1:] if is_word else story, _LONGEST, placeholder=" …")


PICTURED_CELLS = 8_000   # how many picture cells a page draws before it refers to the record instead
_OF_THE_CLAUSE = frozenset({Verdict.VIOLATED, Verdict.UNEXPECTED})  # these speak of the clause, not of a defect
OPEN = 24                # how many findings stand open; the rest can be opened one by one


@dataclass(frozen=True, slots=True)
class PageFinding:
    """`outcomes` are those of the failing dtypes, gravest first; `pictures` belong to the first of them.

    `alike` are findings under further clauses in which the subject failed with the very same words; `known`: what the
    library's folder says of it.
    """

    anchor: str
    clause: ClauseText
    subject: Judged
    sign: Sign
    css: str
    dtypes: str
    outcomes: tuple[Outcome, ...]
    does_gate: bool
    is_open: bool = True
    pictures: tuple[Grid, ...] = ()
    omitted: int = 0
    alike: tuple[PageFinding, ...] = ()
    known: tuple[KnownFinding, ...] = ()


def findings(joined: Joined, *, strict: bool) -> tuple[PageFinding, ...]:
    """All findings about implementations (those about faults are the trust matrix), worst first."""
    found = [
        finding
        for number, clause in enumerate(joined.clauses) for subject in joined.subjects
        if (finding := _finding(number, clause, subject, joined.of(subject, clause.id), strict=strict))
    ]
    return _pictured(_gathered(sorted(found, key=_gravity)))


def _gathered(found: Sequence[PageFinding]) -> list[PageFinding]:
    """One finding for all clauses under which a subject raised or died in the same words: one defect is told once."""
    groups: dict[tuple[object, ...], list[PageFinding]] = {}
    for finding in found:
        groups.setdefault(_cause(finding), []).append(finding)
    return [replace(group[0], alike=tuple(group[1:])) for group in groups.values()]


def _cause(finding: PageFinding) -> tuple[object, ...]:
    first = finding.outcomes[0]
    said = first.evidence.sentence if first.evidence else first.reason
    is_own = first.verdict in _OF_THE_CLAUSE or not said
    return finding.subject.number, first.verdict, said, finding.anchor if is_own else ""


def _finding(
    number: int, clause: ClauseText, subject: Judged, outcomes: tuple[Outcome, ...], *, strict: bool,
) -> PageFinding | None:
    failed = sorted((outcome for outcome in outcomes if outcome.verdict in FINDINGS), key=_outcome_gravity)
    if not failed:
        return None
    worst = failed[0]
    return PageFinding(
        anchor=finding_anchor(number, subject), clause=clause, subject=subject, outcomes=tuple(failed),
        sign=SIGNS[worst.verdict], css=shade(worst.verdict, worst.level),
        dtypes=" ".join(SHORT[o.dtype] for o in outcomes if o in failed),
        does_gate=any(gates(o.verdict, o.level, strict=strict) for o in failed),
        known=tuple({known.id: known for outcome in failed for known in causes(subject, outcome)}.values()))


def measured_margin(outcome: Outcome) -> float:
    """The margin of the counterexample; 0 where none was measured."""
    measured = outcome.evidence.measured if outcome.evidence else None
    if measured is None:
        return 0.0
    return math.inf if math.isnan(measured.margin) else measured.margin


def _outcome_gravity(outcome: Outcome) -> tuple[float, ...]:
    return SIGNS[outcome.verdict].rank, -measured_margin(outcome)


def _gravity(finding: PageFinding) -> tuple[float, ...]:
    first = finding.outcomes[0]
    return (not finding.does_gate, WEIGHT[first.level], *_outcome_gravity(first))


def _pictured(found: list[PageFinding]) -> tuple[PageFinding, ...]:
    """The findings with their pictures, as long as the page has room for them; the first few stand open."""
    room = PICTURED_CELLS
    pictured = []
    for place, finding in enumerate(found):
        evidence = finding.outcomes[0].evidence
        pictures = evidence.pictures if evidence else ()
        cells = sum(map(drawn_cells, pictures))
        opened = replace(finding, is_open=place < OPEN)
        fits = cells <= room
        room -= cells if fits else 0
        pictured.append(replace(opened, pictures=grids(pictures)) if fits else replace(opened, omitted=len(pictures)))
    return tuple(pictured)
