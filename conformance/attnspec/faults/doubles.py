"""The same mistakes in another arithmetic.

A fault compared with itself agrees bit for bit, which proves nothing of a diagnosis. Its double makes the mistake of
the same stages and computes every sound stage otherwise: what someone else's code with this bug would answer.
"""

# mypy: no-warn-return-any
# (reason: arithmetic on arrays of any dtype is Any to mypy; the arrays' types are declared all the same)

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.nouns import DType
from attnspec.faults import staged as sound
from attnspec.faults.precision import through
from attnspec.faults.staged import SOUND, Stages, computing
from attnspec.faults.work import HandedOver, PreparedCall
from attnspec.numerics.precision import Precision, is_half
from attnspec.numerics.roundings import roundings
from attnspec.problems.problem import Array
from attnspec.subjects.callee import Callee, InProcess
from attnspec.subjects.subject import Subject


class SoundArithmetic(enum.Enum):
    """How a double computes what is sound.

    REORDERED: the query is scaled beforehand, sums run from the last term to the first, 2^x serves for the exponential
    and a reciprocal for the division; as wide as the fault.  WIDE: in float64.  STORED: logits and weights are rounded
    to the dtype of the inputs, as eager code does (grade G3); half dtypes only, elsewhere there is nothing to round.
    """

    REORDERED = "reordered"
    WIDE = "wide"
    STORED = "stored"


def _prescaled(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of a query that is scaled beforehand, summed from the last feature to the first."""
    query = work.query * work.query.dtype.type(factor)
    return query[..., ::-1] @ work.key[..., ::-1].swapaxes(-1, -2)


def _by_powers_of_two(logits: Array, work: PreparedCall) -> Array:  # noqa: ARG001  (the stage's signature)
    """Weights (B,H,T,S) as powers of two, summed from the last key, times the reciprocal of the sum."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    lowered = logits - np.where(np.isneginf(top), 0, top)
    grown = np.exp2(lowered * logits.dtype.type(np.log2(np.e)))
    total = grown[..., ::-1].sum(axis=-1, keepdims=True)
    return grown * (1 / np.where(total == 0, 1, total))


def _from_the_last(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), keys taken from the last to the first."""
    turned = work.but(value=work.value[:, :, ::-1], visible=work.visible[..., ::-1])  # mix looks at both
    return sound.mix(weights[..., ::-1], turned)


def _in_float64(call: HandedOver) -> PreparedCall:
    work = sound.take(call)
    query, key, value = (array.astype(np.float64) for array in (work.query, work.key, work.value))
    return work.but(query=query, key=key, value=value, bias=None if work.bias is None else work.bias.astype(np.float64))


def _stored(io: np.dtype[Any]) -> Stages:
    def logits(work: PreparedCall, factor: float) -> Array:
        """Logits (B,H,T,S) rounded to `io` before the scale and after it."""
        return through(through(sound.logits(work, 1.0), io) * np.float32(factor), io)

    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S) rounded to `io`."""
        return through(sound.softmax(logits, work), io)

    return replace(SOUND, logits=logits, softmax=softmax)


def _stages(arithmetic: SoundArithmetic, io: np.dtype[Any]) -> Stages:
    match arithmetic:
        case SoundArithmetic.REORDERED:
            return replace(SOUND, logits=_prescaled, softmax=_by_powers_of_two, mix=_from_the_last)
        case SoundArithmetic.WIDE:
            return replace(SOUND, take=_in_float64)
        case SoundArithmetic.STORED:
            return _stored(io)


@dataclass(frozen=True, slots=True)
class Noise:
    """Monte Carlo arithmetic (Parker 1997): every sound stage off by random relative errors of a class's roundings.

    How far that moves an answer is how far the rounding of that class may move it, be the answer right or wrong.
    """

    precision: Precision
    seed: int

    def stages(self) -> Stages:
        """Freshly seeded: the same noise for the same calls in the same order."""
        random, r = np.random.default_rng(self.seed), roundings(self.precision)
        of_logits = r.prescale + r.scale + r.biased_logits + r.argument + r.accumulate
        of_weights, of_output = r.weights + r.exp + 2 * r.softmax, r.output + r.accumulate

        def off(array: Array, relative: float) -> Array:
            """Logits or weights (B,H,T,S), or output (B,H,T,Dv), each entry off by up to `relative`."""
            return (array * (1 + relative * random.uniform(-1, 1, array.shape))).astype(array.dtype)

        return replace(
            SOUND, logits=lambda work, factor: off(sound.logits(work, factor), of_logits),
            softmax=lambda logits, work: off(sound.softmax(logits, work), of_weights),
            finish=lambda output, work: off(sound.finish(output, work), of_output))


def noisy(subject: Subject, noise: Noise) -> Subject:
    """The subject with noise in every stage that is sound."""
    stages = noise.stages()
    return replace(subject, callee=_compute_in(subject.callee, lambda _: stages),
                   variants={key: noisy(variant, noise) for key, variant in subject.variants.items()})


def double(subject: Subject, arithmetic: SoundArithmetic) -> Subject:
    """The double of a fault; one that stores its intermediate results declares that it does."""
    declared, name = subject.declaration, f"double of {subject.id} ({arithmetic.value})"
    precision: Mapping[DType, Mapping[str, object]] = declared.precision
    if arithmetic is SoundArithmetic.STORED:
        precision = {dtype: {"grade": "G3"} for dtype in DType if is_half(dtype)}
    return replace(subject, id=name, callee=_compute_in(subject.callee, partial(_stages, arithmetic)),
                   declaration=replace(declared, precision=precision),
                   variants={key: double(variant, arithmetic) for key, variant in subject.variants.items()})


def _compute_in(callee: Callee, stages: Callable[[np.dtype[Any]], Stages]) -> InProcess:
    assert isinstance(callee, InProcess)  # doubles are made of attnspec's own faults
    function = callee.function

    def compute(query: Array, *others: Array, **keywords: object) -> object:
        """The answer to query (B,H,T,D), of a layer (B,T,M), while sound stages are computed by `stages`."""
        with computing(stages(query.dtype)):
            return function(query, *others, **keywords)
    return InProcess(compute, backward=callee.backward)
