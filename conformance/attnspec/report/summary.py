"""The first thing on the page: who was judged and how it went, and what was not decided.

The same verdict makes a badge: the JSON that shields.io draws as its endpoint badge
(https://shields.io/badges/endpoint-badge).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnspec.core.nouns import FAILURES, Effort, Level, Verdict
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
    """How many clauses of a subject got one verdict; failures of what is only advised are a share of their own."""

    sign: Sign
    css: str
    number: int


@dataclass(frozen=True, slots=True)
class SubjectStanding:
    """How one subject fared, clause by clause: one that fails at any dtype fails, one decided at any is not open.

    cause: what is likely behind most of its failures, as the console says it.  begins: where the clearest of them
    begins, unless the cause says so.  refused_words: what it refuses, by name.  conventions: those that are others than
    recommended, as what it does.
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
    """`title` is the verdict of the whole page in one sentence; `css` its colour. Probes are none of the items."""

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
    """Summarises runs: counts, and says what they come to."""
    standings = tuple(_make_standing(joined, subject, strict=strict)
                      for subject in joined.subjects)
    interrupted = tuple(run for run in joined.runs if run.record.is_interrupted)
    title, css = _title_of_summary(joined, standings, is_whole=not interrupted)
    return Summary(
        title=title, css=css, standings=standings, interrupted_runs=interrupted,
        digests=_spec_digests(joined.runs),
        items=len(joined.outcomes),
        cases=sum(outcome.cases for outcome in joined.outcomes.values()),
        no_claims=sum(outcome.no_claims for outcome in joined.outcomes.values()),
        probes=sum(len(run.record.probes) for run in joined.runs))


def exit_words(run: JoinedRun, sections: Sequence[PageSection] = ()) -> str:
    """Says what the exit code of a run means. sections: of the page; they know codes of other kinds of runs."""
    footer = run.record.footer
    if footer is None:
        return "none: the run was interrupted"
    record = run.record
    measured = next((section.exits for section in sections if section.is_of(record)), None)
    words = (EXIT_WORDS if record.outcomes else measured
             or (PROBE_EXIT_WORDS if record.probes else EXIT_WORDS))
    return f"{footer.exit_code}, {words.get(footer.exit_code, 'unknown')}"


def _make_standing(joined: JoinedRecords, subject: JudgedSubject, *,
                   strict: bool) -> SubjectStanding:
    outcomes = joined.outcomes_of_subject(subject)
    worst = [overall_verdict(outcome.verdict for outcome in group) for group in outcomes.values()]
    flat = [outcome for group in outcomes.values() for outcome in group]
    is_whole = not any(run.record.is_interrupted
                       for run in joined.runs if run.letter in subject.runs)
    word, css = _word_of_standing(flat, subject.broken_reason, strict=strict, is_whole=is_whole)
    failures = [outcome for outcome in flat if _is_failure(outcome, strict=strict)]
    groups = explain_bugs(failures)
    efforts = {run.record.header.effort for run in joined.runs if run.letter in subject.runs}
    cause = likely_without_share(groups, is_sought=efforts != {Effort.GLANCE.value})
    return SubjectStanding(subject, word, css,
                           _sentence_of_standing(flat, worst, subject, groups, strict=strict),
                           _shares_by_verdict(outcomes), len(flat), cause,
                           _beginning_of_failures(groups, cause),
                           tuple(refused_by(subject.card, flat)),
                           other_conventions(_recommendations_not_followed(flat, strict=strict),
                                             subject.card))


def _beginning_of_failures(groups: Sequence[ExplainedFailures], cause: str) -> str:
    """Says where the first cause begins, as most of its failures do; empty where the cause says as much."""
    first = next(iter(groups), None)
    if first is None or " where " in cause:
        return ""
    told = [failure.evidence.begins
            for failure in first.failures if failure.evidence and failure.evidence.begins]
    usual = usual_beginning(first.failures) if 2 * len(told) > len(first.failures) else ""
    return next((each for each in told if usual and lower_first_letter(each).startswith(usual)),
                "")


def _is_failure(outcome: Outcome, *, strict: bool) -> bool:
    """Whether it fails and gates; a known failure that is gone gates, and fails no more, nor does a convention that
    has changed.
    """
    verdict = outcome.change.verdict if outcome.change else outcome.verdict
    if outcome.change and outcome.change.convention:
        return False
    return verdict in FAILURES and outcome.does_gate(strict=strict)


def _shares_by_verdict(outcomes: Mapping[str, Sequence[Outcome]]) -> tuple[VerdictShare, ...]:
    """The clauses by the verdict over all dtypes, gravest first."""
    worst = [(overall_verdict(outcome.verdict for outcome in group), group[0].level)
             for group in outcomes.values()]
    found = Counter((verdict, shade_verdict(verdict, level)) for verdict, level in worst)
    ordered = sorted(found.items(), key=lambda item: (SIGNS[item[0][0]].rank, item[0][1]))
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
    """`21 of 70 clauses fail, one cause`; of one that conforms what it holds. groups: what fails, by its causes."""
    total = sum(verdict is not Verdict.INAPPLICABLE for verdict in worst)
    if failing := len(_failing_clauses(groups)):
        told = (f"{failing} of {count_noun(total, 'clause')} "
                f"{'fails' if failing == total == 1 else 'fail'}")
        return "; ".join([f"{told}{_count_causes(groups)}",
                          *_advice_words(outcomes, strict=strict)])
    if Verdict.UNEXPECTED in worst:
        return (f"{count_noun(worst.count(Verdict.UNEXPECTED), 'listed deviation')} of "
                f"{subject.label} not as listed")
    held = f"{worst.count(Verdict.HELD)} of {count_noun(total, 'applicable clause')} held by {subject.label}"
    passing = [subject.card.passing_error] if subject.card and subject.card.passing_error else []
    return "; ".join([held, *_advice_words(outcomes, strict=strict), *passing])


def _count_causes(groups: Sequence[ExplainedFailures]) -> str:
    """`, one cause`; where some have none that is known, how many clauses those explain that are."""
    known = [group for group in groups if group.cause]
    if not known:
        return ""
    said = f", {'one cause' if len(known) == 1 else count_noun(len(known), 'cause')}"
    clauses = _failing_clauses(known)
    if clauses == _failing_clauses(groups):
        return said
    return f"{said} for {len(clauses)} of them"


def _failing_clauses(groups: Sequence[ExplainedFailures]) -> set[str]:
    return {failure.clause for group in groups for failure in group.failures}


def _advice_words(outcomes: Sequence[Outcome], *, strict: bool) -> Iterator[str]:
    """`2 recommendations not followed (2 may)`; and the conventions that libraries use and nobody recommends."""
    failed = {outcome.clause: outcome
              for outcome in _recommendations_not_followed(outcomes, strict=strict)}.values()
    conventions = [outcome.level for outcome in failed if is_other_convention(outcome)]
    others = [outcome.level for outcome in failed if not is_other_convention(outcome)]
    if others:
        yield (f"{count_noun(len(others), 'recommendation')} not followed "
               f"({_count_by_level(others)})")
    if conventions:
        yield (f"{count_noun(len(conventions), 'convention')} in use, "
               f"but not recommended ({_count_by_level(conventions)})")


def _recommendations_not_followed(outcomes: Sequence[Outcome], *,
                                  strict: bool) -> Iterator[Outcome]:
    return (each
            for each in outcomes if each.verdict in FAILURES and not each.does_gate(strict=strict))


def _count_by_level(levels: Sequence[Level]) -> str:
    return ", ".join(f"{levels.count(level)} {level.value}" for level in Level if level in levels)


def _title_of_summary(joined: JoinedRecords, standings: Sequence[SubjectStanding], *,
                      is_whole: bool) -> tuple[str,
                                               str]:
    if not standings and joined.faults:
        return f"{count_noun(len(joined.faults), 'known fault')} tested", "idle"
    if not standings:
        return "Nothing was judged", "idle"
    if not is_whole:
        return "The run was interrupted", "idle"
    if len(standings) == 1:
        [only] = standings
        others = "".join(f"; {each}" for each in only.conventions) if only.css == "good" else ""
        refused = f"; refuses {', '.join(only.refused_words)}" if only.refused_words else ""
        return f"{only.subject.label} {only.word}{refused}{others}", only.css
    return (f"{_share_that_conforms(standings)}{describe_exceptions(joined.outcomes.values())}",
            _worst_css(standings))


def _share_that_conforms(standings: Sequence[SubjectStanding]) -> str:
    conforming = sum(standing.css == "good" for standing in standings)
    if any(standing.subject.is_ambiguous for standing in standings):
        return f"{conforming} of {len(standings)} implementations × environments conform"
    return f"{conforming} of {count_noun(len(standings), 'implementation')} conform"


def _worst_css(standings: Sequence[SubjectStanding]) -> str:
    found = {standing.css for standing in standings}
    return next(css for css in ("bad", "idle", "good") if css in found)


def _spec_digests(runs: Sequence[JoinedRun]) -> tuple[tuple[str, str, str], ...]:
    """Every spec that was applied: its version, its digest, and the letters of the runs it was applied in."""
    laws: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        header = run.record.header
        laws.setdefault((header.spec_version, header.spec_digest), []).append(run.letter)
    return tuple((version, digest, " ".join(letters))
                 for (version, digest), letters in laws.items())


LEGEND: tuple[Sign, ...] = tuple(SIGNS.values())


_NOT_DECIDED = (Verdict.NOT_RUN, Verdict.NO_CLAIM, Verdict.INAPPLICABLE)


@dataclass(frozen=True, slots=True)
class Silence:
    """One reason, and whom it kept from being judged by what: pairs of subjects and clauses."""

    sign: Sign
    reason: str
    items: int
    silenced_clauses: tuple[tuple[tuple[str, ...], tuple[ClauseText, ...]], ...]


def find_silences(joined: JoinedRecords) -> tuple[Silence, ...]:
    """The reasons why something was not judged: gravest verdict first, then the most frequent."""
    groups: dict[tuple[Verdict, str], list[tuple[str, Outcome]]] = {}
    for subject in joined.subjects:
        for outcomes in joined.outcomes_of_subject(subject).values():
            for outcome in outcomes:
                if outcome.verdict in _NOT_DECIDED:
                    reason = shared_reason(subject.card.id, _reason_of_silence(outcome))
                    groups.setdefault((outcome.verdict, reason),
                                      []).append((subject.label, outcome))
    texts = {clause.id: clause for clause in joined.clauses}
    found = [_make_silence(verdict, reason, members, texts)
             for (verdict, reason), members in groups.items()]
    return tuple(sorted(found, key=lambda silence: (silence.sign.rank, -silence.items)))


def never_decided(joined: JoinedRecords) -> tuple[ClauseText, ...]:
    """Clauses that apply to somebody and decided nothing about anybody, faults included."""
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
    by_subject: dict[str, dict[str, None]] = {}
    for label, outcome in members:
        by_subject.setdefault(label, {})[outcome.clause] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for label, clauses in by_subject.items():
        alike.setdefault(tuple(clauses), []).append(label)
    whom = tuple((tuple(labels), tuple(texts[clause] for clause in clauses))
                 for clauses, labels in alike.items())
    return Silence(SIGNS[verdict], reason, len(members), whom)


_COLOURS: Mapping[str, str] = {"good": "brightgreen", "bad": "red", "idle": "lightgrey"}
_WITH_FAILURES = "yellow"
"""Of what conforms but for failures that are known, or that its list could not know."""


def write_badge(records: Sequence[RunRecord], path: Path) -> None:
    """Write the badge of one or several runs to `path`, making its folder."""
    write_whole(path, json.dumps(make_badge(records), ensure_ascii=False) + "\n", "badge")


def make_badge(records: Sequence[RunRecord]) -> Mapping[str, str | int]:
    """The verdict in the fields that shields.io reads: the title of the page, of one implementation without its id."""
    joined = join_records(show_hidden(records))
    found = summarise_runs(joined, strict=joined.is_strict)
    is_alone = len(found.standings) == 1 and not found.interrupted_runs
    message = found.standings[0].word if is_alone else found.title
    has_failures = found.css == "good" and any(map(_is_excused, joined.outcomes.values()))
    colour = _WITH_FAILURES if has_failures else _COLOURS[found.css]
    return {"schemaVersion": 1, "label": "attention", "message": message, "color": colour}


def _is_excused(outcome: Outcome) -> bool:
    """Whether it fails, and a list of known failures is why it does not gate."""
    return outcome.verdict is Verdict.EXPECTED or outcome.is_excused
