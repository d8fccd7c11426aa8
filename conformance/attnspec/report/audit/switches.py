"""Switches: the same inputs, one switch flipped, and where the two answers differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from attnspec.record.measurements import Found, SubjectProbed
from attnspec.report.figures import SHORT
from attnspec.report.joined import JoinedRecords, JudgedSubject

AGREE = "agree"  # the answer of a switch that makes no difference
OF_THE_SWITCH = ("gradient.flow",)  # what a switch is there to change is no surprise


class ManifestWord(Enum):
    """What the manifest says of a disagreement."""

    DECLARED = "declared"
    AGAINST = "the manifest says otherwise"
    OPEN = ""


@dataclass(frozen=True, slots=True)
class SwitchDifference:
    """One question to which a variant answers otherwise, or a problem that was put to both; both answers."""

    variant: str
    asks: str
    plain: str
    flipped: str
    detail: str
    dtypes: str
    standing: ManifestWord


@dataclass(frozen=True, slots=True)
class Switches:
    """A subject, the variants that were tried, and every disagreement. lost: variants that told nothing, and why."""

    subject: JudgedSubject
    variants: tuple[str, ...]
    flips: tuple[SwitchDifference, ...]
    lost: tuple[tuple[str, str], ...]

    @property
    def quiet(self) -> tuple[str, ...]:
        """The variants that always answer as the subject itself does."""
        differing = {flip.variant for flip in self.flips} | {variant for variant, _ in self.lost}
        return tuple(variant for variant in self.variants if variant not in differing)


def compare_switches(joined: JoinedRecords) -> tuple[Switches, ...]:
    """A panel for every subject with variants that were probed; those with disagreements first."""
    found = [_switches(subject, joined.probes.get(subject.number, ())) for subject in joined.subjects]
    return tuple(sorted((each for each in found if each.variants), key=lambda each: not each.flips))


def _switches(subject: JudgedSubject, probes: Sequence[SubjectProbed]) -> Switches:
    flipped = [probe for probe in probes if probe.variant]
    plain = {probe.dtype: _by_question(probe) for probe in probes if not probe.variant}
    told = [flip for probe in flipped for flip in _switch_differences(probe, plain.get(probe.dtype, {}))]
    lost = {probe.variant: probe.lost for probe in flipped if probe.lost}
    variants = tuple(dict.fromkeys(probe.variant for probe in flipped))
    flips = sorted(_merge_dtypes(told), key=lambda flip: variants.index(flip.variant))
    return Switches(subject, variants, tuple(flips), tuple(lost.items()))


def _by_question(probe: SubjectProbed) -> Mapping[str, Found]:
    return {found.question: found for found in probe.found}


def _switch_differences(probe: SubjectProbed, plain: Mapping[str, Found]) -> Iterable[SwitchDifference]:
    """Where the variant does not answer as the subject: first the same problems put to both, then the questions."""
    dtype, flipped = SHORT[probe.dtype], [found for found in probe.found if _is_switch(found)]
    for found in flipped:
        if found.answer != AGREE:
            posed = (found.asks.partition(": ")[2] or found.asks).rstrip("?")
            answers = _split_answers(found.detail or found.answer)
            yield SwitchDifference(probe.variant, posed, *answers, "", dtype, _compare_with_manifest(found))
    for found in probe.found:
        other = plain.get(found.question)
        is_asked = found.question not in OF_THE_SWITCH and found not in flipped
        if other is not None and other.answer != found.answer and is_asked:
            yield SwitchDifference(probe.variant, found.asks, other.answer, found.answer, found.detail, dtype,
                                   _compare_with_manifest(found))


def _is_switch(found: Found) -> bool:
    """Whether this is about the two side by side, not about what the variant does by itself."""
    return found.question.partition(".")[0] == "switch"


def _split_answers(detail: str) -> tuple[str, str]:
    """The two answers; where they are not told one after the other, all in the first."""
    plain, _, flipped = detail.partition(", and ")
    told = flipped.removeprefix("in ")
    return (plain, told.removeprefix("the variant ")) if told.startswith("the variant ") else (detail, "")


def _compare_with_manifest(found: Found) -> ManifestWord:
    """That a variant agrees is claimed of every switch but those of which the two declare different conventions."""
    is_declared = not found.claimed if _is_switch(found) else found.claimed == found.answer
    if found.is_contradiction:
        return ManifestWord.AGAINST
    return ManifestWord.DECLARED if is_declared else ManifestWord.OPEN


def _merge_dtypes(flips: Iterable[SwitchDifference]) -> Iterable[SwitchDifference]:
    """The same disagreement at several dtypes is told once."""
    groups: dict[tuple[object, ...], list[SwitchDifference]] = {}
    for flip in flips:
        groups.setdefault((flip.variant, flip.asks, flip.plain, flip.flipped, flip.standing), []).append(flip)
    for alike in groups.values():
        yield replace(alike[0], dtypes=" ".join(dict.fromkeys(flip.dtypes for flip in alike)))
