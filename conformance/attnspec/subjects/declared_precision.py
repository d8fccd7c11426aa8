"""Whether the precision classes that a subject declares make sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attnspec.core.declaration import Declaration, Variant
from attnspec.core.errors import AttnspecError, FileLocation, ManifestError
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.gradient_precision import backward_named, backward_precision_of
from attnspec.numerics.precision import precision_of
from attnspec.numerics.width import refuse_too_wide
from attnspec.spec.yaml_lines import Located


def check_precision(declaration: Declaration, where: FileLocation | None,
                    error: type[AttnspecError] = ManifestError) -> None:
    """Raise `error` at the first precision class, of the subject or a variant, that makes no sense."""
    for dtype, words in _declared_precisions(declaration):
        try:
            precision_of(words, dtype)
        except ManifestError as cause:
            raise error(str(cause), where=_place_of(words, dtype) or where) from None
    for dtype, words in declaration.backward_precision.items():
        try:
            backward_precision_of(words, precision_of(declaration.precision.get(dtype), dtype))
        except ManifestError as cause:
            raise error(str(cause), where=words.place if isinstance(words, Located) else where) from None


def check_width(declaration: Declaration, where: FileLocation | None,
                error: type[AttnspecError] = ManifestError) -> None:
    """Raise `error` at the first precision class, of the subject or a variant, under which a plain mistake conforms."""
    if declaration.kind is Kind.ROTARY:
        return  # the mistakes are of attention
    for dtype, words in _declared_precisions(declaration):
        try:
            refuse_too_wide(precision_of(words, dtype))
        except ManifestError as cause:
            raise error(str(cause), where=words.place if isinstance(words, Located) else where) from None


def _declared_precisions(declaration: Declaration) -> Iterator[tuple[DType, Mapping[str, object]]]:
    """Every precision class that is declared, of the subject, its variants and kinds of devices."""
    declared: tuple[Declaration | Variant, ...] = (declaration, *declaration.variants.values())
    for precision in (each for one in declared for each in (one.precision, *one.precision_on.values())):
        yield from precision.items()


def backward_named_of(declaration: Declaration, precision: Mapping[str, str]) -> dict[str, str]:
    """The name of the class of a subject's backward pass, by dtype.

    precision: the forward pass's classes, by dtype, as a record tells them. Where it is declared otherwise by now, the
    record is of another declaration, and nothing is said.
    """
    found = {}
    for dtype in (each for each in DType if each.value in precision):
        forward = precision_of(declaration.precision.get(dtype), dtype)
        if str(forward) == precision[dtype.value]:
            backward = backward_precision_of(declaration.backward_precision.get(dtype), forward)
            found[dtype.value] = backward_named(forward, backward)
    return found


def _place_of(words: Mapping[str, object], dtype: DType) -> FileLocation | None:
    """Where the first word stands that makes no sense by itself, else the class; None for what no file says."""
    if not isinstance(words, Located):
        return None
    for word, value in words.items():
        try:
            precision_of({"reason": "looked at by itself", word: value}, dtype)
        except ManifestError:
            return words.place_of(word)
    return words.place
