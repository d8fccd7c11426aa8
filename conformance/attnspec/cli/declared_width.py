"""What the verdict says of arithmetic that a function declares wider than is assumed of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from attnspec.core.nouns import DType
from attnspec.core.targets import is_bare
from attnspec.record.outcome import SubjectCard

_OF_THE_MACHINE = "flushes_subnormals"
"""Not the function's own: a framework may treat subnormal numbers as 0 on this machine."""


def declared_width(subject: str, card: SubjectCard | None, judged: Iterable[DType]) -> str:
    """`, in float16 throughout` or `, with exp_ulps 940 at float16`; empty where nothing wider is declared.

    What a manifest declares is documented of its library, and is not said.
    """
    if card is None or not is_bare(subject):
        return ""
    dtypes = set(judged)
    told = [_said_of(DType(name), text) for name, text in card.precision.items() if DType(name) in dtypes]
    return "".join(f", {words}" for words in dict.fromkeys(told) if words)


def _said_of(dtype: DType, text: str) -> str:
    """text: a class, as a record names it."""
    from attnspec.numerics.precision import assumed, looser_words, precision_of  # noqa: PLC0415  (weight: NumPy)

    precision = precision_of({**dict(_words(text)), "reason": "declared"}, dtype)
    usual = assumed(dtype)
    looser = [word for word in looser_words(precision, usual) if word != _OF_THE_MACHINE]
    if not looser:
        return ""
    if precision.softmax is precision.logits is precision.weights and "softmax" in looser:
        return f"in {precision.softmax.value} throughout"
    shown = (getattr(precision, word) for word in looser)
    words = (f"{word} {value.value if isinstance(value, DType) else f'{value:g}'}"
             for word, value in zip(looser, shown, strict=True))
    return f"with {' and '.join(words)} at {dtype.value}"


def _words(text: str) -> Iterator[tuple[str, object]]:
    grade, *others = text.split(", ")
    yield "grade", grade
    for each in others:
        word, _, value = each.partition(" ")
        yield word, yaml.safe_load(value.lower() if value in {"True", "False"} else value)
