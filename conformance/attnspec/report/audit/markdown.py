"""Writes an audit as a page of Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from attnspec.core.keywords import list_defaults
from attnspec.core.paths import write_whole
from attnspec.record.outcome import Outcome
from attnspec.record.read import RunRecord, show_hidden
from attnspec.report.audit.conventions import ConventionAnswer, Conventions, SwitchDifference, Switches
from attnspec.report.audit.explained import AuditFinding, Concern
from attnspec.report.audit.table import GradientLine, LibraryTable, Nearness, SubjectLine
from attnspec.report.audit.view import Audit, is_audit, make_audit
from attnspec.report.figures import (
    escape_text,
    fence_code,
    format_code,
    format_figure,
    format_link,
    format_moment,
    format_prose,
    format_row,
    name_thread,
    web_address,
    word_for_reader,
)
from attnspec.report.joined import JoinedRecords, join_records

Lines = Iterable[str]


def write_audit_text(records: Sequence[RunRecord], path: Path) -> None:
    """Write the audit of one or several records to `path`, making its folder."""
    write_whole(path, audit_text(records), "audit")


def audit_text(records: Sequence[RunRecord]) -> str:
    """Writes in Markdown what was found, library by library, with a line end at its end."""
    joined = join_records(show_hidden(records))
    audit = make_audit(joined)
    lines = chain(_format_audit_head(audit, joined), _format_audit_table(audit),
                  _format_convention_table(audit), _format_gradients(audit),
                  _format_findings(audit), _format_all_switches(audit),
                  _format_missing_subjects(audit))
    return "\n".join(lines).rstrip("\n") + "\n"


def _format_audit_head(audit: Audit, joined: JoinedRecords) -> Lines:
    yield _format_audit_title(joined)
    yield ""
    yield f"{escape_text(audit.headline)}: {escape_text(audit.sentence)}"
    devices = f", on {', '.join(joined.devices)}" if joined.devices else ""
    for run in joined.runs:
        header = run.record.header
        spec = f"{escape_text(header.spec_version)} ({format_code(header.spec_digest[:12])})"
        yield (f"Spec {spec}, effort {escape_text(header.effort)}, seed {header.seed}, "
               f"{escape_text(format_moment(header.started))}{escape_text(devices)}.")
    yield ""
    yield ("This page is generated from the record, like the HTML page, which can be searched "
           "([how to read it](reading-a-report.md#the-audit)). Each finding is shown once, for all "
           "clauses and dtypes that fail because of it. Its script exits with 1 if the finding "
           "holds, and with 0 if it does not.")
    yield ""


def _format_audit_title(joined: JoinedRecords) -> str:
    """Names the subjects if they are few; more are an audit."""
    if is_audit(joined):
        return "# What attention layers really do: an audit"
    names = ", ".join(format_code(subject.card.id) for subject in joined.subjects)
    return f"# {names}: what was found"


def _format_audit_table(audit: Audit) -> Lines:
    yield "## The table"
    yield ""
    yield ("The most harmful results come first. The columns count clauses. Held: of those that "
           "apply. Must, should, may: violated, by level. By choice: violated only because of what "
           "the library documents. Known: failures that the manifest lists. Inapplicable: they do "
           "not apply. Undecided: no verdict.")
    for shelf in audit.shelves:
        yield from ("", f"### {escape_text(shelf.library)}", "")
        if source := _format_library_source(shelf):
            yield from (source, "")
        yield from _format_rows(("implementation", "verdict", "held", "must", "should", "may",
                                 "by choice", "known", "inapplicable", "undecided",
                                 "closest that holds", "grade"),
                                map(_format_cells, shelf.lines))
    yield ""


def _format_library_source(shelf: LibraryTable) -> str:
    card = shelf.card
    parts = [format_link(name, url)
             for name, url in (("home", card.homepage), ("issues", card.issues))
             if web_address(url)]
    if card.install:
        parts.append(format_code(card.install))
    return ", ".join(parts)


def _format_cells(line: SubjectLine) -> Sequence[str]:
    counts = line.counts
    numbers = (counts.must, counts.should, counts.may, counts.chosen, counts.known + counts.odd,
               counts.inapplicable, counts.undecided)
    grades = escape_text(", ".join(f"{dtype} {grade}" for dtype, grade in line.grades))
    name = f"{format_code(line.subject.card.id)} {escape_text(line.subject.card.title)}"
    return (name, escape_text(line.verdict), counts.share, *map(str, numbers),
            _format_closest_call(line.closest), grades)


def _format_closest_call(call: Nearness | None) -> str:
    if call:
        return f"{format_figure(call.margin)} ({call.dtype} {format_code(call.clause)})"
    return "–"


def _format_convention_table(audit: Audit) -> Lines:
    yield "## Conventions"
    yield ""
    yield ("What each implementation does where libraries differ, as a probe found it. *Italic*: "
           "declared, not probed. ✗: the manifest says otherwise.")
    yield ""
    titles = [column.title for _, column in audit.habits.columns]
    yield from _format_rows(("implementation", *titles),
                            (_format_convention(each, audit) for each in audit.habits.customs))
    yield ""
    for each in audit.habits.customs:
        if notes := _format_notes(each):
            yield f"- {format_code(each.subject.card.id)}: {notes}"
    yield ""


def _format_notes(each: Conventions) -> str:
    """Lists a manifest's note, refusals, parameters at their defaults, and documented choices."""
    card = each.subject.card
    parts = [card.note]
    if card.refused:
        parts.append(f"Refuses {'; '.join(card.refused)}.")
    if card.defaults:
        parts.append(f"Left at their defaults: {list_defaults(card.defaults)}.")
    parts += [f"Documented choice: {choice.says} {choice.documented}" for choice in each.choices]
    return format_prose(" ".join(filter(None, parts)))


def _format_convention(each: Conventions, audit: Audit) -> Sequence[str]:
    cells = ["; ".join(map(_format_answer, each.cells[place]))
             for place, _ in audit.habits.columns]
    return format_code(each.subject.card.id), *cells


def _format_answer(answer: ConventionAnswer) -> str:
    text = _answer_text(answer.answer)
    if not answer.is_probed:
        text = f"*{text}*"
    if answer.forms:
        text += f" ({escape_text(', '.join(answer.forms))})"
    for dtypes, other in answer.other_answers:
        text += f", {dtypes}: {_answer_text(other)}"
    if answer.is_contradiction:
        text += f" ✗ declared: {_answer_text(answer.claimed_answer)}"
    return text


def _answer_text(answer: str) -> str:
    return escape_text(word_for_reader(answer))


def _format_gradients(audit: Audit) -> Lines:
    if audit.gradients is None:
        return
    yield "## Gradients"
    yield ""
    yield ("Of each implementation whose backward pass was judged. Held: of the clauses about "
           "gradients that apply. Rounds: where the backward pass rounds, as declared; what is not "
           "declared follows from the forward pass ([the classes](gradients.md#what-is-declared)). "
           "Closest that holds: the largest share of its bound that a gradient used, by dtype. "
           "Hidden row: what a query for which every key is masked gets (its own), and the other "
           "queries beside it (others); nothing is claimed of its own unless its output is zeros. "
           "Hidden key: what a masked key gets.")
    yield ""
    yield from _format_rows(("implementation", "held", "rounds", "closest that holds",
                             "hidden row", "hidden key", "with respect to", "not judged"),
                            map(_format_gradient, audit.gradients.lines))
    yield ""
    for heading, unjudged in audit.gradients.unjudged_by_heading:
        yield from (f"{heading}:", "")
        for each in unjudged:
            yield f"- {format_prose(each.reason)}: {', '.join(map(format_code, each.labels))}"
        yield ""


def _format_gradient(line: GradientLine) -> Sequence[str]:
    names = ", ".join(format_code(clause.id) for clause in line.broken_clauses)
    broken = f", not {names}" if names else ""
    rounds = escape_text("; ".join(f"{dtype} {where}" for dtype, where in line.rounds)) or "–"
    answers = ("; ".join(map(_format_answer, each)) for each in (line.row, line.key))
    ungiven = ", ".join(name for names in line.ungiven.values() for name in names)
    return (format_code(line.subject.card.id), f"{line.held_share}{broken}", rounds,
            ", ".join(map(_format_closest_call, line.closest)), *answers,
            escape_text(", ".join(line.given_arrays)), escape_text(ungiven))


def _format_findings(audit: Audit) -> Lines:
    yield "## What was found, library by library"
    libraries: dict[str, list[str]] = {}
    for shelf in audit.shelves:
        libraries.setdefault(shelf.lines[0].subject.library, []).append(shelf.library)
    for folder, names in libraries.items():
        findings = [finding for finding in audit.all_findings if folder in finding.folders]
        if findings:
            yield from ("", f"### Findings in {escape_text(', '.join(names))}")
        for finding in findings:
            yield from _format_finding(finding)
    yield ""


def _format_finding(finding: AuditFinding) -> Lines:
    yield ""
    yield f"#### {'Not yet explained: ' if finding.is_open else ''}{format_prose(finding.says)}"
    yield ""
    yield from (f"- {name}: {text}" for name, text in _format_finding_facts(finding) if text)
    if finding.known_finding and finding.known_finding.script:
        yield from ("", *fence_code(finding.known_finding.script, finding.known_finding.language))


def _format_finding_facts(finding: AuditFinding) -> Iterator[tuple[str, str]]:
    yield "Versions", ", ".join(map(escape_text, finding.libraries))
    if known := finding.known_finding:
        yield "Harm", escape_text(finding.harm.says) if finding.harm else ""
        yield "Documented", format_prose(known.documented)
        if web_address(known.issue):
            yield "Thread", format_link(name_thread(known.issue), known.issue)
    if finding.shown_outcome is None:
        yield "Found by", "found by probing or reading; no clause fails because of it"
    else:
        yield from _format_shown_case(finding.shown_outcome)
        yield "Complaining", "; ".join(map(_format_concern, finding.concerns))


def _format_shown_case(shown: Outcome) -> Iterator[tuple[str, str]]:
    clause, subject = format_code(shown.clause), format_code(shown.subject)
    yield "Strictest clause", f"{clause} ({shown.level.value}) of {subject} at {shown.dtype.value}"
    evidence = shown.evidence
    if evidence:
        yield "Begins", escape_text(evidence.begins)
        yield "Wrong", escape_text(evidence.wrong)
    if evidence and (explained := evidence.explained):
        yield "Cause", escape_text(f"{explained.cause}. {explained.advice}".strip())
        if explained.declare:
            yield "Paste", format_code(explained.declare)
    yield "Seen", escape_text((evidence.sentence if evidence else "") or shown.reason)
    if evidence and evidence.case:
        yield "Case", format_code(evidence.case)
    if evidence and evidence.measured:
        yield "Margin", format_figure(evidence.measured.margin)
    if shown.repeat:
        yield "Repeat it", format_code(shown.repeat)


def _format_concern(concern: Concern) -> str:
    subjects = ", ".join(format_code(subject.card.id) for subject in concern.subjects)
    clauses = ", ".join(f"{format_code(complaint.clause.id)} {complaint.dtypes}"
                        for complaint in concern.complaints)
    return f"{subjects} under {clauses}" if clauses else subjects


def _format_all_switches(audit: Audit) -> Lines:
    if not audit.habits.switches:
        return
    yield "## Switches"
    yield ""
    yield ("The same inputs with one switch changed. The table lists where the answers differ, with "
           "both answers.")
    quiet = []
    for each in audit.habits.switches:
        if each.flips:
            yield from _format_switches(each)
        else:
            quiet.append(format_code(each.subject.card.id))
    if quiet:
        yield from ("", f"No switch makes a difference: {', '.join(quiet)}.")
    yield ""


def _format_switches(each: Switches) -> Lines:
    yield from ("", f"### Switches of {format_code(each.subject.card.id)}", "")
    yield from _format_rows(("switch", "question", "as it is", "flipped", "at", "manifest"),
                            map(_format_flip, each.flips))
    if each.quiet:
        yield from ("", f"No difference: {', '.join(map(escape_text, each.quiet))}.")


def _format_flip(flip: SwitchDifference) -> Sequence[str]:
    cells = (word_for_reader(flip.variant), flip.question_text, word_for_reader(flip.plain),
             word_for_reader(flip.flipped_answer), flip.dtypes, flip.manifest_word.value)
    return tuple(map(escape_text, cells))


def _format_missing_subjects(audit: Audit) -> Lines:
    if audit.absent:
        yield from ("## What could not run", "")
    for each in audit.absent:
        names = ", ".join(filter(None, map(escape_text, (each.library, each.title))))
        yield f"- {format_code(each.subject)} ({names}): {format_prose(each.reason)}"


def _format_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    yield format_row([*heads])
    yield f"|{'---|' * len(heads)}"
    yield from (format_row([*cells]) for cells in rows)
