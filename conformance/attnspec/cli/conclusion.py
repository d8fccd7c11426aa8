"""What a run comes to: the line that the console begins and ends with, a line a subject, and what matters most."""

from __future__ import annotations

import enum
import math
import shutil
from collections import Counter
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
from attnspec.report.likely_cause import ExplainedFailures, other_conventions
from attnspec.runner.jobs import is_idle

_Words = Callable[[Sequence[Outcome]], str]  # how the likely cause of failures is told
_COLOURS = {CONFORMS: "green", VIOLATED: "red", CANNOT_RUN: "yellow"}
MOST_CAUSES = 2   # of several subjects that are told in the first line and the last
_NAMES_WIDTH = 60  # characters of a list of subjects
_PARAMETERS_WIDTH = 40   # characters of a list of parameters


def format_verdict(digest: Digest) -> str:
    """Says what the run comes to, and why, in colour and without the exit code."""
    text = _format_verdict_of_run(digest, _words_for(digest, likely_words))
    return click.style(text, fg=_COLOURS[_code(digest)], bold=True)


def format_conclusion(digest: Digest, *, is_kept: bool = True) -> str:
    """The last line of the console: the conclusion in short, with the exit code. is_kept: whether all that was to be
    written is.
    """
    code, short = (_code(digest) if is_kept else CANNOT_RUN,
                   "" if is_kept else " But not all of it could be written.")
    told = f"{_format_verdict_of_run(digest, _words_for(digest, likely_in_short))}{short} (exit code {code})"
    return click.style(told, fg=_COLOURS[code], bold=True)


def format_standing(digest: Digest) -> str:
    """How one subject of several fared, after its name."""
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
        return (f"{click.style('was judged in part', fg='yellow')} "
                f"({format_applicable(digest.counts[subject])})")
    how = "; ".join((f"conforms{_format_qualifications(digest)}",
                     *_unrecommended_conventions(digest)))
    return f"{click.style(how, fg='green')} ({format_applicable(digest.counts[subject])})"


def format_so_far(digest: Digest) -> str:
    """Counts the failures of a subject that is being judged: `12 failures so far. Likely: …`; empty if none."""
    if not digest.failures:
        return ""
    cause = _tell_cause(digest, likely_group(digest.failures))
    return f"{count_noun(len(digest.failures), 'failure')} so far{f'. {cause}' if cause else ''}"


def failure_line(digest: Digest, outcome: Outcome) -> str:
    """What fails, and its likely cause, for whoever waits for a run to end. No sizes are told of a known mistake: a
    later failure may show that it begins at smaller ones.
    """
    found = likely_group([outcome])
    told = _tell_cause(digest, replace(found, cause=replace(found.cause, where="")) if found and found.cause else None)
    cause = f" {told}." if told else ""
    whose = f"{outcome.subject}, {outcome.dtype.value}"
    return f"First failure: {outcome.clause} ({whose}) {_FAILURE_VERBS[outcome.verdict]}.{cause}"


def _tell_cause(digest: Digest, found: ExplainedFailures | None) -> str:
    """`Likely: the mask is ignored`, `It fails at S = 5` where nobody looked for more; empty where nothing is known."""
    if found is None or found.cause is None:
        return ""
    if is_place(found.cause) and digest.is_glance:
        return f"It {found.cause}"
    return f"Likely: {found.cause}"


_FAILURE_VERBS = {Verdict.VIOLATED: "is violated", Verdict.ERRORED: "ends in an exception",
                  Verdict.CRASHED: "ends in a crash",
                  Verdict.TIMED_OUT: "gives no answer in time",
                  Verdict.UNEXPECTED: "is not as listed"}


def format_remedy(digest: Digest) -> Iterator[str]:
    """Says what to do about the likely cause, where that is known: to mend it, or to declare it."""
    found = likely_group(digest.failures)
    cause = found.cause if found else None
    if cause and cause.advice:
        yield f"  {cause.advice}{', or declare it:' if cause.declare else '.'}"
    if cause and cause.declare:
        yield from (f"  {line}" for line in cause.declare.splitlines())


def format_undiagnosed(digest: Digest) -> Iterator[str]:
    """Says that nobody looked for causes, where that is why failures have none."""
    is_open = any(group.cause is None or is_place(group.cause)
                  for group in explain_bugs(digest.failures))
    if digest.is_glance and is_open:
        yield "  Effort glance does not look for causes. To see them, use --effort quick or run a replay line."


def format_unpromised(digest: Digest) -> Iterator[str]:
    """Why what conforms may refuse something, and that its gradients were left out."""
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
    """How causes are told in a run that looked for them, or in one at a glance, which did not."""
    return partial(tell, is_sought=not digest.is_glance)


def _format_verdict_of_run(digest: Digest, words: _Words) -> str:
    if digest.footer is None or digest.footer.interrupted:
        found = count_noun(len(digest.failures), "failure") if digest.failures else "no failure"
        why = _format_likely_cause(digest, [subject for subject in digest.subjects
                                            if digest.digest_of(subject).failures], words)
        return f"Interrupted with {found} so far; the rest was not run.{f' {why}.' if why else ''}"
    if _code(digest) == VIOLATED and not (digest.failures or digest.contradictions):
        return f"Not as listed: {format_gone(digest)}."
    if _code(digest) == VIOLATED:
        return f"Does not conform{_blame(digest, words)}"
    if _code(digest) == CONFORMS:
        others = "".join(f" {each[:1].upper()}{each[1:]}."
                         for each in _unrecommended_conventions(digest))
        evidence = f"{_format_little_evidence(digest)}{_format_cut_short(digest)}"
        return f"Conforms{evidence}{_format_qualifications(digest)}.{others}"
    if not is_idle(digest.outcomes):
        return "Not everything was run."
    why = _explain_nothing_run(digest) if len(digest.subjects) == 1 else ""
    return f"Nothing was executed{f': {why}' if why else ', so nothing is known.'}"


def _blame(digest: Digest, words: _Words) -> str:
    """Says why the run does not conform: of one subject the likely cause; of several, which, and two causes."""
    guilty = [subject for subject in digest.subjects if digest.digest_of(subject).failures]
    if len(digest.subjects) == 1 and guilty:
        return f"{_format_reason_of_run(digest, words)}."
    subjects = count_noun(len(digest.subjects), "subject")
    parts = [f"{len(guilty)} of {subjects} ({name_few(guilty, _NAMES_WIDTH)})"] if guilty else []
    if against := digest.contradictions:
        whom = name_few(list(dict.fromkeys(probe.subject for probe, _ in against)), _NAMES_WIDTH)
        parts.append(f"{_format_baseline_line(digest)} ({whom})")
    why = _format_likely_cause(digest, guilty, words)
    return f": {'; '.join(parts)}.{f' {why}.' if why else ''}"


def _format_likely_cause(digest: Digest, guilty: Sequence[str], words: _Words) -> str:
    """The likely cause where one subject fails, else the commonest two; empty where none is known."""
    if len(guilty) == 1:
        return words(digest.digest_of(guilty[0]).failures)
    return _format_common_causes(digest, guilty)


def _format_common_causes(digest: Digest, guilty: Sequence[str]) -> str:
    """`Likely: it rounds (mine:f); the mask is ignored (mine:g)`: the commonest two, with the subjects they are of."""
    found = [(str(each.cause), subject) for subject in guilty
             if (each := likely_group(digest.digest_of(subject).failures))
             and not (each.cause and is_place(each.cause) and digest.is_glance)]
    often = Counter(cause for cause, _ in found).most_common(MOST_CAUSES)
    told = [f"{cause} ({name_few([subject for each, subject in found if each == cause], _NAMES_WIDTH)})"
            for cause, _ in often]
    return f"Likely: {'; '.join(told)}" if told else ""


def _format_reason_of_run(digest: Digest, words: _Words) -> str:
    """Formats what follows "does not conform": `. Likely one bug: each query sees one later key`."""
    if broken := digest.broken_contract:
        rest = ("" if len(broken) == len(digest.failures)
                else f". {words(digest.failures)}".rstrip(". "))
        return f"{_format_refusals(digest)}: it must take {', '.join(broken)}{rest}"
    if cause := words(digest.failures):
        return f"{_arithmetic(digest)}{_format_refusals(digest)}. {cause}"
    number, unknown = len(digest.failures), len(unexplained_failures(digest.failures))
    which = "which" if unknown == number else f"{unknown} of which"
    remark = f", {which} no known fault explains" if not digest.is_glance else ""
    return f"{_format_refusals(digest)}: {count_noun(number, 'failure')}{remark}"


def _arithmetic(digest: Digest) -> str:
    """What it does not conform to, where a wider arithmetic would allow all of it. What is a choice wants no other
    arithmetic, only to be declared.
    """
    found = likely_group(digest.failures)
    is_precision = found and found.cause and "precision" in found.cause.declare
    if not found or not found.cause or not is_precision or len(found.failures) < len(digest.failures):
        return ""
    if found.cause.is_choice:
        return " as it is declared"
    return f" to {' and '.join(dict.fromkeys(failure.dtype.value for failure in found.failures))} arithmetic"


def _format_refusals(digest: Digest) -> str:
    """Says what of one subject was not judged: `; refuses grouped heads (Hkv < H); block was never tried`.

    A parameter that is given nothing is not tried: nobody knows whether it does what it says, or anything.
    """
    if len(digest.subjects) != 1:
        return ""
    cards = [known.card for known in digest.cards.values()]
    what = refused_by(cards[0] if cards else None, digest.outcomes)
    left = sorted((name for card in cards for name in card.defaults),
                  key=lambda name: not meant_by(name))
    refused = f"; refuses {', '.join(what)}" if what else ""
    if left:
        return (f"{refused}; {name_few(left, _PARAMETERS_WIDTH)} "
                f"{'was' if len(left) == 1 else 'were'} never tried")
    return refused


def _format_qualifications(digest: Digest) -> str:
    """Says beside "conforms" what of one subject was declared, was not judged, or does not count."""
    return (
        f"{_format_declared_width(digest)}{_format_what_passes(digest)}{_format_refusals(digest)}{_format_exceptions(digest)}")


def _unrecommended_conventions(digest: Digest) -> Sequence[str]:
    """What one subject does otherwise than recommended, as clauses: what a plain mistake may have been taken for.

    A function that tiles its key/value heads by mistake does what a library does on purpose; its author alone knows.
    """
    if len(digest.subjects) != 1:
        return ()
    return other_conventions(digest.advice,
                             next((known.card for known in digest.cards.values()), None))


def _format_exceptions(digest: Digest) -> str:
    """Says which failures are known or documented, so that they do not count."""
    return describe_exceptions(digest.outcomes, [each.id for each in digest.choices])


def _format_declared_width(digest: Digest) -> str:
    """The arithmetic of one subject, where it is declared wider than is assumed."""
    if len(digest.cards) != 1:
        return ""
    [(subject, known)] = digest.cards.items()
    return declared_width(subject, known.card, (outcome.dtype for outcome in digest.outcomes))


def _format_what_passes(digest: Digest) -> str:
    """How large an error one subject is allowed that says that it quantises inside."""
    cards = [known.card for known in digest.cards.values() if known.card]
    told = cards[0].passing_error if len(digest.cards) == len(cards) == 1 else ""
    return f"; {told}" if told else ""


def _format_little_evidence(digest: Digest) -> str:
    """Says that a subject refuses so much that it was put to less than half of its clauses."""
    away, all_of_them = kept_away(digest) if len(digest.subjects) == 1 else (0, 0)
    if 2 * away > all_of_them:
        return f", on {all_of_them - away} of {all_of_them} clauses"
    return ""


def _format_cut_short(digest: Digest) -> str:
    """How many clauses and dtypes of one subject were tried on none or few cases, since each of them is compiled."""
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
    """Why nothing was executed, where there is one reason for everything or no clause applies. A sentence."""
    reasons = {outcome.reason for outcome in digest.outcomes if outcome.verdict is Verdict.NOT_RUN}
    reason = (reasons.pop() if len(reasons) == 1 else "" if reasons
              else format_lacking(digest.outcomes))
    if not reason or reason.endswith((".", "?")):
        return reason
    return f"{reason}."


BUGS_IN_FULL = 3      # bugs told in full
# of the summary as a reader sees them; with what comes before it, a run takes 40 at most
SUMMARY_LINES = 34
DEFAULT_WIDTH = 80     # characters a line where nobody knows how wide the reader's are
MOST_CHANGES = 12   # lines of what is new, mended or changed against a baseline
MOST_LISTED = 20    # answers against a manifest, and probes that were lost, that are listed


class Detail(enum.Enum):
    """How much is told: what fits a screen, or everything."""

    SHORT = "short"
    FULL = "full"


class Verdicts(Handler):
    """A handler that speaks when the run is over. `places` are lines that say where record and page lie.

    is_kept: whether all that was to be written is, which is known then.
    """

    def __init__(self, stream: TextIO, *, is_coloured: bool, places: Sequence[str] = (),
                 detail: Detail = Detail.SHORT,
                 is_kept: Callable[[], bool] = lambda: True) -> None:
        self._stream, self._is_coloured, self._places, self._detail = (stream, is_coloured, places,
                                                                       detail)
        self._is_kept = is_kept
        self._digest = Digest()

    def handle(self, event: Event) -> None:
        """Adds up the events."""
        self._digest.add(event)

    def shutdown(self) -> None:
        """Print the summary, if the run came to an end (interrupted ones do, too)."""
        if self._digest.footer is not None:
            width = shutil.get_terminal_size().columns if self._stream.isatty() else DEFAULT_WIDTH
            *lines, last = format_summary(self._digest, self._places, self._detail, width)
            for line in (*lines, last if self._is_kept() else format_conclusion(self._digest, is_kept=False)):
                click.echo(line, file=self._stream, color=self._is_coloured)


def format_summary(digest: Digest, places: Sequence[str], detail: Detail = Detail.SHORT,
                   width: int = DEFAULT_WIDTH) -> list[str]:
    """The lines of the summary. In short as many bugs in full as there is room for, at most SHOWN and at least one."""
    if detail is Detail.FULL:
        return [*_format_head(digest), *findings.list_all_failures(digest),
                *_contradictions(digest),
                *_paragraph(findings.format_all_undecided(digest)),
                *_paragraph(held_against(digest)), "", *places,
                format_conclusion(digest)]
    ranked = findings.rank_bugs(digest)
    drafts = (_draft(digest, ranked, shown, places)
              for shown in range(min(BUGS_IN_FULL, len(ranked)), 0, -1))
    return next((draft for draft in drafts if _count_rows(draft, width) <= SUMMARY_LINES),
                _draft(digest, ranked, 1, places))


def _draft(digest: Digest, ranked: Sequence[findings.Bug], shown: int,
           places: Sequence[str]) -> list[str]:
    in_full = [line for bug in ranked[:shown] for line in findings.format_bug(digest, bug)]
    others = [*findings.name_other_bugs(digest, ranked[shown:]),
              *findings.format_recommendations(digest),
              *findings.format_undecided(digest)]
    lost = findings.format_not_run(digest)
    return [*_format_head(digest), *in_full, *_contradictions(digest), *_paragraph(lost),
            *([""] if in_full else []),
            *others,
            *_paragraph(held_against(digest, MOST_CHANGES)), *places, format_conclusion(digest)]


def _count_rows(lines: Sequence[str], width: int) -> int:
    return sum(max(1, math.ceil(len(click.unstyle(line)) / width)) for line in lines)


def _format_head(digest: Digest) -> Iterator[str]:
    """The verdict, and how each subject fared."""
    yield ""
    yield format_verdict(digest)
    yield from format_undiagnosed(digest)
    yield from format_unpromised(digest)
    yield from (f"  Documented choice {each.id}: {each.says} {each.documented}"
                for each in digest.choices)
    if len(digest.subjects) == 1:
        yield from format_remedy(digest)
        yield from (f"{subject}: {format_applicable(counts)}"
                    for subject, counts in digest.counts.items())
    else:
        width = max(map(len, digest.subjects), default=0)
        yield from (f"{subject:<{width}}  {format_standing(digest.digest_of(subject))}"
                    for subject in digest.subjects)
    yield from format_tried_sizes(digest)
    if digest.header and digest.header.must_take and not digest.broken_contract:
        yield f"must take: {digest.header.must_take}"
    for subject, known in digest.cards.items():
        left = list_defaults(known.card.defaults)
        if left:
            yield f"left at their defaults{name_subject_if_several(subject, digest.subjects)}: {left}"


def _paragraph(lines: Sequence[str] | Iterator[str]) -> list[str]:
    """The lines after an empty one, if there are any."""
    told = list(lines)
    return ["", *told] if told else []


def _contradictions(digest: Digest) -> Iterator[str]:
    """Tells what probes found against what is claimed, and what could not be probed."""
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
    """`, in float16 throughout` or `, with exp_ulps 940 at float16`; empty where nothing wider is declared.

    What a manifest declares is documented of its library, and is not said.
    """
    if card is None or not is_bare(subject):
        return ""
    dtypes = set(judged)
    told = [_describe_looseness(DType(name), text)
            for name, text in card.precision.items() if DType(name) in dtypes]
    return "".join(f", {words}" for words in dict.fromkeys(told) if words)


def _describe_looseness(dtype: DType, text: str) -> str:
    """text: a class, as a record names it."""
    from attnspec.numerics.precision import assumed_precision, looser_words, named_precision  # noqa: PLC0415  (weight: NumPy)

    precision = named_precision(text, dtype)
    usual = assumed_precision(dtype)
    looser = [word for word in looser_words(precision, usual) if word != _MACHINE_WORD]
    if not looser:
        return ""
    if precision.softmax is precision.logits is precision.weights and "softmax" in looser:
        return f"in {precision.softmax.value} throughout"
    shown = (getattr(precision, word) for word in looser)
    words = (f"{word} {_width_in_words(value)}" for word, value in zip(looser, shown, strict=True))
    return f"with {' and '.join(words)} at {dtype.value}"


def _width_in_words(value: object) -> str:
    """A dtype, a format of codes or a number, as it is declared."""
    if isinstance(value, DType):
        return value.value
    if isinstance(value, float | int):
        return f"{value:g}"
    return str(value)


FEW_SUBJECTS = 3
"""Subjects whose sizes are told."""


def format_tried_sizes(digest: Digest) -> Iterator[str]:
    """A line or two for each of a few subjects, and one for the further dtypes."""
    yield from _format_sizes_by_subject(digest)
    yield from _format_samples(digest)


def _format_sizes_by_subject(digest: Digest) -> Iterator[str]:
    """Which sizes were tried, of a few subjects."""
    for subject, known in digest.cards.items() if len(digest.cards) <= FEW_SUBJECTS else ():
        if found := measure_coverage(digest.digest_of(subject).outcomes, known.card):
            yield f"sizes{name_subject_if_several(subject, digest.subjects)}: {found.sentence}"
        if named := coverage_at_sizes(digest.digest_of(subject).outcomes):
            yield f"your sizes{name_subject_if_several(subject, digest.subjects)}: {named.sentence}"


def _format_samples(digest: Digest) -> Iterator[str]:
    """Says that further dtypes, and gradients, were tried with fewer cases, where they were."""
    asking = {name for name in {outcome.clause for outcome in digest.outcomes} if GRAD in digest.clause(name).needs}
    of_gradients = [outcome for outcome in digest.outcomes if outcome.clause in asking]
    others = [outcome for outcome in digest.outcomes if outcome.clause not in asking]
    if sample := max((outcome.sample for outcome in others), default=0):
        none = (", none at float64" if any(outcome.reason == NOT_AT_FLOAT64
                                           for outcome in digest.outcomes) else "")
        yield (f"further dtypes: {sample} cases of each clause whose verdict does not depend on the dtype{none} "
               "(--dtype NAME tries all)")
    if sample := max((outcome.sample for outcome in of_gradients), default=0):
        at = ", ".join(dict.fromkeys(outcome.dtype.value
                                     for outcome in of_gradients if outcome.sample))
        yield f"gradients: {sample} cases of each clause, at {at} (--profile +gradients tries all)"
