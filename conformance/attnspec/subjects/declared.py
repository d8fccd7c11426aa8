"""Reads what is declared of a subject: in the fields of a manifest, or in the attributes of a function."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from attnspec.core.conventions import CONVENTIONS, PROFILES, UNDEFINED
from attnspec.core.coverage import LONGEST
from attnspec.core.declaration import INPUT, LENGTHS, LIMITS, Declaration, Limits, Variant, narrowed_by, of_kind
from attnspec.core.errors import AttnspecError, FileLocation, ManifestError, TargetError, UsageError
from attnspec.core.forms import STATE
from attnspec.core.keywords import HIDING, KeywordLimits
from attnspec.core.nouns import DType, Kind
from attnspec.core.refusal import Refusal, read_refusal
from attnspec.core.sizes import read_sizes, spelled
from attnspec.core.surroundings import DEVICES
from attnspec.host.lifts import LIFTS
from attnspec.numerics.gradient_precision import backward_named, backward_precision_of
from attnspec.numerics.precision import precision_of
from attnspec.numerics.width import refuse_too_wide
from attnspec.spec.fields import Fields
from attnspec.spec.yaml_lines import Located, LocatedList
from attnspec.subjects.described import Described, described_of
from attnspec.subjects.signature import SOMEWHERE, signature_of

DECLARED = ("kind", "dtypes", "output_dtype", "limits", "conventions", "precision", "claims", "lift", "compiles",
            "sizes", "blocks", "backward_precision")
WEIGHTS = ("per_head", "averaged")
MASK_AXES = ("BHTS", "BTS", "BHS", "BS", "TS")
BIASES = ("all", *map(" ".join, chain.from_iterable(
    combinations(("query", "key", "value", "out"), count) for count in range(1, 4))))
CHOICES = {"weights": (WEIGHTS, "way to return weights"), "mask_axes": (MASK_AXES, "set of axes"),
           "biases": (BIASES, "answer to which projections have biases"),
           **dict.fromkeys(("lengths", "causal_lengths"), (tuple(LENGTHS), "answer to which lengths are taken")),
           "past_lengths": (("any", "equal"), "answer to how many new keys are taken")}
CUT = ("T", "S", "D", "Dv")  # the axes that kernels cut into blocks
FORMS = HIDING  # how a row can come to be hidden, where that makes a difference
_PLAIN = Limits()
_LARGEST = {"min_head_width": 512}
_LARGEST_ELSE = 10**6


def read_declaration(fields: Fields) -> Declaration:
    """The declaration without what only the signature knows (keywords). Raises the fields' error class."""
    declaration = Declaration(
        dtypes=_dtypes(fields),
        output_dtype=fields.one_of("output_dtype", (INPUT, *_values(DType), UNDEFINED), INPUT, kind="output dtype"),
        limits=read_limits(fields.inner("limits", optional=True)),
        conventions=read_conventions(fields),
        precision=read_precision(fields),
        claims=_claims(fields),
        lift=fields.one_of("lift", LIFTS, ""),
        compiles=fields.flag("compiles", default=False) if "compiles" in fields.mapping else None,
        sizes=_sizes(fields),
        blocks=_blocks(fields.inner("blocks", "the blocks", optional=True)),
        backward_precision=_classes(fields.inner("backward_precision", "the backward precision", optional=True)),
    )
    return of_kind(declaration, fields.choice("kind", Kind, Kind.ATTENTION))


def _sizes(fields: Fields) -> tuple[str, ...]:
    """The sizes that it is used at: a text, or a list of them."""
    if isinstance(fields.mapping.get("sizes"), str):
        named = [(fields.text("sizes"), fields.place("sizes"))]
    else:
        texts = fields.texts("sizes", ())
        named = [(text, fields.mapping["sizes"].place_of(index)) for index, text in enumerate(texts)]
    return tuple(dict.fromkeys(spelled(read_sizes(text, place, error=fields.error)) for text, place in named))


def _blocks(fields: Fields) -> Mapping[str, tuple[int, ...]]:
    """By axis, the lengths of the blocks that it cuts it into: a whole number, or a list of them."""
    fields.only(CUT)
    return {axis: _block_lengths(fields, axis) for axis in CUT if axis in fields.mapping}


def _block_lengths(fields: Fields, axis: str) -> tuple[int, ...]:
    is_one = not isinstance(fields.mapping[axis], LocatedList)
    lengths = (fields.integer(axis),) if is_one else fields.integers(axis)
    if not lengths or not all(2 <= length <= LONGEST[axis] for length in lengths):
        raise fields.complain(axis, f"should be one block's length, or a list of them, each from 2 to {LONGEST[axis]}.")
    return tuple(sorted(set(lengths)))


def _dtypes(fields: Fields) -> tuple[DType, ...]:
    dtypes = fields.choices("dtypes", DType, tuple(DType), kind="dtype")
    if not dtypes:
        raise fields.complain("dtypes", "is empty; leave it out if it takes them all.")
    return dtypes


def read_limits(fields: Fields) -> Limits:
    """What the subject cannot take."""
    fields.only(LIMITS)
    said = {name: _limit(fields, name) for name in fields.mapping}
    refuses = said.pop("refuses", ())
    return narrowed_by(Limits(**said), refuses)


def _limit(fields: Fields, name: str) -> Any:  # noqa: ANN401  (by the limit)
    if name in CHOICES:
        known, kind = CHOICES[name]
        return fields.one_of(name, known, kind=kind)
    if name == "refuses":
        return tuple(_refusal(fields, text) for text in fields.texts(name))
    return _size(fields, name) if type(getattr(_PLAIN, name)) is int else fields.flag(name)


def _refusal(fields: Fields, text: str) -> Refusal:
    try:
        return read_refusal(text)
    except UsageError as wrong:
        raise fields.complain("refuses", f"has {text!r}: {wrong}") from None


def _size(fields: Fields, name: str) -> int:
    """The least of something. Larger heads than these would fill the memory before anything is learnt of them."""
    least, most = getattr(_PLAIN, name), _LARGEST.get(name, _LARGEST_ELSE)
    size = fields.integer(name)
    if not least <= size <= most:
        raise fields.complain(name, f"should be a whole number from {least} to {most}, not {size}.")
    return size


def read_conventions(fields: Fields) -> Mapping[str, str]:
    """Answers by the convention's name; where they differ by form, also by `name.form` (`hidden_row.bias`).

    In YAML: `hidden_row: zeros`, or `hidden_row: {mask: uniform, bias: nan}`, whose first answer is the general one.
    """
    conventions = fields.inner("conventions", "the conventions", optional=True)
    conventions.only(CONVENTIONS)
    return {key: answer for name in conventions.mapping for key, answer in _answers(conventions, name)}


def _answers(fields: Fields, name: str) -> Iterable[tuple[str, str]]:
    known = tuple(CONVENTIONS[name].answers)
    if not isinstance(fields.mapping[name], dict):
        return [(name, fields.one_of(name, known, kind=f"answer to {name}"))]
    forms = fields.inner(name)
    forms.only(FORMS)
    answers = [(f"{name}.{form}", forms.one_of(form, known, kind=f"answer to {name}")) for form in forms.mapping]
    if not answers:
        raise fields.complain(name, f"is empty; give an answer by form ({', '.join(FORMS)}).")
    return [(name, answers[0][1]), *answers]


def read_precision(fields: Fields) -> Mapping[DType, Mapping[str, object]]:
    """The precision class of each dtype, word by word, each with the reason why it is honest."""
    return _classes(fields.inner("precision", "the precision", optional=True))


def read_precision_on(fields: Fields) -> Mapping[str, Mapping[DType, Mapping[str, object]]]:
    """The same by the kind of device on which it holds, as in `precision_on: {cuda: {float32: {…}}}`."""
    devices = fields.inner("precision_on", "the precision on devices", optional=True)
    devices.only(DEVICES)
    return {kind: _classes(inner) for kind, inner in devices.named("the precision on")}


def _classes(precision: Fields) -> Mapping[DType, Mapping[str, object]]:
    precision.only(_values(DType))
    return {DType(name): _class(inner) for name, inner in precision.named("the precision of")}


def _class(fields: Fields) -> Mapping[str, object]:
    fields.text("reason")  # a class that is claimed without a reason is a tolerance in disguise
    return fields.mapping


def _claims(fields: Fields) -> tuple[str, ...]:
    claims = fields.texts("claims", ())
    for claim in claims:
        if claim not in PROFILES:
            raise fields.error.unknown("profile", claim, PROFILES, where=fields.place("claims"))
    return claims


def _values(enumeration: type[DType]) -> tuple[str, ...]:
    return tuple(member.value for member in enumeration)


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
}
"""What a function may carry, each with a value as one writes it: all that is declared, every limit on its own."""

_MISTYPED = 0.8  # how alike an attribute and a known one must be to be taken for a slip of the pen


def declaration_of(function: Callable[..., object] | Described, name: str, *, target: str = SOMEWHERE) -> Declaration:
    """What signature and attributes say: `attend.dtypes = ["float32"]`, `attend.ties_value_width = True`, …

    `target`: see `signature_of`. Raises TargetError, with the attribute as it should be written, for a value that makes
    no sense, for an attribute that looks like a known one mistyped, and for what is declared otherwise than so.
    """
    function = described_of(function)
    signature = signature_of(function, name, target=target,
                             is_always_causal=function.attributes.get("causal_only") is True)
    if function.is_function:  # an object has attributes of its own, not ours to read
        for attribute, value in function.attributes.items():
            _check_name(name, attribute, value, signature.kind, function.place)
    named = ATTRIBUTES.keys() - ({STATE} - signature.given)  # others than decoders may keep something of theirs there
    given = {name: value for name, value in function.attributes.items() if name in named}
    for attribute, value in given.items():
        _check_value(function, name, attribute, value)
    said = replace(_read(name, given, function.place), keywords=signature.keywords, defaults=signature.defaults,
                   off=signature.off, spelled=signature.spelled, form=signature.form, given=signature.given)
    return of_kind(said, signature.kind)


def _read(name: str, given: Mapping[str, object], place: FileLocation) -> Declaration:
    """The declaration, limits under their own key, as a manifest has them."""
    limits = {attribute: value for attribute, value in given.items() if attribute in LIMITS}
    others = {attribute: value for attribute, value in given.items() if attribute not in LIMITS}
    return read_declaration(Fields(_located({**others, "limits": limits}, place), f"the attributes of {name}",
                                   TargetError))


def _located(value: object, place: FileLocation) -> Located:
    located = _at(value, place)
    assert isinstance(located, Located)
    return located


def _at(value: object, place: FileLocation) -> object:
    """The value as if it had been read from a file, at this place."""
    if isinstance(value, Mapping):
        mapping = Located(place)
        mapping.update({str(_plain(key)): _at(inner, place) for key, inner in value.items()})
        return mapping
    if isinstance(value, list | tuple | set | frozenset):
        sequence = LocatedList(place)
        sequence.extend(_at(inner, place) for inner in value)
        return sequence
    return _plain(value)


def _plain(value: object) -> object:
    return value.value if isinstance(value, enum.Enum) else value


def _check_value(function: Described, name: str, attribute: str, value: object) -> None:
    try:
        _read(name, {attribute: value}, function.place)
    except TargetError as wrong:
        own = "" if function.is_function else f" If {name} uses this attribute itself, wrap {name} in a function."
        raise TargetError(f"{wrong}{own} Write it as in {name}.{attribute} = {ATTRIBUTES[attribute]}") from None


def _check_name(name: str, attribute: str, value: object, kind: Kind, place: FileLocation) -> None:
    """Raise TargetError for an attribute that means to declare something and does not."""
    known = (*ATTRIBUTES, "kind", "limits", *CONVENTIONS)
    meant = next(iter(difflib.get_close_matches(attribute, known, n=1, cutoff=_MISTYPED)), "")
    if not meant or attribute in ATTRIBUTES or (attribute == "kind" and _plain(value) == kind.value):
        return
    raise TargetError(f"{name} has an attribute {attribute!r}; {_way(name, meant, value, kind)}", where=place)


def _way(name: str, meant: str, value: object, kind: Kind) -> str:
    """How what is meant should be declared."""
    if meant == "kind":
        return f"its parameters make it {kind.value!r}: a layer takes params and heads. Leave {name}.kind out."
    if meant == "limits":
        lines = [f"{name}.{limit} = {_plain(said)!r}" for limit, said in _limits(value).items()]
        return f"every limit is an attribute of its own. Write {'; '.join(lines)}. Limits: {', '.join(LIMITS)}."
    if meant in CONVENTIONS:
        return f"a convention stands in a mapping. Write {name}.conventions = {{{meant!r}: {_plain(value)!r}}}"
    return (f"did you mean {meant!r}? As in {name}.{meant} = {ATTRIBUTES[meant]}. "
            f"What can be declared: {', '.join(ATTRIBUTES)}.")


def _limits(value: object) -> Mapping[str, object]:
    """The limits that a mapping names, each by its nearest right name; an example where it names none."""
    named = {limit: said for word, said in (value.items() if isinstance(value, Mapping) else ())
             for limit in difflib.get_close_matches(str(word), LIMITS, n=1)}
    return named or {"ties_value_width": True}


def check_precision(declaration: Declaration, where: FileLocation | None,
                    error: type[AttnspecError] = ManifestError) -> None:
    """Raise `error` at the first precision class, of the subject or a variant, that makes no sense."""
    for dtype, words in _declared(declaration):
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
    for dtype, words in _declared(declaration):
        try:
            refuse_too_wide(precision_of(words, dtype))
        except ManifestError as cause:
            raise error(str(cause), where=words.place if isinstance(words, Located) else where) from None


def _declared(declaration: Declaration) -> Iterator[tuple[DType, Mapping[str, object]]]:
    """Every precision class that is declared, of the subject, its variants and kinds of devices."""
    declared: tuple[Declaration | Variant, ...] = (declaration, *declaration.variants.values())
    for precision in (each for one in declared for each in (one.precision, *one.precision_on.values())):
        yield from precision.items()


def backward_named_of(declaration: Declaration, precision: Mapping[str, str]) -> dict[str, str]:
    """By dtype, the name of the class of its backward pass.

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
