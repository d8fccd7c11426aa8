"""Says who was judged, how it went, and what was not decided.

The verdict also makes a badge: the JSON that shields.io reads
(https://shields.io/badges/endpoint-badge).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.nouns import FAILURES, DType, Effort, Level, Verdict
from attnspec.core.paths import write_whole
from attnspec.core.texts import count_noun
from attnspec.record.outcome import ClauseText, Outcome, refused_by
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.bugs import explain_bugs, likely_without_share
from attnspec.report.comparison import describe_exceptions
from attnspec.report.figures import DECIDED, SIGNS, Sign, overall_verdict, shared_reason
from attnspec.report.joined import (
    JoinedRecords,
    JoinedRun,
    JudgedSubject,
    applying_to_nobody,
    join_records,
    shade_verdict,
)
from attnspec.report.likely_cause import (
    ExplainedFailures,
    is_other_convention,
    lower_first_letter,
    other_conventions,
    usual_beginning,
)
from attnspec.report.sections import PageSection

EXIT_WORDS = {
    0: "conforms",
    1: "violated: a `must` clause does not hold",
    2: "could not judge: something was not run, or nothing was executed",
}
PROBE_EXIT_WORDS = {0: "no answer against a manifest", 1: "an answer against a manifest",
                    2: "not everything was asked"}


@dataclass(frozen=True, slots=True)
class VerdictShare:
    """How many clauses of a subject got one verdict. Failures of clauses that only advise are a
    share of their own.
    """

    sign: Sign
    css: str
    number: int


@dataclass(frozen=True, slots=True)
class SubjectStanding:
    """How one subject did, counted by clause: a clause fails if it fails at any dtype.

    cause: what is likely behind most of its failures, as on the console.  begins: where the
    clearest of them begins, if the cause does not say so.  refused_words: what it refuses.
    conventions: sentences about those that it follows and that are not recommended.
    """

    subject: JudgedSubject
    word: str
    css: str
    sentence: str
    counts: tuple[VerdictShare, ...]
    items: int
    cause: str = ""
    begins: str = ""
    refused_words: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The head of the page. title: the verdict in one sentence.  css: its colour.  items: without
    probes.
    """

    title: str
    css: str
    standings: tuple[SubjectStanding, ...]
    interrupted_runs: tuple[JoinedRun, ...]
    digests: tuple[tuple[str, str, str], ...]
    items: int
    cases: int
    no_claims: int
    probes: int


def summarise_runs(joined: JoinedRecords, *, strict: bool) -> Summary:
    """Counts what the runs judged, and says what they come to."""
    standings = tuple(_make_standing(joined, subject, strict=strict) for subject in joined.subjects)
    interrupted = tuple(run for run in joined.runs if run.record.is_interrupted)
    title, css = _title_of_summary(joined, standings, is_whole=not interrupted)
    outcomes = joined.outcomes.values()
    return Summary(
        title=title, css=css, standings=standings, interrupted_runs=interrupted,
        digests=_spec_digests(joined.runs), items=len(outcomes),
        cases=sum(outcome.cases for outcome in outcomes),
        no_claims=sum(outcome.no_claims for outcome in outcomes),
        probes=sum(len(run.record.probes) for run in joined.runs))


def exit_words(run: JoinedRun, sections: Sequence[PageSection] = ()) -> str:
    """Says what the exit code of a run means. sections: those of the page, which know the codes of
    other kinds of runs.
    """
    record = run.record
    if record.footer is None:
        return "none: the run was interrupted"
    words: Mapping[int, str] = EXIT_WORDS
    if not record.outcomes:
        default = PROBE_EXIT_WORDS if record.probes else EXIT_WORDS
        measured = (section.exits for section in sections if section.is_of(record))
        words = next(measured, default)
    code = record.footer.exit_code
    return f"{code}, {words.get(code, 'unknown')}"


def _make_standing(joined: JoinedRecords, subject: JudgedSubject, *,
                   strict: bool) -> SubjectStanding:
    outcomes = joined.outcomes_of_subject(subject)
    worst = [overall_verdict(outcome.verdict for outcome in group) for group in outcomes.values()]
    flat = [outcome for group in outcomes.values() for outcome in group]
    runs = [run.record for run in joined.runs if run.letter in subject.runs]
    word, css = _word_of_standing(flat, subject.broken_reason, strict=strict,
                                  is_whole=not any(run.is_interrupted for run in runs))
    groups = explain_bugs([outcome for outcome in flat if _is_failure(outcome, strict=strict)])
    efforts = {run.header.effort for run in runs}
    cause = likely_without_share(groups, is_sought=efforts != {Effort.GLANCE.value})
    advice = _recommendations_not_followed(flat, strict=strict)
    return SubjectStanding(
        subject, word, css, _sentence_of_standing(flat, worst, subject, groups, strict=strict),
        _shares_by_verdict(outcomes), len(flat), cause, _beginning_of_failures(groups, cause),
        tuple(refused_by(subject.card, flat)), other_conventions(advice, subject.card))


def _beginning_of_failures(groups: Sequence[ExplainedFailures], cause: str) -> str:
    """Says where the first bug begins; empty if the cause says it already."""
    first = next(iter(groups), None)
    if first is None or " where " in cause:
        return ""
    begins = [failure.evidence.begins
              for failure in first.failures if failure.evidence and failure.evidence.begins]
    usual = usual_beginning(first.failures)
    if not usual or 2 * len(begins) <= len(first.failures):
        return ""
    return next((each for each in begins if lower_first_letter(each).startswith(usual)), "")


def _is_failure(outcome: Outcome, *, strict: bool) -> bool:
    """Whether an outcome fails and gates. A listed failure that is gone gates, but fails no more;
    nor does a convention that has changed.
    """
    verdict = outcome.change.verdict if outcome.change else outcome.verdict
    if outcome.change and outcome.change.convention:
        return False
    return verdict in FAILURES and outcome.does_gate(strict=strict)


def _shares_by_verdict(outcomes: Mapping[str, Sequence[Outcome]]) -> tuple[VerdictShare, ...]:
    """Counts the clauses by their verdict over all dtypes, the gravest first."""
    counts: Counter[tuple[Verdict, str]] = Counter()
    for group in outcomes.values():
        verdict = overall_verdict(outcome.verdict for outcome in group)
        counts[verdict, shade_verdict(verdict, group[0].level)] += 1
    ordered = sorted(counts.items(), key=lambda item: (SIGNS[item[0][0]].rank, item[0][1]))
    return tuple(VerdictShare(SIGNS[verdict], css, number) for (verdict, css), number in ordered)


def _word_of_standing(outcomes: Sequence[Outcome], broken: str, *, strict: bool,
                      is_whole: bool) -> tuple[str, str]:
    if any(outcome.does_gate(strict=strict) for outcome in outcomes):
        return "does not conform", "bad"
    if broken or not any(outcome.verdict in DECIDED for outcome in outcomes):
        return "was not judged", "idle"
    if not is_whole or any(outcome.verdict is Verdict.NOT_RUN for outcome in outcomes):
        return "was judged in part", "idle"
    return f"conforms{describe_exceptions(outcomes)}", "good"


def _sentence_of_standing(outcomes: Sequence[Outcome], worst: Sequence[Verdict],
                          subject: JudgedSubject,
                          groups: Sequence[ExplainedFailures], *, strict: bool) -> str:
    """`21 of 70 clauses fail, one cause`, or what a conforming subject holds. groups: its failures
    by cause.
    """
    total = sum(verdict is not Verdict.INAPPLICABLE for verdict in worst)
    if failing := len(_failing_clauses(groups)):
        share = f"{failing} of {count_noun(total, 'clause')}"
        fail = "fails" if failing == total == 1 else "fail"
        return "; ".join([f"{share} {fail}{_count_causes(groups)}",
                          *_advice_words(outcomes, strict=strict)])
    if Verdict.UNEXPECTED in worst:
        return (f"{count_noun(worst.count(Verdict.UNEXPECTED), 'listed deviation')} of "
                f"{subject.label} not as listed")
    held = f"{worst.count(Verdict.HELD)} of {count_noun(total, 'applicable clause')} held by {subject.label}"
    passing = [subject.card.passing_error] if subject.card and subject.card.passing_error else []
    return "; ".join([held, *_advice_words(outcomes, strict=strict), *passing])


def _count_causes(groups: Sequence[ExplainedFailures]) -> str:
    """`, one cause`; or `, one cause for 3 of them` if some clauses fail for no known cause."""
    known = [group for group in groups if group.cause]
    if not known:
        return ""
    causes = "one cause" if len(known) == 1 else count_noun(len(known), "cause")
    clauses = _failing_clauses(known)
    if clauses == _failing_clauses(groups):
        return f", {causes}"
    return f", {causes} for {len(clauses)} of them"


def _failing_clauses(groups: Sequence[ExplainedFailures]) -> set[str]:
    return {failure.clause for group in groups for failure in group.failures}


def _advice_words(outcomes: Sequence[Outcome], *, strict: bool) -> Iterator[str]:
    """`2 recommendations not followed (2 may)`, and the same of conventions in use."""
    advice = _recommendations_not_followed(outcomes, strict=strict)
    by_clause = {outcome.clause: outcome for outcome in advice}
    conventions, others = list[Level](), list[Level]()
    for outcome in by_clause.values():
        (conventions if is_other_convention(outcome) else others).append(outcome.level)
    if others:
        yield (f"{count_noun(len(others), 'recommendation')} not followed "
               f"({_count_by_level(others)})")
    if conventions:
        yield (f"{count_noun(len(conventions), 'convention')} in use, "
               f"but not recommended ({_count_by_level(conventions)})")


def _recommendations_not_followed(outcomes: Sequence[Outcome], *, strict: bool) -> list[Outcome]:
    return [each for each in outcomes
            if each.verdict in FAILURES and not each.does_gate(strict=strict)]


def _count_by_level(levels: Sequence[Level]) -> str:
    return ", ".join(f"{levels.count(level)} {level.value}" for level in Level if level in levels)


def _title_of_summary(joined: JoinedRecords, standings: Sequence[SubjectStanding], *,
                      is_whole: bool) -> tuple[str, str]:
    if not standings and joined.faults:
        return f"{count_noun(len(joined.faults), 'known fault')} tested", "idle"
    if not standings:
        return "Nothing was judged", "idle"
    if not is_whole:
        return "The run was interrupted", "idle"
    if len(standings) == 1:
        [only] = standings
        parts = [f"{only.subject.label} {only.word}"]
        if only.refused_words:
            parts.append(f"refuses {', '.join(only.refused_words)}")
        if only.css == "good":
            parts += only.conventions
        return "; ".join(parts), only.css
    exceptions = describe_exceptions(joined.outcomes.values())
    return f"{_share_that_conforms(standings)}{exceptions}", _worst_css(standings)


def _share_that_conforms(standings: Sequence[SubjectStanding]) -> str:
    conforming = sum(standing.css == "good" for standing in standings)
    if any(standing.subject.is_ambiguous for standing in standings):
        return f"{conforming} of {len(standings)} implementations × environments conform"
    return f"{conforming} of {count_noun(len(standings), 'implementation')} conform"


def _worst_css(standings: Sequence[SubjectStanding]) -> str:
    colours = {standing.css for standing in standings}
    return next(css for css in ("bad", "idle", "good") if css in colours)


def _spec_digests(runs: Sequence[JoinedRun]) -> tuple[tuple[str, str, str], ...]:
    """Lists each spec: its version, its digest, and the letters of the runs that applied it."""
    specs: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        header = run.record.header
        specs.setdefault((header.spec_version, header.spec_digest), []).append(run.letter)
    return tuple((*spec, " ".join(letters)) for spec, letters in specs.items())


LEGEND: tuple[Sign, ...] = tuple(SIGNS.values())


_NOT_DECIDED = (Verdict.NOT_RUN, Verdict.NO_CLAIM, Verdict.INAPPLICABLE)
_DTYPE_MARK = "\0"  # stands in a reason for the dtypes of which it speaks
_TAKES_NO = "it takes no "
_FEW_CLAUSES = 3  # are named one by one, unless they are all of a theme


@dataclass(frozen=True, slots=True)
class Silence:
    """A reason for which something was not judged. silenced_clauses: pairs of subjects and the
    clauses that this reason kept from being judged.
    """

    sign: Sign
    reason: str
    items: int
    silenced_clauses: tuple[tuple[tuple[str, ...], tuple[ClauseText, ...]], ...]


def find_silences(joined: JoinedRecords) -> tuple[Silence, ...]:
    """Lists why something was not judged: the gravest verdict first, then the most frequent."""
    groups: dict[tuple[Verdict, str], list[tuple[str, Outcome]]] = {}
    for subject in joined.subjects:
        for outcomes in joined.outcomes_of_subject(subject).values():
            for outcome in outcomes:
                if outcome.verdict in _NOT_DECIDED:
                    reason = shared_reason(subject.card.id, _reason_of_silence(outcome))
                    # reasons that differ in the name of the dtype alone are one
                    reason = reason.replace(outcome.dtype.value, _DTYPE_MARK)
                    group = groups.setdefault((outcome.verdict, reason), [])
                    group.append((subject.label, outcome))
    texts = {clause.id: clause for clause in joined.clauses}
    silences = [_make_silence(verdict, reason, members, texts)
                for (verdict, reason), members in _fold_longer_reasons(groups).items()]
    return tuple(sorted(silences, key=lambda silence: (silence.sign.rank, -silence.items)))


_Members = Mapping[tuple[Verdict, str], list[tuple[str, Outcome]]]  # by verdict and reason


def _fold_longer_reasons(groups: _Members) -> _Members:
    """Moves what is kept away since it "takes no mask and no bias" to "takes no mask", if that is there.

    The shorter reason suffices. Of several, the one is chosen that keeps most clauses of the theme away.
    """
    lacking = {key: frozenset(key[1].removeprefix(_TAKES_NO).split(" and no "))
               for key in groups if key[1].startswith(_TAKES_NO)}
    numbers = Counter((key, _theme_of(outcome)) for key in lacking for _, outcome in groups[key])
    folded: dict[tuple[Verdict, str], list[tuple[str, Outcome]]] = {}
    for key, members in groups.items():
        shorter = [each for each in lacking if key in lacking and lacking[each] < lacking[key]]
        shortest = [each for each in shorter
                    if not any(lacking[other] < lacking[each] for other in shorter)]
        for label, outcome in members:
            ranks = {each: (numbers[each, _theme_of(outcome)], len(groups[each]))
                     for each in shortest}
            reason = max(ranks, key=ranks.__getitem__, default=key)
            folded.setdefault(reason, []).append((label, outcome))
    return folded


def _theme_of(outcome: Outcome) -> str:
    return outcome.clause.partition(".")[0]


def name_clauses(clauses: Sequence[ClauseText], every: Sequence[ClauseText]) -> tuple[str, ...]:
    """Names clauses by id, and most clauses of a theme as `theme.*` or `theme.* (all but 2)`.
    every: the clauses of the page. The two that are left out have another reason, or were decided.
    """
    if 1 < len(clauses) == len(every):
        return ("all clauses",)
    sizes, numbers = (Counter(clause.theme for clause in some) for some in (every, clauses))
    names = []
    for clause in clauses:
        number, left = numbers[clause.theme], sizes[clause.theme] - numbers[clause.theme]
        if left == 0 and number > 1:
            names.append(f"{clause.theme}.*")
        elif left < number and number > _FEW_CLAUSES:
            names.append(f"{clause.theme}.* (all but {left})")
        else:
            names.append(clause.id)
    return tuple(dict.fromkeys(names))


def never_decided(joined: JoinedRecords) -> tuple[ClauseText, ...]:
    """Lists the clauses that apply to a subject, but decided nothing about anybody."""
    decided = {outcome.clause
               for outcome in joined.outcomes.values() if outcome.verdict in DECIDED}
    idle = {clause.id for clause in applying_to_nobody(joined)}
    return tuple(clause for clause in joined.clauses if clause.id not in decided | idle)


def _reason_of_silence(outcome: Outcome) -> str:
    return outcome.reason or {
        Verdict.NO_CLAIM: "every case fell outside the domain of the bound",
        Verdict.NOT_RUN: "no reason was recorded",
        Verdict.INAPPLICABLE: "no reason was recorded",
    }[outcome.verdict]


def _make_silence(
    verdict: Verdict, reason: str, members: list[tuple[str, Outcome]],
    texts: Mapping[str, ClauseText],
) -> Silence:
    by_subject: dict[str, set[str]] = {}
    for label, outcome in members:
        by_subject.setdefault(label, set()).add(outcome.clause)
    by_clauses: dict[tuple[ClauseText, ...], list[str]] = {}
    for label, ids in by_subject.items():
        clauses = tuple(clause for name, clause in texts.items() if name in ids)
        by_clauses.setdefault(clauses, []).append(label)
    pairs = tuple((tuple(labels), clauses) for clauses, labels in by_clauses.items())
    met = {outcome.dtype for _, outcome in members}
    dtypes = ", ".join(dtype.value for dtype in DType if dtype in met)
    return Silence(SIGNS[verdict], reason.replace(_DTYPE_MARK, dtypes), len(members), pairs)


_COLOURS: Mapping[str, str] = {"good": "brightgreen", "bad": "red", "idle": "lightgrey"}
_WITH_FAILURES = "yellow"  # conforms, apart from failures on its list or that the list could not know


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs to `path`, making its folder."""
    write_whole(path, json.dumps(make_badge(records), ensure_ascii=False) + "\n", "badge")


def make_badge(records: Sequence[RunRecord]) -> Mapping[str, str | int]:
    """Writes the verdict in the fields that shields.io reads. That of a single implementation
    leaves out its id.
    """
    joined = join_records(show_hidden(records))
    summary = summarise_runs(joined, strict=joined.is_strict)
    message, colour = summary.title, _COLOURS[summary.css]
    if len(summary.standings) == 1 and not summary.interrupted_runs:
        message = summary.standings[0].word
    # failures that a list of known failures excuses do not gate
    if summary.css == "good" and any(each.verdict is Verdict.EXPECTED or each.is_excused
                                     for each in joined.outcomes.values()):
        colour = _WITH_FAILURES
    return {"schemaVersion": 1, "label": "attention", "message": message, "color": colour}
