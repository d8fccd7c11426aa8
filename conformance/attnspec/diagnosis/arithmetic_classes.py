"""The classes of arithmetic that a function may be of without saying so, and the words that declare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from attnspec.core.nouns import DType, Kind
from attnspec.diagnosis.rotary import narrow_for
from attnspec.numerics.precision import is_half
from attnspec.record.outcome import A_CHOICE

Words = Mapping[str, object]
"""A precision class as one declares it: see `numerics.precision`."""

FLUSHES: Words = MappingProxyType({"flushes_subnormals": True})

EXP_U20 = 20
"""Ulps of PyTorch's exponential in its flash kernel on CPU (pytorch#115151)."""

CUDA_EXPF = 2 + int(1.173 * 88)
"""Ulps of CUDA's __expf, 2 + floor(|1.173 x|), at the largest |x| whose exponential is a normal float32 number."""

FEXP_U20 = 940
"""Float32 ulps of PyTorch's exponential for half precision on CPU, a cubic that is off by 1.12e-4."""


@dataclass(frozen=True, slots=True)
class Wider:
    """A class of arithmetic: what such a function does, what would mend it, and the words that declare it.

    shows: whether it is so coarse that answers to ordinary values tell it from the declared class; a function whose
    ordinary answers are finer than that is none of it.  fits: the format that holds all answers; "" where none does.
    """

    cause: str
    advice: str
    words: Words
    shows: bool = False
    fits: str = ""


_SUBNORMALS = Wider("it treats subnormal numbers as 0", "Keep them (no flush-to-zero, no fast math)", FLUSHES)
_SEPARATE = "Divide by the sum of the exponentials"


def _stored_lse(dtype: str) -> Wider:
    """Split keys, rings and SciPy do so: it is less exact where logits are large, and nothing is wrong with it."""
    return Wider(f"its weights come from a log-sum-exp that is stored in {dtype}{A_CHOICE}", _SEPARATE,
                 {"logsumexp_roundings": 1})


def _of_half(dtype: str) -> tuple[Wider, ...]:
    whole = {"grade": "G4"}
    return (
        Wider(f"every step is rounded to {dtype}", "Form logits and softmax in float32", whole),
        Wider(f"its exponentials are off by up to {FEXP_U20} ulp of float32", "Use an exact exp",
              {"exp_ulps": FEXP_U20}),
        Wider(f"every step is rounded to {dtype}, and so are the sums", "Accumulate in float32",
              {**whole, "accumulate": dtype, "row_sum": dtype}),
        Wider(f"every step is rounded to {dtype}, and its weights come from a stored log-sum-exp", _SEPARATE,
              {**whole, "logsumexp_roundings": 1}))


def _of_single(dtype: str) -> tuple[Wider, ...]:
    return (
        Wider(f"its exponentials are off by up to {EXP_U20} ulp", "Use an exact exp", {"exp_ulps": EXP_U20}),
        Wider(f"its exponentials are off by up to {CUDA_EXPF} ulp", "Use an exact exp", {"exp_ulps": CUDA_EXPF}),
        _stored_lse(dtype),
        Wider("the inputs of its products are rounded to TF32", "Turn TF32 off", _narrow("float16", 4), shows=True),
        Wider("the inputs of its products are rounded to bfloat16", "Multiply in float32", _narrow("bfloat16", 4),
              shows=True),
        *(Wider(f"it computes in {half} throughout", "Compute in float32", _all_in(half), shows=True, fits=half)
          for half in ("float16", "bfloat16")))


def _of_double(dtype: str) -> tuple[Wider, ...]:
    return (
        _stored_lse(dtype),
        Wider("its softmax is computed in float32", "Compute it in float64", {"softmax": "float32"}, shows=True),
        Wider("its softmax is computed in float32, and so are its logits", "Compute them in float64",
              _stored_in("float32", "softmax", "row_sum", "logits", "weights", "scale"), shows=True),
        Wider("it computes in float32 throughout", "Compute in float64",
              _all_in("float32"), shows=True, fits="float32"))


def _narrow(dtype: str, roundings: int) -> Words:
    """Queries and keys, then values and weights, stored in a narrower format; cutting bits off costs two roundings."""
    return {"prescale": dtype, "prescale_roundings": roundings, "weights": dtype, "weight_roundings": roundings}


def _stored_in(dtype: str, *stored: str) -> Words:
    """These intermediate results in a narrower format; logits are rounded once more when they are scaled."""
    return {**dict.fromkeys(stored, dtype), "logit_roundings": 1}


def _all_in(dtype: str) -> Words:
    """Inputs and every intermediate result stored in a narrower format, and its softmax's words with it."""
    stored = ("output", "accumulate", "softmax", "row_sum", "logits", "weights", "prescale", "scale", "logsumexp")
    return {**_stored_in(dtype, *stored), "weight_roundings": 3, "prescale_roundings": 4}


def backward_classes_for(dtype: DType, kind: Kind) -> tuple[Wider, ...]:
    """What a backward pass may round besides, in words of `backward_precision`, the least first. A wider format has
    nothing to lose by it.
    """
    if not is_half(dtype) or kind is Kind.ROTARY:
        return ()
    products = Wider(f"the gradient of its weights is stored in {dtype.value}", "Keep it in float32", {"products": 1})
    if kind is not Kind.LAYER:
        return (products,)
    biases = Wider(f"partial sums of the gradients of its biases are stored in {dtype.value}", "Add them up in float32",
                   {"partial_biases": 1})
    return biases, products, Wider(f"{products.cause}, and so are partial sums of those of its biases",
                                   "Do both in float32", {**products.words, **biases.words})


def classes_for(dtype: DType, kind: Kind = Kind.ATTENTION) -> tuple[Wider, ...]:
    """The classes that are tried, the likelier first; each is followed by the same with subnormals that become 0."""
    if kind is Kind.ROTARY:
        return tuple(Wider(each.cause, each.advice, each.words) for each in narrow_for(dtype))
    of = _of_half if is_half(dtype) else _of_single if dtype is DType.FLOAT32 else _of_double
    return (_SUBNORMALS, *(each for alone in of(dtype.value) for each in (alone, _flushing(alone))))


def _flushing(wider: Wider) -> Wider:
    return replace(wider, cause=f"{wider.cause}, and {_SUBNORMALS.cause}", words={**wider.words, **FLUSHES})
