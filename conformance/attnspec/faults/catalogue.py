"""Every fault by name, what each declares when it is judged, and the catalogue as a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.declaration import Declaration, Variant, asked_of
from attnspec.core.errors import TargetError
from attnspec.core.forms import (
    BESIDE_CACHE,
    EXPRESSED,
    HELD_IN_CACHE,
    HELD_IN_PAGES,
    OF_ENTRIES,
    SAID,
    STATE,
    TABLE,
    InputForm,
)
from attnspec.core.keyword import Acts
from attnspec.core.keyword_nouns import (
    CACHES_POOL,
    DROPOUT_POOL,
    GRAD,
    GRADIENTS_POOL,
    QUANTISED_POOL,
    SERVING_POOL,
)
from attnspec.core.keywords import KEYWORDS, UNCOMMON, acting_on
from attnspec.core.nouns import DType, Kind
from attnspec.core.rotary import POSITIONS, PROFILE, ROTARY
from attnspec.faults import (
    bias,
    blocks,
    causal,
    constants,
    drift,
    edges,
    exponential,
    heads,
    invariance,
    layers,
    made,
    masks,
    packed,
    paths,
    precision,
    purity,
    reports,
    softmax,
    state,
)
from attnspec.faults.fault import Fault
from attnspec.faults.mechanisms import BUGS, faults_of, outside
from attnspec.faults.mistakes import all_mistakes
from attnspec.faults.size_family import SEEDED
from attnspec.faults.sizes import make
from attnspec.faults.sizes.families import FAMILIES


def _faults_about(keyword: str) -> tuple[Fault, ...]:
    """The faults of a keyword: those of its own aspect, those of backward passes, then those of other aspects."""
    tables = (*(aspect.about for aspect in all_mistakes()), *({GRAD: aspect.backward} for aspect in all_mistakes()),
              *(aspect.beside for aspect in all_mistakes()))
    return tuple(fault for table in tables for fault in table.get(keyword, ()))


FIXED: tuple[Fault, ...] = (
    *_faults_about("scale"), *heads.FAULTS, *exponential.FAULTS, *bias.FAULTS, *masks.FAULTS, *constants.FAULTS,
    *causal.FAULTS, *softmax.FAULTS, *blocks.FAULTS, *edges.TAILS, *reports.FAULTS, *precision.FAULTS, *state.FAULTS,
    *purity.FAULTS, *layers.FAULTS, *paths.SWITCHES, *drift.FAULTS, *edges.READS, *paths.FAULTS, *packed.FAULTS,
    *_faults_about(POSITIONS), *invariance.FAULTS, *(fault for aspect in all_mistakes() for fault in aspect.left_on),
    *(fault for name in UNCOMMON for fault in _faults_about(name)), *made.FAULTS,
)
"""The faults that have no number to draw. The matrix of clauses and faults is about these."""

ALL: tuple[Fault, ...] = (*FIXED, *make.FAULTS)
"""All faults: those that show only at certain sizes come last, as seed 0 draws them."""

CATALOGUE: Mapping[str, Fault] = {fault.name: fault for fault in ALL}

SEED = re.compile(r"-?\d{1,18}", re.ASCII)

ATTENTION_PROFILES = ("core", "scale", "weights", "masking", "bias", "causal", "grouped", "purity")
FURTHER_PROFILES: Mapping[str, str] = {name: KEYWORDS[name].profile for name in UNCOMMON}
# The contract of a layer has no scale.
LAYER_PROFILES = (*(profile for profile in ATTENTION_PROFILES if profile != "scale"), "layers")
PROFILES_OF: Mapping[Kind, tuple[str, ...]] = {
    Kind.ATTENTION: ATTENTION_PROFILES, Kind.LAYER: LAYER_PROFILES, Kind.ROTARY: (PROFILE,)}

BESIDE_POOL: Mapping[str, tuple[str, ...]] = {
    CACHES_POOL: (SERVING_POOL,), GRADIENTS_POOL: (SERVING_POOL,), DROPOUT_POOL: (GRADIENTS_POOL,),
    QUANTISED_POOL: (SERVING_POOL, CACHES_POOL)}
"""By pool, those whose keywords its faults take, too: a past is met with lengths, and not the other way round."""

FORMED: Mapping[InputForm, frozenset[str]] = {
    InputForm.PACKED: SAID | EXPRESSED, InputForm.PAGED: HELD_IN_PAGES | {TABLE},
    InputForm.DECODER: BESIDE_CACHE.difference(acting_on(Acts.WEIGHTS)) | HELD_IN_CACHE | {STATE}}
"""By form, the keywords that our own functions of this form take: all that it has a place for, but no decoder drops."""

OTHER_PATH = "other_path"

RECOMMENDED: Mapping[str, str] = {convention.name: convention.recommended for convention in CONVENTIONS.values()}


def fault_named(name: str) -> Fault:
    """The fault of this name; `NAME@7` is the family NAME as seed 7 draws it.

    Raises TargetError, with the nearest name, where there is none, and for a seed that is none or that nothing takes.
    """
    family, at, seed = name.partition(SEEDED)
    if family not in CATALOGUE:
        raise TargetError.unknown("fault", family, CATALOGUE)
    if not at:
        return CATALOGUE[family]
    if family not in FAMILIES:
        raise TargetError(f"{family!r} draws nothing, so no seed can follow it. Name it without {at}{seed}.")
    return make.drawn(FAMILIES[family], _seed(family, seed))


def _seed(family: str, seed: str) -> int:
    """The seed as it is written after a family's name. Raises TargetError for what is no whole number."""
    if not SEED.fullmatch(seed):
        raise TargetError(f"{seed!r} is not a seed: write a whole number after the @, such as {family}{SEEDED}7.")
    return int(seed)


def recommended(kind: Kind, keywords: Collection[str]) -> Mapping[str, str]:
    """The recommended answer to each convention that a subject of this kind with these keywords is asked."""
    return {name: RECOMMENDED[name] for name in asked_of(kind, keywords)}


def _keywords(fault: Fault) -> frozenset[str]:
    """All but those that layers are not put. Keywords that few functions have only where something of such a one is
    wrong, and those of a pool only where one of that pool is: the other faults show without, and sooner.
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
    pools = {"", *BESIDE_POOL.get(pool := KEYWORDS[fault.stage].pool, ()), pool}
    return frozenset(name for name in taken if KEYWORDS[name].pool in pools)


def declaration_of(fault: Fault) -> Declaration:
    """All profiles claimed, the recommended conventions, and one rounding at the end (G0) for the half dtypes, with no
    systematic error beyond that of float32.
    """
    keywords, profiles = _keywords(fault), PROFILES_OF[fault.kind]
    return Declaration(
        kind=fault.kind,
        form=fault.form,
        keywords=keywords,
        dtypes=tuple(dtype for dtype in DType if dtype not in fault.equivalents),
        left_out={dtype: f"no wrong answer at {dtype.value}: {why}" for dtype, why in fault.equivalents.items()},
        limits=fault.limits,
        conventions=recommended(fault.kind, keywords),
        precision={dtype: {"grade": "G0", "systematic": "accumulator"} for dtype in (DType.FLOAT16, DType.BFLOAT16)},
        claims=() if fault.form is not InputForm.DENSE else (
            *profiles, *dict.fromkeys(profile for name, profile in FURTHER_PROFILES.items() if name in keywords),
            *fault.claims),
        variants={OTHER_PATH: Variant(OTHER_PATH, "")} if fault.other_path else {})


COLUMNS = ("name", "kind", "stage", "story", "reach", "link")


def fault_row(fault: Fault) -> Mapping[str, str]:
    """What the table says of one fault, by column."""
    return {"name": fault.name, "kind": fault.kind.value, "stage": fault.stage, "story": fault.story,
            "reach": fault.reach, "link": fault.link}


def fault_table(faults: Iterable[Fault] = ALL) -> tuple[Mapping[str, str], ...]:
    """One row a fault, in the order of the stages."""
    return tuple(fault_row(fault) for fault in faults)


def mechanisms() -> str:
    """The classes of real mistakes as a table in Markdown: threads, faults that make them, and why some have none."""
    head = ["| mechanism | what happened to whom | faults that make it | left out |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(_cells(mechanism))} |" for mechanism in sorted(BUGS))])


def _cells(mechanism: str) -> Iterable[str]:
    yield mechanism
    yield ", ".join(f"[{_short(thread)}]({thread})" for thread in BUGS[mechanism])
    yield ", ".join(f"`{fault}`" for fault in faults_of(mechanism)) or "none"
    yield "; ".join(reason.value for reason in outside(mechanism)) or "nothing"


def _short(thread: str) -> str:
    """The library and the number: `onnx 7118` of https://github.com/onnx/onnx/issues/7118."""
    *_, library, _, number = thread.split("/")
    return f"{library} {number}"
