"""Every fault by name, and what each declares when it stands in the dock."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from attnspec.faults import (
    bias,
    blocks,
    causal,
    constants,
    drift,
    exponential,
    heads,
    layers,
    masks,
    paths,
    precision,
    purity,
    reads,
    reports,
    scale,
    softmax,
    state,
    switches,
    tails,
)
from attnspec.faults.fault import Fault
from attnspec.ground.conventions import CONVENTIONS
from attnspec.ground.declaration import Declaration, Variant
from attnspec.ground.errors import TargetError
from attnspec.ground.keywords import KEYWORDS, UNCOMMON
from attnspec.ground.nouns import DType, Kind

ALL: tuple[Fault, ...] = (
    *scale.FAULTS, *heads.FAULTS, *exponential.FAULTS, *bias.FAULTS, *masks.FAULTS, *constants.FAULTS, *causal.FAULTS,
    *softmax.FAULTS, *blocks.FAULTS, *tails.FAULTS, *reports.FAULTS, *precision.FAULTS, *state.FAULTS, *purity.FAULTS,
    *layers.FAULTS, *switches.FAULTS, *drift.FAULTS, *reads.FAULTS, *paths.FAULTS,
    *(fault for name in UNCOMMON for fault in import_module(f"attnspec.faults.{name}").FAULTS),
)
CATALOGUE: Mapping[str, Fault] = {fault.name: fault for fault in ALL}

ATTENTION_PROFILES = ("core", "scale", "weights", "masking", "bias", "causal", "grouped", "purity")
FURTHER_PROFILES = tuple(KEYWORDS[name].profile for name in UNCOMMON)
# The contract of a layer has no scale.
LAYER_PROFILES = (*(profile for profile in ATTENTION_PROFILES if profile != "scale"), "layers")

OTHER_PATH = "other_path"

RECOMMENDED: Mapping[str, str] = {convention.name: convention.recommended for convention in CONVENTIONS.values()}


def fault_named(name: str) -> Fault:
    """The fault of this name. Raises TargetError, with the nearest name, where there is none."""
    if name not in CATALOGUE:
        raise TargetError.unknown("fault", name, CATALOGUE)
    return CATALOGUE[name]


def _keywords(fault: Fault) -> frozenset[str]:
    """All but those that layers are not put. Keywords that few functions have only where something of such a one is
    wrong: the other faults show without, and sooner.
    """
    taken = {word.name for word in KEYWORDS.values()
             if fault.kind in word.kinds and (word.in_layers or fault.kind is not Kind.LAYER)}
    return frozenset(taken if fault.stage.value in UNCOMMON else taken - set(UNCOMMON))


def declaration_of(fault: Fault) -> Declaration:
    """All profiles claimed, the recommended conventions, and one rounding at the end (G0) for the half dtypes, with no
    systematic error beyond that of float32.
    """
    keywords, profiles = _keywords(fault), LAYER_PROFILES if fault.kind is Kind.LAYER else ATTENTION_PROFILES
    return Declaration(
        kind=fault.kind,
        keywords=keywords,
        dtypes=tuple(dtype for dtype in DType if dtype not in fault.equivalents),
        left_out={dtype: f"no wrong answer at {dtype.value}: {why}" for dtype, why in fault.equivalents.items()},
        limits=fault.limits,
        conventions=RECOMMENDED,
        precision={dtype: {"grade": "G0", "systematic": "accumulator"} for dtype in (DType.FLOAT16, DType.BFLOAT16)},
        claims=(*profiles, *(name for name in FURTHER_PROFILES if name in keywords)),
        variants={OTHER_PATH: Variant(OTHER_PATH, "")} if fault.other_path else {})
