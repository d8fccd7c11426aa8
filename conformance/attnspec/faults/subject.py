"""Faults and sound formulations as subjects, `fault/NAME` and `sound/NAME`; and doubles of faults.

A fault that is compared with itself agrees bit for bit, which proves nothing of a diagnosis. Its
double has the mistake in the same stages and computes every sound stage in another arithmetic, as
someone else's code with this bug would.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from attnspec.core.declaration import Declaration
from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.errors import FileLocation
from attnspec.core.keyword import CACHES_POOL, GRAD
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import DType
from attnspec.core.plan import FAULT, SOUND, is_fault
from attnspec.faults import staged as sound
from attnspec.faults.backward import AttendBackward, BackwardMethod, Stored, as_backward
from attnspec.faults.catalogue import CATALOGUE, OTHER_PATH, declaration_of, fault_named
from attnspec.faults.fault import WrongForm
from attnspec.faults.precision import round_through
from attnspec.faults.size_family import SEEDED
from attnspec.faults.sizes.families import FAMILIES
from attnspec.faults.sound import EVERY as FORMULATIONS
from attnspec.faults.sound import declaration_of_sound, sound_named
from attnspec.faults.staged import SOUND as SOUND_STAGES
from attnspec.faults.staged import Attend, Stages, computing
from attnspec.faults.staged_work import HandedOver, PreparedCall
from attnspec.numerics.precision import Precision
from attnspec.numerics.roundings import roundings
from attnspec.problems.problem import Array
from attnspec.subjects.call import BackwardPass
from attnspec.subjects.callee import Callee, InProcess
from attnspec.subjects.manifest import Library
from attnspec.subjects.subject import Subject


class SoundArithmetic(enum.Enum):
    """How a double computes what is sound.

    REORDERED: the query is scaled beforehand, sums run from the last term to the first, 2^x serves
    for the exponential and a reciprocal for the division.  WIDE: in float64.  STORED: logits and
    weights are rounded to the dtype of the inputs, as eager code does (grade G3); for half dtypes
    alone.
    """

    REORDERED = "reordered"
    WIDE = "wide"
    STORED = "stored"


def _prescaled_logits(work: PreparedCall, factor: float) -> Array:
    """Logits (B,H,T,S) of a query scaled beforehand, summed from the last feature to the first."""
    query = work.query * work.query.dtype.type(factor)
    return query[..., ::-1] @ work.key[..., ::-1].swapaxes(-1, -2)


def _by_powers_of_two(logits: Array, work: PreparedCall) -> Array:
    """Weights (B,H,T,S) by powers of 2 and a reciprocal, summed from the last key to the first."""
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    lowered = logits - np.where(np.isneginf(top), 0, top)
    grown = np.exp2(lowered * logits.dtype.type(np.log2(np.e)))
    total = grown[..., ::-1].sum(axis=-1, keepdims=True)
    return grown * (1 / np.where(total == 0, 1, total))


def _from_the_last(weights: Array, work: PreparedCall) -> Array:
    """The output (B,H,T,Dv), summed from the last key to the first."""
    turned = work.but(value=work.value[:, :, ::-1], visible=work.visible[..., ::-1])  # mix looks at both
    return sound.mix(weights[..., ::-1], turned)


def _in_float64(call: HandedOver) -> PreparedCall:
    work = sound.take(call)
    query, key, value = (array.astype(np.float64) for array in (work.query, work.key, work.value))
    bias = None if work.bias is None else work.bias.astype(np.float64)
    return work.but(query=query, key=key, value=value, bias=bias)


def _storing_stages(io: np.dtype[Any]) -> Stages:
    def logits(work: PreparedCall, factor: float) -> Array:
        """Logits (B,H,T,S), rounded to `io` before and after the scale."""
        return round_through(round_through(sound.logits(work, 1.0), io) * np.float32(factor), io)

    def softmax(logits: Array, work: PreparedCall) -> Array:
        """Weights (B,H,T,S), rounded to `io`."""
        return round_through(sound.softmax(logits, work), io)

    return replace(SOUND_STAGES, logits=logits, softmax=softmax)


def _stages(arithmetic: SoundArithmetic, io: np.dtype[Any]) -> Stages:
    match arithmetic:
        case SoundArithmetic.REORDERED:
            return replace(SOUND_STAGES, logits=_prescaled_logits, softmax=_by_powers_of_two, mix=_from_the_last)
        case SoundArithmetic.WIDE:
            return replace(SOUND_STAGES, take=_in_float64)
        case SoundArithmetic.STORED:
            return _storing_stages(io)


@dataclass(frozen=True, slots=True)
class Noise:
    """Monte Carlo arithmetic (Parker 1997): each sound stage has random relative errors of a
    class's roundings.

    It moves an answer as far as rounding of that class may move it, whether the answer is right or
    wrong.
    """

    precision: Precision
    seed: int

    def stages(self) -> Stages:
        """The stages with noise, seeded anew: the same for the same calls in the same order."""
        random, r = np.random.default_rng(self.seed), roundings(self.precision)
        of_logits = r.prescale + r.scale + r.biased_logits + r.argument + r.accumulate
        of_weights, of_output = r.weights + r.exp + 2 * r.softmax, r.output + r.accumulate

        def off(array: Array, relative: float) -> Array:
            """Logits, weights (B,H,T,S) or output (B,H,T,Dv), each entry up to `relative` off."""
            return (array * (1 + relative * random.uniform(-1, 1, array.shape))).astype(array.dtype)

        return replace(
            SOUND_STAGES, logits=lambda work, factor: off(sound.logits(work, factor), of_logits),
            softmax=lambda logits, work: off(sound.softmax(logits, work), of_weights),
            finish=lambda output, work: off(sound.finish(output, work), of_output))


def noisy(subject: Subject, noise: Noise) -> Subject:
    """The subject with noise in every sound stage."""
    stages = noise.stages()
    return replace(subject, callee=_compute_in(subject.callee, lambda _: stages),
                   variants={key: noisy(variant, noise) for key, variant in subject.variants.items()})


def double(subject: Subject, arithmetic: SoundArithmetic) -> Subject:
    """The double of a fault; one that stores intermediate results declares so."""
    declared, name = subject.declaration, f"double of {subject.id} ({arithmetic.value})"
    precision: Mapping[DType, Mapping[str, object]] = declared.precision
    if arithmetic is SoundArithmetic.STORED:
        precision = {dtype: {"grade": "G3"} for dtype in HALF_DTYPES}
    return replace(subject, id=name, callee=_compute_in(subject.callee, partial(_stages, arithmetic)),
                   declaration=replace(declared, precision=precision),
                   variants={key: double(variant, arithmetic) for key, variant in subject.variants.items()})


def _compute_in(callee: Callee, stages: Callable[[np.dtype[Any]], Stages]) -> InProcess:
    assert isinstance(callee, InProcess)  # doubles are made of attnspec's own faults
    function = callee.function

    def compute(query: Array, *others: Array, **keywords: object) -> object:
        """The answer to query (B,H,T,D), in a layer (B,T,M), with sound stages by `stages`."""
        with computing(stages(query.dtype)):
            return function(query, *others, **keywords)
    return InProcess(compute, backward=callee.backward)


_BACKWARD = BackwardPass("attend_backward", frozenset(OFF))
_LIBRARY = Library("attnspec's own faults", distribution="attnspec", homepage="")


def own_ids(seed: str = "") -> tuple[str, ...]:
    """The ids of all faults and sound formulations; with a seed, of the families that it draws."""
    if seed:
        return tuple(f"{FAULT}{name}{SEEDED}{seed}" for name in FAMILIES)
    return (*(FAULT + name for name in CATALOGUE), *(SOUND + name for name in (*FORMULATIONS, *SOUND_BACKWARD)))


def own_subject(target: str) -> Subject:
    """The subject of this name, `fault/NAME` or `sound/NAME`. Raises TargetError."""
    return fault_subject(target) if is_fault(target) else sound_subject(target)


def fault_subject(target: str) -> Subject:
    """The fault as a subject. Raises TargetError, with the nearest name, if there is none."""
    fault = fault_named(target.removeprefix(FAULT))
    place = FileLocation(f"faults/{fault.stage}")
    backward = fault.backward() if fault.backward else None
    subject = Subject(target, fault.story, InProcess(fault.function, backward=backward), declaration_of(fault), place,
                      _LIBRARY, backward=_BACKWARD if backward else None)
    if fault.made:
        return replace(subject, made={fault.made.form: _in_form(subject, fault.made)})
    if fault.other_path is None:
        return subject
    other = replace(subject, id=f"{target} ({OTHER_PATH})", callee=InProcess(fault.other_path()))
    return replace(subject, variants={OTHER_PATH: other})


def _in_form(subject: Subject, wrong: WrongForm) -> Subject:
    """The subject in the form in which the fault is wrong."""
    backward = wrong.backward() if wrong.backward else None
    return replace(subject, id=f"{subject.id} ({wrong.form})", callee=InProcess(wrong.make(), backward=backward))


def sound_subject(target: str) -> Subject:
    """The sound formulation as a subject. Raises TargetError with the nearest name."""
    if (name := target.removeprefix(SOUND)) in SOUND_BACKWARD:
        return _with_backward(target, SOUND_BACKWARD[name])
    sound = sound_named(name)
    backward = sound.backward() if sound.backward else None
    return Subject(target, sound.meaning, InProcess(sound.function, backward=backward), declaration_of_sound(sound),
                   FileLocation("faults/sound.py"), _LIBRARY, backward=_BACKWARD if backward else None)


def _with_backward(target: str, sound: SoundBackward) -> Subject:
    """A sound backward pass beside the forward pass of its class."""
    callee = InProcess(sound.function, backward=sound.backward)
    place = FileLocation("faults/subject.py")
    return Subject(target, sound.meaning, callee, declaration_of_pair(sound), place, _LIBRARY, backward=_BACKWARD)


# Correct backward passes that compute in different ways, each beside a forward pass of the same class


@dataclass(frozen=True, slots=True)
class SoundBackward:
    """A correct attention with its backward pass.

    forward: the formulation of the forward pass, whose grade both have.  declared: where the class
    of the backward pass differs from the grade, with the reason.
    """

    name: str
    meaning: str
    way: BackwardMethod
    forward: str = "naive"
    declared: Mapping[str, object] = field(default_factory=dict)

    @property
    def grade(self) -> str:
        """The grade of both passes in half dtypes."""
        return FORMULATIONS[self.forward].grade

    @property
    def function(self) -> Attend:
        """A freshly made forward pass."""
        return FORMULATIONS[self.forward].make()

    @property
    def backward(self) -> AttendBackward:
        """The backward pass."""
        return as_backward(self.way)


def declaration_of_pair(sound: SoundBackward) -> Declaration:
    """The declaration of the forward pass, with gradients and without the keywords of caches."""
    base = declaration_of_sound(FORMULATIONS[sound.forward])
    keywords = frozenset(name for name in base.keywords if KEYWORDS[name].pool != CACHES_POOL) | {GRAD}
    backward = dict.fromkeys(DType, sound.declared) if sound.declared else {}
    profiles = dict.fromkeys(KEYWORDS[name].profile for name in keywords)
    claims = tuple(profile for profile in profiles if profile in base.claims)
    return replace(base, keywords=keywords, backward_precision=backward, claims=(*claims, KEYWORDS[GRAD].profile))


def _stored_results(text: str) -> frozenset[Stored]:
    return frozenset(text.split())  # type: ignore[arg-type]  # written out below


_FLASH = _stored_results("weights grads")
_ALL = _stored_results("logits weights kept products grads scaled group")
_REASON = "made so, to be judged"

SOUND_BACKWARD: Mapping[str, SoundBackward] = {each.name: each for each in (
    SoundBackward("backward_eager", "P is kept, delta is the sum of P·dP",
                  BackwardMethod(delta="products", is_recomputed=False)),
    SoundBackward("backward_einsum", "P·dP - P·delta, products by einsum",
                  BackwardMethod(delta="products", is_recomputed=False, is_apart=True, uses_einsum=True)),
    SoundBackward("backward_float64", "all in float64, rounded once",
                  BackwardMethod(delta="products", is_recomputed=False, is_float64=True), "float64_inside"),
    SoundBackward("backward_split_scale", "the scale's root on query and key",
                  BackwardMethod(delta="products", is_recomputed=False, scaling="both")),
    SoundBackward("backward_recomputed", "P from the log-sum-exp, in blocks of 8, delta of the unrounded output",
                  BackwardMethod(block=8, scaling="query")),
    SoundBackward("backward_flash", "P from the log-sum-exp, in blocks; P and dS are stored; delta of the output",
                  BackwardMethod(_FLASH, "output", block=8), "fused_blocks"),
    SoundBackward("backward_flash_exp2", "the same by 2^x, the keys reversed",
                  BackwardMethod(_FLASH, "output", block=4, is_reversed=True, base_two=True), "fused_blocks"),
    SoundBackward("backward_flash_heads", "the same with a scaled query, a head's dK and dV stored",
                  BackwardMethod(_FLASH | _stored_results("group"), "output", block=16, scaling="query"),
                  "fused_blocks"),
    SoundBackward("backward_weights_stored", "P kept and stored, delta of the output",
                  BackwardMethod(_stored_results("weights"), "output", is_recomputed=False), "fused_blocks"),
    SoundBackward("backward_scores_stored", "dS stored, sums reversed",
                  BackwardMethod(_stored_results("grads"), "products", is_recomputed=False, is_reversed=True),
                  "fused_blocks"),
    SoundBackward("backward_products_stored", "P, dP and dS stored",
                  BackwardMethod(_FLASH | _stored_results("products"), "products", is_recomputed=False), "fused_blocks",
                  {"products": 1, "reason": _REASON}),
    SoundBackward("backward_unnormalised", "delta is the sum of P·dP with P from the log-sum-exp",
                  BackwardMethod(_FLASH, "products", block=8), "fused_blocks",
                  {"is_normalised": False, "reason": _REASON}),
    SoundBackward("backward_stored", "every intermediate result is stored",
                  BackwardMethod(_ALL, "products", is_recomputed=False), "eager"),
    SoundBackward("backward_stored_apart", "the same by P·dP - P·delta, sums reversed",
                  BackwardMethod(_ALL, "products", is_recomputed=False, is_apart=True, uses_einsum=True,
                                 is_reversed=True), "eager"),
    SoundBackward("backward_partial", "flash, whose partial sums of 8 terms are stored",
                  BackwardMethod(_FLASH | _stored_results("partial"), "output", block=8),
                  "fused_blocks", {"partial": 8, "reason": _REASON}),
    SoundBackward("backward_dropout", "P and the factors of what is kept are kept; delta is the sum of P·dP",
                  BackwardMethod(delta="products", is_recomputed=False), "dropout_by_counter"),
    SoundBackward("backward_dropout_anew", "P from the log-sum-exp, and the factors drawn anew, in blocks",
                  BackwardMethod(block=8), "dropout_by_counter"),
    SoundBackward("backward_dropout_flash", "the same; P and dS are stored; delta of the output",
                  BackwardMethod(_FLASH, "output", block=8), "dropout_fused"),
)}
