"""Writes what CI shows of runs: JUnit XML, and the summary and errors of a step of GitHub Actions.

In JUnit XML, a subject is a suite, and a clause at one dtype is a test case. Clauses that gate can
fail. Clauses that only advise are skipped, with what was seen. Whatever was not judged is an error,
so that nothing is green by omission. Elements and attributes are those of Ant's JUnit task, which
Jenkins and GitLab read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from xml.etree import ElementTree

from attnspec.core.errors import FileLocation
from attnspec.core.nouns import Novelty, Verdict
from attnspec.core.paths import write_whole
from attnspec.core.surroundings import SUBJECT_LIBRARIES
from attnspec.core.texts import count_noun
from attnspec.record.outcome import Explanation, Measured, Outcome, SubjectCard, refused_by
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.bugs import explain_bugs
from attnspec.report.comparison import BaselineComparison, compared_runs, is_gone
from attnspec.report.figures import (
    SIGNS,
    escape_text,
    format_code,
    format_figure,
    format_prose,
    format_row,
)
from attnspec.report.joined import JoinedRecords, JoinedRun, JudgedSubject, join_records
from attnspec.report.likely_cause import ExplainedFailures, LikelyCause
from attnspec.report.summary import summarise_runs

# what XML 1.0 cannot hold
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_JUNIT_COUNTS: Mapping[str, str] = {"failures": "failure", "errors": "error", "skipped": "skipped"}
_FAILURE, _ERROR, _SKIPPED = _JUNIT_COUNTS.values()
_JUNIT_ELEMENTS: Mapping[Verdict, str] = {
    Verdict.VIOLATED: _FAILURE, Verdict.UNEXPECTED: _FAILURE,
    Verdict.ERRORED: _ERROR, Verdict.CRASHED: _ERROR, Verdict.TIMED_OUT: _ERROR,
    Verdict.NOT_RUN: _ERROR,
    Verdict.EXPECTED: _SKIPPED, Verdict.NO_CLAIM: _SKIPPED, Verdict.INAPPLICABLE: _SKIPPED,
}


def write_junit(records: Sequence[RunRecord], path: Path) -> None:
    """Write the JUnit XML of one or several runs to `path`, making its folder."""
    write_whole(path, junit_text(records), "JUnit file")


def junit_text(records: Sequence[RunRecord]) -> str:
    """Writes the verdicts of one or several runs as one document, with a line end at its end."""
    joined = join_records(show_hidden(records))
    suites = [_suite_element(joined, subject) for subject in (*joined.subjects, *joined.faults)]
    suites += [_lost_run_suite(run) for run in joined.runs
               if run.record.is_interrupted or not run.record.finished_count]
    root = ElementTree.Element("testsuites", name="attnspec")
    root.extend(suites)
    for name in ("tests", "failures", "errors", "time"):  # Jenkins' schema knows no `skipped` here
        root.set(name, _sum_attribute(suites, name))
    ElementTree.indent(root, " ")
    document = ElementTree.tostring(root, encoding="unicode")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{document}\n"


def _sum_attribute(elements: Iterable[ElementTree.Element], name: str) -> str:
    return _number_without_exponent(sum(float(each.get(name, "0")) for each in elements))


def _suite_element(joined: JoinedRecords, subject: JudgedSubject) -> ElementTree.Element:
    """Makes the suite of a subject: a case for each item, and the subject's properties."""
    run = next(run for run in joined.runs if run.letter == subject.runs[0])
    says = {clause.id: clause.says for clause in joined.clauses}
    strict = run.record.header.strict
    outcomes = [*chain.from_iterable(joined.outcomes_of_subject(subject).values())]
    lost = _group_lost_items(outcomes, subject.broken_reason)
    cases = [_case_element(outcome, says[outcome.clause], strict=strict)
             for outcome in outcomes
             if outcome.verdict is not Verdict.NOT_RUN or outcome.reason not in lost]
    if subject.broken_reason:
        lost = {subject.broken_reason: 0, **lost}
    cases += [_lost_case(subject, reason, number) for reason, number in lost.items()]
    return _count_verdicts(subject.label, run, cases, _properties(subject, run, outcomes))


def _group_lost_items(outcomes: Iterable[Outcome], broken: str) -> dict[str, int]:
    """Counts the items that were not run, by reason. broken: the reason if the adapter is broken.
    Another reason is left out if it concerns one item alone, which then has an error of its own.
    """
    lost = Counter(outcome.reason for outcome in outcomes if outcome.verdict is Verdict.NOT_RUN)
    return {reason: number for reason, number in lost.items() if number > 1 or reason == broken}


def _lost_case(subject: JudgedSubject, reason: str, number: int) -> ElementTree.Element:
    """Makes one error for all items that were not run for the same reason."""
    name = "adapter" if reason == subject.broken_reason else "not run"
    how_many = f" ({count_noun(number, 'item')} not run)" if number else ""
    return _lost_case_element(subject.card.id, name, f"{reason}{how_many}")


def _properties(subject: JudgedSubject, run: JoinedRun,
                outcomes: Sequence[Outcome]) -> Mapping[str, str]:
    header, card = run.record.header, subject.card
    properties = {
        **_surroundings_of_subject(run, card), "library": card.distribution,
        "version": card.version, "held": _format_held_share(outcomes), "effort": header.effort,
        "seed": str(header.seed),
        "spec": f"{header.spec_version} {header.spec_digest[:12]}".strip(),
        "refuses": ", ".join(refused_by(card, outcomes)), "must_take": header.must_take,
        "sizes": ", ".join(dict.fromkeys((*header.sizes, *card.sizes)))}
    return {name: value for name, value in properties.items() if value}


def _format_held_share(outcomes: Sequence[Outcome]) -> str:
    """`62 of 62 applicable`; empty if nothing applies."""
    applicable = [outcome for outcome in outcomes if outcome.verdict is not Verdict.INAPPLICABLE]
    held = sum(outcome.verdict is Verdict.HELD for outcome in applicable)
    if applicable:
        return f"{held} of {len(applicable)} applicable"
    return ""


def _surroundings_of_subject(run: JoinedRun, card: SubjectCard) -> Mapping[str, str]:
    """Interpreter, NumPy, framework and device of a subject; the run's if it was never loaded."""
    environment = run.record.header.environment
    names = ("python", *SUBJECT_LIBRARIES)
    return card.lives_in or {name: environment[name] for name in names if name in environment}


def _lost_run_suite(run: JoinedRun) -> ElementTree.Element:
    """Makes a suite of one error for a run that was interrupted, or that judged nothing."""
    reason = "nothing was executed"
    if run.record.is_interrupted:
        reason = "the run was interrupted"
        if run.missing:
            reason += f": {count_noun(run.missing, 'item')} have no verdict"
    case = _lost_case_element("attnspec", f"run {run.letter}", reason)
    return _count_verdicts("attnspec", run, [case], {})


def _count_verdicts(
    name: str, run: JoinedRun, cases: Sequence[ElementTree.Element], properties: Mapping[str, str],
) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=_remove_control_characters(name),
                                tests=str(len(cases)))
    for attribute, tag in _JUNIT_COUNTS.items():
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", _sum_attribute(cases, "time"))
    suite.set("timestamp", run.record.header.started[:19])  # the schema knows no time zones
    if properties:
        element = ElementTree.SubElement(suite, "properties")
        for key, value in properties.items():
            ElementTree.SubElement(element, "property", name=key,
                                   value=_remove_control_characters(value))
    suite.extend(cases)
    return suite


def _case_element(outcome: Outcome, says: str, *, strict: bool) -> ElementTree.Element:
    case = _empty_case(outcome.subject, f"{outcome.clause}[{outcome.dtype.value}]",
                       outcome.seconds)
    if outcome.verdict in _JUNIT_ELEMENTS:
        tag, message = _element_of_verdict(outcome, strict=strict)
        element = ElementTree.SubElement(case, tag, message=_remove_control_characters(message),
                                         type=outcome.verdict.value)
        lines = _format_failure_lines(outcome, says)
        element.text = _remove_control_characters("\n".join(lines))
        if outcome.evidence and outcome.evidence.stderr:
            element = ElementTree.SubElement(case, "system-err")
            element.text = _remove_control_characters(outcome.evidence.stderr)
    return case


def _element_of_verdict(outcome: Outcome, *, strict: bool) -> tuple[str, str]:
    """The tag of the element and its message, which begins with the cause if it is no failure."""
    tag, word = _JUNIT_ELEMENTS[outcome.verdict], SIGNS[outcome.verdict].word
    evidence = outcome.evidence
    reason = outcome.reason or (evidence.sentence if evidence else "") or word
    if evidence and evidence.begins:
        reason = f"{evidence.begins} {reason}"
    if outcome.change:
        reason = f"{outcome.change.novelty.value}: {reason}"
    if outcome.is_excused:
        return _SKIPPED, f"{word}, but the list of known failures could not know it: {reason}"
    does_gate = outcome.does_gate(strict=strict) or outcome.verdict is Verdict.NOT_RUN
    if tag != _SKIPPED and not does_gate:
        return _SKIPPED, f"{word}, but a `{outcome.level.value}` clause only advises: {reason}"
    if tag == _FAILURE or outcome.verdict is Verdict.INAPPLICABLE:
        return tag, reason
    return tag, f"{word}: {reason}"


def _format_failure_lines(outcome: Outcome, says: str) -> Iterator[str]:
    """Yields the clause, what was seen, the case, and the command that repeats it."""
    yield f"{outcome.level.value}: {says or outcome.clause}"
    evidence = outcome.evidence
    if evidence is not None:
        explained = evidence.explained or Explanation("", "", "")
        yield from _format_facts(begins=evidence.begins, wrong=evidence.wrong,
                                 cause=explained.cause, do=explained.advice,
                                 paste=explained.declare)
        yield evidence.sentence
        like = ", ".join(f"{each.fault} ({each.story})" for each in evidence.like[:1])
        yield from _format_facts(case=evidence.case, margin=_format_margin(evidence.measured),
                                 like=like, where=evidence.located)
    if outcome.repeat:
        yield f"repeat it: {outcome.repeat}"
    if evidence is not None and evidence.traceback:
        yield f"\n{evidence.traceback}"


def _format_facts(**facts: str) -> Iterator[str]:
    for name, value in facts.items():
        if value:
            yield f"{name}: {value}"


def _format_margin(measured: Measured | None) -> str:
    if measured is None:
        return ""
    margin, gap, allowed = map(format_figure, (measured.margin, measured.gap, measured.allowance))
    return f"{margin} (gap {gap}, {allowed} allowed)"


def _lost_case_element(subject: str, name: str, message: str) -> ElementTree.Element:
    case = _empty_case(subject, name, 0.0)
    ElementTree.SubElement(case, _ERROR, message=_remove_control_characters(message),
                           type=Verdict.NOT_RUN.value)
    return case


def _empty_case(subject: str, name: str, seconds: float) -> ElementTree.Element:
    # readers group classes by what stands before the dots: so they group subjects by library
    classname = _remove_control_characters(subject.replace("/", "."))
    return ElementTree.Element("testcase", classname=classname,
                               name=_remove_control_characters(name),
                               time=_number_without_exponent(seconds))


def _number_without_exponent(number: float) -> str:
    """Writes a number without an exponent, which readers of JUnit XML do not understand."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def _remove_control_characters(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


_TALLIED_NOVELTIES = frozenset({Novelty.NEW.value, Novelty.MENDED.value, Novelty.CHANGED.value})
MOST_ANNOTATIONS = 10
"""How many annotations of a kind GitHub shows of one step, and how many causes the summary has."""


def step_summary(records: Sequence[RunRecord]) -> str:
    """Writes verdict, subjects and likely causes as Markdown, with a line end at its end."""
    joined = join_records(show_hidden(records))
    return "\n".join(_summary_lines(joined, strict=joined.is_strict)).rstrip("\n") + "\n"


def error_commands(records: Sequence[RunRecord],
                   place_of: Callable[[str], FileLocation | None]) -> list[str]:
    """Writes commands that GitHub turns into errors: one a likely cause, at most MOST_ANNOTATIONS.
    place_of: finds the `def` of a subject by its id.
    """
    joined = join_records(show_hidden(records))
    causes = islice(_causes_by_subject(joined, strict=joined.is_strict), MOST_ANNOTATIONS)
    return [_annotation(subject, cause, place_of(subject.card.id)) for subject, cause in causes]


def _summary_lines(joined: JoinedRecords, *, strict: bool) -> Iterator[str]:
    summary = summarise_runs(joined, strict=strict)
    yield from (f"## attention: {format_prose(summary.title)}", "")
    yield from (format_row(["implementation", "verdict", "clauses"]), format_row(["---"] * 3))
    for each in summary.standings:
        yield format_row([format_code(each.subject.label), escape_text(each.word),
                          escape_text(each.sentence)])
    for compared in compared_runs(joined):
        yield from ("", _format_baseline_summary(compared))
    causes = list(_causes_by_subject(joined, strict=strict))
    for subject, cause in causes[:MOST_ANNOTATIONS]:
        yield from _format_cause(subject, cause)
    more = len(causes) - MOST_ANNOTATIONS
    if more > 0:
        yield from ("", f"And {count_noun(more, 'cause')} more, in the record.")


def _format_baseline_summary(run: BaselineComparison) -> str:
    """`Held against `known.yaml`: 75 known failures as listed, 1 new, 0 mended, 2 changed.`"""
    tally = ", ".join(f"{number} {word}" for word, number in run.tally.items()
                      if number or word in _TALLIED_NOVELTIES)
    name, listed = format_code(Path(run.baseline).name), count_noun(run.items, "known failure")
    return f"Held against {name}: {listed} as listed, {tally}."


def _causes_by_subject(joined: JoinedRecords, *,
                       strict: bool) -> Iterator[tuple[JudgedSubject, ExplainedFailures]]:
    """Yields the causes of each subject's failures; an unexplained failure comes by itself. Then
    comes what is no failure, but not as a list of known failures says.
    """
    for subject in (*joined.subjects, *joined.faults):
        outcomes = chain.from_iterable(joined.outcomes_of_subject(subject).values())
        gating = [outcome for outcome in outcomes if outcome.does_gate(strict=strict)]
        for each in explain_bugs([outcome for outcome in gating if not is_gone(outcome)]):
            if each.cause:
                yield subject, each
                continue
            for failure in each.failures:
                yield subject, ExplainedFailures(None, (failure,))
        gone = sorted(filter(is_gone, gating), key=_sentence_of_change)
        for says, group in groupby(gone, key=_sentence_of_change):
            yield subject, ExplainedFailures(LikelyCause(says), tuple(group))


def _sentence_of_change(outcome: Outcome) -> str:
    return outcome.change.says if outcome.change else ""


def _format_cause(subject: JudgedSubject, cause: ExplainedFailures) -> Iterator[str]:
    first = cause.failures[0]
    yield from ("", f"### {format_prose(_headline(cause))}", "",
                f"{format_code(subject.label)}: {format_prose(_format_clauses(cause))}")
    if seen := _format_seen(first):
        yield from ("", format_prose(seen))
    if first.repeat:
        yield from ("", f"Repeat it: {format_code(first.repeat)}")


def _annotation(subject: JudgedSubject, cause: ExplainedFailures,
                place: FileLocation | None) -> str:
    """`::error file=…,line=…,title=…::message`, a workflow command (docs.github.com/actions)."""
    properties = {"file": place.file, "line": str(place.line)} if place else {}
    properties["title"] = f"{subject.card.id}: {_headline(cause)}"
    pairs = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    first = cause.failures[0]
    lines = [_format_clauses(cause), _format_seen(first)]
    if first.repeat:
        lines.append(f"repeat it: {first.repeat}")
    message = "\n".join(filter(None, lines))
    return f"::error {pairs}::{_escape_data(message)}"


def _headline(cause: ExplainedFailures) -> str:
    """`each query sees one later key (`causal_off_by_one`)`, or else the clause and its verdict."""
    first = cause.failures[0]
    if cause.cause:
        return str(cause.cause)
    return f"{first.clause} is {SIGNS[first.verdict].word}"


def _format_clauses(cause: ExplainedFailures) -> str:
    """`causal.alignment (float32) and 18 failures more`."""
    first, more = cause.failures[0], len(cause.failures) - 1
    others = f" and {count_noun(more, 'failure')} more" if more else ""
    return f"{first.clause} ({first.dtype.value}){others}"


def _format_seen(outcome: Outcome) -> str:
    if outcome.evidence:
        return outcome.evidence.sentence
    return outcome.reason


def _escape_data(text: str) -> str:
    """Writes a message as a workflow command takes it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Writes a property as a workflow command takes it."""
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
