"""Adds up the events of a run for the console, and puts counts and verdicts into words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import click

from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.nouns import FAILURES, DType, Effort, Verdict
from attnspec.core.sizes import foretell_costs
from attnspec.core.texts import count_noun
from attnspec.record.events import (
    OWN_DEVICE,
    Event,
    Found,
    ItemFinished,
    ItemStarted,
    RunFinished,
    RunStarted,
    SubjectKnown,
    SubjectProbed,
)
from attnspec.record.outcome import ClauseText, KnownFinding, Outcome, is_choice
from attnspec.report.comparison import is_gone
from attnspec.spec.clause import ALL, word_of

ALARMING_VERDICTS = FAILURES | {Verdict.UNEXPECTED}
UNDECIDED_VERDICTS = frozenset({Verdict.NOT_RUN, Verdict.NO_CLAIM, Verdict.INAPPLICABLE})
ADVICE_WORDS = "not as recommended"
"""How failures are counted that do not gate."""
_DTYPES = sorted(DType, key=lambda dtype: dtype is not DType.FLOAT32)


def dtype_order(outcome: Outcome) -> int:
    """A key to sort by: float32, at which most people look first, then the other dtypes."""
    return _DTYPES.index(outcome.dtype)


def verdict_words(verdict: Verdict) -> str:
    """The words of a verdict: `timed out`."""
    return verdict.value.replace("_", " ")


@dataclass(slots=True)
class Digest:
    """What is known of a run so far.

    on_trial: items that workers have begun and not finished, the oldest first.  counts: by
    subject, how often each verdict was given, in words; failures that do not gate are counted as
    ADVICE_WORDS.
    """

    header: RunStarted | None = None
    footer: RunFinished | None = None
    cards: dict[str, SubjectKnown] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    on_trial: dict[tuple[str, str, str], ItemStarted] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    probes: list[SubjectProbed] = field(default_factory=list)
    _by_subject: dict[str, list[Outcome]] = field(default_factory=dict)
    _alarming: list[Outcome] = field(default_factory=list)
    _sorted_in: int = 0

    def add(self, event: Event) -> None:
        """Take an event into account."""
        match event:
            case RunStarted():
                self.header = event
                self.counts = {subject: Counter() for subject in event.planned}
            case SubjectKnown():
                self.cards[event.card.id] = event
            case ItemStarted():
                self.on_trial[event.subject, event.clause, event.dtype] = event
            case ItemFinished():
                self._take_outcome(event.outcome)
            case SubjectProbed():
                self.on_trial.pop((event.subject, event.part, event.dtype.value), None)
                self.probes.append(event)
            case RunFinished():
                self.footer = event

    def _take_outcome(self, outcome: Outcome) -> None:
        self.on_trial.pop((outcome.subject, outcome.clause, outcome.dtype.value), None)
        self.outcomes.append(outcome)
        word = verdict_words(outcome.verdict)
        if outcome.verdict in ALARMING_VERDICTS and not (self.gates(outcome) or outcome.is_excused):
            word = ADVICE_WORDS
        self.counts.setdefault(outcome.subject, Counter())[word] += 1

    def count_planned(self, subject: str) -> int:
        """How many items the subject has in this run."""
        if self.header:
            return self.header.planned.get(subject, 0)
        return 0

    def count_done(self, subject: str) -> int:
        """How many items of a subject are finished."""
        probes = sum(probe.subject == subject for probe in self.probes)
        return self.counts[subject].total() + probes

    @property
    def failures(self) -> list[Outcome]:
        """The failures that gate, in the order of the clauses."""
        return [outcome for outcome in self._alarming_outcomes if self.fails(outcome)]

    @property
    def advice(self) -> list[Outcome]:
        """The failures that do not gate."""
        return [outcome for outcome in self._alarming_outcomes
                if not self.gates(outcome) and not outcome.is_excused]

    @property
    def choices(self) -> list[KnownFinding]:
        """The documented choices of libraries behind failures that do not count."""
        choices = {each.id: each for known in self.cards.values()
                   for each in known.card.findings if is_choice(each)}
        names = dict.fromkeys(each.finding
                              for each in self.outcomes if each.verdict is Verdict.EXPECTED)
        return [choices[name] for name in names if name in choices]

    @property
    def _alarming_outcomes(self) -> list[Outcome]:
        """Failures and changed known failures, in the order of the clauses, float32 first."""
        self._sort_in()
        return self._alarming

    @property
    def broken_contract(self) -> list[str]:
        """The words of the contract that are refused, each once."""
        words = dict.fromkeys(word for each in self.failures if (word := word_of(each.clause)))
        return ["all of the contract together" if word == ALL else word for word in words]

    @property
    def subjects(self) -> tuple[str, ...]:
        """All subjects of the run, in the order of the plan."""
        return tuple(self.counts)

    def digest_of(self, subject: str) -> Digest:
        """The digest of one subject alone."""
        self._sort_in()
        return Digest(self.header, self.footer,
                      {name: card for name, card in self.cards.items() if name == subject},
                      list(self._by_subject.get(subject, ())), {},
                      {subject: self.counts[subject]},
                      [probe for probe in self.probes if probe.subject == subject])

    def _sort_in(self) -> None:
        """Sorts the outcomes since the last call by subject, and into those that alarm.

        The console asks for the failures after every item, an audit for those of two hundred
        subjects. So each of 240,000 outcomes is looked at once.
        """
        new = self.outcomes[self._sorted_in:]
        self._sorted_in = len(self.outcomes)
        for outcome in new:
            self._by_subject.setdefault(outcome.subject, []).append(outcome)
        if alarming := [outcome for outcome in new if outcome.verdict in ALARMING_VERDICTS]:
            clauses = self.header.clauses if self.header else ()
            places = {clause.id: place for place, clause in enumerate(clauses)}
            self._alarming += alarming
            self._alarming.sort(key=lambda each: (places.get(each.clause, 0), dtype_order(each)))

    @property
    def contradictions(self) -> list[tuple[SubjectProbed, Found]]:
        """The answers of probes that contradict a manifest."""
        return [(probe, found) for probe in self.probes
                for found in probe.found if found.is_contradiction]

    def gates(self, outcome: Outcome) -> bool:
        """Whether the outcome makes the exit code 1 in this run."""
        return outcome.does_gate(strict=bool(self.header and self.header.strict))

    @property
    def is_glance(self) -> bool:
        """Whether causes are not looked for in this run."""
        return self.header is not None and self.header.effort == Effort.GLANCE.value

    @property
    def first_failure(self) -> Outcome | None:
        """The failure that is told first; None as long as it may be rounding. In half precision it
        may be, until the same clause was tried at a wider dtype.
        """
        if not (failures := self.failures):
            return None  # asked after every item, of which most runs have many and no failure
        dtypes = map(DType, self.header.dtypes) if self.header else DType
        if all(dtype in HALF_DTYPES for dtype in dtypes):
            return failures[0]
        tried = {(each.subject, each.clause)
                 for each in self.outcomes if each.dtype not in HALF_DTYPES}
        return next((each for each in failures if (each.subject, each.clause) in tried), None)

    def fails(self, outcome: Outcome) -> bool:
        """Whether the outcome is a failure that gates."""
        return (outcome.verdict in ALARMING_VERDICTS and self.gates(outcome)
                and not is_gone(outcome))

    def clause(self, name: str) -> ClauseText:
        """What the header says of a clause."""
        clauses = self.header.clauses if self.header else ()
        return next((clause for clause in clauses if clause.id == name), ClauseText(name))


_HELD, _NOT_RUN, _INAPPLICABLE = map(
    verdict_words, (Verdict.HELD, Verdict.NOT_RUN, Verdict.INAPPLICABLE))
_COLOURS: Mapping[str, str] = {
    **{verdict_words(verdict): "red" for verdict in ALARMING_VERDICTS},
    verdict_words(Verdict.NO_CLAIM): "bright_black", _INAPPLICABLE: "bright_black",
    verdict_words(Verdict.EXPECTED): "cyan", _HELD: "green", _NOT_RUN: "yellow",
    ADVICE_WORDS: "yellow"}
_ORDER = (*map(verdict_words, Verdict), ADVICE_WORDS)


def name_subject_if_several(subject: str, subjects: Sequence[str]) -> str:
    """` in numpy/attention`, if there are several subjects."""
    return f" in {subject}" if len(subjects) > 1 else ""


def format_counts(counts: Counter[str]) -> str:
    """`61 held, 2 violated, 20 inapplicable`, in colour."""
    return (", ".join(_colour_text(f"{counts[word]} {word}", word)
                      for word in _ORDER if counts[word]) or "nothing")


def format_applicable(counts: Counter[str]) -> str:
    """`60 of 62 applicable items held, 2 violated`; all counts if nothing was judged. Items that
    were not run are not among the 62: they may not apply.
    """
    left = counts - Counter({_INAPPLICABLE: counts[_INAPPLICABLE]})
    tried = left.total() - counts[_NOT_RUN]
    if not tried:
        return format_counts(counts)
    share = f"{counts[_HELD]} of {count_noun(tried, 'applicable item')} {_HELD}"
    held = _colour_text(share, _HELD if counts[_HELD] else _NOT_RUN)
    del left[_HELD]
    return f"{held}, {format_counts(left)}" if left else held


def _colour_text(text: str, word: str) -> str:
    return click.style(text, fg=_COLOURS[word], bold=_COLOURS[word] == "red")


def name_probed(probed: SubjectProbed) -> str:
    """`torch/mha [averaged], float32`."""
    variant = f" [{probed.variant}]" if probed.variant else ""
    return f"{probed.subject}{variant}, {probed.dtype.value}"


def format_opening(header: RunStarted) -> str:
    """Says in one line what a run is."""
    environment = header.environment
    versions = (f"attnspec {environment['attnspec']}, "
                f"spec {header.spec_version} ({header.spec_digest[:8]})")
    items = f"{count_noun(header.items, 'item')} of {count_noun(len(header.planned), 'subject')}"
    workers = count_noun(int(environment["workers"]), "worker")
    return (f"{versions}: {items}, {', '.join(header.dtypes)}; effort {header.effort}, "
            f"seed {header.seed}, {workers}{_describe_surroundings(header)}")


def declared_sizes(known: SubjectKnown, header: RunStarted | None) -> Iterator[str]:
    """Says what the sizes cost that a subject declares, unless the user named them."""
    named = header.sizes if header else ()
    yield from foretell_costs((each for each in known.card.sizes if each not in named), math.inf)


def _describe_surroundings(header: RunStarted) -> str:
    """Says where subjects live, if the user named another environment or a device."""
    places = []
    if header.elsewhere:
        places.append(f"in {header.elsewhere}")
    device = header.environment.get("device", OWN_DEVICE)
    if device != OWN_DEVICE:
        places.append(f"on {device}")
    return f"; subjects live {' '.join(places)}" if places else ""


def name_few(names: Sequence[str], room: int) -> str:
    """`a, b and 4 more`: as many names as fit into `room` characters, but at least one."""
    lengths = accumulate(len(name) + 2 for name in names)
    fitting = max(1, sum(length <= room for length in lengths))
    more = len(names) - fitting
    return ", ".join(names[:fitting]) + (f" and {more} more" if more else "")
