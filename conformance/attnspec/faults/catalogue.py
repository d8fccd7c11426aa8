"""The catalogue of faults: every fault by name, and what each declares when it is judged.

It has faults in forms that a framework makes of a sound function, and families of sizes made into
faults, by seed 0 or any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Declaration, Variant, asked_of
from attnspec.core.dtype import HALF_DTYPES
from attnspec.core.errors import TargetError
from attnspec.core.forms import (
    BESIDE_CACHE,
    CACHE,
    EXPRESSED,
    HELD_IN_CACHE,
    HELD_IN_PAGES,
    OF_ENTRIES,
    POSITIONS,
    ROTARY,
    ROTARY_PROFILE,
    SAID_BY_BORDERS,
    TABLE,
    InputForm,
    MadeForm,
)
from attnspec.core.keyword import CACHES_POOL, DROPOUT_POOL, GRAD, GRADIENTS_POOL, SERVING_POOL, Acts
from attnspec.core.keywords import KEYWORDS, UNCOMMON, acting_on
from attnspec.core.nouns import DType, Kind
from attnspec.faults import backward as edit
from attnspec.faults.backward import Reread, as_backward
from attnspec.faults.edges import CONSTANT_FAULTS, READ_FAULTS, TAIL_FAULTS
from attnspec.faults.fault import Fault, Stage, WrongForm, all_mistakes, of_aspects
from attnspec.faults.heads import HEAD_FAULTS, PATH_FAULTS, REPORT_FAULTS, SWITCH_FAULTS
from attnspec.faults.layers import LAYER_FAULTS
from attnspec.faults.mechanisms import BUGS, faults_of, link_of, reasons_without_fault
from attnspec.faults.packed import PACKED_FAULTS
from attnspec.faults.precision import DRIFT_FAULTS, PRECISION_FAULTS
from attnspec.faults.size_family import SEEDED, FaultFamily, Planted, axes_of, reach_of
from attnspec.faults.sizes.families import ALL_FAMILIES, FAMILIES
from attnspec.faults.sizes.keys import HIDING, KEYS
from attnspec.faults.sizes.rows import GRIDS, ROWS, WIDTHS
from attnspec.faults.softmax import BLOCK_FAULTS, EXPONENTIAL_FAULTS, SOFTMAX_FAULTS
from attnspec.faults.staged import SOUND, Attend, around, attention, staged
from attnspec.faults.staged_work import Answer, HandedOver, Mechanism
from attnspec.faults.state import INVARIANCE_FAULTS, PURITY_FAULTS, STATE_FAULTS
from attnspec.problems.problem import Array, Sizes

_TRACED_LENGTH = 4
"""The number of keys with which a function was traced, once and for all."""


def _constant_of_trace(array: Array) -> Array:
    """An array of any shape as it was when the function was traced: with other numbers."""
    return np.roll(array, 1)


def _of_first(array: Array) -> Array:
    """The first entry of the batch for all entries: (B,…) -> (B,…)."""
    return np.broadcast_to(array[:1], array.shape)


def _with_mask(change: Callable[[Array], Array]) -> Callable[[], Attend]:
    """A maker of functions that change the mask (B,H,T,S) of a call, if it has one."""
    def answer(call: HandedOver) -> Answer:
        return attention(call if call.mask is None else call.but(mask=change(np.asarray(call.mask))))

    return around(answer)


def _at_first_length(call: HandedOver) -> Answer:
    """The program is compiled for one number of keys, and has no room for more."""
    seen = np.arange(call.key.shape[2]) < _TRACED_LENGTH
    mask = np.ones(1, bool) if call.mask is None else np.asarray(call.mask)
    return attention(call.but(mask=np.broadcast_to(mask & seen, (*call.query.shape[:3], call.key.shape[2]))))


def _branch_of_trace(call: HandedOver) -> Answer:
    """The causal flag counts only if there are few keys, as at the export."""
    return attention(call.but(causal=False) if call.key.shape[2] >= _TRACED_LENGTH else call)


def _mask_of_first(mask: Array) -> Array:
    """The mask (B,H,T,S) of the first entry for all; one of fewer axes has no batch."""
    return _of_first(mask) if mask.ndim == len("BHTS") else mask


def _backward(form: MadeForm, reread: Reread) -> WrongForm:
    """The forward pass is sound in this form, too."""
    return WrongForm(form, staged(), lambda: as_backward(reread=reread))


def _dropped_anew(call: HandedOver) -> HandedOver:
    """Every other value is dropped and the rest doubled, as another draw would have it."""
    kept = (np.arange(call.value.shape[2]) % 2 == 0)[:, None]
    return call.but(value=(call.value * kept * 2).astype(call.value.dtype))


FORM_FAULTS: tuple[Fault, ...] = (
    Fault("compiled_for_first_shape", Stage.STATE,
          "The compiled program is that of the first shape, and is used for the next one.",
          "more than 4 keys, compiled", staged(), made=WrongForm("compile", around(_at_first_length))),
    Fault("compiled_value_kept", Stage.STATE,
          "The values are a constant of the compiled program: those with which it was traced.",
          "compiled", staged(), made=WrongForm("compile", around(
              lambda call: attention(call.but(value=_constant_of_trace(call.value)))))),
    Fault("compiled_mask_dropped", Stage.MASK,
          "A branch for the case that a compiler traces the function leaves the mask out.", "a mask, compiled",
          staged(), made=WrongForm("compile", staged(masked=lambda work: np.ones(work.shape, bool)))),
    Fault("compiled_backward_unmasked", GRAD, "The compiled backward pass does not see the mask.",
          "gradients of a mask, compiled", staged(), backward=as_backward,
          made=_backward("compile", edit.reread_without("mask"))),
    Fault("exported_branch_taken_once", Stage.CAUSAL, "A branch on the number of keys is taken once, at the export.",
          "causal with 4 keys and more, exported", staged(), made=WrongForm("export", around(_branch_of_trace))),
    Fault("exported_mask_constant", Stage.MASK,
          "The mask is a constant of the exported program: that with which it was traced.",
          "a mask, exported", staged(), made=WrongForm("export", _with_mask(_constant_of_trace))),
    Fault("onnx_scale_constant", Stage.SCALE, "The exported operator has no scale, so that its default is used.",
          "an explicit scale, in ONNX", staged(),
          made=WrongForm("onnx", around(lambda call: attention(call.but(scale=None)))),
          equivalents=dict.fromkeys((DType.FLOAT16, DType.BFLOAT16), "ONNX is asked at float32 and float64 alone")),
    Fault("mapped_first_entry", Stage.HEADS,
          "The rule for the mapped axis gives all entries the keys and values of the first.", "B > 1, mapped",
          staged(), made=WrongForm("vmap", around(
              lambda call: attention(call.but(key=_of_first(call.key), value=_of_first(call.value)))))),
    Fault("mapped_mask_of_first", Stage.MASK,
          "The mask is not mapped along with the queries: all entries have that of the first.",
          "masks that differ along the batch, mapped", staged(), made=WrongForm("vmap", _with_mask(_mask_of_first))),
    Fault("recomputed_dropout_drawn_anew", GRAD,
          "The recomputation drops the values of every second key and doubles the others; the forward pass keeps all.",
          "gradients, recomputed", staged(), backward=as_backward, made=_backward("checkpoint", _dropped_anew)),
    Fault("recomputed_without_mask", GRAD,
          "The mask is not handed over to what is computed again.", "gradients of a mask, recomputed", staged(),
          backward=as_backward, made=_backward("checkpoint", edit.reread_without("mask"))),
)


MECHANISMS: Mapping[str, Mechanism] = {
    **KEYS, **ROWS, **HIDING, **WIDTHS, **GRIDS,
    **dict(of_aspects(lambda aspect: aspect.mechanisms.items()))}


def draw_fault(family: FaultFamily, seed: int = 0) -> Fault:
    """The fault that a seed makes of a family: `NAME` for seed 0, `NAME@7` for seed 7."""
    planted = family.plant(seed)
    name = f"{family.name}{SEEDED}{seed}" if seed else family.name
    return Fault(name, family.stage, f"{family.story} {_numbers(planted)}", reach_of(planted, family.needs),
                 _maker(planted), link=link_of(family.name), planted=planted)


def _numbers(planted: Planted) -> str:
    """The second sentence of a story: what the seed has drawn. The reach tells the sizes."""
    size = f" a block, tile or grid of {planted.size}, and" if planted.size else ""
    return f"Seed {planted.seed} draws{size} where it shows."


def _maker(planted: Planted) -> Callable[[], Attend]:
    """A maker of attention that is wrong where the planted fault bites, and sound elsewhere."""
    stages = replace(SOUND, **MECHANISMS[planted.mechanism](planted.size))

    def answer(call: HandedOver) -> Answer:
        is_wrong = planted.bites(axes_of(_sizes(call)), call.keywords)
        return attention(call, stages if is_wrong else SOUND)

    return around(answer)


def _sizes(call: HandedOver) -> Sizes:
    B, H, T, D = call.query.shape
    Hkv, S, Dv = call.value.shape[1:]
    return Sizes(B, H, Hkv, T, S, D, Dv)


SIZE_FAULTS = tuple(map(draw_fault, ALL_FAMILIES))


def _faults_about(keyword: str) -> tuple[Fault, ...]:
    """The faults of a keyword, by the aspect itself, by backward passes, then by other aspects."""
    mistakes = all_mistakes()
    tables = [*(aspect.about for aspect in mistakes), *({GRAD: aspect.backward} for aspect in mistakes),
              *(aspect.beside for aspect in mistakes)]
    return tuple(fault for table in tables for fault in table.get(keyword, ()))


def _with_link(fault: Fault) -> Fault:
    """The fault with the first thread that `mechanisms` has for it, unless it has one itself."""
    return fault if fault.link else replace(fault, link=link_of(fault.name))


FIXED: tuple[Fault, ...] = tuple(map(_with_link, (
    *_faults_about("scale"), *HEAD_FAULTS, *EXPONENTIAL_FAULTS, *_faults_about("bias"), *_faults_about("mask"),
    *CONSTANT_FAULTS, *_faults_about("causal"), *SOFTMAX_FAULTS, *BLOCK_FAULTS, *TAIL_FAULTS, *REPORT_FAULTS,
    *PRECISION_FAULTS, *STATE_FAULTS, *PURITY_FAULTS, *LAYER_FAULTS, *SWITCH_FAULTS, *DRIFT_FAULTS, *READ_FAULTS,
    *PATH_FAULTS, *PACKED_FAULTS,
    *_faults_about(POSITIONS), *INVARIANCE_FAULTS, *of_aspects(lambda aspect: aspect.left_on),
    *(fault for name in UNCOMMON for fault in _faults_about(name)), *FORM_FAULTS,
    *of_aspects(lambda aspect: aspect.of_any_call),
)))
"""The faults that have no number to draw. The matrix of clauses and faults is about these."""

ALL: tuple[Fault, ...] = (*FIXED, *SIZE_FAULTS)
"""All faults: those that show only at certain sizes come last, as seed 0 draws them."""

CATALOGUE: Mapping[str, Fault] = {fault.name: fault for fault in ALL}

SEED = re.compile(r"-?\d{1,18}", re.ASCII)

ATTENTION_PROFILES = ("core", "scale", "weights", "masking", "bias", "causal", "grouped", "purity")
FURTHER_PROFILES: Mapping[str, str] = {name: KEYWORDS[name].profile for name in UNCOMMON}
# The contract of a layer has no scale.
LAYER_PROFILES = (*(profile for profile in ATTENTION_PROFILES if profile != "scale"), "layers")
PROFILES_OF: Mapping[Kind, tuple[str, ...]] = {
    Kind.ATTENTION: ATTENTION_PROFILES, Kind.LAYER: LAYER_PROFILES, Kind.ROTARY: (ROTARY_PROFILE,)}

BESIDE_POOL: Mapping[str, tuple[str, ...]] = {
    CACHES_POOL: (SERVING_POOL,), GRADIENTS_POOL: (SERVING_POOL,), DROPOUT_POOL: (GRADIENTS_POOL,),
    **{pool: beside for aspect in all_mistakes() for pool, beside in aspect.beside_pool.items()}}
"""By pool, those whose keywords its faults take, too: past with lengths, not the reverse."""

FORMED: Mapping[InputForm, frozenset[str]] = {
    InputForm.PACKED: SAID_BY_BORDERS | EXPRESSED, InputForm.PAGED: HELD_IN_PAGES | {TABLE},
    InputForm.DECODER: BESIDE_CACHE.difference(acting_on(Acts.WEIGHTS)) | HELD_IN_CACHE | {CACHE}}
"""By form, the keywords that our functions of it take; none of our decoders drops weights."""

OTHER_PATH = "other_path"

RECOMMENDED: Mapping[str, str] = {convention.name: convention.recommended for convention in CONVENTIONS.values()}


def fault_named(name: str) -> Fault:
    """The fault of this name; `NAME@7` is the family NAME as seed 7 draws it.

    Raises TargetError, with the nearest name, if there is none, and for a seed that is no number
    or that draws nothing.
    """
    family, at, seed = name.partition(SEEDED)
    if family not in CATALOGUE:
        raise TargetError.unknown("fault", family, CATALOGUE)
    if not at:
        return CATALOGUE[family]
    if family not in FAMILIES:
        raise TargetError(f"{family!r} draws nothing, so no seed can follow it. Name it without {at}{seed}.")
    return draw_fault(FAMILIES[family], _seed(family, seed))


def _seed(family: str, seed: str) -> int:
    """The seed behind a family's name. Raises TargetError if it is no whole number."""
    if not SEED.fullmatch(seed):
        raise TargetError(f"{seed!r} is not a seed: write a whole number after the @, such as {family}{SEEDED}7.")
    return int(seed)


def recommended_answers(kind: Kind, keywords: Collection[str]) -> Mapping[str, str]:
    """The recommended answers to the conventions that such a subject is asked about."""
    return {name: RECOMMENDED[name] for name in asked_of(kind, keywords)}


def _keywords(fault: Fault) -> frozenset[str]:
    """The keywords that a fault's function takes.

    Keywords that few functions have are taken only by faults about such a keyword, and those of a
    pool only by faults of that pool: others show without them, and sooner.
    """
    if fault.kind is Kind.ROTARY:
        return frozenset(ROTARY)
    if fault.form is not InputForm.DENSE:
        return FORMED[fault.form] if fault.stage in OF_ENTRIES else FORMED[fault.form] - OF_ENTRIES
    taken = {word.name for word in KEYWORDS.values()
             if fault.kind in word.kinds and (word.in_layers or fault.kind is not Kind.LAYER)}
    taken |= {GRAD} if fault.backward else set()
    if fault.stage not in UNCOMMON:
        return frozenset(taken - set(UNCOMMON))
    pools = pools_beside(KEYWORDS[fault.stage].pool)
    return frozenset(name for name in taken if KEYWORDS[name].pool in pools)


def pools_beside(pool: str) -> frozenset[str]:
    """The pools whose keywords go with those of this pool."""
    return frozenset({"", pool, *BESIDE_POOL.get(pool, ())})


def claims_of(form: InputForm, profiles: Iterable[str], keywords: Collection[str], own: Iterable[str],
              ) -> tuple[str, ...]:
    """Its own claims; in the dense form, these profiles and those of its keywords before them."""
    if form is not InputForm.DENSE:
        return tuple(own)
    further = dict.fromkeys(profile for name, profile in FURTHER_PROFILES.items() if name in keywords)
    return (*profiles, *further, *own)


def _precision(fault: Fault) -> Mapping[DType, Mapping[str, object]]:
    """Where a fault rounds: once, at the end, in half dtypes; and what it says that it stores."""
    halves = {dtype: {"grade": "G0", "systematic": "accumulator"} for dtype in HALF_DTYPES}
    if not fault.words:
        return halves
    return {dtype: {**halves.get(dtype, {}), **fault.words} for dtype in DType}


def declaration_of(fault: Fault) -> Declaration:
    """The declaration of a fault.

    It claims all profiles and the recommended conventions; half dtypes have one rounding at the
    end (G0), and no systematic error beyond that of float32.
    """
    keywords = _keywords(fault)
    return Declaration(
        kind=fault.kind,
        form=fault.form,
        keywords=keywords,
        dtypes=tuple(dtype for dtype in DType if dtype not in fault.equivalents),
        left_out={dtype: f"no wrong answer at {dtype.value}: {why}" for dtype, why in fault.equivalents.items()},
        limits=fault.limits,
        conventions=recommended_answers(fault.kind, keywords),
        precision=_precision(fault),
        claims=claims_of(fault.form, PROFILES_OF[fault.kind], keywords, fault.claims),
        variants={OTHER_PATH: Variant(OTHER_PATH, "")} if fault.other_path else {})


COLUMNS = ("name", "kind", "stage", "story", "reach", "link")


def fault_row(fault: Fault) -> Mapping[str, str]:
    """One row of the table of faults, by column."""
    return {"name": fault.name, "kind": fault.kind.value, "stage": fault.stage, "story": fault.story,
            "reach": fault.reach, "link": fault.link}


def fault_table(faults: Iterable[Fault] = ALL) -> tuple[Mapping[str, str], ...]:
    """The table of faults, one row each, in the order of the stages."""
    return tuple(map(fault_row, faults))


def mechanisms() -> str:
    """The classes of real mistakes as a table in Markdown, with the faults that make them."""
    head = ["| mechanism | what happened to whom | faults that make it | left out |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(_cells(mechanism))} |" for mechanism in sorted(BUGS))])


def _cells(mechanism: str) -> Iterable[str]:
    yield mechanism
    yield ", ".join(f"[{_short(thread)}]({thread})" for thread in BUGS[mechanism])
    yield ", ".join(f"`{fault}`" for fault in faults_of(mechanism)) or "none"
    yield "; ".join(reason.value for reason in reasons_without_fault(mechanism)) or "nothing"


def _short(thread: str) -> str:
    """The library and number of a thread, such as `onnx 7118`, given its address."""
    *_, library, _, number = thread.split("/")
    return f"{library} {number}"
