"""Reads what a bare function declares in its attributes: `attend.dtypes = ["float32"]`.

It also checks whether the precision classes that a subject declares make sense.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import LIMITS, Declaration, Variant, of_kind
from attnspec.core.errors import AttnspecError, FileLocation, ManifestError, TargetError
from attnspec.core.forms import CACHE
from attnspec.core.keyword import KeywordLimits
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.roundings import declared_backward, format_backward
from attnspec.spec.yaml_lines import Fields, Located, LocatedList
from attnspec.subjects.declared import lacks_parameter, read_declaration
from attnspec.subjects.signature import UNKNOWN_PLACE, FunctionDescription, describe_function, signature_of

ATTRIBUTES: Mapping[str, str] = {
    "dtypes": '["float32", "bfloat16"]',
    "output_dtype": '"float32"',
    "conventions": '{"hidden_row": "zeros"}',
    "precision": '{"float16": {"grade": "G4", "reason": "every step is stored in float16"}}',
    "backward_precision": '{"bfloat16": {"partial": 32, "reason": "blocks of 32 queries are stored"}}',
    "claims": '["causal"]',
    "lift": '"torch"',
    "compiles": "True",
    "sizes": '["B4 H32 Hkv8 T2048 S2048 D128"]',
    "blocks": '{"T": 128, "S": [64, 128]}',
    "ties_value_width": "True",
    "grouped": "False",
    "self_attention_only": "True",
    "one_memory": "True",
    "ties_model_width": "True",
    "broadcasts": "True",
    "bias_is_mask": "True",
    "weights": '"averaged"',
    "has_biases": "False",
    "biases": '"query key out"',
    "single_head": "True",
    "projects_output": "False",
    "min_head_width": "16",
    "min_scores": "64",
    "contiguous_features": "True",
    "contiguous": "True",
    "mask_axes": '"BTS"',
    "lengths": '"equal"',
    "causal_lengths": '"no_more_queries"',
    "past_lengths": '"equal"',
    "cache": "64",
    "causal_only": "True",
    "page_multiple": "16",
    "constant_bias": "True",
    "refuses": '["D > 256", "bias with T != S"]',
    **{limit.name: "True" if limit.default is False else "1" for limit in fields_of(KeywordLimits)},
    **{name: f'"{each.sample}"' for part in load_parts("limits") for name, each in part.CHOICES.items()},
}
"""All that a function may declare, every limit on its own, with a value as one writes it."""

_READ_TOGETHER: Mapping[str, tuple[str, ...]] = {
    name: each.read_with for part in load_parts("limits") for name, each in part.CHOICES.items() if each.read_with}
"""By attribute, those without which its value cannot be judged."""

_MISTYPED_LIKENESS = 0.8  # how alike an attribute and a known one must be to be taken for a slip of the pen


def declaration_of(function: Callable[..., object] | FunctionDescription, name: str, *,
                   target: str = UNKNOWN_PLACE) -> Declaration:
    """Reads the declaration from signature and attributes: `attend.dtypes = ["float32"]`, …
    target: see `signature_of`. Raises TargetError, with the attribute as it should be written, for
    a value that makes no sense, a misspelt attribute, and what is declared in another way.
    """
    function = describe_function(function)
    signature = signature_of(function, name, target=target,
                             is_always_causal=function.attributes.get("causal_only") is True)
    if function.is_function:  # an object has attributes of its own, not ours to read
        for attribute, value in function.attributes.items():
            _check_name(name, attribute, value, signature.kind, function.place)
    named = ATTRIBUTES.keys() - ({CACHE} - signature.given)  # others than decoders may keep something of theirs there
    given = {name: value for name, value in function.attributes.items() if name in named}
    for attribute, value in given.items():
        beside = {other: given[other] for other in _READ_TOGETHER.get(attribute, ()) if other in given}
        _check_value(function, name, attribute, value, beside)
    said = replace(_read_attributes(name, given, function.place), keywords=signature.keywords,
                   defaults=signature.defaults, off=signature.off, spelled=signature.spelled,
                   form=signature.form, given=signature.given)
    if wrong := lacks_parameter(said.limits, said.keywords, name):
        raise TargetError(f"{function.place}: {name}.{wrong}")
    return of_kind(said, signature.kind)


def _read_attributes(name: str, given: Mapping[str, object], place: FileLocation) -> Declaration:
    """Reads the declaration, limits under their own key, as a manifest has them."""
    limits = {attribute: value for attribute, value in given.items() if attribute in LIMITS}
    others = {attribute: value for attribute, value in given.items() if attribute not in LIMITS}
    return read_declaration(Fields(_locate_value({**others, "limits": limits}, place),
                                   f"the attributes of {name}", TargetError))


def _locate_value(value: object, place: FileLocation) -> Located:
    located = _place_value(value, place)
    assert isinstance(located, Located)
    return located


def _place_value(value: object, place: FileLocation) -> object:
    """Places a value as if it had been read from a file."""
    if isinstance(value, Mapping):
        mapping = Located(place)
        mapping.update({str(_read_plain(key)): _place_value(inner, place) for key, inner in value.items()})
        return mapping
    if isinstance(value, list | tuple | set | frozenset):
        sequence = LocatedList(place)
        sequence.extend(_place_value(inner, place) for inner in value)
        return sequence
    return _read_plain(value)


def _read_plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value


def _check_value(function: FunctionDescription, name: str, attribute: str, value: object,
                 beside: Mapping[str, object]) -> None:
    """Raises TargetError for a value that makes no sense with those that it is read with."""
    try:
        _read_attributes(name, {**beside, attribute: value}, function.place)
    except TargetError as wrong:
        own = "" if function.is_function else f" If {name} uses this attribute itself, wrap {name} in a function."
        raise TargetError(f"{wrong}{own} Write it as in {name}.{attribute} = {ATTRIBUTES[attribute]}") from None


def _check_name(name: str, attribute: str, value: object, kind: Kind, place: FileLocation) -> None:
    """Raises TargetError for an attribute that means to declare something and does not."""
    known = (*ATTRIBUTES, "kind", "limits", *CONVENTIONS)
    meant = next(iter(difflib.get_close_matches(attribute, known, n=1, cutoff=_MISTYPED_LIKENESS)), "")
    if not meant or attribute in ATTRIBUTES or (attribute == "kind" and _read_plain(value) == kind.value):
        return
    raise TargetError(f"{name} has an attribute {attribute!r}; {_find_way(name, meant, value, kind)}", where=place)


def _find_way(name: str, meant: str, value: object, kind: Kind) -> str:
    if meant == "kind":
        return f"its parameters make it {kind.value!r}: a layer takes params and heads. Leave {name}.kind out."
    if meant == "limits":
        lines = [f"{name}.{limit} = {_read_plain(said)!r}" for limit, said in _name_limits(value).items()]
        return f"every limit is an attribute of its own. Write {'; '.join(lines)}. Limits: {', '.join(LIMITS)}."
    if meant in CONVENTIONS:
        return f"a convention stands in a mapping. Write {name}.conventions = {{{meant!r}: {_read_plain(value)!r}}}"
    return (f"did you mean {meant!r}? As in {name}.{meant} = {ATTRIBUTES[meant]}. "
            f"What can be declared: {', '.join(ATTRIBUTES)}.")


def _name_limits(value: object) -> Mapping[str, object]:
    """Returns the limits that a mapping names, by the nearest right name; else an example."""
    named = {limit: said for word, said in (value.items() if isinstance(value, Mapping) else ())
             for limit in difflib.get_close_matches(str(word), LIMITS, n=1)}
    return named or {"ties_value_width": True}


def check_precision(declaration: Declaration, where: FileLocation | None,
                    error: type[AttnspecError] = ManifestError) -> None:
    """Raises `error` at the first precision class, also of variants, that makes no sense."""
    for dtype, words in _declared_precisions(declaration):
        try:
            declared_precision(words, dtype)
        except ManifestError as cause:
            raise error(str(cause), where=_place_of(words, dtype) or where) from None
    for dtype, words in declaration.backward_precision.items():
        try:
            declared_backward(words, declared_precision(declaration.precision.get(dtype), dtype))
        except ManifestError as cause:
            raise error(str(cause), where=getattr(words, "place", where)) from None


def check_width(declaration: Declaration, where: FileLocation | None,
                error: type[AttnspecError] = ManifestError) -> None:
    """Raises `error` at the first precision class under which a plain mistake conforms."""
    declared = tuple(_declared_precisions(declaration))
    if declaration.kind is Kind.ROTARY or not declared:
        return  # the mistakes are of attention
    from attnspec.numerics.width import refuse_too_wide  # noqa: PLC0415  (weight: the whole of the bound)

    for dtype, words in declared:
        try:
            refuse_too_wide(declared_precision(words, dtype))
        except ManifestError as cause:
            raise error(str(cause), where=getattr(words, "place", where)) from None


def _declared_precisions(declaration: Declaration) -> Iterator[tuple[DType, Mapping[str, object]]]:
    """Yields every declared precision class, of the subject, its variants and devices."""
    declared: tuple[Declaration | Variant, ...] = (declaration, *declaration.variants.values())
    for precision in (each for one in declared for each in (one.precision, *one.precision_on.values())):
        yield from precision.items()


def backward_named_of(declaration: Declaration, precision: Mapping[str, str]) -> dict[str, str]:
    """Returns the class name of a subject's backward pass, by dtype.  precision: the forward
    pass's, by dtype, as a record tells them; dtypes declared otherwise by now are left out.
    """
    found = {}
    for dtype in (each for each in DType if each.value in precision):
        forward = declared_precision(declaration.precision.get(dtype), dtype)
        if str(forward) == precision[dtype.value]:
            backward = declared_backward(declaration.backward_precision.get(dtype), forward)
            found[dtype.value] = format_backward(forward, backward)
    return found


def _place_of(words: Mapping[str, object], dtype: DType) -> FileLocation | None:
    """Returns the place of the first word that makes no sense by itself, or of the class."""
    if not isinstance(words, Located):
        return None
    for word, value in words.items():
        try:
            declared_precision({"reason": "looked at by itself", word: value}, dtype)
        except ManifestError:
            return words.place_of(word)
    return words.place
