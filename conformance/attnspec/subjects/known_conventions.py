"""The part of a baseline that keeps which conventions a subject followed, so that one that changes is told.

A convention that a subject does not declare is probed anew in each run: without this list, each run would hold it to
what it does by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.nouns import DType
from attnspec.record.outcome import Outcome
from attnspec.spec.fields import Fields

_ENTRY = ("subject", "convention", "answer", "dtypes")
_FORMS = {"hidden_row": ("mask", "bias", "key_lengths")}
_NAMES = (*CONVENTIONS, *(f"{name}.{form}" for name, forms in _FORMS.items() for form in forms))
ConventionKey = tuple[str, str, str]  # subject, dtype, convention


@dataclass(frozen=True, slots=True)
class KnownConvention:
    """The answer that a subject gave at these dtypes, as the file has it. name: `hidden_row`, or a form of it."""

    subject: str
    name: str
    answer: str
    dtypes: tuple[DType, ...]


def read_known_conventions(fields: Fields) -> tuple[KnownConvention, ...]:
    """What a baseline lists under `conventions`; nothing in a file of before. Raises UsageError with file and line."""
    return tuple(map(_entry, fields.each("conventions", "a known convention", optional=True)))


def _entry(fields: Fields) -> KnownConvention:
    fields.only(_ENTRY)
    name = fields.one_of("convention", _NAMES)
    answer = fields.one_of("answer", CONVENTIONS[_whole(name)].answers, kind=f"answer to {name}")
    return KnownConvention(fields.text("subject"), name, answer, fields.choices("dtypes", DType, kind="dtype"))


def by_key(known: Iterable[KnownConvention]) -> Mapping[ConventionKey, str]:
    """The answer by subject, dtype and convention."""
    return {(each.subject, dtype.value, each.name): each.answer for each in known for dtype in each.dtypes}


def changed_convention(outcome: Outcome, known: Mapping[ConventionKey, str]) -> tuple[str, str]:
    """The first convention whose answer is not the known one, and a sentence; two empty texts where none is known to
    have been another.
    """
    found = {each.name: each.answer for each in outcome.probed}
    at = outcome.subject, outcome.dtype.value
    for name in dict.fromkeys(form for each in found for form in (each, *_forms(each))):
        was, is_now = _answer(name, {key[2]: known[key] for key in known if key[:2] == at}), _answer(name, found)
        if was and was != is_now:
            return name, f"convention {name} was {was}, is {is_now}"
    return "", ""


def _forms(name: str) -> Sequence[str]:
    return [f"{name}.{form}" for form in _FORMS.get(name, ())]


def _whole(name: str) -> str:
    """The convention of which this is a form."""
    return name.partition(".")[0]


def _answer(name: str, answers: Mapping[str, str]) -> str:
    """The answer, which is that of the whole convention where the form has none of its own; empty for none."""
    return answers.get(name, answers.get(_whole(name), ""))


def conventions_after(known: Iterable[KnownConvention], outcomes: Iterable[Outcome]) -> list[dict[str, object]]:
    """The entries that a baseline is written with: what was probed now, and what was known of what was not."""
    told = {(each.subject, each.dtype.value, convention.name): convention.answer
            for each in outcomes for convention in each.probed}
    is_probed = {(subject, dtype, _whole(name)) for subject, dtype, name in told}
    kept = {key: answer for key, answer in by_key(known).items() if (*key[:2], _whole(key[2])) not in is_probed}
    return list(_entries({**kept, **told}))


def _entries(answers: Mapping[ConventionKey, str]) -> Iterator[dict[str, object]]:
    """One a subject, convention and answer, with the dtypes that have it; in an order that keeps differences small."""
    grouped: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for (subject, dtype, name), answer in answers.items():
        grouped[subject, name, answer].append(dtype)
    order = [dtype.value for dtype in DType]
    for (subject, name, answer), dtypes in sorted(grouped.items()):
        yield {"subject": subject, "convention": name, "answer": answer, "dtypes": sorted(dtypes, key=order.index)}
