"""Reads what is declared of a subject, from a manifest's fields or from the attributes of a bare function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attnspec.ground.conventions import CONVENTIONS, UNDEFINED
from attnspec.ground.declaration import INPUT, LENGTHS, LIMITS, Declaration, Limits
from attnspec.ground.keywords import HIDING
from attnspec.ground.nouns import DType, Kind
from attnspec.ground.profiles import PROFILES
from attnspec.law.fields import Fields
from attnspec.subjects.lifts import LIFTS

DECLARED = ("kind", "dtypes", "output_dtype", "limits", "conventions", "precision", "claims", "lift")
WEIGHTS = ("per_head", "averaged")
MASK_AXES = ("BHTS", "BTS", "BHS", "BS", "TS")
FORMS = HIDING  # how a row can come to be hidden, where that makes a difference
_PLAIN = Limits()


def read_declaration(fields: Fields) -> Declaration:
    """The declaration without what only the signature knows (keywords). Raises the fields' error class."""
    return Declaration(
        kind=fields.choice("kind", Kind, Kind.ATTENTION),
        dtypes=_dtypes(fields),
        output_dtype=fields.one_of("output_dtype", (INPUT, *_values(DType), UNDEFINED), INPUT, kind="output dtype"),
        limits=read_limits(fields.inner("limits", optional=True)),
        conventions=read_conventions(fields),
        precision=read_precision(fields),
        claims=_claims(fields),
        lift=fields.one_of("lift", LIFTS, ""),
    )


def _dtypes(fields: Fields) -> tuple[DType, ...]:
    dtypes = fields.choices("dtypes", DType, tuple(DType), kind="dtype")
    if not dtypes:
        raise fields.complain("dtypes", "is empty; leave it out if it takes them all.")
    return dtypes


def read_limits(fields: Fields) -> Limits:
    """What the subject cannot take."""
    fields.only(LIMITS)
    return Limits(**{name: _limit(fields, name) for name in fields.mapping})


def _limit(fields: Fields, name: str) -> Any:  # noqa: ANN401  (bool, int or text, by the limit)
    if name == "weights":
        return fields.one_of(name, WEIGHTS, kind="way to return weights")
    if name in {"lengths", "causal_lengths"}:
        return fields.one_of(name, tuple(LENGTHS), kind="answer to which lengths are taken")
    if name == "mask_axes":
        return fields.one_of(name, MASK_AXES, kind="set of axes")
    return fields.integer(name) if type(getattr(_PLAIN, name)) is int else fields.flag(name)


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
    precision = fields.inner("precision", "the precision", optional=True)
    precision.only(_values(DType))
    return {DType(name): _class(inner) for name, inner in precision.named("the precision of")}


def _class(fields: Fields) -> Mapping[str, object]:
    fields.text("reason")  # a class that is claimed without a reason is a tolerance in disguise
    return dict(fields.mapping)


def _claims(fields: Fields) -> tuple[str, ...]:
    claims = fields.texts("claims", ())
    for claim in claims:
        if claim not in PROFILES:
            raise fields.error.unknown("profile", claim, PROFILES, where=fields.place("claims"))
    return claims


def _values(enumeration: type[DType]) -> tuple[str, ...]:
    return tuple(member.value for member in enumeration)
