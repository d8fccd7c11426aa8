"""Which precision class explains what a subject answered: a fingerprint, read off a panel of generic values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnspec.core.nouns import DType
from attnspec.numerics.expectation import expect
from attnspec.numerics.precision import BESIDE_POINTS, GRADES, Precision, graded, is_half
from attnspec.problems.problem import Array, Problem

TYPICAL = frozenset({"typical"})


@dataclass(frozen=True, slots=True)
class Fit:
    """A class, and the worst error of the panel over what the class allows; it explains the panel up to 1.

    Infinite where an entry is not finite, or where nothing lies in the domain of the class.
    """

    name: str
    ratio: float

    @property
    def explains(self) -> bool:
        """Whether no entry is further off than the class allows."""
        return self.ratio <= 1


def tightest(fits: Sequence[Fit]) -> Fit | None:
    """The first that explains the panel; `fits` go from the tightest to the loosest class."""
    return next((fit for fit in fits if fit.explains), None)


def ladder(declared: Precision) -> Mapping[str, Precision]:
    """Classes by name, from the tightest to the loosest, for subjects of this dtype.

    What says nothing of rounding points (exp, blocks, subnormals) is taken from the declared class. The coarser classes
    of float32 and float64 are those of inputs, weights and softmax stored in a narrower format.
    """
    if is_half(declared.dtype):
        return {name: _with_declared_words(graded(name, declared.dtype), declared) for name in GRADES}
    own = _with_declared_words(graded("G0", declared.dtype), declared)
    coarser = _COARSER[declared.dtype]
    rungs = {name: replace(own, **words) for name, words in coarser.items()}  # type: ignore[arg-type]  # by name
    return {own.dtype.value: own, **rungs}


def _with_declared_words(rung: Precision, declared: Precision) -> Precision:
    return replace(rung, **{word: getattr(declared, word) for word in BESIDE_POINTS})


def _narrow(dtype: DType, roundings: int) -> Mapping[str, object]:
    """Inputs in a narrower format. Queries and keys, then values and weights, lose `roundings` roundings each."""
    return {"prescale": dtype, "prescale_roundings": 2 * roundings, "weights": dtype, "weight_roundings": 2 * roundings}


_SINGLE = DType.FLOAT32
_STORAGES = ("accumulate", "softmax", "row_sum", "logits", "weights", "prescale", "scale")
_COARSER: Mapping[DType, Mapping[str, Mapping[str, object]]] = {
    DType.FLOAT64: {
        "softmax in float32": {"logits": _SINGLE, "logit_roundings": 1, "softmax": _SINGLE, "row_sum": _SINGLE,
                               "weights": _SINGLE},
        "float32": {**dict.fromkeys(_STORAGES, _SINGLE), "weight_roundings": 3, "prescale_roundings": 4}},
    # cutting mantissas off costs two roundings; TF32 keeps as many bits as float16 does
    DType.FLOAT32: {"inputs in TF32": _narrow(DType.FLOAT16, 2), "inputs in bfloat16": _narrow(DType.BFLOAT16, 2)},
}


def fingerprint(problem: Problem, output: Array, declared: Precision, *, conventions: Mapping[str, str],
                scale_width: int | None, false_alarm: float) -> tuple[Fit, ...]:
    """How well each class of the ladder explains an output (B,H,T,Dv) to a problem of generic values.

    false_alarm: the chance, at most, that the class a subject is of does not explain it.
    """
    return tuple(fitted(problem, output, precision, name=name, conventions=conventions, scale_width=scale_width,
                        false_alarm=false_alarm) for name, precision in ladder(declared).items())


def fitted(problem: Problem, output: Array, precision: Precision, *, name: str, conventions: Mapping[str, str],
           scale_width: int | None, false_alarm: float) -> Fit:
    """How well one class explains an output (B,H,T,Dv); see `fingerprint`."""
    expected = expect(problem, precision, conventions=conventions, scale_width=scale_width, parts=TYPICAL)
    allowance = expected.typical_allowance(false_alarm)
    claimed = np.broadcast_to(expected.claimed[..., None], output.shape)
    return Fit(name, _worst(np.abs(output - expected.output)[claimed], allowance[claimed]))


def _worst(gap: Array, allowance: Array) -> float:
    """The largest gap over its allowance, any shape; infinite where nothing is claimed or a gap is not finite."""
    if not gap.size or not np.isfinite(gap).all():
        return float("inf")
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(gap == 0, 0.0, gap / allowance).max())
