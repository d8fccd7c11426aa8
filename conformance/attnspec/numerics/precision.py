"""Defines precision classes: where an implementation rounds, and to which formats.

That is the one thing that a reference cannot know, and so the one thing that a subject declares.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

import yaml

from attnspec.core.dtype import DTYPES
from attnspec.core.errors import ManifestError, quote_value
from attnspec.core.keywords import load_parts
from attnspec.core.nouns import DType
from attnspec.problems.problem import INPUTS, Array

STORABLE, WEIGHTS = INPUTS, "weights"
STORED_WORDS: Mapping[str, str] = {f"stored_{name}": name for name in (*STORABLE, WEIGHTS)}
"""By the word of a precision class, what is stored in another format."""


@dataclass(frozen=True, slots=True)
class Grade:
    """A rung of the ladder of rounding points: each has all roundings of the grades before it."""

    name: str
    meaning: str
    who: str


GRADES: Mapping[str, Grade] = {
    grade.name: grade
    for grade in (
        Grade("G0", "wide inside, one rounding at the end", "torch's math backend on CPU"),
        Grade("G1", "and the weights are rounded to the dtype before they meet the values",
              "torch's flash kernel, jax.nn, FlashAttention-like kernels"),
        Grade("G2", "and the query is scaled beforehand and rounded to the dtype",
              "nn.MultiheadAttention when it returns weights"),
        Grade("G3", "and the logits and the scale are rounded to the dtype",
              "softmax(q @ k.T / sqrt(d)) @ v, eagerly"),
        Grade("G4", "and the exponentials and their sum are rounded to the dtype",
              "all storage in the dtype"),
    )
}


USUAL_ULPS: Mapping[str, float] = MappingProxyType(
    {"exp_ulps": 3.0, "tanh_ulps": 5.0, "pow_ulps": 16.0, "sincos_ulps": 4.0})
"""OpenCL's bounds for elementary functions, in ulps of the format in which they are computed."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The rounding points of a class, all of them for inputs of `dtype`.

    output: what is returned.  accumulate: both matrix products.
    softmax: subtraction, exponential, division.
    row_sum: the accumulator of the softmax's denominator.
    logits, weights: what they are stored in.
    prescale: what query (and key) are rounded to after being multiplied by (part of) the scale.
    scale: what the constant is rounded to.
    logsumexp: what the logarithm of the denominator is stored in, where weights are formed as
    exp(logit - logsumexp).
    *_roundings: how many roundings there are of each (logits: one more with a bias).
    exp_ulps, tanh_ulps: the documented errors of exp, and of the tanh of a softcap, in ulps of
    float32 (of float64 where they are computed in it), whatever else is declared.
    tanh_by_exp: that tanh is formed from an exponential, and its error is in ulps of 1.
    block: keys per step of an online softmax, at the least.
    systematic: how small an error that is the same everywhere is kept: `accumulator`, some units
    of what is computed in; `output`, a sixteenth of a unit of the output (see `score.py`).
    angle: of a rotary embedding, its frequencies, their products with positions, cos and sin;
    rotation: what cos and sin are stored in, and their products with features.
    pow_ulps, sincos_ulps: the documented errors of pow, and of cos and sin, in such ulps of 1.
    dequantised: what a code times its scale, and the scale itself, are rounded to.
    bias_in_accumulator: the bias may seed the sum of products.
    flushes_subnormals: they may become 0 anywhere.
    stored_*: the format in which a kernel stores an array, or its weights, as an aspect reads it;
    None where it stores what it is given.
    """

    grade: str
    dtype: DType
    output: DType
    accumulate: DType
    softmax: DType
    row_sum: DType
    logits: DType
    weights: DType
    prescale: DType
    scale: DType
    logsumexp: DType
    angle: DType
    rotation: DType
    dequantised: DType
    logit_roundings: int = 0
    weight_roundings: int = 1
    prescale_roundings: int = 2
    scale_roundings: int = 2
    logsumexp_roundings: int = 0
    exp_ulps: float = USUAL_ULPS["exp_ulps"]
    tanh_ulps: float = USUAL_ULPS["tanh_ulps"]
    tanh_by_exp: bool = False
    pow_ulps: float = USUAL_ULPS["pow_ulps"]
    sincos_ulps: float = USUAL_ULPS["sincos_ulps"]
    block: int = 16
    bias_in_accumulator: bool = True
    flushes_subnormals: bool = False
    systematic: str = "accumulator"
    stored_query: StoredForm | None = None
    stored_key: StoredForm | None = None
    stored_value: StoredForm | None = None
    stored_weights: StoredForm | None = None
    reason: str = ""

    @property
    def stored_formats(self) -> Mapping[str, StoredForm]:
        """By name, the formats of the arrays, or weights, that are stored in another one."""
        formats = {name: getattr(self, word) for word, name in STORED_WORDS.items()}
        return {name: each for name, each in formats.items() if each is not None}

    def without_stored(self) -> Precision:
        """The same class, without the formats in which a kernel stores its arrays."""
        return replace(self, stored_query=None, stored_key=None, stored_value=None,
                       stored_weights=None)

    def __str__(self) -> str:
        base, words = precision_of_grade(self.grade, self.dtype), [self.grade]
        for name in PRECISION_WORDS:
            value = getattr(self, name)
            if name not in ("grade", "reason") and value != getattr(base, name):
                words.append(f"{name} {_format_value(value)}")
        return ", ".join(words)


class StoredForm(ABC):
    """The format in which an array, or the weights, are stored; an aspect reads it from a word.

    divided, summed: of weights, they are divided by the sum of their row before, or by the sum of
    what is stored.
    """

    __slots__ = ()
    divided: bool
    summed: bool

    @abstractmethod
    def entry_errors(self, entries: Array, precision: Precision) -> Array:
        """How far each entry (B,H,S,D) may be from what is read back, in float64; same shape.

        Infinite where nothing can be said.
        """

    @abstractmethod
    def stored_sizes(self, entries: Array) -> Array | None:
        """(B,H,S,D): upper bounds of what is stored for the entries; None where they are these."""

    @abstractmethod
    def roundoff_again(self, precision: Precision) -> float:
        """The roundoff of the roundings when entries are read back."""

    @property
    @abstractmethod
    def roundings_again(self) -> int:
        """How often an entry is rounded when it is read back."""

    @property
    @abstractmethod
    def has_offset(self) -> bool:
        """Whether something is subtracted from larger numbers when entries are read back."""

    @property
    @abstractmethod
    def clips(self) -> bool:
        """Whether large entries may be clipped, all in the same direction."""

    @property
    @abstractmethod
    def relative(self) -> float:
        """Half a unit, relative to a weight."""

    @property
    @abstractmethod
    def least_distance(self) -> float:
        """Half the least distance of two numbers of the format, for weights."""

    @property
    @abstractmethod
    def least_relative(self) -> float:
        """The least weight that is rounded relatively."""


def _read_stored(word: str, value: object) -> StoredForm:
    """The format, as the aspect reads it that knows such words."""
    stored: StoredForm = next(iter(load_parts("stored_format"))).read_stored(word, value)
    return stored


_DTYPE_WORDS = ("output", "accumulate", "softmax", "row_sum", "logits", "weights", "prescale",
                "scale", "logsumexp", "angle", "rotation", "dequantised")
_COUNT_WORDS = ("logit_roundings", "weight_roundings", "prescale_roundings", "scale_roundings",
                "logsumexp_roundings", "block")
WORDS_BESIDE_POINTS = ("output", "exp_ulps", "tanh_ulps", "pow_ulps", "sincos_ulps", "tanh_by_exp",
                       "block", "bias_in_accumulator", "flushes_subnormals", *STORED_WORDS)
"""Words that do not say where, in between, something is rounded."""
_ULPS_WORDS = ("exp_ulps", "tanh_ulps", "pow_ulps", "sincos_ulps")
_LARGEST_NUMBERS = {**dict.fromkeys(_ULPS_WORDS, 2**20), "block": 2**30}
_MOST_ROUNDINGS = 64
_FLAG_WORDS = ("bias_in_accumulator", "flushes_subnormals", "tanh_by_exp")
SYSTEMATIC_CHOICES = ("accumulator", "output")
VALUES_TRIED: Mapping[str, tuple[object, ...]] = MappingProxyType({
    "grade": tuple(GRADES), **dict.fromkeys(_DTYPE_WORDS, tuple(dtype.value for dtype in DType)),
    **dict.fromkeys(_COUNT_WORDS, (0, 1, 2, 4, _MOST_ROUNDINGS)), "block": (1, 16, 512),
    **dict.fromkeys(_ULPS_WORDS, (0.5, 20, 940, 2**13, 2**17, 2**20)),
    **dict.fromkeys(_FLAG_WORDS, (False, True)),
    "systematic": SYSTEMATIC_CHOICES, **dict.fromkeys(STORED_WORDS, ())})
"""By word, all values that it may take; of numbers, the ends and documented ones."""
PRECISION_WORDS = tuple(each.name for each in fields(Precision) if each.name != "dtype")


@functools.cache
def precision_of_grade(grade: str, dtype: DType) -> Precision:
    """The class of a grade. A float32 or float64 subject has one class: its dtype throughout.

    Scaling is counted once, where it costs most: in query (and key). So the roundings of the
    logits are those of the product alone, and those of the scale are the square root and its
    reciprocal.
    """
    if not DTYPES[dtype].is_half:
        return Precision(grade, **dict.fromkeys(("dtype", *_DTYPE_WORDS), dtype))  # type: ignore[arg-type]  # by name
    # what a grade does not round is computed in float32
    rung, wide = int(grade[1:]), DType.FLOAT32
    # from_grade[n]: the dtype, from grade n on
    from_grade = [dtype if rung >= first else wide for first in range(5)]
    return Precision(
        grade, dtype, dtype, wide, softmax=from_grade[4], row_sum=wide, logits=from_grade[3],
        weights=from_grade[1], prescale=from_grade[2], scale=from_grade[3],
        logsumexp=from_grade[4], angle=wide, rotation=from_grade[3], dequantised=from_grade[3],
        logit_roundings=int(rung >= 3), prescale_roundings=1 if rung >= 2 else 2,
        scale_roundings=1 if rung == 3 else 2, systematic="output")


def assumed_precision(dtype: DType) -> Precision:
    """The class of a function that declares nothing: its own dtype, or G3 if that is half."""
    return precision_of_grade("G3" if DTYPES[dtype].is_half else "G0", dtype)


_RANGE_OF_FLOAT32 = {"logits": DType.FLOAT32, "accumulate": DType.BFLOAT16,
                     "softmax": DType.BFLOAT16}


def with_range_of_float32(precision: Precision) -> Precision:
    """The same class, with a range in which no logit up to float32's largest overflows.

    Who has a logit at all that float16 cannot hold stores it wider; what else float16 rounds has
    the range of bfloat16, which rounds no finer.
    """
    wider = {word: dtype for word, dtype in _RANGE_OF_FLOAT32.items()
             if DTYPES[getattr(precision, word)].has_short_range}
    return replace(precision, **wider)  # type: ignore[arg-type]  # by name


def declared_precision(declared: Mapping[str, object] | None, dtype: DType) -> Precision:
    """The class that a manifest declares for a dtype; None: the one assumed of a bare function.

    Raises ManifestError for an unknown word or value, and where a class looser than the assumed
    one gives no reason.
    """
    if declared is None:
        return assumed_precision(dtype)
    # before any value is read: a misspelt word would be left out in silence
    for word in declared:
        if word not in PRECISION_WORDS:
            raise ManifestError.unknown("word of a precision class", word, PRECISION_WORDS)
    base = _read_grade(declared.get("grade"), dtype)
    changes = {word: _read_word(word, value) for word, value in declared.items()
               if word != "grade"}
    return _check_reason(replace(base, **_imply_words(changes, base), **changes))  # type: ignore[arg-type]  # checked by _value


def named_precision(text: str, dtype: DType) -> Precision:
    """The class that a record names: `G0, stored_key int8 by token`."""
    return declared_precision({**dict(_words_in(text)), "reason": "declared"}, dtype)


def _words_in(text: str) -> Iterator[tuple[str, object]]:
    grade, *others = text.split(", ")
    yield "grade", grade
    for each in others:
        word, _, value = each.partition(" ")
        yield word, yaml.safe_load(value.lower() if value in {"True", "False"} else value)


def looser_words(precision: Precision, other: Precision) -> tuple[str, ...]:
    """The words in which a class rounds more, or more coarsely, than another.

    The number of roundings and the format to which they go count together.
    """
    return tuple(word for word in PRECISION_WORDS
                 if word not in ("grade", "reason", *_ROUNDING_COUNTS.values())
                 and _looseness(word, precision) > _looseness(word, other))


_ROUNDING_COUNTS = {"logits": "logit_roundings", "weights": "weight_roundings",
                    "prescale": "prescale_roundings",
                    "scale": "scale_roundings", "logsumexp": "logsumexp_roundings"}


def _looseness(word: str, precision: Precision) -> float:
    value = getattr(precision, word)
    if word == "systematic":
        return float(SYSTEMATIC_CHOICES.index(value))
    if word in _ROUNDING_COUNTS:
        return DTYPES[value].roundoff * float(getattr(precision, _ROUNDING_COUNTS[word]))
    if word in _DTYPE_WORDS:
        return DTYPES[value].roundoff
    if word in STORED_WORDS:
        return float(value is not None)  # any format at all needs a reason
    return -float(value) if word == "block" else float(value)


def _read_grade(grade: object, dtype: DType) -> Precision:
    if grade is None:
        return assumed_precision(dtype)
    if not isinstance(grade, str) or grade not in GRADES:
        raise ManifestError.unknown("grade", grade, GRADES)
    return precision_of_grade(grade, dtype)


def _imply_words(changes: Mapping[str, object], base: Precision) -> dict[str, object]:
    """What a coarse softmax implies: its inputs and outputs are rounded, and its sums, too."""
    softmax = changes.get("softmax")
    if not isinstance(softmax, DType) or DTYPES[softmax].roundoff <= DTYPES[base.softmax].roundoff:
        return {}
    implied: dict[str, object] = {"logits": softmax, "logit_roundings": base.logit_roundings + 1,
                                  "weights": softmax}
    if not DTYPES[softmax].is_half:
        # sums of a half softmax stay in float32, unless that is declared otherwise
        implied["row_sum"] = softmax
    return {word: value for word, value in implied.items() if word not in changes}


def _check_reason(precision: Precision) -> Precision:
    # the assumed class is what any function may be, so that more needs evidence
    looser = looser_words(precision, assumed_precision(precision.dtype))
    if looser and not precision.reason:
        words = ", ".join(f"{word} {_format_value(getattr(precision, word))}" for word in looser)
        raise ManifestError(f"this precision class for {precision.dtype.value} is looser than the "
                            f"assumed one ({words}); give a reason: where the library documents "
                            "it, or how it was established.")
    return precision


def _read_word(word: str, value: object) -> object:
    if word in _DTYPE_WORDS:
        names = {dtype.value: dtype for dtype in DType}
        if not isinstance(value, str) or value not in names:
            raise ManifestError.unknown(f"dtype (of {word!r} in a precision class)", value, names)
        return names[value]
    if word == "systematic":
        if value not in SYSTEMATIC_CHOICES:
            raise ManifestError.unknown(f"choice (of {word!r} in a precision class)", value,
                                        SYSTEMATIC_CHOICES)
        return value
    if word in STORED_WORDS:
        return _read_stored(word, value)
    kinds, meaning = _word_kind(word)
    is_number = int in kinds
    is_usable = isinstance(value, kinds) and not (is_number and isinstance(value, bool))
    if not is_usable or (is_number and not float(str(value)) >= (1 if word == "block" else 0)):
        raise ManifestError(
            f"{word!r} in a precision class must be {meaning}, not {quote_value(value)}.")
    if is_number and float(str(value)) > (most := _LARGEST_NUMBERS.get(word, _MOST_ROUNDINGS)):
        raise ManifestError(f"{word!r} in a precision class can be {most} at most, not {value}: "
                            "a larger one would excuse any answer.")
    return value


def _word_kind(word: str) -> tuple[tuple[type, ...], str]:
    """The types that a value may have, and how a message says it."""
    if word in _FLAG_WORDS:
        return (bool,), "true or false"
    if word == "reason":
        return (str,), "text"
    if word in _ULPS_WORDS:
        return (int, float), "a number, not negative"
    if word == "block":
        return (int,), "a whole number, at least 1"
    return (int,), "a whole number, not negative"


def _format_value(value: object) -> str:
    return value.value if isinstance(value, DType) else str(value)
