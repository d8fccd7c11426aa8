"""Reads what a subject declares, from the fields of a manifest or of a function's attributes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, combinations
from typing import Any

from attnspec.core.conventions import CONVENTIONS, PROFILES, UNDEFINED
from attnspec.core.coverage import LONGEST
from attnspec.core.declaration import INPUT, LENGTHS, LIMITS, Declaration, Limits, narrowed_by, of_kind
from attnspec.core.errors import UsageError
from attnspec.core.keywords import HIDING, load_parts
from attnspec.core.nouns import DType, Kind
from attnspec.core.sizes import Refusal, read_refusal, read_sizes, spell_lengths
from attnspec.core.surroundings import DEVICES
from attnspec.host.lifts import LIFTS
from attnspec.spec.yaml_lines import Fields, LocatedList

DECLARED = ("kind", "dtypes", "output_dtype", "limits", "conventions", "precision", "claims",
            "lift", "compiles", "sizes", "blocks", "backward_precision")
WEIGHTS = ("per_head", "averaged")
MASK_AXES = ("BHTS", "BTS", "BHS", "BS", "TS")
BIASES = ("all", *map(" ".join, chain.from_iterable(
    combinations(("query", "key", "value", "out"), count) for count in range(1, 4))))
CHOICES = {"weights": (WEIGHTS, "way to return weights"), "mask_axes": (MASK_AXES, "set of axes"),
           "biases": (BIASES, "answer to which projections have biases"),
           **dict.fromkeys(("lengths", "causal_lengths"), (tuple(LENGTHS), "answer to which lengths are taken")),
           "past_lengths": (("any", "equal"), "answer to how many new keys are taken"),
           **{name: (each.known, each.kind) for part in load_parts("limits") for name, each in part.CHOICES.items()}}
SPELLINGS = {name: each.read for part in load_parts("limits") for name, each in part.CHOICES.items()}
"""By limit of an aspect, how an answer is read that has more than one spelling."""
CUT_AXES = ("T", "S", "D", "Dv")  # the axes that kernels cut into blocks
FORMS = HIDING  # how a row can come to be hidden, where that makes a difference
_NO_LIMITS = Limits()
_LARGEST_LIMITS = {"min_head_width": 512}
_LARGEST_OTHER = 10**6


def read_declaration(fields: Fields) -> Declaration:
    """Reads a declaration, without the signature's keywords. Raises the fields' error class."""
    declaration = Declaration(
        dtypes=_read_dtypes(fields),
        output_dtype=fields.one_of("output_dtype", (INPUT, *_list_values(DType), UNDEFINED), INPUT,
                                   kind="output dtype"),
        limits=read_limits(fields.inner("limits", optional=True)),
        conventions=read_conventions(fields),
        precision=read_precision(fields),
        claims=_read_claims(fields),
        lift=fields.one_of("lift", LIFTS, ""),
        compiles=fields.flag("compiles", default=False) if "compiles" in fields.mapping else None,
        sizes=_read_sizes(fields),
        blocks=_read_blocks(fields.inner("blocks", "the blocks", optional=True)),
        backward_precision=_read_classes(fields.inner("backward_precision", "the backward precision", optional=True)),
    )
    return of_kind(declaration, fields.choice("kind", Kind, Kind.ATTENTION))


def _read_sizes(fields: Fields) -> tuple[str, ...]:
    """Reads the sizes that it is used at: a text, or a list of them."""
    if isinstance(fields.mapping.get("sizes"), str):
        named = [(fields.text("sizes"), fields.place("sizes"))]
    else:
        texts = fields.texts("sizes", ())
        named = [(text, fields.mapping["sizes"].place_of(index)) for index, text in enumerate(texts)]
    return tuple(dict.fromkeys(spell_lengths(read_sizes(text, place, error=fields.error)) for text, place in named))


def _read_blocks(fields: Fields) -> Mapping[str, tuple[int, ...]]:
    """Reads, by axis, the lengths of the blocks that it is cut into: a number, or a list."""
    fields.refuse_other_keys(CUT_AXES)
    return {axis: _read_block_lengths(fields, axis) for axis in CUT_AXES if axis in fields.mapping}


def _read_block_lengths(fields: Fields, axis: str) -> tuple[int, ...]:
    is_one = not isinstance(fields.mapping[axis], LocatedList)
    lengths = (fields.integer(axis),) if is_one else fields.integers(axis)
    if not lengths or not all(2 <= length <= LONGEST[axis] for length in lengths):
        raise fields.complain(axis, f"should be one block's length, or a list of them, each from 2 to {LONGEST[axis]}.")
    return tuple(sorted(set(lengths)))


def _read_dtypes(fields: Fields) -> tuple[DType, ...]:
    dtypes = fields.choices("dtypes", DType, tuple(DType), kind="dtype")
    if not dtypes:
        raise fields.complain("dtypes", "is empty; leave it out if it takes them all.")
    return dtypes


def read_limits(fields: Fields) -> Limits:
    """Reads what the subject cannot take."""
    fields.refuse_other_keys(LIMITS)
    said = {name: _read_limit(fields, name) for name in fields.mapping}
    refuses = said.pop("refuses", ())
    limits = narrowed_by(Limits(**said), refuses)
    for part in load_parts("limits"):
        if wrong := part.find_nonsense(limits, fields.mapping.keys()):
            raise fields.complain(*wrong)
    return limits


def lacks_parameter(limits: Limits, taken: Collection[str], name: str) -> str:
    """Says which limits of a function need a keyword that is not in taken, else ""."""
    return next(filter(None, (part.find_lacking(limits, taken, name) for part in load_parts("limits"))), "")


def _read_limit(fields: Fields, name: str) -> Any:  # noqa: ANN401  (by the limit)
    if name in CHOICES:
        known, kind = CHOICES[name]
        if name in SPELLINGS and (spelled := SPELLINGS[name](fields.text(name))) in known:
            return spelled
        return fields.one_of(name, known, kind=kind)
    if name == "refuses":
        return tuple(_parse_refusal(fields, text) for text in fields.texts(name))
    return _read_size(fields, name) if type(getattr(_NO_LIMITS, name)) is int else fields.flag(name)


def _parse_refusal(fields: Fields, text: str) -> Refusal:
    try:
        return read_refusal(text)
    except UsageError as wrong:
        raise fields.complain("refuses", f"has {text!r}: {wrong}") from None


def _read_size(fields: Fields, name: str) -> int:
    """Reads the least of something; larger heads would fill the memory."""
    least, most = getattr(_NO_LIMITS, name), _LARGEST_LIMITS.get(name, _LARGEST_OTHER)
    size = fields.integer(name)
    if not least <= size <= most:
        raise fields.complain(name, f"should be a whole number from {least} to {most}, not {size}.")
    return size


def read_conventions(fields: Fields) -> Mapping[str, str]:
    """Reads answers by the convention's name, and by `name.form` (`hidden_row.bias`) where forms
    differ. In YAML: `hidden_row: zeros`, or `hidden_row: {mask: uniform, bias: nan}`, whose first
    answer is general.
    """
    conventions = fields.inner("conventions", "the conventions", optional=True)
    conventions.refuse_other_keys(CONVENTIONS)
    return {key: answer for name in conventions.mapping for key, answer in _read_answers(conventions, name)}


def _read_answers(fields: Fields, name: str) -> Iterable[tuple[str, str]]:
    known = tuple(CONVENTIONS[name].answers)
    if not isinstance(fields.mapping[name], dict):
        return [(name, fields.one_of(name, known, kind=f"answer to {name}"))]
    forms = fields.inner(name)
    forms.refuse_other_keys(FORMS)
    answers = [(f"{name}.{form}", forms.one_of(form, known, kind=f"answer to {name}")) for form in forms.mapping]
    if not answers:
        raise fields.complain(name, f"is empty; give an answer by form ({', '.join(FORMS)}).")
    return [(name, answers[0][1]), *answers]


def read_precision(fields: Fields) -> Mapping[DType, Mapping[str, object]]:
    """Reads the precision class of each dtype, word by word, with the reason for it."""
    return _read_classes(fields.inner("precision", "the precision", optional=True))


def read_precision_on(fields: Fields) -> Mapping[str, Mapping[DType, Mapping[str, object]]]:
    """Reads precision classes by kind of device: `precision_on: {cuda: {float32: {…}}}`."""
    devices = fields.inner("precision_on", "the precision on devices", optional=True)
    devices.refuse_other_keys(DEVICES)
    return {kind: _read_classes(inner) for kind, inner in devices.read_named("the precision on")}


def _read_classes(precision: Fields) -> Mapping[DType, Mapping[str, object]]:
    precision.refuse_other_keys(_list_values(DType))
    return {DType(name): _read_class(inner) for name, inner in precision.read_named("the precision of")}


def _read_class(fields: Fields) -> Mapping[str, object]:
    fields.text("reason")  # a class that is claimed without a reason is a tolerance in disguise
    return fields.mapping


def _read_claims(fields: Fields) -> tuple[str, ...]:
    claims = fields.texts("claims", ())
    for claim in claims:
        if claim not in PROFILES:
            raise fields.error.unknown("profile", claim, PROFILES, where=fields.place("claims"))
    return claims


def _list_values(enumeration: type[DType]) -> tuple[str, ...]:
    return tuple(member.value for member in enumeration)
