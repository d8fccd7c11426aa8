"""Says what a run comes to: its first and last line, a line for each subject, and the summary."""

from __future__ import annotations

import enum
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TextIO

import click

from attnspec.cli import findings
from attnspec.cli.baseline import format_gone, held_against
from attnspec.cli.digest import (
    UNDECIDED_VERDICTS,
    Digest,
    format_applicable,
    name_few,
    name_probed,
    name_subject_if_several,
)
from attnspec.cli.findings import format_lacking, kept_away
from attnspec.core.effort import explain_left_out, is_cut_short, is_left_out
from attnspec.core.errors import CANNOT_RUN, CONFORMS, VIOLATED
from attnspec.core.keyword import APART, GRAD
from attnspec.core.keywords import list_defaults, meant_by
from attnspec.core.nouns import DType, Verdict, is_bare
from attnspec.core.plan import NOT_AT_FLOAT64
from attnspec.core.texts import count_noun
from attnspec.record.events import Event, Handler
from attnspec.record.outcome import Outcome, SubjectCard, refused_by
from attnspec.report.bugs import (
    explain_bugs,
    is_place,
    likely_group,
    likely_in_short,
    likely_words,
    unexplained_failures,
)
from attnspec.report.comparison import describe_exceptions
from attnspec.report.coverage import coverage_at_sizes, measure_coverage
from attnspec.report.likely_cause import LikelyCause, other_conventions
from attnspec.runner.jobs import is_idle

_Words = Callable[[Sequence[Outcome]], str]  # writes the likely cause of failures
_COLOURS = {CONFORMS: "green", VIOLATED: "red", CANNOT_RUN: "yellow"}
MOST_CAUSES = 2  # of several subjects, in the first line and the last
_NAMES_WIDTH = 60  # characters of a list of subjects
_PARAMETERS_WIDTH = 40  # characters of a list of parameters


def format_verdict(digest: Digest) -> str:
    """Says what the run comes to, and why, in colour and without the exit code."""
    text = _format_verdict_of_run(digest, _words_for(digest, likely_words))
    return click.style(text, fg=_COLOURS[_code(digest)], bold=True)


def format_conclusion(digest: Digest, *, are_files_written: bool = True) -> str:
    """The last line: the conclusion in short, with the exit code.

    are_files_written: whether all files could be written.
    """
    text, code = _format_verdict_of_run(digest, _words_for(digest, likely_in_short)), _code(digest)
    if not are_files_written:
        text, code = f"{text} But not all of it could be written.", CANNOT_RUN
    return click.style(f"{text} (exit code {code})", fg=_COLOURS[code], bold=True)


def format_standing(digest: Digest) -> str:
    """Says how one of several subjects did, behind its name."""
    [subject] = digest.subjects
    if digest.failures:
        why = _format_reason_of_run(digest, _words_for(digest, likely_words))
        return click.style(f"does not conform{why}", fg="red")
    if digest.contradictions:
        return click.style(_format_baseline_line(digest), fg="red")
    if not_as_listed := format_gone(digest):
        return click.style(f"not as listed: {not_as_listed}", fg="red")
    if is_idle(digest.outcomes):
        return click.style(f"was not judged: {_explain_nothing_run(digest)}", fg="yellow")
    if any(outcome.verdict is Verdict.NOT_RUN for outcome in digest.outcomes):
        standing = click.style("was judged in part", fg="yellow")
    else:
        parts = [f"conforms{_format_qualifications(digest)}", *_unrecommended_conventions(digest)]
        standing = click.style("; ".join(parts), fg="green")
    return f"{standing} ({format_applicable(digest.counts[subject])})"


def format_so_far(digest: Digest) -> str:
    """Counts the failures of a subject that is being judged: `12 failures so far. Likely: …`;
    empty if none.
    """
    if not digest.failures:
        return ""
    counted = f"{count_noun(len(digest.failures), 'failure')} so far"
    group = likely_group(digest.failures)
    if group and group.cause:
        return f"{counted}. {_format_cause(digest, group.cause)}"
    return counted


def failure_line(digest: Digest, outcome: Outcome) -> str:
    """Says what fails first, and its likely cause, while the run goes on. It leaves out where a
    fault shows: a later failure may be at smaller sizes.
    """
    whose = f"{outcome.subject}, {outcome.dtype.value}"
    line = f"First failure: {outcome.clause} ({whose}) {_FAILURE_VERBS[outcome.verdict]}."
    group = likely_group([outcome])
    if group and group.cause:
        line += f" {_format_cause(digest, replace(group.cause, where=''))}."
    return line


def _format_cause(digest: Digest, cause: LikelyCause) -> str:
    """`Likely: the mask is ignored`, or `It fails at S = 5` if causes were not looked for."""
    if is_place(cause) and digest.is_glance:
        return f"It {cause}"
    return f"Likely: {cause}"


_FAILURE_VERBS = {Verdict.VIOLATED: "is violated", Verdict.ERRORED: "ends in an exception",
                  Verdict.CRASHED: "ends in a crash",
                  Verdict.TIMED_OUT: "gives no answer in time",
                  Verdict.UNEXPECTED: "is not as listed"}


def format_remedy(digest: Digest) -> Iterator[str]:
    """Says how to mend the likely cause, or how to declare it, if that is known."""
    found = likely_group(digest.failures)
    cause = found.cause if found else None
    if cause and cause.advice:
        yield f"  {cause.advice}{', or declare it:' if cause.declare else '.'}"
    if cause and cause.declare:
        yield from (f"  {line}" for line in cause.declare.splitlines())


def format_undiagnosed(digest: Digest) -> Iterator[str]:
    """Says that causes were not looked for, if failures have none for that reason."""
    is_open = any(group.cause is None or is_place(group.cause)
                  for group in explain_bugs(digest.failures))
    if digest.is_glance and is_open:
        yield "  Effort glance does not look for causes. To see them, use --effort quick or run a replay line."


def format_unpromised(digest: Digest) -> Iterator[str]:
    """Says of what conforms that refusals are no failures, and that gradients were left out."""
    if _code(digest) != CONFORMS:
        return
    if "refuses" in _format_refusals(digest):
        yield "  What it refuses was not judged, and is no failure (--must-take WORDS makes it one)."
    if {outcome.reason for outcome in digest.outcomes} & {APART.format(subject)
                                                          for subject in digest.subjects}:
        yield "  Gradients were not judged (--profile +gradients judges them)."


def _code(digest: Digest) -> int:
    footer = digest.footer
    if footer and not footer.interrupted:
        return footer.exit_code
    return CANNOT_RUN


def _words_for(digest: Digest, tell: Callable[..., str]) -> _Words:
    """The words for causes: those of a run that looked for them, or of a run at a glance."""
    return partial(tell, is_sought=not digest.is_glance)


def _format_verdict_of_run(digest: Digest, words: _Words) -> str:
    if digest.footer is None or digest.footer.interrupted:
        count = count_noun(len(digest.failures), "failure") if digest.failures else "no failure"
        cause = _format_likely_cause(digest, _failing_subjects(digest), words)
        return f"Interrupted with {count} so far; the rest was not run.{cause}"
    if _code(digest) == VIOLATED and not (digest.failures or digest.contradictions):
        return f"Not as listed: {format_gone(digest)}."
    if _code(digest) == VIOLATED:
        return f"Does not conform{_format_why_not(digest, words)}"
    if _code(digest) == CONFORMS:
        conventions = "".join(f" {each[:1].upper()}{each[1:]}."
                              for each in _unrecommended_conventions(digest))
        evidence = f"{_format_little_evidence(digest)}{_format_cut_short(digest)}"
        return f"Conforms{evidence}{_format_qualifications(digest)}.{conventions}"
    if not is_idle(digest.outcomes):
        return "Not everything was run."
    reason = _explain_nothing_run(digest) if len(digest.subjects) == 1 else ""
    return f"Nothing was executed: {reason}" if reason else "Nothing was executed, so nothing is known."


def _failing_subjects(digest: Digest) -> list[str]:
    return [subject for subject in digest.subjects if digest.digest_of(subject).failures]


def _format_why_not(digest: Digest, words: _Words) -> str:
    """Says why the run does not conform: the likely cause, or which of several subjects fail."""
    failing = _failing_subjects(digest)
    if len(digest.subjects) == 1 and failing:
        return f"{_format_reason_of_run(digest, words)}."
    parts = []
    if failing:
        subjects = count_noun(len(digest.subjects), "subject")
        parts.append(f"{len(failing)} of {subjects} ({name_few(failing, _NAMES_WIDTH)})")
    if against := digest.contradictions:
        names = list(dict.fromkeys(probe.subject for probe, _ in against))
        parts.append(f"{_format_baseline_line(digest)} ({name_few(names, _NAMES_WIDTH)})")
    return f": {'; '.join(parts)}.{_format_likely_cause(digest, failing, words)}"


def _format_likely_cause(digest: Digest, failing: Sequence[str], words: _Words) -> str:
    """A sentence with the likely cause, or the commonest causes of several subjects. It is empty
    if no cause is known.
    """
    if len(failing) == 1:
        cause = words(digest.digest_of(failing[0]).failures)
    else:
        cause = _format_common_causes(digest, failing)
    return f" {cause}." if cause else ""


def _format_common_causes(digest: Digest, failing: Sequence[str]) -> str:
    """`Likely: it rounds (mine:f); the mask is ignored (mine:g)`: the two commonest causes."""
    subjects: dict[str, list[str]] = {}
    for subject in failing:
        group = likely_group(digest.digest_of(subject).failures)
        if group and not (group.cause and is_place(group.cause) and digest.is_glance):
            subjects.setdefault(str(group.cause), []).append(subject)
    often = sorted(subjects.items(), key=lambda item: -len(item[1]))[:MOST_CAUSES]
    causes = [f"{cause} ({name_few(names, _NAMES_WIDTH)})" for cause, names in often]
    return f"Likely: {'; '.join(causes)}" if causes else ""


def _format_reason_of_run(digest: Digest, words: _Words) -> str:
    """Writes what follows "does not conform": `. Likely one bug: the mask is ignored`."""
    failures, refusals = digest.failures, _format_refusals(digest)
    if broken := digest.broken_contract:
        cause = words(failures) if len(broken) < len(failures) else ""
        return f"{refusals}: it must take {', '.join(broken)}{f'. {cause}' if cause else ''}"
    if cause := words(failures):
        return f"{_arithmetic(digest)}{refusals}. {cause}"
    text = f"{refusals}: {count_noun(len(failures), 'failure')}"
    if digest.is_glance:
        return text
    unknown = len(unexplained_failures(failures))
    which = "which" if unknown == len(failures) else f"{unknown} of which"
    return f"{text}, {which} no known fault explains"


def _arithmetic(digest: Digest) -> str:
    """` to float32 arithmetic`, if a wider arithmetic would allow all failures."""
    group = likely_group(digest.failures)
    if group is None or group.cause is None or len(group.failures) < len(digest.failures):
        return ""
    if "precision" not in group.cause.declare:
        return ""
    if group.cause.is_choice:
        return " as it is declared"
    dtypes = dict.fromkeys(failure.dtype.value for failure in group.failures)
    return f" to {' and '.join(dtypes)} arithmetic"


def _format_refusals(digest: Digest) -> str:
    """`; refuses grouped heads (Hkv < H); block was never tried`, of a single subject. A parameter
    that attnspec has no value for is not tried: what it does is unknown.
    """
    if len(digest.subjects) != 1:
        return ""
    cards = [known.card for known in digest.cards.values()]
    refused = refused_by(cards[0] if cards else None, digest.outcomes)
    untried = sorted((name for card in cards for name in card.defaults),
                     key=lambda name: not meant_by(name))
    text = f"; refuses {', '.join(refused)}" if refused else ""
    if untried:
        was = "was" if len(untried) == 1 else "were"
        text += f"; {name_few(untried, _PARAMETERS_WIDTH)} {was} never tried"
    return text


def _format_qualifications(digest: Digest) -> str:
    """Says behind "conforms" what was declared, was not judged, or does not count."""
    exceptions = describe_exceptions(digest.outcomes, [each.id for each in digest.choices])
    return (f"{_format_declared_width(digest)}{_format_what_passes(digest)}"
            f"{_format_refusals(digest)}{exceptions}")


def _unrecommended_conventions(digest: Digest) -> Sequence[str]:
    """What a single subject does otherwise than recommended, as clauses. A function that tiles its
    key/value heads by mistake does what a library does on purpose; only its author knows.
    """
    if len(digest.subjects) != 1:
        return ()
    card = next((known.card for known in digest.cards.values()), None)
    return other_conventions(digest.advice, card)


def _format_declared_width(digest: Digest) -> str:
    """The arithmetic of a single subject, if it is declared wider than is assumed."""
    if len(digest.cards) != 1:
        return ""
    [(subject, known)] = digest.cards.items()
    return declared_width(subject, known.card, (outcome.dtype for outcome in digest.outcomes))


def _format_what_passes(digest: Digest) -> str:
    """How large an error passes for a single subject that quantises inside."""
    if len(digest.cards) != 1:
        return ""
    [known] = digest.cards.values()
    return f"; {known.card.passing_error}" if known.card.passing_error else ""


def _format_little_evidence(digest: Digest) -> str:
    """Says that a single subject refuses more than half of the clauses."""
    if len(digest.subjects) != 1:
        return ""
    away, clauses = kept_away(digest)
    if 2 * away > clauses:
        return f", on {clauses - away} of {clauses} clauses"
    return ""


def _format_cut_short(digest: Digest) -> str:
    """Says how much of a compiled subject was tried on few cases or none."""
    short = [outcome for outcome in digest.outcomes if is_cut_short(outcome.reason)]
    left = [outcome for outcome in digest.outcomes if is_left_out(outcome.reason)]
    if len(digest.subjects) != 1 or not (short or left):
        return ""
    put = sum(outcome.verdict not in UNDECIDED_VERDICTS for outcome in digest.outcomes)
    some = f", {len(short)} of them with fewer cases" if short else ""
    why = explain_left_out((left or short)[0].reason)
    return f", on {put} of {count_noun(put + len(left), 'item')}{some}: {why} (--effort thorough puts all)"


def _format_baseline_line(digest: Digest) -> str:
    return f"{count_noun(len(digest.contradictions), 'answer')} against the manifest"


def _explain_nothing_run(digest: Digest) -> str:
    """A sentence about why nothing was executed, if there is one reason for all of it."""
    reasons = {outcome.reason for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN}
    if len(reasons) > 1:
        return ""
    reason = reasons.pop() if reasons else format_lacking(digest.outcomes)
    if not reason or reason.endswith((".", "?")):
        return reason
    return f"{reason}."


BUGS_IN_FULL = 3
SUMMARY_LINES = 34  # rows on the screen; with what comes before the summary, a run takes at most 40
DEFAULT_WIDTH = 80  # characters of a row, if the reader's terminal does not tell
MOST_CHANGES = 12  # against a baseline
MOST_LISTED = 20  # answers against a manifest, and lost probes


class Detail(enum.Enum):
    """How much the summary tells: what fits a screen, or everything."""

    SHORT = "short"
    FULL = "full"


class Verdicts(Handler):
    """A handler that prints the summary when the run is over. places: lines that say where record
    and page are.  are_files_written: says, then, whether all files could be written.
    """

    def __init__(self, stream: TextIO, *, is_coloured: bool, places: Sequence[str] = (),
                 detail: Detail = Detail.SHORT,
                 are_files_written: Callable[[], bool] = lambda: True) -> None:
        self._stream, self._is_coloured = stream, is_coloured
        self._places, self._detail, self._are_files_written = places, detail, are_files_written
        self._digest = Digest()

    def handle(self, event: Event) -> None:
        """Adds up the events."""
        self._digest.add(event)

    def shutdown(self) -> None:
        """Prints the summary, also of an interrupted run."""
        if self._digest.footer is None:
            return
        width = shutil.get_terminal_size().columns if self._stream.isatty() else DEFAULT_WIDTH
        *lines, last = format_summary(self._digest, self._places, self._detail, width)
        if not self._are_files_written():
            last = format_conclusion(self._digest, are_files_written=False)
        for line in (*lines, last):
            click.echo(line, file=self._stream, color=self._is_coloured)


def format_summary(digest: Digest, places: Sequence[str], detail: Detail = Detail.SHORT,
                   width: int = DEFAULT_WIDTH) -> list[str]:
    """The lines of the summary; in short, with as many bugs in full as fit the screen."""
    if detail is Detail.FULL:
        return [*_format_head(digest), *findings.list_all_failures(digest),
                *_contradictions(digest),
                *_paragraph(findings.format_all_undecided(digest)),
                *_paragraph(held_against(digest)), "", *places,
                format_conclusion(digest)]
    bugs = findings.rank_bugs(digest)
    for shown in range(min(BUGS_IN_FULL, len(bugs)), 1, -1):
        draft = _draft(digest, bugs, shown, places)
        if _count_rows(draft, width) <= SUMMARY_LINES:
            return draft
    return _draft(digest, bugs, 1, places)


def _draft(digest: Digest, bugs: Sequence[findings.Bug], shown: int,
           places: Sequence[str]) -> list[str]:
    in_full = [line for bug in bugs[:shown] for line in findings.format_bug(digest, bug)]
    return [*_format_head(digest), *in_full, *_contradictions(digest),
            *_paragraph(findings.format_not_run(digest)), *([""] if in_full else []),
            *findings.name_other_bugs(digest, bugs[shown:]),
            *findings.format_recommendations(digest), *findings.format_undecided(digest),
            *_paragraph(held_against(digest, MOST_CHANGES)), *places, format_conclusion(digest)]


def _count_rows(lines: Sequence[str], width: int) -> int:
    return sum(max(1, math.ceil(len(click.unstyle(line)) / width)) for line in lines)


def _format_head(digest: Digest) -> Iterator[str]:
    yield ""
    yield format_verdict(digest)
    yield from format_undiagnosed(digest)
    yield from format_unpromised(digest)
    for choice in digest.choices:
        yield f"  Documented choice {choice.id}: {choice.says} {choice.documented}"
    if len(digest.subjects) == 1:
        yield from format_remedy(digest)
        for subject, counts in digest.counts.items():
            yield f"{subject}: {format_applicable(counts)}"
    else:
        width = max(map(len, digest.subjects), default=0)
        for subject in digest.subjects:
            yield f"{subject:<{width}}  {format_standing(digest.digest_of(subject))}"
    yield from format_tried_sizes(digest)
    if digest.header and digest.header.must_take and not digest.broken_contract:
        yield f"must take: {digest.header.must_take}"
    for subject, known in digest.cards.items():
        if defaults := list_defaults(known.card.defaults):
            where = name_subject_if_several(subject, digest.subjects)
            yield f"left at their defaults{where}: {defaults}"


def _paragraph(lines: Iterable[str]) -> list[str]:
    """The lines after an empty line; nothing if there are none."""
    paragraph = list(lines)
    return ["", *paragraph] if paragraph else []


def _contradictions(digest: Digest) -> Iterator[str]:
    """Yields the answers that contradict a manifest, and the probes that were lost."""
    against, lost = digest.contradictions, [probe for probe in digest.probes if probe.lost]
    if against:
        yield ""
        yield "Answers against the manifest:"
        yield from (f"  {name_probed(probe)}: {found.question} {found.answer}, not {found.claimed}"
                    for probe, found in against[:MOST_LISTED])
        if len(against) > MOST_LISTED:
            yield f"  and {count_noun(len(against) - MOST_LISTED, 'answer')} more, in the record"
    if lost:
        yield ""
        yield from (f"Not probed: {name_probed(probe)}: {probe.lost}"
                    for probe in lost[:MOST_LISTED])


_MACHINE_WORD = "flushes_subnormals"
"""Not the function's own: a framework may treat subnormal numbers as 0 on this machine."""


def declared_width(subject: str, card: SubjectCard | None, judged: Iterable[DType]) -> str:
    """`, in float16 throughout` or `, with exp_ulps 940 at float16`; empty if not declared. What a
    manifest declares is documented by its library, and is not repeated here.
    """
    if card is None or not is_bare(subject):
        return ""
    dtypes = set(judged)
    widths = (_describe_looseness(DType(name), text)
              for name, text in card.precision.items() if DType(name) in dtypes)
    return "".join(f", {words}" for words in dict.fromkeys(widths) if words)


def _describe_looseness(dtype: DType, text: str) -> str:
    """Says what is wider in a precision class than is assumed. text: its name in a record."""
    from attnspec.numerics.precision import assumed_precision, looser_words, named_precision  # noqa: PLC0415  (weight: NumPy)

    precision = named_precision(text, dtype)
    looser = [word for word in looser_words(precision, assumed_precision(dtype))
              if word != _MACHINE_WORD]
    if not looser:
        return ""
    if precision.softmax is precision.logits is precision.weights and "softmax" in looser:
        return f"in {precision.softmax.value} throughout"
    words = (f"{word} {_format_width(getattr(precision, word))}" for word in looser)
    return f"with {' and '.join(words)} at {dtype.value}"


def _format_width(value: object) -> str:
    """Writes a dtype, a format of codes or a number as it is declared."""
    if isinstance(value, DType):
        return value.value
    if isinstance(value, float | int):
        return f"{value:g}"
    return str(value)


FEW_SUBJECTS = 3
"""Of more subjects, the sizes are not told."""


def format_tried_sizes(digest: Digest) -> Iterator[str]:
    """Says which sizes were tried of a few subjects, and how many cases further dtypes had."""
    if len(digest.cards) <= FEW_SUBJECTS:
        for subject, known in digest.cards.items():
            outcomes = digest.digest_of(subject).outcomes
            where = name_subject_if_several(subject, digest.subjects)
            if coverage := measure_coverage(outcomes, known.card):
                yield f"sizes{where}: {coverage.sentence}"
            if at_sizes := coverage_at_sizes(outcomes):
                yield f"your sizes{where}: {at_sizes.sentence}"
    yield from _format_samples(digest)


def _format_samples(digest: Digest) -> Iterator[str]:
    """Says how many cases further dtypes and gradients had, if they had fewer."""
    clauses = {outcome.clause for outcome in digest.outcomes}
    with_gradients = {clause for clause in clauses if GRAD in digest.clause(clause).needs}
    of_gradients, others = list[Outcome](), list[Outcome]()
    for outcome in digest.outcomes:
        (of_gradients if outcome.clause in with_gradients else others).append(outcome)
    if sample := max((outcome.sample for outcome in others), default=0):
        is_left_out_at_float64 = any(outcome.reason == NOT_AT_FLOAT64 for outcome in digest.outcomes)
        none = ", none at float64" if is_left_out_at_float64 else ""
        yield (f"further dtypes: {sample} cases of each clause whose verdict does not depend on "
               f"the dtype{none} (--dtype NAME tries all)")
    if sample := max((outcome.sample for outcome in of_gradients), default=0):
        dtypes = dict.fromkeys(outcome.dtype.value for outcome in of_gradients if outcome.sample)
        yield (f"gradients: {sample} cases of each clause, at {', '.join(dtypes)} "
               "(--profile +gradients tries all)")
